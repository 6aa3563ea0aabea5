//! Goes through a check: part by part, page by page, looking twice, writing as it goes.
//!
//! ```text
//! page ─▶ suspects ──(second look's pause)──▶ again ─▶ still there: a finding
//!  │                                            └────▶ gone, or moved: nothing
//!  └─▶ next page meanwhile; what is written as progress never passes a suspect that is not decided
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::check::{Check, Ground, Look, missed};
use super::keeper::Keeper;
use super::patience::patiently;
use super::{Outcome, Reconciler, Watch};
use crate::base::human;
use crate::model::scan::{Difference, NotCompared, Progress, ScanState};
use crate::store::{StoreError, StoreResult};

/// Differences a scan keeps; more are a fault of the rule, or of everything.
const FOUND_MAX: usize = 10_000;

/// Reasons a scan keeps apart.
const REASONS_MAX: usize = 50;

/// Counts under a reason. An age in brackets at its end grows from page to page: the first one stays.
fn explain(explained: &mut BTreeMap<String, u64>, why: String, count: u64) {
    let stem = |reason: &str| reason.split(" (oldest ").next().map(str::to_owned);
    let same = explained.keys().find(|known| stem(known) == stem(&why));
    let key = match same.cloned() {
        Some(known) => known,
        None if explained.len() < REASONS_MAX => why,
        None => "for other reasons".to_owned(),
    };
    *explained.entry(key).or_default() += count;
}

/// What a page suspected, and where the scan was before it.
struct Suspected {
    before: Progress,
    seen: Instant,
    differences: Vec<Difference>,
}

/// Why a scan does not go on.
enum Halt {
    /// Told to stop.
    Stopped,
    /// Somebody else stopped it or took it over.
    Lost,
    /// Its progress cannot be written.
    Failed(StoreError),
    /// More differences than are kept.
    TooMany,
}

struct Run<'a> {
    ground: Ground,
    check: &'a dyn Check,
    keeper: Keeper,
    watch: &'a Watch,
    second_look: Duration,
    /// What has been counted so far.
    counted: Progress,
    suspected: VecDeque<Suspected>,
    found: Vec<Difference>,
}

/// Runs a check to its end, or until it is stopped.
pub(super) async fn run(
    of: &Reconciler,
    check: &dyn Check,
    keeper: Keeper,
    watch: &Watch,
) -> Outcome {
    let mut run = Run {
        ground: of.ground(),
        second_look: of.ports.context.scan.second_look,
        counted: keeper.scan.progress.clone(),
        check,
        keeper,
        watch,
        suspected: VecDeque::new(),
        found: Vec::new(),
    };
    let halt = run.parts().await.err();
    run.end(halt).await
}

impl Run<'_> {
    async fn parts(&mut self) -> Result<(), Halt> {
        let parts = self.check.parts(&self.ground);
        self.counted.parts = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        if parts.is_empty() {
            self.miss(NotCompared {
                what: self.keeper.scan.rule.clone(),
                reason: "no service of the context has what it compares: nothing to compare"
                    .to_owned(),
                is_unreachable: false,
            });
        }
        // A scan of a windowed check says how far back it looked.
        if self.check.is_windowed() {
            let window = human::duration(self.ground.window);
            self.note(format!("looked back {window} from the start"));
        }
        let done = self.counted.parts_done as usize;
        for part in parts.iter().skip(done) {
            if self.counted.part.as_ref() != Some(part) {
                self.counted.part = Some(part.clone());
                self.counted.cursor = None;
            }
            self.part(part).await?;
            self.counted.parts_done += 1;
            self.counted.part = None;
            self.counted.cursor = None;
            self.save().await?;
        }
        Ok(())
    }

    async fn part(&mut self, part: &str) -> Result<(), Halt> {
        loop {
            let before = self.counted.clone();
            let looked = self.page(part).await?;
            let look = match looked {
                Ok(look) => look,
                Err(error) => {
                    self.miss(missed(
                        format!("{} of {part}", self.keeper.scan.rule),
                        &error,
                    ));
                    break;
                }
            };
            let next = look.next.clone();
            self.counted.cursor.clone_from(&next);
            let differences = self.take(look);
            if !differences.is_empty() {
                self.suspected.push_back(Suspected {
                    before,
                    seen: Instant::now(),
                    differences,
                });
            }
            while self
                .suspected
                .front()
                .is_some_and(|first| first.seen.elapsed() >= self.second_look)
            {
                self.look_again(part).await?;
            }
            if next.is_none() {
                break;
            }
            self.save().await?;
        }
        while !self.suspected.is_empty() {
            self.look_again(part).await?;
        }
        Ok(())
    }

    /// The next page.
    async fn page(&self, part: &str) -> Result<Result<Look, StoreError>, Halt> {
        let after = self.counted.cursor.as_deref();
        let stop = &self.watch.stop;
        let page = patiently(stop, || self.check.page(&self.ground, part, after));
        tokio::select! {
            () = stop.cancelled() => Err(Halt::Stopped),
            answer = page => Ok(answer),
        }
    }

    async fn pause(&self, how_long: Duration) -> Result<(), Halt> {
        tokio::select! {
            () = self.watch.stop.cancelled() => Err(Halt::Stopped),
            () = tokio::time::sleep(how_long) => Ok(()),
        }
    }

    /// Looks again at the oldest suspects, once they are old enough, and writes what is still there.
    async fn look_again(&mut self, part: &str) -> Result<(), Halt> {
        let Some(first) = self.suspected.front_mut() else {
            return Ok(());
        };
        let left = self.second_look.saturating_sub(first.seen.elapsed());
        let suspects = std::mem::take(&mut first.differences);
        // Kept in the queue until it is decided, so that what is saved meanwhile stays behind it.
        self.pause(left).await?;
        let stop = &self.watch.stop;
        let again = patiently(stop, || {
            self.check.again(&self.ground, part, suspects.clone())
        });
        let looked = tokio::select! {
            () = stop.cancelled() => return Err(Halt::Stopped),
            answer = again => answer,
        };
        match looked {
            Err(error) => self.miss(missed(
                format!("second look of {} at {part}", self.keeper.scan.rule),
                &error,
            )),
            Ok(look) => {
                let differences = self.take(look);
                self.keep(differences).await?;
            }
        }
        self.suspected.pop_front();
        Ok(())
    }

    async fn keep(&mut self, differences: Vec<Difference>) -> Result<(), Halt> {
        let room = FOUND_MAX.saturating_sub(self.found.len());
        let is_too_many = differences.len() > room;
        let kept: Vec<Difference> = differences.into_iter().take(room).collect();
        let recorded = self.keeper.record(&kept, &self.watch.stop).await;
        self.written(recorded)?;
        self.counted.found += kept.len() as u64;
        self.found.extend(kept);
        if is_too_many {
            return Err(Halt::TooMany);
        }
        Ok(())
    }

    /// Counts what a look saw; its differences.
    fn take(&mut self, look: Look) -> Vec<Difference> {
        self.counted.examined += look.examined;
        self.counted.in_flight += look.in_flight;
        for (why, count) in look.explained {
            explain(&mut self.counted.explained, why, count);
        }
        self.keeper.scan.rows_read += look.rows_read;
        for missing in look.not_compared {
            self.miss(missing);
        }
        for note in look.notes {
            self.note(note);
        }
        look.differences
    }

    fn miss(&mut self, missing: NotCompared) {
        let known = &mut self.keeper.scan.not_compared;
        if !known.contains(&missing) {
            known.push(missing);
        }
    }

    fn note(&mut self, note: String) {
        if !self.counted.notes.contains(&note) {
            self.counted.notes.push(note);
        }
    }

    /// Writes how far it is: never past a suspect that is not decided.
    async fn save(&mut self) -> Result<(), Halt> {
        self.tell();
        let safe = self.safe();
        let stepped = self.keeper.step(&safe, &self.watch.stop).await;
        self.written(stepped)
    }

    fn written(&self, answer: StoreResult<bool>) -> Result<(), Halt> {
        match answer {
            Ok(true) => Ok(()),
            Ok(false) => Err(Halt::Lost),
            Err(_) if self.watch.stop.is_cancelled() => Err(Halt::Stopped),
            Err(error) => Err(Halt::Failed(error)),
        }
    }

    fn safe(&self) -> Progress {
        match self.suspected.front() {
            None => self.counted.clone(),
            Some(first) => Progress {
                found: self.counted.found,
                ..first.before.clone()
            },
        }
    }

    fn tell(&mut self) {
        self.keeper.scan.progress = self.counted.clone();
        (self.watch.tell)(&self.keeper.scan);
    }

    async fn end(mut self, halt: Option<Halt>) -> Outcome {
        let mut state = match &halt {
            None => ScanState::Finished,
            Some(Halt::Stopped | Halt::Lost) => ScanState::Stopped,
            Some(Halt::Failed(_) | Halt::TooMany) => ScanState::Failed,
        };
        match &halt {
            Some(Halt::Failed(error)) => {
                self.miss(missed(
                    "the rest, since progress could not be written",
                    error,
                ));
            }
            Some(Halt::TooMany) => self.miss(NotCompared {
                what: "the rest".to_owned(),
                reason: format!("there are more than {FOUND_MAX} differences"),
                is_unreachable: false,
            }),
            Some(Halt::Stopped | Halt::Lost) | None => {}
        }
        if halt.is_none() && self.check.is_windowed() && self.counted.examined == 0 {
            self.miss(NotCompared {
                what: self.keeper.scan.rule.clone(),
                reason: format!(
                    "nothing to compare: no row is younger than {}",
                    human::duration(self.ground.window)
                ),
                is_unreachable: false,
            });
        }
        if halt.is_none() {
            if self.keeper.scan.not_compared.is_empty() {
                let since = self
                    .check
                    .is_windowed()
                    .then(|| self.keeper.scan.started_at.minus(self.ground.window));
                match self.keeper.clear(since, &self.watch.stop).await {
                    Ok(cleared) => self.counted.cleared += cleared,
                    Err(error) => self.miss(missed("findings that may be gone", &error)),
                }
            } else {
                self.note("earlier findings stay open: not everything was compared".to_owned());
            }
        }
        if !matches!(halt, Some(Halt::Lost)) {
            let progress = if halt.is_none() {
                self.counted.clone()
            } else {
                self.safe()
            };
            match self.keeper.end(state, &progress).await {
                Ok(true) => {}
                Ok(false) => state = ScanState::Stopped,
                Err(error) => self.miss(missed("the end of the scan could not be written", &error)),
            }
        }
        self.keeper.scan.state = state;
        self.keeper.scan.lease_until = None;
        self.keeper.scan.finished_at = Some(self.ground.ports.clock.now());
        self.tell();
        Outcome {
            scan: self.keeper.scan,
            found: self.found,
            not_recorded: self.keeper.not_recorded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_counted_once_however_its_age_grows() {
        let mut explained = BTreeMap::new();
        for (why, count) in [
            ("waits in queue q (oldest 18m)", 400),
            ("waits in queue q (oldest 19m)", 90),
            ("dead letter, open", 10),
        ] {
            explain(&mut explained, why.to_owned(), count);
        }
        let expected = [
            ("dead letter, open".to_owned(), 10),
            ("waits in queue q (oldest 18m)".to_owned(), 490),
        ];
        assert_eq!(explained, expected.into());
        for n in 0..100 {
            explain(&mut explained, format!("reason {n}"), 1);
        }
        assert_eq!(explained.len(), REASONS_MAX + 1);
        assert_eq!(explained.get("for other reasons"), Some(&52));
    }
}
