//! What a claim reads and locks on a million due rows, by the server's counters; the same in sequence, and
//! behind a failed row that holds a hundred thousand. The statements are those the server was sent: its
//! general log has them.

use std::time::{Duration, Instant};

use color_eyre::eyre::{Result, ensure, eyre};
use redrive::store::{Claim, ClaimRequest, Store, StoreResult};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::counters::{Counters, session_reads};
use crate::figures::{BATCH, Figures};
use crate::outbox::{Outbox, run, uuid};
use crate::report::{float, note};
use crate::servers::Servers;

const REQUEST: ClaimRequest = ClaimRequest {
    batch_rows: BATCH,
    lease: Duration::from_secs(30),
};
/// Due rows.
const DUE: u64 = 1_000_000;
/// Rows of one aggregate behind a failed one.
const HELD: u64 = 100_000;
/// Rows filled by one statement.
const CHUNK: u64 = 100_000;

pub async fn measure(servers: &Servers, figures: &mut Figures) -> Result<()> {
    let outbox = Outbox::create(servers, "redrive_bench_claim").await?;
    note(&format!("filling {DUE} due rows"));
    fill(&outbox).await?;
    let services = outbox.services()?;
    let store = services
        .ports
        .store("orders")
        .ok_or_else(|| eyre!("no store"))?;
    let mut counters = Counters::open(&servers.mariadb).await?;

    let select = locking_select(servers, store.claim_batch(&REQUEST)).await?;
    let (claim, reads) = counters.reads_of(store.claim_batch(&REQUEST)).await?;
    full(claim)?;
    figures.set("claim_whole_rows_read_1m_due", per_batch(reads));
    let (reads, locks) = held_open(&outbox, select, async {
        let second = store.claim_batch(&REQUEST).await?;
        figures.set(
            "claim_second_while_first_open",
            float(second.events.len() as u64),
        );
        Ok(())
    })
    .await?;
    figures.set("claim_select_rows_read_1m_due", per_batch(reads));
    figures.set("claim_row_locks_1m_due", float(locks));

    let select = locking_select(servers, store.claim_sequences(&REQUEST)).await?;
    let (claim, reads) = counters.reads_of(store.claim_sequences(&REQUEST)).await?;
    full(claim)?;
    figures.set("sequence_claim_whole_rows_read_1m_due", per_batch(reads));
    let (_, locks) = held_open(&outbox, select, async { Ok(()) }).await?;
    figures.set("sequence_claim_row_locks_1m_due", float(locks));

    behind_a_failed_row(&outbox, &**store, &mut counters, figures).await?;
    services.close().await;
    Ok(())
}

/// Rows of one aggregate in front of all others, the first of them failed.
async fn behind_a_failed_row(
    outbox: &Outbox,
    store: &dyn Store,
    counters: &mut Counters,
    figures: &mut Figures,
) -> Result<()> {
    let mut connection = outbox.connect().await?;
    for from in (1..=HELD).step_by(usize::try_from(CHUNK / 2)?) {
        let to = HELD.min(from + CHUNK / 2 - 1);
        run(
            &mut connection,
            &format!(
                "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload, \
                   status, next_attempt_at, created_at) \
                 SELECT {id}, 'held', seq, 'order.created', '{{}}', IF(seq = 1, 'failed', 'pending'), made, made \
                 FROM (SELECT seq, UTC_TIMESTAMP(6) - INTERVAL 30 DAY + INTERVAL seq MICROSECOND AS made \
                       FROM seq_{from}_to_{to}) held",
                id = uuid("held"),
            ),
        )
        .await?;
    }
    let began = Instant::now();
    let (mut claims, mut held, mut most) = (0_u32, 0, 0);
    let claim = loop {
        let (claim, reads) = counters.reads_of(store.claim_sequences(&REQUEST)).await?;
        let claim = claim?;
        most = most.max(reads);
        if claim.held == 0 {
            figures.set(
                "sequence_claim_rows_read_behind_100k_held",
                per_batch(reads),
            );
            break claim;
        }
        claims += 1;
        held += claim.held;
    };
    full(Ok(claim))?;
    note(&format!(
        "{held} held rows were put off by {claims} claims in {:.1} s; the costliest read {most} rows",
        began.elapsed().as_secs_f64()
    ));
    let began = Instant::now();
    let woken = store.wake_sequences(&[("held".into(), 1)]).await?;
    note(&format!(
        "{woken} of them were woken in {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}

async fn fill(outbox: &Outbox) -> Result<()> {
    let mut connection = outbox.connect().await?;
    run(&mut connection, "SET unique_checks = 0").await?;
    for from in (1..=DUE).step_by(usize::try_from(CHUNK)?) {
        let to = DUE.min(from + CHUNK - 1);
        run(
            &mut connection,
            &format!(
                "INSERT INTO outbox_events (event_id, aggregate_id, aggregate_version, event_type, payload, \
                   next_attempt_at, created_at) \
                 SELECT {id}, CONCAT('order-', seq DIV 3), seq MOD 3 + 1, 'order.created', \
                   CONCAT('{{\"note\":\"', REPEAT('x', 200), '\"}}'), made, made \
                 FROM (SELECT seq, UTC_TIMESTAMP(6) - INTERVAL ({DUE} - seq) * 500000 MICROSECOND AS made \
                       FROM seq_{from}_to_{to}) due",
                id = uuid("event"),
            ),
        )
        .await?;
    }
    run(&mut connection, "ANALYZE TABLE outbox_events").await
}

fn per_batch(reads: u64) -> f64 {
    float(reads) / f64::from(BATCH)
}

fn full(claim: StoreResult<Claim>) -> Result<()> {
    let claim = claim?;
    // One aggregate may be cut in two by the claim before.
    let rows = claim.events.len() as u64 + claim.held;
    ensure!(
        rows == u64::from(BATCH) && claim.held <= 2,
        "the claim took {} rows and held {}",
        claim.events.len(),
        claim.held
    );
    Ok(())
}

/// Rows read and locked by the statement in an open transaction; `meanwhile` runs before it ends.
async fn held_open(
    outbox: &Outbox,
    select: String,
    meanwhile: impl Future<Output = Result<()>>,
) -> Result<(u64, u64)> {
    let mut holder = outbox.connect().await?;
    run(
        &mut holder,
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )
    .await?;
    let own_cost = {
        let first = session_reads(&mut holder).await?;
        session_reads(&mut holder).await? - first
    };
    run(&mut holder, "START TRANSACTION").await?;
    let before = session_reads(&mut holder).await?;
    let rows = sqlx::query(AssertSqlSafe(select))
        .fetch_all(&mut holder)
        .await?;
    let reads = session_reads(&mut holder).await? - before - own_cost;
    ensure!(
        rows.len() == BATCH as usize,
        "the SELECT gave {} rows",
        rows.len()
    );
    let locks: u64 = sqlx::query_scalar(
        "SELECT trx_rows_locked FROM information_schema.INNODB_TRX \
         WHERE trx_mysql_thread_id = CONNECTION_ID()",
    )
    .fetch_one(&mut holder)
    .await?;
    meanwhile.await?;
    run(&mut holder, "ROLLBACK").await?;
    Ok((reads, locks))
}

/// The locking `SELECT` that one claim sends.
async fn locking_select(
    servers: &Servers,
    claim: impl Future<Output = StoreResult<Claim>>,
) -> Result<String> {
    let mut log = MySqlConnection::connect(&servers.mariadb).await?;
    run(
        &mut log,
        "SET GLOBAL log_output = 'TABLE', general_log = ON",
    )
    .await?;
    run(&mut log, "TRUNCATE TABLE mysql.general_log").await?;
    let claim = claim.await;
    let sent: Vec<String> = sqlx::query_scalar(
        "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log \
         WHERE command_type IN ('Query', 'Execute') ORDER BY event_time",
    )
    .fetch_all(&mut log)
    .await?;
    run(&mut log, "SET GLOBAL general_log = OFF").await?;
    full(claim)?;
    sent.into_iter()
        .rfind(|statement| statement.contains("SKIP LOCKED"))
        .ok_or_else(|| eyre!("the claim sent no SELECT .. SKIP LOCKED"))
}
