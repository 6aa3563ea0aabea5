//! The rows of an order's saga: reserve stock, charge, confirm. Written with the business change
//! they belong to, in its transaction.

use std::time::Duration;

use crate::model::ids::{EventId, SagaId};
use crate::store::{BusinessTx, StoreResult, Value};

/// How long an order may take.
pub(super) const DEADLINE: Duration = Duration::from_mins(1);

/// Instants as the database stores them, and the event that goes with them.
pub(super) struct Times {
    pub(super) now: Value,
    pub(super) deadline: Value,
    pub(super) event_id: Option<EventId>,
}

/// What happened to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Stock is reserved; the charge is asked for.
    Reserved,
    /// Stock was refused: nothing to compensate.
    NotReserved,
    /// Charged, and with it confirmed.
    Charged,
    /// The card was refused; the stock is given back.
    NotCharged,
}

const INSERT_SAGA: &str = "INSERT INTO sagas (saga_id, saga_type, business_key, state, version, \
     deadline_at, created_at, updated_at) VALUES (?, 'order', ?, ?, 1, ?, ?, ?)";
const INSERT_STEP: &str = "INSERT INTO saga_steps (saga_id, step_no, name, forward_state, \
     compensation_state, attempts, last_error, timeout_at, forward_key, compensation_key, \
     updated_at, event_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const MOVE_SAGA: &str = "UPDATE sagas SET state = ?, version = version + 1, updated_at = ? \
     WHERE saga_id = ? AND state = 'running'";
const MOVE_STEP: &str = "UPDATE saga_steps SET forward_state = ?, compensation_state = ?, \
     event_id = ?, updated_at = ? WHERE saga_id = ? AND step_no = ?";

/// A step as it is first written.
pub(super) struct NewStep {
    pub(super) name: &'static str,
    pub(super) forward: &'static str,
    pub(super) compensation: &'static str,
    pub(super) attempts: i64,
    pub(super) error: Option<&'static str>,
}

impl NewStep {
    pub(super) const fn new(
        name: &'static str,
        forward: &'static str,
        compensation: &'static str,
    ) -> Self {
        Self {
            name,
            forward,
            compensation,
            attempts: 0,
            error: None,
        }
    }
}

/// The steps of a new order.
const FRESH: [NewStep; 3] = [
    NewStep::new("reserve_stock", "in_flight", "pending"),
    NewStep::new("charge", "pending", "pending"),
    NewStep::new("confirm", "pending", "skipped"),
];

/// Writes the saga of a new order.
pub(super) async fn start(
    tx: &mut dyn BusinessTx,
    saga_id: &SagaId,
    order_no: i64,
    times: &Times,
) -> StoreResult<()> {
    write(tx, saga_id, (order_no, "running"), (&FRESH, times)).await
}

/// Writes a saga in any state.
pub(super) async fn write(
    tx: &mut dyn BusinessTx,
    saga_id: &SagaId,
    (order_no, state): (i64, &str),
    (steps, times): (&[NewStep], &Times),
) -> StoreResult<()> {
    let id = Value::Text(saga_id.to_string());
    let row = [
        id.clone(),
        Value::Text(order_no.to_string()),
        Value::Text(state.to_owned()),
        times.deadline.clone(),
        times.now.clone(),
        times.now.clone(),
    ];
    tx.execute(INSERT_SAGA, &row).await?;
    for (no, step) in (1_i64..).zip(steps) {
        let row = [
            id.clone(),
            Value::Int(no),
            Value::Text(step.name.to_owned()),
            Value::Text(step.forward.to_owned()),
            Value::Text(step.compensation.to_owned()),
            Value::Int(step.attempts),
            step.error
                .map_or(Value::Null, |e| Value::Text(e.to_owned())),
            times.deadline.clone(),
            Value::Text(format!("{order_no}:{}", step.name)),
            Value::Text(format!("{order_no}:{}:undo", step.name)),
            times.now.clone(),
            match &times.event_id {
                Some(event_id) if no == 1 => Value::Text(event_id.to_string()),
                _ => Value::Null,
            },
        ];
        tx.execute(INSERT_STEP, &row).await?;
    }
    Ok(())
}

/// Moves a running saga on.
pub(super) async fn advance(
    tx: &mut dyn BusinessTx,
    saga_id: &str,
    (step, state): (Step, &str),
    (now, event_id): (Value, &EventId),
) -> StoreResult<()> {
    let id = Value::Text(saga_id.to_owned());
    let row = [Value::Text(state.to_owned()), now.clone(), id.clone()];
    tx.execute(MOVE_SAGA, &row).await?;
    let moves: &[(i64, &str, &str)] = match step {
        Step::Reserved => &[(1, "succeeded", "pending"), (2, "in_flight", "pending")],
        Step::NotReserved => &[
            (1, "failed", "skipped"),
            (2, "skipped", "skipped"),
            (3, "skipped", "skipped"),
        ],
        Step::Charged => &[(2, "succeeded", "skipped"), (3, "succeeded", "skipped")],
        Step::NotCharged => &[
            (1, "succeeded", "succeeded"),
            (2, "failed", "skipped"),
            (3, "skipped", "skipped"),
        ],
    };
    for (no, forward, compensation) in moves {
        let row = [
            Value::Text((*forward).to_owned()),
            Value::Text((*compensation).to_owned()),
            Value::Text(event_id.to_string()),
            now.clone(),
            id.clone(),
            Value::Int(*no),
        ];
        tx.execute(MOVE_STEP, &row).await?;
    }
    Ok(())
}
