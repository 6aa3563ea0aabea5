//! Where an event stands among those of its aggregate. Pure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::event::{Handler, Received, VersionPolicy};
use crate::model::ids::AggregateId;
use crate::pipeline::panic_text;

/// An event's sequence and its version in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub aggregate_id: AggregateId,
    pub version: i64,
    rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    NewerWins,
    OneByOne { first: i64, patience: Duration },
}

/// Where an event stands, given the last version that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its turn.
    Next,
    /// Overtaken: an equal or newer version was applied.
    Past,
    /// An earlier version is missing.
    Gap { missing: i64, patience: Duration },
}

impl Sequence {
    /// What an unseen sequence begins with: the version before its first.
    pub(super) const fn base(&self) -> i64 {
        match self.rule {
            Rule::NewerWins => i64::MIN,
            Rule::OneByOne { first, .. } => first.saturating_sub(1),
        }
    }

    /// True when other events may wait for this one.
    pub(super) const fn has_successors(&self) -> bool {
        matches!(self.rule, Rule::OneByOne { .. })
    }

    /// Where it stands after `last`.
    pub(super) const fn place_after(&self, last: i64) -> Place {
        if self.version <= last {
            return Place::Past;
        }
        match self.rule {
            Rule::NewerWins => Place::Next,
            Rule::OneByOne { patience, .. } => {
                let missing = last.saturating_add(1);
                if self.version == missing {
                    Place::Next
                } else {
                    Place::Gap { missing, patience }
                }
            }
        }
    }
}

/// The sequence a handler's policy puts an event into.
///
/// # Errors
/// Class and error of the dead letter: the event has no key or version, or the policy panicked.
pub(super) fn sequence_of(
    handler: &dyn Handler,
    event: &Received,
) -> Result<Option<Sequence>, (String, String)> {
    let policy = catch_unwind(AssertUnwindSafe(|| handler.policy(event)))
        .map_err(|panic| ("panic".to_owned(), panic_text(panic.as_ref())))?;
    let rule = match policy {
        VersionPolicy::Any | VersionPolicy::Transition => return Ok(None),
        VersionPolicy::Snapshot => Rule::NewerWins,
        VersionPolicy::Increment { first, patience } => Rule::OneByOne { first, patience },
    };
    match (&event.aggregate_id, event.aggregate_version) {
        (Some(aggregate_id), Some(version)) => Ok(Some(Sequence {
            aggregate_id: aggregate_id.clone(),
            version,
            rule,
        })),
        (None, _) => Err(missing("aggregate_id")),
        (_, None) => Err(missing("aggregate_version")),
    }
}

fn missing(what: &str) -> (String, String) {
    (
        format!("invalid: no {what}"),
        format!("no {what}: without it the event has no place in a sequence"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const PATIENCE: Duration = Duration::from_mins(10);

    fn sequence(version: i64, rule: Rule) -> Sequence {
        Sequence {
            aggregate_id: "8812".into(),
            version,
            rule,
        }
    }

    #[rstest]
    #[case(1, 0, Place::Next)]
    #[case(3, 2, Place::Next)]
    #[case(2, 2, Place::Past)]
    #[case(1, 2, Place::Past)]
    #[case(4, 2, Place::Gap { missing: 3, patience: PATIENCE })]
    #[case(i64::MAX, i64::MAX, Place::Past)]
    fn an_increment_is_next_past_or_early(
        #[case] version: i64,
        #[case] last: i64,
        #[case] place: Place,
    ) {
        let rule = Rule::OneByOne {
            first: 1,
            patience: PATIENCE,
        };
        assert_eq!(sequence(version, rule).place_after(last), place);
    }

    #[rstest]
    #[case(7, 3, Place::Next)]
    #[case(3, 3, Place::Past)]
    #[case(2, 3, Place::Past)]
    #[case(-5, i64::MIN, Place::Next)]
    fn a_newer_snapshot_wins(#[case] version: i64, #[case] last: i64, #[case] place: Place) {
        assert_eq!(sequence(version, Rule::NewerWins).place_after(last), place);
    }
}
