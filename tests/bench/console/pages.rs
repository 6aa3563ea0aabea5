//! Rows read by one page, at the start, in the middle and near the end of what it pages through.

use color_eyre::eyre::{Result, ensure};
use redrive::base::clock::Timestamp;
use redrive::model::dead_letter::{DeadLetterQuery, DeadLetterStatus};
use redrive::model::outbox::{OutboxQuery, OutboxState};
use redrive::model::page::Cursor;
use redrive::store::Store;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::counters::Counters;
use crate::figures::Figures;
use crate::fixture::{Fixture, Fixtures, Ready};
use crate::report::{float, note};
use crate::servers::Servers;

const PAGE_ROWS: u32 = 100;

/// A list of the console, and the order it is in.
struct List {
    name: &'static str,
    table: &'static str,
    id: &'static str,
    status: &'static str,
    at: &'static str,
    is_newest_first: bool,
}

const OUTBOX: [List; 4] = [
    outbox("pending", "next_attempt_at", false),
    outbox("sending", "lease_until", false),
    outbox("failed", "next_attempt_at", false),
    outbox("sent", "created_at", true),
];

const LETTERS: List = List {
    name: "dead letters",
    table: "dead_letters",
    id: "dead_letter_id",
    status: "open",
    at: "last_died_at",
    is_newest_first: true,
};

const fn outbox(status: &'static str, at: &'static str, is_newest_first: bool) -> List {
    List {
        name: "outbox",
        table: "outbox_events",
        id: "event_id",
        status,
        at,
        is_newest_first,
    }
}

pub fn measure(servers: &Servers, fixtures: &Fixtures<'_>, figures: &mut Figures) -> Result<()> {
    let mut worst = 0.0_f64;
    for fixture in [Fixture::Large, Fixture::Backlog] {
        let ready = fixtures.ready(fixture)?;
        let of_fixture = tokio::runtime::Runtime::new()?.block_on(worst_of(servers, &ready))?;
        worst = worst.max(of_fixture);
    }
    figures.set("page_rows_read_worst", worst);
    Ok(())
}

/// Rows read for each row of a full page, at worst.
async fn worst_of(servers: &Servers, ready: &Ready) -> Result<f64> {
    let mut counters = Counters::open(&servers.mariadb).await?;
    let mut connection = MySqlConnection::connect(&ready.url).await?;
    let services = ready.home.services()?;
    let Some(store) = services.ports.store("shop").cloned() else {
        color_eyre::eyre::bail!("no store");
    };
    let mut worst = 0.0_f64;
    for list in OUTBOX.iter().chain([&LETTERS]) {
        for (depth, after) in places(&mut connection, list).await? {
            // Once unmeasured: the first use prepares the statement.
            page(&*store, list, after.clone()).await?;
            let (rows, reads) = counters.reads_of(page(&*store, list, after)).await?;
            let rows = rows?;
            ensure!(rows > 0, "an empty page of {} {}", list.name, list.status);
            let ratio = float(reads) / f64::from(PAGE_ROWS);
            let database = ready.fixture.database();
            note(&format!(
                "{database}: page of {} {} after {depth} rows: {rows} rows, {reads} read",
                list.name, list.status
            ));
            worst = worst.max(ratio);
        }
    }
    services.close().await;
    Ok(worst)
}

/// Depths with a full page behind them, and the cursors that lead there.
async fn places(
    connection: &mut MySqlConnection,
    list: &List,
) -> Result<Vec<(u64, Option<Cursor>)>> {
    let List {
        table,
        id,
        status,
        at,
        ..
    } = list;
    let count: i64 = sqlx::query_scalar(AssertSqlSafe(format!(
        "SELECT COUNT(*) FROM {table} WHERE status = '{status}'"
    )))
    .fetch_one(&mut *connection)
    .await?;
    let count = u64::try_from(count)?;
    let mut places = Vec::new();
    if count >= u64::from(PAGE_ROWS) {
        places.push((0, None));
    }
    if count > 4 * u64::from(PAGE_ROWS) {
        let direction = if list.is_newest_first { "DESC" } else { "ASC" };
        for depth in [count / 2, count - 2 * u64::from(PAGE_ROWS)] {
            let (id, micros): (String, i64) = sqlx::query_as(AssertSqlSafe(format!(
                "SELECT CAST({id} AS CHAR), \
                 CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {at}) AS SIGNED) FROM {table} \
                 WHERE status = '{status}' ORDER BY {at} {direction}, {id} {direction} \
                 LIMIT 1 OFFSET {depth}"
            )))
            .fetch_one(&mut *connection)
            .await?;
            places.push((
                depth,
                Some(Cursor {
                    at: Timestamp::from_micros(micros),
                    id,
                }),
            ));
        }
    }
    Ok(places)
}

async fn page(store: &dyn Store, list: &List, after: Option<Cursor>) -> Result<usize> {
    if list.table == LETTERS.table {
        let query = DeadLetterQuery {
            status: DeadLetterStatus::Open,
            consumer: None,
            event_type: None,
            error_class: None,
            after,
            limit: PAGE_ROWS,
        };
        return Ok(store.dead_letter_page(&query).await?.rows.len());
    }
    let state = OutboxState::ALL
        .into_iter()
        .find(|state| state.word() == list.status);
    let query = OutboxQuery {
        state: state.unwrap_or(OutboxState::Unknown),
        after,
        limit: PAGE_ROWS,
        event_type: None,
    };
    Ok(store.outbox_page(&query).await?.rows.len())
}
