//! Operator actions whose intent is recorded and whose outcome is not (design invariant 7).

use async_trait::async_trait;

use super::{BuiltIn, Check, Ground, Look};
use crate::base::clock::Timestamp;
use crate::model::operation::Operation;
use crate::model::scan::{Difference, Fact, Suggestion};
use crate::store::StoreError;

/// Its entry.
pub const CHECK: BuiltIn = BuiltIn {
    name: "intents-without-outcome",
    about: "Operator actions that were begun and whose outcome nobody knows",
    build: || Box::new(Intents),
};

/// Operations looked at; there are never many.
const OPERATIONS: u32 = 500;

struct Intents;

fn changed_at(operation: &Operation) -> Timestamp {
    let items = operation.items.iter().filter(|item| !item.state.is_final());
    items
        .map(|item| item.updated_at)
        .max()
        .unwrap_or(operation.created_at)
}

fn difference(part: &str, operation: &Operation) -> Difference {
    let open: Vec<_> = operation
        .items
        .iter()
        .filter(|item| !item.state.is_final())
        .collect();
    let since = changed_at(operation);
    Difference {
        class: "intent_without_outcome".to_owned(),
        subject: operation.operation_id.to_string(),
        service: part.to_owned(),
        summary: format!(
            "the {} that {} began has no outcome for {} of {} items",
            operation.verb.word(),
            operation.actor,
            open.len(),
            operation.items.len()
        ),
        event_id: open.first().and_then(|item| item.event_id.clone()),
        consumer: open.first().and_then(|item| item.consumer.clone()),
        since: Some(since),
        at: None,
        facts: vec![
            Fact::new("state", operation.state.word()),
            Fact::new("begun_at", operation.created_at.to_rfc3339()),
            Fact::new("reason", &operation.reason),
        ],
        suggestion: Some(Suggestion {
            verb: "look".to_owned(),
            target: operation.operation_id.to_string(),
            service: part.to_owned(),
            command: format!("redrive operations show {}", operation.operation_id),
        }),
    }
}

async fn unfinished(ground: &Ground, part: &str) -> Result<Look, StoreError> {
    let store = ground.store(part)?;
    let operations = store.unfinished_operations(OPERATIONS).await?;
    let now = store.probe().await?.database_now;
    let mut look = Look {
        examined: operations.len() as u64,
        rows_read: operations.iter().map(|o| 1 + o.items.len() as u64).sum(),
        ..Look::default()
    };
    if operations.len() >= OPERATIONS as usize {
        look.notes.push(format!(
            "the oldest {OPERATIONS} unfinished operations of {part} were looked at"
        ));
    }
    for operation in &operations {
        // A proof has its own deadline; until then the outcome is on its way.
        let deadline = ground.ports.context.thresholds.proof_deadline;
        let since = changed_at(operation).plus(deadline.saturating_sub(ground.grace));
        if ground.is_over(Some(since), now) {
            look.differences.push(difference(part, operation));
        } else {
            look.in_flight += 1;
        }
    }
    Ok(look)
}

#[async_trait]
impl Check for Intents {
    fn parts(&self, ground: &Ground) -> Vec<String> {
        ground.services(|service| service.journal)
    }

    async fn page(
        &self,
        ground: &Ground,
        part: &str,
        _after: Option<&str>,
    ) -> Result<Look, StoreError> {
        unfinished(ground, part).await
    }

    async fn again(
        &self,
        ground: &Ground,
        part: &str,
        suspects: Vec<Difference>,
    ) -> Result<Look, StoreError> {
        let mut look = unfinished(ground, part).await?;
        look.differences.retain(|difference| {
            suspects
                .iter()
                .any(|suspect| suspect.subject == difference.subject)
        });
        look.in_flight = 0;
        Ok(look)
    }
}
