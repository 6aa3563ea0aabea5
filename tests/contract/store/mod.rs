//! What every database must do behind the store port, run on SQLite, MariaDB and, where there is one,
//! MySQL. A missing server fails; nothing is skipped in silence.

mod archive;
mod compact;
mod dead_letters;
mod faults;
pub mod fixture;
mod gate;
mod inbox;
mod journal;
mod numbers;
mod outbox;
mod sagas;
mod scans;
mod sequence;
mod sessions;
mod trace;
mod trouble;
mod waiting;

use std::future::Future;
use std::pin::Pin;

use fixture::Fixture;

/// A case borrows its database.
type Case = for<'a> fn(&'a Fixture) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

async fn run(fixture: Option<Fixture>, case: Case) {
    if let Some(fixture) = fixture {
        case(&fixture).await;
        fixture.drop_database().await;
    }
}

/// One test a case and database.
macro_rules! cases {
    ($($module:ident::$case:ident,)+) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::run(
                    Some(super::Fixture::sqlite().await),
                    |fixture| Box::pin(super::$module::$case(fixture)),
                ).await;
            })+
        }
        mod mariadb {
            $(#[tokio::test]
            async fn $case() {
                super::run(
                    Some(super::Fixture::mariadb().await),
                    |fixture| Box::pin(super::$module::$case(fixture)),
                ).await;
            })+
        }
        mod mysql {
            $(#[tokio::test]
            async fn $case() {
                super::run(
                    super::Fixture::mysql().await,
                    |fixture| Box::pin(super::$module::$case(fixture)),
                ).await;
            })+
        }
    };
}

cases! {
    outbox::events_go_from_pending_to_sent_with_their_bytes,
    outbox::a_claim_is_fenced_by_its_token,
    outbox::two_claimers_share_the_backlog,
    outbox::an_expired_lease_is_claimed_again_after_the_reaper,
    outbox::two_reapers_and_a_late_completion_share_the_expired_rows,
    outbox::a_row_that_cannot_be_read_is_claimed_beside_the_others,
    outbox::a_sequence_is_claimed_from_its_head,
    outbox::a_failed_head_holds_only_its_own_sequence,
    sequence::a_sequence_committed_while_a_claim_passes_goes_out_in_order,
    outbox::a_renewed_lease_is_not_expired,
    outbox::rows_given_back_are_untried,
    outbox::p_13_failed_attempts_keep_their_reason,
    outbox::a_released_claim_is_pending_only_after_its_lease,
    outbox::pages_are_stable_at_any_depth,
    outbox::a_page_of_one_type_is_bounded_and_goes_on,
    outbox::counts_stop_at_their_cap,
    outbox::an_aggregate_is_read_in_order_and_a_prefix_finds_its_event,
    outbox::without_its_index_a_question_is_not_answered,
    outbox::q_01_a_claim_does_not_block_inserts,
    outbox::q_10_a_row_committed_late_is_still_claimed,
    outbox::big_batches_are_completed_whole,
    faults::q_02_a_deadlock_is_repeated_and_nothing_else_is,
    faults::q_02_a_mark_that_meets_locks_is_repeated_and_nothing_is_sent_twice,
    faults::q_20_what_could_not_be_marked_in_time_is_marked_later_and_not_sent_again,
    faults::q_20_what_can_be_neither_marked_nor_parked_is_marked_later_and_not_sent_again,
    faults::q_18_what_is_wrong_with_the_database_is_said_and_mended_by_itself,
    faults::q_21_a_clean_up_in_batches_does_not_lock_the_relay_out,
    faults::a_hundred_held_rows_cost_one_claim_and_are_not_met_again,
    inbox::the_second_delivery_is_a_duplicate_and_other_content_a_conflict,
    inbox::a_rollback_or_a_drop_leaves_nothing,
    inbox::q_02_a_transaction_that_lost_to_a_deadlock_commits_nothing_more,
    inbox::recent_rows_are_counted_in_their_window,
    inbox::q_20_a_text_no_column_takes_is_the_events_own_fault,
    waiting::a_sequence_moves_on_under_its_lock,
    waiting::two_that_begin_a_sequence_do_not_both_win,
    waiting::an_event_waits_whole_and_once,
    waiting::an_event_whose_turn_has_come_is_found,
    waiting::an_unreadable_waiting_row_stands_beside_the_others,
    waiting::i_03_the_deadline_is_counted_from_the_last_attempt,
    waiting::an_overdue_event_is_given_up_by_one_worker_at_a_time,
    archive::i_01_old_rows_leave_the_inbox_oldest_first_and_the_horizon_follows,
    archive::a_row_archived_twice_keeps_its_later_time_and_the_horizon_never_goes_back,
    archive::without_an_archive_nothing_is_kept_but_the_horizon,
    archive::an_inbox_that_is_the_services_own_table_is_not_touched,
    archive::the_oldest_letter_that_waits_for_somebody_is_known,
    archive::q_21_cleaning_up_does_not_lock_out_the_relay,
    dead_letters::p_01_p_04_p_07_bytes_and_headers_come_back_as_they_were,
    dead_letters::r_13_the_next_death_reopens_the_letter,
    dead_letters::b_14_a_redelivery_is_the_same_death,
    dead_letters::b_14_a_redelivered_message_without_id_is_the_one_that_was_left_behind,
    dead_letters::b_14_two_identical_messages_without_id_are_two_letters,
    dead_letters::n_05_long_names_and_odd_texts_fit,
    dead_letters::groups_name_their_cause,
    dead_letters::pages_and_filters_find_every_letter,
    dead_letters::owner_and_note_are_set_and_cleared,
    journal::an_operation_is_reserved_published_and_proven,
    journal::r_01_a_second_replay_is_told_who_holds_it,
    journal::a_changed_letter_is_drifted_and_a_closed_one_closed,
    journal::steps_are_fenced_and_illegal_ones_refused,
    journal::an_unroutable_replay_opens_the_letter_again,
    journal::r_13_a_death_after_a_replay_ends_its_item,
    journal::an_unknown_outcome_holds_the_letter_until_it_is_given_up,
    journal::a_repair_is_whole_or_not_at_all,
    journal::a_discarded_letter_stays_closed_until_it_dies_again,
    journal::a_failed_outbox_row_goes_back_to_pending_once,
    journal::the_audit_chain_verifies_and_finds_tampering,
    journal::operations_are_listed_newest_first_and_unfinished_ones_found,
    numbers::what_is_counted_at_once_is_what_each_part_says,
    numbers::a_part_a_service_does_not_have_is_not_counted,
    numbers::where_nothing_can_wait_the_rest_is_counted,
    numbers::any_other_table_that_is_missing_is_told,
    compact::the_small_layout_claims_completes_and_replays,
    compact::the_small_layout_says_what_it_cannot,
    compact::the_small_inbox_knows_its_duplicates,
    sessions::q_06_sessions_are_utc_whatever_the_server_says,
    sessions::q_08_no_named_time_zone_is_needed,
    sessions::p_07_sessions_are_strict,
    sessions::a_read_only_store_never_writes,
    sessions::migrations_are_idempotent_and_renamed_tables_work,
    sessions::check_finds_what_is_missing,
    sessions::q_15_dropped_calls_leave_no_transaction_open,
    sessions::more_callers_than_sessions_all_get_one,
    sessions::sagas_that_need_attention_come_first,
    sagas::a_saga_starts_once_and_reads_back,
    sagas::a_move_is_guarded_by_its_version_and_writes_what_changed,
    sagas::a_claim_takes_the_longest_due_and_its_token_fences,
    sagas::s_04_a_saga_put_off_is_listed_and_holds_up_no_other,
    sagas::a_claim_whose_lease_is_over_is_due_again,
    sagas::a_person_s_action_is_one_audited_transaction,
    sagas::two_movers_of_one_saga_wait_for_each_other,
    sagas::sagas_come_list_after_list_and_within_the_limit,
    sagas::a_saga_that_moves_from_list_to_list_is_in_every_look,
    sagas::an_effect_whose_row_was_written_meanwhile_is_tried_again,
    trace::an_aggregate_is_read_with_its_causes,
    trace::inbox_rows_and_waiting_events_are_found_by_their_ids,
    trace::what_was_done_with_an_event_is_found,
    trace::without_the_index_a_journal_is_not_walked,
    trace::sagas_are_found_by_event_and_by_key,
    scans::a_scan_moves_on_by_its_token_alone,
    scans::a_difference_is_one_finding,
    scans::a_finding_that_another_scan_saw_meanwhile_stays,
    scans::a_finding_older_than_the_look_stays,
    scans::walks_reach_every_row_once,
    scans::rows_are_found_by_id,
    scans::a_rule_reads_and_nothing_else,
    sagas::a_migration_that_stopped_half_way_is_run_again,
    sessions::a_missing_table_is_named,
    trouble::rows_are_grouped_by_what_went_wrong,
    trouble::what_was_sent_is_followed_to_its_consumer,
    trouble::who_holds_locks_is_seen_or_the_missing_right_named,
    sessions::q_14_the_oldest_open_transaction_is_told_or_not_known,
    sessions::q_18_a_resting_session_that_was_killed_is_replaced,
    sessions::a_row_that_cannot_fit_is_refused_and_the_session_lives,
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable_and_no_secret_is_told() {
    sessions::a_server_that_is_not_there_is_unreachable().await;
}
