//! An action as the command line that does the same, quoted for a POSIX shell.
//!
//! The context is always named: pasted into a shell whose default is another one, a shorter line
//! would act there.

use crate::model::dead_letter::DeadLetter;
use crate::model::operation::Verb;

/// Builds one command line.
pub(super) struct CommandLine<'a> {
    text: String,
    context: &'a str,
}

impl<'a> CommandLine<'a> {
    /// `redrive <verb> <subject>`, in the context of that name.
    pub fn new(context: &'a str, verb: Verb, subject: &str) -> Self {
        let text = format!("redrive {} {}", verb.command(), quoted(subject));
        Self { text, context }
    }

    /// The same for a dead letter: with its consumer, because an event may be dead at several.
    pub fn of_letter(context: &'a str, verb: Verb, letter: &DeadLetter) -> Self {
        Self::new(context, verb, &super::wording::subject(letter))
            .option("--consumer", letter.consumer.as_str())
    }

    /// Adds `--name value`.
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.text.push(' ');
        self.text.push_str(name);
        self.text.push(' ');
        self.text.push_str(&quoted(value));
        self
    }

    /// Adds `--name` when `is_set`.
    pub fn flag(mut self, name: &str, is_set: bool) -> Self {
        if is_set {
            self.text.push(' ');
            self.text.push_str(name);
        }
        self
    }

    /// The line up to its context: what prints the plan and changes nothing.
    pub fn dry(self) -> String {
        let context = self.context;
        self.option("--context", context).text
    }

    /// The line, with the reason left to be written.
    pub fn finish(self) -> String {
        self.dry() + " --reason … --apply"
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
        let line = CommandLine::new("shop prod", Verb::Replay, "018f3c1e-7d2a")
            .option("--consumer", "it's odd")
            .option("--to-queue", "billing.orders ")
            .flag("--through-exchange", true)
            .flag("--resolved", false)
            .finish();
        assert_eq!(
            line,
            r"redrive replay 018f3c1e-7d2a --consumer 'it'\''s odd' --to-queue 'billing.orders ' --through-exchange --context 'shop prod' --reason … --apply"
        );
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("\u{1b}[2J"), "'␛[2J'");
    }
}
