//! Composition root: configuration → stores, broker, services. The only caller of `connect`.

use std::sync::Arc;

use futures::future::join_all;

use crate::alert::AlertHook;
use crate::alert::command::CommandHook;
use crate::alert::webhook::WebhookHook;
use crate::base::clock::Clock;
use crate::broker::Broker;
use crate::broker::embedded::EmbeddedBroker;
use crate::broker::rabbitmq::{Limits, RabbitBroker};
use crate::config::{AlertTarget, ConfigError, Context, Environment};
use crate::model::ids::ConsumerName;
use crate::observe::Observer;
use crate::operate::Operator;
use crate::pipeline::{Program, Worker};
use crate::ports::Ports;
use crate::store::StoreResult;
use crate::store::sql::SqlStore;
use crate::{pipeline, sandbox};

pub use crate::broker::Flow;
pub use crate::store::{CheckLevel, CheckLine, MigrationStep, StoreError};

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

impl Services {
    /// Opens a context. Reaches nothing: connections are made when first used.
    ///
    /// # Errors
    /// A [`ConfigError`] for a URL or layout no adapter takes.
    pub fn open(context: Arc<Context>, options: Options) -> Result<Self, ConfigError> {
        let broker = broker(&context)?;
        Self::with_broker(context, broker, options)
    }

    /// The same context and the same broker with database sessions of its own: the demo's workers
    /// and its console must not wait for each other, and an embedded broker is only one if shared.
    ///
    /// # Errors
    /// As [`Services::open`].
    pub fn beside(&self, options: Options) -> Result<Self, ConfigError> {
        Self::with_broker(
            Arc::clone(&self.ports.context),
            self.ports.broker.clone(),
            options,
        )
    }

    fn with_broker(
        context: Arc<Context>,
        broker: Option<Arc<dyn Broker>>,
        options: Options,
    ) -> Result<Self, ConfigError> {
        context.environment.crash_points().arm_from_environment();
        let read_only = options.read_only || context.read_only;
        let stores = context
            .services
            .iter()
            .map(|service| SqlStore::connect(service, &context.thresholds, read_only))
            .collect::<Result<Vec<_>, _>>()?;
        let alerts = alerts(&context)?;
        let ports = Ports {
            context,
            stores,
            broker,
            alerts,
            clock: Clock::System,
        };
        Ok(Self {
            observer: Arc::new(Observer::new(ports.clone())),
            operator: Arc::new(Operator::new(ports.clone(), options.actor, read_only)),
            ports,
        })
    }

    /// Everything `redrive check` says: subject group (service or `broker`) and its lines.
    pub async fn check(&self) -> Vec<(String, Vec<CheckLine>)> {
        let databases = join_all(
            self.ports
                .iter()
                .map(|(service, store)| async { (service.name.clone(), store.check().await) }),
        );
        let (mut groups, broker) = tokio::join!(databases, self.observer.check_broker());
        groups.push(("broker".to_owned(), broker));
        groups
    }

    /// Migrations of one service's database.
    ///
    /// # Errors
    /// What the database said; `Unsupported` for a service the context does not have.
    pub async fn migrate(&self, service: &str, apply: bool) -> StoreResult<Vec<MigrationStep>> {
        match self.ports.store(service) {
            Some(store) => store.migrate(apply).await,
            None => Err(StoreError::Unsupported {
                service: service.to_owned(),
                reason: format!("context {} has no such service", self.ports.context.name),
            }),
        }
    }

    /// The named workers (`pipeline::WORKERS`) for every service that has their
    /// part. Consumers only in a sandbox: elsewhere the effect is the service's own code.
    ///
    /// # Errors
    /// Says what is missing for a worker that was named.
    pub fn workers(&self, names: &[String]) -> Result<Vec<Box<dyn Worker>>, ConfigError> {
        pipeline::build(&self.ports, names, &self.program()).map_err(|problem| ConfigError {
            origin: format!("context {}", self.ports.context.name),
            key: "workers".to_owned(),
            problem,
            fix: "name other workers, or complete the context".to_owned(),
        })
    }

    /// True when this program has a handler for a consumer of the context.
    pub fn can_consume(&self) -> bool {
        !self.program().handlers.is_empty()
    }

    fn program(&self) -> Program {
        if self.ports.context.environment == Environment::Sandbox {
            sandbox::program(&self.ports, sandbox::Chance::NONE)
        } else {
            Program::default()
        }
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
    pub async fn close(self) {
        join_all(self.ports.stores.iter().map(|store| store.close())).await;
        if let Some(broker) = &self.ports.broker {
            broker.close().await;
        }
    }
}

/// Who the context wants to be told about deaths.
fn alerts(context: &Context) -> Result<Option<Arc<dyn AlertHook>>, ConfigError> {
    let Some(settings) = &context.on_death else {
        return Ok(None);
    };
    Ok(match &settings.target {
        AlertTarget::Command(words) => words.split_first().map(|(program, arguments)| {
            let hook: Arc<dyn AlertHook> =
                Arc::new(CommandHook::new(program, arguments, settings.time_limit));
            hook
        }),
        AlertTarget::Webhook { url, host } => {
            Some(Arc::new(WebhookHook::new(url, host, settings.time_limit)?))
        }
    })
}

/// The context's broker. `embedded:NAME` lives in this process and starts empty.
fn broker(context: &Context) -> Result<Option<Arc<dyn Broker>>, ConfigError> {
    match &context.amqp {
        Some(url) if url.scheme() == "embedded" => {
            let name = url.expose().trim_start_matches("embedded:");
            let broker: Arc<dyn Broker> = EmbeddedBroker::new(name);
            Ok(Some(broker))
        }
        None if context.management.is_none() => Ok(None),
        amqp => RabbitBroker::new(
            amqp.as_ref(),
            context.management.as_ref(),
            Limits {
                crash_points: context.environment.crash_points(),
                ..Limits::default()
            },
        )
        .map(Some),
    }
}
