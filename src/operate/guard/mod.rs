//! The rules that protect a context, in one place: read-only, the lock of production, rights per
//! verb, types that are never replayed, reasons, tickets, typed confirmations.
//!
//! A rule is asked twice: the plan states what would refuse, and `apply` asks again, because an
//! unlock runs out and a flag only ever adds. Read-only beats everything (design invariant 9).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::plan::{Access, Confirmation, Level, OperateError, Plan, PreflightLine};
use super::wording::moment;
use crate::base::clock::{Clock, Timestamp};
use crate::base::human;
use crate::base::text::safe;
use crate::config::{Context, Environment};
use crate::model::operation::Verb;

/// Checks that depend on the session and not on the plan: `apply` asks them afresh.
const ACCESS_CHECKS: [&str; 2] = ["read_only", "rights"];

/// The guard of one context and session.
pub(super) struct Guard {
    context: Arc<Context>,
    clock: Clock,
    read_only: bool,
    /// Microseconds on our clock; 0 = locked.
    unlocked_until: AtomicI64,
    /// True once this session was unlocked: it may then conclude what it began, see [`Guard::may_prove`].
    was_unlocked: AtomicBool,
}

/// A guard's no.
pub(super) fn refused(check: &str, reason: impl Into<String>) -> OperateError {
    OperateError::Refused {
        check: check.to_owned(),
        reason: reason.into(),
    }
}

impl Guard {
    /// Guards `context`; `read_only` comes from a flag and only adds.
    pub fn new(context: Arc<Context>, clock: Clock, read_only: bool) -> Self {
        Self {
            context,
            clock,
            read_only,
            unlocked_until: AtomicI64::new(0),
            was_unlocked: AtomicBool::new(false),
        }
    }

    /// Whether writing is possible now.
    pub fn access(&self) -> Access {
        if self.read_only || self.context.read_only {
            return Access::ReadOnly;
        }
        if self.context.environment != Environment::Production {
            return Access::Writable;
        }
        let until = Timestamp::from_micros(self.unlocked_until.load(Ordering::SeqCst));
        if self.clock.now() < until {
            Access::Unlocked { until }
        } else {
            Access::Locked
        }
    }

    /// Whether an unlock may be asked for with this name and reason; the caller records it, then
    /// calls [`Guard::open`].
    pub fn check_unlock(&self, context_name: &str, reason: &str) -> Result<(), OperateError> {
        self.refuse_read_only()?;
        if context_name != self.context.name {
            return Err(refused(
                "context_name",
                format!(
                    "type the context's name to unlock it: {}",
                    self.context.name
                ),
            ));
        }
        check_reason(reason)
    }

    /// Unlocks from now for the configured time.
    pub fn open(&self) -> Access {
        if self.context.environment == Environment::Production {
            let until = self.clock.now().plus(self.context.unlock);
            self.unlocked_until.store(until.micros(), Ordering::SeqCst);
            self.was_unlocked.store(true, Ordering::SeqCst);
        }
        self.access()
    }

    /// Locks again.
    pub fn lock(&self) {
        self.unlocked_until.store(0, Ordering::SeqCst);
    }

    /// Whether anything may be written now.
    pub fn check_access(&self) -> Result<(), OperateError> {
        self.refuse_read_only()?;
        self.refuse_locked()
    }

    /// Whether `verb` may be used now.
    pub fn check_verb(&self, verb: Verb) -> Result<(), OperateError> {
        self.check_access()?;
        self.check_right(verb)
    }

    fn check_right(&self, verb: Verb) -> Result<(), OperateError> {
        if self.context.rights.contains(&verb) {
            return Ok(());
        }
        let allowed = if self.context.rights.is_empty() {
            "none".to_owned()
        } else {
            let words: Vec<_> = self.context.rights.iter().map(|v| v.word()).collect();
            words.join(", ")
        };
        Err(refused(
            "rights",
            format!(
                "{} is not among the rights of context {} ({allowed}); they are set by contexts.{}.rights",
                verb.word(),
                self.context.name,
                self.context.name
            ),
        ))
    }

    /// What would refuse `verb` now, as lines of the plan. A lock is only a warning: unlocking is a
    /// part of confirming, and `apply` asks again.
    pub fn lines(&self, verb: Verb) -> Vec<PreflightLine> {
        let mut lines = Vec::new();
        let mut push = |result: Result<(), OperateError>, level| {
            if let Err(OperateError::Refused { check, reason }) = result {
                lines.push(PreflightLine::new(&check, level, reason));
            }
        };
        push(self.refuse_read_only(), Level::Refusal);
        push(self.check_right(verb), Level::Refusal);
        push(self.refuse_locked(), Level::Warning);
        lines
    }

    /// Everything that must hold before a confirmed plan may run.
    pub fn check_apply(
        &self,
        plan: &Plan,
        confirmation: &Confirmation,
    ) -> Result<(), OperateError> {
        self.check_verb(plan.verb)?;
        if plan.context != self.context.name {
            return Err(refused(
                "context_name",
                format!(
                    "the plan is for context {}, this is {}",
                    plan.context, self.context.name
                ),
            ));
        }
        if plan.digest != plan.computed_digest() {
            return Err(refused(
                "digest",
                "the plan was changed after it was made; plan again",
            ));
        }
        if let Some(line) = plan
            .refusals()
            .find(|line| !ACCESS_CHECKS.contains(&line.check.as_str()))
        {
            return Err(refused(&line.check, line.text.clone()));
        }
        check_reason(&confirmation.reason)?;
        check_ticket(plan, confirmation)?;
        check_typed(plan, confirmation)
    }

    /// Whether the journal may be written for something that is not an action: a refused try.
    pub fn may_record(&self) -> bool {
        matches!(self.access(), Access::Writable | Access::Unlocked { .. })
    }

    /// Whether proofs may be recorded: never when read-only; in production only by a session that
    /// was unlocked once, so that it can conclude what it began after its unlock has run out.
    pub fn may_prove(&self) -> bool {
        match self.access() {
            Access::ReadOnly => false,
            Access::Locked => self.was_unlocked.load(Ordering::SeqCst),
            Access::Unlocked { .. } | Access::Writable => true,
        }
    }

    fn refuse_read_only(&self) -> Result<(), OperateError> {
        if self.context.read_only {
            return Err(refused(
                "read_only",
                format!(
                    "context {} is read-only (contexts.{}.read_only)",
                    self.context.name, self.context.name
                ),
            ));
        }
        if self.read_only {
            return Err(refused(
                "read_only",
                "this session is read-only (started with --read-only)",
            ));
        }
        Ok(())
    }

    fn refuse_locked(&self) -> Result<(), OperateError> {
        if self.access() == Access::Locked {
            return Err(refused("locked", self.locked_text()));
        }
        Ok(())
    }

    fn locked_text(&self) -> String {
        let until = self.unlocked_until.load(Ordering::SeqCst);
        let past = if until > 0 {
            format!(
                "the unlock of {} ran out at {}",
                self.context.name,
                moment(Timestamp::from_micros(until))
            )
        } else {
            format!("production context {} is locked", self.context.name)
        };
        format!(
            "{past}; unlock it with its name and a reason (for {})",
            human::duration(self.context.unlock)
        )
    }
}

fn check_reason(reason: &str) -> Result<(), OperateError> {
    if reason.trim().is_empty() {
        return Err(refused(
            "reason",
            "say why: a reason is mandatory and goes to the audit log",
        ));
    }
    Ok(())
}

fn check_ticket(plan: &Plan, confirmation: &Confirmation) -> Result<(), OperateError> {
    let Some(pattern) = &plan.confirm.ticket_pattern else {
        return Ok(());
    };
    let ticket = confirmation.ticket.as_deref().unwrap_or_default();
    if plan.confirm.takes_ticket(ticket) {
        return Ok(());
    }
    let given = if ticket.is_empty() {
        "none was given".to_owned()
    } else {
        format!("{} is none", safe(ticket))
    };
    Err(refused(
        "ticket",
        format!("this context asks for a ticket like {pattern}; {given}"),
    ))
}

fn check_typed(plan: &Plan, confirmation: &Confirmation) -> Result<(), OperateError> {
    if let Some(name) = &plan.confirm.context_name
        && confirmation.context_name.as_ref() != Some(name)
    {
        return Err(refused(
            "context_name",
            format!("type the context's name to confirm: {name}"),
        ));
    }
    if let Some(count) = plan.confirm.count
        && confirmation.count != Some(count)
    {
        return Err(refused(
            "count",
            format!("type the number of rows to confirm: {count}"),
        ));
    }
    if let Some(word) = &plan.confirm.word
        && confirmation.word.as_deref().map(str::trim) != Some(word)
    {
        return Err(refused("word", format!("type the word to confirm: {word}")));
    }
    if let Some(what) = &plan.confirm.told
        && confirmation
            .told
            .as_deref()
            .is_none_or(|told| told.trim().is_empty())
    {
        return Err(refused(what, format!("the {what} is missing")));
    }
    Ok(())
}

/// Whether `ticket` has the shape of `pattern`: every `#` is a digit, a run of them takes more.
pub(super) fn is_ticket(pattern: &str, ticket: &str) -> bool {
    fn fits(pattern: &[char], ticket: &[char]) -> bool {
        match (pattern.split_first(), ticket.split_first()) {
            (None, None) => true,
            (Some(('#', rest)), Some((digit, left))) if digit.is_ascii_digit() => {
                fits(rest, left) || (rest.first() != Some(&'#') && fits(pattern, left))
            }
            (Some(('#', _)), _) | (None, Some(_)) | (Some(_), None) => false,
            (Some((literal, rest)), Some((given, left))) => literal == given && fits(rest, left),
        }
    }
    // Long input cannot be a ticket, and bounds the recursion.
    ticket.len() <= 200
        && fits(
            &pattern.chars().collect::<Vec<_>>(),
            &ticket.chars().collect::<Vec<_>>(),
        )
}

/// The first pattern that `event_type` matches; `*` stands for any text.
pub(super) fn first_match<'a>(patterns: &'a [String], event_type: &str) -> Option<&'a str> {
    patterns
        .iter()
        .map(String::as_str)
        .find(|pattern| is_match(pattern, event_type))
}

fn is_match(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|head| text.strip_prefix(head)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
pub(super) mod tests;
