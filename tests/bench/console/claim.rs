//! The dispatcher's claim on a million due rows: the store's own, whole, and its locking `SELECT`
//! held open in a session of ours. The statement is the one the server was sent: its general log has it.

use std::time::Duration;

use color_eyre::eyre::{Result, ensure, eyre};
use redrive::store::{ClaimRequest, Store};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::counters::{Counters, session_reads};
use crate::figures::{CLAIM_BATCH, Figures};
use crate::fixture::Ready;
use crate::report::{float, note};
use crate::servers::Servers;

const REQUEST: ClaimRequest = ClaimRequest {
    batch_rows: CLAIM_BATCH,
    lease: Duration::from_secs(30),
};

pub fn measure(servers: &Servers, ready: &Ready, figures: &mut Figures) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(measured(servers, ready, figures))
}

async fn measured(servers: &Servers, ready: &Ready, figures: &mut Figures) -> Result<()> {
    let services = ready.home.services()?;
    let store = services
        .ports
        .store("shop")
        .ok_or_else(|| eyre!("no store"))?;
    let mut counters = Counters::open(&servers.mariadb).await?;

    let select = claim_select(servers, &**store).await?;
    note(&format!(
        "claim: {}",
        select.split_whitespace().collect::<Vec<_>>().join(" ")
    ));
    let (claim, reads) = counters.reads_of(store.claim_batch(&REQUEST)).await?;
    ensure!(
        claim?.events.len() == CLAIM_BATCH as usize,
        "the claim was not a full batch"
    );
    figures.set(
        "claim_whole_rows_read_1m_due",
        float(reads) / f64::from(CLAIM_BATCH),
    );

    let mut holder = MySqlConnection::connect(&ready.url).await?;
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
        rows.len() == CLAIM_BATCH as usize,
        "the SELECT gave {} rows",
        rows.len()
    );
    figures.set(
        "claim_select_rows_read_1m_due",
        float(reads) / f64::from(CLAIM_BATCH),
    );

    let locks: u64 = sqlx::query_scalar(
        "SELECT trx_rows_locked FROM information_schema.INNODB_TRX \
         WHERE trx_mysql_thread_id = CONNECTION_ID()",
    )
    .fetch_one(&mut holder)
    .await?;
    figures.set("claim_row_locks_1m_due", float(locks));

    let second = store.claim_batch(&REQUEST).await?;
    figures.set(
        "claim_second_while_first_open",
        float(second.events.len() as u64),
    );
    run(&mut holder, "ROLLBACK").await?;
    services.close().await;
    Ok(())
}

/// The locking `SELECT` over due rows that one claim sends.
async fn claim_select(servers: &Servers, store: &dyn Store) -> Result<String> {
    let mut log = MySqlConnection::connect(&servers.mariadb).await?;
    run(
        &mut log,
        "SET GLOBAL log_output = 'TABLE', general_log = ON",
    )
    .await?;
    run(&mut log, "TRUNCATE TABLE mysql.general_log").await?;
    let claim = store.claim_batch(&REQUEST).await;
    let sent: Vec<String> = sqlx::query_scalar(
        "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log \
         WHERE command_type IN ('Query', 'Execute') ORDER BY event_time",
    )
    .fetch_all(&mut log)
    .await?;
    run(&mut log, "SET GLOBAL general_log = OFF").await?;
    ensure!(
        claim?.events.len() == CLAIM_BATCH as usize,
        "the claim was not a full batch"
    );
    sent.into_iter()
        .rfind(|statement| statement.contains("SKIP LOCKED"))
        .ok_or_else(|| eyre!("the claim sent no SELECT .. SKIP LOCKED"))
}

async fn run(connection: &mut MySqlConnection, statement: &'static str) -> Result<()> {
    sqlx::query(statement).execute(connection).await?;
    Ok(())
}
