//! The orders service's consumer: result events move the order's saga on, and the order with it.

use std::sync::Arc;

use async_trait::async_trait;

use super::handlers::{Handled, VERSION, decode, key, over, permanent, unknown_type};
use super::order_saga::{CHARGE, OrderSaga, RESERVE_STOCK};
use crate::model::saga::Side;
use crate::model::saga::machine::{Answer, Verdict};
use crate::pipeline::consumer::{Handler, Outcome, Received, VersionPolicy};
use crate::pipeline::saga_coordinator::{Recorded, Reply, SagaError, record};
use crate::store::BusinessTx;

/// Takes the results of the other services.
pub(super) struct Results {
    pub(super) saga: Arc<OrderSaga>,
}

impl From<SagaError> for Outcome {
    fn from(error: SagaError) -> Self {
        match error {
            SagaError::Store(error) => error.into(),
            SagaError::LostRace { .. } => Self::Contended(error.to_string()),
            SagaError::Program { .. } => Self::Permanent {
                class: "saga cannot be moved".to_owned(),
                error: error.to_string(),
            },
        }
    }
}

impl Results {
    async fn result(&self, event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let why = || order.reason.clone().unwrap_or_else(|| "refused".to_owned());
        let (step, side, answer) = match event.event_type.as_deref() {
            Some("inventory.reserved") => (RESERVE_STOCK, Side::Forward, Answer::Succeeded),
            Some("inventory.rejected") => (RESERVE_STOCK, Side::Forward, Answer::Failed(why())),
            Some("inventory.released") => (RESERVE_STOCK, Side::Compensation, Answer::Succeeded),
            Some("payment.charged") => (CHARGE, Side::Forward, Answer::Succeeded),
            Some("payment.refused") => (CHARGE, Side::Forward, Answer::Failed(why())),
            Some("payment.refunded") => (CHARGE, Side::Compensation, Answer::Succeeded),
            Some("payment.refund_refused") => (CHARGE, Side::Compensation, Answer::Failed(why())),
            // A receipt is only taken note of, by its inbox row.
            Some("notification.sent") => return Ok(Outcome::Done),
            _ => return Err(unknown_type(event)),
        };
        let reply = Reply {
            key: key(event, &order, step, side),
            answer,
            event_id: event.event_id.clone(),
        };
        match record(tx, self.saga.as_ref(), &reply).await? {
            Recorded::Taken(Verdict::Known | Verdict::Refused(_), _) => Ok(Outcome::Stale),
            Recorded::Taken(..) => Ok(Outcome::Done),
            Recorded::NoSaga => Err(permanent(
                "no saga",
                format!(
                    "no saga has the key {} of order {}",
                    reply.key, order.order_no
                ),
            )),
        }
    }
}

#[async_trait]
impl Handler for Results {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        over(self.result(event, tx).await)
    }

    /// The saga guards itself, whatever order its results come in.
    fn policy(&self, _event: &Received) -> VersionPolicy {
        VersionPolicy::Transition
    }

    fn version(&self) -> &'static str {
        VERSION
    }
}
