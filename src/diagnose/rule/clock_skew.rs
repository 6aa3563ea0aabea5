//! A database whose clock is not ours.

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "clock_skew",
    summary: "a clock of a database is away from ours",
    window: None,
    recovers: "whoever runs the hosts: time synchronisation",
    explained_by: &["server_unreachable"],
    pace: Pace::Counts,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let told = sight
        .health
        .and_then(|health| Some((health, health.skew_us?)));
    let Some((health, skew)) = told else {
        look.blind(About::All, "no database told its clock");
        return;
    };
    let limit = sight.context.thresholds.clock_skew;
    if u128::from(skew.unsigned_abs()) <= limit.as_micros() {
        return;
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let skew_s = skew as f64 / 1e6;
    look.found(
        Found::new(
            Severity::Warning,
            "clock",
            vec![About::All],
            format!(
                "a clock of a database is {skew_s:+.1}s away from ours: ages are wrong by that, leases are not"
            ),
            Evidence::of("leases"),
            "redrive check",
        )
        .number("skew_s", skew_s)
        .rests_on(health.clocks_asked.clone()),
    );
}
