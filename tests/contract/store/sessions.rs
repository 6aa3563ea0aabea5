//! Sessions, rights, migrations, checks, and callers that go away.

use std::time::Duration;

use redrive::model::operation::Verb;
use redrive::model::outbox::OutboxState;
use redrive::store::{CheckLevel, CheckLine, ClaimRequest, StoreError};

use super::fixture::{
    Fixture, audit, claim, death, emit, leak, message, native, open, operation, outbox_part, rows,
    service,
};
use super::trouble::LOOKS;

pub async fn q_06_sessions_are_utc_whatever_the_server_says(f: &Fixture) {
    if f.product == "sqlite" {
        return; // Times are microseconds since the epoch.
    }
    assert_eq!(
        f.number("SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), NOW(6)) DIV 1000000")
            .await,
        0
    );
    // A producer that lets the server fill in the time in a UTC session.
    f.sql(
        "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload) \
         VALUES ('e-1', 'order-42', 1, 'order.created', '{}')",
    )
    .await;
    let counts = f.store.outbox_counts().await.expect("counts");
    assert!(counts.oldest_due_s.is_some_and(|s| s < 5.0), "{counts:?}");
    let ours = redrive::base::clock::Clock::System.now();
    assert!(ours.seconds_since(counts.database_now).abs() < 5.0);
    assert_eq!(claim(&f.store, 1).await.events.len(), 1);
    let probe = f.store.probe().await.expect("probes");
    assert!(probe.skew_us.abs() < 5_000_000, "{probe:?}");
    assert_eq!(f.store.facts().product, f.product);
}

pub async fn q_08_no_named_time_zone_is_needed(f: &Fixture) {
    if f.product == "sqlite" {
        return; // It has no time zones.
    }
    let offset = "SELECT @@session.time_zone = '+00:00'";
    assert_eq!(f.number(offset).await, 1, "an offset, not a name");
    assert_eq!(
        f.number("SELECT CONVERT_TZ(NOW(), '+00:00', 'Europe/Berlin') IS NULL")
            .await,
        1,
        "the test server has no names loaded, as a fresh one"
    );
}

pub async fn p_07_sessions_are_strict(f: &Fixture) {
    if f.product == "sqlite" {
        return; // TEXT has no length there.
    }
    let mut tx = f.store.begin().await.expect("begins");
    let statement = leak(format!(
        "INSERT INTO consumer_inbox (consumer_name, event_id, payload_sha256) VALUES ('c', 'e', '{}')",
        "a".repeat(65)
    ));
    let refused = tx.execute(statement, &[]).await;
    assert!(
        matches!(refused, Err(StoreError::Failed { .. })),
        "{refused:?}"
    );
    tx.rollback().await.expect("rolls back");
}

pub async fn a_read_only_store_never_writes(f: &Fixture) {
    let id = f.bury("e-1").await;
    f.emit(&["e-1"]).await;
    let reader = f.read_only();
    assert_eq!(rows(&reader, OutboxState::Pending).await.len(), 1);
    let request = ClaimRequest {
        batch_rows: 1,
        lease: Duration::from_secs(1),
    };
    let denied = |error: Option<StoreError>| {
        assert!(
            matches!(error, Some(StoreError::Denied { .. })),
            "{error:?}"
        );
    };
    denied(reader.claim_batch(&request).await.err());
    denied(reader.begin().await.err());
    denied(reader.record_death(&death("e-2")).await.err());
    denied(reader.migrate(true).await.err());
    let discard = operation(Verb::Discard);
    let reservation = f.reservation(&id).await;
    denied(
        reader
            .close_dead_letter(&discard, &reservation, false, &audit(&discard, "outcome"))
            .await
            .err(),
    );
    assert!(
        reader
            .migrate(false)
            .await
            .expect("reads")
            .iter()
            .all(|s| s.is_applied)
    );
    reader.close().await;
}

pub async fn migrations_are_idempotent_and_renamed_tables_work(f: &Fixture) {
    let applied = f.store.migrate(true).await.expect("migrates again");
    assert!(applied.iter().all(|step| step.is_applied));
    let names: Vec<_> = applied.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"0001_outbox.sql"));
    let renamed = f.with(|service, _| {
        let mut outbox = outbox_part("native");
        outbox.table = Some("shop outbox".into());
        service.outbox = Some(outbox);
        if let Some(letters) = service.dead_letters.as_mut() {
            letters.table = Some("shop_letters".into());
        }
    });
    let plan = renamed.migrate(false).await.expect("plans");
    assert_eq!(plan.iter().filter(|step| !step.is_applied).count(), 2);
    renamed.migrate(true).await.expect("migrates");
    emit(&renamed, &["e-1"]).await;
    assert_eq!(claim(&renamed, 1).await.events.len(), 1);
    assert!(f.ids(OutboxState::Pending).await.is_empty());
    renamed.record_death(&death("e-1")).await.expect("records");
    let groups = renamed.dead_letter_groups().await.expect("groups");
    assert_eq!(groups.groups.len(), 1);
    assert!(
        f.store
            .dead_letter_groups()
            .await
            .expect("groups")
            .groups
            .is_empty()
    );
    renamed.close().await;
}

pub async fn check_finds_what_is_missing(f: &Fixture) {
    let lines = f.store.check().await;
    let bad: Vec<_> = lines
        .iter()
        .filter(|line| line.level > CheckLevel::Warning)
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert!(
        lines
            .iter()
            .any(|line| line.subject == "table outbox_events")
    );
    let drop_index = match f.product {
        "sqlite" => "DROP INDEX outbox_due",
        _ => "DROP INDEX outbox_due ON outbox_events",
    };
    f.sql(drop_index).await;
    f.sql("DROP TABLE operation_items").await;
    f.sql("ALTER TABLE consumer_inbox RENAME COLUMN payload_sha256 TO digest")
        .await;
    let lines = f.another().check().await;
    let finding = |subject: &str| {
        lines
            .iter()
            .find(|line| line.subject == subject)
            .unwrap_or_else(|| panic!("no line for {subject}: {lines:?}"))
    };
    assert!(
        finding("index of outbox_events")
            .finding
            .contains("next_attempt_at")
    );
    let table = finding("table operation_items");
    assert_eq!(table.level, CheckLevel::Problem);
    assert!(
        table.finding.contains("redrive migrate"),
        "{}",
        table.finding
    );
    assert!(
        finding("table consumer_inbox")
            .finding
            .contains("payload_sha256")
    );
}

/// Somebody's transaction is seen, and who may not see is told so instead of "none".
pub async fn q_14_the_oldest_open_transaction_is_told_or_not_known(f: &Fixture) {
    let find = |lines: Vec<CheckLine>| {
        lines
            .into_iter()
            .find(|line| line.subject == "oldest transaction")
    };
    let mut tx = f.store.begin().await.expect("begins");
    let read = tx
        .fetch_one("SELECT COUNT(*) FROM outbox_events", &[])
        .await;
    assert_eq!(read, Ok(Some(vec![redrive::store::Value::Int(0)])));
    if f.product == "sqlite" {
        assert_eq!(
            find(f.store.check().await),
            None,
            "has one writer at a time"
        );
        return tx.rollback().await.expect("ends");
    }
    // Other tests have transactions too: the oldest need not be this one.
    let seen = async {
        let mut ticks = tokio::time::interval(LOOKS);
        loop {
            ticks.tick().await;
            let line = find(f.store.check().await).expect("a line");
            if line.finding.contains(", connection ") {
                return line;
            }
        }
    };
    let line = tokio::time::timeout(Duration::from_secs(20), seen)
        .await
        .expect("is seen");
    assert!(line.finding.starts_with("open for "), "{line:?}");
    assert!(line.finding.contains("changes to purge"), "{line:?}");
    tx.rollback().await.expect("ends");

    let (name, blind) = f.with_rights("SELECT").await;
    let line = find(blind.check().await).expect("a line");
    assert_eq!(line.level, CheckLevel::Warning, "{line:?}");
    assert!(line.finding.contains("GRANT PROCESS"), "{line:?}");
    blind.close().await;
    f.sql(format!("DROP USER {name}")).await;
}

pub async fn q_15_dropped_calls_leave_no_transaction_open(f: &Fixture) {
    let ids: Vec<String> = (0..50).map(|n| format!("e-{n:02}")).collect();
    f.emit(&ids.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    // Callers give up after no time at all, some after a little.
    for n in 0..30 {
        let request = ClaimRequest {
            batch_rows: 1,
            lease: Duration::from_secs(30),
        };
        let died = redrive::model::dead_letter::NewDeath {
            message: message(b"x"),
            ..death(&format!("d-{n}"))
        };
        let patience = Duration::from_micros(n * 150);
        drop(tokio::time::timeout(patience, f.store.claim_batch(&request)).await);
        drop(tokio::time::timeout(patience, f.store.begin()).await);
        drop(tokio::time::timeout(patience, f.store.record_death(&died)).await);
    }
    // Every abandoned call ran to its end: nothing is locked, every session is usable.
    let mut left = 0;
    loop {
        let taken = claim(&f.store, 10).await;
        if taken.events.is_empty() {
            break;
        }
        left += taken.events.len();
    }
    let sending = f.ids(OutboxState::Sending).await.len();
    assert_eq!(sending, 50, "{left} were left");
    assert!(f.store.dead_letter_groups().await.is_ok());
}

/// Sessions are few: who finds none waits for one that comes back, wherever it is kept.
pub async fn more_callers_than_sessions_all_get_one(f: &Fixture) {
    let store = f.another();
    for _ in 0..3 {
        let reads = futures::future::join_all((0..40).map(|_| store.outbox_counts())).await;
        assert_eq!(reads.iter().filter(|read| read.is_err()).count(), 0);
    }
    store.close().await;
}

/// A session that the server closed while it rested costs one call at most. SQLite has no server.
pub async fn q_18_a_resting_session_that_was_killed_is_replaced(f: &Fixture) {
    if f.product == "sqlite" {
        return;
    }
    let (name, reader) = f.with_rights("SELECT").await;
    reader.outbox_counts().await.expect("reads");
    let user = name.split('\'').nth(1).expect("a user");
    let own = format!("FROM information_schema.processlist WHERE user = '{user}'");
    assert_eq!(f.number(format!("SELECT COUNT(*) {own}")).await, 1, "kept");
    let session = f.number(format!("SELECT MAX(id) {own}")).await;
    f.sql(format!("KILL {session}")).await;
    if let Err(error) = reader.outbox_counts().await {
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    reader.outbox_counts().await.expect("reads again");
    reader.close().await;
    // The server takes a moment to see that they have left.
    let gone = async { while f.number(format!("SELECT COUNT(*) {own}")).await > 0 {} };
    let gone = tokio::time::timeout(Duration::from_secs(10), gone).await;
    assert!(gone.is_ok(), "no session is left behind");
    f.sql(format!("DROP USER {name}")).await;
}

pub async fn sagas_that_need_attention_come_first(f: &Fixture) {
    let saga = |id: &str, state: &str, age_s: i64| {
        let at = f.moment(-age_s * 1_000_000);
        format!(
            "INSERT INTO sagas (saga_id, saga_type, business_key, state, created_at, updated_at) \
             VALUES ('{id}', 'order', 'order-{id}', '{state}', {at}, {at})"
        )
    };
    f.sql(saga("fresh", "running", 1)).await;
    f.sql(saga("stale", "running", 600)).await;
    f.sql(saga("broken", "compensation_failed", 5)).await;
    f.sql(saga("done", "completed", 900)).await;
    f.sql(
        "INSERT INTO saga_steps (saga_id, step_no, name, forward_state) \
         VALUES ('stale', 1, 'reserve_stock', 'in_flight')",
    )
    .await;
    let sagas = f.store.sagas(10).await.expect("reads");
    let order: Vec<_> = sagas.iter().map(|saga| saga.saga_id.as_str()).collect();
    assert_eq!(order, ["broken", "stale", "fresh", "done"]);
    assert_eq!(sagas[1].steps[0].name, "reserve_stock");
    assert_eq!(f.store.sagas(1).await.expect("reads").len(), 1);
    let open = f.store.sagas_open(10).await.expect("reads");
    let order: Vec<_> = open.iter().map(|saga| saga.saga_id.as_str()).collect();
    assert_eq!(order, ["broken", "stale", "fresh"]);
    assert!(open[1].steps.is_empty());
}

pub async fn a_missing_table_is_named(f: &Fixture) {
    f.sql("DROP TABLE outbox_events").await;
    let other = f.another();
    let error = other.outbox_counts().await.expect_err("no table");
    assert!(matches!(error, StoreError::Mapping { .. }), "{error}");
    assert!(error.to_string().contains("outbox_events"), "{error}");
    other.close().await;
}

/// Nobody listens there.
pub async fn a_server_that_is_not_there_is_unreachable() {
    let url = "mysql://ops:S3CRET-42@127.0.0.1:1/orders";
    let thresholds = redrive::config::Thresholds {
        statement_timeout: Duration::from_millis(300),
        ..redrive::config::Thresholds::default()
    };
    let store = redrive::store::sql::SqlStore::connect(&native(url), &thresholds, false)
        .expect("opening reaches nothing");
    let error = store.outbox_counts().await.expect_err("nobody is there");
    assert!(error.is_unreachable(), "{error}");
    let lines = store.check().await;
    assert_eq!(lines[0].level, CheckLevel::Unreachable);
    assert!(!format!("{error} {error:?} {lines:?}").contains("S3CRET-42"));
    let bad = redrive::store::sql::SqlStore::connect(
        &service("orders", "mysql://ops:p/S3CRET-42@db/orders"),
        &thresholds,
        false,
    );
    if let Err(error) = bad {
        assert!(
            !format!("{error} {error:?}").contains("S3CRET-42"),
            "{error}"
        );
    }
    drop(open(&native("sqlite::memory:"), false));
}

pub async fn a_row_that_cannot_fit_is_refused_and_the_session_lives(f: &Fixture) {
    if f.product == "sqlite" {
        return; // No packets there.
    }
    let max = f
        .number("SELECT CAST(@@max_allowed_packet AS SIGNED)")
        .await;
    let body = vec![b'x'; usize::try_from(max).expect("a size")];
    let huge = redrive::model::dead_letter::NewDeath {
        message: message(&body),
        ..death("e-huge")
    };
    let error = f.store.record_death(&huge).await.expect_err("too big");
    assert!(!error.is_retryable(), "{error}");
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    f.bury("e-1").await;
}
