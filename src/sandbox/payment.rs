//! The payment service: charges a card once per idempotency key, and gives the money back. When the
//! processor's answer is lost, the payment is `unknown` until the processor is asked.

use async_trait::async_trait;

use super::event::Order;
use super::fault::{Chance, Fault};
use super::handlers::{Handled, VERSION, decode, emit, key, over, unknown_type};
use super::order_saga::{CHARGE, TYPE};
use super::processor::{self, ProcessorFault};
use crate::model::saga::Side;
use crate::pipeline::consumer::{Handler, Outcome, Received, VersionPolicy};
use crate::pipeline::saga_coordinator::key_of;
use crate::store::{BusinessTx, StoreResult, Value};

/// Charges cards through a processor that is sometimes away.
pub(super) struct Payment {
    pub(super) chance: Chance,
}

const FIND: &str = "SELECT state, amount_cents FROM payments WHERE idempotency_key = ?";
const INSERT: &str =
    "INSERT INTO payments (idempotency_key, order_no, amount_cents, state) VALUES (?, ?, ?, ?)";
const SET: &str = "UPDATE payments SET state = ? WHERE idempotency_key = ? AND state = ?";
const FIND_REFUND: &str = "SELECT state FROM refunds WHERE idempotency_key = ?";
const INSERT_REFUND: &str = "INSERT INTO refunds (idempotency_key, order_no, amount_cents, state) VALUES (?, ?, ?, 'refunded')";

/// The payment of a key: state and amount.
pub(super) async fn payment(
    tx: &mut dyn BusinessTx,
    key: &str,
) -> StoreResult<Option<(String, i64)>> {
    let row = tx.fetch_one(FIND, &[Value::Text(key.to_owned())]).await?;
    Ok(match row.as_deref() {
        Some([Value::Text(state), Value::Int(amount)]) => Some((state.clone(), *amount)),
        _ => None,
    })
}

/// Whether the money was given back under a key.
pub(super) async fn is_refunded(tx: &mut dyn BusinessTx, key: &str) -> StoreResult<bool> {
    let key = [Value::Text(key.to_owned())];
    Ok(tx.fetch_one(FIND_REFUND, &key).await?.is_some())
}

/// Moves a payment on, guarded by its state.
pub(super) async fn set_state(
    tx: &mut dyn BusinessTx,
    key: &str,
    (from, to): (&str, &str),
) -> StoreResult<u64> {
    let row = [
        Value::Text(to.to_owned()),
        Value::Text(key.to_owned()),
        Value::Text(from.to_owned()),
    ];
    tx.execute(SET, &row).await
}

async fn keep(tx: &mut dyn BusinessTx, order: &Order, key: &str, state: &str) -> StoreResult<()> {
    let row = [
        Value::Text(key.to_owned()),
        Value::Int(order.order_no),
        Value::Int(order.amount_cents),
        Value::Text(state.to_owned()),
    ];
    tx.execute(INSERT, &row).await?;
    Ok(())
}

/// A charge that has been made.
pub(super) async fn charged(tx: &mut dyn BusinessTx, order: &Order, key: &str) -> StoreResult<()> {
    let entry = ("charge", order.amount_cents);
    processor::enter(tx, key, order.order_no, entry).await?;
    keep(tx, order, key, "charged").await
}

/// Says what is known already; the same answer as the first time.
async fn answered(
    tx: &mut dyn BusinessTx,
    order: &Order,
    state: &str,
    answers: (&Received, Option<&str>),
) -> Handled {
    if matches!(state, "charged" | "refunded") {
        emit(tx, order, "payment.charged", answers).await?;
        return Ok(Outcome::Done);
    }
    let refused = order.because(&format!("the payment was {state}"));
    emit(tx, &refused, "payment.refused", answers).await?;
    Ok(Outcome::Rejected)
}

impl Payment {
    async fn fault(
        &self,
        event: &Received,
        tx: &mut dyn BusinessTx,
        order_no: i64,
    ) -> StoreResult<Option<ProcessorFault>> {
        if let Some(fault) = processor::fault_of(tx, order_no).await?
            && fault.is_about_charge()
        {
            if fault != ProcessorFault::Away {
                processor::use_fault(tx, order_no).await?;
            }
            return Ok(Some(fault));
        }
        Ok(match self.chance.fault_of(order_no) {
            Fault::ProcessorDown if event.replays == 0 => Some(ProcessorFault::Down),
            Fault::CardRefused => Some(ProcessorFault::Refuses),
            Fault::AnswerLost => Some(ProcessorFault::AnswerLost),
            _ => None,
        })
    }

    async fn charge(&self, event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let key = key(event, &order, CHARGE, Side::Forward);
        let answers = (event, Some(key.as_str()));
        let known = payment(tx, &key).await?;
        if let Some((state, _)) = known.as_ref().filter(|(state, _)| state != "unknown") {
            return answered(tx, &order, state, answers).await;
        }
        let is_known = known.is_some();
        if is_known && processor::knows(tx, &key).await? {
            set_state(tx, &key, ("unknown", "charged")).await?;
            return answered(tx, &order, "charged", answers).await;
        }
        let fault = if is_known {
            None
        } else {
            self.fault(event, tx, order.order_no).await?
        };
        let state = match fault {
            Some(ProcessorFault::Down) => {
                return Err(Outcome::Transient("card processor answered 502".to_owned()));
            }
            Some(ProcessorFault::Refuses) => "refused",
            Some(
                ProcessorFault::AnswerLost | ProcessorFault::RequestLost | ProcessorFault::Away,
            ) => "unknown",
            Some(ProcessorFault::RefusesRefund) | None => "charged",
        };
        if !matches!(
            fault,
            Some(ProcessorFault::Refuses | ProcessorFault::RequestLost)
        ) {
            let entry = ("charge", order.amount_cents);
            processor::enter(tx, &key, order.order_no, entry).await?;
        }
        if is_known {
            set_state(tx, &key, ("unknown", state)).await?;
        } else {
            keep(tx, &order, &key, state).await?;
        }
        match state {
            // No answer: nobody can say anything. The saga asks when its time is over.
            "unknown" => Ok(Outcome::Done),
            "refused" => {
                let refused = order.because("card refused");
                emit(tx, &refused, "payment.refused", answers).await?;
                Ok(Outcome::Rejected)
            }
            _ => answered(tx, &order, state, answers).await,
        }
    }

    async fn refund(event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let key = key(event, &order, CHARGE, Side::Compensation);
        let answers = (event, Some(key.as_str()));
        let charge = key_of(TYPE, &order.order_no.to_string(), CHARGE, Side::Forward);
        if is_refunded(tx, &key).await? {
            emit(tx, &order, "payment.refunded", answers).await?;
            return Ok(Outcome::Done);
        }
        match payment(tx, &charge).await? {
            None => {
                // A charge that comes later finds this and is refused.
                keep(tx, &order, &charge, "cancelled").await?;
            }
            Some((state, amount)) => {
                let is_charged = state == "charged"
                    || (state == "unknown" && processor::knows(tx, &charge).await?);
                let fault = processor::fault_of(tx, order.order_no).await?;
                if is_charged && fault == Some(ProcessorFault::RefusesRefund) {
                    processor::use_fault(tx, order.order_no).await?;
                    let refused = order.because("card processor answered 409 already disputed");
                    emit(tx, &refused, "payment.refund_refused", answers).await?;
                    return Ok(Outcome::Rejected);
                }
                if is_charged {
                    processor::enter(tx, &key, order.order_no, ("refund", amount)).await?;
                    let row = [
                        Value::Text(key.clone()),
                        Value::Int(order.order_no),
                        Value::Int(amount),
                    ];
                    tx.execute(INSERT_REFUND, &row).await?;
                    set_state(tx, &charge, (&state, "refunded")).await?;
                } else if state == "unknown" {
                    set_state(tx, &charge, ("unknown", "cancelled")).await?;
                }
            }
        }
        emit(tx, &order, "payment.refunded", answers).await?;
        Ok(Outcome::Done)
    }
}

#[async_trait]
impl Handler for Payment {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        over(match event.event_type.as_deref() {
            Some("payment.charge") => self.charge(event, tx).await,
            Some("payment.refund") => Self::refund(event, tx).await,
            _ => Err(unknown_type(event)),
        })
    }

    /// A payment's state guards itself.
    fn policy(&self, _event: &Received) -> VersionPolicy {
        VersionPolicy::Transition
    }

    fn version(&self) -> &'static str {
        VERSION
    }
}
