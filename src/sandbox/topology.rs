//! Where things are: services, queues and tables of the reference pipeline.
//!
//! ```text
//! orders ─ order.created ────────────────▶ inventory ─ inventory.reserved │ rejected │ released ─▶ orders
//!        ─ inventory.reserve │ release ──▶
//!        ─ payment.charge │ refund ──────▶ payment ─ payment.charged │ refused │ refunded ───────▶ orders
//!        ─ order.created │ confirmed │ cancelled ▶ notification ─ notification.sent ──────────────▶ orders
//! ```

use std::path::Path;
use std::time::Duration;

use crate::base::backoff::Backoff;
use crate::base::secret::SecretUrl;
use crate::broker::{NewQueue, Topology};
use crate::config::{
    ConsumerLimits, Context, DeadLetterPart, DispatcherSettings, DrillSettings, Environment,
    InboxPart, OutboxPart, OwnerRule, RetentionSettings, SagaPart, ScanRule, ScanSettings, Service,
    Thresholds, VerdictSettings, scanning,
};
use crate::model::operation::Verb;

/// Exchange of every event.
pub const EXCHANGE: &str = "shop.events";
/// Services, each with the queue its inbox consumes and what is bound to it.
pub const SERVICES: [(&str, &str, &[&str]); 4] = [
    (
        "orders",
        "orders.results",
        &[
            "inventory.reserved",
            "inventory.rejected",
            "inventory.released",
            "payment.charged",
            "payment.refused",
            "payment.refunded",
            "payment.refund_refused",
            "notification.sent",
        ],
    ),
    (
        "inventory",
        "inventory.orders",
        &[
            "order.created",
            "order.cancelled",
            "inventory.reserve",
            "inventory.release",
        ],
    ),
    (
        "payment",
        "payment.orders",
        &["payment.charge", "payment.refund"],
    ),
    (
        "notification",
        "notification.orders",
        &["order.created", "order.confirmed", "order.cancelled"],
    ),
];
/// How long the demo keeps what it has processed.
pub const KEPT: Duration = Duration::from_hours(2);

/// The sandbox's rules for scans: orders, stock and payments compared. Empty only if the file were not
/// readable, which a test excludes.
pub fn scan_rules() -> Vec<ScanRule> {
    let services = SERVICES.map(|(name, _, _)| name);
    scanning::pack("orders.toml", include_str!("orders.toml"), &services).unwrap_or_default()
}

/// The demo's context: SQLite files in `directory`, the in-process broker, nothing to install.
pub fn demo_context(directory: &Path) -> Context {
    Context {
        name: "demo".to_owned(),
        environment: Environment::Sandbox,
        read_only: false,
        amqp: Some(SecretUrl::new("embedded:demo".to_owned())),
        management: None,
        services: SERVICES
            .iter()
            .map(|(name, queue, _)| {
                let path = directory.join(format!("{name}.db"));
                service(name, queue, format!("sqlite:{}", path.display()))
            })
            .collect(),
        rights: Verb::ALL.to_vec(),
        never_replay: vec!["order.cancelled".to_owned()],
        inbox_retention: Some(KEPT),
        ticket_pattern: None,
        unlock: Duration::from_mins(15),
        masked: vec!["customer.email".to_owned()],
        owners: vec![OwnerRule {
            consumer: Some("payment".to_owned()),
            event_type: None,
            owner: "mia".to_owned(),
        }],
        thresholds: Thresholds {
            proof_deadline: Duration::from_secs(20),
            ..Thresholds::default()
        },
        dispatcher: DispatcherSettings {
            batch_rows: 50,
            lease: Duration::from_secs(15),
            send_deadline: Duration::from_secs(5),
            attempts_max: 4,
            // Whoever looks at the demo sees a row given up.
            give_up_after: Duration::from_mins(1),
            backoff: Backoff {
                base: Duration::from_millis(500),
                cap: Duration::from_secs(20),
            },
            ..DispatcherSettings::default()
        },
        consumer: ConsumerLimits {
            // Shorter than the default: whoever looks at the demo sees a retry end.
            retry_delays: vec![Duration::from_secs(1), Duration::from_secs(3)],
            ..ConsumerLimits::default()
        },
        drill: DrillSettings::default(),
        verdicts: VerdictSettings::default(),
        retention: RetentionSettings {
            // The demo's files stay small.
            archive: false,
            ..RetentionSettings::default()
        },
        on_death: None,
        scan: ScanSettings {
            // Whoever looks at the demo does not wait for minutes.
            grace: Duration::from_secs(30),
            rules: scan_rules(),
            ..ScanSettings::default()
        },
    }
}

fn service(name: &str, queue: &str, database: String) -> Service {
    let native = || "native".to_owned();
    Service {
        name: name.to_owned(),
        database: SecretUrl::new(database),
        outbox: Some(OutboxPart {
            layout: native(),
            table: None,
            exchange: EXCHANGE.to_owned(),
        }),
        inbox: Some(InboxPart {
            layout: native(),
            table: None,
            consumer: name.into(),
            queue: queue.to_owned(),
        }),
        dead_letters: Some(DeadLetterPart {
            layout: native(),
            table: None,
            queues: vec![format!("{queue}.dlq")],
        }),
        sagas: (name == "orders").then(|| SagaPart {
            layout: native(),
            table: None,
        }),
        journal: true,
    }
}

/// Exchange, queues, and for each queue where it dead-letters to.
pub fn topology() -> Topology {
    topology_with(false)
}

/// The same, with quorum queues where asked: they survive a node.
pub fn topology_with(is_quorum: bool) -> Topology {
    let mut queues = Vec::new();
    for (_, queue, keys) in SERVICES {
        let dead = format!("{queue}.dlq");
        queues.push(NewQueue {
            name: dead.clone(),
            is_quorum,
            ..NewQueue::default()
        });
        queues.push(NewQueue {
            name: queue.to_owned(),
            is_quorum,
            dead_letter: Some((String::new(), dead)),
            bindings: keys
                .iter()
                .map(|key| (EXCHANGE.to_owned(), (*key).to_owned()))
                .collect(),
            ..NewQueue::default()
        });
    }
    Topology {
        exchanges: vec![EXCHANGE.to_owned()],
        queues,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_sandbox_are_readable_and_name_every_class() {
        let services = SERVICES.map(|(name, _, _)| name);
        let rules = scanning::pack("orders.toml", include_str!("orders.toml"), &services);
        let rules = rules.expect("reads");
        let classes: std::collections::BTreeSet<&str> = rules
            .iter()
            .flat_map(|rule| &rule.classes)
            .map(|class| class.class.as_str())
            .collect();
        let expected = [
            "amount_mismatch",
            "business_failure",
            "dead_at_consumer",
            "failed_at_dispatch",
            "fine",
            "never_emitted",
            "no_result",
            "not_sent",
            "result_not_applied",
            "sent_not_consumed",
            "state_mismatch",
            "waiting",
        ];
        assert_eq!(classes.into_iter().collect::<Vec<_>>(), expected);
    }
}
