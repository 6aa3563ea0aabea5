//! The same id with other content: what a consumer has done is not what the outbox says.

use std::collections::HashMap;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::{BuiltIn, Check, Ground, Look};
use crate::base::clock::Timestamp;
use crate::model::ids::EventId;
use crate::model::inbox::InboxRow;
use crate::model::scan::{Difference, Fact, NotCompared, Suggestion};
use crate::store::StoreError;

/// Its entry.
pub const CHECK: BuiltIn = BuiltIn {
    name: "other-content",
    about: "Inbox rows whose payload is not the one in the outbox",
    build: || Box::<Content>::default(),
};

/// Rows a page: payloads are read.
const PAGE: u32 = 100;

#[derive(Default)]
struct Content {
    /// What the first look saw of each suspect.
    seen: Mutex<HashMap<String, InboxRow>>,
}

impl Content {
    async fn judge(
        &self,
        ground: &Ground,
        part: &str,
        (rows, now): (Vec<InboxRow>, Timestamp),
        look: &mut Look,
    ) {
        let ids: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
        let mut originals: HashMap<EventId, (String, String)> = HashMap::new();
        for name in ground.services(|service| service.outbox.is_some()) {
            let read = match ground.store(&name) {
                Ok(store) => store.find_events(&ids, true).await,
                Err(error) => Err(error),
            };
            match read {
                Ok(events) => {
                    look.rows_read += events.len() as u64;
                    for event in events {
                        if let Some(digest) = event.payload_sha256 {
                            originals.insert(event.event_id, (name.clone(), digest));
                        }
                    }
                }
                Err(error) => look.miss(format!("outbox of {name}"), &error),
            }
        }
        let mut seen = self.seen.lock().await;
        for row in rows {
            let Some(digest) = &row.payload_sha256 else {
                look.not_compared.push(NotCompared {
                    what: format!("inbox of {part}"),
                    reason: "this layout keeps no digest of what was consumed".to_owned(),
                    is_unreachable: false,
                });
                return;
            };
            let Some((emitter, original)) = originals.get(&row.event_id) else {
                continue;
            };
            if digest == original {
                continue;
            }
            if !ground.is_over(Some(row.processed_at), now) {
                look.in_flight += 1;
                continue;
            }
            let difference = difference(&row, digest, (emitter, original));
            seen.insert(difference.subject.clone(), row);
            look.differences.push(difference);
        }
    }
}

fn difference(row: &InboxRow, digest: &str, (emitter, original): (&str, &str)) -> Difference {
    let (consumer, id) = (&row.consumer, &row.event_id);
    Difference {
        class: "other_content".to_owned(),
        subject: format!("{consumer} {id}"),
        service: emitter.to_owned(),
        summary: format!("{consumer} consumed this id with another payload than the outbox has"),
        event_id: Some(id.clone()),
        consumer: Some(consumer.clone()),
        since: Some(row.processed_at),
        at: Some(row.processed_at),
        facts: vec![
            Fact::new("processed_at", row.processed_at.to_rfc3339()),
            Fact::new("consumed sha256", digest),
            Fact::new("outbox sha256", original),
        ],
        suggestion: Some(Suggestion {
            verb: "look".to_owned(),
            target: id.to_string(),
            service: emitter.to_owned(),
            command: format!("redrive outbox --state sent --filter id:{id}"),
        }),
    }
}

#[async_trait]
impl Check for Content {
    fn parts(&self, ground: &Ground) -> Vec<String> {
        ground.services(|service| service.inbox.is_some())
    }

    fn is_windowed(&self) -> bool {
        true
    }

    async fn page(
        &self,
        ground: &Ground,
        part: &str,
        after: Option<&str>,
    ) -> Result<Look, StoreError> {
        let walk = ground
            .store(part)?
            .walk_inbox(&ground.from(after, PAGE))
            .await?;
        let mut look = Look::of_page(&walk);
        self.judge(ground, part, (walk.rows, walk.now), &mut look)
            .await;
        Ok(look)
    }

    async fn again(
        &self,
        ground: &Ground,
        part: &str,
        suspects: Vec<Difference>,
    ) -> Result<Look, StoreError> {
        let rows: Vec<InboxRow> = {
            let seen = self.seen.lock().await;
            suspects
                .iter()
                .filter_map(|suspect| seen.get(&suspect.subject).cloned())
                .collect()
        };
        let store = ground.store(part)?;
        let now = store.probe().await?.database_now;
        // The row as it is now: it may have been archived, or mended.
        let ids: Vec<EventId> = rows.into_iter().map(|row| row.event_id).collect();
        let rows = store.find_consumed(&ids).await?;
        let mut look = Look {
            rows_read: rows.len() as u64,
            ..Look::default()
        };
        self.judge(ground, part, (rows, now), &mut look).await;
        Ok(look)
    }
}
