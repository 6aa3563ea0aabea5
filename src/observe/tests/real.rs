//! The same looks on a real store and a real (embedded) broker: what the fakes promise is what they
//! answer.

use std::sync::Arc;
use std::time::Duration;

use super::looking::{dead_letters_view, outbox_view};
use crate::base::clock::Clock;
use crate::base::tasks::Tasks;
use crate::broker::Broker;
use crate::broker::embedded::EmbeddedBroker;
use crate::broker::{NewQueue, Topology};
use crate::config::Context;
use crate::config::load::{Secrets, parse};
use crate::model::count::Count;
use crate::model::dead_letter::{NewDeath, Whereabouts};
use crate::model::filter::Filter;
use crate::model::ids::{AggregateId, ConsumerName, EventId};
use crate::model::message::{FieldTable, Message, Payload};
use crate::model::outbox::NewEvent;
use crate::observe::{DeadLettersView, Feeds, Observer, OutboxView};
use crate::ports::Ports;
use crate::store::Store;
use crate::store::sql::SqlStore;

/// Two services in SQLite files, a third whose file cannot be opened, and the embedded broker.
async fn open(folder: &std::path::Path) -> Ports {
    let text = format!(
        r#"
        [contexts.shop]
        environment = "sandbox"
        amqp = "embedded:"
        thresholds = {{ count_cap = 10 }}
        [[contexts.shop.services]]
        name = "orders"
        database = "sqlite:{0}/orders.db?mode=rwc"
        outbox = {{ layout = "native", exchange = "shop.events" }}
        [[contexts.shop.services]]
        name = "inventory"
        database = "sqlite:{0}/inventory.db?mode=rwc"
        inbox = {{ layout = "native", consumer = "inventory", queue = "inventory.orders" }}
        dead_letters = {{ layout = "native", queues = ["inventory.orders.dlq"] }}
        [[contexts.shop.services]]
        name = "billing"
        database = "sqlite:{0}/no/such/folder/billing.db?mode=ro"
        outbox = {{ layout = "native", exchange = "shop.events" }}
        "#,
        folder.display()
    );
    let loaded = parse("test", &text, &|_| None, Secrets::All).expect("a configuration");
    let context: Arc<Context> = Arc::new(loaded.config.contexts[0].clone());
    let stores: Vec<Arc<dyn Store>> = context
        .services
        .iter()
        .map(|service| SqlStore::connect(service, &context.thresholds, false).expect("a store"))
        .collect();
    for store in &stores[..2] {
        store.migrate(true).await.expect("migrates");
    }
    let broker = EmbeddedBroker::new("test");
    let queue = |name: &str, dead_letter| NewQueue {
        name: name.to_owned(),
        dead_letter,
        ..NewQueue::default()
    };
    let dlq = "inventory.orders.dlq";
    let topology = Topology {
        exchanges: vec!["shop.events".to_owned()],
        queues: vec![
            queue(dlq, None),
            queue("inventory.orders", Some((String::new(), dlq.to_owned()))),
        ],
    };
    broker.declare(&topology).await.expect("declares");
    Ports {
        alerts: None,
        context,
        stores,
        broker: Some(broker),
        clock: Clock::System,
    }
}

fn event(version: i64) -> NewEvent {
    NewEvent {
        event_id: EventId::generate(),
        aggregate_id: AggregateId::new("8812"),
        aggregate_version: version,
        event_type: "order.created".to_owned(),
        schema_version: 1,
        payload: Payload::new(br#"{"order_id":4634343214213523454}"#.as_slice()),
        headers: FieldTable::default(),
        exchange: None,
        routing_key: None,
        trace_id: None,
        causation_id: None,
    }
}

fn death(ports: &Ports, of: &NewEvent) -> NewDeath {
    NewDeath {
        consumer: ConsumerName::new("inventory"),
        event_id: Some(of.event_id.clone()),
        aggregate_id: Some(of.aggregate_id.clone()),
        aggregate_version: Some(of.aggregate_version),
        event_type: Some(of.event_type.clone()),
        message_at: None,
        failed_queue: Some("inventory.orders".to_owned()),
        source_exchange: Some("shop.events".to_owned()),
        source_routing_key: Some(of.event_type.clone()),
        dead_letter_queue: "inventory.orders.dlq".to_owned(),
        reason: Some("rejected".to_owned()),
        error_class: "decode: missing field sku".to_owned(),
        error_summary: None,
        stack_digest: None,
        delivery_count: None,
        retry_count: None,
        died_at: ports.clock.now(),
        producer_version: None,
        consumer_version: None,
        trace_id: None,
        replay_allowed: true,
        owner: None,
        operation_id: None,
        fingerprint: format!("death of {}", of.event_id),
        redelivered: false,
        message: Message {
            payload: of.payload.clone(),
            ..Message::default()
        },
    }
}

#[tokio::test]
async fn a_pipeline_is_seen_with_one_of_its_databases_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = open(folder.path()).await;
    let events: Vec<NewEvent> = (1..=12).map(event).collect();
    let mut tx = ports.stores[0].begin().await.expect("begins");
    for event in &events {
        tx.append(event).await.expect("appends");
    }
    tx.commit().await.expect("commits");
    let recorded = ports.stores[1]
        .record_death(&death(&ports, &events[2]))
        .await;
    recorded.expect("a death");
    let observer = Arc::new(Observer::new(ports.clone()));

    let outbox = observer.outbox(&outbox_view()).await;
    let orders = outbox.services[0].value.as_ref().expect("orders is there");
    assert_eq!(
        orders.counts.pending,
        Count::AtLeast(10),
        "counting stops at the cap"
    );
    assert_eq!(orders.page.rows.len(), 12);
    let billing = outbox.services[1].unread.as_ref().expect("billing is gone");
    assert!(billing.is_unreachable, "{billing:?}");

    for (filter, rows) in [
        ("payload.order_id:4634343214213523454", 12),
        ("payload.order_id:4634343214213523455", 0),
    ] {
        // P-06: the neighbour of a number above 2^53 is another number.
        let payload = Some(Filter::parse(filter).expect("a filter"));
        let view = OutboxView {
            event: None,
            payload: payload.clone(),
            ..outbox_view()
        };
        let outbox = observer.outbox(&view).await;
        let orders = outbox.services[0].value.as_ref().expect("orders is there");
        assert_eq!(orders.page.rows.len(), rows, "{filter}");
        let view = DeadLettersView {
            payload,
            ..dead_letters_view()
        };
        let letters = observer.dead_letters(&view).await;
        let facts = letters.services[0]
            .value
            .as_ref()
            .expect("inventory is there");
        assert_eq!(facts.page.rows.len(), rows.min(1), "{filter}");
    }

    let letters = observer.dead_letters(&dead_letters_view()).await;
    let facts = letters.services[0]
        .value
        .as_ref()
        .expect("inventory is there");
    assert_eq!(facts.groups.open, Some(Count::Exact(1)));
    assert_eq!(facts.queued, [("inventory.orders.dlq".to_owned(), Some(0))]);
    let id = &facts.page.rows[0].dead_letter_id;
    let view = observer.dead_letter("inventory", id).await;
    let view = view.expect("readable").expect("there");
    let digest = events[2].payload.sha256();
    assert_eq!(view.original, Some(("orders".to_owned(), digest.clone())));
    assert_eq!(view.detail.letter.payload_sha256, digest);
    assert_eq!(view.whereabouts, Whereabouts::Table);
    assert_eq!(view.sequence.rows.len(), 12);
    assert!(
        matches!(view.inboxes.as_slice(), [inbox] if inbox.value == Some(None)),
        "no row yet"
    );
    assert!(
        view.unread
            .iter()
            .all(|unread| unread.what.ends_with("of billing"))
    );

    let queues = observer.queues(1).await;
    assert_eq!(queues.queues[0].facts.name, "inventory.orders");
    assert_eq!(queues.queues[0].warnings, ["no consumer"]);
    let health = observer.health().await;
    let up: Vec<_> = health.databases.iter().map(|db| db.is_up).collect();
    assert_eq!(up, [Some(true), Some(true), Some(false)]);
    assert_eq!(
        health.management.is_up,
        Some(true),
        "embedded: it manages itself"
    );
    let check = observer.check_broker().await;
    let route = check
        .iter()
        .find(|l| l.subject == "dead-lettering of inventory.orders");
    assert!(
        route.is_some_and(|l| l.finding.ends_with("to inventory.orders.dlq")),
        "{check:?}"
    );
    for store in &ports.stores {
        store.close().await;
    }
}

#[tokio::test]
async fn every_feed_of_a_real_context_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = open(folder.path()).await;
    let tasks = Tasks::new();
    let views = super::feeding::views(crate::observe::FEEDS);
    let mut feeds = Feeds::start(Arc::new(Observer::new(ports)), views, &tasks);
    macro_rules! answers {
        ($($feed:ident),*) => {$(
            let come = feeds.$feed.wait_for(|r| r.value.is_some());
            let come = tokio::time::timeout(Duration::from_secs(20), come).await;
            assert!(come.is_ok_and(|r| r.is_ok()), stringify!($feed));
        )*};
    }
    answers!(
        health,
        flow,
        outbox,
        leases,
        queues,
        dead_letters,
        sagas,
        operations,
        audit
    );
    assert!(tasks.stop(Duration::from_secs(5)).await);
}
