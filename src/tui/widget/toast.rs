//! One line that says what just happened and goes away by itself.

use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::tui::theme::Role;

/// How long good news stay.
const GOOD_FOR: Duration = Duration::from_secs(4);
/// How long bad news stay.
const BAD_FOR: Duration = Duration::from_secs(12);

/// A message at the bottom of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// What it says.
    pub text: String,
    /// How it is meant.
    pub role: Role,
    /// When it goes.
    pub until: Timestamp,
}

impl Toast {
    /// Something worked.
    pub fn good(text: impl Into<String>, now: Timestamp) -> Self {
        Self {
            text: text.into(),
            role: Role::Good,
            until: now.plus(GOOD_FOR),
        }
    }

    /// Something to know.
    pub fn note(text: impl Into<String>, now: Timestamp) -> Self {
        Self {
            text: text.into(),
            role: Role::Warn,
            until: now.plus(GOOD_FOR),
        }
    }

    /// Something did not work.
    pub fn bad(text: impl Into<String>, now: Timestamp) -> Self {
        Self {
            text: text.into(),
            role: Role::Bad,
            until: now.plus(BAD_FOR),
        }
    }

    /// The glyph in front of it.
    pub fn glyph(&self) -> &'static str {
        match self.role {
            Role::Good => "✓",
            Role::Bad => "✖",
            _ => "!",
        }
    }
}
