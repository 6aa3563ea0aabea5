//! An action as the command line that does the same, quoted for a POSIX shell.

use crate::model::dead_letter::DeadLetter;
use crate::model::operation::Verb;

/// Builds one command line.
pub(super) struct CommandLine(String);

impl CommandLine {
    /// `redrive <verb> <subject>`.
    pub fn new(verb: Verb, subject: &str) -> Self {
        Self(format!("redrive {} {}", verb.command(), quoted(subject)))
    }

    /// The same for a dead letter: with its consumer, because an event may be dead at several.
    pub fn of_letter(verb: Verb, letter: &DeadLetter) -> Self {
        Self::new(verb, &super::wording::subject(letter))
            .option("--consumer", letter.consumer.as_str())
    }

    /// Adds `--name value`.
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.0.push(' ');
        self.0.push_str(name);
        self.0.push(' ');
        self.0.push_str(&quoted(value));
        self
    }

    /// Adds `--name` when `is_set`.
    pub fn flag(mut self, name: &str, is_set: bool) -> Self {
        if is_set {
            self.0.push(' ');
            self.0.push_str(name);
        }
        self
    }

    /// The line, with the reason left to be written.
    pub fn finish(mut self) -> String {
        self.0.push_str(" --reason … --apply");
        self.0
    }
}

/// `text` as one word of a POSIX shell. Control characters are made visible: such a line cannot be
/// pasted, but it cannot act on a terminal either.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", crate::base::text::safe(text).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_when_a_shell_would_split_them() {
        let line = CommandLine::new(Verb::Replay, "018f3c1e-7d2a")
            .option("--consumer", "it's odd")
            .option("--to-queue", "billing.orders ")
            .flag("--through-exchange", true)
            .flag("--resolved", false)
            .finish();
        assert_eq!(
            line,
            r"redrive replay 018f3c1e-7d2a --consumer 'it'\''s odd' --to-queue 'billing.orders ' --through-exchange --reason … --apply"
        );
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("\u{1b}[2J"), "'␛[2J'");
    }
}
