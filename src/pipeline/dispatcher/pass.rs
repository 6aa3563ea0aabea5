//! One pass: batches follow each other on three lanes, so that one is claimed while the one before it is
//! published and the one before that is settled. Claims and publishes each take turns, in one order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::batch::{Batch, Sorted};
use crate::base::backoff::Backoff;
use crate::base::crash::CrashPoints;
use crate::broker::{Broker, Flow, Publisher};
use crate::config::{DispatcherSettings, Order, OutboxPart};
use crate::model::ids::{ClaimToken, EventId};
use crate::model::outbox::OutboxState;
use crate::pipeline::Report;
use crate::store::{ClaimRequest, FailedAttempt, OutboxStore, StoreError, StoreResult};

/// Batches in hand: one claimed, one on the wire, one being settled.
const LANES: usize = 3;
/// A pass claims no further batch after so long, so that a stop is not waited for.
const CLAIMING: Duration = Duration::from_secs(1);

/// Aggregates asked about in one call.
const AWAITED_MAX: usize = 50;

/// Tries of a completion that met a lock or a short outage: cheaper than sending the batch twice.
const STORE_TRIES: u32 = 3;
const STORE_BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(50),
    cap: Duration::from_millis(500),
};

/// Crash point between the claim's commit and the first byte to the broker.
pub const AFTER_CLAIM: &str = "dispatcher.after_claim";
/// Crash point between the confirms and the sent mark.
pub const AFTER_CONFIRM: &str = "dispatcher.after_confirm";

/// Guard: the sent mark comes after the confirm, and only for what was confirmed.
const GUARD_CONFIRM: &str = "guard.sent_after_confirm";

/// What a dispatcher works with.
pub(super) struct Desk {
    pub(super) service: String,
    pub(super) part: OutboxPart,
    pub(super) settings: DispatcherSettings,
    pub(super) store: Arc<dyn OutboxStore>,
    /// Rows carry a token and a lease.
    pub(super) is_fenced: bool,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) crash_points: CrashPoints,
    /// Confirmed rows whose mark the database did not answer. At most those of one pass: nothing is
    /// claimed before they are marked.
    pub(super) unmarked: Mutex<Vec<(ClaimToken, Vec<EventId>)>>,
}

impl Desk {
    /// Why the broker takes nothing now.
    pub(super) fn blocked(&self) -> Option<String> {
        match self.broker.flow() {
            Flow::Blocked(reason) => Some(format!("broker blocked: {reason}")),
            Flow::Open | Flow::Unknown => None,
        }
    }
}

/// One pass.
pub(super) struct Pass<'a> {
    desk: &'a Desk,
    publisher: &'a dyn Publisher,
    began: Instant,
    is_over: AtomicBool,
    /// Something could not be done: the next pass had better wait.
    is_stuck: AtomicBool,
    claiming: tokio::sync::Mutex<()>,
    publishing: tokio::sync::Mutex<()>,
    report: Mutex<Report>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(desk: &'a Desk, publisher: &'a dyn Publisher, report: Report) -> Self {
        Self {
            desk,
            publisher,
            began: Instant::now(),
            is_over: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            claiming: tokio::sync::Mutex::new(()),
            publishing: tokio::sync::Mutex::new(()),
            report: Mutex::new(report),
        }
    }

    /// Runs until there is nothing more to claim, something went wrong, or it took long enough.
    pub(super) async fn run(self) -> Report {
        match self.mark_late().await {
            Ok(()) => {
                futures::future::join_all((0..LANES).map(|_| self.lane())).await;
            }
            Err(problem) => self.problem(format!("{problem}; nothing is claimed")),
        }
        let mut report = self
            .report
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let found_nothing = report.get("claimed") == 0 && report.get("held") == 0;
        let is_well = !self.is_stuck.load(Ordering::Acquire);
        report.is_idle = is_well && (found_nothing || report.problem.is_some());
        report
    }

    /// What was confirmed while the database was away is marked before anything new is claimed: it need
    /// not be sent again, if nobody has taken it over meanwhile.
    async fn mark_late(&self) -> Result<(), String> {
        let mut unmarked = std::mem::take(&mut *self.unmarked()).into_iter();
        while let Some((token, sent)) = unmarked.next() {
            match self.mark(&token, sent, true).await {
                // What an outage cost is told, and no reason to wait now that it is over.
                Ok(lost) => self.tell_lost(lost, Self::tell),
                Err(problem) => {
                    self.unmarked().extend(unmarked);
                    return Err(problem);
                }
            }
        }
        Ok(())
    }

    fn unmarked(&self) -> std::sync::MutexGuard<'_, Vec<(ClaimToken, Vec<EventId>)>> {
        let unmarked = self.desk.unmarked.lock();
        unmarked.unwrap_or_else(PoisonError::into_inner)
    }

    async fn lane(&self) {
        while let Some((mut batch, turn)) = self.next_batch().await {
            // Guard: a row is marked only after its confirm.
            if self.desk.crash_points.is_off(GUARD_CONFIRM)
                && let Err(problem) = self.mark(&batch.token, batch.ids(), false).await
            {
                self.end(Some(problem));
            }
            self.send(&mut batch).await;
            drop(turn);
            self.desk.crash_points.reach(AFTER_CONFIRM);
            if let Err(problem) = self.settle(batch).await {
                self.end(Some(problem));
            }
        }
    }

    /// Claims, and waits for its turn to publish: at most one batch waits.
    async fn next_batch(&self) -> Option<(Batch, MutexGuard<'_, ()>)> {
        let claims = self.claiming.lock().await;
        let batch = loop {
            if self.is_over.load(Ordering::Acquire) {
                return None;
            }
            match self.claim().await {
                Ok(Some(batch)) => break batch,
                Ok(None) => {}
                Err(problem) => self.end(Some(problem)),
            }
        };
        self.desk.crash_points.reach(AFTER_CLAIM);
        // What the lease has to spare beyond its own batch may be spent waiting for the one before.
        let settings = &self.desk.settings;
        let latest = batch.asked_at + settings.lease.saturating_sub(settings.batch_time());
        let turn = timeout_at(latest, self.publishing.lock()).await;
        let problem = match (turn, self.desk.blocked()) {
            // The time counts even when nobody was in the way: this process may have been stopped.
            (Ok(turn), None) if Instant::now() <= latest => {
                drop(claims);
                return Some((batch, turn));
            }
            (_, Some(blocked)) => blocked,
            (_, None) => "the batch before, or this process, was too slow for the lease".to_owned(),
        };
        // Nothing was sent of it (B-06).
        let ids = batch.ids();
        self.end(Some(match self.give_back(&batch.token, &ids).await {
            Ok(lost) => {
                self.lost(lost);
                format!("{problem}; the claim was given back")
            }
            Err(error) => error,
        }));
        None
    }

    /// A batch; `None` when nothing could be claimed this time.
    async fn claim(&self) -> Result<Option<Batch>, String> {
        let settings = &self.desk.settings;
        let request = ClaimRequest {
            batch_rows: settings.batch_rows,
            lease: settings.lease,
        };
        let asked_at = Instant::now();
        let claim = match settings.order {
            Order::Due => self.desk.store.claim_batch(&request).await,
            Order::Sequence => self.desk.store.claim_sequences(&request).await,
        }
        .map_err(|e| format!("{e}; nothing is claimed"))?;
        let claimed = len(claim.events.len() + claim.unreadable.len());
        self.count("claimed", claimed);
        self.count("held", claim.held);
        if claimed + claim.held < u64::from(settings.batch_rows) || self.began.elapsed() >= CLAIMING
        {
            // That was the end of what is due, or enough for once.
            self.end(None);
        }
        Ok((claimed > 0).then(|| Batch::new(claim, asked_at, &self.desk.part, settings)))
    }

    /// Publishes the batch. Extends the lease each time a third of it is gone.
    async fn send(&self, batch: &mut Batch) {
        let settings = &self.desk.settings;
        let (token, rows) = (batch.token.clone(), len(batch.ids().len()));
        let third = settings.lease / 3;
        let mut renew_at = batch.asked_at + third;
        let sending = batch.send(self.publisher, Instant::now() + settings.send_deadline);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                biased;
                () = &mut sending => return,
                () = sleep_until(renew_at), if self.desk.is_fenced => {
                    renew_at = Instant::now() + third;
                    // A failed renewal is no reason to stop: the completion tells who owns the rows.
                    match self.desk.store.renew(&token, settings.lease).await {
                        Ok(renewed) => {
                            self.count("renewed", renewed);
                            self.count("renewed_short", rows.saturating_sub(renewed));
                        }
                        Err(error) => self.problem(format!("the lease was not renewed: {error}")),
                    }
                }
            }
        }
    }

    async fn settle(&self, batch: Batch) -> Result<(), String> {
        let token = batch.token.clone();
        let sorted = {
            let mut report = self.report();
            batch.sort(&self.desk.settings, &mut report)
        };
        let Sorted {
            sent,
            failed,
            untried,
            reason,
            awaited,
        } = sorted;
        let mut lost = 0;
        if !sent.is_empty() {
            lost += self.mark(&token, sent, false).await?;
        }
        if !failed.is_empty() {
            let named = len(failed.len());
            let done = self
                .fail(&token, &failed)
                .await
                .map_err(|e| format!("{named} failed attempts were not recorded: {e}"))?;
            lost += named.saturating_sub(done);
        }
        if !untried.is_empty() {
            lost += self.give_back(&token, &untried).await?;
        }
        for some in awaited.chunks(AWAITED_MAX) {
            match retrying(|| self.desk.store.wake_sequences(some)).await {
                Ok((rows, _)) => self.count("woken", rows),
                Err(error) => self.problem(format!("held rows wait for their time: {error}")),
            }
        }
        self.lost(lost);
        match reason {
            Some(reason) => Err(format!("{reason}; unsent rows were given back")),
            None => Ok(()),
        }
    }

    /// Sets the sent mark; how many rows it did not find. What the database refuses for good is marked
    /// row by row, and a row it refuses is parked as failed: sending it again would not help.
    /// `is_again`: an earlier pass tried, and it is not known whether that worked.
    async fn mark(
        &self,
        token: &ClaimToken,
        sent: Vec<EventId>,
        is_again: bool,
    ) -> Result<u64, String> {
        let named = len(sent.len());
        match self.complete(token, &sent, is_again).await {
            Ok(done) => {
                self.count("sent", done);
                return Ok(named.saturating_sub(done));
            }
            Err(error) if error.is_retryable() => return Err(self.not_marked(token, sent, &error)),
            Err(_) => {}
        }
        let mut lost = 0;
        let mut left = sent.into_iter();
        while let Some(event_id) = left.next() {
            let one = std::slice::from_ref(&event_id);
            let done = match self.complete(token, one, is_again).await {
                Ok(done) => {
                    self.count("sent", done);
                    done
                }
                Err(error) if error.is_retryable() => {
                    let rest = std::iter::once(event_id).chain(left).collect();
                    return Err(self.not_marked(token, rest, &error));
                }
                Err(error) => match self.park(token, event_id.clone(), &error).await {
                    Ok(done) => done,
                    Err(problem) => {
                        let rest = std::iter::once(event_id).chain(left).collect();
                        self.keep_unmarked(token, rest);
                        return Err(problem);
                    }
                },
            };
            lost += 1_u64.saturating_sub(done);
        }
        Ok(lost)
    }

    /// Remembers what was confirmed and has no mark: it is marked before anything new is claimed.
    fn keep_unmarked(&self, token: &ClaimToken, sent: Vec<EventId>) {
        self.unmarked().push((token.clone(), sent));
    }

    fn not_marked(&self, token: &ClaimToken, sent: Vec<EventId>, error: &StoreError) -> String {
        let named = sent.len();
        self.keep_unmarked(token, sent);
        format!(
            "{named} confirmed events are not marked yet; they are sent again if their lease runs out \
             first: {error}"
        )
    }

    async fn park(
        &self,
        token: &ClaimToken,
        event_id: EventId,
        error: &StoreError,
    ) -> Result<u64, String> {
        let parked = [FailedAttempt {
            event_id: event_id.clone(),
            error: format!("published, not recorded: {error}"),
            retry_after: None,
        }];
        let done = self.fail(token, &parked).await.map_err(|e| {
            format!(
                "what was published can be neither marked ({error}) nor parked; it is tried again before \
                 anything is claimed: {e}"
            )
        })?;
        self.problem(format!(
            "{event_id} was published, but the database refuses its sent mark; it is parked as failed: \
             {error}"
        ));
        self.count("unrecorded", done);
        Ok(done)
    }

    /// Gives rows back untried; how many it did not find.
    async fn give_back(&self, token: &ClaimToken, event_ids: &[EventId]) -> Result<u64, String> {
        // Wherever they are by now: nothing was sent of them.
        let call = || self.desk.store.give_back(token, event_ids);
        let rows = self
            .fenced(event_ids, &OutboxState::ALL, false, call)
            .await
            .map_err(|e| format!("the claim was not given back and waits for its lease: {e}"))?;
        self.count("given_back", rows);
        Ok(len(event_ids.len()).saturating_sub(rows))
    }

    async fn complete(
        &self,
        token: &ClaimToken,
        sent: &[EventId],
        is_again: bool,
    ) -> StoreResult<u64> {
        let call = || self.desk.store.complete(token, sent);
        self.fenced(sent, &[OutboxState::Sent], is_again, call)
            .await
    }

    async fn fail(&self, token: &ClaimToken, failed: &[FailedAttempt]) -> StoreResult<u64> {
        let ids: Vec<EventId> = failed.iter().map(|f| f.event_id.clone()).collect();
        let done = [OutboxState::Pending, OutboxState::Failed, OutboxState::Sent];
        let call = || self.desk.store.fail_attempts(token, failed);
        self.fenced(&ids, &done, false, call).await
    }

    /// Rows that a fenced statement found. One that was sent again, because its answer was lost, finds
    /// nothing where the first did its work: then the rows themselves tell, and those that stand where
    /// they should are not lost. `is_again`: it was sent before this call.
    async fn fenced<F>(
        &self,
        event_ids: &[EventId],
        wanted: &[OutboxState],
        is_again: bool,
        call: impl FnMut() -> F,
    ) -> StoreResult<u64>
    where
        F: Future<Output = StoreResult<u64>>,
    {
        let (found, tries) = retrying(call).await?;
        let named = len(event_ids.len());
        if (tries == 1 && !is_again) || found >= named {
            return Ok(found);
        }
        let (states, _) = retrying(|| self.desk.store.outbox_states(event_ids)).await?;
        let there = states
            .iter()
            .filter(|(_, state)| wanted.contains(state))
            .count();
        Ok(len(there).clamp(found, named))
    }

    /// Rows of this pass that a fenced statement did not find. Who is too slow for the lease has to back off:
    /// what it sends in vain goes out twice.
    fn lost(&self, rows: u64) {
        self.tell_lost(rows, Self::problem);
    }

    fn tell_lost(&self, rows: u64, tell: fn(&Self, String)) {
        self.count("lost_fence", rows);
        if rows > 0 {
            let said = format!(
                "{rows} rows belonged to somebody else when they were to be completed: the lease ran \
                 out; they may be sent twice under the same id"
            );
            tell(self, said);
        }
    }

    /// Claims no further batch.
    fn end(&self, problem: Option<String>) {
        self.is_over.store(true, Ordering::Release);
        if let Some(problem) = problem {
            self.problem(problem);
        }
    }

    fn report(&self) -> std::sync::MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, counter: &str, n: u64) {
        self.report().add(counter, n);
    }

    /// Something could not be done.
    fn problem(&self, problem: String) {
        self.is_stuck.store(true, Ordering::Release);
        self.tell(problem);
    }

    /// The first problem of a pass is the cause of the others.
    fn tell(&self, problem: String) {
        self.report().problem.get_or_insert(problem);
    }
}

pub(super) fn len(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Repeats a guarded statement that met a lock or a short outage; harmless, since it is fenced. Says how
/// often it was tried.
async fn retrying<T, F>(mut call: impl FnMut() -> F) -> StoreResult<(T, u32)>
where
    F: Future<Output = StoreResult<T>>,
{
    let mut tries = 1;
    loop {
        match call().await {
            Err(error) if error.is_retryable() && tries < STORE_TRIES => {
                sleep(STORE_BACKOFF.delay(tries)).await;
                tries += 1;
            }
            answer => return answer.map(|answer| (answer, tries)),
        }
    }
}
