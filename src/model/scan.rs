//! Reconciliation: scans, what they could not compare, and the differences they found.
//!
//! ```text
//! scan     running ──▶ finished              every part was looked at (or is named as not compared)
//!             ├──────▶ stopped               a person stopped it, or its process went: it may be resumed
//!             └──────▶ failed                it could not go on; it may be resumed
//! finding  open ─────▶ gone                  a complete scan no longer found it
//!             ◀──────                        the same difference again
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::clock::Timestamp;
use crate::base::digest::sha256_hex;

use super::ids::{ConsumerName, EventId, FindingId, ScanId};
use super::page::Cursor;

/// Where a scan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanState {
    /// Somebody works on it, or died while doing so.
    Running,
    /// It came to its end.
    Finished,
    /// It was stopped; it can be resumed.
    Stopped,
    /// It could not go on; it can be resumed.
    Failed,
}

impl ScanState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Running, Self::Finished, Self::Stopped, Self::Failed];

    /// The word of the column, the screen and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// The state a word means.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// A part that was not compared: "nothing to compare" is not "clean".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotCompared {
    /// What, e.g. `inbox of inventory`.
    pub what: String,
    /// Why.
    pub reason: String,
    /// True when a server could not be asked.
    pub is_unreachable: bool,
}

/// How far a scan is, and what it has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Parts there are, e.g. one a service.
    pub parts: u32,
    /// Parts that are done.
    pub parts_done: u32,
    /// The part it is in.
    pub part: Option<String>,
    /// Where the part goes on after a stop; opaque.
    pub cursor: Option<String>,
    /// Rows, orders or sequences looked at.
    pub examined: u64,
    /// Those that differ but changed less than the grace time ago.
    pub in_flight: u64,
    /// Those that differ for a reason that is known, by reason: waiting in a queue, dead, forgotten.
    pub explained: BTreeMap<String, u64>,
    /// Differences found.
    pub found: u64,
    /// Findings that are gone.
    pub cleared: u64,
    /// Limits that hold for the answer, e.g. how far back was looked.
    pub notes: Vec<String>,
}

/// One run of one rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scan {
    /// Its identity.
    pub scan_id: ScanId,
    /// The rule.
    pub rule: String,
    /// Where it stands.
    pub state: ScanState,
    /// Who started it.
    pub actor: String,
    /// When, on the database's clock.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Until when a running one is believed alive.
    pub lease_until: Option<Timestamp>,
    /// Rows the databases gave it.
    pub rows_read: u64,
    /// Parts that were not compared.
    pub not_compared: Vec<NotCompared>,
    /// How far it is.
    pub progress: Progress,
}

impl Scan {
    /// True when it ended, looked at everything, and found nothing.
    pub fn is_clean(&self) -> bool {
        self.state == ScanState::Finished
            && self.not_compared.is_empty()
            && self.progress.found == 0
    }
}

/// The verb that fixes a difference. It opens a plan; nothing is done by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// e.g. `replay`, `saga query`; `look` when no verb fixes it.
    pub verb: String,
    /// On what: a dead letter, an event, a saga.
    pub target: String,
    /// Its service.
    pub service: String,
    /// The command line that prints the plan.
    pub command: String,
}

/// One fact of a difference, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What.
    pub name: String,
    /// Its value; `None`: not there.
    pub value: Option<String>,
}

impl Fact {
    /// A fact with a value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: Some(value.into()),
        }
    }
}

/// Two things that should agree and do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Kind, e.g. `sent_not_consumed`.
    pub class: String,
    /// What it is about, unique within rule and class.
    pub subject: String,
    /// The service whose row it started from.
    pub service: String,
    /// One sentence.
    pub summary: String,
    /// The event, if it is about one.
    pub event_id: Option<EventId>,
    /// The consumer, if it is about one.
    pub consumer: Option<ConsumerName>,
    /// The last transition of what is compared; the grace time counts from it (C-01). `None`: no table
    /// tells.
    pub since: Option<Timestamp>,
    /// When the compared row was written: a later scan that looks less far back does not clear it.
    pub at: Option<Timestamp>,
    /// Evidence.
    pub facts: Vec<Fact>,
    /// What fixes it.
    pub suggestion: Option<Suggestion>,
}

impl Difference {
    /// The same for the same difference, whichever scan finds it.
    pub fn fingerprint(&self, rule: &str) -> String {
        sha256_hex(format!("{rule}\0{}\0{}", self.class, self.subject).as_bytes())
    }
}

/// Where a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// It was there at the last complete look.
    Open,
    /// It is no longer there.
    Gone,
}

impl FindingState {
    /// The word of the column, the screen and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Gone => "gone",
        }
    }

    /// The state a word means; a word of a newer version is open: it is shown.
    pub fn from_word(word: &str) -> Self {
        if word == Self::Gone.word() {
            Self::Gone
        } else {
            Self::Open
        }
    }
}

/// A difference as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its identity.
    pub finding_id: FindingId,
    /// The rule that found it.
    pub rule: String,
    /// The scan that saw it last.
    pub scan_id: ScanId,
    /// Where it stands.
    pub state: FindingState,
    /// When it was first seen.
    pub first_seen_at: Timestamp,
    /// When it was last seen.
    pub last_seen_at: Timestamp,
    /// Who looks after it.
    pub owner: Option<String>,
    /// A note.
    pub note: Option<String>,
    /// What differs.
    #[serde(flatten)]
    pub difference: Difference,
}

/// Which findings to read.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingQuery {
    /// In this state, last seen first.
    pub state: FindingState,
    /// Where the page starts.
    pub after: Option<Cursor>,
    /// Rows a page.
    pub limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(class: &str, subject: &str) -> Difference {
        Difference {
            class: class.to_owned(),
            subject: subject.to_owned(),
            service: "orders".to_owned(),
            summary: "differs".to_owned(),
            event_id: None,
            consumer: None,
            since: None,
            at: None,
            facts: vec![],
            suggestion: None,
        }
    }

    #[test]
    fn the_same_difference_has_the_same_key_whatever_its_evidence_says() {
        let first = difference("not_sent", "8812");
        let again = Difference {
            summary: "still differs".to_owned(),
            facts: vec![Fact::new("attempts", "4")],
            ..first.clone()
        };
        assert_eq!(first.fingerprint("r"), again.fingerprint("r"));
        for other in [difference("dead", "8812"), difference("not_sent", "8813")] {
            assert_ne!(first.fingerprint("r"), other.fingerprint("r"));
        }
        assert_ne!(first.fingerprint("r"), first.fingerprint("s"));
    }

    #[test]
    fn words_come_back() {
        for state in ScanState::ALL {
            assert_eq!(ScanState::from_word(state.word()), Some(state));
        }
        for state in [FindingState::Open, FindingState::Gone] {
            assert_eq!(FindingState::from_word(state.word()), state);
        }
    }
}
