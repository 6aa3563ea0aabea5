//! What `assembly` hands to every service: one context's databases, its broker, the clock.

use std::sync::Arc;

use crate::alert::AlertHook;
use crate::base::clock::Clock;
use crate::broker::Broker;
use crate::config::Context;
use crate::store::Store;

/// One context, connected (lazily: making it reaches nothing).
#[derive(Clone)]
pub struct Ports {
    /// The configuration.
    pub context: Arc<Context>,
    /// One store a service, in the order of `context.services`.
    pub stores: Vec<Arc<dyn Store>>,
    /// The broker, if the context names one.
    pub broker: Option<Arc<dyn Broker>>,
    /// Who is told about deaths, if the context names somebody.
    pub alerts: Option<Arc<dyn AlertHook>>,
    /// Our clock.
    pub clock: Clock,
}

impl Ports {
    /// The store of a service.
    pub fn store(&self, service: &str) -> Option<&Arc<dyn Store>> {
        self.context
            .services
            .iter()
            .position(|s| s.name == service)
            .and_then(|index| self.stores.get(index))
    }

    /// Service names with their stores.
    pub fn iter(&self) -> impl Iterator<Item = (&crate::config::Service, &Arc<dyn Store>)> {
        self.context.services.iter().zip(&self.stores)
    }
}
