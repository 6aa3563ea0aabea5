//! What a rule finds, and what is said of it.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::base::clock::Timestamp;
use crate::observe::snapshot::Asked;

/// How bad it is. The order is that of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Events do not move, or are lost.
    Critical,
    /// It will become so, or a person has to look.
    Warning,
    /// Something cannot be seen, so nobody knows.
    Unseen,
}

impl Severity {
    /// The word in JSON and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Unseen => "unseen",
        }
    }

    /// The sign in front of a verdict; colour is never the only one.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Critical => "✖",
            Self::Warning => "!",
            Self::Unseen => "?",
        }
    }
}

/// Where between a commit and its effect a thing stands (the crash windows).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// No order, no event. Leaves nothing that could be seen.
    BeforeCommit,
    /// A pending event.
    BeforeClaim,
    /// A sending row with a lease.
    BeforeSend,
    /// Unknown whether sent.
    ConfirmLost,
    /// Sent, not marked.
    BeforeSentMark,
    /// The broker holds it.
    NotConsumed,
    /// Delivered again; the inbox absorbs it, so there is nothing to say.
    AckLost,
    /// A dead letter.
    KeepsFailing,
}

impl Window {
    /// Every window, in the order an event passes them.
    pub const ALL: [Self; 8] = [
        Self::BeforeCommit,
        Self::BeforeClaim,
        Self::BeforeSend,
        Self::ConfirmLost,
        Self::BeforeSentMark,
        Self::NotConsumed,
        Self::AckLost,
        Self::KeepsFailing,
    ];

    /// In words, for screens.
    pub const fn words(self) -> &'static str {
        match self {
            Self::BeforeCommit => "before the business commit",
            Self::BeforeClaim => "committed, not claimed",
            Self::BeforeSend => "claimed, not sent",
            Self::ConfirmLost => "sent, confirm missing",
            Self::BeforeSentMark => "confirmed, not marked",
            Self::NotConsumed => "sent, not consumed",
            Self::AckLost => "consumed, not acknowledged",
            Self::KeepsFailing => "consumer keeps failing",
        }
    }
}

/// What a finding is about: several for one, so that a cause is recognised by what it touches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// A service's database and all in it.
    Service(String),
    /// An outbox.
    Outbox(String),
    /// A queue, and who consumes it.
    Queue(String),
    /// The broker as a whole.
    Broker,
    /// What the management API tells.
    Management,
    /// Sagas of a service.
    Sagas(String),
    /// Anything: the reason touches all.
    All,
}

impl About {
    /// True when one touches the other: a service's database holds its outbox and its sagas.
    pub fn touches(&self, other: &Self) -> bool {
        let holds = |one: &Self, other: &Self| match (one, other) {
            (Self::All, _) => true,
            (Self::Service(service), Self::Outbox(of) | Self::Sagas(of)) => service == of,
            _ => false,
        };
        self == other || holds(self, other) || holds(other, self)
    }
}

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The word of a pane.
    pub pane: &'static str,
    /// What to point at there: a filter, or a name.
    pub filter: Option<String>,
}

/// One term of the filter language; a value that is more than a word is quoted.
pub fn term(field: &str, value: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    if value.chars().all(is_word) {
        format!("{field}:{value}")
    } else {
        format!("{field}:{}", Value::String(value.to_owned()))
    }
}

impl Evidence {
    /// A pane.
    pub const fn of(pane: &'static str) -> Self {
        Self { pane, filter: None }
    }

    /// A pane and what to point at.
    pub fn at(pane: &'static str, filter: impl Into<String>) -> Self {
        Self {
            pane,
            filter: Some(filter.into()),
        }
    }
}

/// What a rule found in one look.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What it is about, for people; with the rule, its identity.
    pub subject: String,
    /// How bad.
    pub severity: Severity,
    /// One sentence that is true.
    pub sentence: String,
    /// The numbers in it and behind it.
    pub numbers: Map<String, Value>,
    /// What it touches.
    pub about: Vec<About>,
    /// Where to look.
    pub evidence: Evidence,
    /// The next command.
    pub next: String,
    /// Seconds it has been so, where the facts tell.
    pub for_s: Option<f64>,
    /// Another window than the rule's, where the facts tell.
    pub window: Option<Window>,
    /// Somebody else recovers it than the rule says.
    pub recovers: Option<&'static str>,
    /// The questions whose answers it rests on, where they are not put at every look.
    pub asked: Vec<Asked>,
}

impl Found {
    /// A finding about one thing.
    pub fn new(
        severity: Severity,
        subject: impl Into<String>,
        about: Vec<About>,
        sentence: impl Into<String>,
        evidence: Evidence,
        next: impl Into<String>,
    ) -> Self {
        Self {
            subject: subject.into(),
            severity,
            sentence: sentence.into(),
            numbers: Map::new(),
            about,
            evidence,
            next: next.into(),
            for_s: None,
            window: None,
            recovers: None,
            asked: Vec::new(),
        }
    }

    /// Rests on answers that may be older than the look: seen again, they count once.
    #[must_use]
    pub fn rests_on(mut self, asked: impl IntoIterator<Item = Asked>) -> Self {
        self.asked.extend(asked);
        self
    }

    /// With a number; `null` is *not known*.
    #[must_use]
    pub fn number(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.numbers.insert(name.to_owned(), value.into());
        self
    }

    /// With how long it has been so.
    #[must_use]
    pub const fn since_s(mut self, seconds: Option<f64>) -> Self {
        self.for_s = seconds;
        self
    }

    /// In another window than the rule's.
    #[must_use]
    pub const fn in_window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// Recovered by somebody else than the rule says.
    #[must_use]
    pub const fn recovered_by(mut self, who: &'static str) -> Self {
        self.recovers = Some(who);
        self
    }
}

/// What a rule could not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blind {
    /// What was not seen.
    pub about: About,
    /// Why.
    pub reason: String,
}

/// One sentence about what is wrong, with evidence and who recovers it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The rule's stable id.
    pub id: &'static str,
    /// How bad.
    pub severity: Severity,
    /// What it is about.
    pub subject: String,
    /// The sentence.
    pub sentence: String,
    /// The numbers behind it; `null` is *not known*.
    pub numbers: Map<String, Value>,
    /// Where between commit and effect the events stand.
    pub window: Option<Window>,
    /// Who recovers it.
    pub recovers: &'static str,
    /// Where to look.
    pub evidence: Evidence,
    /// The next command.
    pub next: String,
    /// Since when, as far as is known.
    pub since: Timestamp,
    /// Why it could not be looked at again; it is kept meanwhile.
    pub unseen: Option<String>,
    /// Verdicts that follow from it and are not said: `id subject`.
    pub explains: Vec<String>,
}

impl Verdict {
    /// Where the runbook tells what to do.
    pub fn runbook(&self) -> String {
        format!("docs/runbook.md#{}", self.id)
    }
}
