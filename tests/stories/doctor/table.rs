//! Which fault every rule and every crash window is shown with: what is done, what the doctor has to say
//! first, what may stand beside it, and how it is over.

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use redrive::diagnose::Window;
use redrive::diagnose::Window::{
    AckLost, BeforeClaim, BeforeCommit, BeforeSend, BeforeSentMark, ConfirmLost, KeepsFailing,
    NotConsumed,
};

use super::super::shop::{DLQ, QUEUE};
use super::stage::Stage;
use super::{delivery, outbox, people, sight};

/// Something that is done to a stage. When it returns the fact stands where it is read from: in the tables, in the queue, or in
/// the broker's statistics.
pub type Step = for<'a> fn(&'a mut Stage) -> LocalBoxFuture<'a, ()>;

/// Where a row is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the servers all tests share.
    Shared,
    /// On a cluster of three nodes and a database of its own, which it may starve and kill.
    Own,
}

/// What the doctor says.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// One verdict before all others.
    First {
        /// Rule.
        id: &'static str,
        /// Its subject.
        subject: &'static str,
        /// The window it names.
        window: Option<Window>,
        /// Rules that may stand beside it: what the same fault breaks as well.
        beside: &'static [&'static str],
        /// Verdicts it has to name as its consequences.
        follow: &'static [&'static str],
        /// Exit code.
        code: i32,
    },
    /// Nothing, by design: this is why.
    Nothing(&'static str),
}

/// One fault.
pub struct Row {
    /// What happens, in words; where rows are written instead of a server being broken, that too.
    pub fault: &'static str,
    /// The crash window it strikes in.
    pub strikes: Option<Window>,
    /// Where.
    pub place: Place,
    /// What is said of it.
    pub told: Told,
    /// Makes it.
    pub inject: Step,
    /// Ends it.
    pub recover: Step,
}

/// Wrong, exit code 3.
const fn wrong(
    id: &'static str,
    subject: &'static str,
    window: Option<Window>,
    beside: &'static [&'static str],
) -> Told {
    Told::First {
        id,
        subject,
        window,
        beside,
        follow: &[],
        code: 3,
    }
}

/// Could not look, exit code 5.
const fn unseen(id: &'static str, subject: &'static str, beside: &'static [&'static str]) -> Told {
    Told::First {
        id,
        subject,
        window: None,
        beside,
        follow: &[],
        code: 5,
    }
}

/// Every fault. Each window of the table of crash windows and each rule of `redrive doctor --list` is in it.
pub const ROWS: &[Row] = &[
    // ---- between the business transaction and the broker ---------------------------------------------
    Row {
        fault: "the session of the business transaction is killed before its commit",
        strikes: Some(BeforeCommit),
        place: Place::Shared,
        told: Told::Nothing(
            "neither order nor event exists; the client's retry under its key makes both",
        ),
        inject: |stage| outbox::thrown_before_the_commit(stage).boxed_local(),
        recover: |stage| outbox::the_client_asks_again(stage).boxed_local(),
    },
    Row {
        fault: "no dispatcher runs",
        strikes: Some(BeforeClaim),
        place: Place::Shared,
        told: wrong("dispatcher_not_claiming", "orders", Some(BeforeClaim), &[]),
        inject: |stage| outbox::nobody_claims(stage).boxed_local(),
        recover: |stage| outbox::the_pipeline_goes_on(stage).boxed_local(),
    },
    Row {
        fault: "a dispatcher that needs a second for each order, and two minutes of orders",
        strikes: Some(BeforeClaim),
        place: Place::Shared,
        told: wrong("dispatcher_behind", "orders", Some(BeforeClaim), &[]),
        inject: |stage| outbox::a_dispatcher_is_too_slow(stage).boxed_local(),
        recover: |stage| outbox::the_hanging_dispatcher_ends(stage).boxed_local(),
    },
    Row {
        fault: "a transaction that holds the rows and is left open",
        strikes: Some(BeforeClaim),
        place: Place::Shared,
        told: wrong("locks_held", "orders", Some(BeforeClaim), &[]),
        inject: |stage| outbox::rows_are_locked(stage).boxed_local(),
        recover: |stage| outbox::the_holder_rolls_back(stage).boxed_local(),
    },
    Row {
        fault: "a dispatcher killed between its claim and the first byte",
        strikes: Some(BeforeSend),
        place: Place::Shared,
        told: wrong("lease_expired", "orders", Some(BeforeSend), &[]),
        inject: |stage| outbox::killed_at(stage, "dispatcher.after_claim").boxed_local(),
        recover: |stage| outbox::the_pipeline_goes_on(stage).boxed_local(),
    },
    Row {
        fault: "a dispatcher that hangs with its batch for longer than the lease",
        strikes: Some(BeforeSend),
        place: Place::Shared,
        told: wrong("batch_outlives_lease", "orders", Some(BeforeSend), &[]),
        inject: |stage| outbox::a_batch_outlives_its_lease(stage).boxed_local(),
        recover: |stage| outbox::the_hanging_dispatcher_ends(stage).boxed_local(),
    },
    // What is left of a dispatcher that was killed is a row under a lease. Where a consumer has seen the event it was
    // sent; whether the confirm was lost or only not written down, nobody can tell, and it is the same to do.
    Row {
        fault: "a dispatcher killed after the send, before the confirm",
        strikes: Some(ConfirmLost),
        place: Place::Shared,
        told: wrong("lease_expired", "orders", Some(BeforeSentMark), &[]),
        inject: |stage| {
            outbox::killed_with_its_bytes_out(stage, "dispatcher.after_publish").boxed_local()
        },
        recover: |stage| outbox::the_pipeline_goes_on(stage).boxed_local(),
    },
    Row {
        fault: "the broker's confirm is lost on the way to the dispatcher",
        strikes: Some(ConfirmLost),
        place: Place::Shared,
        told: wrong("confirms_missing", "orders", Some(ConfirmLost), &[]),
        inject: |stage| outbox::the_confirm_is_lost(stage).boxed_local(),
        recover: |stage| outbox::the_pipeline_goes_on(stage).boxed_local(),
    },
    Row {
        fault: "a queue that is full and refuses",
        strikes: None,
        place: Place::Shared,
        told: wrong("confirms_missing", "orders", Some(ConfirmLost), &[]),
        inject: |stage| outbox::a_full_queue_refuses(stage).boxed_local(),
        recover: |stage| outbox::the_full_queue_goes(stage).boxed_local(),
    },
    Row {
        fault: "a dispatcher killed between the confirm and the sent mark",
        strikes: Some(BeforeSentMark),
        place: Place::Shared,
        told: wrong("lease_expired", "orders", Some(BeforeSentMark), &[]),
        inject: |stage| {
            outbox::killed_with_its_bytes_out(stage, "dispatcher.after_confirm").boxed_local()
        },
        recover: |stage| outbox::the_pipeline_goes_on(stage).boxed_local(),
    },
    Row {
        fault: "no queue is bound for a type",
        strikes: None,
        place: Place::Shared,
        told: wrong("unroutable", "orders shipment.lost", None, &[]),
        inject: |stage| outbox::no_queue_for_a_type(stage).boxed_local(),
        recover: |stage| outbox::the_rows_are_mended(stage).boxed_local(),
    },
    Row {
        fault: "a row names an exchange that does not exist",
        strikes: None,
        place: Place::Shared,
        told: wrong("dispatch_failed", "orders", None, &[]),
        inject: |stage| outbox::an_exchange_is_wrong(stage).boxed_local(),
        recover: |stage| outbox::the_rows_are_mended(stage).boxed_local(),
    },
    Row {
        fault: "the first version of an aggregate is dead at the dispatcher, the second waits",
        strikes: None,
        place: Place::Shared,
        told: wrong(
            "sequence_held",
            "orders",
            Some(BeforeClaim),
            &["unroutable"],
        ),
        inject: |stage| outbox::a_head_is_dead(stage).boxed_local(),
        recover: |stage| outbox::the_rows_are_mended(stage).boxed_local(),
    },
    // ---- between the broker and the acknowledgement ----------------------------------------------------
    Row {
        fault: "the consumer is gone",
        strikes: Some(NotConsumed),
        place: Place::Shared,
        told: wrong("consumer_gone", QUEUE, Some(NotConsumed), &[]),
        inject: |stage| delivery::the_consumer_is_gone(stage).boxed_local(),
        recover: |stage| delivery::the_consumer_is_restarted(stage).boxed_local(),
    },
    Row {
        fault: "the consumer takes an event and hangs",
        strikes: Some(NotConsumed),
        place: Place::Shared,
        told: wrong("consumer_slow", QUEUE, Some(NotConsumed), &[]),
        inject: |stage| delivery::the_consumer_hangs(stage).boxed_local(),
        recover: |stage| delivery::the_consumer_is_restarted(stage).boxed_local(),
    },
    Row {
        fault: "the consumer is slower than its producer",
        strikes: Some(NotConsumed),
        place: Place::Shared,
        told: wrong("consumer_slow", QUEUE, Some(NotConsumed), &[]),
        inject: |stage| delivery::the_consumer_is_slow(stage).boxed_local(),
        recover: |stage| delivery::the_consumer_is_restarted(stage).boxed_local(),
    },
    Row {
        fault: "the consumer gives everything back at once",
        strikes: None,
        place: Place::Shared,
        told: wrong("requeue_loop", QUEUE, Some(KeepsFailing), &[]),
        inject: |stage| delivery::the_consumer_gives_back(stage).boxed_local(),
        recover: |stage| delivery::the_loop_ends(stage).boxed_local(),
    },
    Row {
        fault: "an event is sent and no queue has it (its sent mark is written here, as a broker leaves it that lost its disk)",
        strikes: Some(NotConsumed),
        place: Place::Shared,
        told: wrong(
            "sent_not_consumed",
            "orders inventory",
            Some(NotConsumed),
            &[],
        ),
        inject: |stage| delivery::an_event_is_lost(stage).boxed_local(),
        recover: |stage| delivery::it_is_booked_by_hand(stage).boxed_local(),
    },
    Row {
        fault: "the consumer's queue is deleted",
        strikes: Some(NotConsumed),
        place: Place::Shared,
        told: wrong("queue_not_whole", QUEUE, Some(NotConsumed), &[]),
        inject: |stage| delivery::the_queue_is_gone(stage).boxed_local(),
        recover: |stage| delivery::the_queue_is_declared_well(stage).boxed_local(),
    },
    Row {
        fault: "the queue is declared without a dead-letter exchange",
        strikes: None,
        place: Place::Shared,
        told: wrong("dead_letters_to_nothing", QUEUE, Some(KeepsFailing), &[]),
        inject: |stage| delivery::the_queue_dead_letters_to_nothing(stage).boxed_local(),
        recover: |stage| delivery::the_queue_is_declared_well(stage).boxed_local(),
    },
    Row {
        fault: "the consumer's acknowledgement is lost after its commit",
        strikes: Some(AckLost),
        place: Place::Shared,
        told: Told::Nothing(
            "delivered again, and the inbox row of the same transaction absorbs it",
        ),
        inject: |stage| delivery::the_ack_is_lost(stage).boxed_local(),
        recover: |stage| delivery::it_took_effect_once(stage).boxed_local(),
    },
    // ---- what waits for a person -----------------------------------------------------------------------
    Row {
        fault: "one event dies",
        strikes: Some(KeepsFailing),
        place: Place::Shared,
        told: wrong("dead_letters_open", "inventory", Some(KeepsFailing), &[]),
        inject: |stage| delivery::one_event_dies(stage).boxed_local(),
        recover: |stage| delivery::letters_are_discarded(stage).boxed_local(),
    },
    Row {
        fault: "many events die of one cause",
        strikes: Some(KeepsFailing),
        place: Place::Shared,
        told: wrong(
            "poison_group",
            "inventory order.created no error told: rejected",
            Some(KeepsFailing),
            &[],
        ),
        inject: |stage| delivery::many_die_of_one_cause(stage).boxed_local(),
        recover: |stage| delivery::letters_are_discarded(stage).boxed_local(),
    },
    Row {
        fault: "an event dies and nobody collects it",
        strikes: Some(KeepsFailing),
        place: Place::Shared,
        told: wrong("dlq_without_collector", DLQ, Some(KeepsFailing), &[]),
        inject: |stage| delivery::nobody_collects(stage).boxed_local(),
        recover: |stage| delivery::letters_are_discarded(stage).boxed_local(),
    },
    Row {
        fault: "an event waits at the consumer for a version that does not come (the row is written here as our consumer \
                runtime parks it; this shop's consumer is not ours: drill 8 parks one for real)",
        strikes: None,
        place: Place::Shared,
        told: wrong("sequence_held", "inventory", Some(KeepsFailing), &[]),
        inject: |stage| people::a_version_is_missing(stage).boxed_local(),
        recover: |stage| people::the_gap_closes(stage).boxed_local(),
    },
    Row {
        fault: "the archiver keeps less than events may be replayed",
        strikes: None,
        place: Place::Shared,
        told: wrong("inbox_forgets", "inventory", Some(KeepsFailing), &[]),
        inject: |stage| people::the_inbox_forgets(stage).boxed_local(),
        recover: |stage| people::the_inbox_remembers(stage).boxed_local(),
    },
    Row {
        fault: "a saga gets no answer and its deadline passes (rows written here as its service leaves them: drill 15)",
        strikes: None,
        place: Place::Shared,
        told: wrong("saga_overdue", "orders", None, &[]),
        inject: |stage| people::a_saga_gets_no_answer(stage).boxed_local(),
        recover: |stage| people::the_answer_comes(stage).boxed_local(),
    },
    Row {
        fault: "the refund of a saga is refused again and again (rows written here as the coordinator leaves them: drill 16)",
        strikes: None,
        place: Place::Shared,
        told: wrong(
            "compensation_failing",
            "orders",
            Some(KeepsFailing),
            &["saga_overdue"],
        ),
        inject: |stage| people::a_refund_is_refused(stage).boxed_local(),
        recover: |stage| people::a_person_refunds(stage).boxed_local(),
    },
    Row {
        fault: "a console is killed between the confirm of a replay and its completion",
        strikes: None,
        place: Place::Shared,
        told: wrong("operation_unknown", "operations", None, &[]),
        inject: |stage| people::a_console_dies_in_a_replay(stage).boxed_local(),
        recover: |stage| people::its_outcome_is_found(stage).boxed_local(),
    },
    Row {
        fault: "a scan finds an effect without an event",
        strikes: None,
        place: Place::Shared,
        told: wrong("findings_open", "findings", None, &[]),
        inject: |stage| people::a_scan_finds_a_difference(stage).boxed_local(),
        recover: |stage| people::the_difference_is_settled(stage).boxed_local(),
    },
    // ---- what the console looks through ----------------------------------------------------------------
    Row {
        fault: "a database refuses connections",
        strikes: None,
        place: Place::Shared,
        told: unseen("server_unreachable", "db inventory", &[]),
        inject: |stage| sight::the_database_is_away(stage).boxed_local(),
        recover: |stage| {
            sight::the_server_is_back(stage);
            std::future::ready(()).boxed_local()
        },
    },
    Row {
        fault: "the broker refuses connections",
        strikes: None,
        place: Place::Shared,
        told: unseen("server_unreachable", "amqp", &[]),
        inject: |stage| sight::the_broker_is_away(stage).boxed_local(),
        recover: |stage| {
            sight::the_server_is_back(stage);
            std::future::ready(()).boxed_local()
        },
    },
    Row {
        fault: "the management API refuses connections",
        strikes: None,
        place: Place::Shared,
        told: unseen("server_unreachable", "mgmt", &[]),
        inject: |stage| sight::the_management_is_away(stage).boxed_local(),
        recover: |stage| {
            sight::the_server_is_back(stage);
            std::future::ready(()).boxed_local()
        },
    },
    Row {
        fault: "a management account without a tag",
        strikes: None,
        place: Place::Shared,
        told: unseen("server_unreachable", "mgmt", &[]),
        inject: |stage| sight::the_account_has_no_rights(stage, "").boxed_local(),
        recover: |stage| sight::the_account_has_its_rights(stage).boxed_local(),
    },
    Row {
        fault: "a monitoring account without rights in the vhost",
        strikes: None,
        place: Place::Shared,
        told: unseen("cannot_see", "nodes", &["cannot_see"]),
        inject: |stage| sight::the_account_has_no_rights(stage, "management").boxed_local(),
        recover: |stage| sight::the_account_has_its_rights(stage).boxed_local(),
    },
    Row {
        fault: "a database account that may not read the dead letters",
        strikes: None,
        place: Place::Shared,
        told: unseen("cannot_see", "dead letters of inventory", &["cannot_see"]),
        inject: |stage| sight::the_letters_are_hidden(stage).boxed_local(),
        recover: |stage| sight::the_database_account_goes(stage).boxed_local(),
    },
    Row {
        fault: "a database account that may not see locks",
        strikes: None,
        place: Place::Shared,
        told: unseen("cannot_see", "lock waits of orders", &[]),
        inject: |stage| sight::the_locks_are_hidden(stage).boxed_local(),
        recover: |stage| sight::the_database_account_goes(stage).boxed_local(),
    },
    // ---- servers of its own ------------------------------------------------------------------------------
    Row {
        fault: "the clock of a database is a minute ahead",
        strikes: None,
        place: Place::Own,
        told: wrong("clock_skew", "clock", None, &[]),
        inject: |stage| sight::the_clock_is_ahead(stage).boxed_local(),
        recover: |stage| sight::the_clock_is_set(stage).boxed_local(),
    },
    Row {
        fault: "the broker has no memory left",
        strikes: Some(BeforeClaim),
        place: Place::Own,
        told: Told::First {
            id: "broker_blocked",
            subject: "broker",
            window: Some(BeforeClaim),
            beside: &[],
            follow: &["dispatcher_not_claiming orders"],
            code: 3,
        },
        inject: |stage| sight::memory_is_short(stage).boxed_local(),
        recover: |stage| sight::memory_is_enough(stage).boxed_local(),
    },
    Row {
        fault: "one of three nodes is killed",
        strikes: None,
        place: Place::Own,
        told: wrong(
            "queue_not_whole",
            "node rabbitmq-3@localhost",
            Some(NotConsumed),
            &["queue_not_whole"],
        ),
        inject: |stage| sight::a_node_is_killed(stage).boxed_local(),
        recover: |stage| sight::the_nodes_are_back(stage).boxed_local(),
    },
    Row {
        fault: "two of three nodes are killed: the queue has no majority",
        strikes: None,
        place: Place::Own,
        told: wrong(
            "queue_not_whole",
            QUEUE,
            Some(NotConsumed),
            &["queue_not_whole"],
        ),
        inject: |stage| sight::the_majority_is_killed(stage).boxed_local(),
        recover: |stage| sight::the_nodes_are_back(stage).boxed_local(),
    },
];
