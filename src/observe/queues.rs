//! Queues as the console shows them: facts of the management API, completed by passive declares
//! where it tells nothing. `queue_view` judges them.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;

use crate::broker::{Binding, Broker, BrokerError, BrokerOverview, QueueFacts, QueuePage};

use super::Observer;
use super::queue_view::{
    Role, Surroundings, configured, has_default_limit, missing_view, role, view,
};
use super::reader::{MANAGEMENT, joined};
use super::snapshot::{QueueSnapshot, Unread};

impl Observer {
    /// Queues, a page from 1.
    pub async fn queues(&self, page: u32) -> QueueSnapshot {
        let Some(broker) = &self.ports.broker else {
            return QueueSnapshot {
                unread: vec![Unread {
                    what: "queues".to_owned(),
                    reason: "no broker is configured".to_owned(),
                    is_unreachable: false,
                }],
                ..QueueSnapshot::default()
            };
        };
        let mut unread = Vec::new();
        let (overview, told) = tokio::join!(self.overview(broker), self.page(broker, page));
        let overview = overview.map_err(|reason| unread.push(reason)).ok();
        let told = told.map_err(|reason| unread.push(reason)).ok();
        let total = told.as_ref().and_then(|told| told.total);
        let statistics_off = told.as_ref().is_some_and(|told| told.statistics_off);
        let is_told = told.is_some();
        let (queues, missing) = self.with_configured(broker, page, told, &mut unread).await;
        let around = Surroundings {
            statistics_off,
            has_default_limit: overview.as_ref().is_some_and(has_default_limit),
            dead_letter_exchanges: if is_told {
                self.dead_letter_exchanges(broker, &queues, &mut unread)
                    .await
            } else {
                HashMap::new()
            },
        };
        let context = &self.ports.context;
        let queues = queues
            .into_iter()
            .map(|facts| view(context, facts, &around))
            .chain(missing.iter().map(|name| missing_view(context, name)))
            .collect();
        // One reason is enough when several endpoints failed for the same one; the later ones may
        // add when it is tried again.
        unread.dedup_by(|later, earlier| later.reason.starts_with(&earlier.reason));
        QueueSnapshot {
            queues,
            total,
            overview,
            statistics_off,
            unread,
        }
    }

    /// Version and nodes, read once for all who ask at the same time.
    pub(super) async fn overview(
        &self,
        broker: &Arc<dyn Broker>,
    ) -> Result<BrokerOverview, Unread> {
        let what = "broker overview".to_owned();
        let read = self
            .reader
            .broker(MANAGEMENT, what, "management overview", broker.overview());
        self.overviews.get(MANAGEMENT, read).await
    }

    async fn page(&self, broker: &Arc<dyn Broker>, page: u32) -> Result<QueuePage, Unread> {
        let rows = self.ports.context.thresholds.page_rows;
        let what = "queue list".to_owned();
        let read = self
            .reader
            .broker(MANAGEMENT, what, "queue list", broker.queues(page, rows));
        self.queue_pages.get(&page.to_string(), read).await
    }

    /// The page with the configured queues first. They are on the first page only, so that no queue
    /// is shown twice; what the management API does not tell about them is asked of the queues
    /// themselves. The second list holds configured queues that do not exist.
    async fn with_configured(
        &self,
        broker: &Arc<dyn Broker>,
        page: u32,
        told: Option<QueuePage>,
        unread: &mut Vec<Unread>,
    ) -> (Vec<QueueFacts>, Vec<String>) {
        let names = configured(&self.ports.context);
        let is_told = told.is_some();
        let (mut own, others): (Vec<_>, Vec<_>) = told
            .map(|told| told.queues)
            .unwrap_or_default()
            .into_iter()
            .partition(|facts| names.contains(&facts.name));
        if page > 1 {
            return (others, Vec::new());
        }
        let mut missing = Vec::new();
        let reads = join_all(names.iter().map(|name| {
            let known = own.iter().position(|facts| facts.name == *name);
            let known = known.map(|index| own.swap_remove(index));
            self.configured_facts(broker, name, known, is_told)
        }))
        .await;
        let mut first = Vec::new();
        for (name, read) in names.iter().zip(reads) {
            match read {
                Ok(Some(facts)) => first.push(facts),
                Ok(None) => missing.push(name.clone()),
                Err(reason) => unread.push(reason),
            }
        }
        first.extend(others);
        (first, missing)
    }

    async fn configured_facts(
        &self,
        broker: &Arc<dyn Broker>,
        name: &str,
        known: Option<QueueFacts>,
        is_told: bool,
    ) -> Result<Option<QueueFacts>, Unread> {
        let known = match known {
            Some(known) => Some(known),
            // On another page of the list.
            None if is_told => self
                .reader
                .broker(
                    MANAGEMENT,
                    format!("facts of {name}"),
                    "queue facts",
                    broker.queue(name),
                )
                .await
                .unwrap_or_default(),
            None => None,
        };
        match known {
            Some(known) if known.ready.is_some() && known.consumers.is_some() => Ok(Some(known)),
            known => {
                let depth = self.depth(name).await;
                match (known, depth) {
                    (Some(known), Ok(Some(depth))) => Ok(Some(QueueFacts {
                        ready: known.ready.or(Some(depth.ready)),
                        consumers: known.consumers.or(Some(depth.consumers)),
                        ..known
                    })),
                    (Some(known), _) => Ok(Some(known)),
                    (None, Ok(depth)) => Ok(depth.map(|depth| QueueFacts {
                        name: name.to_owned(),
                        ready: Some(depth.ready),
                        consumers: Some(depth.consumers),
                        ..QueueFacts::default()
                    })),
                    (None, Err(reason)) => Err(reason),
                }
            }
        }
    }

    /// What is bound to the exchanges that work queues dead-letter to.
    async fn dead_letter_exchanges(
        &self,
        broker: &Arc<dyn Broker>,
        queues: &[QueueFacts],
        unread: &mut Vec<Unread>,
    ) -> HashMap<String, Option<Vec<Binding>>> {
        let context = &self.ports.context;
        let mut names: Vec<&str> = queues
            .iter()
            .filter(|facts| role(context, &facts.name) == Role::Work)
            .filter_map(|facts| facts.dead_letter_exchange.as_deref())
            .filter(|name| !name.is_empty())
            .collect();
        names.sort_unstable();
        names.dedup();
        let reads = join_all(names.iter().map(|name| self.bindings_of(broker, name))).await;
        let mut out = HashMap::new();
        for (name, read) in names.into_iter().zip(reads) {
            match read {
                Ok(bindings) => {
                    out.insert(name.to_owned(), bindings);
                }
                Err(reason) => unread.push(reason),
            }
        }
        out
    }

    /// What is bound to an exchange; `None` when it does not exist.
    pub(crate) async fn bindings_of(
        &self,
        broker: &Arc<dyn Broker>,
        exchange: &str,
    ) -> Result<Option<Vec<Binding>>, Unread> {
        let what = format!("bindings of {exchange}");
        let bindings = async {
            match broker.bindings(exchange).await {
                Ok(bindings) => Ok(Some(bindings)),
                Err(BrokerError::NotFound(_)) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let read = self.reader.broker(MANAGEMENT, what, "bindings", bindings);
        self.bindings.get(exchange, read).await
    }
}

impl QueueSnapshot {
    /// Why nothing at all could be read.
    pub(super) fn failure(&self) -> Option<String> {
        let reasons: Vec<&str> = self.unread.iter().map(|u| u.reason.as_str()).collect();
        (self.queues.is_empty() && !reasons.is_empty()).then(|| joined(&reasons))
    }

    /// Alarms of nodes: publishers are blocked while one lasts (B-06).
    pub fn alarms(&self) -> Vec<String> {
        let nodes = self.overview.iter().flat_map(|o| o.nodes.iter().flatten());
        nodes
            .flat_map(|node| {
                [
                    (node.memory_alarm == Some(true))
                        .then_some("memory alarm: publishing is blocked"),
                    (node.disk_alarm == Some(true)).then_some("disk alarm: publishing is blocked"),
                    (node.is_running == Some(false)).then_some("the node is down"),
                ]
                .into_iter()
                .flatten()
                .map(|alarm| format!("{}: {alarm}", node.name))
            })
            .collect()
    }
}
