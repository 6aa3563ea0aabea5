//! Rows read by one refresh of every pane. What grows with the table is the history, so both tables
//! have the same number of rows that wait, are claimed or have failed; the ratio is what history costs.

use color_eyre::eyre::Result;
use redrive::model::dead_letter::DeadLetterStatus;
use redrive::model::outbox::OutboxState;
use redrive::observe::{DeadLettersView, Observer, OutboxView};

use crate::counters::Counters;
use crate::figures::Figures;
use crate::fixture::{Fixture, Fixtures, Ready};
use crate::report::{float, note};
use crate::servers::Servers;

/// As many as a tall screen asks for.
const PAGE_ROWS: u32 = 100;

pub fn measure(servers: &Servers, fixtures: &Fixtures<'_>, figures: &mut Figures) -> Result<()> {
    let small = reads(servers, &fixtures.ready(Fixture::Small)?)?;
    let large = reads(servers, &fixtures.ready(Fixture::Large)?)?;
    figures.set("refresh_rows_read_1m_over_10k", float(large) / float(small));
    let backlog = reads(servers, &fixtures.ready(Fixture::Backlog)?)?;
    figures.set("refresh_rows_read_1m_due", float(backlog));
    Ok(())
}

fn reads(servers: &Servers, ready: &Ready) -> Result<u64> {
    let database = ready.fixture.database();
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut counters = Counters::open(&servers.mariadb).await?;
        let services = ready.home.services()?;
        // The first refresh connects and asks for versions, tables and indexes.
        refresh(&mut counters, &services.observer, None).await?;
        // As long as a console waits: what panes share within one refresh is read again.
        tokio::time::sleep(services.ports.context.thresholds.refresh).await;
        let total = refresh(&mut counters, &services.observer, Some(database)).await?;
        services.close().await;
        note(&format!("{database}: {total} rows read by one refresh"));
        Ok(total)
    })
}

/// Every pane once, the outbox in the state that costs most: more than one screen ever asks for.
async fn refresh(counters: &mut Counters, observer: &Observer, shown: Option<&str>) -> Result<u64> {
    let mut total = 0;
    let mut add = |feed: &str, rows: u64| {
        total += rows;
        if let Some(database) = shown {
            note(&format!("{database}: {feed} {rows}"));
        }
    };
    add("health", counters.reads_of(observer.health()).await?.1);
    add("flow", counters.reads_of(observer.flow()).await?.1);
    add("causes", counters.reads_of(observer.causes()).await?.1);
    let mut outbox = 0;
    for state in OutboxState::ALL {
        let view = outbox_view(state);
        let (snapshot, rows) = counters.reads_of(observer.outbox(&view)).await?;
        ensure_read(
            "outbox",
            snapshot.services.iter().all(|part| part.unread.is_none()),
        )?;
        outbox = outbox.max(rows);
    }
    add("outbox", outbox);
    add("leases", counters.reads_of(observer.leases()).await?.1);
    add("queues", counters.reads_of(observer.queues(1)).await?.1);
    let view = dead_letters_view();
    let (letters, rows) = counters.reads_of(observer.dead_letters(&view)).await?;
    ensure_read(
        "dead letters",
        letters.services.iter().all(|part| part.unread.is_none()),
    )?;
    add("dead letters", rows);
    let first = letters
        .services
        .first()
        .and_then(|part| part.value.as_ref()?.page.rows.first());
    if let Some(letter) = first {
        let detail = observer.dead_letter("shop", &letter.dead_letter_id);
        add("dead letter", counters.reads_of(detail).await?.1);
    }
    add("sagas", counters.reads_of(observer.sagas()).await?.1);
    add(
        "operations",
        counters.reads_of(observer.operations(PAGE_ROWS)).await?.1,
    );
    add(
        "audit",
        counters.reads_of(observer.audit(PAGE_ROWS)).await?.1,
    );
    Ok(total)
}

/// A feed that fails reads little; that must not pass for a good figure.
fn ensure_read(feed: &str, is_whole: bool) -> Result<()> {
    color_eyre::eyre::ensure!(is_whole, "{feed} could not be read");
    Ok(())
}

fn outbox_view(state: OutboxState) -> OutboxView {
    OutboxView {
        service: Some("shop".to_owned()),
        state,
        event_type: None,
        event: None,
        payload: None,
        after: None,
        limit: PAGE_ROWS,
    }
}

fn dead_letters_view() -> DeadLettersView {
    DeadLettersView {
        service: Some("shop".to_owned()),
        status: DeadLetterStatus::Open,
        consumer: None,
        event_type: None,
        error_class: None,
        payload: None,
        after: None,
        limit: PAGE_ROWS,
    }
}
