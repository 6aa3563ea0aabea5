//! The table of crash windows on a real database and a real broker, one test a window.

use super::arena::Arena;
use super::node::{Node, Wanted};

async fn passes(number: u64) {
    passes_in(number, Arena::open().await).await;
}

async fn passes_in(number: u64, arena: Arena) {
    let answer = arena.drill(&[&number.to_string()], "").await;
    arena.close().await;
    let report = answer.drill(number);
    assert_eq!(
        report["verdict"],
        "passed",
        "{}\n{}\n{}",
        answer.damage(number),
        answer.steps(number),
        answer.stderr
    );
    assert_eq!(answer.code, 0, "{answer:#?}");
    assert_eq!(report["place"], "real");
    assert_eq!(report["rpo_rows"], 0, "nothing is lost");
    assert!(
        report["rto_s"].is_number(),
        "recovery was measured: {report:#}"
    );
    for record in ["before", "after"] {
        assert!(
            report[record]["event_ids"].is_array(),
            "{record}: {report:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w01_thrown_after_the_order_insert_neither_order_nor_event_exists() {
    passes(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w02_dispatcher_started_later_the_original_event_arrives() {
    passes(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w03_killed_after_the_confirm_delivered_again_and_reserved_once() {
    passes(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w04_consumer_fails_before_its_commit_rolled_back_together_then_done_once() {
    passes(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w05_channel_closed_after_the_commit_redelivered_without_a_second_effect() {
    passes(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w06_same_event_on_two_connections_one_effect_and_one_inbox_row() {
    passes(6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w07_q_04_paused_past_its_lease_a_cannot_overwrite_b() {
    passes(7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w08_cancelled_before_created_stays_cancelled_and_a_gap_leaves_a_record() {
    passes(8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w09_killed_before_the_confirm_the_row_stays_or_is_sent_again() {
    passes(9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w11_consumer_killed_before_the_ack_redelivered_with_one_effect() {
    passes(11).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w12_duplicates_and_shuffled_order_guards_hold() {
    passes(12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w19_an_event_no_queue_takes_is_not_marked_sent() {
    passes(19).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w13_a_stream_of_invalid_messages_dies_and_healthy_traffic_goes_on() {
    passes(13).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w14_a_backlog_is_seen_and_a_second_consumer_shortens_it() {
    passes(14).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w15_a_payment_without_an_answer_is_asked_about_not_cancelled_blindly() {
    passes(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w16_a_compensation_that_fails_is_retried_then_handed_over_and_not_forgotten() {
    passes(16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w17_database_gone_for_30_s_under_load_no_loss_no_double_no_hot_loop() {
    passes(17).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w18_b_06_broker_blocked_by_a_memory_alarm_nothing_is_claimed_in_vain() {
    let node = Node::start().await;
    passes_in(18, Arena::on(&node, false).await).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w10_a_node_killed_with_messages_on_quorum_queues_the_others_serve_them() {
    let node = Node::start_with(Wanted {
        nodes: 3,
        ..Wanted::NODE
    })
    .await;
    passes_in(10, Arena::on(&node, true).await).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_control_program_a_drill_says_what_is_missing_and_is_not_run() {
    let arena = Arena::open().await;
    let answer = arena.drill(&["18"], "").await;
    arena.close().await;
    let report = answer.drill(18);
    assert_eq!(
        (report["verdict"].as_str(), answer.code),
        (Some("not_run"), 5)
    );
    let reason = report["reason"].as_str().expect("a reason");
    assert!(reason.contains("[contexts.shop.drill] control"), "{reason}");
}
