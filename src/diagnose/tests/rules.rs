//! The rules one by one.

use std::time::Duration;

use rstest::rstest;

use super::{NOW, Scene, open, part, server, unread, value};
use crate::diagnose::rule::VERDICTS;
use crate::diagnose::{Patience, Severity, Verdict, Watch, Window};
use crate::model::count::Count;
use crate::model::dead_letter::DeadLetterGroup;
use crate::model::ids::{ClaimToken, EventId, SagaId};
use crate::model::outbox::{LeaseGroup, Leases, REAPED};
use crate::model::saga::{Saga, SagaState};
use crate::model::trouble::{LockWaits, RowGroup};
use crate::model::waiting::WaitingSummary;
use crate::observe::snapshot::{Flow, Landed, Missing, OpenSagas};

const AT_ONCE: Patience = Patience {
    looks: 1,
    quiet_looks: 1,
};

fn said(scene: &Scene) -> Vec<Verdict> {
    let mut watch = Watch::default();
    watch.look_at_all(&scene.sight(), AT_ONCE);
    watch.verdicts()
}

fn rows(event_type: &str, error: &str, rows: u64) -> RowGroup {
    RowGroup {
        event_type: event_type.to_owned(),
        error: Some(error.to_owned()),
        rows,
        sample: EventId::new("0197c3f2-7d2a-7c4e-9b1a-000000000001"),
    }
}

fn lease(left_s: f64, rows: u64) -> LeaseGroup {
    LeaseGroup {
        claim_token: Some(ClaimToken::new("0197c3f2-aaaa".to_owned())),
        rows,
        lease_until: None,
        left_s: Some(left_s),
        oldest_created_at: None,
        attempts_max: Some(1),
        sample: Vec::new(),
    }
}

fn group(count: u64) -> DeadLetterGroup {
    DeadLetterGroup {
        consumer: "inventory".into(),
        event_type: Some("order.created".to_owned()),
        error_class: "decode: missing field `sku`".to_owned(),
        count,
        first_died_at: NOW.minus(Duration::from_mins(72)),
        last_died_at: NOW.minus(Duration::from_mins(2)),
        owner: None,
        note: None,
    }
}

fn missing() -> Missing {
    Missing {
        consumer: "inventory".to_owned(),
        queue: "inventory.orders".to_owned(),
        event_id: EventId::new("0197c3f2-7d2a-7c4e-9b1a-000000000001"),
        event_type: "order.created".to_owned(),
        age_s: 840.0,
    }
}

pub(super) fn saga(state: SagaState, late_s: Option<u64>) -> Saga {
    Saga {
        saga_id: SagaId::new("0197c3f2-bbbb"),
        saga_type: "order".to_owned(),
        business_key: "o-8812".to_owned(),
        state,
        version: 3,
        deadline_at: late_s.map(|late| NOW.minus(Duration::from_secs(late))),
        expires_at: None,
        due_at: None,
        failures: 0,
        last_error: None,
        leased_by: None,
        lease_until: None,
        attention: None,
        owner: None,
        evidence: None,
        updated_at: NOW.minus(Duration::from_mins(5)),
        created_at: NOW.minus(Duration::from_mins(9)),
        steps: Vec::new(),
    }
}

pub type Fault = fn(&mut Scene);

/// A fault, the rule that must come first, how bad, and words that must be in its sentence.
pub const FAULTS: &[(&str, Severity, &str, Fault)] = &[
    (
        "server_unreachable",
        Severity::Critical,
        "the database of orders cannot be used",
        |s| {
            s.health().databases[0] = server("db orders", false);
            s.flow.as_mut().expect("seen").outboxes[0] = unread("orders", true);
            s.causes().leases[0] = unread("orders", true);
        },
    ),
    (
        "server_unreachable",
        Severity::Critical,
        "the broker cannot be used",
        |s| {
            s.health().broker = server("amqp", false);
            s.counts().sending = Count::Exact(0);
            s.counts().oldest_due_s = Some(90.0);
        },
    ),
    ("broker_blocked", Severity::Critical, "low on memory", |s| {
        s.health().flow = Flow::Blocked("low on memory".to_owned());
        s.counts().sending = Count::Exact(0);
        s.counts().oldest_due_s = Some(90.0);
    }),
    (
        "broker_blocked",
        Severity::Critical,
        "rabbit@mq1: memory alarm",
        |s| {
            let overview = s.causes().queues.overview.as_mut().expect("seen");
            overview.nodes.as_mut().expect("seen")[0].memory_alarm = Some(true);
        },
    ),
    ("queue_not_whole", Severity::Critical, "no majority", |s| {
        s.queue(0).facts.members_online = Some(vec!["a".to_owned()]);
    }),
    (
        "queue_not_whole",
        Severity::Warning,
        "2 of 3 members online, c missing",
        |s| {
            s.queue(0).facts.members_online = Some(vec!["a".to_owned(), "b".to_owned()]);
        },
    ),
    (
        "queue_not_whole",
        Severity::Critical,
        "does not exist on this broker",
        |s| {
            let queue = s.queue(0);
            queue.facts.kind = None;
            queue.warnings = vec!["does not exist on this broker".to_owned()];
        },
    ),
    (
        "locks_held",
        Severity::Critical,
        "3 statements wait for a lock, the longest 12s",
        |s| {
            *s.locks() = LockWaits {
                waiting: 3,
                longest_s: Some(12.0),
                oldest_holder_s: Some(70.0),
                holder: Some(42),
            };
            s.counts().sending = Count::Exact(0);
            s.counts().oldest_due_s = Some(90.0);
        },
    ),
    (
        "locks_held",
        Severity::Critical,
        "has held row locks for 2m",
        |s| {
            s.locks().oldest_holder_s = Some(120.0);
            s.counts().sending = Count::Exact(0);
            s.counts().oldest_due_s = Some(90.0);
        },
    ),
    (
        "sequence_held",
        Severity::Critical,
        "4 events are held",
        |s| {
            let error = "held: an earlier event of its aggregate is not sent";
            s.troubles().retried = vec![rows("order.paid", error, 4)];
            s.troubles().failed = vec![rows("order.created", "refused: too large", 1)];
        },
    ),
    (
        "sequence_held",
        Severity::Warning,
        "3 events wait for an earlier version, the oldest for 4m",
        |s| {
            s.consumer().waiting = Some(WaitingSummary {
                count: Count::Exact(3),
                oldest_s: Some(240.0),
                untried_s: Some(10.0),
                next_deadline_s: Some(60.0),
            });
        },
    ),
    (
        "dispatcher_not_claiming",
        Severity::Critical,
        "no dispatcher claims: 2 events are due, the oldest for 1m30s",
        |s| {
            s.counts().sending = Count::Exact(0);
            s.counts().oldest_due_s = Some(90.0);
        },
    ),
    (
        "lease_expired",
        Severity::Critical,
        "31 rows lie under 1 lease, over for 41s",
        |s| {
            *value(&mut s.causes().leases) = Leases {
                groups: vec![lease(-41.0, 31), lease(20.0, 5)],
                ..Leases::default()
            };
        },
    ),
    (
        "lease_expired",
        Severity::Critical,
        "2 of 5 looked for had been sent: a consumer has seen them",
        |s| {
            value(&mut s.causes().leases).groups = vec![lease(-41.0, 31)];
            s.causes().landed = vec![part(
                "orders",
                Landed {
                    followed: 5,
                    seen: 2,
                },
            )];
        },
    ),
    (
        "batch_outlives_lease",
        Severity::Warning,
        "31 rows came back because the lease ran out",
        |s| {
            s.troubles().retried = vec![rows("order.created", REAPED, 31)];
        },
    ),
    (
        "confirms_missing",
        Severity::Critical,
        "5 events without a confirm",
        |s| {
            let error = "unknown whether sent: no confirm";
            s.troubles().retried = vec![rows("order.created", error, 5)];
        },
    ),
    (
        "dispatcher_behind",
        Severity::Warning,
        "dispatchers are behind",
        |s| {
            s.counts().oldest_due_s = Some(300.0);
        },
    ),
    (
        "unroutable",
        Severity::Critical,
        "7 events of type order.created.v9 to no queue",
        |s| {
            let error = "unroutable: 312 NO_ROUTE";
            s.troubles().failed = vec![
                rows("order.created.v9", error, 5),
                rows("order.created.v9", "unroutable: 313 NO_CONSUMERS", 2),
            ];
        },
    ),
    (
        "dispatch_failed",
        Severity::Warning,
        "1 event failed at dispatch, most of type order.created: refused: too large",
        |s| {
            s.troubles().failed = vec![rows("order.created", "refused: too large", 1)];
        },
    ),
    (
        "dead_letters_to_nothing",
        Severity::Warning,
        "dead-letters to nothing",
        |s| {
            let warning = "dead-letters to nothing: a rejected message is lost";
            s.queue(0).warnings = vec![warning.to_owned()];
        },
    ),
    (
        "consumer_gone",
        Severity::Critical,
        "inventory.orders has 0 consumers, 12 304 ready, lag 18m",
        |s| {
            let hop = s.consumer();
            (hop.consumers, hop.ready, hop.lag_s) = (Some(0), Some(12_304), Some(1_080.0));
            value(&mut s.causes().unseen).missing = vec![missing()];
        },
    ),
    ("consumer_gone", Severity::Warning, "0 ready", |s| {
        (s.consumer().consumers, s.consumer().ready) = (Some(0), Some(0));
    }),
    (
        "requeue_loop",
        Severity::Critical,
        "90/s of 95/s delivered",
        |s| {
            let facts = &mut s.queue(0).facts;
            (facts.rate_redelivered, facts.rate_out) = (Some(90.0), Some(95.0));
            facts.rate_ack = Some(5.0);
        },
    ),
    (
        "poison_group",
        Severity::Critical,
        "inventory cannot process order.created: 38 dead letters by decode: missing field `sku`, the last 2m",
        |s| {
            s.letters().groups = vec![group(38)];
            s.letters().open = Some(Count::Exact(38));
        },
    ),
    (
        "dlq_without_collector",
        Severity::Warning,
        "4 dead letters lie there",
        |s| {
            let facts = &mut s.queue(1).facts;
            (facts.ready, facts.consumers) = (Some(4), Some(0));
        },
    ),
    (
        "consumer_slow",
        Severity::Warning,
        "9 000 ready in inventory.orders, 10m behind, drained in 30m",
        |s| {
            (s.consumer().ready, s.consumer().lag_s) = (Some(9_000), Some(900.0));
            s.queue(0).facts.rate_ack = Some(15.0);
        },
    ),
    (
        "consumer_slow",
        Severity::Warning,
        "not drained at this pace",
        |s| {
            (s.consumer().ready, s.consumer().lag_s) = (Some(9_000), Some(900.0));
        },
    ),
    (
        "sent_not_consumed",
        Severity::Critical,
        "inventory has never seen 1 event of orders, the oldest sent 14m ago, and its queue is empty",
        |s| {
            value(&mut s.causes().unseen).missing = vec![missing()];
            s.consumer().ready = Some(0);
        },
    ),
    (
        "sent_not_consumed",
        Severity::Critical,
        "inventory has never seen at least 1 event of orders, the oldest sent 14m ago, and its queue is empty",
        |s| {
            value(&mut s.causes().unseen).missing = vec![missing()];
            value(&mut s.causes().unseen).is_cut = true;
            s.consumer().ready = Some(0);
        },
    ),
    (
        "sent_not_consumed",
        Severity::Warning,
        "the broker holds 6 messages for it",
        |s| {
            value(&mut s.causes().unseen).missing = vec![missing()];
            s.consumer().ready = Some(0);
            s.queue(0).facts.unacked = Some(6);
        },
    ),
    (
        "dead_letters_open",
        Severity::Warning,
        "3 dead letters are open in 1 cause, the oldest died 1h12m ago",
        |s| {
            s.letters().groups = vec![group(3)];
            s.letters().open = Some(Count::Exact(3));
            s.letters().oldest_open_s = Some(4_320.0);
        },
    ),
    (
        "inbox_forgets",
        Severity::Warning,
        "events may be replayed for 14d, but the inbox remembers 3d only",
        |s| {
            s.context.retention.replay_window = Some(Duration::from_hours(14 * 24));
            let horizon = NOW.minus(Duration::from_hours(72));
            s.causes().horizons = vec![part("inventory", Some(horizon))];
        },
    ),
    (
        "compensation_failing",
        Severity::Critical,
        "1 saga could not undo what was done, first order o-8812",
        |s| {
            s.causes().sagas = vec![part(
                "orders",
                open([saga(SagaState::CompensationFailed, None)]),
            )];
        },
    ),
    (
        "saga_overdue",
        Severity::Warning,
        "1 saga is past the deadline by up to 4m, first order o-8812",
        |s| {
            s.causes().sagas = vec![part("orders", open([saga(SagaState::Running, Some(240))]))];
        },
    ),
    (
        "operation_unknown",
        Severity::Warning,
        "1 operation has an unknown outcome",
        |s| {
            s.flow.as_mut().expect("seen").operations_unknown = Some(Count::Exact(1));
        },
    ),
    (
        "findings_open",
        Severity::Warning,
        "2 findings of scans are open",
        |s| {
            s.flow.as_mut().expect("seen").findings_open = Some(Count::Exact(2));
        },
    ),
    (
        "clock_skew",
        Severity::Warning,
        "is -3.0s away from ours",
        |s| {
            s.health().skew_us = Some(-3_000_000);
        },
    ),
    (
        "cannot_see",
        Severity::Unseen,
        "part of orders cannot be seen: look on orders is not permitted",
        |s| {
            s.causes().locks = vec![unread("orders", false)];
        },
    ),
];

#[test]
fn every_fault_is_named_first_and_in_words_that_are_true() {
    for (id, severity, words, fault) in FAULTS {
        let mut scene = Scene::healthy();
        fault(&mut scene);
        let said = said(&scene);
        let Some(first) = said.first() else {
            panic!("{id}: nothing is said");
        };
        assert_eq!((first.id, first.severity), (*id, *severity), "{said:#?}");
        assert!(first.sentence.contains(words), "{id}: {}", first.sentence);
        assert!(!first.next.is_empty() && !first.recovers.is_empty(), "{id}");
    }
}

#[test]
fn a_healthy_pipeline_is_silent_and_seen_whole() {
    let mut watch = Watch::default();
    watch.look_at_all(&Scene::healthy().sight(), AT_ONCE);
    assert_eq!(watch.verdicts(), []);
    assert_eq!(watch.blind(), []);
}

#[test]
fn every_rule_has_a_fault_a_unique_id_and_causes_before_it() {
    for (index, rule) in VERDICTS.iter().enumerate() {
        assert!(FAULTS.iter().any(|(id, ..)| *id == rule.id), "{}", rule.id);
        let same = VERDICTS.iter().filter(|other| other.id == rule.id);
        assert_eq!(same.count(), 1, "{}", rule.id);
        assert!(!rule.summary.is_empty() && !rule.recovers.is_empty());
        for cause in rule.explained_by {
            let at = VERDICTS.iter().position(|other| other.id == *cause);
            assert!(at.is_some_and(|at| at < index), "{} by {cause}", rule.id);
        }
    }
}

/// Each look that a rule cannot have makes it blind, not silent.
#[test]
fn no_rule_is_silent_because_nothing_could_be_read() {
    let mut scene = Scene::healthy();
    (scene.health, scene.flow, scene.causes) = (None, None, None);
    for rule in VERDICTS {
        let mut look = crate::diagnose::Look::default();
        (rule.look)(&scene.sight(), &mut look);
        assert_eq!(look.found, [], "{}", rule.id);
        assert!(!look.blind.is_empty(), "{} thinks all is well", rule.id);
    }
}

#[rstest]
#[case::flow(|s: &mut Scene| s.flow.as_mut().expect("seen").outboxes = vec![unread("orders", false)],
    &["dispatcher_not_claiming", "dispatcher_behind"])]
#[case::consumers(|s: &mut Scene| (s.consumer().consumers, s.consumer().ready) = (None, None),
    &["consumer_gone", "consumer_slow"])]
#[case::leases(|s: &mut Scene| s.causes().leases = vec![unread("orders", false)], &["lease_expired"])]
#[case::rows(|s: &mut Scene| s.causes().troubles = vec![unread("orders", false)],
    &["unroutable", "dispatch_failed", "confirms_missing", "batch_outlives_lease", "sequence_held"])]
#[case::locks(|s: &mut Scene| s.causes().locks = vec![unread("orders", false)], &["locks_held"])]
#[case::letters(|s: &mut Scene| s.causes().letters = vec![unread("inventory", false)],
    &["poison_group", "dead_letters_open", "inbox_forgets"])]
#[case::sagas(|s: &mut Scene| s.causes().sagas = vec![unread("orders", false)],
    &["compensation_failing", "saga_overdue"])]
#[case::unseen(|s: &mut Scene| s.causes().unseen = vec![unread("orders", false)], &["sent_not_consumed"])]
#[case::told(|s: &mut Scene| {
    let facts = &mut s.queue(0).facts;
    (facts.kind, facts.rate_out, facts.rate_redelivered) = (None, None, None);
}, &["dead_letters_to_nothing", "requeue_loop"])]
fn a_rule_says_which_part_it_could_not_see(#[case] hide: Fault, #[case] blind: &[&str]) {
    let mut scene = Scene::healthy();
    hide(&mut scene);
    for id in blind {
        let rule = VERDICTS.iter().find(|rule| rule.id == *id).expect("a rule");
        let mut look = crate::diagnose::Look::default();
        (rule.look)(&scene.sight(), &mut look);
        assert!(!look.blind.is_empty(), "{id} thinks it saw all");
    }
}

/// A consumer at work on one event looks as one that hangs, for a while.
#[test]
fn a_consumer_hangs_when_nothing_has_moved_for_as_long_as_it_may_be_behind() {
    let mut watch = crate::diagnose::Watch::default();
    let mut look = |second: u64, ready: u64| {
        let mut scene = Scene::healthy();
        (scene.consumer().ready, scene.consumer().inbox_per_s) = (Some(ready), Some(0.0));
        scene.queue(0).facts.rate_ack = Some(0.0);
        scene.later(second);
        let patience = crate::diagnose::Patience::from(&scene.context.verdicts);
        watch.look_at_all(&scene.sight(), patience);
        watch.verdicts().iter().map(|v| v.id).collect::<Vec<_>>()
    };
    for second in 0..=60 {
        assert_eq!(look(second, 5), [""; 0], "second {second}");
    }
    // One was taken: the time begins again.
    for second in 61..=121 {
        assert_eq!(look(second, 4), [""; 0], "second {second}");
    }
    assert_eq!(look(122, 4), [""; 0], "one look is none");
    assert_eq!(look(123, 9), ["consumer_slow"]);
}

/// A burst that has just begun to be worked off: its pace is seen in the queue before the averages tell.
#[test]
fn a_burst_that_is_worked_off_is_not_behind() {
    let mut watch = crate::diagnose::Watch::default();
    for second in 0..6 {
        let mut scene = Scene::healthy();
        let consumed = u32::try_from(second * 20).expect("small");
        (scene.consumer().ready, scene.consumer().inbox_per_s) =
            (Some(1_000 - second * 20), Some(f64::from(consumed) / 10.0));
        scene.queue(0).facts.rate_ack = Some(0.0);
        scene.later(second);
        let patience = crate::diagnose::Patience::from(&scene.context.verdicts);
        watch.look_at_all(&scene.sight(), patience);
        assert_eq!(watch.verdicts(), [], "second {second}");
    }
}

/// What was sent long ago and is not seen tells the same to somebody who has only just come.
#[test]
fn a_consumer_hangs_when_what_waits_was_sent_long_ago() {
    let mut scene = Scene::healthy();
    (scene.consumer().ready, scene.consumer().inbox_per_s) = (Some(5), Some(0.0));
    scene.queue(0).facts.rate_ack = Some(0.0);
    assert!(said(&scene).is_empty());
    value(&mut scene.causes().unseen).missing = vec![missing()];
    let said = said(&scene);
    assert_eq!(
        said.first().map(|verdict| verdict.id),
        Some("consumer_slow")
    );
    let explains = said.first().map(|verdict| verdict.explains.clone());
    assert_eq!(
        explains,
        Some(vec!["sent_not_consumed orders inventory".to_owned()])
    );
}

/// What nobody knows to be good is not healthy, whatever a newer broker calls it.
#[rstest]
#[case("minority", Severity::Critical)]
#[case("some_new_state", Severity::Warning)]
fn m_09_a_state_nobody_knows_is_not_known_good(#[case] state: &str, #[case] severity: Severity) {
    let mut scene = Scene::healthy();
    scene.queue(0).facts.state = Some(state.to_owned());
    let said = said(&scene);
    let first = said.first().expect("said");
    assert_eq!((first.id, first.severity), ("queue_not_whole", severity));
    assert!(first.sentence.contains(state), "{}", first.sentence);
}

#[test]
fn a_claimed_event_that_a_consumer_has_seen_was_sent() {
    let mut scene = Scene::healthy();
    value(&mut scene.causes().leases).groups = vec![lease(-41.0, 31)];
    let window = |scene: &Scene| said(scene).first().and_then(|verdict| verdict.window);
    assert_eq!(window(&scene), Some(Window::BeforeSend));
    for (seen, expected) in [(0, Window::BeforeSend), (1, Window::BeforeSentMark)] {
        let landed = Landed { followed: 5, seen };
        scene.causes().landed = vec![part("orders", landed)];
        assert_eq!(window(&scene), Some(expected));
    }
}

#[test]
fn what_a_restart_gave_back_is_no_requeue_loop() {
    let mut scene = Scene::healthy();
    let facts = &mut scene.queue(0).facts;
    (facts.rate_redelivered, facts.rate_out, facts.rate_ack) = (Some(9.0), Some(9.0), Some(9.0));
    assert!(said(&scene).is_empty());
}

#[test]
fn m_09_a_node_that_does_not_tell_whether_it_runs_is_not_known_good() {
    let mut scene = Scene::healthy();
    let overview = scene.causes().queues.overview.as_mut().expect("seen");
    overview.nodes.as_mut().expect("seen")[0].is_running = None;
    let said = said(&scene);
    assert_eq!(said.first().map(|v| v.severity), Some(Severity::Unseen));
}

/// An account that is shown nothing must not look like a broker on which all is well.
#[test]
fn a_list_that_came_back_empty_is_not_all_clear() {
    let mut scene = Scene::healthy();
    // The message port still tells the depth; the management API shows no queue.
    for index in 0..2 {
        scene.queue(index).facts = crate::observe::snapshot::QueueFacts {
            name: scene.queue(index).facts.name.clone(),
            ready: Some(0),
            consumers: Some(1),
            ..Default::default()
        };
    }
    scene.causes().queues.total = Some(0);
    let said = said(&scene);
    let first = said.first().expect("said");
    assert_eq!((first.id, first.severity), ("cannot_see", Severity::Unseen));
    assert!(first.sentence.contains("inventory.orders"), "{first:?}");
}

#[test]
fn what_follows_from_a_cause_is_named_by_it_and_not_said() {
    let mut scene = Scene::healthy();
    let hop = scene.consumer();
    (hop.consumers, hop.ready, hop.lag_s) = (Some(0), Some(12_304), Some(1_080.0));
    value(&mut scene.causes().unseen).missing = vec![missing()];
    let said = said(&scene);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_eq!(said[0].window, Some(Window::NotConsumed));
    assert_eq!(
        said[0].explains,
        [
            "consumer_slow inventory.orders",
            "sent_not_consumed orders inventory"
        ]
    );
}

/// A queue without one of its members is no reason for a consumer that is gone.
#[test]
fn a_warning_explains_nothing_that_is_worse() {
    let mut scene = Scene::healthy();
    (scene.consumer().consumers, scene.consumer().ready) = (Some(0), Some(12_304));
    scene.queue(0).facts.members_online = Some(vec!["a".to_owned(), "b".to_owned()]);
    let ids: Vec<_> = said(&scene).iter().map(|verdict| verdict.id).collect();
    assert_eq!(ids, ["consumer_gone", "queue_not_whole"]);
}

#[test]
fn sagas_that_were_not_all_read_are_at_least_so_many() {
    let stuck = saga(SagaState::CompensationFailed, None);
    let counted = |last: Saga| {
        let mut scene = Scene::healthy();
        let read = OpenSagas {
            is_cut: true,
            ..open([stuck.clone(), last])
        };
        scene.causes().sagas = vec![part("orders", read)];
        said(&scene)[0].sentence.clone()
    };
    let more = counted(stuck.clone());
    assert!(more.contains("≥ 2 sagas could not undo"), "{more}");
    // Those that need somebody come first: after one that needs nobody there is none.
    let all = counted(saga(SagaState::Running, None));
    assert!(all.contains("1 saga could not undo"), "{all}");
}

#[test]
fn a_cause_elsewhere_explains_nothing_here() {
    let mut scene = Scene::healthy();
    scene.health().databases[1] = server("db inventory", false);
    scene.counts().sending = Count::Exact(0);
    scene.counts().oldest_due_s = Some(90.0);
    let ids: Vec<_> = said(&scene).iter().map(|verdict| verdict.id).collect();
    assert_eq!(ids, ["server_unreachable", "dispatcher_not_claiming"]);
}

#[test]
fn the_runbook_has_a_section_for_every_verdict_and_none_for_others() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/runbook.md");
    let text = std::fs::read_to_string(path).expect("the runbook");
    let part = text.split("\n## Verdicts\n").nth(1).expect("its chapter");
    let part = part.split("\n## ").next().unwrap_or_default();
    let mut sections: Vec<&str> = part
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let mut ids: Vec<&str> = VERDICTS.iter().map(|rule| rule.id).collect();
    sections.sort_unstable();
    ids.sort_unstable();
    assert_eq!(sections, ids);
}
