//! The collector on SQLite and the in-process broker: any message, any crash, nothing lost or doubled.

use std::sync::atomic::Ordering;

use base64::Engine as _;

use super::*;
use crate::config::Context;
use crate::model::message::{FieldTable, FieldValue, Message};
use crate::pipeline::headers;
use crate::pipeline::test_support::{Bench, Meddler, message};

const QUEUE: &str = "inventory.orders";
const DLQ: &str = "inventory.orders.dlq";

fn collector(bench: &Bench, broker: Arc<dyn Broker>) -> Collector {
    Collector::new(
        &bench.ports.context,
        bench.service("inventory"),
        (bench.store("inventory"), broker),
        &Clock::System,
    )
}

async fn collect(bench: &Bench) -> Report {
    collector(bench, bench.broker.clone()).run_once().await
}

/// Lets the broker dead-letter messages: into the queue, out by rejection.
async fn die(bench: &Bench, messages: Vec<Message>) {
    let count = messages.len();
    bench.put(QUEUE, messages).await;
    let mut consumer = bench.broker.consumer(QUEUE, 0).await.expect("consumer");
    for _ in 0..count {
        let delivery = consumer.next().await.expect("a message");
        consumer.reject(delivery.tag, false).await.expect("rejects");
    }
}

async fn digests(bench: &Bench) -> Vec<String> {
    let mut found = Vec::new();
    for letter in bench.open_letters("inventory").await {
        let detail = bench
            .store("inventory")
            .dead_letter(&letter.dead_letter_id)
            .await;
        let detail = detail.expect("reads").expect("the letter");
        assert_eq!(detail.message.payload.sha256(), letter.payload_sha256);
        found.push(letter.payload_sha256);
    }
    found.sort_unstable();
    found
}

#[tokio::test]
async fn p_01_p_02_p_04_p_07_p_09_any_bytes_are_kept_as_they_are() {
    let bench = Bench::new().await;
    let decode = |text: &str| {
        base64::engine::general_purpose::STANDARD
            .decode(text)
            .expect("base64")
    };
    let bodies = vec![
        decode("AP+A/sMoCg0bwK+f7aCA4oAA"),
        decode("eyJuYW1lIjoiY2Fm6SJ9"),
        decode("CJYBEgd0ZXN0aW5nHQAAwH8="),
        br#"{"note":"a\u0000b"}"#.to_vec(),
        br#"{"s":"\ud800"}"#.to_vec(),
        Vec::new(),
        vec![b'x'; 65_535],
        vec![b'x'; 65_536],
        vec![b'x'; 1_048_577],
        "[".repeat(100_000).into_bytes(),
    ];
    let mut expected: Vec<_> = bodies
        .iter()
        .map(|body| crate::base::digest::sha256_hex(body))
        .collect();
    expected.sort_unstable();
    let messages = bodies
        .iter()
        .enumerate()
        .map(|(no, body)| {
            let mut message = message(Some(&format!("e-{no}")), "order.placed", body);
            message.properties.content_encoding = Some("gzip".to_owned());
            message
                .properties
                .headers
                .set("x-error", FieldValue::text("a\0b"));
            message
        })
        .collect();
    die(&bench, messages).await;
    let report = collect(&bench).await;
    assert_eq!((report.get("new"), report.problem), (10, None));
    assert_eq!(digests(&bench).await, expected);
    assert_eq!(bench.ready(DLQ).await, 0);
}

#[tokio::test]
async fn h_06_h_08_every_property_and_header_type_is_kept() {
    let bench = Bench::new().await;
    let nested: FieldTable = [(
        "a".to_owned(),
        FieldValue::Array(vec![FieldValue::I32(1), FieldValue::Void]),
    )]
    .into_iter()
    .collect();
    let headers: FieldTable = [
        ("b", FieldValue::I8(-5)),
        ("B", FieldValue::U8(251)),
        ("s", FieldValue::I16(-300)),
        ("u", FieldValue::U16(65_000)),
        ("i", FieldValue::U32(4_000_000_000)),
        ("l", FieldValue::I64(i64::MIN / 2)),
        ("f", FieldValue::F32Bits(0x3fc0_0000)),
        ("d", FieldValue::F64Bits(0x3fb9_9999_9999_999a)),
        (
            "D",
            FieldValue::Decimal {
                scale: 2,
                value: 0xffff_f831,
            },
        ),
        ("T", FieldValue::Time(0x6957_35a5)),
        ("x", FieldValue::Bytes(vec![0, 0xff, 0x80])),
        ("S", FieldValue::TextBytes(vec![0xff, 0xfe, 0])),
        ("t", FieldValue::Bool(true)),
        ("F", FieldValue::Table(nested)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let mut sent = message(Some("e-1"), "order.placed", b"{}");
    sent.properties.headers = headers;
    sent.properties.content_type = Some("application/json".to_owned());
    sent.properties.priority = Some(7);
    sent.properties.correlation_id = Some("corr-77".to_owned());
    sent.properties.reply_to = Some("answers".to_owned());
    sent.properties.app_id = Some("shop-web".to_owned());
    sent.properties.timestamp = Some(1_767_323_045);
    die(&bench, vec![sent.clone()]).await;
    assert_eq!(collect(&bench).await.get("new"), 1);
    let letter = bench.open_letters("inventory").await.remove(0);
    let detail = bench
        .store("inventory")
        .dead_letter(&letter.dead_letter_id)
        .await;
    let mut kept = detail.expect("reads").expect("the letter").message;
    kept.properties
        .headers
        .take_where(crate::broker::deaths::is_broker_owned);
    assert_eq!(kept, sent);
}

#[tokio::test]
async fn r_13_a_second_death_is_counted_and_the_letter_is_open_again() {
    let bench = Bench::new().await;
    let event = message(Some("e-1"), "order.placed", b"{}");
    die(&bench, vec![event.clone()]).await;
    assert_eq!(collect(&bench).await.get("new"), 1);
    let mut replayed = event;
    replayed
        .properties
        .headers
        .set(headers::REPLAYS, FieldValue::I64(1));
    die(&bench, vec![replayed]).await;
    assert_eq!(collect(&bench).await.get("died_again"), 1);
    let letters = bench.open_letters("inventory").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].deaths, 2);
}

#[tokio::test]
async fn r_13_an_unmarked_replay_that_dies_in_the_same_second_is_a_death_too() {
    let bench = Bench::new().await;
    let event = message(Some("e-1"), "order.placed", b"{}");
    for expected in ["new", "died_again"] {
        die(&bench, vec![event.clone()]).await;
        assert_eq!(collect(&bench).await.get(expected), 1);
    }
}

#[tokio::test]
async fn b_14_a_crash_between_commit_and_ack_neither_loses_nor_doubles() {
    let bench = Bench::new().await;
    let mut messages: Vec<_> = (0..90)
        .map(|no| message(Some(&format!("e-{no}")), "order.placed", b"{}"))
        .collect();
    messages.extend((0..8).map(|no| message(None, "order.placed", format!("{no}").as_bytes())));
    messages.extend((0..2).map(|_| message(None, "order.placed", b"twin")));
    die(&bench, messages).await;
    let broker = Meddler::new(&bench.broker);
    broker.acks_lost.store(1, Ordering::SeqCst);
    let mut crashed = collector(&bench, Arc::new(broker));
    let report = crashed.run_once().await;
    assert_eq!(report.get("new"), 100);
    assert!(report.problem.expect("told").contains("connection lost"));
    drop(crashed);
    assert_eq!(bench.ready(DLQ).await, 100);
    let report = collect(&bench).await;
    assert_eq!((report.get("same_delivery"), report.get("new")), (100, 0));
    assert_eq!(bench.open_letters("inventory").await.len(), 100);
    assert_eq!(bench.ready(DLQ).await, 0);
}

#[tokio::test]
async fn b_14_a_twin_that_comes_again_after_the_first_was_acknowledged_is_not_swallowed() {
    let bench = Bench::new().await;
    let twin = || message(None, "order.placed", b"twin");
    die(&bench, vec![twin()]).await;
    assert_eq!(collect(&bench).await.get("new"), 1);
    die(&bench, vec![twin()]).await;
    // Delivered once to somebody who stored nothing.
    let mut lost = bench.broker.consumer(DLQ, 0).await.expect("consumer");
    lost.next().await.expect("a message");
    lost.close().await;
    let report = collect(&bench).await;
    assert_eq!((report.get("new"), report.get("same_delivery")), (1, 0));
    assert_eq!(bench.open_letters("inventory").await.len(), 2);
}

fn four_queues(context: &mut Context) {
    for service in &mut context.services {
        if service.name == "inventory" {
            let queues = [
                "missing.dlq",
                DLQ,
                "payment.orders.dlq",
                "orders.results.dlq",
            ];
            service.dead_letters.as_mut().expect("a part").queues =
                queues.map(str::to_owned).to_vec();
        }
    }
}

#[tokio::test]
async fn b_08_a_missing_queue_does_not_keep_the_others_from_being_collected() {
    let bench = Bench::with(four_queues).await;
    for (queue, id) in [
        (DLQ, "e-1"),
        ("payment.orders.dlq", "e-2"),
        ("orders.results.dlq", "e-3"),
    ] {
        bench
            .put(queue, vec![message(Some(id), "order.placed", b"{}")])
            .await;
    }
    let report = collect(&bench).await;
    assert_eq!(report.get("new"), 3);
    let problem = report.problem.expect("told");
    assert!(
        problem.contains("missing.dlq") && problem.contains("does not exist"),
        "{problem}"
    );
}

#[tokio::test]
async fn b_07_a_lost_connection_is_told_and_collecting_goes_on_when_it_is_back() {
    let bench = Bench::new().await;
    let mut collector = collector(&bench, bench.broker.clone());
    assert_eq!(collector.run_once().await.problem, None);
    bench.broker.set_up(false);
    let told = collector.run_once().await.problem.expect("told");
    assert!(told.contains("not read since"), "{told}");
    bench.broker.set_up(true);
    bench
        .put(DLQ, vec![message(Some("e-1"), "order.placed", b"{}")])
        .await;
    let mut report = collector.run_once().await;
    while report.get("new") == 0 {
        tokio::task::yield_now().await;
        report = collector.run_once().await;
    }
    assert_eq!(report.problem, None);
}

const POISON: &[&str] = &["CREATE TRIGGER poison BEFORE INSERT ON dead_letters \
     WHEN NEW.event_type = 'poison' BEGIN SELECT RAISE(ABORT, 'value refused'); END"];

#[tokio::test]
async fn a_row_that_cannot_be_stored_is_parked_and_does_not_block_the_queue() {
    let bench = Bench::new().await;
    let store = bench.store("inventory");
    store.create_business_tables(POISON).await.expect("trigger");
    let messages = vec![
        message(Some("e-1"), "order.placed", b"{}"),
        message(Some("e-2"), "poison", b"\x00\xff"),
        message(Some("e-3"), "order.placed", b"{}"),
    ];
    bench.put(DLQ, messages).await;
    let report = collect(&bench).await;
    assert_eq!((report.get("new"), report.get("parked")), (2, 1));
    assert!(report.problem.expect("told").contains("e-2"));
    assert_eq!(bench.ready(DLQ).await, 0);
    let parked = bench.take("inventory.orders.dlq.parked").await;
    assert_eq!(parked[0].message.payload.bytes(), b"\x00\xff");
    let why = parked[0].message.properties.headers.get(headers::PARKED);
    assert!(
        why.and_then(FieldValue::as_text)
            .expect("told")
            .contains("value refused")
    );
}

#[tokio::test]
async fn a_table_that_takes_no_row_loses_nothing_and_empties_no_queue() {
    let bench = Bench::new().await;
    let store = bench.store("inventory");
    let hide: &[&str] = &["ALTER TABLE dead_letters RENAME TO hidden"];
    store.create_business_tables(hide).await.expect("hides");
    bench
        .put(DLQ, vec![message(Some("e-1"), "order.placed", b"{}")])
        .await;
    let mut collector = collector(&bench, bench.broker.clone());
    let report = collector.run_once().await;
    assert_eq!((report.get("new"), report.get("parked")), (0, 0));
    assert!(report.problem.expect("told").contains("takes no row"));
    let show: &[&str] = &["ALTER TABLE hidden RENAME TO dead_letters"];
    store.create_business_tables(show).await.expect("shows");
    let mut report = collector.run_once().await;
    while report.get("new") == 0 {
        tokio::task::yield_now().await;
        report = collector.run_once().await;
    }
    assert_eq!(report.problem, None);
    assert_eq!(bench.open_letters("inventory").await.len(), 1);
}

/// A server that answers and has no room is not away: what was taken is kept and not given back, which
/// would count against a delivery limit again and again.
#[tokio::test]
async fn a_full_disk_gives_nothing_back_and_parks_nothing() {
    let bench = Bench::new().await;
    let store = bench.store("inventory");
    // As many pages as there are: the next one that is needed is the one the disk has not.
    let full: &[&str] = &["PRAGMA max_page_count = 1"];
    store.create_business_tables(full).await.expect("is full");
    let body = vec![b'x'; 256 * 1024];
    bench
        .put(DLQ, vec![message(Some("e-1"), "order.placed", &body)])
        .await;
    let mut collector = collector(&bench, bench.broker.clone());
    for _ in 0..2 {
        let report = collector.run_once().await;
        assert_eq!((report.get("new"), report.get("parked")), (0, 0));
        let problem = report.problem.expect("told");
        assert!(problem.contains("takes no row"), "{problem}");
        assert!(problem.contains("full"), "{problem}");
        assert_eq!(bench.ready(DLQ).await, 0, "kept, not given back");
    }
    let room: &[&str] = &["PRAGMA max_page_count = 1000000"];
    store.create_business_tables(room).await.expect("has room");
    let mut report = collector.run_once().await;
    while report.get("new") == 0 {
        tokio::task::yield_now().await;
        report = collector.run_once().await;
    }
    assert_eq!(report.problem, None);
    assert_eq!(bench.open_letters("inventory").await.len(), 1);
}

/// A hook that refuses, or that never answers.
struct Unwilling {
    hangs: bool,
}

#[async_trait]
impl AlertHook for Unwilling {
    fn name(&self) -> String {
        "pager".to_owned()
    }
    async fn tell(&self, _: &Alert) -> Result<(), String> {
        if self.hangs {
            std::future::pending().await
        } else {
            Err("answered 503".to_owned())
        }
    }
}

#[tokio::test]
async fn an_alert_hook_that_fails_or_hangs_costs_no_letter_and_no_time() {
    for hangs in [false, true] {
        let bench = Bench::new().await;
        let messages = (0..20)
            .map(|n| message(Some(&format!("e-{n}")), &format!("type-{n}"), b"{}"))
            .collect();
        die(&bench, messages).await;
        let hook = Arc::new(Unwilling { hangs });
        let mut collector =
            collector(&bench, bench.broker.clone()).telling(hook, Duration::from_mins(1));
        let report = collector.run_once().await;
        assert_eq!(report.get("new"), 20);
        assert_eq!(bench.ready(DLQ).await, 0);
        assert_eq!(bench.open_letters("inventory").await.len(), 20);
        if !hangs {
            let shown = async {
                loop {
                    let report = collector.run_once().await;
                    if let Some(problem) = report.problem.clone() {
                        assert_eq!(report.get("alerts_failed"), 1);
                        return problem;
                    }
                    tokio::task::yield_now().await;
                }
            };
            let shown = tokio::time::timeout(Duration::from_secs(10), shown).await;
            let problem = shown.expect("shown in the report");
            assert!(
                problem.contains("pager did not take an alert: answered 503"),
                "{problem}"
            );
        }
    }
}
