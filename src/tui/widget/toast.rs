//! One line that says what just happened and goes away by itself.

use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::tui::theme::Role;

/// How long good news stay.
const GOOD_FOR: Duration = Duration::from_secs(4);
/// How long bad news stay.
const BAD_FOR: Duration = Duration::from_secs(12);

/// How long a message is safe from keys that were on their way when it came.
const UNREAD_FOR: Duration = Duration::from_secs(2);

/// A message at the bottom of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// What it says.
    pub text: String,
    /// How it is meant.
    pub role: Role,
    /// From when on the next key takes it away.
    pub read_at: Timestamp,
    /// When it goes.
    pub until: Timestamp,
}

impl Toast {
    /// Something worked.
    pub fn good(text: impl Into<String>, now: Timestamp) -> Self {
        Self {
            text: text.into(),
            role: Role::Good,
            read_at: now.plus(UNREAD_FOR),
            until: now.plus(GOOD_FOR),
        }
    }

    /// Something to know.
    pub fn note(text: impl Into<String>, now: Timestamp) -> Self {
        Self {
            text: text.into(),
            role: Role::Warn,
            read_at: now.plus(UNREAD_FOR),
            until: now.plus(GOOD_FOR),
        }
    }

    /// Something did not work.
    pub fn bad(text: impl Into<String>, now: Timestamp) -> Self {
        Self {
            text: text.into(),
            role: Role::Bad,
            read_at: now.plus(UNREAD_FOR),
            until: now.plus(BAD_FOR),
        }
    }

    /// True when there was time to read it.
    pub fn is_read(&self, now: Timestamp) -> bool {
        now >= self.read_at
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
