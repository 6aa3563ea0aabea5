//! An order's saga: reserve stock, charge, confirm; and back: refund, release.
//!
//! ```text
//! reserve_stock  order.created ─▶ inventory.reserved │ rejected      inventory.release ─▶ inventory.released
//! charge         payment.charge ▶ payment.charged │ refused          payment.refund ──▶ payment.refunded │ refund_refused
//! confirm        this service's own row, and order.confirmed         nothing to undo
//! ```
//!
//! An order is `confirmed` when the result event of its charge exists, and not before. It is
//! `cancelled`, with `order.cancelled`, the moment its saga turns round; what was done is undone after
//! that.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::event::{Link, Order};
use super::inventory::reservation;
use super::payment::{is_refunded, payment, set_state};
use super::processor::{self, ProcessorFault};
use crate::base::backoff::Backoff;
use crate::model::ids::ConsumerName;
use crate::model::outbox::NewEvent;
use crate::model::saga::machine::Answer;
use crate::model::saga::{Saga, SagaPolicy, SagaState, SidePolicy, StepPolicy, StepState};
use crate::model::saga::{SagaStep, Side};
use crate::pipeline::saga_coordinator::{SagaDefinition, Task, key_of};
use crate::ports::Ports;
use crate::store::{BusinessTx, Store, StoreError, StoreResult, Value};

/// Its type.
pub const TYPE: &str = "order";
/// Its first step.
pub const RESERVE_STOCK: &str = "reserve_stock";
/// Its second step.
pub const CHARGE: &str = "charge";
/// Its last step.
const CONFIRM: &str = "confirm";

/// How patient the sandbox's sagas are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tempo {
    /// How long an answer is waited for before its service is asked.
    pub timeout: Duration,
    /// Commands of one side at most.
    pub attempts_max: i64,
    /// Between two commands of a side.
    pub backoff: Backoff,
    /// Between two questions.
    pub query: Backoff,
    /// How long a reservation is kept for a charge that does not come.
    pub reserved_for: Duration,
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(3),
            attempts_max: 3,
            backoff: Backoff {
                base: Duration::from_millis(500),
                cap: Duration::from_secs(5),
            },
            query: Backoff {
                base: Duration::from_secs(1),
                cap: Duration::from_mins(1),
            },
            reserved_for: Duration::from_hours(2),
        }
    }
}

/// The definition; asks the other services through their databases, as one would ask their APIs.
pub struct OrderSaga {
    policy: SagaPolicy,
    inventory: Option<Arc<dyn Store>>,
    payment: Option<Arc<dyn Store>>,
}

/// Where the last command of a side is. Read *before* what it may have done: the two commit together, so
/// what is not done after it was consumed will not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Nobody sent it.
    NotSent,
    /// In the outbox, in a queue, or a dead letter: it cannot be missed.
    UnderWay,
    /// Its inbox row is there.
    Consumed,
}

impl Command {
    /// Of a side's last command.
    pub(super) async fn of(
        store: &dyn Store,
        consumer: &str,
        step: &SagaStep,
    ) -> StoreResult<Self> {
        let Some(event_id) = &step.event_id else {
            return Ok(Self::NotSent);
        };
        let row = store
            .inbox_row(&ConsumerName::new(consumer), event_id)
            .await?;
        Ok(row.map_or(Self::UnderWay, |_| Self::Consumed))
    }

    /// What is to be said when it has done nothing.
    const fn without_effect(self) -> Answer {
        match self {
            Self::UnderWay => Answer::InFlight,
            Self::NotSent | Self::Consumed => Answer::NotFound,
        }
    }
}

const RESERVED: &str =
    "UPDATE orders SET state = 'reserved' WHERE order_no = ? AND state = 'pending_inventory'";
const CONFIRMED: &str = "UPDATE orders SET state = 'confirmed', version = version + 1 \
     WHERE order_no = ? AND state IN ('pending_inventory', 'reserved')";
const CANCELLED: &str = "UPDATE orders SET state = 'cancelled', version = version + 1 \
     WHERE order_no = ? AND state IN ('pending_inventory', 'reserved')";

impl OrderSaga {
    /// For these services.
    pub fn new(ports: &Ports, tempo: Tempo) -> Self {
        let remote = SidePolicy::remote(tempo.timeout, tempo.attempts_max, tempo.backoff);
        let step = |name| StepPolicy {
            name,
            forward: remote,
            compensation: Some(remote),
        };
        Self {
            policy: SagaPolicy {
                steps: vec![
                    step(RESERVE_STOCK),
                    step(CHARGE),
                    StepPolicy {
                        name: CONFIRM,
                        forward: SidePolicy::local(),
                        compensation: None,
                    },
                ],
                deadline: Duration::from_mins(1),
                expires: Some(tempo.reserved_for),
                query: tempo.query,
                queries_max: 6,
            },
            inventory: ports.store("inventory").cloned(),
            payment: ports.store("payment").cloned(),
        }
    }

    async fn reserve_state(&self, order_no: i64, task: &Task<'_>) -> Result<Answer, StoreError> {
        let Some(store) = self.inventory.as_deref() else {
            return Ok(absent("inventory"));
        };
        let command = Command::of(store, "inventory", task.step).await?;
        Self::reserved(store, order_no, (task, command)).await
    }

    pub(super) async fn reserved(
        store: &dyn Store,
        order_no: i64,
        (task, command): (&Task<'_>, Command),
    ) -> Result<Answer, StoreError> {
        let mut tx = store.begin().await?;
        let found = reservation(tx.as_mut(), order_no).await?;
        tx.rollback().await?;
        let state = found.as_ref().map(|found| found.state.as_str());
        Ok(match (task.side, state) {
            (Side::Forward, Some("reserved"))
            | (Side::Compensation, Some("released" | "cancelled")) => Answer::Succeeded,
            (Side::Forward, Some(state)) => Answer::Failed(format!("the reservation is {state}")),
            (Side::Compensation, Some(_)) | (_, None) => command.without_effect(),
        })
    }

    async fn charge_state(&self, order_no: i64, task: &Task<'_>) -> Result<Answer, StoreError> {
        let Some(store) = self.payment.as_deref() else {
            return Ok(absent("payment"));
        };
        let command = Command::of(store, "payment", task.step).await?;
        Self::charged(store, order_no, (task, command)).await
    }

    pub(super) async fn charged(
        store: &dyn Store,
        order_no: i64,
        (task, command): (&Task<'_>, Command),
    ) -> Result<Answer, StoreError> {
        let charge = key_of(TYPE, &order_no.to_string(), CHARGE, Side::Forward);
        let mut tx = store.begin().await?;
        if task.side == Side::Compensation {
            let is_back = is_refunded(tx.as_mut(), task.key).await?;
            let found = payment(tx.as_mut(), &charge).await?;
            tx.rollback().await?;
            let is_nothing_to_refund = found.is_some_and(|(state, _)| state == "cancelled");
            return Ok(if is_back || is_nothing_to_refund {
                Answer::Succeeded
            } else {
                command.without_effect()
            });
        }
        let found = payment(tx.as_mut(), &charge).await?;
        let answer = match found.as_ref().map(|(state, _)| state.as_str()) {
            Some("charged" | "refunded") => Answer::Succeeded,
            Some("unknown") => ask_processor(tx.as_mut(), order_no, (task, command)).await?,
            Some(state) => Answer::Failed(format!("the payment is {state}")),
            None => command.without_effect(),
        };
        tx.commit().await?;
        Ok(answer)
    }
}

/// The payment does not know: the processor does, unless it cannot be asked. What it has charged gets
/// the result event that was missing, and that event is the answer.
async fn ask_processor(
    tx: &mut dyn BusinessTx,
    order_no: i64,
    (task, command): (&Task<'_>, Command),
) -> StoreResult<Answer> {
    if processor::fault_of(tx, order_no).await? == Some(ProcessorFault::Away) {
        return Ok(Answer::Away("card processor does not answer".to_owned()));
    }
    if !processor::knows(tx, task.key).await? {
        return Ok(command.without_effect());
    }
    let link = Link {
        cause: task.step.event_id.as_ref(),
        key: Some(task.key),
    };
    let result = order_of(task.data).and_then(|order| order.event("payment.charged", link));
    match result {
        Err(problem) => return Ok(Answer::Away(problem)),
        // Guarded by the state: whoever moves the payment writes the event, once.
        Ok(event) => {
            if set_state(tx, task.key, ("unknown", "charged")).await? == 1 {
                tx.append(&event).await?;
            }
        }
    }
    Ok(Answer::InFlight)
}

fn absent(service: &str) -> Answer {
    Answer::Away(format!("the sandbox has no service called {service}"))
}

fn order_of(data: &str) -> Result<Order, String> {
    serde_json::from_str(data).map_err(|error| format!("its data is no order: {error}"))
}

#[async_trait]
impl SagaDefinition for OrderSaga {
    fn saga_type(&self) -> &'static str {
        TYPE
    }

    fn policy(&self) -> &SagaPolicy {
        &self.policy
    }

    fn command(&self, task: &Task<'_>) -> Result<Vec<NewEvent>, String> {
        let is_first = task.step.event_id.is_none();
        let event_type = match (task.step.name.as_str(), task.side) {
            // The fact is the first command; only what is asked for again needs a name of its own.
            (RESERVE_STOCK, Side::Forward) if is_first => "order.created",
            (RESERVE_STOCK, Side::Forward) => "inventory.reserve",
            (RESERVE_STOCK, Side::Compensation) => "inventory.release",
            (CHARGE, Side::Forward) => "payment.charge",
            (CHARGE, Side::Compensation) => "payment.refund",
            (other, _) => return Err(format!("step {other} sends nothing")),
        };
        let before = task.saga.steps.iter().filter(|step| step.no < task.step.no);
        let link = Link {
            cause: before.filter_map(|step| step.event_id.as_ref()).next_back(),
            key: Some(task.key),
        };
        Ok(vec![order_of(task.data)?.event(event_type, link)?])
    }

    async fn query(&self, task: &Task<'_>) -> Answer {
        let Ok(order_no) = task.saga.business_key.parse() else {
            return Answer::Away("its business key is no order number".to_owned());
        };
        let asked = match task.step.name.as_str() {
            RESERVE_STOCK => self.reserve_state(order_no, task).await,
            CHARGE => self.charge_state(order_no, task).await,
            other => Ok(Answer::Away(format!("nobody answers for step {other}"))),
        };
        asked.unwrap_or_else(|error| Answer::Away(error.to_string()))
    }

    async fn moved(
        &self,
        tx: &mut dyn BusinessTx,
        data: &str,
        _before: &Saga,
        after: &Saga,
    ) -> Result<(), StoreError> {
        let Ok(order) = order_of(data) else {
            // Not ours, or written by hand: the rows of the saga say what is known.
            return Ok(());
        };
        let number = [Value::Int(order.order_no)];
        let (event_type, order) = match after.state {
            SagaState::Running => {
                let is_reserved = after
                    .step(1)
                    .is_some_and(|step| step.forward == StepState::Succeeded);
                if is_reserved {
                    tx.execute(RESERVED, &number).await?;
                }
                return Ok(());
            }
            // What a person or an earlier pass decided counts as well: each is done once, by its guard.
            SagaState::Completed => {
                if tx.execute(CONFIRMED, &number).await? == 0 {
                    return Ok(());
                }
                ("order.confirmed", order)
            }
            SagaState::Compensating | SagaState::CompensationFailed | SagaState::Compensated => {
                if tx.execute(CANCELLED, &number).await? == 0 {
                    return Ok(());
                }
                ("order.cancelled", order.because(&why(after)))
            }
            SagaState::Unreadable => return Ok(()),
        };
        let causes = after.steps.iter().filter_map(|step| step.event_id.as_ref());
        let link = Link {
            cause: causes.max(),
            key: None,
        };
        match order.event(event_type, link) {
            Ok(event) => tx.append(&event).await,
            Err(problem) => Err(StoreError::Unsupported {
                service: "orders".to_owned(),
                reason: problem,
            }),
        }
    }
}

/// Why a saga turned round.
fn why(saga: &Saga) -> String {
    saga.steps
        .iter()
        .find_map(|step| step.last_error.clone())
        .unwrap_or_else(|| "its saga turned round".to_owned())
}
