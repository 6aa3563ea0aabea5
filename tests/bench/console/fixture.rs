//! Tables to measure on, made by the console's own migrations and filled by the database itself
//! (`INSERT .. SELECT` from its sequence tables): the same rows at every run.

use std::cell::RefCell;

use color_eyre::eyre::{Result, WrapErr};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::context::{Addresses, Home};
use crate::queues;
use crate::report::note;
use crate::servers::Servers;

/// Rows filled by one statement: keeps the undo log small.
const CHUNK: u64 = 100_000;

/// Which tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixture {
    /// 10 000 outbox rows: 4 000 pending (400 deferred), 500 claimed (100 expired), 1 500 failed,
    /// the rest sent.
    Small,
    /// 1 000 000 outbox rows, of which as many wait, are claimed or failed as in the small one:
    /// what grew is the history.
    Large,
    /// 1 080 000 outbox rows: a million due, 50 000 deferred, 20 000 failed, 2 000 claimed.
    Backlog,
}

impl Fixture {
    pub const fn database(self) -> &'static str {
        match self {
            Self::Small => "redrive_bench_small",
            Self::Large => "redrive_bench_large",
            Self::Backlog => "redrive_bench_backlog",
        }
    }

    pub const fn rows(self) -> u64 {
        match self {
            Self::Small => 10_000,
            Self::Large => 1_000_000,
            Self::Backlog => 1_080_000,
        }
    }
}

/// A filled database and a configuration that names it.
pub struct Ready {
    pub fixture: Fixture,
    pub url: String,
    pub home: Home,
}

/// Fills each fixture when it is first asked for.
pub struct Fixtures<'a> {
    servers: &'a Servers,
    filled: RefCell<Vec<Fixture>>,
}

impl<'a> Fixtures<'a> {
    pub const fn new(servers: &'a Servers) -> Self {
        Self {
            servers,
            filled: RefCell::new(Vec::new()),
        }
    }

    pub fn ready(&self, fixture: Fixture) -> Result<Ready> {
        let url = self.servers.database(fixture.database());
        let home = Home::new(&Addresses {
            database: url.clone(),
            amqp: self.servers.amqp.clone(),
            management: self.servers.management.clone(),
        })?;
        if !self.filled.borrow().contains(&fixture) {
            note(&format!(
                "filling {} with {} rows",
                fixture.database(),
                fixture.rows()
            ));
            let runtime = tokio::runtime::Runtime::new()?;
            runtime
                .block_on(fill(fixture, self.servers, &url, &home))
                .wrap_err_with(|| format!("fixture {}", fixture.database()))?;
            self.filled.borrow_mut().push(fixture);
        }
        Ok(Ready { fixture, url, home })
    }
}

/// What is filled.
const TABLES: [&str; 8] = [
    "outbox_events",
    "consumer_inbox",
    "dead_letters",
    "dead_letter_deaths",
    "operations",
    "audit_log",
    "sagas",
    "saga_steps",
];

async fn fill(fixture: Fixture, servers: &Servers, url: &str, home: &Home) -> Result<()> {
    let database = fixture.database();
    let mut server = MySqlConnection::connect(&servers.mariadb).await?;
    run(&mut server, &format!("DROP DATABASE IF EXISTS {database}")).await?;
    run(&mut server, &format!("CREATE DATABASE {database}")).await?;
    queues::declare(&servers.amqp).await?;
    let services = home.services()?;
    services.migrate("shop", true).await?;
    services.close().await;
    let mut connection = MySqlConnection::connect(url).await?;
    run(
        &mut connection,
        "SET time_zone = '+00:00', unique_checks = 0, @now = UTC_TIMESTAMP(6)",
    )
    .await?;
    let rows = fixture.rows();
    for from in (1..=rows).step_by(usize::try_from(CHUNK)?) {
        let to = rows.min(from + CHUNK - 1);
        run(&mut connection, &outbox(fixture, from, to)).await?;
        if fixture != Fixture::Backlog {
            run(&mut connection, &inbox(rows, from, to)).await?;
        }
    }
    for statement in journal(rows) {
        run(&mut connection, &statement).await?;
    }
    for table in TABLES {
        run(&mut connection, &format!("ANALYZE TABLE {table}")).await?;
    }
    Ok(())
}

async fn run(connection: &mut MySqlConnection, statement: &str) -> Result<()> {
    sqlx::query(AssertSqlSafe(statement.to_owned()))
        .execute(connection)
        .await
        .wrap_err_with(|| statement.chars().take(60).collect::<String>())?;
    Ok(())
}

/// A UUIDv7 whose time grows with `seq`, as a producer makes them; `kind` keeps ids of tables apart.
fn uuid(kind: &str) -> String {
    let digest = format!("MD5(CONCAT('{kind}', seq))");
    format!(
        "LOWER(CONCAT(LPAD(HEX(seq), 8, '0'), '-c3f2-7', SUBSTR({digest}, 1, 3), \
         '-9', SUBSTR({digest}, 4, 3), '-', SUBSTR({digest}, 7, 12)))"
    )
}

/// Rows `from` to `to` of the outbox, oldest first, two a second, the newest now.
fn outbox(fixture: Fixture, from: u64, to: u64) -> String {
    let rows = fixture.rows();
    let id = uuid("event");
    let (state, is_deferred, is_overdue) = match fixture {
        Fixture::Backlog => (
            "CASE WHEN age < 200 THEN 'sent' WHEN age < 2200 THEN 'sending' \
             WHEN age < 22200 THEN 'failed' ELSE 'pending' END",
            "age MOD 20 = 0",
            "FALSE",
        ),
        Fixture::Small | Fixture::Large => (
            "CASE WHEN age < 200 THEN 'sent' WHEN age < 4200 THEN 'pending' \
             WHEN age < 4700 THEN 'sending' WHEN age < 6200 THEN 'failed' ELSE 'sent' END",
            "age MOD 10 = 0",
            "age < 4300",
        ),
    };
    format!(
        "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload, \
           status, attempts, next_attempt_at, claim_token, lease_until, last_error, created_at, sent_at) \
         SELECT {id}, CONCAT('order-', seq DIV 3), seq MOD 3 + 1, \
           ELT(seq MOD 4 + 1, 'order.created', 'order.paid', 'order.shipped', 'order.cancelled'), \
           CONCAT('{{\"order_id\":', seq DIV 3, ',\"total\":', seq MOD 9973, \
             '.50,\"note\":\"', REPEAT('x', 150), '\"}}'), \
           state, CASE state WHEN 'pending' THEN 0 WHEN 'failed' THEN 8 ELSE 1 END, \
           IF(state = 'pending' AND {is_deferred}, @now + INTERVAL 1 DAY, made), \
           IF(state = 'sending', CONCAT('00000000-0000-4000-8000-', LPAD(age DIV 100, 12, '0')), NULL), \
           IF(state = 'sending', @now + INTERVAL IF({is_overdue}, -10, 3600) SECOND, NULL), \
           IF(state = 'failed', 'no route for order.created', NULL), \
           made, IF(state = 'sent', made + INTERVAL 200000 MICROSECOND, NULL) \
         FROM (SELECT seq, age, @now - INTERVAL (age + 1) * 500000 MICROSECOND AS made, {state} AS state \
               FROM (SELECT seq, {rows} - seq AS age FROM seq_{from}_to_{to}) ages) rows_to_fill"
    )
}

/// As many inbox rows as events, with the same ids and times.
fn inbox(rows: u64, from: u64, to: u64) -> String {
    let id = uuid("event");
    format!(
        "INSERT INTO consumer_inbox (consumer_name, event_id, payload_sha256, processed_at) \
         SELECT 'shop', {id}, SHA2(seq, 256), @now - INTERVAL ({rows} - seq) * 500000 MICROSECOND \
         FROM seq_{from}_to_{to}"
    )
}

/// 2 000 open dead letters in twelve groups, whatever the table's size, and a tenth of the outbox
/// closed, with their deaths; operations and audit entries for a hundredth; 300 running sagas, and a
/// hundredth finished.
fn journal(rows: u64) -> Vec<String> {
    let id = uuid("letter");
    let letters = 2_000 + rows / 10;
    let log = rows / 100;
    let sagas = 300 + rows / 100;
    let ago = format!("@now - INTERVAL ({letters} - seq) SECOND");
    let logged = format!("@now - INTERVAL ({log} - seq) SECOND");
    vec![
        format!(
            "INSERT INTO dead_letters (dead_letter_id, consumer_name, event_id, aggregate_id, \
               aggregate_version, event_type, failed_queue, dead_letter_queue, reason, error_class, \
               first_died_at, last_died_at, status, properties, headers, payload, payload_bytes, \
               payload_sha256) \
             SELECT {id}, 'shop', {event}, CONCAT('order-', seq DIV 3), seq MOD 3 + 1, \
               ELT(seq MOD 4 + 1, 'order.created', 'order.paid', 'order.shipped', 'order.cancelled'), \
               'bench.shop', 'bench.shop.dlq', 'rejected', \
               ELT(seq MOD 3 + 1, 'decode', 'lock wait timeout', 'out of stock'), {ago}, {ago}, \
               IF(seq > {closed}, 'open', 'replayed'), '{{}}', '{{}}', REPEAT('x', 200), 200, \
               SHA2(seq, 256) \
             FROM seq_1_to_{letters}",
            event = uuid("event"),
            closed = letters - 2_000,
        ),
        format!(
            "INSERT INTO dead_letter_deaths (dead_letter_id, death_no, died_at, queue_name, reason, \
               fingerprint, recorded_at) \
             SELECT {id}, 1, {ago}, 'bench.shop', 'rejected', MD5(seq), {ago} \
             FROM seq_1_to_{letters}"
        ),
        format!(
            "INSERT INTO operations (operation_id, verb, state, actor, reason, plan_digest, plan_text, \
               created_at, finished_at) \
             SELECT {operation}, 'discard', 'finished', 'bench@localhost', 'fixture', MD5(seq), '{{}}', \
               {logged}, {logged} FROM seq_1_to_{log}",
            operation = uuid("operation"),
        ),
        format!(
            "INSERT INTO audit_log (seq, recorded_at, actor, action_word, phase, subject, reason, detail, \
               previous_hash, hash) \
             SELECT seq, {logged}, 'bench@localhost', 'discard', 'outcome', CONCAT('event ', seq), \
               'fixture', '{{}}', SHA2(seq - 1, 256), SHA2(seq, 256) FROM seq_1_to_{log}"
        ),
        format!(
            "INSERT INTO sagas (saga_id, saga_type, business_key, state, deadline_at, created_at, updated_at) \
             SELECT {saga}, 'order', CONCAT('order-', seq), IF(seq > {finished}, 'running', 'completed'), \
               {made} + INTERVAL 1 HOUR, {made}, {made} FROM seq_1_to_{sagas}",
            saga = uuid("saga"),
            finished = sagas - 300,
            made = format_args!("@now - INTERVAL ({sagas} - seq) SECOND"),
        ),
        format!(
            "INSERT INTO saga_steps (saga_id, step_no, name, forward_state, event_id) \
             SELECT saga_id, step.seq, CONCAT('step ', step.seq), \
               IF(step.seq < 3 OR state = 'completed', 'succeeded', 'in_flight'), saga_id \
             FROM sagas JOIN seq_1_to_3 step"
        ),
    ]
}
