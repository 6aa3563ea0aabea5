//! The guards, without a database: what refuses, in which order, and in which words.

use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::base::secret::SecretUrl;
use crate::config::{DispatcherSettings, Service, Thresholds};
use crate::model::ids::{ClaimToken, OperationId};
use crate::operate::plan::{ConfirmRules, Frozen};

/// A context with every right and no rule.
pub(in crate::operate) fn context(environment: Environment) -> Context {
    Context {
        name: "shop".to_owned(),
        environment,
        read_only: false,
        amqp: None,
        management: None,
        services: vec![Service {
            name: "inventory".to_owned(),
            database: SecretUrl::new("sqlite::memory:".to_owned()),
            outbox: None,
            inbox: None,
            dead_letters: None,
            sagas: None,
            journal: true,
        }],
        rights: Verb::ALL.to_vec(),
        never_replay: vec![],
        inbox_retention: None,
        ticket_pattern: None,
        unlock: Duration::from_mins(15),
        masked: vec![],
        owners: vec![],
        thresholds: Thresholds::default(),
        dispatcher: DispatcherSettings::default(),
        consumer: crate::config::ConsumerLimits::default(),
        drill: crate::config::DrillSettings::default(),
        retention: crate::config::RetentionSettings::default(),
        verdicts: crate::config::VerdictSettings::default(),
        on_death: None,
        scan: crate::config::ScanSettings::default(),
    }
}

fn clock() -> Clock {
    Clock::fixed(Timestamp::from_micros(1_767_323_045_000_000))
}

fn guard(context: Context, read_only: bool) -> Guard {
    Guard::new(Arc::new(context), clock(), read_only)
}

fn plan(context: &Context, verb: Verb) -> Plan {
    Plan {
        operation_id: OperationId::new("op-1"),
        verb,
        context: context.name.clone(),
        environment: context.environment,
        service: "inventory".to_owned(),
        made_at: Timestamp::from_micros(0),
        headline: "order.created".to_owned(),
        event_id: None,
        consumer: None,
        target: None,
        destination: None,
        payload: None,
        headers_kept: 0,
        header_changes: vec![],
        preflight: vec![],
        diff: None,
        command_line: String::new(),
        confirm: ConfirmRules::default(),
        digest: String::new(),
        frozen: Frozen::Release {
            claim_token: ClaimToken::new("t-1"),
        },
    }
    .sealed()
}

fn because(reason: &str) -> Confirmation {
    Confirmation {
        reason: reason.to_owned(),
        ..Confirmation::default()
    }
}

fn check_of(result: Result<(), OperateError>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(OperateError::Refused { check, .. }) => check,
        Err(other) => panic!("not a refusal: {other}"),
    }
}

#[test]
fn read_only_beats_unlock_and_every_right() {
    for (by_config, by_flag) in [(true, false), (false, true), (true, true)] {
        let mut context = context(Environment::Production);
        context.read_only = by_config;
        let guard = guard(context.clone(), by_flag);
        assert_eq!(guard.access(), Access::ReadOnly);
        assert_eq!(
            check_of(guard.check_unlock("shop", "incident")),
            "read_only"
        );
        // Even an open lock does not help.
        guard.open();
        assert_eq!(guard.access(), Access::ReadOnly);
        let plan = plan(&context, Verb::Replay);
        assert_eq!(
            check_of(guard.check_apply(&plan, &because("x"))),
            "read_only"
        );
        assert!(!guard.may_record());
        assert!(!guard.may_prove());
        assert_eq!(guard.lines(Verb::Replay)[0].check, "read_only");
        assert_eq!(guard.lines(Verb::Replay)[0].level, Level::Refusal);
    }
}

#[test]
fn production_is_locked_until_unlocked_and_again_after_its_time() {
    let context = context(Environment::Production);
    let at = Timestamp::from_micros(1_767_323_045_000_000);
    let clock = Clock::fixed(at);
    let guard = Guard::new(Arc::new(context), clock.clone(), false);
    assert_eq!(guard.access(), Access::Locked);
    assert_eq!(check_of(guard.check_verb(Verb::Replay)), "locked");
    // A plan can be made and shown: unlocking is a part of confirming.
    assert_eq!(guard.lines(Verb::Replay)[0].check, "locked");
    assert_eq!(guard.lines(Verb::Replay)[0].level, Level::Warning);
    assert!(
        !guard.may_prove(),
        "a console that only looks writes nothing"
    );

    assert_eq!(
        check_of(guard.check_unlock("shop-prod", "why")),
        "context_name"
    );
    assert_eq!(check_of(guard.check_unlock("shop", "  ")), "reason");
    assert_eq!(check_of(guard.check_unlock("shop", "incident 7")), "ok");
    let until = at.plus(Duration::from_mins(15));
    assert_eq!(guard.open(), Access::Unlocked { until });
    assert_eq!(check_of(guard.check_verb(Verb::Replay)), "ok");

    let Clock::Fixed(hand) = &clock else {
        panic!("the clock stands still in this test");
    };
    hand.store(until.micros(), Ordering::SeqCst);
    assert_eq!(guard.access(), Access::Locked);
    let Err(OperateError::Refused { reason, .. }) = guard.check_verb(Verb::Replay) else {
        panic!("locked again");
    };
    assert!(
        reason.contains("ran out at 2026-01-02 03:19:05Z"),
        "{reason}"
    );
    assert!(guard.may_prove(), "what was begun may be concluded");
}

#[test]
fn staging_needs_no_unlock_but_its_rights() {
    let mut context = context(Environment::Staging);
    context.rights = vec![Verb::Discard];
    let guard = guard(context, false);
    assert_eq!(guard.access(), Access::Writable);
    assert_eq!(check_of(guard.check_verb(Verb::Discard)), "ok");
    let Err(OperateError::Refused { check, reason }) = guard.check_verb(Verb::Replay) else {
        panic!("replay is not among the rights");
    };
    assert_eq!(check, "rights");
    assert!(reason.contains("contexts.shop.rights"), "{reason}");
    assert!(reason.contains("(discard)"), "{reason}");
}

#[test]
fn a_blank_reason_is_no_reason() {
    let context = context(Environment::Sandbox);
    let guard = guard(context.clone(), false);
    let plan = plan(&context, Verb::Replay);
    for blank in ["", "  ", "\t\n"] {
        assert_eq!(
            check_of(guard.check_apply(&plan, &because(blank))),
            "reason"
        );
    }
    assert_eq!(check_of(guard.check_apply(&plan, &because("4.2.1"))), "ok");
}

#[test]
fn what_must_be_typed_is_compared_exactly() {
    let context = context(Environment::Sandbox);
    let guard = guard(context.clone(), false);
    let mut plan = plan(&context, Verb::Release);
    plan.confirm = ConfirmRules {
        context_name: Some("shop".to_owned()),
        count: Some(3),
        ticket_pattern: Some("OPS-##".to_owned()),
        word: Some("again".to_owned()),
        told: None,
    };
    let plan = plan.sealed();
    let mut answer = because("x");
    assert_eq!(check_of(guard.check_apply(&plan, &answer)), "ticket");
    answer.ticket = Some("OPS-12".to_owned());
    assert_eq!(check_of(guard.check_apply(&plan, &answer)), "context_name");
    answer.context_name = Some("Shop".to_owned());
    assert_eq!(check_of(guard.check_apply(&plan, &answer)), "context_name");
    answer.context_name = Some("shop".to_owned());
    assert_eq!(check_of(guard.check_apply(&plan, &answer)), "count");
    answer.count = Some(2);
    assert_eq!(check_of(guard.check_apply(&plan, &answer)), "count");
    answer.count = Some(3);
    assert_eq!(check_of(guard.check_apply(&plan, &answer)), "word");
    answer.word = Some("again".to_owned());
    assert_eq!(check_of(guard.check_apply(&plan, &answer)), "ok");
}

#[test]
fn a_plan_that_was_changed_or_refused_is_not_applied() {
    let context = context(Environment::Sandbox);
    let guard = guard(context.clone(), false);
    let mut changed = plan(&context, Verb::Release);
    changed.frozen = Frozen::Release {
        claim_token: ClaimToken::new("t-2"),
    };
    assert_eq!(
        check_of(guard.check_apply(&changed, &because("x"))),
        "digest"
    );

    let mut refused = plan(&context, Verb::Replay);
    refused.preflight.push(PreflightLine::new(
        "inbox_retention",
        Level::Overridable,
        "too old",
    ));
    let refused = refused.sealed();
    assert_eq!(
        check_of(guard.check_apply(&refused, &because("x"))),
        "inbox_retention"
    );

    let mut elsewhere = plan(&context, Verb::Replay);
    elsewhere.context = "shop-prod".to_owned();
    let elsewhere = elsewhere.sealed();
    assert_eq!(
        check_of(guard.check_apply(&elsewhere, &because("x"))),
        "context_name"
    );
}

#[rstest]
#[case("OPS-####", "OPS-1234", true)]
#[case("OPS-####", "OPS-12345", true)]
#[case("OPS-####", "OPS-123", false)]
#[case("OPS-#", "OPS-", false)]
#[case("OPS-#", "ops-1", false)]
#[case("OPS-#", "OPS-1 ", false)]
#[case("#/#", "12/34", true)]
#[case("", "", true)]
#[case("INC", "INC", true)]
fn tickets(#[case] pattern: &str, #[case] ticket: &str, #[case] fits: bool) {
    assert_eq!(is_ticket(pattern, ticket), fits);
}

#[rstest]
#[case("order.*", "order.created", true)]
#[case("order.*", "order.line.added", true)]
#[case("order.*", "orders.created", false)]
#[case("order.created", "order.created", true)]
#[case("order.created", "order.created.v2", false)]
#[case("*.cancelled", "order.cancelled", true)]
#[case("*.cancelled", "order.cancelled.v2", false)]
#[case("order.*.v2", "order.created.v2", true)]
#[case("*", "anything", true)]
#[case("a*a", "a", false)]
fn never_replay_patterns(#[case] pattern: &str, #[case] event_type: &str, #[case] fits: bool) {
    let patterns = [pattern.to_owned()];
    assert_eq!(first_match(&patterns, event_type).is_some(), fits);
}
