//! Sagas: starting, moving under a lock, claims with token and lease, and what a person does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive::model::audit::AuditRecord;
use redrive::model::ids::{EventId, OperationId, SagaId};
use redrive::model::operation::Verb;
use redrive::model::saga::manual::Manual;
use redrive::model::saga::{NewSaga, NewStep, Saga, SagaRef, SagaState, StepState};
use redrive::store::{
    Begun, Guarded, NewOperation, SagaAction, SagaClaimRequest, Store, StoreError, Value,
};

use super::fixture::Fixture;

const HOUR: Duration = Duration::from_hours(1);

fn new_saga(key: &str) -> NewSaga {
    let step = |name: &str, undo: bool| NewStep {
        name: name.to_owned(),
        forward_key: format!("{key}:{name}"),
        compensation_key: undo.then(|| format!("{key}:{name}:undo")),
    };
    NewSaga {
        saga_id: SagaId::generate(),
        saga_type: "order".to_owned(),
        business_key: key.to_owned(),
        data: "{\"amount\":1.10}".to_owned(),
        deadline: HOUR,
        expires: Some(HOUR * 2),
        steps: vec![step("reserve", true), step("confirm", false)],
    }
}

async fn begin(store: &dyn Store, key: &str) -> SagaId {
    let new = new_saga(key);
    let mut tx = store.begin().await.expect("begins");
    assert_eq!(tx.saga_start(&new).await, Ok(true));
    tx.commit().await.expect("commits");
    new.saga_id
}

async fn read(store: &dyn Store, id: &SagaId) -> Saga {
    store.saga(id).await.expect("reads").expect("is there")
}

fn request(rows_max: u32, lease: Duration) -> SagaClaimRequest {
    SagaClaimRequest {
        saga_type: "order".to_owned(),
        rows_max,
        lease,
        by: "coordinator A".to_owned(),
    }
}

pub async fn a_saga_starts_once_and_reads_back(f: &Fixture) {
    let id = begin(f.store.as_ref(), "7").await;
    let saga = read(f.store.as_ref(), &id).await;
    assert_eq!(saga.state, SagaState::Running);
    assert_eq!((saga.version, saga.failures), (1, 0));
    let from_start = |at: Option<redrive::base::clock::Timestamp>| {
        at.expect("a time").seconds_since(saga.created_at).round()
    };
    assert!((from_start(saga.deadline_at) - 3_600.0).abs() < 2.0);
    assert!((from_start(saga.expires_at) - 7_200.0).abs() < 2.0);
    let sides: Vec<_> = saga
        .steps
        .iter()
        .map(|s| (s.forward, s.compensation))
        .collect();
    assert_eq!(
        sides,
        [
            (StepState::Pending, StepState::Pending),
            (StepState::Pending, StepState::Skipped)
        ]
    );
    let mut tx = f.store.begin().await.expect("begins");
    assert_eq!(tx.saga_start(&new_saga("7")).await, Ok(false));
    let refs = [
        SagaRef::Id(id.clone()),
        SagaRef::Key("7:reserve".to_owned()),
        SagaRef::Key("7:reserve:undo".to_owned()),
        SagaRef::Business {
            saga_type: "order".to_owned(),
            business_key: "7".to_owned(),
        },
    ];
    for of in refs {
        let work = tx.saga(&of).await.expect("locks").expect("is there");
        assert_eq!(work.saga, saga);
        assert_eq!(work.data, "{\"amount\":1.10}");
        assert!(work.now >= saga.created_at);
    }
    let nobody = tx.saga(&SagaRef::Key("8:reserve".to_owned())).await;
    assert_eq!(nobody, Ok(None));
    tx.rollback().await.expect("rolls back");
    let prefix = id.as_str().get(..13).expect("long");
    let found = f.store.sagas_by_prefix(prefix).await.expect("finds");
    assert_eq!(found, [saga]);
    assert_eq!(f.store.sagas_by_prefix("%%%%").await, Ok(vec![]));
}

pub async fn a_move_is_guarded_by_its_version_and_writes_what_changed(f: &Fixture) {
    let id = begin(f.store.as_ref(), "7").await;
    let mut tx = f.store.begin().await.expect("begins");
    let work = tx
        .saga(&SagaRef::Id(id.clone()))
        .await
        .expect("locks")
        .expect("there");
    let mut after = work.saga.clone();
    after.due_at = Some(work.now.plus(HOUR));
    after.attention = Some("look".to_owned());
    after.steps[0].forward = StepState::InFlight;
    after.steps[0].attempts = 1;
    after.steps[0].timeout_at = Some(work.now.plus(HOUR));
    after.steps[0].event_id = Some(EventId::new("e-1"));
    assert_eq!(
        tx.saga_move(&work.saga, &after, None).await,
        Ok(Guarded::Done)
    );
    assert_eq!(
        tx.saga_move(&work.saga, &after, None).await,
        Ok(Guarded::LostRace),
        "the version is another now"
    );
    tx.commit().await.expect("commits");
    let moved = read(f.store.as_ref(), &id).await;
    assert_eq!(moved.version, 2);
    assert_eq!(moved.due_at, after.due_at);
    assert_eq!(moved.attention, after.attention);
    assert_eq!(moved.steps[0].timeout_at, after.steps[0].timeout_at);
    assert_eq!(moved.steps[0].event_id, after.steps[0].event_id);
    assert_eq!(moved.steps[1], work.saga.steps[1]);
    let listed = f.store.sagas(5).await.expect("lists");
    assert_eq!(listed, std::slice::from_ref(&moved));
    let open = f.store.sagas_open(5).await.expect("lists");
    let bare = Saga {
        steps: vec![],
        ..moved.clone()
    };
    assert_eq!(open, [bare]);

    // Another question changes timers only: what a person planned on is still what is there.
    let mut tx = f.store.begin().await.expect("begins");
    let work = tx
        .saga(&SagaRef::Id(id.clone()))
        .await
        .expect("locks")
        .expect("there");
    let mut asked = work.saga.clone();
    asked.steps[0].queries = 1;
    asked.steps[0].timeout_at = Some(work.now.plus(HOUR * 2));
    asked.due_at = asked.steps[0].timeout_at;
    assert_eq!(
        tx.saga_move(&work.saga, &asked, None).await,
        Ok(Guarded::Done)
    );
    tx.commit().await.expect("commits");
    let asked_row = read(f.store.as_ref(), &id).await;
    assert_eq!(
        (asked_row.version, asked_row.updated_at),
        (2, moved.updated_at)
    );
    assert_eq!(asked_row.steps[0].updated_at, moved.steps[0].updated_at);
    assert_eq!(asked_row.steps[0].queries, 1);
    assert_eq!(asked_row.due_at, asked.due_at);
    assert_eq!(
        f.store
            .claim_sagas(&request(5, HOUR))
            .await
            .expect("claims")
            .sagas
            .len(),
        0,
        "its timer is in an hour"
    );
}

pub async fn a_claim_takes_the_longest_due_and_its_token_fences(f: &Fixture) {
    let mut ids = Vec::new();
    for key in ["1", "2", "3"] {
        ids.push(begin(f.store.as_ref(), key).await);
    }
    let claim = f
        .store
        .claim_sagas(&request(2, HOUR))
        .await
        .expect("claims");
    let taken: Vec<_> = claim
        .sagas
        .iter()
        .map(|work| work.saga.saga_id.clone())
        .collect();
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0], ids[0], "longest due first");
    assert_eq!(claim.sagas[0].saga.steps.len(), 2);
    let other = f.another();
    let rest = other.claim_sagas(&request(5, HOUR)).await.expect("claims");
    assert_eq!(rest.sagas.len(), 1);
    assert_eq!(
        other
            .claim_sagas(&request(5, HOUR))
            .await
            .expect("claims")
            .sagas
            .len(),
        0
    );
    let mut foreign = request(5, HOUR);
    "trip".clone_into(&mut foreign.saga_type);
    assert_eq!(
        f.store
            .claim_sagas(&foreign)
            .await
            .expect("claims")
            .sagas
            .len(),
        0
    );

    let held = read(f.store.as_ref(), &ids[0]).await;
    assert_eq!(held.leased_by.as_deref(), Some("coordinator A"));
    let move_by = async |token| {
        let mut tx = f.store.begin().await.expect("begins");
        let work = tx
            .saga(&SagaRef::Id(ids[0].clone()))
            .await
            .expect("locks")
            .expect("there");
        let after = Saga {
            due_at: None,
            ..work.saga.clone()
        };
        let moved = tx
            .saga_move(&work.saga, &after, Some(token))
            .await
            .expect("writes");
        tx.commit().await.expect("commits");
        moved
    };
    assert_eq!(move_by(&rest.token).await, Guarded::LostRace);
    assert_eq!(move_by(&claim.token).await, Guarded::Done);
    assert_eq!(
        move_by(&claim.token).await,
        Guarded::LostRace,
        "the claim is over"
    );
    assert_eq!(read(f.store.as_ref(), &ids[0]).await.leased_by, None);
}

pub async fn s_04_a_saga_put_off_is_listed_and_holds_up_no_other(f: &Fixture) {
    let bad = begin(f.store.as_ref(), "1").await;
    let claim = f
        .store
        .claim_sagas(&request(1, HOUR))
        .await
        .expect("claims");
    let put_off = f
        .store
        .postpone_saga(&claim.token, &bad, "no such hotel", HOUR)
        .await;
    assert_eq!(put_off, Ok(Guarded::Done));
    let good = begin(f.store.as_ref(), "2").await;
    let next = f
        .store
        .claim_sagas(&request(1, HOUR))
        .await
        .expect("claims");
    assert_eq!(next.sagas[0].saga.saga_id, good);
    let listed = f.store.sagas(5).await.expect("lists");
    assert_eq!(listed[0].saga_id, bad);
    assert_eq!(listed[0].failures, 1);
    assert_eq!(listed[0].last_error.as_deref(), Some("no such hotel"));
    assert!(listed[0].needs_attention());
    let again = f
        .store
        .postpone_saga(&claim.token, &bad, "late", HOUR)
        .await;
    assert_eq!(again, Ok(Guarded::LostRace));
}

pub async fn a_claim_whose_lease_is_over_is_due_again(f: &Fixture) {
    let id = begin(f.store.as_ref(), "1").await;
    let first = f
        .store
        .claim_sagas(&request(1, Duration::ZERO))
        .await
        .expect("claims");
    assert_eq!(first.sagas.len(), 1);
    let second = f
        .store
        .claim_sagas(&request(1, HOUR))
        .await
        .expect("claims");
    assert_eq!(second.sagas[0].saga.saga_id, id);
    let late = f.store.postpone_saga(&first.token, &id, "late", HOUR).await;
    assert_eq!(late, Ok(Guarded::LostRace));
}

fn operation(verb: Verb) -> (NewOperation, AuditRecord) {
    let operation = NewOperation {
        operation_id: OperationId::generate(),
        verb,
        actor: "mia@oncall".to_owned(),
        reason: "stuck".to_owned(),
        ticket: None,
        plan_digest: "d".repeat(64),
        plan: "{}".to_owned(),
    };
    let record = AuditRecord {
        actor: operation.actor.clone(),
        action: verb.word().to_owned(),
        phase: "intent".to_owned(),
        operation_id: Some(operation.operation_id.clone()),
        subject: "saga".to_owned(),
        reason: operation.reason.clone(),
        detail: "{}".to_owned(),
    };
    (operation, record)
}

pub async fn a_person_s_action_is_one_audited_transaction(f: &Fixture) {
    let id = begin(f.store.as_ref(), "7").await;
    let mut tx = f.store.begin().await.expect("begins");
    let statement = "UPDATE saga_steps SET forward_state = 'in_flight' WHERE step_no = ?";
    tx.execute(statement, &[Value::Int(1)])
        .await
        .expect("executes");
    tx.commit().await.expect("commits");
    let claim = f
        .store
        .claim_sagas(&request(1, HOUR))
        .await
        .expect("claims");
    let action = |version, manual| SagaAction {
        saga_id: id.clone(),
        version,
        step: None,
        manual,
        told: "asked the coordinator to ask".to_owned(),
    };
    let (operation_1, record) = operation(Verb::SagaQuery);
    let query = action(1, Manual::Query);
    let begun = f.store.act_on_saga(&operation_1, &query, &record).await;
    assert_eq!(begun, Ok(Begun::Started));
    let asked = read(f.store.as_ref(), &id).await;
    assert_eq!(asked.steps[0].forward, StepState::Unknown);
    assert_eq!(asked.version, 2);
    assert_eq!(asked.leased_by, None, "the claim is over");
    let late = f.store.postpone_saga(&claim.token, &id, "late", HOUR).await;
    assert_eq!(late, Ok(Guarded::LostRace), "its holder is fenced off");

    let twice = f.store.act_on_saga(&operation_1, &query, &record).await;
    assert!(matches!(twice, Ok(Begun::Held { .. })), "{twice:?}");
    let (operation_2, record) = operation(Verb::SagaRetry);
    let stale = f
        .store
        .act_on_saga(&operation_2, &action(1, Manual::Retry), &record)
        .await;
    assert!(matches!(stale, Ok(Begun::Drifted { .. })), "{stale:?}");
    let (operation_3, record) = operation(Verb::SagaAssign);
    let mia = action(2, Manual::Assign(Some("mia".to_owned())));
    let begun = f.store.act_on_saga(&operation_3, &mia, &record).await;
    assert_eq!(begun, Ok(Begun::Started));
    assert_eq!(
        read(f.store.as_ref(), &id).await.owner.as_deref(),
        Some("mia")
    );
    let (operation_4, record) = operation(Verb::SagaRetry);
    let missing = SagaAction {
        saga_id: SagaId::generate(),
        ..action(1, Manual::Retry)
    };
    let begun = f.store.act_on_saga(&operation_4, &missing, &record).await;
    assert_eq!(begun, Ok(Begun::Missing));
    let kept = f
        .store
        .operation(&operation_1.operation_id)
        .await
        .expect("reads");
    assert_eq!(kept.expect("is there").items.len(), 1);
    assert_eq!(f.store.audit_verify().await, Ok(Ok(2)));
}

pub async fn two_movers_of_one_saga_wait_for_each_other(f: &Fixture) {
    let id = begin(f.store.as_ref(), "7").await;
    let mut first = f.store.begin().await.expect("begins");
    let work = first
        .saga(&SagaRef::Id(id.clone()))
        .await
        .expect("locks")
        .expect("there");
    let after = Saga {
        attention: Some("look".to_owned()),
        ..work.saga.clone()
    };
    let other = f.another();
    let second = async {
        let mut tx = other.begin().await?;
        let work = tx.saga(&SagaRef::Id(id.clone())).await?;
        tx.rollback().await?;
        Ok::<_, redrive::store::StoreError>(work.map(|work| work.saga.version))
    };
    let finish = async {
        first.saga_move(&work.saga, &after, None).await?;
        first.commit().await
    };
    let (second, finished) = futures::join!(second, finish);
    assert_eq!(finished, Ok(()));
    // SQLite may answer busy instead of waiting; it never answers the old version after the commit.
    if f.product != "sqlite" {
        assert_eq!(second, Ok(Some(2)));
    }
}

pub async fn sagas_come_list_after_list_and_within_the_limit(f: &Fixture) {
    let mut ids = Vec::new();
    for (n, state) in [
        "completed",
        "running",
        "compensated",
        "compensation_failed",
        "compensating",
        "completed",
        "compensation_failed",
    ]
    .iter()
    .enumerate()
    {
        let id = begin(f.store.as_ref(), &n.to_string()).await;
        f.sql(format!(
            "UPDATE sagas SET state = '{state}' WHERE saga_id = '{id}'"
        ))
        .await;
        ids.push(id);
    }
    let waits = format!(
        "UPDATE sagas SET attention = 'look', attention_at = created_at WHERE saga_id = '{}'",
        ids[4]
    );
    f.sql(waits).await;
    let order = [3, 6, 4, 1, 2, 5, 0].map(|n| ids[n].clone());
    let listed = async |rows_max| {
        let sagas = f.store.sagas(rows_max).await.expect("lists").into_iter();
        sagas.map(|saga| saga.saga_id).collect::<Vec<_>>()
    };
    assert_eq!(listed(50).await, order);
    assert_eq!(listed(3).await, order[..3]);
    let open = f.store.sagas_open(50).await.expect("lists").into_iter();
    let open: Vec<_> = open.map(|saga| saga.saga_id).collect();
    assert_eq!(open, order[..4]);
}

/// The lists are read in one statement: what leaves one for the next meanwhile is in one of them.
pub async fn a_saga_that_moves_from_list_to_list_is_in_every_look(f: &Fixture) {
    let id = begin(f.store.as_ref(), "7").await;
    let other = f.another();
    let is_over = AtomicBool::new(false);
    let moves = async {
        let mut n = 0_u32;
        while !is_over.load(Ordering::SeqCst) {
            n += 1;
            let state = ["running", "compensation_failed", "completed"][n as usize % 3];
            f.sql(format!(
                "UPDATE sagas SET state = '{state}' WHERE saga_id = '{id}'"
            ))
            .await;
        }
        n
    };
    let looks = async {
        let mut found = Vec::new();
        for _ in 0..200 {
            found.push(other.sagas(5).await.expect("lists").len());
        }
        is_over.store(true, Ordering::SeqCst);
        found
    };
    let (moved, found) = tokio::join!(moves, looks);
    assert!(moved >= 20, "it moved {moved} times");
    assert_eq!(found, [1; 200]);
}

/// Two consumers look for a row, find none, and insert it: who comes second tries again and finds it.
pub async fn an_effect_whose_row_was_written_meanwhile_is_tried_again(f: &Fixture) {
    let insert = "INSERT INTO sagas (saga_id, saga_type, business_key) VALUES (?, 'order', '7')";
    let find = "SELECT saga_id FROM sagas WHERE saga_type = 'order' AND business_key = ?";
    let key = [Value::Text("7".to_owned())];
    let id = |text: &str| [Value::Text(text.to_owned())];
    let other = f.another();
    // SQLite writes one after the other, so there the second begins when the first is over.
    let is_at_once = f.product != "sqlite";
    let mut late = None;
    if is_at_once {
        let mut tx = other.begin().await.expect("begins");
        assert_eq!(tx.fetch_one(find, &key).await, Ok(None));
        late = Some(tx);
    }
    let mut first = f.store.begin().await.expect("begins");
    assert_eq!(first.execute(insert, &id("a")).await, Ok(1));
    first.commit().await.expect("commits");
    let mut late = match late {
        Some(tx) => tx,
        None => other.begin().await.expect("begins"),
    };
    let lost = late.execute(insert, &id("b")).await;
    assert!(
        matches!(lost, Err(StoreError::Contended { .. })),
        "not a refusal for good: {lost:?}"
    );
    late.rollback().await.expect("rolls back");
    let mut again = other.begin().await.expect("begins");
    let found = again.fetch_one(find, &key).await;
    assert_eq!(found, Ok(Some(vec![Value::Text("a".to_owned())])));
    again.rollback().await.expect("rolls back");
}

pub async fn a_migration_that_stopped_half_way_is_run_again(f: &Fixture) {
    f.sql("DELETE FROM redrive_migrations WHERE name = '0009_saga_coordinator.sql'")
        .await;
    let plan = f.store.migrate(false).await.expect("plans");
    let missing: Vec<_> = plan.iter().filter(|step| !step.is_applied).collect();
    assert_eq!(missing.len(), 1);
    let done = f
        .store
        .migrate(true)
        .await
        .expect("every column is there already");
    assert!(done.iter().all(|step| step.is_applied));
    begin(f.store.as_ref(), "7").await;
}
