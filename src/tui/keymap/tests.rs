//! The table of keys: complete, without doubles, and as the manual has it.

use super::*;
use std::fmt::Write as _;

#[test]
fn no_key_means_two_things_in_one_place() {
    for (scope, _) in Scope::ALL {
        let mut seen = Vec::new();
        for binding in BINDINGS.iter().filter(|binding| binding.scope == scope) {
            for key in binding.keys {
                assert!(!seen.contains(key), "{key} twice in {scope:?}");
                seen.push(*key);
            }
        }
    }
    // A pane's own key never hides one that works everywhere.
    for pane in BINDINGS
        .iter()
        .filter(|b| (Scope::Overview..=Scope::Audit).contains(&b.scope))
    {
        for general in BINDINGS.iter().filter(|b| b.scope == Scope::Everywhere) {
            assert!(
                !pane.keys.iter().any(|key| general.keys.contains(key)),
                "{} hides {}",
                pane.name,
                general.name
            );
        }
    }
}

#[test]
fn uppercase_acts_and_is_guarded() {
    let moves = [Action::Last];
    for binding in BINDINGS {
        for key in binding.keys {
            if let KeyCode::Char(c) = key.code
                && c.is_ascii_uppercase()
                && !moves.contains(&binding.action)
            {
                assert!(binding.is_guarded, "{c} is not guarded");
            }
        }
    }
    let confirm = BINDINGS
        .iter()
        .find(|b| b.action == Action::Confirm)
        .expect("there");
    for binding in BINDINGS.iter().filter(|b| {
        matches!(
            b.action,
            Action::Replay
                | Action::Repair
                | Action::Release
                | Action::Discard
                | Action::SagaRetry
                | Action::SagaQuery
                | Action::SagaCompensate
                | Action::SagaHandled
                | Action::SagaAssign
        )
    }) {
        assert!(!binding.keys.iter().any(|key| confirm.keys.contains(key)));
    }
}

#[test]
fn the_page_of_keys_is_up_to_date() {
    let mut page = String::from(
        "# Keys\n\nMade from the table that drives the console (`src/tui/keymap/mod.rs`); `UPDATE_DOCS=1 cargo test keymap` writes it anew.\n\nLowercase looks, uppercase acts. The keys that work where you are stand on the bottom line; `?` lists them.\n",
    );
    for (scope, heading) in Scope::ALL {
        let rows: Vec<&Binding> = BINDINGS.iter().filter(|b| b.scope == scope).collect();
        if rows.is_empty() {
            continue;
        }
        write!(
            page,
            "\n## {heading}\n\n| key | what it does |\n|---|---|\n"
        )
        .expect("writes");
        for binding in rows {
            let keys = binding
                .keys
                .iter()
                .map(|key| format!("`{key}`"))
                .collect::<Vec<_>>()
                .join(" ");
            writeln!(page, "| {keys} | {} |", binding.help).expect("writes");
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/keys.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).expect("made");
        std::fs::write(path, &page).expect("written");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/keys.md is old: UPDATE_DOCS=1 cargo test keymap"
    );
}
