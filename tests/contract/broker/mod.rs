//! What every broker must do. `cases` runs on both; `rabbitmq` on the real one alone.

mod alarm;
pub mod arena;
mod cases;
mod leader_lost;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../../support/node.rs"]
mod node;
mod rabbitmq;
mod silence;

use arena::Arena;

/// Makes a test of every case for both brokers.
macro_rules! contract {
    ($($case:ident),+ $(,)?) => {
        mod on_rabbitmq {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::Arena::rabbitmq(stringify!($case)).await.run(super::cases::$case).await;
            })+
        }
        mod on_embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::Arena::embedded().run(super::cases::$case).await;
            })+
        }
    };
}

contract! {
    a_confirmed_message_is_in_its_queue,
    nothing_to_publish_is_no_outcome,
    outcomes_keep_the_order_of_their_messages,
    b_01_a_message_nobody_listens_to_is_returned,
    b_01_a_message_to_a_queue_that_does_not_exist_is_returned,
    b_01_returns_among_a_thousand_meet_their_own_messages,
    b_03_a_missing_exchange_costs_its_own_message_only,
    b_04_a_full_queue_refuses_each_message,
    a_thousand_messages_are_confirmed_and_keep_their_order,
    unacknowledged_messages_come_back_as_redelivered,
    acknowledging_up_to_a_tag_leaves_the_rest,
    a_requeued_message_comes_again,
    prefetch_bounds_what_is_out,
    h_03_a_rejected_message_carries_a_typed_history,
    h_03_a_second_death_is_counted,
    h_03_without_the_history_a_new_one_begins,
    h_05_an_expired_message_loses_its_expiration,
    h_12_a_message_comes_back_from_its_retry_queue_as_often_as_it_is_sent_there,
    b_10_a_delivery_limit_ends_a_requeue_loop,
    h_02_a_carbon_copy_reaches_its_queue,
    h_02_a_carbon_copy_header_survives_a_death_without_its_own_key,
    h_06_every_property_and_header_type_arrives_as_it_was,
    h_06_a_message_without_properties_stays_without,
    p_01_payload_bytes_arrive_as_they_were,
    n_01_n_05_n_07_odd_names_name_their_own_queue,
    the_depth_of_an_unknown_queue_is_no_depth,
    declaring_twice_changes_nothing,
    r_03_bindings_tell_who_else_would_get_a_message,
    queues_come_in_pages_by_name,
    a_subscription_to_a_missing_queue_is_refused,
}
