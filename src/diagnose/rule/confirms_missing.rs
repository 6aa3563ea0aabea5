//! Published, and the broker does not say that it has them.

use super::number;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "confirms_missing",
    summary: "the broker confirms late, refuses, or says nothing",
    window: Some(Window::ConfirmLost),
    recovers: "the dispatcher sends the same event again under the same id",
    explained_by: &["server_unreachable", "broker_blocked", "queue_not_whole"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    for (service, troubles) in look.parts(&causes.troubles) {
        let of = |prefix: &str| -> u64 {
            let groups = troubles.retried.iter().filter(|group| {
                group
                    .error
                    .as_deref()
                    .is_some_and(|error| error.starts_with(prefix))
            });
            groups.map(|group| group.rows).sum()
        };
        let (unknown, refused) = (of("unknown whether sent"), of("refused by broker (nack)"));
        if unknown + refused == 0 {
            continue;
        }
        let mut parts = Vec::new();
        if unknown > 0 {
            parts.push(number(
                unknown,
                "event without a confirm",
                "events without a confirm",
            ));
        }
        if refused > 0 {
            let words = (
                "event refused (queue full or limit)",
                "events refused (queue full or limit)",
            );
            parts.push(number(refused, words.0, words.1));
        }
        look.found(
            Found::new(
                Severity::Critical,
                service,
                vec![
                    About::Outbox(service.to_owned()),
                    About::Service(service.to_owned()),
                    About::Broker,
                ],
                format!(
                    "{service}: the broker does not confirm: {}, tried again",
                    parts.join(", ")
                ),
                Evidence::at("outbox", "state:pending"),
                "redrive queues",
            )
            .number("unconfirmed", unknown)
            .number("refused", refused),
        );
    }
}
