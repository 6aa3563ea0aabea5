//! Each fault injected for real: `redrive doctor` names exactly that one first, and is quiet when it is over.

use futures::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection};
use serde_json::Value;
use sqlx::{AssertSqlSafe, MySqlPool};

use super::node::Node;
use super::redrive::{Answer, Console};
use super::shop::{DLQ, Event, PATIENCE, QUEUE, Servers, Shop, python, server, until};

/// Limits short enough for a story, longer than a healthy pipeline needs.
const LIMITS: &str = r#"
[contexts.shop.verdicts]
due = "2s"
lease = "1s"
lock_wait = "1s"
transaction = "1s"
lag = "5s"
consumed = "5s"
waiting = "5s"
poison = 3
[contexts.shop.retention]
replay_window = "14d"
"#;

/// What a story does to the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    DispatcherStopped,
    DispatcherDiedAfterTheClaim,
    DispatcherDiedAfterTheConfirm,
    NoQueueForAType,
    ConsumerGone,
    ConsumerHangs,
    ConsumerRequeues,
    ManyDeathsOfOneCause,
    OneDeath,
    NobodyCollects,
    EventLostOnItsWay,
    RowsLocked,
    VersionMissing,
    InboxForgot,
    DeadLettersToNothing,
    QueueGone,
}

/// The fault, the rule that names it, and the window it is in.
const FAULTS: &[(Fault, &str, Option<&str>)] = &[
    (
        Fault::DispatcherStopped,
        "dispatcher_not_claiming",
        Some("before_claim"),
    ),
    (
        Fault::DispatcherDiedAfterTheClaim,
        "lease_expired",
        Some("before_send"),
    ),
    (
        Fault::DispatcherDiedAfterTheConfirm,
        "lease_expired",
        Some("before_send"),
    ),
    (Fault::NoQueueForAType, "unroutable", None),
    (Fault::ConsumerGone, "consumer_gone", Some("not_consumed")),
    (Fault::ConsumerHangs, "consumer_slow", Some("not_consumed")),
    (
        Fault::ConsumerRequeues,
        "requeue_loop",
        Some("keeps_failing"),
    ),
    (
        Fault::ManyDeathsOfOneCause,
        "poison_group",
        Some("keeps_failing"),
    ),
    (Fault::OneDeath, "dead_letters_open", Some("keeps_failing")),
    (
        Fault::NobodyCollects,
        "dlq_without_collector",
        Some("keeps_failing"),
    ),
    (
        Fault::EventLostOnItsWay,
        "sent_not_consumed",
        Some("not_consumed"),
    ),
    (Fault::RowsLocked, "locks_held", Some("before_claim")),
    (
        Fault::VersionMissing,
        "sequence_held",
        Some("keeps_failing"),
    ),
    (Fault::InboxForgot, "inbox_forgets", Some("keeps_failing")),
    (
        Fault::DeadLettersToNothing,
        "dead_letters_to_nothing",
        Some("keeps_failing"),
    ),
    (Fault::QueueGone, "queue_not_whole", Some("not_consumed")),
];

/// How the shop's consumer behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Works,
    TakesAndHangs,
    GivesBack,
}

/// A consumer that is attached until it is dropped.
struct Consumer {
    connection: Connection,
    work: tokio::task::JoinSet<()>,
}

impl Consumer {
    async fn attach(shop: &Shop, manner: Manner) -> Self {
        let (connection, channel) = shop.channel().await;
        let qos = BasicQosOptions::default();
        channel.basic_qos(1, qos).await.expect("a prefetch");
        let options = BasicConsumeOptions::default();
        let tag = "story".into();
        let mut deliveries = channel
            .basic_consume(QUEUE.into(), tag, options, FieldTable::default())
            .await
            .expect("consumes");
        let inbox = shop.inventory.clone();
        let mut work = tokio::task::JoinSet::new();
        work.spawn(async move {
            let mut held = Vec::new();
            while let Some(Ok(delivery)) = deliveries.next().await {
                let has_sku = delivery.data.windows(5).any(|part| part == b"\"sku\"");
                match manner {
                    Manner::TakesAndHangs => held.push(delivery),
                    Manner::GivesBack => {
                        let again = BasicRejectOptions { requeue: true };
                        drop(delivery.acker.reject(again).await);
                    }
                    Manner::Works if has_sku => {
                        take_effect(&inbox, &delivery.properties).await;
                        drop(delivery.acker.ack(BasicAckOptions::default()).await);
                    }
                    Manner::Works => {
                        let dead = BasicRejectOptions { requeue: false };
                        drop(delivery.acker.reject(dead).await);
                    }
                }
            }
        });
        Self { connection, work }
    }

    async fn leave(self) {
        drop(self.connection.close(200, "OK".into()).await);
        // It ends with its connection.
        self.work.join_all().await;
    }
}

async fn take_effect(inbox: &MySqlPool, properties: &BasicProperties) {
    let id = properties.message_id().as_ref().map(ToString::to_string);
    sqlx::query(
        "INSERT IGNORE INTO consumer_inbox (consumer_name, event_id, payload_sha256, processed_at)
         VALUES ('inventory', ?, REPEAT('a', 64), NOW(6))",
    )
    .bind(id.unwrap_or_default())
    .execute(inbox)
    .await
    .expect("an inbox row");
}

/// The shop with a consumer at work, and what a fault left to be undone.
struct Stage {
    shop: Shop,
    console: Console,
    consumer: Option<Consumer>,
    holder: Option<sqlx::Transaction<'static, sqlx::MySql>>,
}

impl Stage {
    async fn open(story: &str) -> Self {
        Self::open_on(story, Servers::shared()).await
    }

    async fn open_on(story: &str, servers: Servers) -> Self {
        let shop = Shop::open_on(story, servers).await;
        let text = shop.console.configuration();
        // A slow machine is no fault of the pipeline.
        let text = text.replacen(
            "statement_timeout = \"500ms\"",
            "statement_timeout = \"5s\"",
            1,
        );
        let table = "[contexts.shop.thresholds]\n";
        let text = text.replacen(table, &format!("{table}refresh = \"500ms\"\n"), 1);
        let config = shop.folder().join("doctor.toml");
        std::fs::write(&config, text + LIMITS).expect("a configuration");
        let console = Console::new(config, shop.folder());
        let consumer = Consumer::attach(&shop, Manner::Works).await;
        Self {
            shop,
            console,
            consumer: Some(consumer),
            holder: None,
        }
    }

    async fn sql(&self, pool: &MySqlPool, statement: &str) {
        sqlx::query(AssertSqlSafe(statement.to_owned()))
            .execute(pool)
            .await
            .expect("runs");
    }

    async fn orders(&self, statement: &str) {
        self.sql(&self.shop.orders, statement).await;
    }

    async fn inventory(&self, statement: &str) {
        self.sql(&self.shop.inventory, statement).await;
    }

    /// Commits one event that is due.
    async fn emit(&self, event: &Event, event_type: &str) {
        sqlx::query(
            "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload)
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(&event.id)
        .bind(&event.key)
        .bind(event.version)
        .bind(event_type)
        .bind(String::from_utf8_lossy(&event.body).as_ref())
        .execute(&self.shop.orders)
        .await
        .expect("an outbox row");
    }

    async fn dispatch(&self) {
        self.console.run(&["worker", "dispatcher", "--once"]).await;
    }

    async fn doctor(&self) -> Answer {
        self.console.try_run(&["doctor"]).await
    }

    async fn change_consumer(&mut self, manner: Option<Manner>) {
        if let Some(consumer) = self.consumer.take() {
            consumer.leave().await;
        }
        if let Some(manner) = manner {
            self.consumer = Some(Consumer::attach(&self.shop, manner).await);
        }
    }

    /// Asks the doctor until it answers as wanted; what it said last is told when it never does.
    async fn says(&self, what: &str, wanted: impl Fn(&Answer) -> bool) {
        let mut last = None;
        let asking = async {
            loop {
                let answer = self.doctor().await;
                if wanted(&answer) {
                    return;
                }
                last = Some(answer);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, asking).await;
        assert!(in_time.is_ok(), "{what}: {last:#?}");
    }

    /// Waits until nothing is said and all was seen.
    async fn is_quiet(&self, after: &str) {
        let what = format!("quiet after {after}");
        self.says(&what, |answer| answer.code == 0 && first(answer).is_null())
            .await;
    }

    async fn died(&self, events: usize) {
        for n in 0..events {
            let n = i64::try_from(n).expect("small");
            self.emit(&Event::order(n, false), "order.created").await;
        }
        self.dispatch().await;
        self.shop.arrives(DLQ, events).await;
    }

    async fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::DispatcherStopped => self.emit(&Event::order(1, true), "order.created").await,
            Fault::DispatcherDiedAfterTheClaim => self.kill_at("dispatcher.after_claim").await,
            Fault::DispatcherDiedAfterTheConfirm => self.kill_at("dispatcher.after_confirm").await,
            Fault::NoQueueForAType => {
                // Only the other team's queue is bound to everything.
                self.shop.delete_queue(super::shop::OTHER_QUEUE).await;
                self.emit(&Event::order(1, true), "shipment.lost").await;
                self.dispatch().await;
            }
            Fault::ConsumerGone | Fault::ConsumerHangs | Fault::ConsumerRequeues => {
                let manner = match fault {
                    Fault::ConsumerGone => None,
                    Fault::ConsumerHangs => Some(Manner::TakesAndHangs),
                    _ => Some(Manner::GivesBack),
                };
                self.change_consumer(manner).await;
                for n in 0..3 {
                    self.emit(&Event::order(n, true), "order.created").await;
                }
                self.dispatch().await;
            }
            Fault::ManyDeathsOfOneCause | Fault::OneDeath => {
                let deaths = if fault == Fault::OneDeath { 1 } else { 3 };
                self.died(deaths).await;
                self.shop.collect(deaths).await;
            }
            Fault::NobodyCollects => self.died(1).await,
            Fault::EventLostOnItsWay => {
                self.emit(&Event::order(1, true), "order.created").await;
                self.orders(
                    "UPDATE outbox_events SET status = 'sent', attempts = 1,
                     sent_at = NOW(6) - INTERVAL 30 SECOND WHERE status = 'pending'",
                )
                .await;
            }
            Fault::RowsLocked => {
                self.emit(&Event::order(1, true), "order.created").await;
                let mut holder = self.shop.orders.begin().await.expect("begins");
                sqlx::query(
                    "SELECT event_id FROM outbox_events WHERE status = 'pending' FOR UPDATE",
                )
                .fetch_all(&mut *holder)
                .await
                .expect("locks");
                self.holder = Some(holder);
                // It passes over the locked row.
                self.dispatch().await;
            }
            Fault::VersionMissing => {
                self.inventory(
                    "INSERT INTO waiting_events (consumer_name, event_id, aggregate_id, version,
                     missing_version, exchange_name, routing_key, properties, headers, payload,
                     payload_sha256, parked_at, attempted_at, deadline_at) VALUES ('inventory', 'w-1', 'k', 3, 2,
                     'shop.events', 'order.paid', '{}', '{}', '', REPEAT('a', 64), NOW(6) - INTERVAL 1 MINUTE,
                     NOW(6), NOW(6) + INTERVAL 1 HOUR)",
                )
                .await;
            }
            Fault::InboxForgot => {
                self.inventory(
                    "INSERT INTO inbox_horizons (consumer_name, horizon_at, updated_at)
                     VALUES ('inventory', NOW(6) - INTERVAL 3 DAY, NOW(6))",
                )
                .await;
            }
            Fault::DeadLettersToNothing => {
                self.change_consumer(None).await;
                self.shop.delete_queue(QUEUE).await;
                self.declare_queue(false).await;
                self.change_consumer(Some(Manner::Works)).await;
            }
            Fault::QueueGone => {
                self.change_consumer(None).await;
                self.shop.delete_queue(QUEUE).await;
            }
        }
    }

    async fn recover(&mut self, fault: Fault) {
        match fault {
            Fault::DispatcherStopped => self.dispatch().await,
            Fault::DispatcherDiedAfterTheClaim | Fault::DispatcherDiedAfterTheConfirm => {
                self.console.run(&["worker", "reaper", "--once"]).await;
                self.dispatch().await;
            }
            Fault::NoQueueForAType => {
                self.orders(
                    "UPDATE outbox_events SET event_type = 'order.created', status = 'pending',
                     last_error = NULL, next_attempt_at = NOW(6) WHERE status = 'failed'",
                )
                .await;
                self.dispatch().await;
            }
            Fault::ConsumerGone | Fault::ConsumerHangs | Fault::ConsumerRequeues => {
                self.change_consumer(Some(Manner::Works)).await;
            }
            Fault::ManyDeathsOfOneCause | Fault::OneDeath => {
                self.inventory("UPDATE dead_letters SET status = 'discarded'")
                    .await;
            }
            Fault::NobodyCollects => {
                self.shop.collect(1).await;
                self.inventory("UPDATE dead_letters SET status = 'discarded'")
                    .await;
            }
            Fault::EventLostOnItsWay => {
                self.inventory_has_seen_everything().await;
            }
            Fault::RowsLocked => {
                if let Some(holder) = self.holder.take() {
                    holder.rollback().await.expect("rolls back");
                }
                self.dispatch().await;
            }
            Fault::VersionMissing => self.inventory("DELETE FROM waiting_events").await,
            Fault::InboxForgot => self.inventory("DELETE FROM inbox_horizons").await,
            Fault::DeadLettersToNothing => {
                self.change_consumer(None).await;
                self.shop.delete_queue(QUEUE).await;
                self.declare_queue(true).await;
                self.change_consumer(Some(Manner::Works)).await;
            }
            Fault::QueueGone => {
                self.declare_queue(true).await;
                self.change_consumer(Some(Manner::Works)).await;
            }
        }
    }

    async fn kill_at(&self, point: &str) {
        self.emit(&Event::order(1, true), "order.created").await;
        let before = self.console.worker_log().matches(point).count();
        let mut child = self
            .console
            .start_worker(&["dispatcher"], &format!("{point}=pause"));
        until("the crash point", || async {
            self.console.worker_log().matches(point).count() > before
        })
        .await;
        child.kill().await.expect("kill -9");
        self.orders("UPDATE outbox_events SET lease_until = NOW(6) - INTERVAL 5 SECOND WHERE status = 'sending'")
            .await;
    }

    async fn inventory_has_seen_everything(&self) {
        let rows: Vec<(String,)> = sqlx::query_as("SELECT event_id FROM outbox_events")
            .fetch_all(&self.shop.orders)
            .await
            .expect("rows");
        for (id,) in rows {
            let properties = BasicProperties::default().with_message_id(id.into());
            take_effect(&self.shop.inventory, &properties).await;
        }
    }

    async fn declare_queue(&self, dead_letters: bool) {
        let (connection, channel) = self.shop.channel().await;
        let mut arguments = FieldTable::default();
        let mut set = |name: &str, value: &str| {
            arguments.insert(name.into(), AMQPValue::LongString(value.into()));
        };
        set("x-queue-type", "quorum");
        if dead_letters {
            set("x-dead-letter-exchange", "shop.dead");
        }
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        channel
            .queue_declare(QUEUE.into(), durable, arguments)
            .await
            .expect("declared");
        let none = FieldTable::default();
        channel
            .queue_bind(
                QUEUE.into(),
                "shop.events".into(),
                "order.*".into(),
                QueueBindOptions::default(),
                none,
            )
            .await
            .expect("bound");
        drop(connection.close(200, "OK".into()).await);
    }
}

fn first(answer: &Answer) -> &Value {
    &answer.json["items"][0]
}

/// A quarter of the faults, each in the same shop after the one before is over.
#[rstest::rstest]
#[case(0)]
#[case(1)]
#[case(2)]
#[case(3)]
#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_named_first_and_quiet_when_it_is_over(#[case] quarter: usize) {
    let mut stage = Stage::open(&format!("doctor{quarter}")).await;
    stage.is_quiet("the start").await;
    let of = FAULTS.len().div_ceil(4);
    for (fault, id, window) in FAULTS.iter().skip(quarter * of).take(of) {
        stage.inject(*fault).await;
        // What the management API counts comes a few seconds late; the databases and the queues tell at
        // once.
        let what = format!("{id} for {fault:?}");
        stage
            .says(&what, |answer| {
                let first = first(answer);
                answer.code == 3 && first["id"] == *id && first["window"].as_str() == *window
            })
            .await;
        stage.recover(*fault).await;
        stage.is_quiet(&format!("{fault:?}")).await;
    }
    stage.change_consumer(None).await;
    stage.shop.close().await;
}

/// A database that is away: exit code 5, and what is wrong elsewhere is still said.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_named_and_the_rest_is_judged() {
    let stage = Stage::open("doctor_away").await;
    let config = stage.shop.folder().join("away.toml");
    let database = stage.shop.database();
    let text = std::fs::read_to_string(stage.shop.folder().join("doctor.toml")).expect("readable");
    let url = server("REDRIVE_TEST_MARIADB_URL");
    let away = format!("mysql://t:x@127.0.0.1:1/{database}");
    std::fs::write(&config, text.replace(&format!("{url}/{database}"), &away)).expect("written");
    let console = Console::new(config, stage.shop.folder());
    let answer = console.try_run(&["doctor"]).await;
    assert_eq!(answer.code, 5, "{answer:#?}");
    assert_eq!(first(&answer)["id"], "server_unreachable", "{answer:#?}");
    assert_eq!(first(&answer)["subject"], "db inventory");
    assert_eq!(answer.json["complete"], false);

    stage.emit(&Event::order(1, true), "order.created").await;
    until("both are said", || async {
        let answer = console.try_run(&["doctor"]).await;
        let items = answer.json["items"].as_array().cloned().unwrap_or_default();
        let is_said = |id: &str| items.iter().any(|item| item["id"] == id);
        answer.code == 3 && is_said("server_unreachable") && is_said("dispatcher_not_claiming")
    })
    .await;
    stage.shop.close().await;
}

/// The false all-clear: an account the management API shows nothing to.
#[tokio::test(flavor = "multi_thread")]
async fn a_monitoring_user_without_rights_is_never_told_all_clear() {
    let stage = Stage::open("doctor_blind").await;
    stage.is_quiet("the start").await;
    let management = server("REDRIVE_TEST_MANAGEMENT_URL");
    let id = uuid::Uuid::now_v7().simple().to_string();
    let name = format!("blind{}", &id[12..]);
    let (scheme, rest) = management.split_once("://").expect("a URL");
    let (_, host) = rest.split_once('@').expect("an account");
    for tags in ["", "management"] {
        python(&["blind", &management, &name, "x", tags], "").await;
        let text =
            std::fs::read_to_string(stage.shop.folder().join("doctor.toml")).expect("readable");
        let config = stage.shop.folder().join("blind.toml");
        let blind = format!("management = \"{scheme}://{name}:x@{host}\"");
        let text = text.replace(&format!("management = \"{management}\""), &blind);
        assert!(text.contains(&blind), "{text}");
        std::fs::write(&config, text).expect("written");
        let console = Console::new(config, stage.shop.folder());
        let answer = console.try_run(&["doctor"]).await;
        assert_eq!(answer.code, 5, "{tags}: {answer:#?}");
        let id = first(&answer)["id"].as_str().unwrap_or_default();
        assert!(
            ["cannot_see", "server_unreachable"].contains(&id),
            "{answer:#?}"
        );
    }
    python(&["forget", &management, &name], "").await;
    stage.shop.close().await;
}

/// The broker is out of memory: that is said, and not that nobody claims.
#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_of_the_broker_explains_what_waits() {
    let node = Node::start().await;
    let stage = Stage::open_on("doctor_alarm", Servers::of(&node)).await;
    stage.is_quiet("the start").await;
    let limit = "set_vm_memory_high_watermark";
    node.ctl(&[limit, "absolute", "1MB"]).await;
    stage.emit(&Event::order(1, true), "order.created").await;
    stage
        .says("the alarm, and what follows from it", |answer| {
            let first = first(answer);
            let follows = first["explains"].to_string();
            first["id"] == "broker_blocked" && follows.contains("dispatcher_not_claiming orders")
        })
        .await;
    node.ctl(&[limit, "0.4"]).await;
    until("events go out again", || async {
        stage.dispatch().await;
        let answer = stage.doctor().await;
        answer.code == 0 && first(&answer).is_null()
    })
    .await;
    stage.shop.close().await;
    node.stop().await;
}

/// Events flow all the time: nothing is ever said.
#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_pipeline_under_load_is_quiet_for_a_minute() {
    let stage = Stage::open("doctor_healthy").await;
    stage.is_quiet("the start").await;
    let mut workers = stage.console.start_worker(&["dispatcher", "reaper"], "");
    let began = std::time::Instant::now();
    let mut sent = 0;
    while began.elapsed() < std::time::Duration::from_mins(1) {
        for _ in 0..100 {
            stage.emit(&Event::order(sent, true), "order.created").await;
            sent += 1;
        }
        let answer = stage.doctor().await;
        assert_eq!(answer.code, 0, "after {sent} events: {answer:#?}");
        assert!(first(&answer).is_null(), "{answer:#?}");
    }
    workers.kill().await.expect("ends");
    stage.shop.close().await;
}
