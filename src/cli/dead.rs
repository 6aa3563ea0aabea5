//! `redrive dead [list|show]`.

use clap::{Args, Subcommand, ValueEnum};

use crate::base::clock::Timestamp;
use crate::model::count::Count;
use crate::model::dead_letter::{DeadLetter, DeadLetterStatus};
use crate::model::filter::FilterKind;
use crate::observe::DeadLettersView;
use crate::observe::snapshot::{DeadLetterFacts, PerService};

use super::dead_show;
use super::envelope::Answer;
use super::failure::{Failure, Outcome};
use super::list::{Listing, collect};
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left, right};

/// Arguments of `dead`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DeadArgs {
    /// What to do; `list` when there is none
    #[command(subcommand)]
    pub what: Option<DeadCommand>,
    /// Options of `list`.
    #[command(flatten)]
    pub list: DeadListArgs,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// Dead letters, newest death first, or their causes
    List(DeadListArgs),
    /// Everything known about one: message, deaths, inboxes, sequence
    Show(dead_show::DeadShowArgs),
}

/// Options of `dead list`.
#[derive(Debug, Args)]
pub struct DeadListArgs {
    /// Group open dead letters instead of listing them
    #[arg(long, value_enum)]
    pub by: Option<Grouping>,
    /// Status of the rows
    #[arg(long, value_enum)]
    pub status: Option<StatusWord>,
    /// Only this service's table
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Filter and paging.
    #[command(flatten)]
    pub listing: Listing,
}

/// How dead letters are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grouping {
    /// Consumer, event type and class of the error
    Cause,
}

/// A status that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusWord {
    /// Waits for a person
    Open,
    /// Held by an operation that is not proven yet
    Replaying,
    /// Replayed and seen consumed
    Replayed,
    /// Closed as already processed
    Resolved,
    /// Closed by a repair
    Repaired,
    /// Given up
    Discarded,
}

impl From<StatusWord> for DeadLetterStatus {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::Open => Self::Open,
            StatusWord::Replaying => Self::Replaying,
            StatusWord::Replayed => Self::Replayed,
            StatusWord::Resolved => Self::Resolved,
            StatusWord::Repaired => Self::Repaired,
            StatusWord::Discarded => Self::Discarded,
        }
    }
}

const ROWS: &[Column] = &[
    left("service"),
    left("event"),
    left("consumer"),
    left("type"),
    left("key"),
    right("v"),
    right("died"),
    right("deaths"),
    right("replays"),
    left("status"),
    left("replay"),
    left("owner"),
    flexible("error"),
];

const CAUSES: &[Column] = &[
    left("service"),
    left("consumer"),
    left("type"),
    left("cause"),
    right("n"),
    right("first"),
    right("last"),
    left("owner"),
    flexible("note"),
];

pub(super) async fn run(session: &Session, args: &DeadArgs) -> Outcome {
    match &args.what {
        Some(DeadCommand::Show(args)) => dead_show::run(session, args).await,
        Some(DeadCommand::List(args)) => list(session, args).await,
        None => list(session, &args.list).await,
    }
}

async fn list(session: &Session, args: &DeadListArgs) -> Outcome {
    let filter = args.listing.filter(FilterKind::DeadLetters)?;
    if args.by.is_some() && !filter.is_empty() {
        return Err(Failure::usage(
            "--by cause groups every open dead letter and takes no --filter; list rows to filter them",
        ));
    }
    let pushed = filter.pushdown();
    let row_filter = filter.row_terms();
    let status = match (args.status, pushed.state.as_deref()) {
        (Some(word), _) => word.into(),
        (None, Some(word)) => DeadLetterStatus::from_word(word).unwrap_or(DeadLetterStatus::Open),
        (None, None) => DeadLetterStatus::Open,
    };
    let service = args.service.clone().or(pushed.service);
    if let Some(name) = &service {
        known_service(session, name)?;
    }
    let view = DeadLettersView {
        service: service.clone(),
        status,
        consumer: pushed.consumer,
        event_type: pushed.event_type.map(Some),
        error_class: pushed.error_class,
        payload: filter.payload_terms(),
        after: None,
        limit: args.listing.page_rows(session.context()),
    };
    let snapshot = session.services.observer.dead_letters(&view).await;
    let kind = if args.by.is_some() {
        "dead_letter_causes"
    } else {
        "dead_letters"
    };
    let mut answer = session.answer(kind);
    let parts: Vec<_> = snapshot
        .services
        .iter()
        .filter(|part| service.as_ref().is_none_or(|only| *only == part.service))
        .collect();
    if args.by.is_some() {
        causes(&mut answer, &parts)?;
        return session.write(&answer);
    }
    let mut first = Vec::new();
    let mut total = Some(Count::Exact(0));
    for part in parts {
        let Some(facts) = answer.part(part) else {
            total = None;
            continue;
        };
        total = total.zip(count_of(facts, status)).map(|(a, b)| a.plus(b));
        queued_notes(&mut answer, facts);
        first.push((part.service.clone(), facts.page.clone()));
    }
    let next = async |name: &str, after| {
        let view = DeadLettersView {
            service: Some(name.to_owned()),
            after: Some(after),
            ..view.clone()
        };
        let snapshot = session.services.observer.dead_letters(&view).await;
        Ok(facts_of(snapshot.services, name)?.page)
    };
    answer.table = Table::new(ROWS);
    let collected = collect(&args.listing, &row_filter, answer.as_of, first, next).await?;
    for (service, letter) in &collected.rows {
        answer.item_of(service, letter)?;
        let cells = cells(service, letter, answer.as_of);
        answer.table.push(cells);
    }
    collected.describe(&mut answer, &filter, total);
    session.write(&answer)
}

fn known_service(session: &Session, name: &str) -> Outcome<()> {
    let services = &session.context().services;
    let names: Vec<_> = services
        .iter()
        .filter(|service| service.dead_letters.is_some())
        .map(|service| service.name.as_str())
        .collect();
    if names.contains(&name) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "no service {name:?} with dead letters; there are: {}",
        names.join(", ")
    )))
}

fn facts_of(parts: Vec<PerService<DeadLetterFacts>>, name: &str) -> Outcome<DeadLetterFacts> {
    match parts.into_iter().find(|part| part.service == name) {
        Some(PerService {
            value: Some(facts), ..
        }) => Ok(facts),
        Some(PerService {
            unread: Some(unread),
            ..
        }) => Err(unread.into()),
        _ => Err(Failure::internal(format!(
            "dead letters of {name} are missing from the snapshot"
        ))),
    }
}

fn count_of(facts: &DeadLetterFacts, status: DeadLetterStatus) -> Option<Count> {
    match status {
        DeadLetterStatus::Open => facts.groups.open,
        DeadLetterStatus::Replaying => facts.groups.replaying,
        DeadLetterStatus::Replayed
        | DeadLetterStatus::Resolved
        | DeadLetterStatus::Repaired
        | DeadLetterStatus::Discarded => None,
    }
}

fn queued_notes(answer: &mut Answer, facts: &DeadLetterFacts) {
    for (queue, depth) in &facts.queued {
        let queue = crate::base::text::safe(queue);
        match depth {
            Some(0) => {}
            Some(n) => answer.notes.push(format!("{queue}: {n} not collected yet")),
            None => answer.notes.push(format!("{queue}: depth not known")),
        }
    }
}

fn causes(answer: &mut Answer, parts: &[&PerService<DeadLetterFacts>]) -> Outcome<()> {
    answer.table = Table::new(CAUSES);
    let mut truncated = false;
    for part in parts {
        let Some(facts) = answer.part(part) else {
            continue;
        };
        truncated |= facts.groups.truncated;
        for group in &facts.groups.groups {
            answer.item_of(&part.service, group)?;
            answer.table.push(vec![
                Cell::text(&part.service),
                Cell::text(group.consumer.as_str()),
                Cell::optional(group.event_type.as_ref()),
                Cell::text(&group.error_class),
                Cell::number(Some(group.count)),
                Cell::ago(Some(group.first_died_at), answer.as_of),
                Cell::ago(Some(group.last_died_at), answer.as_of),
                Cell::optional(group.owner.as_ref()),
                Cell::optional(group.note.as_ref()),
            ]);
        }
        queued_notes(answer, facts);
    }
    answer.more = Some(truncated);
    if truncated {
        answer
            .notes
            .push("grouping stopped at its limit: counts are lower bounds".to_owned());
    }
    answer.note_if_empty("none");
    Ok(())
}

fn cells(service: &str, letter: &DeadLetter, now: Timestamp) -> Vec<Cell> {
    vec![
        Cell::text(service),
        match &letter.event_id {
            Some(id) => Cell::text(id.as_str()),
            None => Cell::text(format!("(no event id) {}", letter.dead_letter_id)),
        },
        Cell::text(letter.consumer.as_str()),
        Cell::optional(letter.event_type.as_ref()),
        Cell::optional(letter.aggregate_id.as_ref().map(ToString::to_string)),
        Cell::integer(letter.aggregate_version),
        Cell::ago(Some(letter.last_died_at), now),
        Cell::integer(Some(letter.deaths)),
        Cell::integer(Some(letter.replays)),
        Cell::text(letter.status.word()),
        Cell::text(if letter.replay_allowed {
            "allowed"
        } else {
            "not allowed"
        }),
        Cell::optional(letter.owner.as_ref()),
        Cell::optional(letter.error_summary.as_ref().or(Some(&letter.error_class))),
    ]
}
