//! One feed: reads again and again at its own pace, keeps the last good value, and drops an answer
//! to a question that is no longer asked.
//!
//! ```text
//!              nobody looks, or paused
//! resting ◀──────────────────────────────┐
//!    │ asked                              │
//!    ▼          answered                  │      time is up, or another question
//! reading ──────────────────────────▶ waiting ────────────────────────────────────▶ reading
//!    └─ another question meanwhile: the answer is dropped, and read again at once
//! ```
//!
//! At most one read of a feed is under way. A read is never cut off because another question came:
//! holding a cursor key down must not pile up statements on a slow database.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::clock::Clock;
use crate::base::tasks::Tasks;

use super::Views;
use super::snapshot::Reading;

/// A value that only got older is announced at most this often.
const ANNOUNCE_AGE: Duration = Duration::from_secs(1);

/// When a feed reads again: on the next multiple of its pace by the wall clock, so that all feeds of a console
/// and the clock on its screen share a wake-up and a frame. Not before half a pace is over, and a slow
/// server gets as much rest as it worked.
fn beat(clock: &Clock, every: Duration, started: Instant, took: Duration) -> Instant {
    let now = Instant::now();
    let earliest = (started + every / 2).max(now + took);
    let wait = earliest.saturating_duration_since(now);
    let wall = u128::try_from(clock.now().micros()).unwrap_or(0) + wait.as_micros();
    let past = wall % every.as_micros().max(1);
    let rest = if past == 0 {
        0
    } else {
        every.as_micros() - past
    };
    earliest + Duration::from_micros(u64::try_from(rest).unwrap_or(0))
}

/// What a feed asks and how.
pub(super) struct Feed<K, T> {
    /// Pause between two reads of one question.
    pub(super) every: Duration,
    /// The question of these views; `None`: nobody looks, nothing is read.
    pub(super) question: fn(&Views) -> Option<K>,
    /// Reads the answer, or says why there is none at all.
    pub(super) read: Box<dyn Fn(K) -> BoxFuture<'static, Result<T, String>> + Send + Sync>,
}

impl<K, T> Feed<K, T>
where
    K: Clone + PartialEq + Send + Sync + 'static,
    T: PartialEq + Send + Sync + 'static,
{
    /// Starts the feed as a task of `tasks`. It ends with them, or when `views` has no sender.
    pub(super) fn start(
        self,
        views: watch::Receiver<Views>,
        clock: Clock,
        tasks: &Tasks,
    ) -> watch::Receiver<Reading<T>> {
        let (announcer, receiver) = Announcer::new(clock);
        let stop = tasks.stopping();
        tasks.spawn(async move {
            // A dropped read loses nothing: it is asked again at the next start.
            stop.clone()
                .run_until_cancelled(self.run(views, announcer, &stop))
                .await;
        });
        receiver
    }

    async fn run(
        self,
        mut views: watch::Receiver<Views>,
        mut announcer: Announcer<T>,
        stop: &CancellationToken,
    ) {
        let mut answered: Option<K> = None;
        let mut due = Instant::now();
        while !stop.is_cancelled() {
            let (generation, question) = self.ask(&mut views);
            let Some(question) = question else {
                if views.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let is_same = answered.as_ref() == Some(&question);
            if is_same {
                announcer.still_answers(generation);
                if Instant::now() < due {
                    tokio::select! {
                        changed = views.changed() => if changed.is_err() { return },
                        () = tokio::time::sleep_until(due) => {}
                    }
                    continue;
                }
            }
            announcer.is_loading(!is_same);
            let started = Instant::now();
            let answer = (self.read)(question.clone()).await;
            let took = started.elapsed();
            due = beat(&announcer.clock, self.every, started, took);
            let (generation, now_asked) = self.ask(&mut views);
            if now_asked.as_ref() == Some(&question) {
                announcer.answer(generation, took, answer);
                answered = Some(question);
            } else {
                answered = None;
            }
        }
    }

    fn ask(&self, views: &mut watch::Receiver<Views>) -> (u64, Option<K>) {
        let views = views.borrow_and_update();
        let question = (self.question)(&views).filter(|_| !views.is_paused);
        (views.generation, question)
    }
}

/// The writing end of a reading.
struct Announcer<T> {
    sender: watch::Sender<Reading<T>>,
    clock: Clock,
    announced_at: Option<Instant>,
}

impl<T: PartialEq> Announcer<T> {
    fn new(clock: Clock) -> (Self, watch::Receiver<Reading<T>>) {
        let (sender, receiver) = watch::channel(Reading::default());
        let announcer = Self {
            sender,
            clock,
            announced_at: None,
        };
        (announcer, receiver)
    }

    /// A read starts. Only a new question is worth a redraw.
    fn is_loading(&self, is_new_question: bool) {
        self.sender.send_if_modified(|reading| {
            let is_news = is_new_question && !reading.is_loading;
            reading.is_loading = true;
            is_news
        });
    }

    /// The views changed elsewhere: the value answers the present ones too.
    fn still_answers(&self, generation: u64) {
        self.sender.send_if_modified(|reading| {
            let is_news = reading.generation != generation;
            reading.generation = generation;
            is_news
        });
    }

    fn answer(&mut self, generation: u64, took: Duration, answer: Result<T, String>) {
        let now = Instant::now();
        let read_at = self.clock.now();
        let is_old_news = self
            .announced_at
            .is_none_or(|at| now.saturating_duration_since(at) >= ANNOUNCE_AGE);
        let is_announced = self.sender.send_if_modified(|reading| {
            let was_first = reading.value.is_none() && reading.problem.is_none();
            let mut is_news = was_first || is_old_news || reading.generation != generation;
            reading.is_loading = false;
            reading.generation = generation;
            reading.took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            match answer {
                Ok(value) => {
                    is_news |= reading.problem.take().is_some();
                    if reading.value.as_deref() != Some(&value) {
                        reading.value = Some(Arc::new(value));
                        is_news = true;
                    }
                    reading.read_at = Some(read_at);
                }
                Err(problem) => {
                    is_news |= reading.problem.as_ref() != Some(&problem);
                    reading.problem = Some(problem);
                }
            }
            is_news
        });
        if is_announced {
            self.announced_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn feeds_meet_on_the_wall_clock_s_seconds_and_a_slow_server_rests() {
        // 300 ms past a second that is no multiple of five.
        let clock = Clock::fixed(Timestamp::from_micros(1_767_323_042_300_000));
        let now = Instant::now();
        let ms = |n| Duration::from_millis(n);
        let wait = |every, started, took| beat(&clock, every, started, took) - now;
        assert_eq!(wait(SECOND, now, ms(3)), ms(700));
        assert_eq!(wait(SECOND, now - ms(300), ms(3)), ms(700));
        assert_eq!(wait(SECOND * 5, now, ms(3)), ms(2_700));
        assert_eq!(wait(SECOND, now - ms(800), ms(800)), ms(1_700));
        // Asked late in a second: not again at once.
        let late = Clock::fixed(Timestamp::from_micros(1_767_323_042_900_000));
        assert_eq!(beat(&late, SECOND, now, ms(3)) - now, ms(1_100));
        assert_eq!(beat(&late, SECOND, now - SECOND, ms(3)) - now, ms(100));
    }
}
