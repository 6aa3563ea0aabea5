//! `redrive migrate --service NAME [--apply]`.

use clap::Args;
use serde_json::json;

use crate::config::Environment;

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::session::Session;
use super::table::{Cell, Column, Table, left};

/// Arguments of `migrate`.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Service whose database gets the native tables
    #[arg(long, value_name = "NAME")]
    pub service: String,
    /// Run what is missing; without this it is printed and nothing is changed
    #[arg(long)]
    pub apply: bool,
    /// The context's name, typed: needed with --apply in production
    #[arg(long, value_name = "NAME")]
    pub context_name: Option<String>,
}

const COLUMNS: &[Column] = &[left("migration"), left("state")];

pub(super) async fn run(session: &Session, args: &MigrateArgs) -> Outcome {
    let context = session.context();
    if context.service(&args.service).is_none() {
        let names: Vec<_> = context.services.iter().map(|s| s.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "no service {:?} in {}; there are: {}",
            args.service,
            context.name,
            names.join(", ")
        )));
    }
    if args.apply {
        guard(session, args)?;
    }
    let before = session.services.migrate(&args.service, false).await?;
    let steps = if args.apply {
        session.services.migrate(&args.service, true).await?
    } else {
        before.clone()
    };
    let mut answer = session.answer("migrations");
    answer.table = Table::new(COLUMNS);
    let mut missing = 0_usize;
    for step in &steps {
        let was_applied = before
            .iter()
            .any(|old| old.name == step.name && old.is_applied);
        let state = match (step.is_applied, was_applied) {
            (true, false) => "applied now",
            (true, true) => "applied",
            (false, _) => "missing",
        };
        missing += usize::from(!step.is_applied);
        answer.item(&json!({
            "service": args.service, "name": step.name, "is_applied": step.is_applied,
            "applied_now": step.is_applied && !was_applied, "sql": step.sql,
        }))?;
        answer
            .table
            .push(vec![Cell::text(&step.name), Cell::text(state)]);
        if !step.is_applied {
            let sql = step.sql.lines().map(crate::base::text::safe);
            answer.notes.push(format!("-- {}", step.name));
            answer.notes.extend(sql);
        }
    }
    if args.apply && missing > 0 {
        answer.exit = Exit::Partial;
    }
    answer.notes.push(match (missing, args.apply) {
        (0, _) => "nothing is missing".to_owned(),
        (n, false) => format!("{n} missing; nothing was changed; --apply runs them"),
        (n, true) => format!("{n} still missing"),
    });
    session.write(&answer)
}

fn guard(session: &Session, args: &MigrateArgs) -> Outcome<()> {
    let context = session.context();
    if session.read_only {
        return Err(Failure::new(
            Exit::Refused,
            format!("{} is read-only; nothing was changed", context.name),
        ));
    }
    if context.environment == Environment::Production
        && args.context_name.as_deref() != Some(context.name.as_str())
    {
        return Err(Failure::new(
            Exit::Refused,
            format!(
                "{} is a production context; add --context-name {}; nothing was changed",
                context.name, context.name
            ),
        ));
    }
    Ok(())
}
