//! `[[contexts.NAME.services]]` → checked [`Service`]s: layouts that exist, names that are unique,
//! and parts that fit together.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Section;
use super::{
    ConfigError, ConsumerLimits, DeadLetterPart, InboxPart, OutboxPart, SagaPart, Service,
    consuming, url,
};
use crate::model::ids::ConsumerName;

/// Layouts of outboxes and inboxes.
pub const LAYOUTS: [&str; 2] = ["native", "compact"];

pub(super) fn read_all(
    context: &Section<'_>,
    limits: &ConsumerLimits,
) -> Result<Vec<Service>, ConfigError> {
    let mut taken = Taken::default();
    let sections = context.sections("services")?;
    let services = sections
        .iter()
        .map(|section| read(section, &mut taken))
        .collect::<Result<Vec<_>, _>>()?;
    for (section, service) in sections.iter().zip(&services) {
        no_work_queue_is_collected(section, service, &services)?;
        let collected = service
            .dead_letters
            .as_ref()
            .map(|part| part.queues.as_slice())
            .unwrap_or_default();
        consuming::check_names(section, service.inbox.as_ref(), collected, limits)?;
    }
    if services.is_empty() {
        return Err(context.error(
            "services",
            "is empty",
            "add at least one [[contexts.NAME.services]] with name and database",
        ));
    }
    Ok(services)
}

/// Names that may be used once in a context: what is taken, and by which service.
#[derive(Default)]
struct Taken {
    services: BTreeSet<String>,
    consumers: BTreeMap<String, String>,
    queues: BTreeMap<String, String>,
}

fn read(section: &Section<'_>, taken: &mut Taken) -> Result<Service, ConfigError> {
    section.only(&[
        "name",
        "database",
        "database_command",
        "database_password_env",
        "database_password_file",
        "database_password_command",
        "outbox",
        "inbox",
        "dead_letters",
        "sagas",
        "journal",
    ])?;
    let name = section.required_name("name", "name the service, e.g. name = \"orders\"")?;
    if !taken.services.insert(name.clone()) {
        return Err(section.error(
            "name",
            format!("{name:?} is used twice"),
            "give each service its own name",
        ));
    }
    let database = url::read(section, &url::DATABASE)?.ok_or_else(|| {
        section.error(
            "database",
            "is missing",
            format!("add database = \"…\", e.g. {}", url::DATABASE.example),
        )
    })?;
    let service = Service {
        outbox: outbox(section)?,
        inbox: inbox(section, &name, taken)?,
        dead_letters: dead_letters(section, &name, taken)?,
        sagas: sagas(section)?,
        journal: false,
        name,
        database,
    };
    let native_outbox = service
        .outbox
        .as_ref()
        .is_some_and(|part| part.layout == "native");
    let journal = section
        .boolean("journal")?
        .unwrap_or(service.dead_letters.is_some() || service.sagas.is_some() || native_outbox);
    if service.dead_letters.is_some() && !journal {
        return Err(section.error(
            "journal",
            "is false, but the service has dead letters: nothing done to them could be recorded",
            "remove it, or remove dead_letters",
        ));
    }
    if service.outbox.is_none()
        && service.inbox.is_none()
        && service.dead_letters.is_none()
        && service.sagas.is_none()
        && !journal
    {
        return Err(section.error(
            "",
            "has no part of a pipeline",
            "add at least one of outbox, inbox, dead_letters, sagas",
        ));
    }
    Ok(Service { journal, ..service })
}

/// A collector takes every message out of its queue: pointed at a work queue it would drain live work.
fn no_work_queue_is_collected(
    section: &Section<'_>,
    service: &Service,
    all: &[Service],
) -> Result<(), ConfigError> {
    let Some(part) = &service.dead_letters else {
        return Ok(());
    };
    let work = all.iter().filter_map(|other| other.inbox.as_ref());
    match work
        .map(|inbox| &inbox.queue)
        .find(|queue| part.queues.contains(queue))
    {
        None => Ok(()),
        Some(queue) => Err(section.error(
            "dead_letters",
            format!("collects from {queue:?}, which a consumer works on"),
            "name the dead-letter queue, not the work queue",
        )),
    }
}

fn layout(section: &Section<'_>, known: &[&str], why: &str) -> Result<String, ConfigError> {
    let layout = section
        .name("layout")?
        .unwrap_or_else(|| "native".to_owned());
    if known.contains(&layout.as_str()) {
        return Ok(layout);
    }
    let near = similar::get_close_matches(layout.as_str(), known, 1, 0.6);
    let fix = match near.first() {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!(
            "use {}",
            known
                .iter()
                .map(|l| format!("\"{l}\""))
                .collect::<Vec<_>>()
                .join(" or ")
        ),
    };
    let problem = if LAYOUTS.contains(&layout.as_str()) {
        format!("{layout:?} cannot be used here: {why}")
    } else {
        format!("{layout:?} is not a known layout")
    };
    Err(section.error("layout", problem, fix))
}

fn outbox(service: &Section<'_>) -> Result<Option<OutboxPart>, ConfigError> {
    let Some(section) = service.section("outbox")? else {
        return Ok(None);
    };
    section.only(&["layout", "table", "exchange"])?;
    let part = OutboxPart {
        layout: layout(&section, &LAYOUTS, "")?,
        table: section.name("table")?,
        exchange: section.required_name("exchange", "name the exchange its events go to")?,
    };
    Ok(Some(part))
}

fn inbox(
    service: &Section<'_>,
    name: &str,
    taken: &mut Taken,
) -> Result<Option<InboxPart>, ConfigError> {
    let Some(section) = service.section("inbox")? else {
        return Ok(None);
    };
    section.only(&["layout", "table", "consumer", "queue"])?;
    let part = InboxPart {
        layout: layout(&section, &LAYOUTS, "")?,
        table: section.name("table")?,
        consumer: ConsumerName::new(
            section.required_name("consumer", "name the consumer as its inbox rows spell it")?,
        ),
        queue: section.required_name("queue", "name the queue it consumes")?,
    };
    if let Some(other) = taken
        .consumers
        .insert(part.consumer.as_str().to_owned(), name.to_owned())
    {
        return Err(section.error(
            "consumer",
            format!(
                "{:?} is the consumer of {other} already",
                part.consumer.as_str()
            ),
            "a consumer has one inbox: rename one of the two",
        ));
    }
    Ok(Some(part))
}

fn dead_letters(
    service: &Section<'_>,
    name: &str,
    taken: &mut Taken,
) -> Result<Option<DeadLetterPart>, ConfigError> {
    let Some(section) = service.section("dead_letters")? else {
        return Ok(None);
    };
    section.only(&["layout", "table", "queues"])?;
    let part = DeadLetterPart {
        layout: layout(
            &section,
            &["native"],
            "the compact layout has no table of dead letters",
        )?,
        table: section.name("table")?,
        queues: section.names("queues")?.unwrap_or_default(),
    };
    if part.queues.is_empty() {
        return Err(section.error(
            "queues",
            "names no dead-letter queue, so nothing would ever be collected",
            "name at least one, e.g. queues = [\"inventory.orders.dlq\"]",
        ));
    }
    for queue in &part.queues {
        if let Some(other) = taken.queues.insert(queue.clone(), name.to_owned()) {
            return Err(section.error(
                "queues",
                format!("{queue:?} is collected by {other} already"),
                "name each dead-letter queue once: two collectors would split its messages",
            ));
        }
    }
    Ok(Some(part))
}

fn sagas(service: &Section<'_>) -> Result<Option<SagaPart>, ConfigError> {
    let Some(section) = service.section("sagas")? else {
        return Ok(None);
    };
    section.only(&["layout", "table"])?;
    let part = SagaPart {
        layout: layout(&section, &["native"], "the compact layout has no sagas")?,
        table: section.name("table")?,
    };
    Ok(Some(part))
}
