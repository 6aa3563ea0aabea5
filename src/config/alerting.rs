//! `[contexts.NAME.on_death]`: who is told when an event dies.

use std::time::Duration;

use super::ConfigError;
use super::section::Section;
use crate::base::secret::SecretUrl;

/// Whom to tell. Its `Debug` shows neither arguments nor paths: they are where the tokens are.
#[derive(Clone, PartialEq)]
pub enum AlertTarget {
    /// A program and its arguments; the alert comes on its standard input.
    Command(Vec<String>),
    /// A URL; the alert is posted to it.
    Webhook {
        /// The URL, whose path may be a secret.
        url: SecretUrl,
        /// Its scheme and host, which may be shown.
        host: String,
    },
}

impl std::fmt::Debug for AlertTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(words) => write!(f, "Command({:?}, …)", words.first()),
            Self::Webhook { host, .. } => write!(f, "Webhook({host}/***)"),
        }
    }
}

/// Who is told about deaths, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertSettings {
    /// Whom to tell.
    pub target: AlertTarget,
    /// At most one alert a cause in so long; the next says how many were left out.
    pub every: Duration,
    /// Time limit of one alert.
    pub time_limit: Duration,
}

const ONE: &str = "give either command = [\"program\", \"argument\"] or webhook = \"https://…\"";

pub(super) fn read(context: &Section<'_>) -> Result<Option<AlertSettings>, ConfigError> {
    let Some(section) = context.section("on_death")? else {
        return Ok(None);
    };
    section.only(&["command", "webhook", "every", "time_limit"])?;
    let command = section.texts("command")?;
    let webhook = section.text("webhook")?;
    let target = match (command, webhook) {
        (Some(command), None) => {
            if command
                .first()
                .is_none_or(|program| program.trim().is_empty())
            {
                return Err(section.error("command", "names no program", ONE));
            }
            AlertTarget::Command(command)
        }
        (None, Some(url)) if section.is_lenient() => AlertTarget::Webhook {
            url: SecretUrl::new(url),
            host: String::new(),
        },
        (None, Some(url)) => webhook_of(&section, url)?,
        (Some(_), Some(_)) => {
            return Err(section.error("webhook", "is given together with `command`", ONE));
        }
        (None, None) => return Err(section.error("", "says nobody to tell", ONE)),
    };
    Ok(Some(AlertSettings {
        target,
        every: super::context::positive(&section, "every", Duration::from_mins(1))?,
        time_limit: super::context::positive(&section, "time_limit", Duration::from_secs(5))?,
    }))
}

fn webhook_of(section: &Section<'_>, url: String) -> Result<AlertTarget, ConfigError> {
    let wrong = |problem: &str| {
        Err(section.error(
            "webhook",
            problem,
            "write it like https://alerts.internal/hook/${ALERT_TOKEN}",
        ))
    };
    match url::Url::parse(&url) {
        Ok(parsed) if !matches!(parsed.scheme(), "http" | "https") => {
            wrong("is neither http: nor https:")
        }
        Ok(parsed) => match parsed.host_str() {
            Some(name) => {
                let port = parsed.port().map(|port| format!(":{port}"));
                Ok(AlertTarget::Webhook {
                    host: format!("{}://{name}{}", parsed.scheme(), port.unwrap_or_default()),
                    url: SecretUrl::new(url),
                })
            }
            None => wrong("has no host"),
        },
        Err(_) => wrong("is not a URL"),
    }
}
