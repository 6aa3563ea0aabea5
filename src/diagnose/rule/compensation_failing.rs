//! Sagas that cannot undo what they did.

use super::counted;
use crate::model::saga::{Saga, SagaState};

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "compensation_failing",
    summary: "a saga cannot undo what it did",
    window: Some(Window::KeepsFailing),
    recovers: "a person: retry the step, or undo it by hand and mark it handled",
    explained_by: &["server_unreachable"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    for (service, sagas) in look.parts(&causes.sagas) {
        let is_meant = |saga: &Saga| saga.state == SagaState::CompensationFailed;
        let Some(first) = sagas.sagas.iter().find(|saga| is_meant(saga)) else {
            continue;
        };
        let count = sagas.count(sight.at, is_meant);
        look.found(
            Found::new(
                Severity::Critical,
                service,
                vec![About::Sagas(service.to_owned())],
                format!(
                    "{service}: {} not undo what was done, first {} {}",
                    counted(count, "saga could", "sagas could"),
                    first.saga_type,
                    first.business_key
                ),
                Evidence::at("sagas", term("id", first.saga_id.as_str())),
                "redrive sagas --filter 'state:compensation_failed'",
            )
            .number("sagas", count.floor())
            .number("saga_id", first.saga_id.as_str())
            .since_s(Some(sight.at.seconds_since(first.updated_at)))
            .rests_on([sagas.asked]),
        );
    }
}
