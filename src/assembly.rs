//! Composition root: configuration → stores, broker, services. The only caller of `connect`.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;

use crate::alert::AlertHook;
use crate::alert::command::CommandHook;
use crate::alert::webhook::WebhookHook;
use crate::base::clock::Clock;
use crate::base::secret::SecretUrl;
use crate::broker::Broker;
use crate::broker::embedded::EmbeddedBroker;
use crate::broker::rabbitmq::{Limits, RabbitBroker};
use crate::config::{AlertTarget, ConfigError, Context, Environment};
use crate::drill::{Bench, BrokerAt, Switchboard, Where};
use crate::model::ids::ConsumerName;
use crate::observe::Observer;
use crate::operate::Operator;
use crate::pipeline::{Program, Worker};
use crate::ports::Ports;
use crate::reconcile::Reconciler;
use crate::store::StoreResult;
use crate::store::sql::SqlStore;
use crate::{drill, pipeline, sandbox};

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
    /// Comparing.
    pub reconciler: Arc<Reconciler>,
    switchboard: Option<Arc<dyn Switchboard>>,
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
            (self.ports.broker.clone(), self.switchboard.clone()),
            options,
        )
    }

    fn with_broker(
        context: Arc<Context>,
        (broker, switchboard): Connected,
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
            reconciler: Arc::new(Reconciler::new(
                ports.clone(),
                options.actor.clone(),
                read_only,
            )),
            operator: Arc::new(Operator::new(ports.clone(), options.actor, read_only)),
            ports,
            switchboard,
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
    pub fn workers(
        &self,
        names: &[String],
        service: Option<&str>,
    ) -> Result<Vec<Box<dyn Worker>>, ConfigError> {
        let workers = pipeline::build(&self.ports, names, &self.program());
        workers
            .map(|workers| pipeline::only(workers, service))
            .map_err(|problem| ConfigError {
                origin: format!("context {}", self.ports.context.name),
                key: "workers".to_owned(),
                problem,
                fix: "name other workers, or complete the context".to_owned(),
            })
    }

    /// What drills are given: this context, and the same with sessions of its own for workers inside
    /// this process. `program` is started as the drills' processes.
    ///
    /// # Errors
    /// As [`Services::open`].
    pub fn bench(&self, program: PathBuf, options: Options) -> Result<Bench, ConfigError> {
        let is_embedded = self.switchboard.is_some();
        Ok(Bench {
            is_read_only: options.read_only || self.ports.context.read_only,
            worker_ports: self.beside(options)?.ports,
            ports: self.ports.clone(),
            place: if is_embedded {
                Where::Embedded
            } else {
                Where::Real
            },
            program,
            guards_off: guards_off(),
            switchboard: self.switchboard.clone(),
            broker_at: broker_at(&self.ports.context),
            alerts: None,
        })
    }

    /// True when this program has a handler for a consumer of the context.
    pub fn can_consume(&self) -> bool {
        !self.program().handlers.is_empty()
    }

    fn program(&self) -> Program {
        if self.ports.context.environment == Environment::Sandbox {
            let program = sandbox::program(&self.ports, sandbox::Chance::NONE);
            drill::faults::around(program)
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

/// Guards that were taken away for this process, as `FAILPOINTS` says it: a drill's processes are
/// started without them, too.
fn guards_off() -> Vec<String> {
    let points = std::env::var("FAILPOINTS").unwrap_or_default();
    let guards = points.split(';').map(str::trim);
    guards
        .filter(|point| point.starts_with("guard."))
        .map(str::to_owned)
        .collect()
}

/// Opens the context's vhost at another node of its broker.
fn broker_at(context: &Context) -> BrokerAt {
    let (amqp, management) = (context.amqp.clone(), context.management.clone());
    Box::new(move |url| {
        let unusable = || "the node's URL cannot be used".to_owned();
        let own = amqp.as_ref().ok_or_else(unusable)?;
        let mut other = url::Url::parse(own.expose()).map_err(|_| unusable())?;
        let node = url::Url::parse(url).map_err(|_| unusable())?;
        other.set_host(node.host_str()).map_err(|_| unusable())?;
        other.set_port(node.port()).map_err(|()| unusable())?;
        let other = SecretUrl::new(other.to_string());
        RabbitBroker::new(Some(&other), management.as_ref(), Limits::default())
            .map_err(|error| error.to_string())
    })
}

/// Faults of the in-process broker.
struct EmbeddedFaults(Arc<EmbeddedBroker>);

impl Switchboard for EmbeddedFaults {
    fn disconnect(&self) {
        self.0.disconnect_all();
    }

    fn block(&self, reason: Option<&str>) {
        self.0.set_blocked(reason);
    }
}

type Connected = (Option<Arc<dyn Broker>>, Option<Arc<dyn Switchboard>>);

/// The context's broker. `embedded:NAME` lives in this process and starts empty.
fn broker(context: &Context) -> Result<Connected, ConfigError> {
    match &context.amqp {
        Some(url) if url.scheme() == "embedded" => {
            let name = url.expose().trim_start_matches("embedded:");
            let broker = EmbeddedBroker::new(name);
            let faults: Arc<dyn Switchboard> = Arc::new(EmbeddedFaults(Arc::clone(&broker)));
            let broker: Arc<dyn Broker> = broker;
            Ok((Some(broker), Some(faults)))
        }
        None if context.management.is_none() => Ok((None, None)),
        amqp => RabbitBroker::new(
            amqp.as_ref(),
            context.management.as_ref(),
            Limits {
                crash_points: context.environment.crash_points(),
                ..Limits::default()
            },
        )
        .map(|broker| (Some(broker), None)),
    }
}
