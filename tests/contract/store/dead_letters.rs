//! Dead letters: what is kept, what counts as another death, what is found again.

use std::collections::BTreeSet;

use redrive::base::clock::{Clock, Timestamp};
use redrive::model::count::Count;
use redrive::model::dead_letter::{
    DeadLetterQuery, DeadLetterStatus, DeathRecorded, NewDeath, fingerprint_without_id,
};
use redrive::model::ids::{DeadLetterId, EventId};
use redrive::model::message::{FieldTable, FieldValue, Message, Payload, Properties};
use redrive::model::operation::Verb;
use redrive::store::Guarded;

use super::fixture::{Fixture, audit, death, message, operation};

fn every_type() -> FieldTable {
    [
        ("b", FieldValue::I8(-5)),
        ("l", FieldValue::I64(i64::MIN / 2)),
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
        ("nul", FieldValue::text("a\0b 🧾 👩‍💻")),
        ("V", FieldValue::Void),
        (
            "A",
            FieldValue::Array(vec![FieldValue::I32(1), FieldValue::Void]),
        ),
        ("F", FieldValue::Table(FieldTable::new())),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

pub async fn p_01_p_04_p_07_bytes_and_headers_come_back_as_they_were(f: &Fixture) {
    let bodies: Vec<Vec<u8>> = vec![
        b"\x00\xff\x80\xfe\xc3\x28\n\r\x1b\xc0\xaf\xed\xa0\x80\xe2\x80\x00".to_vec(),
        b"{\"name\":\"caf\xe9\"}".to_vec(),
        br#"{"note":"a\u0000b"}"#.to_vec(),
        br#"{"s":"\ud800"}"#.to_vec(),
        vec![b'x'; 65_535],
        vec![b'x'; 65_536],
        vec![b'x'; 1_048_577],
        Vec::new(),
    ];
    for (n, body) in bodies.into_iter().enumerate() {
        let whole = Message {
            properties: Properties {
                content_type: Some("application/vnd.acme.order+json;v=2".into()),
                content_encoding: Some("gzip".into()),
                headers: every_type(),
                delivery_mode: Some(1),
                priority: Some(7),
                correlation_id: Some("corr-77".into()),
                reply_to: Some("replies".into()),
                expiration: Some("60000".into()),
                message_id: Some(format!("m-{n}")),
                timestamp: Some(u64::MAX),
                kind: Some("order.placed".into()),
                user_id: Some("orders-svc".into()),
                app_id: Some("shop-web".into()),
                cluster_id: Some("c".into()),
            },
            payload: Payload::new(body),
        };
        let died = NewDeath {
            message: whole.clone(),
            error_summary: Some("a\0b \u{1b}[31m 👩‍💻".repeat(200)),
            message_at: Some(Timestamp::from_micros(i64::MAX)),
            ..death(&format!("m-{n}"))
        };
        let id = match f.store.record_death(&died).await {
            Ok(DeathRecorded::New(id)) => id,
            other => panic!("body {n}: {other:?}"),
        };
        let stored = f.detail(&id).await;
        assert_eq!(stored.message, whole, "body {n}");
        assert_eq!(stored.letter.payload_sha256, whole.payload.sha256());
        assert_eq!(
            usize::try_from(stored.letter.payload_bytes),
            Ok(whole.payload.bytes().len())
        );
        assert_eq!(stored.letter.message_at, None, "year 294247 is not a time");
    }
}

pub async fn r_13_the_next_death_reopens_the_letter(f: &Fixture) {
    let id = f.bury("e-1").await;
    let annotated = operation(Verb::Replay);
    f.store
        .annotate_dead_letter(
            &id,
            Some("mia"),
            Some("rollout 4.2?"),
            &audit(&annotated, "note"),
        )
        .await
        .expect("annotates");
    let closing = operation(Verb::Discard);
    let reservation = f.reservation(&id).await;
    f.store
        .close_dead_letter(&closing, &reservation, false, &audit(&closing, "outcome"))
        .await
        .expect("closes");
    // The same bytes and the same x-death count: still another death, because the broker says it had
    // not delivered it before.
    let again = NewDeath {
        error_class: "lock wait timeout".into(),
        message: message(b"newer"),
        ..death("e-1")
    };
    assert_eq!(
        f.store.record_death(&again).await,
        Ok(DeathRecorded::Again {
            dead_letter_id: id.clone(),
            deaths: 2
        })
    );
    let detail = f.detail(&id).await;
    assert_eq!(detail.letter.status, DeadLetterStatus::Open);
    assert_eq!(detail.letter.deaths, 2);
    assert_eq!(detail.letter.error_class, "lock wait timeout");
    assert_eq!(detail.letter.note.as_deref(), Some("rollout 4.2?"));
    assert_eq!(detail.letter.owner.as_deref(), Some("mia"));
    assert_eq!(detail.letter.operation_id, None);
    assert_eq!(detail.message.payload.bytes(), b"newer");
    let numbers: Vec<_> = detail.deaths.iter().map(|d| d.no).collect();
    assert_eq!(numbers, [2, 1]);
    assert!(detail.letter.version > reservation.version);
}

pub async fn b_14_a_redelivery_is_the_same_death(f: &Fixture) {
    let id = f.bury("e-1").await;
    let redelivered = NewDeath {
        redelivered: true,
        ..death("e-1")
    };
    assert_eq!(
        f.store.record_death(&redelivered).await,
        Ok(DeathRecorded::SameDelivery(id.clone()))
    );
    // Redelivered, but never recorded: the next death after a replay.
    let next = NewDeath {
        fingerprint: "another".into(),
        ..redelivered
    };
    assert!(matches!(
        f.store.record_death(&next).await,
        Ok(DeathRecorded::Again { deaths: 2, .. })
    ));
}

/// A message without an id, first delivered or again, over a subscription.
fn anonymous(subscription: &str, redelivered: bool) -> NewDeath {
    NewDeath {
        event_id: None,
        fingerprint: fingerprint_without_id(&"d".repeat(64), subscription),
        redelivered,
        ..death("none")
    }
}

pub async fn b_14_a_redelivered_message_without_id_is_the_one_that_was_left_behind(f: &Fixture) {
    let record = async |subscription: &str, redelivered: bool| {
        f.store
            .record_death(&anonymous(subscription, redelivered))
            .await
            .expect("records")
    };
    let DeathRecorded::New(first) = record("one", false).await else {
        panic!("a new letter")
    };
    // The subscription is lost before its acknowledgement; a twin had been delivered and not stored.
    assert_eq!(
        record("two", true).await,
        DeathRecorded::SameDelivery(first.clone())
    );
    let DeathRecorded::New(second) = record("two", true).await else {
        panic!("the twin is another message")
    };
    // Lost again: both are there, and no third.
    let mut again = Vec::new();
    for _ in 0..2 {
        match record("three", true).await {
            DeathRecorded::SameDelivery(id) => again.push(id),
            other => panic!("a row that was left behind: {other:?}"),
        }
    }
    again.sort();
    let mut both = vec![first, second];
    both.sort();
    assert_eq!(again, both);
    // Acknowledged, the rows belong to nobody: whatever comes again is another message.
    let settled = [anonymous("three", true).fingerprint];
    assert_eq!(f.store.settle_deaths(&settled).await, Ok(2));
    assert_eq!(f.store.settle_deaths(&settled).await, Ok(0));
    assert!(matches!(record("four", true).await, DeathRecorded::New(_)));
    assert_eq!(letters(f, &query(DeadLetterStatus::Open)).await.len(), 3);
}

pub async fn b_14_two_identical_messages_without_id_are_two_letters(f: &Fixture) {
    let anonymous = NewDeath {
        event_id: None,
        ..death("none")
    };
    for _ in 0..2 {
        assert!(matches!(
            f.store.record_death(&anonymous).await,
            Ok(DeathRecorded::New(_))
        ));
    }
    assert_eq!(letters(f, &query(DeadLetterStatus::Open)).await.len(), 2);
}

pub async fn n_05_long_names_and_odd_texts_fit(f: &Fixture) {
    let name = format!("{}x", "é".repeat(127));
    assert_eq!(name.len(), 255);
    let odd = NewDeath {
        failed_queue: Some(name.clone()),
        dead_letter_queue: name.clone(),
        source_exchange: Some(name.clone()),
        source_routing_key: Some("🧾".repeat(63)),
        reason: Some(name.clone()),
        error_class: "x".repeat(4000),
        event_type: Some("注文🧾".repeat(40)),
        aggregate_id: Some("🧾".repeat(100).as_str().into()),
        producer_version: Some("v".repeat(1000)),
        owner: Some("o".repeat(1000)),
        died_at: Timestamp::from_micros(i64::MAX),
        operation_id: Some("not one of ours, and far too long for the column it goes to".into()),
        fingerprint: "f".repeat(500),
        ..death(&name)
    };
    let Ok(DeathRecorded::New(id)) = f.store.record_death(&odd).await else {
        panic!("is stored")
    };
    let letter = f.detail(&id).await.letter;
    assert_eq!(letter.failed_queue, Some(name.clone()));
    assert_eq!(letter.dead_letter_queue, name);
    assert_eq!(
        letter.event_id.as_ref().map(EventId::as_str),
        Some(name.as_str())
    );
}

pub async fn groups_name_their_cause(f: &Fixture) {
    for id in ["e-1", "e-2", "e-3"] {
        f.bury(id).await;
    }
    let other = NewDeath {
        error_class: "lock wait timeout".into(),
        owner: Some("mia".into()),
        event_type: None,
        ..death("e-4")
    };
    f.store.record_death(&other).await.expect("records");
    let groups = f.store.dead_letter_groups().await.expect("groups");
    assert_eq!(groups.open, Some(Count::Exact(4)));
    assert_eq!(groups.replaying, Some(Count::Exact(0)));
    assert_eq!(groups.deaths_last_minute, Some(Count::Exact(4)));
    assert!(groups.oldest_open_s.is_some_and(|s| s < 60.0));
    assert!(!groups.truncated);
    let [first, second] = groups.groups.as_slice() else {
        panic!("two causes: {groups:?}")
    };
    assert_eq!(
        (first.count, first.error_class.as_str()),
        (3, "decode: missing field sku")
    );
    assert_eq!(first.owner, None);
    assert_eq!((second.count, second.owner.as_deref()), (1, Some("mia")));
    assert_eq!(second.event_type, None);
    let capped = f.with(|_, thresholds| thresholds.count_cap = 2);
    let groups = capped.dead_letter_groups().await.expect("groups");
    assert_eq!(groups.open, Some(Count::AtLeast(2)));
    assert!(groups.truncated);
    capped.close().await;
}

fn query(status: DeadLetterStatus) -> DeadLetterQuery {
    DeadLetterQuery {
        status,
        consumer: None,
        event_type: None,
        error_class: None,
        after: None,
        limit: 3,
    }
}

async fn letters(f: &Fixture, query: &DeadLetterQuery) -> Vec<DeadLetterId> {
    let mut query = query.clone();
    let mut found = Vec::new();
    loop {
        let page = f.store.dead_letter_page(&query).await.expect("pages");
        found.extend(page.rows.into_iter().map(|letter| letter.dead_letter_id));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return found,
        }
    }
}

pub async fn pages_and_filters_find_every_letter(f: &Fixture) {
    let at = Clock::System.now();
    for n in 0..70 {
        let died = NewDeath {
            // Many at the same instant.
            died_at: Timestamp::from_micros(at.micros() + n / 10),
            event_type: (n % 35 != 0).then(|| "order.created".to_owned()),
            error_class: if n % 2 == 0 { "even" } else { "odd" }.into(),
            aggregate_id: (n == 1).then(|| "order-7".into()),
            ..death(&format!("e-{n:02}"))
        };
        f.store.record_death(&died).await.expect("records");
    }
    let all = letters(f, &query(DeadLetterStatus::Open)).await;
    let unique: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!((all.len(), unique.len()), (70, 70));
    let mut even = query(DeadLetterStatus::Open);
    even.error_class = Some("even".into());
    even.consumer = Some("inventory".into());
    assert_eq!(letters(f, &even).await.len(), 35);
    let mut untyped = query(DeadLetterStatus::Open);
    untyped.event_type = Some(None);
    assert_eq!(letters(f, &untyped).await.len(), 2);
    assert!(
        letters(f, &query(DeadLetterStatus::Discarded))
            .await
            .is_empty()
    );
    let of_event = f.store.dead_letters_of_event(&"e-07".into()).await;
    assert_eq!(of_event.expect("reads").len(), 1);
    let of_aggregate = f.store.dead_letters_of_aggregate(&"order-7".into()).await;
    assert_eq!(of_aggregate.expect("reads").len(), 1);
}

pub async fn owner_and_note_are_set_and_cleared(f: &Fixture) {
    let id = f.bury("e-1").await;
    let record = audit(&operation(Verb::Replay), "note");
    let set = async |owner: Option<&str>, note: Option<&str>| {
        f.store
            .annotate_dead_letter(&id, owner, note, &record)
            .await
    };
    assert_eq!(set(Some("mia"), Some("look")).await, Ok(Guarded::Done));
    assert_eq!(set(None, Some("")).await, Ok(Guarded::Done));
    let letter = f.detail(&id).await.letter;
    assert_eq!((letter.owner.as_deref(), letter.note), (Some("mia"), None));
    let missing = f
        .store
        .annotate_dead_letter(&"missing".into(), Some("x"), None, &record)
        .await;
    assert_eq!(missing, Ok(Guarded::LostRace));
    assert_eq!(f.store.audit_verify().await, Ok(Ok(2)));
}
