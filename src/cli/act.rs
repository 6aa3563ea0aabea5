//! What every writing subcommand shares: plan → confirm → apply → prove. Nothing is written without
//! `--apply`, and nothing is confirmed without a person at a terminal or `--yes` with a reason.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::config::duration;
use crate::model::operation::ItemState;
use crate::operate::plan::{Access, Applied, Confirmation, ItemResult, Plan, Request};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::{self, Format};
use super::plan_text;
use super::session::Session;
use super::table::{Cell, Column, Table, flexible, left};

/// Options of every writing subcommand.
#[derive(Clone, Debug, Default, Args)]
pub struct Act {
    /// Why; mandatory with --yes
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Ticket, where the context asks for one
    #[arg(long, value_name = "TICKET")]
    pub ticket: Option<String>,
    /// Do it; without this the plan is printed and nothing is changed
    #[arg(long)]
    pub apply: bool,
    /// Answer the confirmation, for scripts
    #[arg(long, requires = "apply")]
    pub yes: bool,
    /// Follow it to its proof for so long, e.g. 30s
    #[arg(long, value_name = "DURATION", requires = "apply", value_parser = duration::parse)]
    pub wait: Option<Duration>,
    /// The context's name, typed: asked for in production
    #[arg(long, value_name = "NAME")]
    pub context_name: Option<String>,
    /// The number of events, typed: asked for with several
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// The extra word a plan may ask for
    #[arg(long, value_name = "WORD")]
    pub word: Option<String>,
}

/// One item of an applied operation, as a script reads it.
#[derive(Serialize)]
struct Done<'a> {
    operation_id: &'a str,
    verb: &'a str,
    service: &'a str,
    #[serde(flatten)]
    item: &'a ItemResult,
}

const ITEMS: &[Column] = &[
    left("operation"),
    left("event"),
    left("state"),
    left("new event"),
    flexible("evidence"),
];

/// Plans the request and, when told to, applies it.
pub(super) async fn run(session: &Session, request: &Request, act: &Act) -> Outcome {
    if act.apply && act.yes {
        // Before anything is asked of a server: a script that forgot it should hear it at once.
        reason_given(act)?;
    }
    let plan = session.services.operator.plan(request).await?;
    if !act.apply {
        return show(session, &plan);
    }
    if !plan.is_allowed() {
        return show(session, &plan);
    }
    let confirmation = confirm(session, &plan, act).await?;
    let operator = &session.services.operator;
    let applied = operator.apply(&plan, &confirmation).await?;
    let applied = match act.wait {
        Some(wait) => follow(session, applied, wait).await?,
        None => applied,
    };
    report(session, &applied, act.wait)
}

/// Prints the plan: exit code 0, or 4 when a guard forbids it.
fn show(session: &Session, plan: &Plan) -> Outcome {
    let mut answer = session.answer("plan");
    answer.item(plan)?;
    answer.head = plan_text::lines(plan);
    if plan.is_allowed() {
        answer.notes.push(format!(
            "nothing was changed; to do it add --apply, and in a script --yes {}",
            plan_text::flags(&plan.confirm).join(" ")
        ));
    } else {
        answer.exit = Exit::Refused;
        let checks: Vec<_> = plan.refusals().map(|line| line.check.as_str()).collect();
        answer.notes.push(format!(
            "refused: {}; nothing was changed",
            checks.join(", ")
        ));
    }
    session.write(&answer)
}

fn reason_given(act: &Act) -> Outcome<String> {
    match act.reason.as_deref().map(str::trim) {
        Some(reason) if !reason.is_empty() => Ok(reason.to_owned()),
        _ => Err(Failure::usage(
            "--yes needs a reason: add --reason \"why this is right\"",
        )),
    }
}

/// Takes the confirmation from the flags (`--yes`) or from the person at the terminal.
async fn confirm(session: &Session, plan: &Plan, act: &Act) -> Outcome<Confirmation> {
    let confirmation = if act.yes {
        from_flags(plan, act)?
    } else {
        ask(plan, act)?
    };
    let operator = &session.services.operator;
    if operator.access() == Access::Locked {
        let name = confirmation.context_name.clone().unwrap_or_default();
        operator.unlock(&name, &confirmation.reason).await?;
    }
    Ok(confirmation)
}

fn from_flags(plan: &Plan, act: &Act) -> Outcome<Confirmation> {
    let rules = &plan.confirm;
    let missing: Vec<_> = [
        (
            rules.ticket_pattern.is_some() && act.ticket.is_none(),
            "--ticket",
        ),
        (
            rules.context_name.is_some() && act.context_name.is_none(),
            "--context-name",
        ),
        (rules.count.is_some() && act.count.is_none(), "--count"),
        (rules.word.is_some() && act.word.is_none(), "--word"),
    ]
    .into_iter()
    .filter_map(|(is_missing, flag)| is_missing.then_some(flag))
    .collect();
    if !missing.is_empty() {
        return Err(Failure::usage(format!(
            "this plan also needs {}: {}",
            missing.join(", "),
            plan_text::flags(rules).join(" ")
        )));
    }
    Ok(Confirmation {
        reason: reason_given(act)?,
        ticket: act.ticket.clone(),
        context_name: act.context_name.clone(),
        count: act.count,
        word: act.word.clone(),
        told: None,
    })
}

/// Asks at the terminal; prompts go to stderr, so that stdout keeps the answer alone.
fn ask(plan: &Plan, act: &Act) -> Outcome<Confirmation> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "nobody can be asked: stdin is no terminal; add --yes {}",
            plan_text::flags(&plan.confirm).join(" ")
        )));
    }
    for line in plan_text::lines(plan) {
        output::say(&line)?;
    }
    let rules = &plan.confirm;
    let reason = given_or_asked(act.reason.as_ref(), "reason")?;
    let ticket = rules
        .ticket_pattern
        .as_ref()
        .map(|pattern| given_or_asked(act.ticket.as_ref(), &format!("ticket ({pattern})")))
        .transpose()?
        .or_else(|| act.ticket.clone());
    let context_name = rules
        .context_name
        .as_ref()
        .map(|name| {
            given_or_asked(
                act.context_name.as_ref(),
                &format!("type the context's name ({name})"),
            )
        })
        .transpose()?;
    let count = rules
        .count
        .map(|count| {
            let given = act.count.map(|count| count.to_string());
            let typed = given_or_asked(
                given.as_ref(),
                &format!("type the number of events ({count})"),
            )?;
            typed
                .parse()
                .map_err(|_| Failure::usage("that is no number; nothing was changed"))
        })
        .transpose()?;
    let word = rules
        .word
        .as_ref()
        .map(|word| given_or_asked(act.word.as_ref(), &format!("type `{word}`")))
        .transpose()?;
    // Enter alone never confirms.
    if prompt(&format!(
        "y to {}, anything else cancels",
        plan.verb.command()
    ))? != "y"
    {
        return Err(Failure::new(
            Exit::Refused,
            "cancelled; nothing was changed",
        ));
    }
    Ok(Confirmation {
        reason,
        ticket,
        context_name,
        count,
        word,
        told: None,
    })
}

fn given_or_asked(given: Option<&String>, question: &str) -> Outcome<String> {
    match given {
        Some(text) => Ok(text.clone()),
        None => prompt(question),
    }
}

fn prompt(question: &str) -> Outcome<String> {
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{question}: ")?;
    stderr.flush()?;
    drop(stderr);
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Waits for the proof; what is not proven by then is unknown.
async fn follow(session: &Session, applied: Applied, wait: Duration) -> Outcome<Applied> {
    let operator = &session.services.operator;
    let operation = operator
        .follow(&applied.service, &applied.operation_id, wait)
        .await
        .map_err(|error| {
            // It was applied: whatever went wrong since, the outcome is not known here.
            Failure::new(
                Exit::Unknown,
                format!(
                    "{} was applied, but could not be followed: {error}; see `redrive operations show {}`",
                    plan_verb(&applied),
                    applied.operation_id
                ),
            )
        })?;
    let items = operation
        .items
        .into_iter()
        .map(|item| ItemResult {
            event_id: item.event_id,
            state: item.state,
            evidence: item.evidence.unwrap_or_default(),
            new_event_id: item.new_event_id,
        })
        .collect();
    Ok(Applied { items, ..applied })
}

fn plan_verb(applied: &Applied) -> &'static str {
    applied.verb.command()
}

fn report(session: &Session, applied: &Applied, wait: Option<Duration>) -> Outcome {
    let mut answer = session.answer("applied");
    answer.table = Table::new(ITEMS);
    for item in &applied.items {
        answer.item(&Done {
            operation_id: applied.operation_id.as_str(),
            verb: applied.verb.word(),
            service: &applied.service,
            item,
        })?;
        answer.table.push(vec![
            Cell::text(applied.operation_id.as_str()),
            Cell::optional(item.event_id.as_ref().map(ToString::to_string)),
            Cell::text(item.state.word()),
            Cell::optional(item.new_event_id.as_ref().map(ToString::to_string)),
            Cell::text(&item.evidence),
        ]);
    }
    let states = || applied.items.iter().map(|item| item.state);
    answer.exit = Exit::of_items(states(), wait.is_some());
    let is_open = |state| {
        matches!(
            state,
            ItemState::Published | ItemState::Unknown | ItemState::Publishing
        )
    };
    if states().any(is_open) {
        let id = &applied.operation_id;
        answer.notes.push(match wait {
            Some(wait) => format!(
                "no proof within {}; look again: redrive operations show {id}",
                duration::show(wait)
            ),
            None => {
                format!("proof is still to come: redrive operations show {id}, or use --wait 30s")
            }
        });
    }
    if session.format == Format::Csv && !answer.notes.is_empty() {
        for note in &answer.notes {
            output::say(note)?;
        }
    }
    session.write(&answer)
}
