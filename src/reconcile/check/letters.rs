//! Dead letters that wait for a person, and nobody has taken them.

use async_trait::async_trait;

use super::{BuiltIn, Check, Ground, Look, PAGE, place, placed};
use crate::model::dead_letter::{DeadLetter, DeadLetterQuery, DeadLetterStatus};
use crate::model::ids::DeadLetterId;
use crate::model::page::Cursor;
use crate::model::scan::{Difference, Fact, Suggestion};
use crate::store::StoreError;

/// Its entry.
pub const CHECK: BuiltIn = BuiltIn {
    name: "dead-letters-unowned",
    about: "Open dead letters that nobody looks after",
    build: || Box::new(Unowned),
};

struct Unowned;

fn difference(part: &str, letter: &DeadLetter) -> Difference {
    let kind = letter.event_type.as_deref().unwrap_or("a message");
    let target = letter
        .event_id
        .as_ref()
        .map_or_else(|| letter.dead_letter_id.to_string(), ToString::to_string);
    Difference {
        class: "dead_letter_unowned".to_owned(),
        subject: letter.dead_letter_id.to_string(),
        service: part.to_owned(),
        summary: format!(
            "{kind} is dead at {} ({}), and nobody looks after it",
            letter.consumer, letter.error_class
        ),
        event_id: letter.event_id.clone(),
        consumer: Some(letter.consumer.clone()),
        since: Some(letter.last_died_at),
        at: None,
        facts: vec![
            Fact::new("cause", &letter.error_class),
            Fact::new("deaths", letter.deaths.to_string()),
            Fact::new("died_at", letter.last_died_at.to_rfc3339()),
        ],
        suggestion: Some(Suggestion {
            verb: "replay".to_owned(),
            service: part.to_owned(),
            command: format!("redrive replay {target} --consumer {}", letter.consumer),
            target,
        }),
    }
}

#[async_trait]
impl Check for Unowned {
    fn parts(&self, ground: &Ground) -> Vec<String> {
        ground.services(|service| service.dead_letters.is_some())
    }

    async fn page(
        &self,
        ground: &Ground,
        part: &str,
        after: Option<&str>,
    ) -> Result<Look, StoreError> {
        let store = ground.store(part)?;
        let query = DeadLetterQuery {
            status: DeadLetterStatus::Open,
            consumer: None,
            event_type: None,
            error_class: None,
            after: after.and_then(place::<Cursor>),
            limit: PAGE,
        };
        let page = store.dead_letter_page(&query).await?;
        let now = store.probe().await?.database_now;
        let mut look = Look {
            examined: page.rows.len() as u64,
            rows_read: page.rows.len() as u64,
            next: page.next.as_ref().and_then(placed),
            ..Look::default()
        };
        for letter in page.rows.iter().filter(|letter| letter.owner.is_none()) {
            if ground.is_over(Some(letter.last_died_at), now) {
                look.differences.push(difference(part, letter));
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
        let store = ground.store(part)?;
        let mut look = Look::default();
        for suspect in suspects {
            let id = DeadLetterId::new(suspect.subject.clone());
            let Some(detail) = store.dead_letter(&id).await? else {
                continue;
            };
            look.rows_read += 1;
            let letter = &detail.letter;
            if letter.status == DeadLetterStatus::Open && letter.owner.is_none() {
                look.differences.push(difference(part, letter));
            }
        }
        Ok(look)
    }
}
