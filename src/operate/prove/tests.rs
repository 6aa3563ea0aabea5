//! Every way an item can be moved on, or left alone.

use super::*;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::{ClaimToken, ConsumerName, DeadLetterId, EventId};
use crate::operate::preflight::tests::letter;

const NOW: i64 = 1_000_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(NOW + seconds * 1_000_000)
}

fn item(state: ItemState) -> OperationItem {
    OperationItem {
        no: 1,
        event_id: Some(EventId::new("e-1")),
        consumer: Some(ConsumerName::new("inventory")),
        dead_letter_id: Some(DeadLetterId::new("d-1")),
        state,
        token: ClaimToken::new("t-1"),
        lease_until: Some(at(30)),
        published_at: Some(at(0)),
        updated_at: at(0),
        evidence: None,
        deaths_before: 1,
        new_event_id: None,
    }
}

fn inbox_row() -> Look<InboxRow> {
    Look::Found(InboxRow {
        consumer: ConsumerName::new("inventory"),
        event_id: EventId::new("e-1"),
        processed_at: at(1),
        payload_sha256: None,
    })
}

fn decided(
    state: ItemState,
    seconds: i64,
    inbox: Look<InboxRow>,
    deaths: i64,
) -> Option<(ItemState, String)> {
    let mut letter = letter();
    letter.deaths = deaths;
    letter.status = DeadLetterStatus::Replaying;
    let evidence = Evidence {
        inbox,
        letter: Some(&letter),
        foreign_deaths: 0,
        now: at(seconds),
        proof_deadline: Duration::from_mins(1),
    };
    decide(&item(state), &evidence)
}

fn state(decision: Option<(ItemState, String)>) -> Option<ItemState> {
    decision.map(|(state, _)| state)
}

#[test]
fn a_published_item_is_consumed_when_the_inbox_row_appears() {
    let (to, why) =
        decided(ItemState::Published, 2, inbox_row(), 1).expect("the inbox row proves it");
    assert_eq!(to, ItemState::Consumed);
    assert!(why.starts_with("inbox row of inventory at "), "{why}");
}

#[test]
fn r_13_a_published_item_died_again_when_its_letter_has_one_more_death() {
    let (to, why) = decided(ItemState::Published, 2, Look::Absent, 2).expect("a death more");
    assert_eq!(to, ItemState::DiedAgain);
    assert!(why.contains("missing field `sku`"), "{why}");
    assert_eq!(decided(ItemState::Published, 2, Look::Absent, 1), None);
}

#[test]
fn a_published_item_is_unknown_only_after_its_deadline_and_still_resolves() {
    assert_eq!(decided(ItemState::Published, 59, Look::Absent, 1), None);
    assert_eq!(
        state(decided(ItemState::Published, 60, Look::Absent, 1)),
        Some(ItemState::Unknown)
    );
    assert_eq!(decided(ItemState::Unknown, 9_999, Look::Absent, 1), None);
    assert_eq!(
        state(decided(ItemState::Unknown, 9_999, inbox_row(), 1)),
        Some(ItemState::Consumed)
    );
    assert_eq!(
        state(decided(ItemState::Unknown, 9_999, Look::Absent, 2)),
        Some(ItemState::DiedAgain)
    );
}

#[test]
fn an_inbox_that_cannot_be_read_proves_nothing() {
    let unread = || Look::Unread("database of inventory is not reachable".to_owned());
    assert_eq!(decided(ItemState::Published, 10, unread(), 1), None);
    let (to, why) = decided(ItemState::Published, 61, unread(), 1).expect("overdue");
    assert_eq!(to, ItemState::Unknown);
    assert!(why.contains("not reachable"), "{why}");
}

#[test]
fn r_05_a_console_that_died_is_told_by_its_lease() {
    // Alive: nobody touches its item.
    assert_eq!(decided(ItemState::Reserved, 29, Look::Absent, 1), None);
    assert_eq!(decided(ItemState::Publishing, 29, inbox_row(), 1), None);
    // Dead before the publish: certainly not sent, the letter opens again.
    let (to, why) = decided(ItemState::Reserved, 31, Look::Absent, 1).expect("abandoned");
    assert_eq!(to, ItemState::Refused);
    assert!(why.starts_with("never sent"), "{why}");
    // Dead between publish and completion: nobody knows, and nothing is sent again.
    let (to, why) = decided(ItemState::Publishing, 31, Look::Absent, 1).expect("abandoned");
    assert_eq!(to, ItemState::Unknown);
    assert!(why.contains("may have been sent"), "{why}");
    // Unless the inbox or the next death already tells.
    assert_eq!(
        state(decided(ItemState::Publishing, 31, inbox_row(), 1)),
        Some(ItemState::Consumed)
    );
    assert_eq!(
        state(decided(ItemState::Publishing, 31, Look::Absent, 2)),
        Some(ItemState::DiedAgain)
    );
}

#[test]
fn a_final_item_stays_and_every_step_is_a_legal_one() {
    for from in ItemState::ALL {
        for (seconds, inbox, deaths) in [
            (31, Look::Absent, 1),
            (99, Look::Absent, 1),
            (99, Look::Absent, 2),
            (99, inbox_row(), 1),
        ] {
            if let Some((to, _)) = decided(from, seconds, inbox, deaths) {
                assert!(!from.is_final(), "{from:?} moved");
                assert!(from.may_become(to), "{from:?} -> {to:?}");
            }
        }
    }
}
