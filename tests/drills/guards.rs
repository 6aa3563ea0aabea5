//! Every guard is taken away once: a drill must fail and name the damage. The switches exist in test
//! builds only (`base::crash`).

use super::arena::{Answer, Arena, redrive};

/// The drill fails without the guard, and says `damage`.
fn is_red(answer: &Answer, drill: u64, guard: &str, damage: &str) {
    let report = answer.drill(drill);
    let found = answer.damage(drill);
    assert_eq!(
        report["verdict"],
        "failed",
        "{guard}: {found}\n{}",
        answer.steps(drill)
    );
    assert_eq!(answer.code, 3, "{guard}");
    assert!(
        found.contains(damage),
        "{guard}: does not say {damage:?}, but {found}\n{}",
        answer.steps(drill)
    );
}

async fn embedded(drill: u64, guard: &str, damage: &str) {
    let number = drill.to_string();
    let arguments = ["drill", "run", &number, "--embedded"];
    let answer = redrive(&arguments, &format!("{guard}=return(off)")).await;
    is_red(&answer, drill, guard, damage);
}

async fn real(drill: u64, guard: &str, damage: &str) {
    let arena = Arena::open().await;
    let answer = arena
        .drill(&[&drill.to_string()], &format!("{guard}=return(off)"))
        .await;
    arena.close().await;
    is_red(&answer, drill, guard, damage);
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_without_the_token_in_the_completion_a_overwrites_what_b_holds() {
    let damage = "rows that B holds were left alone by A";
    embedded(7, "guard.completion_token", damage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g02_without_the_time_guard_the_reaper_takes_rows_of_the_living() {
    let damage = "rows taken back before the lease ran out";
    embedded(7, "guard.reap_time", damage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g03_without_the_inbox_a_second_delivery_is_done_again() {
    embedded(11, "guard.consumer_inbox", "reservations told").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g04_acknowledged_before_the_commit_a_killed_consumer_loses_the_event() {
    let damage = "the message is back in the queue";
    embedded(4, "guard.consumer_ack_order", damage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g05_with_the_inbox_row_outside_the_transaction_the_effect_is_lost() {
    let damage = "inbox rows after the kill";
    real(4, "guard.inbox_transaction", damage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g06_without_mandatory_an_event_without_a_queue_counts_as_sent() {
    let damage = "the event that nobody heard is not marked sent";
    embedded(19, "guard.mandatory", damage).await;
    real(19, "guard.mandatory", damage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g07_marked_before_its_confirm_an_event_that_never_left_is_lost() {
    let damage = "rows marked, of two whose confirm was heard";
    real(9, "guard.sent_after_confirm", damage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g08_without_the_version_guard_what_came_early_is_done_early() {
    let damage = "what came early waits, and names what is missing";
    embedded(8, "guard.consumer_version", damage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g09_without_a_question_a_charged_order_is_cancelled_blindly() {
    embedded(15, "guard.saga_query", "orders confirmed").await;
}
