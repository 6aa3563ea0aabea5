//! Scans and findings as they are kept: our own tables, each write guarded, and fenced by the token of
//! the scan that makes it.

use serde::de::DeserializeOwned;

use crate::base::clock::Timestamp;
use crate::base::text::cut_bytes;
use crate::model::audit::AuditRecord;
use crate::model::count::Count;
use crate::model::ids::{ClaimToken, FindingId, ScanId};
use crate::model::page::{Cursor, Page};
use crate::model::scan::{
    Difference, Finding, FindingQuery, FindingState, NotCompared, Progress, Scan, ScanState,
};
use crate::store::scan::{NewFindings, NewScan, ScanStep};
use crate::store::{Guarded, Value};

use super::audit;
use super::claim::bind_ids;
use super::db::Db;
use super::exec::{Row, Session, limit, micros, text, text_or_null};
use super::fault::{Fault, SqlResult};
use super::page::{bind_after, one_more, page_of};
use super::statement::{IDS_MAX, ScanStatements};
use super::verbs::Annotation;

/// Rows a look-up by prefix needs at least this many characters for.
const PREFIX_MIN: usize = 4;
/// Characters kept of a class and a subject.
const CLASS: usize = 64;
const SUBJECT: usize = 512;

/// Where a page of scans starts.
#[derive(Clone)]
pub struct PageStart {
    /// After this one; `None`: with the newest.
    pub after: Option<Cursor>,
}

fn json(of: &impl serde::Serialize) -> SqlResult<Value> {
    serde_json::to_string(of)
        .map(Value::Text)
        .map_err(|error| Fault::Invalid(error.to_string()))
}

/// What a column holds as JSON; a value of another version is the empty one.
fn parsed<T: DeserializeOwned + Default>(column: Option<String>) -> T {
    column
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

fn rows_of(count: u64) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Records a scan that starts.
pub async fn begin(db: &Db, scan: &NewScan) -> SqlResult<()> {
    let statements = db.scans()?;
    let values = [
        text(scan.scan_id.as_str()),
        text(cut_bytes(&scan.rule, 191)),
        text(cut_bytes(&scan.actor, 255)),
        json(&scan.progress)?,
        text(scan.token.as_str()),
        micros(scan.lease),
    ];
    let mut session = db.write().await?;
    session.execute(&statements.begin, &values).await?;
    Ok(())
}

const fn guarded(rows: u64) -> Guarded {
    if rows == 1 {
        Guarded::Done
    } else {
        Guarded::LostRace
    }
}

/// Takes a scan over.
pub async fn resume(
    db: &Db,
    id: &ScanId,
    token: &ClaimToken,
    lease: std::time::Duration,
) -> SqlResult<Guarded> {
    let statements = db.scans()?;
    let values = [text(token.as_str()), micros(lease), text(id.as_str())];
    let mut session = db.write().await?;
    Ok(guarded(session.execute(&statements.resume, &values).await?))
}

/// Moves a scan on, or ends it.
pub async fn step(db: &Db, step: &ScanStep) -> SqlResult<Guarded> {
    let statements = db.scans()?;
    let (unread, progress) = (json(&step.not_compared)?, json(&step.progress)?);
    let rows = rows_of(step.rows_read);
    let key = [text(step.scan_id.as_str()), text(step.token.as_str())];
    let mut session = db.write().await?;
    let matched = if step.state == ScanState::Running {
        let mut values = vec![rows, unread, progress, micros(step.lease)];
        values.extend(key);
        session.execute(&statements.step, &values).await?
    } else {
        let mut values = vec![text(step.state.word()), rows, unread, progress];
        values.extend(key);
        session.execute(&statements.end, &values).await?
    };
    Ok(guarded(matched))
}

/// Stops a scan, whoever runs it.
pub async fn stop(db: &Db, id: &ScanId) -> SqlResult<Guarded> {
    let statements = db.scans()?;
    let mut session = db.write().await?;
    let values = [text(id.as_str())];
    Ok(guarded(session.execute(&statements.stop, &values).await?))
}

/// Writes what a page found.
pub async fn record(db: &Db, token: &ClaimToken, found: &NewFindings) -> SqlResult<Guarded> {
    let statements = db.scans()?;
    let mut session = db.transaction().await?;
    let held = [text(found.scan_id.as_str()), text(token.as_str())];
    if session
        .fetch_optional(&statements.hold, &held)
        .await?
        .is_none()
    {
        session.rollback().await?;
        return Ok(Guarded::LostRace);
    }
    // Locked in one order, so that two scans that meet on the same findings wait and never deadlock.
    let mut differences: Vec<(String, &Difference)> = found
        .differences
        .iter()
        .map(|difference| (difference.fingerprint(&found.rule), difference))
        .collect();
    differences.sort_by(|a, b| a.0.cmp(&b.0));
    differences.dedup_by(|a, b| a.0 == b.0);
    for (fingerprint, difference) in differences {
        see(&mut session, statements, found, (&fingerprint, difference)).await?;
    }
    session.commit().await?;
    Ok(Guarded::Done)
}

async fn see(
    session: &mut Session,
    statements: &ScanStatements,
    found: &NewFindings,
    (fingerprint, difference): (&str, &Difference),
) -> SqlResult<()> {
    let scan = text(found.scan_id.as_str());
    let rule = text(cut_bytes(&found.rule, 191));
    let class = text(cut_bytes(&difference.class, CLASS));
    let subject = text(cut_bytes(&difference.subject, SUBJECT));
    let at = difference
        .at
        .map_or(Value::Null, |at| Value::Int(at.micros()));
    let evidence = json(difference)?;
    let seen = [
        scan.clone(),
        rule.clone(),
        class.clone(),
        subject.clone(),
        evidence.clone(),
        at.clone(),
        text(fingerprint),
    ];
    if session.execute(&statements.seen, &seen).await? == 1 {
        return Ok(());
    }
    let id = FindingId::generate();
    let added = [
        text(id.as_str()),
        scan,
        rule,
        class,
        subject,
        text(fingerprint),
        evidence,
        at,
    ];
    match session.execute(&statements.add, &added).await {
        Ok(_) => Ok(()),
        Err(fault) if fault.is_duplicate() => Err(Fault::Raced(
            "another scan found the same difference".to_owned(),
        )),
        Err(fault) => Err(fault),
    }
}

/// Findings that a scan did not see again are gone.
pub async fn clear(
    db: &Db,
    token: &ClaimToken,
    rule: &str,
    scan: &ScanId,
    since: Option<Timestamp>,
) -> SqlResult<u64> {
    let statements = db.scans()?;
    let rule = text(cut_bytes(rule, 191));
    let mut session = db.transaction().await?;
    let own = [
        rule,
        text(scan.as_str()),
        text(scan.as_str()),
        text(token.as_str()),
    ];
    let mut unseen = own.to_vec();
    unseen.extend([
        Value::Int(i64::from(since.is_some())),
        Value::Int(since.map_or(0, Timestamp::micros)),
        limit(IDS_MAX as u64),
    ]);
    let ids = session
        .fetch(&statements.unseen, &unseen)
        .await?
        .iter()
        .map(|row| row.text(0))
        .collect::<SqlResult<Vec<_>>>()?;
    if ids.is_empty() {
        session.rollback().await?;
        return Ok(0);
    }
    let mut values = Vec::new();
    let statement = bind_ids(&statements.clear, &ids, &mut values);
    values.extend(own);
    let cleared = session.execute(&statement, &values).await?;
    session.commit().await?;
    Ok(cleared)
}

/// Scans, newest first.
pub async fn page(db: &Db, start: &PageStart, rows_max: u32) -> SqlResult<Page<Scan>> {
    let statements = db.scans()?;
    let statement = match &start.after {
        None => &statements.page_first,
        Some(_) => &statements.page_after,
    };
    let mut values = Vec::new();
    bind_after(start.after.as_ref(), &mut values);
    values.push(one_more(rows_max));
    let found = db.read().await?.fetch(statement, &values).await?;
    page_of(&found, rows_max, scan_of, |last| Cursor {
        at: last.started_at,
        id: last.scan_id.to_string(),
    })
}

/// Ids are ASCII: DEL sorts after every character of one.
fn bounds(prefix: &str) -> SqlResult<[Value; 2]> {
    if prefix.chars().count() < PREFIX_MIN {
        return Err(Fault::unsupported(
            "an id is looked up by at least its first 4 characters",
        ));
    }
    Ok([text(prefix), text(format!("{prefix}\u{7f}"))])
}

/// Scans by the start of their id.
pub async fn by_prefix(db: &Db, prefix: &str) -> SqlResult<Vec<Scan>> {
    let statements = db.scans()?;
    let bounds = bounds(prefix)?;
    let mut session = db.read().await?;
    let found = session.fetch(&statements.by_prefix, &bounds).await?;
    found.iter().map(scan_of).collect()
}

/// Findings in one state.
pub async fn findings(db: &Db, query: &FindingQuery) -> SqlResult<Page<Finding>> {
    let statements = db.scans()?;
    let statement = match &query.after {
        None => &statements.findings_first,
        Some(_) => &statements.findings_after,
    };
    let mut values = vec![text(query.state.word())];
    bind_after(query.after.as_ref(), &mut values);
    values.push(one_more(query.limit));
    let found = db.read().await?.fetch(statement, &values).await?;
    page_of(&found, query.limit, finding_of, |last| Cursor {
        at: last.last_seen_at,
        id: last.finding_id.to_string(),
    })
}

/// Findings by the start of their id.
pub async fn findings_by_prefix(db: &Db, prefix: &str) -> SqlResult<Vec<Finding>> {
    let statements = db.scans()?;
    let bounds = bounds(prefix)?;
    let mut session = db.read().await?;
    let found = session
        .fetch(&statements.findings_by_prefix, &bounds)
        .await?;
    found.iter().map(finding_of).collect()
}

/// Open findings, capped.
pub async fn open(db: &Db) -> SqlResult<Option<Count>> {
    let statements = db.scans()?;
    let mut session = db.read().await?;
    let wanted = limit(db.count_cap + 1);
    match session.fetch_optional(&statements.open, &[wanted]).await {
        // Tables older than scans: nobody has looked, which is not "none".
        Err(fault) if fault.is_missing_table() => Ok(None),
        Err(fault) => Err(fault),
        Ok(None) => Ok(None),
        Ok(Some(row)) => Ok(Some(Count::capped(row.count(0)?, db.count_cap))),
    }
}

/// Sets owner or note of a finding.
pub async fn annotate(
    db: &Db,
    id: &FindingId,
    annotation: &Annotation,
    record: &AuditRecord,
) -> SqlResult<Guarded> {
    let (statements, journal) = (db.scans()?, db.journal()?);
    let part = |value: &Option<String>, limit: usize| {
        let kept = value.as_deref().filter(|v| !v.is_empty());
        [
            Value::Int(i64::from(value.is_some())),
            text_or_null(kept.map(|v| cut_bytes(v, limit))),
        ]
    };
    let [has_owner, owner] = part(&annotation.owner, 191);
    let [has_note, note] = part(&annotation.note, 2000);
    let values = [has_owner, owner, has_note, note, text(id.as_str())];
    let mut session = db.transaction().await?;
    if session.execute(&statements.annotate, &values).await? != 1 {
        session.rollback().await?;
        return Ok(Guarded::LostRace);
    }
    audit::append(&mut session, journal, record).await?;
    session.commit().await?;
    Ok(Guarded::Done)
}

fn scan_of(row: &Row) -> SqlResult<Scan> {
    let read = || -> SqlResult<Scan> {
        let state = row.text(2)?;
        Ok(Scan {
            scan_id: ScanId::new(row.text(0)?),
            rule: row.text(1)?,
            state: ScanState::from_word(&state)
                .ok_or_else(|| Fault::unreadable(format!("state {state:?} is not known")))?,
            actor: row.text(3)?,
            started_at: row.time(4)?,
            finished_at: row.time_or_null(5)?,
            lease_until: row.time_or_null(6)?,
            rows_read: row.count(7)?,
            not_compared: parsed::<Vec<NotCompared>>(row.text_or_null(8)?),
            progress: parsed::<Progress>(row.text_or_null(9)?),
        })
    };
    read().map_err(|fault| fault.in_table("scans"))
}

fn finding_of(row: &Row) -> SqlResult<Finding> {
    let read = || -> SqlResult<Finding> {
        let evidence = row.text(10)?;
        let known: Option<Difference> = serde_json::from_str(&evidence).ok();
        let (class, subject) = (row.text(8)?, row.text(9)?);
        let difference = known.unwrap_or_else(|| Difference {
            // Written by another version: what the columns tell is shown.
            summary: format!("{class} {subject}"),
            class,
            subject,
            service: String::new(),
            event_id: None,
            consumer: None,
            since: None,
            at: None,
            facts: Vec::new(),
            suggestion: None,
        });
        Ok(Finding {
            finding_id: FindingId::new(row.text(0)?),
            rule: row.text(1)?,
            scan_id: ScanId::new(row.text(2)?),
            state: FindingState::from_word(&row.text(3)?),
            first_seen_at: row.time(4)?,
            last_seen_at: row.time(5)?,
            owner: row.text_or_null(6)?,
            note: row.text_or_null(7)?,
            difference,
        })
    };
    read().map_err(|fault| fault.in_table("findings"))
}
