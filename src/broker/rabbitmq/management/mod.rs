//! The management API: what only it can tell. It is asked for one thing at a time and answers within
//! a limit or not at all; nothing here has a part in publishing or consuming (M-10).

mod client;
mod decode;

use std::time::Duration;

use tokio::time::Instant;

use crate::base::clock::Clock;
use crate::broker::{Binding, BrokerError, BrokerOverview, BrokerResult, QueueFacts, QueuePage};
use crate::config::ConfigError;

use super::address::ManagementAddress;
use client::Client;

/// Largest page RabbitMQ answers.
const PAGE_MAX: u32 = 500;

/// Only these: a queue has ten times as many, and a page would grow with them.
const QUEUE_COLUMNS: &str = "name,type,state,durable,messages_ready,messages_unacknowledged,\
    message_bytes,consumers,message_stats.publish_details.rate,\
    message_stats.deliver_get_details.rate,message_stats.ack_details.rate,\
    message_stats.redeliver_details.rate,head_message_timestamp,members,online,arguments,policy,\
    effective_policy_definition";

/// The API of one virtual host.
pub(super) struct Management {
    client: Client,
    vhost: String,
    clock: Clock,
}

impl Management {
    /// Reaches nothing.
    pub(super) fn new(
        address: ManagementAddress,
        vhost: &str,
        limit: Duration,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            client: Client::new(address, limit)?,
            vhost: vhost.to_owned(),
            clock: Clock::System,
        })
    }

    /// `host:port`, for screens.
    pub(super) fn place(&self) -> String {
        self.client.place()
    }

    /// Version and nodes. That the nodes may not be seen (M-06) is a fact of the answer.
    pub(super) async fn overview(&self) -> BrokerResult<BrokerOverview> {
        let began = Instant::now();
        let overview = async {
            // Without columns the broker would add up the statistics of everything it has.
            let columns = [("columns", "product_name,product_version,rabbitmq_version")];
            let answer = self.client.get(&["overview"], &columns).await;
            (answer, began.elapsed())
        };
        let columns = [("columns", "name,running,mem_alarm,disk_free_alarm")];
        let nodes = self.client.get(&["nodes"], &columns);
        let ((overview, took), nodes) = tokio::join!(overview, nodes);
        let overview = overview?;
        let (nodes, nodes_problem) = match nodes {
            Ok(answer) => match decode::nodes(&answer) {
                Some(nodes) => (Some(nodes), None),
                None => (None, Some("nodes came in an unknown form".to_owned())),
            },
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(BrokerOverview {
            product: decode::product(&overview),
            nodes,
            nodes_problem,
            latency_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        })
    }

    /// One page of queues by name, from 1.
    pub(super) async fn queues(&self, page: u32, page_size: u32) -> BrokerResult<QueuePage> {
        let size = page_size.clamp(1, PAGE_MAX);
        let page = page.max(1);
        let (page_text, size_text) = (page.to_string(), size.to_string());
        let query = [
            ("page", page_text.as_str()),
            ("page_size", size_text.as_str()),
            ("sort", "name"),
            ("columns", QUEUE_COLUMNS),
        ];
        let asked = self.client.get(&["queues", &self.vhost], &query).await;
        let answer = match asked {
            // A page past the last one is an error to RabbitMQ; queues may just have been deleted.
            Err(BrokerError::Protocol(text)) if text.contains("page_out_of_range") => {
                return Ok(QueuePage::default());
            }
            other => other?,
        };
        decode::queue_page(&answer, page, size, self.clock.now())
            .ok_or_else(|| self.odd("queues came in an unknown form"))
    }

    /// One queue; `None` when it does not exist.
    pub(super) async fn queue(&self, name: &str) -> BrokerResult<Option<QueueFacts>> {
        let query = [("columns", QUEUE_COLUMNS)];
        match self
            .client
            .get(&["queues", &self.vhost, name], &query)
            .await
        {
            Ok(answer) => decode::queue(&answer, self.clock.now())
                .map(Some)
                .ok_or_else(|| self.odd("a queue came in an unknown form")),
            Err(BrokerError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Bindings from one exchange.
    pub(super) async fn bindings(&self, exchange: &str) -> BrokerResult<Vec<Binding>> {
        // The API has a name for the exchange that has none.
        let name = if exchange.is_empty() {
            "amq.default"
        } else {
            exchange
        };
        let path = ["exchanges", &self.vhost, name, "bindings", "source"];
        let no_exchange = |error| match error {
            BrokerError::NotFound(_) => {
                BrokerError::NotFound(format!("exchange not found: {exchange}"))
            }
            other => other,
        };
        let answer = self.client.get(&path, &[]).await.map_err(no_exchange)?;
        let bindings = decode::bindings(&answer)
            .ok_or_else(|| self.odd("bindings came in an unknown form"))?;
        if bindings.is_empty() {
            // RabbitMQ gives an exchange that does not exist no bindings, and no error either.
            let path = ["exchanges", &self.vhost, name];
            let columns = [("columns", "name")];
            let asked = self.client.get(&path, &columns).await;
            asked.map_err(no_exchange)?;
        }
        Ok(bindings)
    }

    fn odd(&self, what: &str) -> BrokerError {
        BrokerError::Protocol(format!("management API at {}: {what}", self.place()))
    }
}

#[cfg(test)]
mod tests;
