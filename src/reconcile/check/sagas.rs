//! Sagas that are open past their deadline.

use async_trait::async_trait;

use super::{BuiltIn, Check, Ground, Look, PAGE, place, placed};
use crate::model::ids::SagaId;
use crate::model::page::Cursor;
use crate::model::saga::SagaState;
use crate::model::scan::{Difference, Fact, Suggestion};
use crate::store::StoreError;
use crate::store::scan::OverdueSaga;

/// Its entry.
pub const CHECK: BuiltIn = BuiltIn {
    name: "sagas-overdue",
    about: "Sagas that are still open past their deadline",
    build: || Box::new(Overdue),
};

/// States that are not the end.
const OPEN: [SagaState; 3] = [
    SagaState::Running,
    SagaState::Compensating,
    SagaState::CompensationFailed,
];

struct Overdue;

/// A part is a state of a service's sagas.
fn parts_of(part: &str) -> Option<(&str, SagaState)> {
    let (service, word) = part.split_once(", ")?;
    let state = OPEN.into_iter().find(|state| state.word() == word)?;
    Some((service, state))
}

fn difference(service: &str, state: SagaState, saga: &OverdueSaga) -> Difference {
    let id = &saga.saga_id;
    let command = if state == SagaState::CompensationFailed {
        "saga retry"
    } else {
        "saga query"
    };
    let mut facts = vec![
        Fact::new("state", state.word()),
        Fact::new("deadline_at", saga.deadline_at.to_rfc3339()),
        Fact::new("changed_at", saga.updated_at.to_rfc3339()),
    ];
    if let Some(owner) = &saga.owner {
        facts.push(Fact::new("owner", owner));
    }
    Difference {
        class: "saga_overdue".to_owned(),
        subject: id.to_string(),
        service: service.to_owned(),
        summary: format!(
            "{} {} is {} past its deadline",
            saga.saga_type,
            saga.business_key,
            state.word()
        ),
        event_id: None,
        consumer: None,
        since: Some(saga.updated_at),
        at: None,
        facts,
        suggestion: Some(Suggestion {
            verb: command.to_owned(),
            target: id.to_string(),
            service: service.to_owned(),
            command: format!("redrive {command} {id}"),
        }),
    }
}

#[async_trait]
impl Check for Overdue {
    fn parts(&self, ground: &Ground) -> Vec<String> {
        let services = ground.services(|service| service.sagas.is_some());
        let states = |service: String| OPEN.map(|state| format!("{service}, {}", state.word()));
        services.into_iter().flat_map(states).collect()
    }

    async fn page(
        &self,
        ground: &Ground,
        part: &str,
        after: Option<&str>,
    ) -> Result<Look, StoreError> {
        let Some((service, state)) = parts_of(part) else {
            return Ok(Look::default());
        };
        let after = after.and_then(place::<Cursor>);
        let walk = ground
            .store(service)?
            .overdue_sagas(state, after.as_ref(), PAGE)
            .await?;
        let mut look = Look {
            examined: walk.rows.len() as u64,
            rows_read: walk.rows.len() as u64,
            next: walk.next.as_ref().and_then(placed),
            ..Look::default()
        };
        for saga in &walk.rows {
            if ground.is_over(Some(saga.updated_at), walk.now) {
                look.differences.push(difference(service, state, saga));
            } else {
                look.in_flight += 1;
            }
        }
        Ok(look)
    }

    async fn again(
        &self,
        ground: &Ground,
        part: &str,
        suspects: Vec<Difference>,
    ) -> Result<Look, StoreError> {
        let Some((service, state)) = parts_of(part) else {
            return Ok(Look::default());
        };
        let store = ground.store(service)?;
        let mut look = Look::default();
        for suspect in suspects {
            let found = store.saga(&SagaId::new(suspect.subject.clone())).await?;
            look.rows_read += 1;
            // Moved since: the clock runs anew.
            if found
                .is_some_and(|saga| saga.state == state && Some(saga.updated_at) == suspect.since)
            {
                look.differences.push(suspect);
            }
        }
        Ok(look)
    }
}
