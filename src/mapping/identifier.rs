//! Names of tables and columns that come from a layout or a configuration. They end up inside
//! statements, so they are checked here once and quoted by the dialect; everything else is bound.

use serde::Deserialize;

/// A table or column name: 1 to 64 characters, none of them a control character, a quote or a
/// backslash. Dots are part of the name, never a separator (`cap.published` is one table).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Identifier(String);

/// A name no statement may contain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be a table or column name: use 1 to 64 characters without quotes, backslashes or control characters"
)]
pub struct BadIdentifier(String);

impl Identifier {
    /// Checks a name.
    ///
    /// # Errors
    /// [`BadIdentifier`] when it could break out of its quotes or is too long for a database.
    pub fn new(name: impl Into<String>) -> Result<Self, BadIdentifier> {
        let name = name.into();
        let is_plain = |c: char| !c.is_control() && !matches!(c, '`' | '"' | '\'' | '\\');
        let length = name.chars().count();
        if (1..=64).contains(&length) && name.chars().all(is_plain) && name.trim() == name {
            Ok(Self(name))
        } else {
            Err(BadIdentifier(name))
        }
    }

    /// The name without quotes, for people and for catalogue look-ups.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in the quotes both MySQL and SQLite take.
    pub fn quoted(&self) -> String {
        format!("`{}`", self.0)
    }
}

impl TryFrom<String> for Identifier {
    type Error = BadIdentifier;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(name)
    }
}

impl std::fmt::Display for Identifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Identifier;
    use rstest::rstest;

    #[rstest]
    #[case("outbox_events", true)]
    #[case("cap.published", true)]
    #[case("Bestellungen-Ereignisse", true)]
    #[case("", false)]
    #[case(" outbox", false)]
    #[case("outbox`; DROP TABLE x; --", false)]
    #[case("a\"b", false)]
    #[case("a\\b", false)]
    #[case("line\nfeed", false)]
    fn names_that_could_leave_their_quotes_are_refused(#[case] name: &str, #[case] is_good: bool) {
        assert_eq!(Identifier::new(name).is_ok(), is_good, "{name:?}");
    }
}
