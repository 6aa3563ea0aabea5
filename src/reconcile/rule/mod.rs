//! Rules in SQL from the configuration: a page of keys, evidence fetched in batches for the keys whose
//! class needs it, and the first class that holds. `classify` decides, `fetch` asks.

mod classify;
mod fetch;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::check::{Check, Ground, Look, PAGE, place, placed};
use crate::base::clock::Timestamp;
use crate::config::ScanRule;
use crate::config::scanning::{Class, FINE, KeyKind, WAITING};
use crate::model::scan::{Difference, Suggestion};
use crate::store::{StoreError, Value};
use classify::{Case, Row, Verdict, shown};

/// Keys read again around one suspect, to find it although a row was put in before it.
const AROUND: u32 = 3;

/// A rule at work.
pub(super) struct RuleCheck {
    rule: ScanRule,
    /// The key before each suspect, from which it is read again.
    before: Mutex<HashMap<String, Value>>,
}

/// A key as a place.
#[derive(serde::Serialize, serde::Deserialize)]
enum Place {
    Number(i64),
    Text(String),
}

impl RuleCheck {
    pub(super) fn new(rule: ScanRule) -> Self {
        Self {
            rule,
            before: Mutex::default(),
        }
    }

    fn first(&self) -> Value {
        match self.rule.key {
            KeyKind::Number => Value::Int(i64::MIN),
            KeyKind::Text => Value::Text(String::new()),
        }
    }

    fn grace(&self, ground: &Ground) -> Ground {
        Ground {
            grace: self.rule.grace.unwrap_or(ground.grace),
            ..ground.clone()
        }
    }

    /// The rows of some keys, classified.
    async fn judge(
        &self,
        ground: &Ground,
        (rows, now): (Vec<Row>, Timestamp),
        look: &mut Look,
    ) -> Vec<Difference> {
        let mut cases: Vec<Case> = rows.into_iter().map(Case::new).collect();
        fetch::complete(ground, &self.rule, &mut cases, look).await;
        let mut found = Vec::new();
        for case in &cases {
            let class = match case.verdict(&self.rule) {
                Verdict::Class(index) => self.rule.classes.get(index),
                Verdict::Fine | Verdict::NotCompared | Verdict::Needs(_) => None,
            };
            let Some(class) = class.filter(|class| class.class != FINE) else {
                continue;
            };
            if class.class == WAITING {
                look.explain(self.says(case, class));
            } else if ground.is_over(case.changed_at(), now) {
                found.push(self.difference(case, class));
            } else {
                look.in_flight += 1;
            }
        }
        found
    }

    /// Of those that wait, the sentence is the reason they are counted under.
    fn says(&self, case: &Case, class: &Class) -> String {
        match &class.says {
            Some(says) => case.rendered(says),
            None => format!("{} {}: {}", self.rule.service, case.key(), class.class),
        }
    }

    fn difference(&self, case: &Case, class: &Class) -> Difference {
        let suggestion = class.suggest.as_ref().map(|suggest| {
            let command = case.rendered(suggest);
            let mut words = command.split_whitespace().skip(1);
            let mut verb = words.next().unwrap_or_default().to_owned();
            if verb == "saga" {
                verb = format!("saga {}", words.next().unwrap_or_default());
            }
            let target = words.next().unwrap_or_default().to_owned();
            Suggestion {
                verb,
                target,
                service: self.rule.service.clone(),
                command,
            }
        });
        Difference {
            class: class.class.clone(),
            subject: case.key(),
            service: self.rule.service.clone(),
            summary: self.says(case, class),
            event_id: None,
            consumer: None,
            since: case.changed_at(),
            at: None,
            facts: case.facts(),
            suggestion,
        }
    }
}

#[async_trait]
impl Check for RuleCheck {
    fn parts(&self, _ground: &Ground) -> Vec<String> {
        vec![self.rule.service.clone()]
    }

    async fn page(
        &self,
        ground: &Ground,
        _part: &str,
        after: Option<&str>,
    ) -> Result<Look, StoreError> {
        let ground = &self.grace(ground);
        let after = match after.and_then(place::<Place>) {
            None => self.first(),
            Some(Place::Number(n)) => Value::Int(n),
            Some(Place::Text(text)) => Value::Text(text),
        };
        let (rows, now) = fetch::keys(ground, &self.rule, after.clone(), PAGE).await?;
        let mut look = Look {
            examined: rows.len() as u64,
            rows_read: rows.len() as u64,
            ..Look::default()
        };
        let last = rows.last().filter(|_| rows.len() >= PAGE as usize);
        look.next = last.and_then(|row| match row.first() {
            Value::Int(n) => placed(&Place::Number(*n)),
            other => placed(&Place::Text(shown(other).unwrap_or_default())),
        });
        let befores: HashMap<String, Value> = std::iter::once(after)
            .chain(rows.iter().map(|row| row.first().clone()))
            .zip(&rows)
            .map(|(before, row)| (shown(row.first()).unwrap_or_default(), before))
            .collect();
        look.differences = self.judge(ground, (rows, now), &mut look).await;
        let mut known = self.before.lock().await;
        for difference in &look.differences {
            if let Some(before) = befores.get(&difference.subject) {
                known.insert(difference.subject.clone(), before.clone());
            }
        }
        Ok(look)
    }

    async fn again(
        &self,
        ground: &Ground,
        _part: &str,
        suspects: Vec<Difference>,
    ) -> Result<Look, StoreError> {
        let ground = &self.grace(ground);
        let mut look = Look::default();
        let mut rows = Vec::new();
        let mut clock = None;
        for suspect in &suspects {
            let before = self.before.lock().await.get(&suspect.subject).cloned();
            let Some(before) = before else { continue };
            let (found, now) = fetch::keys(ground, &self.rule, before, AROUND).await?;
            look.rows_read += found.len() as u64;
            clock = Some(now);
            rows.extend(
                found
                    .into_iter()
                    .find(|row| shown(row.first()).as_ref() == Some(&suspect.subject)),
            );
        }
        let Some(now) = clock else { return Ok(look) };
        let still = self.judge(ground, (rows, now), &mut look).await;
        // One that differs in another way by now moves: the next scan tells.
        look.differences = still
            .into_iter()
            .filter(|difference| {
                suspects.iter().any(|suspect| {
                    suspect.subject == difference.subject && suspect.class == difference.class
                })
            })
            .collect();
        Ok(look)
    }
}
