//! One `[contexts.NAME]` table → a checked [`Context`].

use std::time::Duration;

use super::section::Section;
use super::{
    ConfigError, Context, Environment, OwnerRule, Thresholds, alerting, consuming, dispatcher,
    drilling, retention, scanning, service, url, verdicts,
};
use crate::config::duration;
use crate::model::operation::Verb;

/// How long a production context stays unlocked unless the file says otherwise.
const UNLOCK: Duration = Duration::from_mins(10);

pub(super) fn read(name: &str, section: &Section<'_>) -> Result<Context, ConfigError> {
    section.only(&[
        "environment",
        "amqp",
        "amqp_command",
        "amqp_password_env",
        "amqp_password_file",
        "amqp_password_command",
        "management",
        "management_command",
        "management_password_env",
        "management_password_file",
        "management_password_command",
        "read_only",
        "rights",
        "never_replay",
        "inbox_retention",
        "ticket_pattern",
        "unlock",
        "masked",
        "owners",
        "thresholds",
        "dispatcher",
        "consumer",
        "drill",
        "retention",
        "verdicts",
        "on_death",
        "scan",
        "services",
    ])?;
    let environment = environment(section)?;
    let amqp = url::read(section, &url::AMQP)?;
    let management = url::read(section, &url::MANAGEMENT)?;
    if let (Some(amqp), Some(_)) = (&amqp, &management)
        && amqp.scheme() == "embedded"
    {
        return Err(section.error(
            "management",
            "is given, but the embedded broker has no management API",
            "remove it: the embedded broker answers for itself",
        ));
    }
    let thresholds = thresholds(section)?;
    let dispatcher = dispatcher::read(section, &thresholds)?;
    let consumer = consuming::read(section, thresholds.statement_timeout)?;
    let inbox_retention = section.duration("inbox_retention")?;
    let retention = retention::read(section, inbox_retention)?;
    let services = service::read_all(section, &consumer)?;
    let context = Context {
        name: name.to_owned(),
        environment,
        read_only: section.boolean("read_only")?.unwrap_or(false),
        amqp,
        management,
        scan: scanning::read(section, &services)?,
        services,
        rights: rights(section)?,
        never_replay: section.names("never_replay")?.unwrap_or_default(),
        inbox_retention,
        ticket_pattern: ticket_pattern(section)?,
        unlock: section.duration("unlock")?.unwrap_or(UNLOCK),
        masked: section.names("masked")?.unwrap_or_default(),
        owners: owners(section)?,
        thresholds,
        dispatcher,
        consumer,
        drill: drilling::read(section)?,
        retention,
        verdicts: verdicts::read(section)?,
        on_death: alerting::read(section)?,
    };
    Ok(context)
}

fn environment(section: &Section<'_>) -> Result<Environment, ConfigError> {
    const FIX: &str = "use \"sandbox\", \"staging\" or \"production\"";
    let word = section.required_name("environment", FIX)?;
    [
        Environment::Sandbox,
        Environment::Staging,
        Environment::Production,
    ]
    .into_iter()
    .find(|environment| environment.word() == word)
    .ok_or_else(|| section.error("environment", "is not an environment", FIX))
}

fn rights(section: &Section<'_>) -> Result<Vec<Verb>, ConfigError> {
    let Some(words) = section.names("rights")? else {
        return Ok(Verb::ALL.to_vec());
    };
    words
        .iter()
        .map(|word| {
            Verb::from_word(word).ok_or_else(|| {
                let all: Vec<_> = Verb::ALL.iter().map(|verb| verb.word()).collect();
                section.error(
                    "rights",
                    format!("has a word that is no verb: {word:?}"),
                    format!(
                        "use some of: {}; an empty list allows nothing",
                        all.join(", ")
                    ),
                )
            })
        })
        .collect()
}

fn ticket_pattern(section: &Section<'_>) -> Result<Option<String>, ConfigError> {
    let pattern = section.name("ticket_pattern")?;
    if pattern
        .as_ref()
        .is_some_and(|pattern| !pattern.contains('#'))
    {
        return Err(section.error(
            "ticket_pattern",
            "has no `#`",
            "write `#` for each digit, e.g. \"OPS-####\"",
        ));
    }
    Ok(pattern)
}

fn owners(section: &Section<'_>) -> Result<Vec<OwnerRule>, ConfigError> {
    section
        .sections("owners")?
        .into_iter()
        .map(|rule| {
            rule.only(&["consumer", "event_type", "owner"])?;
            let owner = OwnerRule {
                consumer: rule.name("consumer")?,
                event_type: rule.name("event_type")?,
                owner: rule
                    .required_name("owner", "say who takes care, e.g. owner = \"team-stock\"")?,
            };
            Ok(owner)
        })
        .collect()
}

pub(super) fn positive(
    section: &Section<'_>,
    key: &'static str,
    default: Duration,
) -> Result<Duration, ConfigError> {
    match section.duration(key)? {
        Some(Duration::ZERO) => Err(section.error(
            key,
            "is zero",
            format!(
                "use more than zero; the default is {}",
                duration::show(default)
            ),
        )),
        given => Ok(given.unwrap_or(default)),
    }
}

pub(super) fn number(
    section: &Section<'_>,
    key: &'static str,
    bounds: std::ops::RangeInclusive<u64>,
    default: u32,
) -> Result<u32, ConfigError> {
    let given = section.integer(key, bounds)?;
    Ok(given.and_then(|n| u32::try_from(n).ok()).unwrap_or(default))
}

fn thresholds(context: &Section<'_>) -> Result<Thresholds, ConfigError> {
    let base = Thresholds::default();
    let Some(section) = context.section("thresholds")? else {
        return Ok(base);
    };
    section.only(&[
        "refresh",
        "stale_after",
        "statement_timeout",
        "count_cap",
        "page_rows",
        "clock_skew",
        "proof_deadline",
        "publish_deadline",
    ])?;
    let thresholds = Thresholds {
        refresh: positive(&section, "refresh", base.refresh)?,
        stale_after: positive(&section, "stale_after", base.stale_after)?,
        statement_timeout: positive(&section, "statement_timeout", base.statement_timeout)?,
        count_cap: section
            .integer("count_cap", 1..=1_000_000)?
            .unwrap_or(base.count_cap),
        page_rows: number(&section, "page_rows", 1..=1_000, base.page_rows)?,
        clock_skew: positive(&section, "clock_skew", base.clock_skew)?,
        proof_deadline: positive(&section, "proof_deadline", base.proof_deadline)?,
        publish_deadline: positive(&section, "publish_deadline", base.publish_deadline)?,
    };
    if thresholds.stale_after <= thresholds.refresh {
        return Err(section.error(
            if section.has("stale_after") {
                "stale_after"
            } else {
                "refresh"
            },
            format!(
                "makes all data stale: stale_after is {}, and it is read every {} (refresh)",
                duration::show(thresholds.stale_after),
                duration::show(thresholds.refresh)
            ),
            "make stale_after longer than refresh, e.g. five times as long",
        ));
    }
    Ok(thresholds)
}
