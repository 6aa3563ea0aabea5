//! What is said of what the rules find. A thing is said after it was found in some looks in a row, and no
//! longer said after some looks in a row without it; a look that could not see it counts for neither, and one
//! that saw the same answer of a server again does not count once more.
//!
//! ```text
//!          found, `looks` times in a row             gone, `quiet_looks` times in a row
//! unknown ─────────────────────────────▶ said ──────────────────────────────────────▶ unknown
//!                                        │  ▲ could not be looked at: it stays, and says so
//!                                        └──┘
//! ```

use std::collections::BTreeMap;

use crate::base::clock::Timestamp;
use crate::config::VerdictSettings;
use crate::observe::snapshot::Asked;

use super::rule::{Rule, VERDICTS};
use super::sight::{Before, Look, Sight};
use super::verdict::{About, Blind, Found, Severity, Verdict};

/// Which rules look: those that need no more than the counts do so more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Rules on health and flow.
    Counts,
    /// Rules on causes.
    Causes,
}

/// After how many looks a thing is said, and no longer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Looks that must find it.
    pub looks: u32,
    /// Looks that must not.
    pub quiet_looks: u32,
}

impl From<&VerdictSettings> for Patience {
    fn from(settings: &VerdictSettings) -> Self {
        Self {
            looks: settings.looks.max(1),
            quiet_looks: settings.quiet_looks.max(1),
        }
    }
}

/// Looks and remembers.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    held: BTreeMap<(usize, String), Held>,
    blind: BTreeMap<usize, Vec<Blind>>,
    before: Option<Before>,
    /// Looks so far, by pace.
    looks: [u32; 2],
}

#[derive(Clone, Debug)]
struct Held {
    found: Found,
    since: Timestamp,
    present: u32,
    absent: u32,
    is_said: bool,
    unseen: Option<String>,
    /// What the look rested on that was counted last.
    asked: Vec<Asked>,
}

impl Watch {
    /// Looks with the rules of one pace. The sight's earlier look is this watch's own.
    pub fn look(&mut self, sight: &Sight<'_>, pace: Pace, patience: Patience) {
        self.look_with(VERDICTS, sight, pace, patience);
    }

    /// Looks with every rule.
    pub fn look_at_all(&mut self, sight: &Sight<'_>, patience: Patience) {
        self.look(sight, Pace::Causes, patience);
        self.look(sight, Pace::Counts, patience);
    }

    pub(super) fn look_with(
        &mut self,
        rules: &[Rule],
        sight: &Sight<'_>,
        pace: Pace,
        patience: Patience,
    ) {
        if let Some(looks) = self.looks.get_mut(pace as usize) {
            *looks = looks.saturating_add(1);
        }
        let before = self.before.clone();
        let sight = Sight {
            before: before.as_ref(),
            ..*sight
        };
        for (index, rule) in rules.iter().enumerate() {
            if rule.pace == pace {
                let mut look = Look::default();
                (rule.look)(&sight, &mut look);
                self.take(index, look, sight.at, patience);
            }
        }
        if pace == Pace::Counts
            && let Some(flow) = sight.flow
        {
            self.before = Some(Before::of(sight.at, flow, before.as_ref()));
        }
    }

    fn take(&mut self, rule: usize, look: Look, at: Timestamp, patience: Patience) {
        let Look { found, blind } = look;
        let mut seen = Vec::with_capacity(found.len());
        for found in found {
            let key = (rule, found.subject.clone());
            seen.push(key.clone());
            let began = found.for_s.map_or(at, |seconds| {
                let micros = std::time::Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
                at.minus(micros)
            });
            let held = self.held.entry(key).or_insert_with(|| Held {
                found: found.clone(),
                since: began,
                present: 0,
                absent: 0,
                is_said: false,
                unseen: None,
                asked: Vec::new(),
            });
            // The facts may tell an earlier beginning than the first look; never a later one.
            held.since = held.since.min(began);
            if !found.asked.iter().any(|asked| held.asked.contains(asked)) {
                held.asked.clone_from(&found.asked);
                held.present = held.present.saturating_add(1);
            }
            held.found = found;
            held.absent = 0;
            held.unseen = None;
            held.is_said |= held.present >= patience.looks;
        }
        let own = (rule, String::new())..(rule + 1, String::new());
        let mut gone = Vec::new();
        for (key, held) in self.held.range_mut(own) {
            if seen.contains(key) {
                continue;
            }
            let touched = |blind: &&Blind| {
                let mut about = held.found.about.iter();
                about.any(|about| about.touches(&blind.about))
            };
            if let Some(blind) = blind.iter().find(touched) {
                held.unseen = Some(blind.reason.clone());
                continue;
            }
            held.present = 0;
            held.unseen = None;
            held.absent = held.absent.saturating_add(1);
            if !held.is_said || held.absent >= patience.quiet_looks {
                gone.push(key.clone());
            }
        }
        for key in gone {
            self.held.remove(&key);
        }
        self.blind.insert(rule, blind);
    }

    /// What is said: the worst first, then causes before what they cause. What follows from another
    /// verdict is named by it and not said itself.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.verdicts_of(VERDICTS)
    }

    pub(super) fn verdicts_of(&self, rules: &[Rule]) -> Vec<Verdict> {
        let mut said: Vec<(usize, &Held)> = self
            .held
            .iter()
            .filter(|(_, held)| held.is_said)
            .map(|((rule, _), held)| (*rule, held))
            .collect();
        said.sort_by(|(a, x), (b, y)| {
            (x.found.severity, a, &x.found.subject).cmp(&(y.found.severity, b, &y.found.subject))
        });
        let explained: Vec<Option<usize>> = said
            .iter()
            .map(|(rule, held)| {
                let rule = rules.get(*rule)?;
                said.iter().position(|(other, cause)| {
                    // What is worse than its cause is more than a consequence.
                    cause.found.severity <= held.found.severity
                        && rules.get(*other).is_some_and(|other| {
                            rule.explained_by.contains(&other.id)
                                && is_shared(&held.found, &cause.found)
                        })
                })
            })
            .collect();
        let name = |(rule, held): &(usize, &Held)| {
            let id = rules.get(*rule).map_or("", |rule| rule.id);
            format!("{id} {}", held.found.subject)
        };
        let mut out = Vec::new();
        for (index, (rule, held)) in said.iter().enumerate() {
            let Some(rule) = rules.get(*rule) else {
                continue;
            };
            if explained.get(index).copied().flatten().is_some() {
                continue;
            }
            let follows = |at: &usize| root(&explained, *at) == index && *at != index;
            out.push(Verdict {
                id: rule.id,
                severity: held.found.severity,
                subject: held.found.subject.clone(),
                sentence: held.found.sentence.clone(),
                numbers: held.found.numbers.clone(),
                window: held.found.window.or(rule.window),
                recovers: held.found.recovers.unwrap_or(rule.recovers),
                evidence: held.found.evidence.clone(),
                next: held.found.next.clone(),
                since: held.since,
                unseen: held.unseen.clone(),
                explains: (0..said.len())
                    .filter(follows)
                    .filter_map(|at| said.get(at).map(name))
                    .collect(),
            });
        }
        out
    }

    /// True once every rule has looked so often as a finding needs to be said. One that rests on an answer that is
    /// asked for slowly may take longer.
    pub fn has_looked(&self, patience: Patience) -> bool {
        self.looks.iter().all(|looks| *looks >= patience.looks)
    }

    /// What the rules could not see in their last look, each reason once.
    pub fn blind(&self) -> Vec<Blind> {
        let mut out: Vec<Blind> = Vec::new();
        for blind in self.blind.values().flatten() {
            if !out.contains(blind) {
                out.push(blind.clone());
            }
        }
        out
    }

    /// True when anything that is said is more than not being able to see.
    pub fn is_anything_wrong(&self) -> bool {
        self.held
            .values()
            .any(|held| held.is_said && held.found.severity != Severity::Unseen)
    }
}

fn is_shared(one: &Found, other: &Found) -> bool {
    let touches = |about: &About| other.about.iter().any(|cause| about.touches(cause));
    one.about.iter().any(touches)
}

/// The verdict that is said for one, through all that explain it. Rules name only causes that stand
/// before them, so there is no ring; the bound keeps a mistake from hanging.
fn root(explained: &[Option<usize>], at: usize) -> usize {
    let mut at = at;
    for _ in 0..explained.len() {
        match explained.get(at).copied().flatten() {
            Some(cause) => at = cause,
            None => return at,
        }
    }
    at
}
