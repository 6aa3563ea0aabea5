//! Which servers answer, how fast, and how far their clocks are from ours.

use std::time::Duration;

use futures::future::join_all;

use crate::broker::Flow;
use crate::store::StoreProbe;

use super::Observer;
use super::reader::{AMQP, MANAGEMENT, database_gate};
use super::shared::Shared;
use super::snapshot::{Asked, HealthSnapshot, ServerHealth, Unread};

impl Observer {
    /// Health of every server.
    pub async fn health(&self) -> HealthSnapshot {
        let (health, management) =
            tokio::join!(self.health_but_management(), self.management_health());
        HealthSnapshot {
            management,
            management_asked: Some(Asked::anew()),
            ..health
        }
    }

    /// As [`Observer::health`], without waiting for the management API, which may be slow (M-10).
    pub(super) async fn health_but_management(&self) -> HealthSnapshot {
        let probes = join_all(self.ports.iter().map(|(service, store)| async move {
            self.forget_unless_heard(&self.probes, &service.name, &database_gate(&service.name));
            let read = async {
                let read = self.reader.store(&service.name, "health", store.probe());
                Ok((read.await?, Asked::anew()))
            };
            let probe = self.probes.get(&service.name, read).await;
            (service.name.as_str(), probe)
        }));
        let (probes, broker) = tokio::join!(probes, self.broker_health());
        HealthSnapshot {
            skew_us: probes
                .iter()
                .filter_map(|(_, probe)| probe.as_ref().ok())
                .map(|(probe, _)| probe.skew_us)
                .max_by_key(|skew| skew.unsigned_abs()),
            clocks_asked: probes
                .iter()
                .filter_map(|(_, probe)| Some(probe.as_ref().ok()?.1))
                .collect(),
            databases: probes
                .into_iter()
                .map(|(service, probe)| database(service, probe.map(|(probe, _)| probe)))
                .collect(),
            broker,
            management: not_asked(MANAGEMENT, "not asked yet"),
            management_asked: None,
            flow: self
                .ports
                .broker
                .as_ref()
                .map_or(Flow::Unknown, |broker| broker.flow()),
        }
    }

    /// A server whose other reads are answered is up: its probe, for version, latency and clock, is asked at a
    /// slower pace. One that was not heard of since the last refresh, or that failed, is probed now.
    fn forget_unless_heard<T: Clone>(&self, probes: &Shared<T>, key: &str, server: &str) {
        let refresh = self.ports.context.thresholds.refresh;
        if !self.reader.heard(server, refresh + refresh / 2) {
            probes.forget(key);
        }
    }

    async fn broker_health(&self) -> ServerHealth {
        let Some(broker) = &self.ports.broker else {
            return not_asked(AMQP, "no broker is configured");
        };
        self.forget_unless_heard(&self.broker_probe, AMQP, AMQP);
        let read = self
            .reader
            .broker(AMQP, "broker".to_owned(), "broker probe", broker.probe());
        match self.broker_probe.get(AMQP, read).await {
            Ok(latency) => up(AMQP, micros(latency), broker.name()),
            Err(unread) => down(AMQP, unread.reason),
        }
    }

    /// Health of the management API alone.
    pub(super) async fn management_health(&self) -> ServerHealth {
        let Some(broker) = &self.ports.broker else {
            return not_asked(MANAGEMENT, "no broker is configured");
        };
        let is_embedded = self
            .ports
            .context
            .amqp
            .as_ref()
            .is_some_and(|url| url.scheme() == "embedded");
        if self.ports.context.management.is_none() && !is_embedded {
            return not_asked(
                MANAGEMENT,
                "not configured: set `management` to see rates, members and policies",
            );
        }
        let overview = self.overview(broker).await;
        match overview {
            Ok(overview) => {
                let detail = match overview.nodes_problem {
                    Some(problem) => format!("{}; nodes: {problem}", overview.product),
                    None => overview.product,
                };
                up(MANAGEMENT, overview.latency_us, detail)
            }
            Err(unread) => down(MANAGEMENT, unread.reason),
        }
    }
}

fn database(service: &str, probe: Result<StoreProbe, Unread>) -> ServerHealth {
    let name = format!("db {service}");
    match probe {
        Ok(probe) => up(&name, probe.latency_us, probe.version),
        Err(unread) => down(&name, unread.reason),
    }
}

fn up(name: &str, latency_us: u64, detail: String) -> ServerHealth {
    ServerHealth {
        name: name.to_owned(),
        is_up: Some(true),
        latency_us: Some(latency_us),
        detail,
    }
}

fn down(name: &str, reason: String) -> ServerHealth {
    ServerHealth {
        name: name.to_owned(),
        is_up: Some(false),
        latency_us: None,
        detail: reason,
    }
}

pub(super) fn not_asked(name: &str, reason: &str) -> ServerHealth {
    ServerHealth {
        name: name.to_owned(),
        is_up: None,
        latency_us: None,
        detail: reason.to_owned(),
    }
}

fn micros(of: Duration) -> u64 {
    u64::try_from(of.as_micros()).unwrap_or(u64::MAX)
}
