//! The fields of the rows the model knows. Queues are a value of `observe`, and so is theirs.

use std::borrow::Cow;

use crate::model::audit::AuditEntry;
use crate::model::dead_letter::{DeadLetter, DeadLetterDetail};
use crate::model::operation::Operation;
use crate::model::outbox::{LeaseGroup, OutboxEvent, OutboxRow};
use crate::model::saga::Saga;

use super::{FieldText, Fields, FilterKind};

/// A row and the service it was read from: rows do not carry it themselves.
#[derive(Clone, Copy, Debug)]
pub struct InService<'a, T> {
    /// The service's name.
    pub service: &'a str,
    /// The row.
    pub row: &'a T,
}

impl<T: Fields> Fields for InService<'_, T> {
    fn kind(&self) -> FilterKind {
        self.row.kind()
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        match name {
            "service" => text(self.service),
            _ => self.row.field(name),
        }
    }

    fn payload(&self) -> Option<&str> {
        self.row.payload()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "spares every field its Some")]
fn text(of: &str) -> Option<FieldText<'_>> {
    Some(FieldText::Text(Cow::Borrowed(of)))
}

#[expect(clippy::unnecessary_wraps, reason = "spares every field its Some")]
fn number(of: impl Into<i128>) -> Option<FieldText<'static>> {
    Some(FieldText::Number(of.into().to_string()))
}

#[expect(clippy::unnecessary_wraps, reason = "spares every field its Some")]
fn any<'a>(of: impl Iterator<Item = &'a str>) -> Option<FieldText<'a>> {
    Some(FieldText::Any(of.map(Cow::Borrowed).collect()))
}

impl Fields for OutboxRow {
    fn kind(&self) -> FilterKind {
        FilterKind::Outbox
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        match name {
            "state" => text(self.state.word()),
            "type" => text(&self.event_type),
            "key" => text(self.aggregate_id.as_ref()?.as_str()),
            "version" => number(self.aggregate_version?),
            "id" => text(self.event_id.as_str()),
            "attempts" => number(self.attempts?),
            "error" => text(self.last_error.as_deref()?),
            "age" => Some(FieldText::At(self.created_at?)),
            "due" => Some(FieldText::At(self.next_attempt_at?)),
            "token" => text(self.claim_token.as_ref()?.as_str()),
            _ => None,
        }
    }
}

impl Fields for OutboxEvent {
    fn kind(&self) -> FilterKind {
        FilterKind::Outbox
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        self.row.field(name)
    }

    fn payload(&self) -> Option<&str> {
        self.payload.text()
    }
}

impl Fields for LeaseGroup {
    fn kind(&self) -> FilterKind {
        FilterKind::Leases
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        match name {
            "token" => text(self.claim_token.as_ref()?.as_str()),
            "id" => any(self.sample.iter().map(crate::model::ids::EventId::as_str)),
            "rows" => number(self.rows),
            "attempts" => number(self.attempts_max?),
            "left" => Some(FieldText::Seconds(self.left_s?)),
            "age" => Some(FieldText::At(self.oldest_created_at?)),
            _ => None,
        }
    }
}

impl Fields for DeadLetter {
    fn kind(&self) -> FilterKind {
        FilterKind::DeadLetters
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        match name {
            "status" => text(self.status.word()),
            "consumer" => text(self.consumer.as_str()),
            "type" => text(self.event_type.as_deref()?),
            "key" => text(self.aggregate_id.as_ref()?.as_str()),
            "version" => number(self.aggregate_version?),
            "id" => text(self.event_id.as_ref()?.as_str()),
            "class" => text(&self.error_class),
            "error" => {
                any(std::iter::once(self.error_class.as_str()).chain(self.error_summary.as_deref()))
            }
            "reason" => text(self.reason.as_deref()?),
            "queue" => text(self.failed_queue.as_deref()?),
            "dlq" => text(&self.dead_letter_queue),
            "exchange" => text(self.source_exchange.as_deref()?),
            "deaths" => number(self.deaths),
            "replays" => number(self.replays),
            "bytes" => number(self.payload_bytes),
            "age" => Some(FieldText::At(self.last_died_at)),
            "first" => Some(FieldText::At(self.first_died_at)),
            "owner" => text(self.owner.as_deref()?),
            "note" => text(self.note.as_deref()?),
            "allowed" => text(if self.replay_allowed { "yes" } else { "no" }),
            "trace" => text(self.trace_id.as_deref()?),
            _ => None,
        }
    }
}

impl Fields for DeadLetterDetail {
    fn kind(&self) -> FilterKind {
        FilterKind::DeadLetters
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        self.letter.field(name)
    }

    fn payload(&self) -> Option<&str> {
        self.message.payload.text()
    }
}

impl Fields for Saga {
    fn kind(&self) -> FilterKind {
        FilterKind::Sagas
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        match name {
            "state" => text(self.state.word()),
            "type" => text(&self.saga_type),
            "key" => text(&self.business_key),
            "id" => any(std::iter::once(self.saga_id.as_str()).chain(
                self.steps
                    .iter()
                    .filter_map(|step| Some(step.event_id.as_ref()?.as_str())),
            )),
            "step" => any(self.steps.iter().map(|step| step.name.as_str())),
            "error" => any(self
                .steps
                .iter()
                .filter_map(|step| step.last_error.as_deref())
                .chain(self.last_error.as_deref())),
            "owner" => text(self.owner.as_deref()?),
            "look" => text(self.attention.as_deref().or(self.last_error.as_deref())?),
            "age" => Some(FieldText::At(self.updated_at)),
            "overdue" => Some(FieldText::At(self.deadline_at?)),
            _ => None,
        }
    }
}

impl Fields for Operation {
    fn kind(&self) -> FilterKind {
        FilterKind::Operations
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        match name {
            "state" => text(self.state.word()),
            "verb" => text(self.verb.word()),
            "item" => any(self.items.iter().map(|item| item.state.word())),
            "id" => any(std::iter::once(self.operation_id.as_str()).chain(
                self.items
                    .iter()
                    .flat_map(|item| item.event_id.iter().chain(&item.new_event_id))
                    .map(crate::model::ids::EventId::as_str),
            )),
            "consumer" => any(self
                .items
                .iter()
                .filter_map(|item| Some(item.consumer.as_ref()?.as_str()))),
            "actor" => text(&self.actor),
            "reason" => text(&self.reason),
            "ticket" => text(self.ticket.as_deref()?),
            "age" => Some(FieldText::At(self.created_at)),
            _ => None,
        }
    }
}

impl Fields for AuditEntry {
    fn kind(&self) -> FilterKind {
        FilterKind::Audit
    }

    fn field(&self, name: &str) -> Option<FieldText<'_>> {
        match name {
            "seq" => number(self.seq),
            "actor" => text(&self.record.actor),
            "action" => text(&self.record.action),
            "phase" => text(&self.record.phase),
            "id" => any(self
                .record
                .operation_id
                .iter()
                .map(crate::model::ids::OperationId::as_str)
                .chain([self.record.subject.as_str()])),
            "subject" => text(&self.record.subject),
            "reason" => text(&self.record.reason),
            "detail" => text(&self.record.detail),
            "age" => Some(FieldText::At(self.at)),
            _ => None,
        }
    }
}
