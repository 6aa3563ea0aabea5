//! Composition root: configuration → stores, broker, services. The only caller of `connect`.

use std::sync::Arc;

use crate::config::ConfigError;
use crate::model::ids::ConsumerName;
use crate::observe::Observer;
use crate::operate::Operator;
use crate::pipeline::Worker;
use crate::ports::Ports;
use crate::store::{CheckLine, MigrationStep, StoreResult};

/// One context, ready to be used by a face.
pub struct Services {
    /// What it is connected to.
    pub ports: Ports,
    /// Looking.
    pub observer: Arc<Observer>,
    /// Acting.
    pub operator: Arc<Operator>,
}

/// How a context is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `user@host` for operations and the audit log.
    pub actor: String,
    /// Adds read-only to whatever the context says.
    pub read_only: bool,
}

#[expect(clippy::unused_async, reason = "signatures first")]
impl Services {
    /// Opens a context. Reaches nothing: connections are made when first used.
    ///
    /// # Errors
    /// A [`ConfigError`] for a URL or layout no adapter takes.
    pub fn open(
        _context: Arc<crate::config::Context>,
        _options: Options,
    ) -> Result<Self, ConfigError> {
        unreachable!("written by the assembly branch")
    }
    /// Everything `redrive check` says: subject group (service or `broker`) and its lines.
    pub async fn check(&self) -> Vec<(String, Vec<CheckLine>)> {
        unreachable!("written by the assembly branch")
    }
    /// Migrations of one service's database.
    pub async fn migrate(&self, _service: &str, _apply: bool) -> StoreResult<Vec<MigrationStep>> {
        unreachable!("written by the assembly branch")
    }
    /// The named workers (`dispatcher`, `collector`, `consumer`) for every service that has their part.
    pub fn workers(&self, _names: &[String]) -> Result<Vec<Box<dyn Worker>>, ConfigError> {
        unreachable!("written by the assembly branch")
    }
    /// Consumer names of the context.
    pub fn consumers(&self) -> Vec<ConsumerName> {
        self.ports
            .context
            .services
            .iter()
            .filter_map(|s| s.inbox.as_ref().map(|i| i.consumer.clone()))
            .collect()
    }
    /// Closes every connection.
    pub async fn close(self) {}
}
