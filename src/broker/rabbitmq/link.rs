//! One AMQP connection that is opened when first needed and again after it was lost. Every caller
//! shares it, and shares a running attempt to open it: a storm of callers makes one attempt, and a
//! failed attempt is followed by a wait with jitter (B-08).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt};
use lapin::tcp::{AMQPUriTcpExt as _, OwnedTLSConfig};
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, Event};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::base::backoff::Backoff;
use crate::base::tasks::Tasks;
use crate::broker::{BrokerError, BrokerResult, Flow};

use super::Limits;
use super::fault::{connect_fault, fault};

/// Waits between failed attempts to connect.
const RECONNECT: Backoff = Backoff {
    base: Duration::from_millis(200),
    cap: Duration::from_secs(10),
};

type Opening = Shared<BoxFuture<'static, BrokerResult<Arc<Live>>>>;

/// The connection for one purpose.
pub(super) struct Link {
    purpose: &'static str,
    uri: AMQPUri,
    limits: Limits,
    tasks: Tasks,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: Option<Arc<Live>>,
    opening: Option<Opening>,
    failures: u32,
    /// When the next attempt may start, and why the last one failed.
    wait: Option<(Instant, BrokerError)>,
}

/// An open connection.
pub(super) struct Live {
    connection: Connection,
    blocked: watch::Receiver<Option<String>>,
}

enum Step {
    Open(Arc<Live>),
    Join(Opening),
    Wait(Instant, BrokerError),
}

impl Link {
    pub(super) fn new(purpose: &'static str, uri: AMQPUri, limits: Limits, tasks: Tasks) -> Self {
        Self {
            purpose,
            uri,
            limits,
            tasks,
            state: Mutex::default(),
        }
    }

    /// The open connection; opens it if need be, waiting at most until `until`.
    pub(super) async fn get(&self, until: Instant) -> BrokerResult<Arc<Live>> {
        loop {
            match self.step() {
                Step::Open(live) => return Ok(live),
                Step::Wait(at, error) if at >= until => return Err(error),
                Step::Wait(at, _) => sleep_until(at).await,
                Step::Join(opening) => {
                    let Ok(result) = timeout_at(until, opening.clone()).await else {
                        return Err(BrokerError::Unavailable(format!(
                            "{} is still being connected to",
                            self.host()
                        )));
                    };
                    self.settle(&opening, &result);
                    return result;
                }
            }
        }
    }

    /// The connection, if it is open now.
    pub(super) fn live(&self) -> Option<Arc<Live>> {
        self.state().live.clone().filter(|live| live.is_connected())
    }

    /// Whether the broker reads from it.
    pub(super) fn flow(&self) -> Flow {
        match self.live() {
            None => Flow::Unknown,
            Some(live) => live.blocked().map_or(Flow::Open, Flow::Blocked),
        }
    }

    /// Closes it; the next call opens it again.
    pub(super) async fn close(&self) {
        let live = {
            let mut state = self.state();
            state.opening = None;
            state.live.take()
        };
        if let Some(live) = live.filter(|live| live.is_connected()) {
            let closing = live.connection.close(200, "OK".into());
            match timeout(self.limits.operation, closing).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(link = self.purpose, %error, "closing a connection failed");
                }
                Err(_) => tracing::debug!(link = self.purpose, "closing a connection timed out"),
            }
        }
    }

    fn step(&self) -> Step {
        let mut state = self.state();
        match &state.live {
            Some(live) if live.is_connected() => return Step::Open(Arc::clone(live)),
            _ => state.live = None,
        }
        if let Some(opening) = &state.opening {
            return Step::Join(opening.clone());
        }
        if let Some((at, error)) = &state.wait
            && *at > Instant::now()
        {
            return Step::Wait(*at, error.clone());
        }
        let opening = open(
            self.purpose,
            self.uri.clone(),
            self.limits,
            self.tasks.clone(),
        )
        .boxed()
        .shared();
        state.opening = Some(opening.clone());
        Step::Join(opening)
    }

    /// Records how an attempt ended; the first of those who waited for it does.
    fn settle(&self, opening: &Opening, result: &BrokerResult<Arc<Live>>) {
        let mut state = self.state();
        if !state
            .opening
            .as_ref()
            .is_some_and(|current| current.ptr_eq(opening))
        {
            return;
        }
        state.opening = None;
        match result {
            Ok(live) => {
                if state.failures > 0 {
                    tracing::info!(link = self.purpose, "connected again");
                }
                state.live = Some(Arc::clone(live));
                state.failures = 0;
                state.wait = None;
            }
            Err(error) => {
                if state.failures == 0 {
                    // One line a change of state, not one an attempt (B-08).
                    tracing::warn!(link = self.purpose, %error, "not connected");
                }
                state.failures = state.failures.saturating_add(1);
                let at = Instant::now() + RECONNECT.delay(state.failures);
                state.wait = Some((at, error.clone()));
            }
        }
    }

    fn host(&self) -> String {
        let authority = &self.uri.authority;
        format!("{}:{}", authority.host, authority.port)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding it; its parts are valid in any combination.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// True until the connection is lost or closed.
    pub(super) fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Why the broker does not read from it, if so.
    pub(super) fn blocked(&self) -> Option<String> {
        self.connection
            .status()
            .blocked()
            .then(|| self.blocked.borrow().clone().unwrap_or_default())
    }

    /// Waits until the broker reads again; `Err` with its reason when `until` comes first.
    pub(super) async fn unblocked(&self, until: Instant) -> Result<(), String> {
        let mut blocked = self.blocked.clone();
        while let Some(reason) = self.blocked() {
            match timeout_at(until, blocked.changed()).await {
                Ok(Ok(())) => {}
                // The connection is gone: what comes next says so.
                Ok(Err(_)) => return Ok(()),
                Err(_) => return Err(reason),
            }
        }
        Ok(())
    }

    /// Largest frame; 0 when there is no limit.
    pub(super) fn frame_max(&self) -> u32 {
        match self.connection.configuration().frame_max() {
            u32::MAX => 0,
            limit => limit,
        }
    }

    /// Opens a channel, waiting at most until `until`.
    pub(super) async fn channel(&self, until: Instant) -> BrokerResult<Channel> {
        let began = Instant::now();
        match timeout_at(until, self.connection.create_channel()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => Err(fault(&error)),
            Err(_) => Err(BrokerError::TimedOut {
                operation: "open channel",
                after: until.saturating_duration_since(began),
            }),
        }
    }
}

/// TCP and TLS first, then AMQP over them. Left to lapin alone, each attempt that reaches nobody leaves a
/// task behind for ever, and a worker may try for a whole weekend (B-07).
async fn connect(uri: &AMQPUri, properties: ConnectionProperties) -> lapin::Result<Connection> {
    let runtime = lapin::runtime::default_runtime()?;
    let config = OwnedTLSConfig::default();
    let stream = uri
        .connect_with_config_async(config.as_ref(), &runtime)
        .await?;
    let once = Mutex::new(Some(stream));
    let connected = async move |_, _| {
        once.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted).into())
    };
    Connection::connector(uri.clone(), runtime, connected, properties).await
}

async fn open(
    purpose: &'static str,
    uri: AMQPUri,
    limits: Limits,
    tasks: Tasks,
) -> BrokerResult<Arc<Live>> {
    let properties = ConnectionProperties::default()
        .with_client_property("product".into(), "redrive".into())
        .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into())
        .with_connection_name(format!("redrive {purpose}").into());
    let connection = match timeout(limits.connect, connect(&uri, properties)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Err(connect_fault(&error, &uri)),
        Err(_) => {
            return Err(BrokerError::Unavailable(format!(
                "{}:{} did not answer within {:?}",
                uri.authority.host, uri.authority.port, limits.connect
            )));
        }
    };
    let (told, blocked) = watch::channel(None);
    let mut events = Box::pin(connection.events_listener());
    tasks.spawn_until_stopped(async move {
        while let Some(event) = events.next().await {
            match event {
                Event::ConnectionBlocked(reason) => drop(told.send_replace(Some(reason))),
                Event::ConnectionUnblocked => drop(told.send_replace(None)),
                // Nothing else concerns the flow.
                _ => {}
            }
        }
    });
    Ok(Arc::new(Live {
        connection,
        blocked,
    }))
}
