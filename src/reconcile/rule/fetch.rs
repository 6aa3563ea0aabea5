//! Asking: pages of keys, and evidence in batches for the keys that need it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::classify::{Case, Known, Row, Verdict, shown};
use crate::base::clock::Timestamp;
use crate::config::ScanRule;
use crate::config::scanning::{Evidence, EvidenceSource, Piece, RuleSql, Slot};
use crate::model::scan::NotCompared;
use crate::reconcile::backlog;
use crate::reconcile::check::{Ground, Look, missed};
use crate::store::scan::RuleQuery;
use crate::store::{StoreError, Value};

/// Keys of a batch; a few sizes only, so that sessions keep few statements.
const SIZES: [usize; 5] = [1, 8, 32, 128, 500];
/// Rows a key may have in an evidence before the query is refused.
const ROWS_A_KEY: usize = 8;

/// What slots are filled with.
struct Filling<'a> {
    after: Option<&'a Value>,
    rows: u32,
    keys: &'a [Value],
}

fn query(sql: &RuleSql, filling: &Filling<'_>, rows_max: u32) -> RuleQuery {
    let size = SIZES.into_iter().find(|size| *size >= filling.keys.len());
    let size = size.unwrap_or(filling.keys.len());
    let last = filling.keys.last().into_iter().cycle();
    let padded: Vec<&Value> = filling.keys.iter().chain(last).take(size).collect();
    let mut statement = String::new();
    let mut values = Vec::new();
    for piece in &sql.pieces {
        match piece {
            Piece::Text(text) => statement.push_str(text),
            Piece::Slot(Slot::After) => {
                statement.push('?');
                values.push(filling.after.cloned().unwrap_or(Value::Null));
            }
            Piece::Slot(Slot::Rows) => {
                statement.push('?');
                values.push(Value::Int(i64::from(filling.rows)));
            }
            Piece::Slot(slot @ (Slot::Keys | Slot::Texts)) => {
                statement.push_str(&vec!["?"; padded.len()].join(", "));
                values.extend(padded.iter().map(|key| match (slot, key) {
                    (Slot::Texts, key) => shown(key).map_or(Value::Null, Value::Text),
                    (_, key) => (*key).clone(),
                }));
            }
        }
    }
    RuleQuery {
        statement,
        values,
        rows_max,
    }
}

async fn rows(
    ground: &Ground,
    service: &str,
    query: &RuleQuery,
) -> Result<(Vec<Row>, Timestamp), StoreError> {
    let answer = ground.store(service)?.rule_rows(query).await?;
    let columns = Arc::new(answer.columns);
    let rows = answer.rows.into_iter().map(|values| Row {
        columns: Arc::clone(&columns),
        values,
    });
    Ok((rows.collect(), answer.now))
}

/// A page of keys after one.
pub async fn keys(
    ground: &Ground,
    rule: &ScanRule,
    after: Value,
    page: u32,
) -> Result<(Vec<Row>, Timestamp), StoreError> {
    let filling = Filling {
        after: Some(&after),
        rows: page,
        keys: &[],
    };
    rows(ground, &rule.service, &query(&rule.keys, &filling, page)).await
}

/// Fetches evidence until every case is decided.
pub async fn complete(ground: &Ground, rule: &ScanRule, cases: &mut [Case], look: &mut Look) {
    // Each round answers one evidence for every case that waits for it: as many rounds as there are
    // evidences at most, since none is asked for twice.
    for _ in 0..=rule.evidence.len() {
        let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, case) in cases.iter().enumerate() {
            if let Some(of) = needed(rule, case) {
                wanted.entry(of).or_default().push(index);
            }
        }
        if wanted.is_empty() {
            break;
        }
        for (of, indexes) in wanted {
            if let Some(evidence) = rule.evidence(of) {
                ask(ground, evidence, (cases, &indexes), look).await;
            }
        }
    }
    let missing = cases
        .iter()
        .filter(|case| case.verdict(rule) == Verdict::NotCompared)
        .count() as u64;
    if missing > 0 {
        *look
            .explained
            .entry("not compared: evidence could not be read".to_owned())
            .or_default() += missing;
    }
}

/// The evidence a case waits for, after what that is looked up by.
fn needed<'a>(rule: &'a ScanRule, case: &Case) -> Option<&'a str> {
    let Verdict::Needs(mut of) = case.verdict(rule) else {
        return None;
    };
    // An evidence is looked up by one above it, so this ends.
    loop {
        let evidence = rule.evidence(&of)?;
        match case.lookup(&evidence.by) {
            Err(Verdict::Needs(before)) => of = before,
            _ => return Some(&evidence.name),
        }
    }
}

async fn ask(
    ground: &Ground,
    evidence: &Evidence,
    (cases, indexes): (&mut [Case], &[usize]),
    look: &mut Look,
) {
    let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
    let mut keys: Vec<Value> = Vec::new();
    for index in indexes {
        let Some(case) = cases.get_mut(*index) else {
            continue;
        };
        match case.lookup(&evidence.by) {
            Ok(Some(key)) => {
                let entry = by_key.entry(shown(&key).unwrap_or_default()).or_default();
                if entry.is_empty() {
                    keys.push(key);
                }
                entry.push(*index);
            }
            // Nothing to look up by: what is not there has no evidence either.
            Ok(None) => case.learn(&evidence.name, Known::Absent),
            Err(_) => case.learn(&evidence.name, Known::Unread),
        }
    }
    match &evidence.source {
        EvidenceSource::Queue { queue } => {
            from_queue(ground, (&evidence.name, queue), (cases, &by_key), look).await;
        }
        EvidenceSource::Query { service, sql } => {
            let largest = SIZES.last().copied().unwrap_or(1);
            for chunk in keys.chunks(largest) {
                let answered = from_query(ground, (service, sql), chunk).await;
                let found = match answered {
                    Ok(rows) => {
                        look.rows_read += rows.len() as u64;
                        Some(rows)
                    }
                    Err(error) => {
                        look.not_compared
                            .push(missed(format!("{} of {service}", evidence.name), &error));
                        None
                    }
                };
                spread(&evidence.name, chunk, found, (cases, &by_key));
            }
        }
    }
}

async fn from_query(
    ground: &Ground,
    (service, sql): (&str, &RuleSql),
    keys: &[Value],
) -> Result<Vec<Row>, StoreError> {
    let rows_max = u32::try_from(keys.len() * ROWS_A_KEY).unwrap_or(u32::MAX);
    let filling = Filling {
        after: None,
        rows: 0,
        keys,
    };
    let query = query(sql, &filling, rows_max);
    let answered = ground.patiently(service, || rows(ground, service, &query));
    Ok(answered.await?.0)
}

/// Gives each case its row: the first of its key.
fn spread(
    of: &str,
    keys: &[Value],
    found: Option<Vec<Row>>,
    (cases, by_key): (&mut [Case], &HashMap<String, Vec<usize>>),
) {
    let is_read = found.is_some();
    let mut answered: HashSet<String> = HashSet::new();
    let mut tell = |key: &str, known: &Known| {
        for index in by_key.get(key).into_iter().flatten() {
            if let Some(case) = cases.get_mut(*index) {
                case.learn(of, known.clone());
            }
        }
    };
    for row in found.into_iter().flatten() {
        let Some(key) = shown(row.first()) else {
            continue;
        };
        if answered.insert(key.clone()) {
            tell(&key, &Known::Row(row));
        }
    }
    for key in keys {
        let key = shown(key).unwrap_or_default();
        if !answered.contains(&key) {
            let known = if is_read {
                Known::Absent
            } else {
                Known::Unread
            };
            tell(&key, &known);
        }
    }
}

/// Whether a queue may still hold what was sent then; `by` is the time of sending.
async fn from_queue(
    ground: &Ground,
    (of, queue): (&str, &str),
    (cases, by_key): (&mut [Case], &HashMap<String, Vec<usize>>),
    look: &mut Look,
) {
    if by_key.is_empty() {
        return;
    }
    let backlog = backlog::look(ground, queue).await;
    let columns: Arc<Vec<String>> = Arc::new(
        ["sent_at", "holds", "messages", "says"]
            .map(str::to_owned)
            .to_vec(),
    );
    let patience = backlog::patience(ground);
    let mut is_no_time = false;
    for (at, indexes) in by_key {
        let known = match (&backlog, at.parse::<i64>()) {
            (Ok(backlog), Ok(micros)) => {
                let why = backlog.may_hold(Timestamp::from_micros(micros), patience);
                let text = |text: &str| Value::Text(text.to_owned());
                Known::Row(Row {
                    columns: Arc::clone(&columns),
                    values: vec![
                        Value::Int(micros),
                        text(if why.is_some() { "yes" } else { "no" }),
                        Value::Int(i64::try_from(backlog.messages).unwrap_or(i64::MAX)),
                        why.map_or(Value::Null, Value::Text),
                    ],
                })
            }
            (Ok(_), Err(_)) => {
                is_no_time = true;
                Known::Unread
            }
            (Err(_), _) => Known::Unread,
        };
        for index in indexes {
            if let Some(case) = cases.get_mut(*index) {
                case.learn(of, known.clone());
            }
        }
    }
    match backlog {
        Err(missing) => look.not_compared.push(missing),
        Ok(_) if is_no_time => look.not_compared.push(NotCompared {
            what: format!("evidence {of}"),
            reason: "`by` names a column that holds no time".to_owned(),
            is_unreachable: false,
        }),
        Ok(_) => {}
    }
}
