//! Figures that are measured in groups, which may be chosen by name on the command line.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::report::{Figure, Report, note};

/// Figures measured together.
pub trait Grouping: Copy + PartialEq + 'static {
    /// Every group, in the order it is measured.
    const ALL: &[Self];

    /// Every figure, with its group.
    const FIGURES: &[(Self, Figure)];

    /// How it is chosen on the command line.
    fn word(self) -> &'static str;
}

/// The run's report.
pub struct Figures<G> {
    groups: Vec<G>,
    measured: BTreeSet<&'static str>,
    /// True once a value came that belongs to no figure.
    has_stranger: bool,
    report: Report,
}

impl<G: Grouping> Figures<G> {
    /// Measures the groups named in `arguments`, or all.
    pub fn new(arguments: &[String]) -> Self {
        let is_named = |group: &G| arguments.iter().any(|argument| argument == group.word());
        let named: Vec<G> = G::ALL.iter().copied().filter(is_named).collect();
        Self {
            groups: if named.is_empty() {
                G::ALL.to_vec()
            } else {
                named
            },
            measured: BTreeSet::new(),
            has_stranger: false,
            report: Report::default(),
        }
    }

    /// The groups that were asked for, in the order they are measured.
    pub fn groups(&self) -> Vec<G> {
        self.groups.clone()
    }

    /// Reports a value.
    pub fn set(&mut self, name: &str, value: f64) {
        let named = G::FIGURES.iter().find(|(_, figure)| figure.name == name);
        let Some((_, figure)) = named else {
            note(&format!("{name} is no figure"));
            self.has_stranger = true;
            return;
        };
        self.measured.insert(figure.name);
        self.report.figure(figure, Some(value));
    }

    /// Says that a group failed: its figures stay without a value, and are reported as missing.
    pub fn failed(group: G, error: &color_eyre::eyre::Report) {
        note(&format!(
            "{} could not be measured: {error:#}",
            group.word()
        ));
    }

    /// Reports what has no value.
    pub fn finish(mut self) -> ExitCode {
        for (_, figure) in G::FIGURES.iter().filter(|(group, figure)| {
            self.groups.contains(group) && !self.measured.contains(figure.name)
        }) {
            self.report.figure(figure, None);
        }
        if self.has_stranger {
            return ExitCode::FAILURE;
        }
        self.report.exit_code()
    }
}
