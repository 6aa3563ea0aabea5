//! One command at work in one context.

use std::path::Path;
use std::sync::Arc;

use crate::assembly::{Options, Services};
use crate::base::clock::{Clock, Timestamp};
use crate::config::load::{Secrets, load_with};

use super::Global;
use super::envelope::Answer;
use super::failure::Outcome;
use super::output::{self, Format};

/// The context, and how to answer.
pub struct Session {
    /// The context, ready to be used.
    pub services: Services,
    /// Form of the answer.
    pub format: Format,
    /// Nothing may be written.
    pub read_only: bool,
    /// Names of all contexts of the configuration.
    pub contexts: Vec<String>,
}

impl Session {
    /// Reads the configuration and opens the context that is meant. Reaches no server.
    ///
    /// # Errors
    /// For a configuration that cannot be used.
    pub fn open(global: &Global) -> Outcome<Self> {
        let secrets = Secrets::Only(global.context.as_deref());
        let loaded = load_with(global.config.as_deref(), &env, secrets)?;
        let context = loaded.config.context(global.context.as_deref())?;
        let services = Services::open(
            Arc::new(context.clone()),
            Options {
                actor: actor(),
                read_only: global.read_only,
            },
        )?;
        Ok(Self {
            read_only: global.read_only || context.read_only,
            services,
            format: global.output,
            contexts: loaded
                .config
                .contexts
                .iter()
                .map(|context| context.name.clone())
                .collect(),
        })
    }

    /// A session in a context that is open already.
    pub(super) fn of(services: Services, format: Format) -> Self {
        Self {
            read_only: services.ports.context.read_only,
            contexts: vec![services.ports.context.name.clone()],
            services,
            format,
        }
    }

    /// The context's configuration.
    pub fn context(&self) -> &crate::config::Context {
        &self.services.ports.context
    }

    /// Our clock.
    pub fn now(&self) -> Timestamp {
        self.services.ports.clock.now()
    }

    /// An empty answer of this context.
    pub fn answer(&self, kind: &'static str) -> Answer {
        Answer::new(kind, Some(&self.context().name), self.now())
    }

    /// Writes an answer.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn write(&self, answer: &Answer) -> Outcome {
        output::answer(self.format, answer)
    }

    /// Closes every connection.
    pub async fn close(self) {
        self.services.close().await;
    }
}

/// An environment variable; one that is not UTF-8 counts as not set.
pub(super) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The present instant, for answers without a context.
pub(super) fn now() -> Timestamp {
    Clock::System.now()
}

/// `user@host`, for operations and the audit log.
pub(super) fn actor() -> String {
    let user = ["REDRIVE_ACTOR", "USER", "LOGNAME"]
        .into_iter()
        .filter_map(env)
        .find(|user| !user.trim().is_empty());
    let host = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .into_iter()
        .filter_map(|path| std::fs::read_to_string(Path::new(path)).ok())
        .map(|text| text.trim().to_owned())
        .find(|host| !host.is_empty())
        .or_else(|| env("HOSTNAME"));
    format!(
        "{}@{}",
        user.as_deref().map_or("unknown", str::trim),
        host.as_deref().unwrap_or("unknown")
    )
}
