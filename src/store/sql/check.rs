//! `redrive check`: what of a database works, with which rights, and what is missing. Never fails:
//! what cannot be looked at is a line.

use crate::base::clock::{Clock, Timestamp};
use crate::mapping::Identifier;
use crate::store::{CheckLevel, CheckLine, StoreProbe};

use super::db::{Db, index_on, indexes_of};
use super::dialect::Dialect;
use super::exec::{Session, text};
use super::fault::{Fault, SqlResult};
use super::open_transaction;
use super::version::Server;

/// Reaches the server once.
pub async fn probe(db: &Db) -> SqlResult<StoreProbe> {
    let mut session = db.read().await?;
    let clock = Clock::System;
    let before = clock.now();
    let database_now = super::outbox::now(db, &mut session).await?;
    let after = clock.now();
    let round_trip = after.micros_since(before).max(0);
    let middle = Timestamp::from_micros(before.micros() + round_trip / 2);
    Ok(StoreProbe {
        latency_us: u64::try_from(round_trip).unwrap_or(0),
        version: db
            .server()
            .map_or_else(|| "unknown".to_owned(), |server| server.shown.clone()),
        database_now,
        skew_us: database_now.micros_since(middle),
    })
}

/// Everything there is to say.
pub async fn check(db: &Db) -> SqlResult<Vec<CheckLine>> {
    let mut lines = Vec::new();
    let found = match probe(db).await {
        Ok(found) => found,
        Err(fault) => {
            let error = fault.into_store_error(&db.service, "check", db.timeout);
            let level = if error.is_unreachable() {
                CheckLevel::Unreachable
            } else {
                CheckLevel::Problem
            };
            lines.push(line("database", level, error.to_string()));
            return Ok(lines);
        }
    };
    lines.push(version_line(db.server(), &found));
    lines.push(skew_line(db, &found));
    let mut session = db.read().await?;
    if db.dialect() == Dialect::MySql {
        lines.push(or_line("encryption", encryption(&mut session).await));
        lines.push(or_line("time zone", time_zone(&mut session).await));
        lines.push(or_line("rights", rights(db, &mut session).await));
        let oldest = open_transaction::oldest(&mut session).await;
        lines.push(or_line("oldest transaction", oldest));
    }
    for table in tables(db) {
        match table_lines(db, &mut session, &table).await {
            Ok(found) => lines.extend(found),
            Err(fault) => lines.push(or_line(&format!("table {}", table.name), Err(fault))),
        }
    }
    Ok(lines)
}

fn line(subject: &str, level: CheckLevel, finding: impl Into<String>) -> CheckLine {
    CheckLine {
        subject: subject.to_owned(),
        level,
        finding: finding.into(),
    }
}

fn or_line(subject: &str, result: SqlResult<CheckLine>) -> CheckLine {
    result.unwrap_or_else(|fault| {
        let error = fault.into_store_error("it", "check", std::time::Duration::ZERO);
        line(
            subject,
            CheckLevel::Unreachable,
            format!("could not be looked at: {error}"),
        )
    })
}

fn version_line(server: Option<&Server>, found: &StoreProbe) -> CheckLine {
    match server.and_then(Server::too_old) {
        Some(reason) => line("database", CheckLevel::Problem, reason),
        None => line(
            "database",
            CheckLevel::Ok,
            format!("{} answers in {} µs", found.version, found.latency_us),
        ),
    }
}

fn skew_line(db: &Db, found: &StoreProbe) -> CheckLine {
    let skew = std::time::Duration::from_micros(found.skew_us.unsigned_abs());
    let sign = if found.skew_us < 0 { "-" } else { "+" };
    let shown = format!("{sign}{:.3} s against this machine", skew.as_secs_f64());
    if skew > db.clock_skew {
        line(
            "clock",
            CheckLevel::Warning,
            format!(
                "{shown}: leases use the database's clock, ages on screen may be off; check NTP on both"
            ),
        )
    } else {
        line("clock", CheckLevel::Ok, shown)
    }
}

/// How this very session is encrypted. `ssl-mode` decides it; without one the server's wish does.
async fn encryption(session: &mut Session) -> SqlResult<CheckLine> {
    let row = session
        .fetch_optional("SHOW SESSION STATUS LIKE 'Ssl_version'", &[])
        .await?;
    let version = match row {
        Some(row) => row.text_or_null(1)?.unwrap_or_default(),
        None => String::new(),
    };
    let finding = if version.is_empty() {
        "the session is not encrypted".to_owned()
    } else {
        version
    };
    Ok(line("encryption", CheckLevel::Ok, finding))
}

/// Our sessions are UTC; an application's may not be.
async fn time_zone(session: &mut Session) -> SqlResult<CheckLine> {
    let row = session
        .fetch_optional(
            "SELECT CAST(@@global.time_zone AS CHAR), CAST(@@system_time_zone AS CHAR)",
            &[],
        )
        .await?
        .ok_or_else(|| Fault::unreadable("no answer".to_owned()))?;
    let (global, system) = (row.text(0)?, row.text(1)?);
    let zone = if global == "SYSTEM" { &system } else { &global };
    Ok(
        if matches!(zone.as_str(), "UTC" | "+00:00" | "GMT" | "Etc/UTC") {
            line(
                "time zone",
                CheckLevel::Ok,
                format!("server default {zone}"),
            )
        } else {
            line(
                "time zone",
                CheckLevel::Warning,
                format!(
                    "server default {zone}, our sessions +00:00: an application that lets the server fill in \
                 times must set its session to UTC, or its rows are off by the difference"
                ),
            )
        },
    )
}

async fn rights(db: &Db, session: &mut Session) -> SqlResult<CheckLine> {
    let grants = session
        .fetch("SHOW GRANTS", &[])
        .await?
        .iter()
        .map(|row| row.text(0))
        .collect::<SqlResult<Vec<_>>>()?;
    let is_granted = |word: &str| {
        grants.iter().any(|grant| {
            let upper = grant.to_ascii_uppercase();
            upper
                .split(" ON ")
                .next()
                .is_some_and(|rights| rights.contains("ALL PRIVILEGES") || rights.contains(word))
        })
    };
    let needed: &[&str] = if db.pools.write.is_some() {
        &["SELECT", "INSERT", "UPDATE"]
    } else {
        &["SELECT"]
    };
    let missing: Vec<&str> = needed.iter().copied().filter(|w| !is_granted(w)).collect();
    Ok(if missing.is_empty() {
        line("rights", CheckLevel::Ok, needed.join(", ").to_lowercase())
    } else {
        line(
            "rights",
            CheckLevel::Problem,
            format!(
                "the account has no {}: GRANT it on the tables below, or mark the context read_only",
                missing.join(", ")
            ),
        )
    })
}

/// A table with what it must have.
struct Expected {
    name: Identifier,
    columns: Vec<Identifier>,
    indexes: Vec<Vec<Identifier>>,
    is_ours: bool,
    /// What cannot be done without it, for a table that few need.
    needed_for: Option<&'static str>,
}

fn tables(db: &Db) -> Vec<Expected> {
    let mut tables = Vec::new();
    if let Some(outbox) = &db.outbox {
        let l = &outbox.layout;
        let columns = [
            Some(&l.id),
            l.source.as_ref(),
            Some(&l.key),
            l.seq.as_ref(),
            Some(&l.event_type),
            l.schema_version.as_ref(),
            Some(&l.payload),
            l.headers.as_ref(),
            l.destination.as_ref(),
            l.routing_key.as_ref(),
            l.trace_id.as_ref(),
            l.causation_id.as_ref(),
            Some(&l.status),
            Some(&l.attempts),
            Some(&l.due_at),
            l.token.as_ref(),
            l.lease_until.as_ref(),
            l.last_error.as_ref(),
            Some(&l.created_at),
            l.sent_at.as_ref(),
            l.updated_at.as_ref(),
        ];
        let mut indexes = vec![
            vec![l.status.clone(), l.due_at.clone()],
            vec![l.status.clone(), l.created_at.clone()],
            vec![
                l.key.clone(),
                l.seq.clone().unwrap_or_else(|| l.created_at.clone()),
            ],
        ];
        if let Some(lease) = &l.lease_until {
            indexes.push(vec![l.status.clone(), lease.clone()]);
        }
        tables.push(Expected {
            name: l.table.clone(),
            columns: columns.into_iter().flatten().cloned().collect(),
            indexes,
            is_ours: l.layout == "native",
            needed_for: None,
        });
    }
    if let Some(inbox) = &db.inbox {
        let l = &inbox.layout;
        let columns = [
            Some(&l.id),
            l.consumer.as_ref(),
            Some(&l.processed_at),
            l.payload_sha256.as_ref(),
        ];
        let mut by_time: Vec<Identifier> = l.consumer.iter().cloned().collect();
        by_time.push(l.processed_at.clone());
        tables.push(Expected {
            name: l.table.clone(),
            columns: columns.into_iter().flatten().cloned().collect(),
            indexes: vec![by_time],
            is_ours: l.layout == "native",
            needed_for: None,
        });
    }
    let mut add = |name: &str, columns: &[&str], needed_for: Option<&'static str>| {
        let named = |name: &str| Identifier::new(name).ok();
        if let Some(name) = named(name) {
            tables.push(Expected {
                name,
                columns: columns.iter().filter_map(|c| named(c)).collect(),
                indexes: Vec::new(),
                is_ours: true,
                needed_for,
            });
        }
    };
    if let Some(inbox) = &db.inbox {
        const POLICIES: Option<&str> = Some("version policies of a consumer");
        const RETENTION: Option<&str> = Some("the inbox archiver");
        add(
            "applied_versions",
            &["consumer_name", "aggregate_id", "version"],
            POLICIES,
        );
        add(
            "waiting_events",
            &["consumer_name", "event_id", "attempted_at", "deadline_at"],
            POLICIES,
        );
        if inbox.archive.is_some() {
            add(
                "consumer_inbox_archive",
                &["consumer_name", "event_id"],
                RETENTION,
            );
            add(
                "inbox_horizons",
                &["consumer_name", "horizon_at"],
                RETENTION,
            );
        }
    }
    let mut ours = |name: &str, columns: &[&str]| add(name, columns, None);
    if let Some((table, _)) = &db.letters {
        ours(
            table.as_str(),
            &[
                "dead_letter_id",
                "consumer_name",
                "event_id",
                "payload",
                "headers",
                "properties",
                "version",
            ],
        );
        ours(
            "dead_letter_deaths",
            &["dead_letter_id", "death_no", "fingerprint"],
        );
    }
    if let Some((table, _)) = &db.sagas {
        ours(
            table.as_str(),
            &["saga_id", "state", "updated_at", "due_at", "attention_at"],
        );
        ours(
            "saga_steps",
            &["saga_id", "step_no", "forward_state", "queries"],
        );
    }
    if db.journal.is_some() {
        ours("operations", &["operation_id", "state", "plan_text"]);
        ours(
            "operation_items",
            &["operation_id", "item_no", "active_key", "token"],
        );
        ours("repairs", &["repair_id", "new_event_id"]);
        ours("audit_log", &["seq", "hash", "previous_hash"]);
        ours("audit_head", &["head_id", "seq", "hash"]);
    }
    tables
}

async fn table_lines(
    db: &Db,
    session: &mut Session,
    expected: &Expected,
) -> SqlResult<Vec<CheckLine>> {
    let subject = format!("table {}", expected.name);
    let statement = match session.dialect() {
        Dialect::MySql => {
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION"
        }
        Dialect::Sqlite => "SELECT name FROM pragma_table_info(?)",
    };
    let columns = session
        .fetch(statement, &[text(expected.name.as_str())])
        .await?
        .iter()
        .map(|row| row.text(0))
        .collect::<SqlResult<Vec<_>>>()?;
    let create = format!(
        "`redrive migrate --service {} --apply` creates it",
        db.service
    );
    if let (true, Some(purpose)) = (columns.is_empty(), expected.needed_for) {
        return Ok(vec![line(
            &subject,
            CheckLevel::Ok,
            format!("not there; only {purpose} would need it: {create}"),
        )]);
    }
    if columns.is_empty() {
        return Ok(vec![line(
            &subject,
            CheckLevel::Problem,
            format!("is missing, or the account may not see it: {create}"),
        )]);
    }
    let missing: Vec<&str> = expected
        .columns
        .iter()
        .map(Identifier::as_str)
        .filter(|want| !columns.iter().any(|have| have.eq_ignore_ascii_case(want)))
        .collect();
    let mut lines = vec![if missing.is_empty() {
        line(
            &subject,
            CheckLevel::Ok,
            format!("{} columns mapped", expected.columns.len()),
        )
    } else {
        let fix = if expected.is_ours {
            "it is not the table our migrations create: rename it, or name another `table`"
        } else {
            "choose the layout the table has"
        };
        line(
            &subject,
            CheckLevel::Problem,
            format!("has no column {}: {fix}", missing.join(", ")),
        )
    }];
    let indexes = indexes_of(session, expected.name.as_str()).await?;
    for wanted in &expected.indexes {
        let columns: Vec<&Identifier> = wanted.iter().collect();
        if index_on(&indexes, &columns).is_none() {
            let list = wanted
                .iter()
                .map(Identifier::quoted)
                .collect::<Vec<_>>()
                .join(", ");
            lines.push(line(
                &format!("index of {}", expected.name),
                CheckLevel::Warning,
                format!(
                    "none on ({list}): what needs it is not answered instead of reading the whole table; \
                     CREATE INDEX … ON {} ({list})",
                    expected.name.quoted()
                ),
            ));
        }
    }
    Ok(lines)
}
