//! In an inbox, and in no outbox: an effect that no event of ours asked for, or one that was kept under
//! another id than its event's, so that it happened twice (C-04).

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::{BuiltIn, Check, Ground, Look, PAGE};
use crate::base::clock::Timestamp;
use crate::model::ids::EventId;
use crate::model::inbox::InboxRow;
use crate::model::scan::{Difference, Fact, NotCompared, Suggestion};
use crate::store::StoreError;
use crate::store::scan::WalkFrom;

/// Its entry.
pub const CHECK: BuiltIn = BuiltIn {
    name: "inbox-without-outbox",
    about: "Inbox rows whose event is in no outbox of the context",
    build: || Box::<Orphans>::default(),
};

/// Digests remembered, to find an effect that happened twice.
const DIGESTS_MAX: usize = 100_000;

#[derive(Default)]
struct Orphans {
    /// Which event had a payload, by consumer and digest.
    digests: Mutex<HashMap<(String, String), EventId>>,
    /// How far back each outbox reaches; `None`: it is empty.
    reach: Mutex<HashMap<String, Option<Timestamp>>>,
    /// What the first look saw of each suspect.
    seen: Mutex<HashMap<String, InboxRow>>,
}

impl Orphans {
    /// Which of these ids are in an outbox, and since when every outbox can tell. `None`: not every one could
    /// be read, so nothing can be called an orphan.
    async fn known(
        &self,
        ground: &Ground,
        ids: &[EventId],
        look: &mut Look,
    ) -> Option<(HashSet<EventId>, Option<Timestamp>)> {
        let mut known = HashSet::new();
        let mut since = None;
        let mut is_whole = true;
        for name in ground.services(|service| service.outbox.is_some()) {
            let read = async {
                let store = ground.store(&name)?;
                Ok::<_, StoreError>((
                    store.find_events(ids, false).await?,
                    self.reach(ground, &name).await?,
                ))
            };
            match read.await {
                Ok((events, reach)) => {
                    look.rows_read += events.len() as u64;
                    known.extend(events.into_iter().map(|event| event.event_id));
                    since = since.max(reach);
                    if reach.is_none() {
                        look.notes.push(format!(
                            "the outbox of {name} is empty: nothing to compare there"
                        ));
                    }
                }
                Err(error) => {
                    look.miss(format!("outbox of {name}"), &error);
                    is_whole = false;
                }
            }
        }
        is_whole.then_some((known, since))
    }

    /// When the oldest sent row was written: what is older may have been deleted.
    async fn reach(&self, ground: &Ground, name: &str) -> Result<Option<Timestamp>, StoreError> {
        let mut known = self.reach.lock().await;
        if let Some(reach) = known.get(name) {
            return Ok(*reach);
        }
        let first = WalkFrom {
            window: std::time::Duration::from_hours(24 * 365 * 20),
            after: None,
            limit: 1,
        };
        let walk = ground.store(name)?.walk_sent(&first).await?;
        let reach = walk.rows.first().map(|row| row.created_at);
        known.insert(name.to_owned(), reach);
        Ok(reach)
    }

    async fn judge(
        &self,
        ground: &Ground,
        part: &str,
        (rows, now): (Vec<InboxRow>, Timestamp),
        look: &mut Look,
    ) {
        let ids: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
        let Some((known, since)) = self.known(ground, &ids, look).await else {
            return;
        };
        let Some(since) = since else {
            look.not_compared.push(NotCompared {
                what: format!("inbox of {part}"),
                reason: "no outbox has a sent row: nothing to compare with".to_owned(),
                is_unreachable: false,
            });
            return;
        };
        let mut digests = self.digests.lock().await;
        let mut seen = self.seen.lock().await;
        for row in rows {
            let key = row
                .payload_sha256
                .clone()
                .map(|digest| (row.consumer.to_string(), digest));
            if known.contains(&row.event_id) {
                if digests.len() < DIGESTS_MAX {
                    if let Some(key) = key {
                        digests.entry(key).or_insert(row.event_id);
                    }
                } else {
                    look.notes.push(format!(
                        "digests of {DIGESTS_MAX} rows were compared to tell what was consumed twice"
                    ));
                }
            } else if row.processed_at < since {
                look.explain("older than every outbox reaches back");
            } else if ground.is_over(Some(row.processed_at), now) {
                let twin = key.and_then(|key| digests.get(&key).cloned());
                let difference = difference(part, &row, twin);
                seen.insert(difference.subject.clone(), row);
                look.differences.push(difference);
            } else {
                look.in_flight += 1;
            }
        }
    }
}

fn difference(part: &str, row: &InboxRow, twin: Option<EventId>) -> Difference {
    let consumer = &row.consumer;
    let mut facts = vec![Fact::new("processed_at", row.processed_at.to_rfc3339())];
    if let Some(digest) = &row.payload_sha256 {
        facts.push(Fact::new("payload_sha256", digest));
    }
    let (class, summary) = match &twin {
        Some(twin) => {
            facts.push(Fact::new("same content as", twin.as_str()));
            (
                "consumed_twice",
                format!(
                    "{consumer} consumed the content of event {twin} a second time under another id"
                ),
            )
        }
        None => (
            "inbox_without_outbox",
            format!("{consumer} consumed an event that is in no outbox of the context"),
        ),
    };
    Difference {
        class: class.to_owned(),
        subject: format!("{consumer} {}", row.event_id),
        service: part.to_owned(),
        summary,
        event_id: Some(row.event_id.clone()),
        consumer: Some(consumer.clone()),
        since: Some(row.processed_at),
        at: Some(row.processed_at),
        facts,
        suggestion: twin.map(|twin| Suggestion {
            verb: "look".to_owned(),
            target: twin.to_string(),
            service: part.to_owned(),
            command: format!("redrive outbox --state sent --filter id:{twin}"),
        }),
    }
}

#[async_trait]
impl Check for Orphans {
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
        if !walk.rows.is_empty() {
            self.judge(ground, part, (walk.rows, walk.now), &mut look)
                .await;
        }
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
        let now = ground.store(part)?.probe().await?.database_now;
        let mut look = Look::default();
        self.judge(ground, part, (rows, now), &mut look).await;
        Ok(look)
    }
}
