//! What is counted at every look: all of a service in one statement, and part by part where that fails, so
//! that a table nobody may read hides no other.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;

use crate::config::Service;
use crate::model::count::Count;
use crate::model::dead_letter::DeadLetterCounts;
use crate::model::outbox::OutboxCounts;
use crate::model::waiting::WaitingSummary;
use crate::store::Store;

use super::Observer;
use super::snapshot::{PerService, Unread};

/// What all of them are called together, and each alone.
const NUMBERS: &str = "counts";
const OUTBOX: &str = "outbox";
const INBOX: &str = "inbox";
const WAITING: &str = "waiting events";
const DEAD_LETTERS: &str = "dead letters";

/// Inbox rows are counted over this long to give a rate.
pub(super) const INBOX_WINDOW: Duration = Duration::from_secs(10);

/// The numbers of one service, each read or the reason why not. `None`: it has no such part.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) outbox: Option<Result<OutboxCounts, Unread>>,
    pub(super) inbox_recent: Option<Result<Count, Unread>>,
    pub(super) waiting: Option<Result<Option<WaitingSummary>, Unread>>,
    pub(super) dead_letters: Option<Result<DeadLetterCounts, Unread>>,
}

impl Counted {
    /// Nothing was read.
    fn unread(service: &Service, unread: &Unread) -> Self {
        let part = |part: &str| Unread {
            what: format!("{part} of {}", service.name),
            ..unread.clone()
        };
        Self {
            outbox: service.outbox.as_ref().map(|_| Err(part(OUTBOX))),
            inbox_recent: service.inbox.as_ref().map(|_| Err(part(INBOX))),
            waiting: service.inbox.as_ref().map(|_| Err(part(WAITING))),
            dead_letters: service
                .dead_letters
                .as_ref()
                .map(|_| Err(part(DEAD_LETTERS))),
        }
    }
}

impl Observer {
    /// All numbers of a service, counted once for the flow and for the panes.
    pub(super) async fn counted(&self, service: &Service, store: &Arc<dyn Store>) -> Counted {
        let count = async {
            // It came back late, not long ago: that is one part's fault, and the others can be read.
            if self.reader.is_shut(&service.name, NUMBERS) {
                return Ok(self.counted_one_by_one(service, store).boxed().await);
            }
            let read = store.numbers(INBOX_WINDOW);
            let read = self.reader.store(&service.name, NUMBERS, read).await;
            Ok::<_, Infallible>(match read {
                Ok(numbers) => Counted {
                    outbox: numbers.outbox.map(Ok),
                    inbox_recent: numbers.inbox_recent.map(Ok),
                    waiting: service.inbox.as_ref().map(|_| Ok(numbers.waiting)),
                    dead_letters: numbers.dead_letters.map(Ok),
                },
                // A look waits for one limit, not for two.
                Err(unread) if unread.is_unreachable => Counted::unread(service, &unread),
                Err(_) => self.counted_one_by_one(service, store).boxed().await,
            })
        };
        let Ok(counted) = self.counted.get(&service.name, count).await;
        counted
    }

    /// Each part by a statement of its own, with a patience of its own.
    async fn counted_one_by_one(&self, service: &Service, store: &Arc<dyn Store>) -> Counted {
        let name = &service.name;
        let outbox = async {
            service.outbox.as_ref()?;
            Some(self.reader.store(name, OUTBOX, store.outbox_counts()).await)
        };
        let inbox_recent = async {
            service.inbox.as_ref()?;
            let read = store.inbox_recent(INBOX_WINDOW);
            Some(self.reader.store(name, INBOX, read).await)
        };
        let waiting = async {
            service.inbox.as_ref()?;
            let read = store.waiting_summary();
            Some(self.reader.store(name, WAITING, read).await)
        };
        let dead_letters = async {
            service.dead_letters.as_ref()?;
            let read = store.dead_letter_counts();
            Some(self.reader.store(name, DEAD_LETTERS, read).await)
        };
        let (outbox, inbox_recent, waiting, dead_letters) =
            tokio::join!(outbox, inbox_recent, waiting, dead_letters);
        Counted {
            outbox,
            inbox_recent,
            waiting,
            dead_letters,
        }
    }
}

/// One part of all services that have it.
pub(super) fn parts<T>(
    counted: &[(&str, Counted)],
    part: impl Fn(&Counted) -> Option<Result<T, Unread>>,
) -> Vec<PerService<T>> {
    let parts = counted.iter().filter_map(|(service, counted)| {
        let read = part(counted)?;
        Some(super::reader::part(service, read))
    });
    parts.collect()
}
