//! Payload terms of a filter: list rows carry no payload, so each row of a page is looked up once and
//! the verdict is remembered. Payloads do not change under an identity, so a page that is shown for an
//! hour costs one look-up a row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::Service;
use crate::model::dead_letter::DeadLetter;
use crate::model::filter::{Fields, Filter};
use crate::model::outbox::OutboxRow;
use crate::store::Store;

use super::Observer;
use super::snapshot::Unread;

/// Verdicts that are remembered at most; when full it starts again from empty.
const REMEMBERED: usize = 10_000;

/// What was found for a filter and an identity of bytes.
#[derive(Default)]
pub(super) struct Verdicts(Mutex<HashMap<(String, String), bool>>);

impl Verdicts {
    fn get(&self, key: &(String, String)) -> Option<bool> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).copied()
    }

    fn remember(&self, key: (String, String), verdict: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, verdict);
    }
}

impl Observer {
    /// The rows whose payload satisfies `filter`.
    pub(super) async fn with_payload(
        &self,
        service: &Service,
        store: &Arc<dyn Store>,
        rows: Vec<OutboxRow>,
        filter: &Filter,
    ) -> Result<Vec<OutboxRow>, Unread> {
        let mut out = Vec::new();
        for row in rows {
            let key = (filter.to_string(), row.event_id.to_string());
            let verdict = if let Some(known) = self.verdicts.get(&key) {
                known
            } else {
                let read = store.outbox_event(&row.event_id);
                let read = self.reader.store(&service.name, "outbox payload", read);
                self.judge(key, filter, read.await?.as_ref())
            };
            if verdict {
                out.push(row);
            }
        }
        Ok(out)
    }

    /// The dead letters whose payload satisfies `filter`.
    pub(super) async fn letters_with_payload(
        &self,
        service: &Service,
        store: &Arc<dyn Store>,
        rows: Vec<DeadLetter>,
        filter: &Filter,
    ) -> Result<Vec<DeadLetter>, Unread> {
        let mut out = Vec::new();
        for row in rows {
            let key = (filter.to_string(), row.payload_sha256.clone());
            let verdict = if let Some(known) = self.verdicts.get(&key) {
                known
            } else {
                let read = store.dead_letter(&row.dead_letter_id);
                let read = self
                    .reader
                    .store(&service.name, "dead letter payload", read);
                self.judge(key, filter, read.await?.as_ref())
            };
            if verdict {
                out.push(row);
            }
        }
        Ok(out)
    }

    /// A row that went away between the page and the look-up matches nothing, and is asked again.
    fn judge<T: Fields>(&self, key: (String, String), filter: &Filter, row: Option<&T>) -> bool {
        let Some(row) = row else {
            return false;
        };
        let verdict = filter.matches(row, self.ports.clock.now());
        self.verdicts.remember(key, verdict);
        verdict
    }
}
