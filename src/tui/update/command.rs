//! The command bar.

use super::keys;
use crate::model::filter::Filter;
use crate::tui::dialog::line::{Command, command};
use crate::tui::event::Effect;
use crate::tui::keymap::Action;
use crate::tui::model::{Exit, Model};
use crate::tui::theme::{Theme, ThemeName};
use crate::tui::widget::toast::Toast;

/// Does what was typed.
pub fn run(model: &mut Model, text: &str) -> Vec<Effect> {
    let now = model.world.now;
    let Some((command, rest)) = command(text) else {
        if !text.trim().is_empty() {
            model.toast = Some(Toast::bad(
                format!("no command {:?}; : and Tab show them", text.trim()),
                now,
            ));
        }
        return Vec::new();
    };
    match command {
        Command::Key(action) => keys::pane(model, action),
        Command::Replay if rest.is_empty() => keys::pane(model, Action::Replay),
        Command::Replay => {
            let job = model.new_job();
            vec![Effect::Resolve(job, rest.to_owned())]
        }
        Command::Filter => {
            let Some(kind) = model.pane().filter_kind() else {
                model.toast = Some(Toast::note("this pane has no rows to filter", now));
                return Vec::new();
            };
            match Filter::parse_whole(kind, rest) {
                Ok(filter) => {
                    let (pane, world) = model.pane_and_world();
                    pane.set_filter(rest, filter, world);
                    pane.land(world);
                }
                Err(error) => model.toast = Some(Toast::bad(error.to_string(), now)),
            }
            Vec::new()
        }
        Command::Theme => {
            match ThemeName::from_word(rest) {
                Some(name) => {
                    let theme = model.world.theme;
                    model.world.theme = Theme::new(name, theme.terminal, theme.is_ascii);
                }
                None => {
                    model.toast = Some(Toast::bad("theme dark, light, ansi or mono", now));
                }
            }
            Vec::new()
        }
        Command::Context => {
            if model.contexts.iter().any(|name| name == rest) {
                super::leave(model, Exit::Context(rest.to_owned()));
            } else {
                model.toast = Some(Toast::bad(
                    format!("no context {rest:?} in the configuration"),
                    now,
                ));
            }
            Vec::new()
        }
    }
}
