//! When a thing is said, and when no longer.

use std::time::Duration;

use proptest::prelude::*;

use super::rules::saga;
use super::{NOW, Scene, open, part, server, unread};
use crate::diagnose::{Patience, Watch};
use crate::model::count::Count;
use crate::model::saga::SagaState;
use crate::observe::snapshot::{Asked, OpenSagas};

const PATIENCE: Patience = Patience {
    looks: 2,
    quiet_looks: 3,
};

fn stuck(is_stuck: bool) -> Scene {
    let mut scene = Scene::healthy();
    if is_stuck {
        scene.counts().sending = Count::Exact(0);
        scene.counts().oldest_due_s = Some(90.0);
    }
    scene
}

fn look(watch: &mut Watch, mut scene: Scene, second: u64) -> Vec<&'static str> {
    scene.later(second);
    watch.look_at_all(&scene.sight(), PATIENCE);
    watch.verdicts().iter().map(|verdict| verdict.id).collect()
}

#[test]
fn it_is_said_after_two_looks_and_goes_quiet_after_three() {
    let mut watch = Watch::default();
    let said = ["dispatcher_not_claiming"];
    assert_eq!(look(&mut watch, stuck(true), 0), [""; 0]);
    assert_eq!(look(&mut watch, stuck(true), 1), said);
    assert_eq!(look(&mut watch, stuck(false), 2), said);
    assert_eq!(look(&mut watch, stuck(false), 3), said);
    assert_eq!(look(&mut watch, stuck(false), 4), [""; 0]);
}

/// Something that is asked at a slow pace, and its answer.
type Slow = (&'static str, fn(&mut Scene, Asked));

const ASKED_SLOWLY: [Slow; 6] = [
    ("operation_unknown", |scene, asked| {
        let flow = scene.flow.as_mut().expect("seen");
        flow.operations_unknown = Some(Count::Exact(1));
        flow.operations_asked = vec![asked];
    }),
    ("findings_open", |scene, asked| {
        let flow = scene.flow.as_mut().expect("seen");
        flow.findings_open = Some(Count::Exact(1));
        flow.findings_asked = Some(asked);
    }),
    ("clock_skew", |scene, asked| {
        scene.health().skew_us = Some(60_000_000);
        scene.health().clocks_asked = vec![asked];
    }),
    ("server_unreachable", |scene, asked| {
        scene.health().management = server("mgmt", false);
        scene.health().management_asked = Some(asked);
    }),
    ("saga_overdue", |scene, asked| {
        let late = saga(SagaState::Running, Some(540));
        let read = OpenSagas {
            asked,
            ..open([late])
        };
        scene.causes().sagas = vec![part("orders", read)];
    }),
    ("compensation_failing", |scene, asked| {
        let read = OpenSagas {
            asked,
            ..open([saga(SagaState::CompensationFailed, None)])
        };
        scene.causes().sagas = vec![part("orders", read)];
    }),
];

#[test]
fn one_answer_that_is_seen_at_several_looks_is_one_look() {
    for (id, answer) in ASKED_SLOWLY {
        let of = |asked| {
            let mut scene = Scene::healthy();
            answer(&mut scene, asked);
            scene
        };
        let mut watch = Watch::default();
        let first = Asked::anew();
        for second in 0..5 {
            assert_eq!(look(&mut watch, of(first), second), [""; 0], "{id}");
        }
        assert_eq!(look(&mut watch, of(Asked::anew()), 5), [id], "asked again");
    }
}

#[test]
fn a_sum_is_new_when_every_part_of_it_was_asked_again() {
    let of = |asked: [Asked; 2]| {
        let mut scene = Scene::healthy();
        let flow = scene.flow.as_mut().expect("seen");
        flow.operations_unknown = Some(Count::Exact(1));
        flow.operations_asked = asked.to_vec();
        scene
    };
    let [a, b] = [Asked::anew(), Asked::anew()];
    let mut watch = Watch::default();
    assert_eq!(look(&mut watch, of([a, b]), 0), [""; 0]);
    let later = Asked::anew();
    assert_eq!(look(&mut watch, of([later, b]), 1), [""; 0]);
    let said = look(&mut watch, of([later, Asked::anew()]), 2);
    assert_eq!(said, ["operation_unknown"]);
}

#[test]
fn since_is_when_it_began_and_stays() {
    let mut watch = Watch::default();
    for second in 0..5 {
        look(&mut watch, stuck(true), second);
    }
    let verdicts = watch.verdicts();
    let began = NOW.minus(Duration::from_secs(90));
    assert_eq!(verdicts.first().map(|verdict| verdict.since), Some(began));
}

#[test]
fn what_cannot_be_read_any_more_stays_and_says_so() {
    let mut watch = Watch::default();
    look(&mut watch, stuck(true), 0);
    look(&mut watch, stuck(true), 1);
    for second in 2..20 {
        let mut blind = stuck(false);
        blind.flow.as_mut().expect("seen").outboxes = vec![unread("orders", false)];
        let said = look(&mut watch, blind, second);
        assert!(said.contains(&"dispatcher_not_claiming"), "{said:?}");
    }
    let verdicts = watch.verdicts();
    let reason = verdicts.first().and_then(|verdict| verdict.unseen.clone());
    assert!(reason.is_some_and(|reason| reason.contains("not permitted")));
    // Seen again, and gone: then it is quiet.
    for second in 20..23 {
        look(&mut watch, stuck(false), second);
    }
    assert_eq!(look(&mut watch, stuck(false), 23), [""; 0]);
}

#[test]
fn a_claim_between_two_looks_is_a_dispatcher_at_work() {
    let mut watch = Watch::default();
    for second in 0..6 {
        let mut scene = stuck(true);
        // The oldest due event is another one each time: something claims.
        scene.counts().database_now = NOW.plus(Duration::from_secs(second * 3));
        scene.counts().oldest_due_s = Some(59.0);
        let said = look(&mut watch, scene, second);
        assert_eq!(said, [""; 0], "second {second}");
    }
}

/// Everything that can be unread is: nothing that was said goes quiet for it.
fn blindfold(scene: &mut Scene) {
    scene.health = None;
    let flow = scene.flow.as_mut().expect("seen");
    flow.outboxes = vec![unread("orders", false)];
    for consumer in &mut flow.consumers {
        (consumer.ready, consumer.consumers) = (None, None);
    }
    (flow.operations_unknown, flow.findings_open) = (None, None);
    let causes = scene.causes();
    causes.leases = vec![unread("orders", false)];
    causes.troubles = vec![unread("orders", false)];
    causes.locks = vec![unread("orders", false)];
    causes.letters = vec![unread("inventory", false)];
    causes.sagas = vec![unread("orders", false)];
    causes.horizons = vec![unread("inventory", false)];
    causes.unseen = vec![unread("orders", false)];
    causes.queues.queues.clear();
    causes.queues.overview = None;
}

#[test]
fn nothing_goes_quiet_because_it_cannot_be_read() {
    for (id, _, words, fault) in super::rules::FAULTS {
        // Events that wait for a version are told with the counts, which have no part for it.
        if words.contains("wait for an earlier version") || *id == "cannot_see" {
            continue;
        }
        let mut watch = Watch::default();
        for second in 0..2 {
            let mut scene = Scene::healthy();
            fault(&mut scene);
            look(&mut watch, scene, second);
        }
        let first = |watch: &Watch| watch.verdicts().iter().position(|v| v.id == *id);
        assert_eq!(first(&watch), Some(0), "{id}");
        let mut blind = Scene::healthy();
        blindfold(&mut blind);
        for second in 2..12 {
            look(&mut watch, blind.clone(), second);
        }
        let at = first(&watch);
        let kept = at.and_then(|at| watch.verdicts().into_iter().nth(at));
        let kept = kept.unwrap_or_else(|| panic!("{id} went quiet: {words}"));
        assert!(
            kept.unseen.is_some(),
            "{id} does not say that it was not seen"
        );
    }
}

proptest! {
    /// Whatever happens from look to look: nothing is said that was not found in two looks in a row, and
    /// what is said does not go before three looks without it.
    #[test]
    fn nothing_flaps(looks in proptest::collection::vec(any::<bool>(), 1..40)) {
        let mut watch = Watch::default();
        let mut was_said = false;
        for (second, is_stuck) in (0_u64..).zip(&looks) {
            let is_said = !look(&mut watch, stuck(*is_stuck), second).is_empty();
            let seen = looks.get(..=usize::try_from(second).unwrap_or(0)).unwrap_or_default();
            let last = |n: usize, wanted: bool| {
                seen.len() >= n && seen.iter().rev().take(n).all(|look| *look == wanted)
            };
            if is_said && !was_said {
                prop_assert!(last(2, true));
            }
            if !is_said && was_said {
                prop_assert!(last(3, false));
            }
            was_said = is_said;
        }
    }
}
