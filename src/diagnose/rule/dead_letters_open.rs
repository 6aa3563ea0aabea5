//! Dead letters that wait for a person.

use super::{counted, number};
use crate::base::human;

use super::Rule;
use crate::diagnose::sight::{Look, Sight};
use crate::diagnose::verdict::{About, Evidence, Found, Severity, Window, term};
use crate::diagnose::watch::Pace;

pub const RULE: Rule = Rule {
    id: "dead_letters_open",
    summary: "dead letters are open",
    window: Some(Window::KeepsFailing),
    recovers: "a person: replay, repair, or discard with a reason",
    explained_by: &["server_unreachable", "poison_group"],
    pace: Pace::Causes,
    look,
};

fn look(sight: &Sight<'_>, look: &mut Look) {
    let Some(causes) = look.causes(sight) else {
        return;
    };
    for (service, letters) in look.parts(&causes.letters) {
        let Some(open) = letters.open.filter(|open| open.floor() > 0) else {
            continue;
        };
        let age = letters.oldest_open_s.map_or_else(String::new, |age| {
            format!(", the oldest died {} ago", human::age(age))
        });
        let causes = number(letters.groups.len() as u64, "cause", "causes");
        let consumer = sight
            .context
            .service(service)
            .and_then(|service| service.inbox.as_ref())
            .map(|inbox| inbox.consumer.to_string());
        let filter = consumer.map(|consumer| term("consumer", &consumer));
        look.found(
            Found::new(
                Severity::Warning,
                service,
                vec![About::Service(service.to_owned())],
                format!(
                    "{service}: {} open in {causes}{age}",
                    counted(open, "dead letter is", "dead letters are")
                ),
                Evidence {
                    pane: "dead_letters",
                    filter,
                },
                "redrive dead --by cause",
            )
            .number("open", open.floor())
            .number("causes", letters.groups.len())
            .number("oldest_s", letters.oldest_open_s)
            .since_s(letters.oldest_open_s),
        );
    }
}
