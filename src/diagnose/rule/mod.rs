//! The rules, one file each: a pure function from a [`Sight`] to what it found and what it could not see.
//! The order is that of causes: a rule may be explained only by one before it.

use crate::model::count::Count;
use crate::observe::snapshot::FlowSnapshot;

use super::sight::{Look, Sight};
use super::verdict::{About, Window};
use super::watch::Pace;

mod batch_outlives_lease;
mod broker_blocked;
mod cannot_see;
mod clock_skew;
mod compensation_failing;
mod confirms_missing;
mod consumer_gone;
mod consumer_slow;
mod dead_letters_open;
mod dead_letters_to_nothing;
mod dispatch_failed;
mod dispatcher_behind;
mod dispatcher_not_claiming;
mod dlq_without_collector;
mod findings_open;
mod inbox_forgets;
mod lease_expired;
mod locks_held;
mod operation_unknown;
mod poison_group;
mod queue_not_whole;
mod requeue_loop;
mod saga_overdue;
mod sent_not_consumed;
mod sequence_held;
mod server_unreachable;
mod unroutable;

/// One rule.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its stable id.
    pub id: &'static str,
    /// What it looks for, in one line.
    pub summary: &'static str,
    /// Where between commit and effect the events stand that it finds.
    pub window: Option<Window>,
    /// Who recovers it.
    pub recovers: &'static str,
    /// Rules whose findings on the same thing make this one follow from them.
    pub explained_by: &'static [&'static str],
    /// How often it looks.
    pub pace: Pace,
    /// Looks.
    pub look: fn(&Sight<'_>, &mut Look),
}

/// Every rule, causes before what they cause.
pub const VERDICTS: &[Rule] = &[
    server_unreachable::RULE,
    broker_blocked::RULE,
    queue_not_whole::RULE,
    locks_held::RULE,
    sequence_held::RULE,
    dispatcher_not_claiming::RULE,
    lease_expired::RULE,
    batch_outlives_lease::RULE,
    confirms_missing::RULE,
    dispatcher_behind::RULE,
    unroutable::RULE,
    dispatch_failed::RULE,
    dead_letters_to_nothing::RULE,
    consumer_gone::RULE,
    requeue_loop::RULE,
    poison_group::RULE,
    dlq_without_collector::RULE,
    consumer_slow::RULE,
    sent_not_consumed::RULE,
    dead_letters_open::RULE,
    inbox_forgets::RULE,
    compensation_failing::RULE,
    saga_overdue::RULE,
    operation_unknown::RULE,
    findings_open::RULE,
    clock_skew::RULE,
    cannot_see::RULE,
];

/// `1 row`, `31 rows`, `≥ 10 000 rows`.
fn counted(count: Count, one: &str, many: &str) -> String {
    if count == Count::Exact(1) {
        format!("1 {one}")
    } else {
        format!("{count} {many}")
    }
}

/// A number of the flow that the services' journals give; nothing when it is zero, and said when it should be known and is
/// not.
fn of_journals(
    sight: &Sight<'_>,
    look: &mut Look,
    number: fn(&FlowSnapshot) -> Option<Count>,
    blind: &'static str,
) -> Option<Count> {
    let number = number(look.flow(sight)?);
    let has_journal = sight.context.services.iter().any(|service| service.journal);
    if number.is_none() && has_journal {
        look.blind(About::All, blind);
    }
    number.filter(|number| number.floor() > 0)
}

/// [`counted`] of a plain number.
fn number(count: u64, one: &str, many: &str) -> String {
    counted(Count::Exact(count), one, many)
}
