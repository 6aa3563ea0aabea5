//! Sagas that should be over, or that nobody can move.

use super::number;
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
        let late_s = |saga: &Saga| {
            let deadline = saga.deadline_at.filter(|_| !saga.is_finished())?;
            Some(sight.at.seconds_since(deadline)).filter(|late| *late > 0.0)
        };
        let open: Vec<_> = sagas
            .iter()
            .filter(|saga| saga.state != SagaState::CompensationFailed)
            .filter(|saga| late_s(saga).is_some() || saga.needs_attention())
            .collect();
        let Some(first) = open.first() else { continue };
        let latest = open
            .iter()
            .filter_map(|saga| late_s(saga))
            .fold(None, |most, late| {
                Some(most.map_or(late, |most: f64| most.max(late)))
            });
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
                    number(open.len() as u64, "saga is", "sagas are"),
                    first.saga_type,
                    first.business_key
                ),
                Evidence::at("sagas", term("id", first.saga_id.as_str())),
                "redrive sagas",
            )
            .number("sagas", open.len())
            .number("late_s", latest)
            .number("saga_id", first.saga_id.as_str())
            .since_s(latest),
        );
    }
}
