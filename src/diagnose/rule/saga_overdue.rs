//! Sagas that should be over, or that nobody can move.

use super::counted;
use crate::base::human;
use crate::model::saga::{Saga, SagaState};

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "saga_overdue",
    summary: "a saga is past its deadline, or waits for a person",
    window: None,
    recovers: "the coordinator when the missing answer comes, else a person",
    explained_by: &["server_unreachable"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    for (service, sagas) in look.parts(&causes.sagas) {
        let is_meant = |saga: &Saga| {
            saga.state != SagaState::CompensationFailed && saga.needs_somebody(sight.at)
        };
        let mut open = sagas.sagas.iter().filter(|saga| is_meant(saga)).peekable();
        let Some(first) = open.peek().copied() else {
            continue;
        };
        let latest = open
            .filter_map(|saga| saga.late_s(sight.at))
            .fold(None, |most, late| {
                Some(most.map_or(late, |most: f64| most.max(late)))
            });
        let count = sagas.count(sight.at, is_meant);
        let how = match latest {
            Some(late) => format!("past the deadline by up to {}", human::age(late)),
            None => "waiting for a person".to_owned(),
        };
        look.found(
            Found::new(
                Severity::Warning,
                service,
                vec![About::Sagas(service.to_owned())],
                format!(
                    "{service}: {} {how}, first {} {}",
                    counted(count, "saga is", "sagas are"),
                    first.saga_type,
                    first.business_key
                ),
                Evidence::at("sagas", term("id", first.saga_id.as_str())),
                "redrive sagas",
            )
            .number("sagas", count.floor())
            .number("late_s", latest)
            .number("saga_id", first.saga_id.as_str())
            .since_s(latest)
            .rests_on([sagas.asked]),
        );
    }
}
