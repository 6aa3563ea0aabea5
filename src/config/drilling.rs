//! `[contexts.NAME.drill]`: what drills may do to the broker itself.

use super::ConfigError;
use super::section::Section;

/// What drills are given beyond databases and queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrillSettings {
    /// A program and its first arguments that control the broker's nodes: `list`, `kill NODE`,
    /// `start NODE`, `ctl NODE ARGS…`, `url NODE`. `None`: drills that need it are not run.
    pub control: Option<Vec<String>>,
    /// True when the sandbox's queues are replicated.
    pub quorum: bool,
}

pub(super) fn read(context: &Section<'_>) -> Result<DrillSettings, ConfigError> {
    let Some(section) = context.section("drill")? else {
        return Ok(DrillSettings::default());
    };
    section.only(&["control", "quorum"])?;
    let control = section.texts("control")?;
    if control.as_ref().is_some_and(|words| {
        words
            .first()
            .is_none_or(|program| program.trim().is_empty())
    }) {
        return Err(section.error(
            "control",
            "names no program",
            "give control = [\"program\", \"argument\"], or remove it",
        ));
    }
    Ok(DrillSettings {
        control,
        quorum: section.boolean("quorum")?.unwrap_or(false),
    })
}
