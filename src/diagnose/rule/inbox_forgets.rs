//! An inbox that forgets ids which may still be replayed.

use crate::base::human;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "inbox_forgets",
    summary: "an inbox forgets ids that may still be replayed: the effect could happen twice",
    window: Some(Window::KeepsFailing),
    recovers: "a person: keep inbox rows longer, and check the business data before such a replay",
    explained_by: &["server_unreachable"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    let kept = sight.context.inbox_retention.map(|kept| kept.as_secs_f64());
    let window = sight
        .context
        .retention
        .replay_window
        .map(|window| window.as_secs_f64());
    let letters = look.parts(&causes.letters);
    for (service, horizon) in look.parts(&causes.horizons) {
        let forgotten = horizon.map(|at| sight.at.seconds_since(at));
        // What the archiver wrote down is what is; the configuration only says what should be.
        let Some(remembers) = forgotten.or(kept) else {
            continue;
        };
        let own = letters.iter().find(|(of, _)| *of == service);
        let oldest = own.and_then(|(_, letters)| letters.oldest_open_s);
        let late = oldest.filter(|oldest| *oldest > remembers);
        let short = window.filter(|window| forgotten.is_some_and(|forgotten| forgotten < *window));
        let sentence = match (late, short) {
            (Some(oldest), _) => format!(
                "{service}: a dead letter is {} old and the inbox remembers {}: a replay could take effect \
                 twice",
                human::age(oldest),
                human::age(remembers)
            ),
            (None, Some(window)) => format!(
                "{service}: events may be replayed for {}, but the inbox remembers {} only",
                human::age(window),
                human::age(remembers)
            ),
            (None, None) => continue,
        };
        look.found(
            Found::new(
                Severity::Warning,
                service,
                vec![About::Service(service.to_owned())],
                sentence,
                Evidence::of("dead_letters"),
                "redrive config show",
            )
            .number("remembers_s", remembers)
            .number("oldest_dead_letter_s", oldest)
            .number("replay_window_s", window),
        );
    }
}
