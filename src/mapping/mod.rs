//! Which table and column play which logical part, in which words states are written, and what the
//! layout allows. Layouts are TOML (`presets/`), in the vocabulary of [`source`]; a new one is a
//! file there and a line in [`PRESETS`].

pub mod identifier;
pub mod layout;
pub mod source;

pub use identifier::Identifier;
pub use layout::{
    ColumnAction, ColumnValue, InboxLayout, Layout, LayoutError, OutboxIndexes, OutboxLayout,
};
pub use source::SafetyWord;

/// A built-in layout.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name in configurations: `layout = "native"`.
    pub name: &'static str,
    /// Its TOML.
    pub text: &'static str,
}

/// Every built-in layout.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "native",
        text: include_str!("presets/native.toml"),
    },
    Preset {
        name: "compact",
        text: include_str!("presets/compact.toml"),
    },
];

/// Names of every layout, for messages and completion.
pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

/// The layout called `name`.
///
/// # Errors
/// [`LayoutError`] lists the layouts there are.
pub fn layout(name: &str) -> Result<Layout, LayoutError> {
    match PRESETS.iter().find(|preset| preset.name == name) {
        Some(preset) => Layout::parse(preset.name, preset.text),
        None => Err(LayoutError {
            layout: name.to_owned(),
            problem: format!("there is no such layout; use one of {}", names().join(", ")),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_file_and_reads() {
        for preset in PRESETS {
            let layout = layout(preset.name).expect("a built-in layout reads");
            assert!(layout.outbox.is_some());
            let path = format!(
                "{}/src/mapping/presets/{}.toml",
                env!("CARGO_MANIFEST_DIR"),
                preset.name
            );
            assert!(std::path::Path::new(&path).exists(), "{path}");
        }
    }

    #[test]
    fn a_compact_row_has_no_token_and_no_lease_and_says_why() {
        let outbox = layout("compact").expect("reads").outbox.expect("has one");
        assert!(outbox.token.is_none() && outbox.lease_until.is_none());
        assert!(!outbox.release.is_possible);
        assert!(outbox.release.because.contains("no lease"));
        assert_eq!(outbox.words.failed, "DEAD");
    }

    #[test]
    fn an_unknown_layout_names_the_known_ones() {
        let error = layout("nativ").expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "layout nativ: there is no such layout; use one of native, compact"
        );
    }
}
