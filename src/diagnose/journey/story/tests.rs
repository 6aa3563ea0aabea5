//! Stories told from facts that no database has to hold.

use rstest::rstest;

use super::*;
use crate::diagnose::journey::facts::{
    ClockFacts, ConsumerFacts, Inbox, Letter, OperationFacts, Route, Seen,
};
use crate::diagnose::journey::lanes::chart;
use crate::model::audit::{AuditEntry, AuditRecord};
use crate::model::dead_letter::{DeadLetter, DeadLetterStatus, Death};
use crate::model::ids::{AggregateId, ClaimToken, ConsumerName, DeadLetterId, OperationId};
use crate::model::inbox::InboxRow;
use crate::model::operation::{ItemState, Operation, OperationItem, OperationState, Verb};
use crate::model::outbox::{OutboxRow, OutboxState};
use crate::store::trace::{RepairLink, WaitingNote};

const START: i64 = 1_767_323_045_000_000;
const ORIGINAL: &str = "0197c3f2-7d2a-7c4e-9b1a-5a2f0c9d1ea1";
const REPAIRED: &str = "0197c3f2-9000-7c4e-9b1a-5a2f0c9d1eb2";

/// So many milliseconds after the start.
fn at(ms: i64) -> Timestamp {
    Timestamp::from_micros(START + ms * 1_000)
}

fn row(id: &str, state: OutboxState, created: i64) -> OutboxRow {
    OutboxRow {
        event_id: EventId::new(id),
        aggregate_id: Some(AggregateId::new("8812")),
        aggregate_version: Some(1),
        event_type: "order.created".to_owned(),
        state,
        attempts: Some(1),
        next_attempt_at: Some(at(created)),
        claim_token: None,
        lease_until: None,
        last_error: None,
        created_at: Some(at(created)),
        sent_at: (state == OutboxState::Sent).then(|| at(created + 300)),
    }
}

fn event(id: &str, role: Role, service: &str, created: i64) -> EventFacts {
    EventFacts {
        outbox: vec![(service.to_owned(), row(id, OutboxState::Sent, created))],
        payload_sha256: Some("a".repeat(64)),
        route: Route::Queues(vec!["inventory.orders".to_owned()]),
        seen: vec![Seen {
            consumer: 0,
            inbox: Inbox::Absent,
            row: None,
        }],
        ..EventFacts::new(Some(EventId::new(id)), role)
    }
}

fn consumed(id: &str, ms: i64) -> Seen {
    Seen {
        consumer: 0,
        inbox: Inbox::Row,
        row: Some(InboxRow {
            consumer: ConsumerName::new("inventory"),
            event_id: EventId::new(id),
            processed_at: at(ms),
            payload_sha256: Some("a".repeat(64)),
        }),
    }
}

fn letter(status: DeadLetterStatus, deaths: Vec<Death>) -> Letter {
    Letter {
        service: "inventory".to_owned(),
        letter: DeadLetter {
            dead_letter_id: DeadLetterId::new("letter-1"),
            consumer: ConsumerName::new("inventory"),
            event_id: Some(EventId::new(ORIGINAL)),
            aggregate_id: Some(AggregateId::new("8812")),
            aggregate_version: Some(1),
            event_type: Some("order.created".to_owned()),
            message_at: None,
            failed_queue: Some("inventory.orders".to_owned()),
            source_exchange: Some("shop.events".to_owned()),
            source_routing_key: Some("order.created".to_owned()),
            dead_letter_queue: "inventory.orders.dlq".to_owned(),
            reason: Some("rejected".to_owned()),
            error_class: "decode: missing field sku".to_owned(),
            error_summary: Some("missing field `sku`".to_owned()),
            stack_digest: None,
            delivery_count: None,
            retry_count: None,
            first_died_at: at(1_000),
            last_died_at: at(1_000),
            deaths: i64::try_from(deaths.len()).expect("few").max(1),
            replays: 0,
            last_replayed_at: None,
            producer_version: None,
            consumer_version: None,
            trace_id: None,
            replay_allowed: true,
            owner: None,
            status,
            note: None,
            version: 1,
            payload_bytes: 10,
            payload_sha256: "a".repeat(64),
            operation_id: None,
        },
        deaths,
    }
}

/// A death in whole seconds, as the broker records it.
fn death(no: i64, second: i64, after: Option<&str>) -> Death {
    Death {
        no,
        died_at: at(second * 1_000),
        queue: Some("inventory.orders".to_owned()),
        reason: Some("rejected".to_owned()),
        error: None,
        operation_id: after.map(OperationId::new),
    }
}

fn operation(
    id: &str,
    verb: Verb,
    ms: i64,
    item: (ItemState, i64, Option<&str>),
    seq: i64,
) -> OperationFacts {
    let (state, deaths_before, new) = item;
    let record = |phase: &str| AuditRecord {
        actor: "mia@desk".to_owned(),
        action: verb.word().to_owned(),
        phase: phase.to_owned(),
        operation_id: Some(OperationId::new(id)),
        subject: ORIGINAL.to_owned(),
        reason: "sku made optional in 4.2.1".to_owned(),
        detail: "{}".to_owned(),
    };
    let entry = |seq, phase| AuditEntry {
        seq,
        at: at(ms),
        record: record(phase),
        previous_hash: String::new(),
        hash: String::new(),
    };
    OperationFacts {
        service: "inventory".to_owned(),
        operation: Operation {
            operation_id: OperationId::new(id),
            verb,
            state: OperationState::Finished,
            actor: "mia@desk".to_owned(),
            reason: "sku made optional in 4.2.1".to_owned(),
            ticket: None,
            plan_digest: String::new(),
            plan: "{}".to_owned(),
            created_at: at(ms),
            finished_at: Some(at(ms + 500)),
            items: vec![OperationItem {
                no: 1,
                event_id: Some(EventId::new(ORIGINAL)),
                consumer: Some(ConsumerName::new("inventory")),
                dead_letter_id: Some(DeadLetterId::new("letter-1")),
                state,
                token: ClaimToken::new("token"),
                lease_until: None,
                published_at: (verb == Verb::Replay).then(|| at(ms + 50)),
                updated_at: at(ms + 500),
                evidence: None,
                deaths_before,
                new_event_id: new.map(EventId::new),
            }],
        },
        audit: vec![entry(seq, "intent"), entry(seq + 1, "outcome")],
    }
}

fn facts(events: Vec<EventFacts>) -> Facts {
    let clock = |service: &str| ClockFacts {
        service: service.to_owned(),
        skew_us: Some(0),
        round_trip_us: Some(400),
    };
    Facts {
        subject: Subject::Event(EventId::new(ORIGINAL)),
        now: at(840_000),
        services: vec!["orders".to_owned(), "inventory".to_owned()],
        consumers: vec![ConsumerFacts {
            service: "inventory".to_owned(),
            name: ConsumerName::new("inventory"),
            queue: "inventory.orders".to_owned(),
            depth: Some((12, 0)),
        }],
        clocks: vec![clock("orders"), clock("inventory")],
        events,
        repairs: Vec::new(),
        operations: Vec::new(),
        sagas: Vec::new(),
        unread: Vec::new(),
        limits: Vec::new(),
    }
}

fn repair_link() -> (String, RepairLink) {
    let link = RepairLink {
        operation_id: OperationId::new("op-3"),
        original_event_id: Some(EventId::new(ORIGINAL)),
        dead_letter_id: DeadLetterId::new("letter-1"),
        new_event_id: EventId::new(REPAIRED),
        reason: "sku made optional in 4.2.1".to_owned(),
        actor: "mia@desk".to_owned(),
        created_at: at(9_000),
    };
    ("inventory".to_owned(), link)
}

/// Replayed twice, repaired once: everything in whole seconds happens in the second it is recorded in.
fn twice_replayed() -> Facts {
    let mut original = event(ORIGINAL, Role::Subject, "orders", 100);
    let deaths = vec![
        death(1, 0, None),
        death(2, 3, Some("op-1")),
        death(3, 6, Some("op-2")),
    ];
    original.letters = vec![letter(DeadLetterStatus::Repaired, deaths)];
    let mut repaired = event(REPAIRED, Role::Lineage, "inventory", 9_000);
    repaired.seen = vec![consumed(REPAIRED, 9_900)];
    let mut facts = facts(vec![original, repaired]);
    facts.operations = vec![
        operation(
            "op-1",
            Verb::Replay,
            3_400,
            (ItemState::DiedAgain, 1, None),
            1,
        ),
        operation(
            "op-2",
            Verb::Replay,
            6_400,
            (ItemState::DiedAgain, 2, None),
            3,
        ),
        operation(
            "op-3",
            Verb::Repair,
            9_000,
            (ItemState::Applied, 0, Some(REPAIRED)),
            5,
        ),
    ];
    facts.repairs = vec![repair_link()];
    facts
}

/// A story for those who draw one.
pub(crate) fn example() -> Story {
    Story::of(&twice_replayed())
}

#[test]
fn an_event_replayed_twice_and_repaired_once_is_told_in_the_order_it_happened() {
    let story = Story::of(&twice_replayed());
    let told: Vec<What> = story.moments.iter().map(|moment| moment.what).collect();
    assert_eq!(
        told,
        [
            What::Committed,
            What::Confirmed,
            What::Died,
            What::Acted,
            What::Published,
            What::Died,
            What::Acted,
            What::Published,
            What::Died,
            What::Acted,
            What::Committed,
            What::Confirmed,
            What::Consumed,
        ]
    );
    assert_eq!(story.gaps, []);
    assert_eq!(story.conflicts, []);
    assert_eq!(story.lineage.len(), 1);
    assert_eq!(story.lanes, ["orders", "broker", "inventory", "operator"]);
}

#[test]
fn a_death_in_the_second_of_its_repair_comes_before_it() {
    let mut facts = twice_replayed();
    facts.events[0].letters[0].deaths[2] = death(3, 9, Some("op-2"));
    // The record of the repair is some time younger than the event it wrote.
    for of in &mut facts.operations {
        if of.operation.verb == Verb::Repair {
            of.operation.created_at = at(9_002);
        }
    }
    let story = Story::of(&facts);
    let told: Vec<What> = story.moments.iter().map(|moment| moment.what).collect();
    let expected = [What::Died, What::Acted, What::Committed];
    assert_eq!(told.get(8..11), Some(&expected[..]), "{told:?}");
}

#[test]
fn the_picture_of_it_fits_a_screen_and_says_everything() {
    let story = Story::of(&twice_replayed());
    for columns in [80, 120] {
        let picture = chart(&story, columns);
        let rows = picture
            .rows
            .iter()
            .map(|row| format!("{}{}{}", row.times, row.art, row.text));
        let lines: Vec<String> = picture
            .head
            .iter()
            .map(|(_, line)| line.clone())
            .chain(picture.names.clone())
            .chain(rows)
            .chain(picture.foot.iter().map(|(_, line)| line.clone()))
            .collect();
        assert!(columns < 120 || lines.len() <= 36, "{} lines", lines.len());
        let lines: Vec<String> = lines
            .iter()
            .map(|line| crate::base::text::cut(line, columns))
            .collect();
        insta::assert_snapshot!(format!("twice_replayed_{columns}"), lines.join("\n"));
    }
}

#[rstest]
#[case::absent(Inbox::Absent, Some("no inbox row for `inventory` after 13m"))]
#[case::unread(Inbox::Unread, None)]
#[case::forgotten(Inbox::Forgotten, None)]
fn a_gap_is_named_only_where_the_inbox_was_read(#[case] inbox: Inbox, #[case] told: Option<&str>) {
    let mut only = event(ORIGINAL, Role::Subject, "orders", 0);
    only.seen[0].inbox = inbox;
    let story = Story::of(&facts(vec![only]));
    match told {
        Some(told) => {
            let [gap] = story.gaps.as_slice() else {
                panic!("{:?}", story.gaps);
            };
            assert!(gap.text.contains(told), "{}", gap.text);
            assert!(
                gap.text
                    .contains("inventory.orders has 12 ready, 0 consumers")
            );
            assert_eq!(gap.kind, "no_inbox_row");
        }
        None => assert_eq!(story.gaps, []),
    }
}

#[rstest]
#[case::dead(DeadLetterStatus::Open)]
#[case::given_up(DeadLetterStatus::Discarded)]
fn a_dead_letter_explains_an_absent_row(#[case] status: DeadLetterStatus) {
    let mut only = event(ORIGINAL, Role::Subject, "orders", 0);
    only.letters = vec![letter(status, vec![death(1, 1, None)])];
    assert_eq!(Story::of(&facts(vec![only])).gaps, []);
}

#[test]
fn an_event_of_unread_outboxes_is_not_called_absent() {
    let mut only = event(ORIGINAL, Role::Subject, "orders", 0);
    only.outbox.clear();
    let mut unread = facts(vec![only.clone()]);
    unread.unread.push(Unread {
        what: "outbox original of orders".to_owned(),
        reason: "down".to_owned(),
        is_unreachable: true,
    });
    assert_eq!(Story::of(&unread).gaps, []);
    let story = Story::of(&facts(vec![only]));
    assert_eq!(
        story.gaps.first().map(|gap| gap.kind),
        Some("no_outbox_row")
    );
}

#[rstest]
#[case::pending(OutboxState::Pending, "not_claimed")]
#[case::claimed(OutboxState::Sending, "lease_expired")]
#[case::failed(OutboxState::Failed, "failed_in_outbox")]
fn a_row_that_is_not_sent_is_a_gap(#[case] state: OutboxState, #[case] kind: &str) {
    let mut only = event(ORIGINAL, Role::Subject, "orders", 0);
    let mut stuck = row(ORIGINAL, state, 0);
    stuck.lease_until = Some(at(1_000));
    only.outbox = vec![("orders".to_owned(), stuck)];
    let story = Story::of(&facts(vec![only]));
    assert_eq!(story.gaps.first().map(|gap| gap.kind), Some(kind));
    assert_eq!(
        story.moments.last().map(|moment| moment.what),
        Some(What::Now)
    );
}

#[test]
fn i_03_what_waits_for_a_version_says_for_which() {
    let mut only = event(ORIGINAL, Role::Subject, "orders", 0);
    only.waiting = vec![(
        "inventory".to_owned(),
        WaitingNote {
            event_id: EventId::new(ORIGINAL),
            consumer: ConsumerName::new("inventory"),
            version: 3,
            missing_version: 2,
            parked_at: at(500),
            attempted_at: at(500),
            attempts: 1,
            deadline_at: at(900_000),
            payload_sha256: "a".repeat(64),
        },
    )];
    let story = Story::of(&facts(vec![only]));
    let [gap] = story.gaps.as_slice() else {
        panic!("{:?}", story.gaps);
    };
    assert_eq!(gap.kind, "waits_for_version");
    assert!(gap.text.contains("for v2"), "{}", gap.text);
}

#[test]
fn the_same_id_with_other_content_is_a_conflict() {
    let mut only = event(ORIGINAL, Role::Subject, "orders", 0);
    only.seen = vec![consumed(ORIGINAL, 900)];
    if let Some(row) = &mut only.seen[0].row {
        row.payload_sha256 = Some("b".repeat(64));
    }
    let story = Story::of(&facts(vec![only]));
    let [conflict] = story.conflicts.as_slice() else {
        panic!("{:?}", story.conflicts);
    };
    assert_eq!(conflict.kind, "same_id_other_content");
}

#[test]
fn an_event_and_its_repair_that_both_took_effect_are_a_conflict() {
    let mut facts = twice_replayed();
    facts.events[0].seen = vec![consumed(ORIGINAL, 7_000)];
    let story = Story::of(&facts);
    let kinds: Vec<&str> = story.conflicts.iter().map(|c| c.kind).collect();
    assert_eq!(kinds, ["dead_and_consumed", "effect_twice"]);
}

#[rstest]
// The consumer's clock is two seconds behind, and so is its time.
#[case::explained(-2_000_000, -1_500, 1, None)]
#[case::not_explained(0, -1_500, 0, Some("inbox_before_outbox"))]
#[case::in_order(0, 500, 0, None)]
fn an_order_that_only_skew_explains_is_said_to_be_so(
    #[case] skew_us: i64,
    #[case] processed_ms: i64,
    #[case] notes: usize,
    #[case] conflict: Option<&str>,
) {
    let mut only = event(ORIGINAL, Role::Subject, "orders", 0);
    only.seen = vec![consumed(ORIGINAL, processed_ms)];
    let mut facts = facts(vec![only]);
    facts.clocks[1].skew_us = Some(skew_us);
    let story = Story::of(&facts);
    assert_eq!(story.order_notes.len(), notes, "{:?}", story.order_notes);
    assert_eq!(story.conflicts.first().map(|c| c.kind), conflict);
    if notes == 1 {
        // On our clock the order is right.
        let told: Vec<What> = story.moments.iter().map(|moment| moment.what).collect();
        assert_eq!(told, [What::Committed, What::Confirmed, What::Consumed]);
        assert!(story.clocks[1].is_subtracted);
    }
}

#[test]
fn a_clock_that_could_not_be_asked_makes_no_conflict() {
    let mut only = event(ORIGINAL, Role::Subject, "orders", 0);
    only.seen = vec![consumed(ORIGINAL, -1_500)];
    let mut facts = facts(vec![only]);
    facts.clocks[1].skew_us = None;
    let story = Story::of(&facts);
    assert_eq!(story.conflicts, []);
    assert_eq!(story.order_notes.len(), 1);
}

/// Every field of the JSON form stands in its written description.
#[test]
fn x_02_the_shape_of_a_journey_is_written_down() {
    let mut facts = twice_replayed();
    facts.events[0].seen = vec![consumed(ORIGINAL, 7_000)];
    let story = serde_json::to_value(Story::of(&facts)).expect("JSON");
    let written = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/journeys.md"))
        .expect("readable");
    let mut missing = Vec::new();
    fields(&story, &mut |name| {
        if !written.contains(&format!("`{name}`")) && !missing.contains(&name.to_owned()) {
            missing.push(name.to_owned());
        }
    });
    assert_eq!(missing, Vec::<String>::new());
}

fn fields(value: &serde_json::Value, found: &mut impl FnMut(&str)) {
    match value {
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                found(name);
                fields(value, found);
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}
