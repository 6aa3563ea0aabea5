//! Statements as they are sent: templates with named slots, filled once when a store is opened (for
//! a mapped outbox: once its indexes are known). Slots hold checked and quoted identifiers and the
//! dialect's forms; values are always bound. Snapshots of every statement of every layout and
//! dialect are in `snapshots/`.
//!
//! Slots of every template: `{now}`, `{now_us}`, `{now_plus}` (binds microseconds), `{at}` (binds an
//! instant), `{us(column)}` (reads an instant), `{for_update}`, `{skip_locked}`. `{ids}` stays: it is
//! filled with as many placeholders as the call has ids.

mod archive;
mod journal;
mod letters;
mod outbox;
mod parts;
mod saga;
mod scan;
mod waiting;
mod walk;

pub use archive::ArchiveStatements;
pub use journal::JournalStatements;
pub use letters::{InboxStatements, LetterStatements};
pub use outbox::OutboxStatements;
pub use saga::SagaStatements;
pub use scan::ScanStatements;
pub use waiting::WaitingStatements;

use std::collections::BTreeMap;

use super::dialect::Dialect;

/// A template that names a slot nobody fills: a mistake in this crate, found by the snapshot test.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("statement template names the unknown slot {0:?}")]
pub struct UnknownSlot(String);

/// What slots are filled with.
#[derive(Clone, Debug)]
pub struct Slots {
    dialect: Dialect,
    values: BTreeMap<&'static str, String>,
}

impl Slots {
    /// The dialect's own slots.
    pub fn new(dialect: Dialect) -> Self {
        let is_mysql = dialect == Dialect::MySql;
        let values = [
            ("now", dialect.now().to_owned()),
            ("now_us", dialect.micros(dialect.now())),
            ("now_plus", dialect.now_plus().to_owned()),
            ("at", dialect.bound_time().to_owned()),
            ("for_update", dialect.for_update().to_owned()),
            (
                "skip_locked",
                if is_mysql {
                    " FOR UPDATE SKIP LOCKED"
                } else {
                    ""
                }
                .to_owned(),
            ),
            ("ids", "{ids}".to_owned()),
        ];
        Self {
            dialect,
            values: values.into_iter().collect(),
        }
    }

    /// Fills one more slot.
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self {
        self.values.insert(name, value.into());
        self
    }

    /// The dialect.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Fills a template.
    ///
    /// # Errors
    /// [`UnknownSlot`] for a slot that has no value.
    pub fn render(&self, template: &str) -> Result<String, UnknownSlot> {
        let mut out = String::with_capacity(template.len() * 2);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| UnknownSlot(after.to_owned()))?;
            out.push_str(&self.value(name)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn value(&self, name: &str) -> Result<String, UnknownSlot> {
        if let Some(column) = name.strip_prefix("us(").and_then(|n| n.strip_suffix(')')) {
            let column = self
                .values
                .get(column)
                .cloned()
                .unwrap_or_else(|| column.to_owned());
            return Ok(if column == "NULL" {
                column
            } else {
                self.dialect.micros(&column)
            });
        }
        self.values
            .get(name)
            .cloned()
            .ok_or_else(|| UnknownSlot(name.to_owned()))
    }
}

/// Declares a struct of statements with their templates, and how to fill and list them.
macro_rules! statements {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $template:expr,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: String,)+
        }

        impl $name {
            /// Fills every template.
            pub fn render(slots: &super::Slots) -> Result<Self, super::UnknownSlot> {
                Ok(Self { $($field: slots.render($template)?,)+ })
            }

            /// Every statement with its name, for the snapshots.
            #[cfg(test)]
            pub fn all(&self) -> Vec<(&'static str, &str)> {
                vec![$((stringify!($field), self.$field.as_str()),)+]
            }
        }
    };
}
use statements;

/// Fills `{ids}` with placeholders for `count` ids, rounded up to a few sizes so that sessions do
/// not prepare a new statement for every batch size; returns the statement and the padded count.
pub fn with_ids(statement: &str, count: usize) -> (String, usize) {
    let padded = [1, 8, 32, 128, IDS_MAX]
        .into_iter()
        .find(|size| *size >= count)
        .unwrap_or(count);
    let marks = vec!["?"; padded.max(1)].join(", ");
    (statement.replace("{ids}", &marks), padded.max(1))
}

/// Ids a statement takes at most: about 20 ms of row locks (perf.md section 3).
pub const IDS_MAX: usize = 500;

#[cfg(test)]
mod tests;
