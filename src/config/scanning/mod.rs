//! `[contexts.NAME.scan]`: how patient reconciliation is, and rules in SQL for business tables. A rule is
//! a key query, evidence queries, and classes; everything about it is checked when the file is read.

mod condition;
mod sql;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use toml::de::DeTable;

use super::section::{Section, Source};
use super::{ConfigError, Service, context};

pub use condition::{ColumnRef, Condition, Operand, Template, TemplatePart};
pub use sql::{Piece, RuleSql, Slot};

/// The name under which conditions know the row of the key query.
pub const KEY: &str = "key";
/// The class that ends the look at a key without a finding.
pub const FINE: &str = "fine";
/// The class of keys that differ for a reason that ends by itself: counted, and no finding.
pub const WAITING: &str = "waiting";
/// Subcommands a suggestion may name.
const SUGGESTED: [&str; 10] = [
    "replay",
    "repair",
    "discard",
    "release",
    "saga",
    "dead",
    "outbox",
    "sagas",
    "operations",
    "queues",
];

/// How patient scans are, and the context's own rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSettings {
    /// What changed less than so long ago is in flight.
    pub grace: Duration,
    /// How far back walks over outboxes and inboxes look.
    pub window: Duration,
    /// A difference is looked at again after so long, and reported only if it is still there.
    pub second_look: Duration,
    /// Rules for business tables.
    pub rules: Vec<ScanRule>,
}

impl Default for ScanSettings {
    fn default() -> Self {
        Self {
            grace: Duration::from_mins(2),
            window: Duration::from_hours(7 * 24),
            second_look: Duration::from_secs(2),
            rules: Vec::new(),
        }
    }
}

/// What the keys of a rule are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Whole numbers.
    Number,
    /// Texts.
    Text,
}

/// One rule: authoritative keys, evidence from any service, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRule {
    /// Its name, unique in the context.
    pub name: String,
    /// What it compares, in one line.
    pub about: String,
    /// Service whose rows are authoritative.
    pub service: String,
    /// What its keys are.
    pub key: KeyKind,
    /// One page of keys: `:after` and `:rows`; the first column is the key.
    pub keys: RuleSql,
    /// Evidence, fetched only for keys whose class needs it.
    pub evidence: Vec<Evidence>,
    /// Classes, the first that holds wins; none: the key is fine.
    pub classes: Vec<Class>,
    /// The context's grace, or the rule's own.
    pub grace: Option<Duration>,
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How conditions call it.
    pub name: String,
    /// The column it is looked up by; the rule's key unless it is said.
    pub by: ColumnRef,
    /// Where it comes from.
    pub source: EvidenceSource,
}

/// Where evidence comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvidenceSource {
    /// A query of a service's database: `:keys` or `:texts`; its first column is the key, the first row of
    /// a key counts.
    Query {
        /// The service.
        service: String,
        /// The query.
        sql: RuleSql,
    },
    /// A queue: `holds` says `yes` when it may still hold what was sent at the time in [`Evidence::by`].
    Queue {
        /// Its name.
        queue: String,
    },
}

/// What a combination of evidence means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name; [`FINE`] and [`WAITING`] are no findings.
    pub class: String,
    /// All of these hold.
    pub when: Vec<Condition>,
    /// One sentence for people.
    pub says: Option<Template>,
    /// The command that plans the fix.
    pub suggest: Option<Template>,
}

impl ScanRule {
    /// The evidence of a name.
    pub fn evidence(&self, name: &str) -> Option<&Evidence> {
        self.evidence.iter().find(|evidence| evidence.name == name)
    }
}

pub(super) fn read(
    context: &Section<'_>,
    services: &[Service],
) -> Result<ScanSettings, ConfigError> {
    let base = ScanSettings::default();
    let Some(section) = context.section("scan")? else {
        return Ok(base);
    };
    section.only(&["grace", "window", "second_look", "rules"])?;
    let services: Vec<&str> = services.iter().map(|s| s.name.as_str()).collect();
    Ok(ScanSettings {
        grace: context::positive(&section, "grace", base.grace)?,
        window: context::positive(&section, "window", base.window)?,
        second_look: section.duration("second_look")?.unwrap_or(base.second_look),
        rules: rules(&section, &services)?,
    })
}

/// Rules of a pack that is no part of a configuration: a text with `[[rules]]`.
///
/// # Errors
/// Names file and line, key and fix.
pub fn pack(file: &str, text: &str, services: &[&str]) -> Result<Vec<ScanRule>, ConfigError> {
    let source = Source {
        file: file.to_owned(),
        text,
        env: &|_| None,
        origins: BTreeMap::new().into(),
    };
    let table = DeTable::parse(text).map_err(|error| ConfigError {
        origin: file.to_owned(),
        key: "(syntax)".to_owned(),
        problem: format!("is not TOML: {}", error.message()),
        fix: "mend it".to_owned(),
    })?;
    rules(&Section::root(&source, table.get_ref()), services)
}

fn rules(section: &Section<'_>, services: &[&str]) -> Result<Vec<ScanRule>, ConfigError> {
    let mut names = BTreeSet::new();
    section
        .sections("rules")?
        .iter()
        .map(|section| {
            let rule = rule(section, services)?;
            if names.insert(rule.name.clone()) {
                Ok(rule)
            } else {
                Err(section.error(
                    "name",
                    format!("{:?} is used twice", rule.name),
                    "give each rule its own name",
                ))
            }
        })
        .collect()
}

fn rule(section: &Section<'_>, services: &[&str]) -> Result<ScanRule, ConfigError> {
    section.only(&[
        "name", "about", "service", "key", "keys", "grace", "evidence", "classes",
    ])?;
    let name = section.required_name("name", "name the rule, e.g. name = \"orders-stuck\"")?;
    let key = match section.name("key")?.as_deref() {
        None | Some("number") => KeyKind::Number,
        Some("text") => KeyKind::Text,
        Some(_) => {
            return Err(section.error(
                "key",
                "is no kind of key",
                "write \"number\" (whole numbers) or \"text\"",
            ));
        }
    };
    let keys = query(section, "keys", &[Slot::After, Slot::Rows])?;
    let mut evidence: Vec<Evidence> = Vec::new();
    for part in section.sections("evidence")? {
        let known: Vec<&str> = evidence.iter().map(|e| e.name.as_str()).collect();
        let read = evidence_of(&part, services, &known)?;
        evidence.push(read);
    }
    let known: Vec<&str> = evidence.iter().map(|e| e.name.as_str()).collect();
    let classes = section
        .sections("classes")?
        .iter()
        .map(|class| class_of(class, &known))
        .collect::<Result<Vec<_>, _>>()?;
    if classes
        .iter()
        .all(|class| [FINE, WAITING].contains(&class.class.as_str()))
    {
        return Err(section.error(
            "classes",
            "names nothing that could be found",
            "add a [[…classes]] with class and when",
        ));
    }
    Ok(ScanRule {
        about: section.text("about")?.unwrap_or_else(|| name.clone()),
        service: service(section, services)?,
        key,
        keys,
        evidence,
        classes,
        grace: section.duration("grace")?,
        name,
    })
}

fn service(section: &Section<'_>, services: &[&str]) -> Result<String, ConfigError> {
    let fix = format!("use one of: {}", services.join(", "));
    let name = section.required_name("service", &fix)?;
    if services.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(section.error(
        "service",
        format!("{name:?} is no service of the context"),
        fix,
    ))
}

fn query(
    section: &Section<'_>,
    key: &'static str,
    needed: &[Slot],
) -> Result<RuleSql, ConfigError> {
    let names: Vec<&str> = needed.iter().map(|slot| slot.name()).collect();
    let text = section.text(key)?.ok_or_else(|| {
        section.error(
            key,
            "is missing",
            format!("write a SELECT with {}", names.join(" and ")),
        )
    })?;
    RuleSql::parse(&text, needed).map_err(|fault| section.error(key, fault.problem, fault.fix))
}

fn evidence_of(
    section: &Section<'_>,
    services: &[&str],
    before: &[&str],
) -> Result<Evidence, ConfigError> {
    section.only(&["name", "service", "by", "sql", "queue"])?;
    let name = section.required_name("name", "name it, e.g. name = \"stock\"")?;
    if name == KEY || before.contains(&name.as_str()) {
        return Err(section.error(
            "name",
            format!("{name:?} is taken"),
            "give each evidence its own name; \"key\" is the row of the key query",
        ));
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(section.error("name", "is not one plain word", "use letters, digits and _"));
    }
    let queue = section.name("queue")?;
    if queue.is_some() && (section.has("sql") || section.has("service") || !section.has("by")) {
        return Err(section.error(
            "queue",
            "stands beside sql or service, or without by",
            "a queue needs only `by`, the column that says when the message was sent",
        ));
    }
    let text = section.text("sql")?.unwrap_or_default();
    let slot = if text.contains(Slot::Texts.name()) {
        Slot::Texts
    } else {
        Slot::Keys
    };
    let by = match section.text("by")? {
        None => ColumnRef {
            of: KEY.to_owned(),
            column: String::new(),
        },
        Some(by) => ColumnRef::parse(&by, before).map_err(|problem| {
            section.error(
                "by",
                problem,
                "write NAME.column of the key query (key.column) or of an evidence above this one",
            )
        })?,
    };
    let source = match queue {
        Some(queue) => EvidenceSource::Queue { queue },
        None => EvidenceSource::Query {
            service: service(section, services)?,
            sql: query(section, "sql", &[slot])?,
        },
    };
    Ok(Evidence { name, by, source })
}

fn class_of(section: &Section<'_>, known: &[&str]) -> Result<Class, ConfigError> {
    section.only(&["class", "when", "says", "suggest"])?;
    let class = section.required_name("class", "name the class, e.g. class = \"not_sent\"")?;
    let when = section
        .texts("when")?
        .unwrap_or_default()
        .iter()
        .map(|text| {
            Condition::parse(text, known).map_err(|problem| {
                section.error("when", format!("{text:?} {problem}"), condition::FORM)
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    if when.is_empty() {
        return Err(section.error(
            "when",
            "says nothing, so every key would be of this class",
            condition::FORM,
        ));
    }
    let template = |key: &'static str| -> Result<Option<Template>, ConfigError> {
        section
            .text(key)?
            .map(|text| {
                Template::parse(&text, known)
                    .map_err(|problem| section.error(key, problem, "write {key} or {NAME.column}"))
            })
            .transpose()
    };
    let suggest = template("suggest")?;
    if let Some(suggest) = &suggest
        && !suggest.begins_with_one_of(&SUGGESTED)
    {
        return Err(section.error(
            "suggest",
            "is no command that plans or shows something",
            format!("begin with `redrive` and one of: {}", SUGGESTED.join(", ")),
        ));
    }
    Ok(Class {
        class,
        when,
        says: template("says")?,
        suggest,
    })
}
