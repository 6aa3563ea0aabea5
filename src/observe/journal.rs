//! Operations and the audit log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::Service;
use crate::model::ids::OperationId;
use crate::model::operation::{Operation, OperationState};
use crate::store::{Store, StoreResult};

use super::Observer;
use super::reader::nothing_read;
use super::snapshot::{AuditSnapshot, OperationSnapshot, Unread};

/// Finished operations that are remembered at most; when full it starts again from empty.
const REMEMBERED: usize = 1_000;

/// Finished operations with their items. They never change again, so the pane reads them once.
#[derive(Default)]
pub(super) struct FinishedOperations(Mutex<HashMap<OperationId, Operation>>);

impl FinishedOperations {
    fn get(&self, id: &OperationId) -> Option<Operation> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned()
    }

    fn remember(&self, operation: &Operation) {
        let is_final = operation.state == OperationState::Finished
            && operation.items.iter().all(|item| item.state.is_final());
        if !is_final {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(operation.operation_id.clone(), operation.clone());
    }
}

/// The operation as it must be shown. The lease of a console is judged by the database's clock, which
/// is asked only while there is such a lease.
pub(crate) async fn shown(store: &Arc<dyn Store>, operation: Operation) -> StoreResult<Operation> {
    if !operation.is_held() {
        return Ok(operation);
    }
    let now = store.probe().await?.database_now;
    Ok(operation.shown_at(now))
}

impl Observer {
    /// Operations, newest first.
    pub async fn operations(&self, limit: u32) -> OperationSnapshot {
        let services = self
            .of_services(
                |service| service.journal,
                |service, store| self.operations_of(service, store, limit),
            )
            .await;
        OperationSnapshot { services }
    }

    async fn operations_of(
        &self,
        service: &Service,
        store: &Arc<dyn Store>,
        limit: u32,
    ) -> Result<Vec<Operation>, Unread> {
        let page = self
            .reader
            .store(
                &service.name,
                "operations",
                store.operations_page(None, limit),
            )
            .await?;
        let mut out = Vec::with_capacity(page.rows.len());
        for row in page.rows {
            if let Some(known) = self.finished.get(&row.operation_id) {
                out.push(known);
                continue;
            }
            let whole = self
                .reader
                .store(
                    &service.name,
                    "operation items",
                    store.operation(&row.operation_id),
                )
                .await?;
            let operation = whole.unwrap_or(row);
            self.finished.remember(&operation);
            out.push(
                self.reader
                    .store(&service.name, "operations", shown(store, operation))
                    .await?,
            );
        }
        Ok(out)
    }

    /// Audit entries, newest first.
    pub async fn audit(&self, limit: u32) -> AuditSnapshot {
        let services = self
            .of_services(
                |service| service.journal,
                |service, store| {
                    self.reader
                        .store(&service.name, "audit log", store.audit_page(None, limit))
                },
            )
            .await;
        AuditSnapshot { services }
    }
}

impl OperationSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        nothing_read(&self.services)
    }
}

impl AuditSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        nothing_read(&self.services)
    }
}
