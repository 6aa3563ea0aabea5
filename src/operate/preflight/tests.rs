//! The preflight by tables.

use std::time::Duration;

use super::*;
use crate::config::Environment;
use crate::model::dead_letter::DeadLetterDetail;
use crate::model::ids::{AggregateId, ConsumerName, DeadLetterId, EventId, OperationId};
use crate::model::message::Message;
use crate::model::operation::{Operation, OperationState, Verb};
use crate::operate::guard::tests::context;
use crate::operate::look::Original;

const NOW: i64 = 1_767_323_045_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(NOW + seconds * 1_000_000)
}

/// An open letter of `inventory`, dead for two minutes.
pub(in crate::operate) fn letter() -> DeadLetter {
    DeadLetter {
        dead_letter_id: DeadLetterId::new("d-1"),
        consumer: ConsumerName::new("inventory"),
        event_id: Some(EventId::new("0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1")),
        aggregate_id: Some(AggregateId::new("8812")),
        aggregate_version: Some(3),
        event_type: Some("order.created".to_owned()),
        message_at: Some(at(-180)),
        failed_queue: Some("inventory.orders".to_owned()),
        source_exchange: Some("shop.events".to_owned()),
        source_routing_key: Some("order.created".to_owned()),
        dead_letter_queue: "inventory.orders.dlq".to_owned(),
        reason: Some("rejected".to_owned()),
        error_class: "decode: missing field sku".to_owned(),
        error_summary: Some("missing field `sku` at line 1 column 58".to_owned()),
        stack_digest: None,
        delivery_count: Some(1),
        retry_count: None,
        first_died_at: at(-120),
        last_died_at: at(-120),
        deaths: 1,
        replays: 0,
        last_replayed_at: None,
        producer_version: None,
        consumer_version: None,
        trace_id: None,
        replay_allowed: true,
        owner: None,
        status: DeadLetterStatus::Open,
        note: None,
        version: 1,
        payload_bytes: 7,
        payload_sha256: Payload::new(b"{\"a\":1}".to_vec()).sha256(),
        operation_id: None,
    }
}

fn detail(letter: DeadLetter) -> DeadLetterDetail {
    DeadLetterDetail {
        letter,
        message: Message {
            payload: Payload::new(b"{\"a\":1}".to_vec()),
            ..Message::default()
        },
        deaths: vec![],
    }
}

struct Setting {
    context: Context,
    detail: DeadLetterDetail,
    holder: Look<Holder>,
    inbox: Look<InboxRow>,
    memory: Memory,
    originals: Originals,
    neighbours: Option<Neighbours>,
    size: HeaderSize,
}

impl Setting {
    fn new(letter: DeadLetter) -> Self {
        let sha256 = letter.payload_sha256.clone();
        Self {
            context: context(Environment::Sandbox),
            detail: detail(letter),
            holder: Look::Absent,
            inbox: Look::Absent,
            memory: Memory {
                horizon: Look::Absent,
                archived: Look::Absent,
                applied: Look::Absent,
            },
            originals: Originals {
                found: vec![Original {
                    service: "orders".to_owned(),
                    sha256,
                    created_at: Some(at(-180)),
                }],
                unread: vec![],
            },
            neighbours: Some(Neighbours::default()),
            size: HeaderSize::Fits,
        }
    }

    fn lines(&self) -> Vec<PreflightLine> {
        lines(&Facts {
            context: &self.context,
            now: at(0),
            detail: &self.detail,
            holder: self.holder.clone(),
            inbox: self.inbox.clone(),
            memory: self.memory.clone(),
            originals: self.originals.clone(),
            neighbours: self.neighbours.clone(),
            size: self.size,
        })
    }

    fn line(&self, check: &str) -> PreflightLine {
        let lines = self.lines();
        lines
            .iter()
            .find(|line| line.check == check)
            .unwrap_or_else(|| panic!("no line {check}: {lines:?}"))
            .clone()
    }
}

fn row(consumer: &str) -> InboxRow {
    InboxRow {
        consumer: ConsumerName::new(consumer),
        event_id: EventId::new("0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1"),
        processed_at: at(-60),
        payload_sha256: None,
    }
}

fn operation(state: ItemState) -> Look<Holder> {
    Look::Found(Holder {
        operation: Operation {
            operation_id: OperationId::new("op-0"),
            verb: Verb::Replay,
            state: OperationState::Running,
            actor: "mia@desk".to_owned(),
            reason: "rollout".to_owned(),
            ticket: None,
            plan_digest: String::new(),
            plan: String::new(),
            created_at: at(-30),
            finished_at: Some(at(-10)),
            items: vec![],
        },
        state: Some(state),
    })
}

#[test]
fn a_fresh_letter_passes_every_line() {
    let lines = Setting::new(letter()).lines();
    assert!(
        lines.iter().all(|line| line.level == Level::Pass),
        "{lines:?}"
    );
    let checks: Vec<_> = lines.iter().map(|line| line.check.as_str()).collect();
    assert_eq!(
        checks,
        [
            "held",
            "replay_allowed",
            "never_replay",
            "inbox_absent",
            "inbox_retention",
            "same_content",
            "sequence"
        ]
    );
}

#[test]
fn r_07_a_the_consumer_would_skip_it() {
    let mut setting = Setting::new(letter());
    setting.inbox = Look::Found(row("inventory"));
    let line = setting.line("inbox_absent");
    assert_eq!(line.level, Level::Refusal);
    assert!(
        line.text
            .starts_with("consumer will skip this: already processed at 2026-01-02 03:03:05Z"),
        "{}",
        line.text
    );
    assert!(
        line.text.contains(
            "redrive discard 0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1 --consumer inventory --resolved --context shop"
        ),
        "{}",
        line.text
    );
}

#[test]
fn an_inbox_that_was_not_read_is_not_an_empty_one() {
    let mut setting = Setting::new(letter());
    setting.inbox = Look::Unread("inbox row did not answer within 3s".to_owned());
    let line = setting.line("unread");
    assert_eq!(line.level, Level::Refusal);
    setting.inbox = Look::NotConfigured("no service has it".to_owned());
    assert_eq!(setting.line("inbox_absent").level, Level::Warning);
}

#[test]
fn r_01_a_held_letter_names_who_and_since_when() {
    let mut held = letter();
    held.status = DeadLetterStatus::Replaying;
    let mut setting = Setting::new(held);
    setting.holder = operation(ItemState::Published);
    let line = setting.line("held");
    assert_eq!(line.level, Level::Refusal);
    assert_eq!(
        line.text,
        "already being replayed by mia@desk since 2026-01-02 03:03:35Z (operation op-0)"
    );
}

#[test]
fn r_05_an_unknown_outcome_may_be_sent_again_only_in_words() {
    let mut held = letter();
    held.status = DeadLetterStatus::Replaying;
    let mut setting = Setting::new(held);
    setting.holder = operation(ItemState::Unknown);
    let mut lines = setting.lines();
    let level = |lines: &[PreflightLine]| {
        lines
            .iter()
            .find(|line| line.check == "unknown_outcome")
            .map(|line| line.level)
    };
    assert_eq!(level(&lines), Some(Level::Overridable));
    overridden(&mut lines, &["inbox_retention".to_owned()]);
    assert_eq!(level(&lines), Some(Level::Overridable));
    overridden(&mut lines, &["unknown_outcome".to_owned()]);
    assert_eq!(level(&lines), Some(Level::Warning));
}

#[test]
fn r_02_a_closed_letter_says_when_and_by_whom() {
    for status in [
        DeadLetterStatus::Replayed,
        DeadLetterStatus::Resolved,
        DeadLetterStatus::Repaired,
        DeadLetterStatus::Discarded,
    ] {
        let mut closed = letter();
        closed.status = status;
        let mut setting = Setting::new(closed);
        setting.holder = operation(ItemState::Applied);
        let line = setting.line("closed");
        assert_eq!(line.level, Level::Refusal);
        assert_eq!(
            line.text,
            format!(
                "{} at 2026-01-02 03:03:55Z by mia@desk: nothing is left to do",
                status.word()
            )
        );
    }
}

#[test]
fn types_that_are_never_replayed_and_letters_that_may_not() {
    let mut setting = Setting::new(letter());
    setting.context.never_replay = vec!["payment.*".to_owned(), "order.*".to_owned()];
    let line = setting.line("never_replay");
    assert_eq!(line.level, Level::Refusal);
    assert_eq!(
        line.text,
        "never_replay: order.created (contexts.shop.never_replay has order.*)"
    );
    setting.detail.letter.event_type = None;
    assert_eq!(setting.line("never_replay").level, Level::Overridable);
    setting.detail.letter.replay_allowed = false;
    assert_eq!(setting.line("replay_allowed").level, Level::Refusal);
}

#[test]
fn an_event_older_than_the_inbox_could_take_effect_twice() {
    let mut setting = Setting::new(letter());
    setting.context.inbox_retention = Some(Duration::from_mins(4));
    assert_eq!(
        setting.line("inbox_retention").text,
        "3m old, inbox keeps 4m"
    );
    setting.context.inbox_retention = Some(Duration::from_mins(3));
    let line = setting.line("inbox_retention");
    assert_eq!(line.level, Level::Overridable);
    assert!(
        line.text.ends_with("its effect could happen twice"),
        "{}",
        line.text
    );
    // Made at an unknown time: the first death only bounds its age from below.
    setting.originals.found.clear();
    setting.detail.letter.message_at = None;
    assert_eq!(setting.line("inbox_retention").level, Level::Warning);
    setting.context.inbox_retention = Some(Duration::from_mins(2));
    assert_eq!(setting.line("inbox_retention").level, Level::Overridable);
}

#[test]
fn i_01_the_real_horizon_counts_and_not_the_policy() {
    let mut setting = Setting::new(letter());
    // The policy would allow it; the rows have gone all the same.
    setting.context.inbox_retention = Some(Duration::from_hours(24 * 7));
    setting.memory.horizon = Look::Found(at(-60));
    let line = setting.line("inbox_retention");
    assert_eq!(line.level, Level::Overridable);
    assert!(
        line.text.contains("duplicate protection no longer applies"),
        "{}",
        line.text
    );
    // The policy would refuse it; the archiver has not come that far.
    setting.context.inbox_retention = Some(Duration::from_mins(1));
    setting.memory.horizon = Look::Found(at(-3600));
    assert_eq!(setting.line("inbox_retention").level, Level::Pass);
    setting.detail.letter.message_at = None;
    setting.originals.found.clear();
    assert_eq!(setting.line("inbox_retention").level, Level::Warning);
    setting.memory.horizon = Look::Unread("refused".to_owned());
    assert_eq!(setting.line("inbox_retention").level, Level::Overridable);
}

#[test]
fn i_01_a_row_the_inbox_has_forgotten_is_found_in_the_archive() {
    let mut setting = Setting::new(letter());
    let row = InboxRow {
        consumer: ConsumerName::new("inventory"),
        event_id: EventId::new("e-1"),
        processed_at: at(-170),
        payload_sha256: None,
    };
    setting.memory.archived = Look::Found(row);
    let line = setting.line("inbox_absent");
    assert_eq!(line.level, Level::Refusal);
    assert!(
        line.text.contains("would do it a second time"),
        "{}",
        line.text
    );
    setting.memory.archived = Look::Unread("refused".to_owned());
    assert_eq!(setting.line("unread").level, Level::Refusal);
}

#[test]
fn r_11_a_replay_out_of_order_names_what_was_applied_and_what_waits() {
    // Dead: 5 and 7. Processed: 6 and 8.
    let mut setting = Setting::new(letter());
    setting.detail.letter.aggregate_id = Some(AggregateId::new("order-42"));
    setting.detail.letter.aggregate_version = Some(5);
    setting.memory.applied = Look::Found(8);
    setting.neighbours = Some(Neighbours {
        later_applied: vec![6, 8],
        later_dead: vec![7],
        ..Neighbours::default()
    });
    let line = setting.line("sequence");
    assert_eq!(line.level, Level::Warning);
    assert_eq!(
        line.text,
        "later events of order-42 were already processed (v6, v8); inventory has applied v8 of \
         order-42 already: it will absorb this one as stale; v7 of this key waits behind it"
    );
    setting.detail.letter.aggregate_version = Some(7);
    setting.neighbours = Some(Neighbours {
        earlier_dead: vec![5],
        later_applied: vec![8],
        ..Neighbours::default()
    });
    let text = setting.line("sequence").text;
    assert!(
        text.starts_with("v5 of key order-42 died before it: replay that first"),
        "{text}"
    );
}

#[test]
fn the_same_id_with_other_content_is_refused_unless_told() {
    let mut setting = Setting::new(letter());
    setting.originals.found[0].sha256 = "0".repeat(64);
    let line = setting.line("same_content");
    assert_eq!(line.level, Level::Overridable);
    assert!(
        line.text
            .starts_with("same id, other content: the outbox row in orders"),
        "{}",
        line.text
    );
    setting.originals.found.clear();
    assert_eq!(setting.line("same_content").level, Level::Warning);
    setting
        .originals
        .unread
        .push("database of orders is not reachable: refused".to_owned());
    assert!(
        setting
            .line("same_content")
            .text
            .contains("database of orders is not reachable")
    );
}

#[test]
fn the_sequence_names_versions() {
    let mut setting = Setting::new(letter());
    setting.neighbours = Some(Neighbours {
        earlier_dead: vec![2],
        later_dead: vec![4],
        later_applied: vec![6, 8],
        ..Neighbours::default()
    });
    let line = setting.line("sequence");
    assert_eq!(line.level, Level::Warning);
    assert_eq!(
        line.text,
        "v2 of key 8812 died before it: replay that first; later events of 8812 were already \
         processed (v6, v8); v4 of this key waits behind it"
    );
    setting.neighbours = None;
    assert_eq!(setting.line("sequence").level, Level::Warning);
}

#[test]
fn r_09_earlier_replays_are_told_and_the_third_needs_a_word() {
    let mut again = letter();
    again.replays = 1;
    again.last_replayed_at = Some(at(-125));
    again.last_died_at = at(-123);
    assert_eq!(word(&again), None);
    assert_eq!(
        Setting::new(again.clone()).line("replays").text,
        "replayed once, last death 2s after replay"
    );
    again.replays = 5;
    assert_eq!(word(&again).as_deref(), Some("again"));
    let line = Setting::new(again).line("replays");
    assert_eq!(line.level, Level::Warning);
    assert_eq!(
        line.text,
        "replayed 5 times, last death 2s after replay; type `again` to go on"
    );
}

#[test]
fn p_12_an_error_envelope_is_recognised_and_never_unwrapped() {
    let mut setting = Setting::new(letter());
    setting.detail.message.payload = Payload::new(
        br#"{"error":"reject","num_attempts":6,"failed_at":"2026-04-23T18:35:22+03:00","payload":"eyJjYW5kaWRhdGVfaWQiOiIxIn0=","properties":"e30="}"#.to_vec(),
    );
    let line = setting.line("envelope");
    assert_eq!(line.level, Level::Warning);
    assert_eq!(
        line.text,
        "body looks like an error envelope; the original is inside"
    );
    for plain in [
        r#"{"error":"x"}"#,
        r#"{"payload":"eyJ9"}"#,
        r#"{"error":"x","payload":"not base64!"}"#,
        "[",
    ] {
        assert_eq!(envelope(&Payload::new(plain.as_bytes().to_vec())), None);
    }
}

#[test]
fn h_10_too_large_headers_are_refused_before_they_cost_the_connection() {
    let mut setting = Setting::new(letter());
    setting.size = HeaderSize::TooLarge(131_241, 131_064);
    let line = setting.line("headers_size");
    assert_eq!(line.level, Level::Refusal);
    assert_eq!(
        line.text,
        "headers too large to republish (131,241 of 131,064)"
    );
}
