//! Sagas that are stuck: one whose refund was refused as often as allowed, and one whose charge nobody
//! can tell about.

use super::{History, Order, client, step_key, told};
use crate::model::ids::{EventId, SagaId};
use crate::model::saga::machine::Answer;
use crate::model::saga::{SagaRef, SagaState, Side, StepState};
use crate::pipeline::saga_coordinator::{SagaError, cancel};
use crate::sandbox::fault::{Fault, order_rng};
use crate::sandbox::order_saga::{CHARGE, RESERVE_STOCK};
use crate::sandbox::processor::{ProcessorFault, set_fault};
use crate::sandbox::{payment, place};
use crate::store::StoreError;

const RELEASED: &str = "UPDATE reservations SET state = 'released' WHERE order_no = ?";
const GIVEN_BACK: &str = "UPDATE stock SET reserved = reserved - ? WHERE sku = ?";
const REFUSED: &str = "card processor answered 409 already disputed";

impl History<'_> {
    /// Charged, cancelled, and not given back: a person has to look. The next try would succeed. Its
    /// events, all sent so many minutes ago.
    pub(super) async fn refund_refused(
        &self,
        number: i64,
        minutes: u64,
    ) -> Result<Vec<(EventId, u64)>, String> {
        let order = Order::draw(number, Fault::None, &mut order_rng(1, number));
        let written = async {
            self.reserved(&order).await?;
            self.given_back(&order).await?;
            if let Some(store) = self.ports.store("payment") {
                let key = step_key(&order, CHARGE, Side::Forward);
                let mut tx = store.begin().await?;
                payment::charged(tx.as_mut(), &order, &key).await?;
                tx.commit().await?;
            }
            let saga_id = SagaId::generate();
            let mut tx = self.orders.begin().await?;
            place::write(tx.as_mut(), &self.saga, (&order, &client(number)), &saga_id).await?;
            let key = step_key(&order, RESERVE_STOCK, Side::Forward);
            self.said(tx.as_mut(), key, Answer::Succeeded).await?;
            cancel(
                tx.as_mut(),
                &self.saga,
                &number.to_string(),
                "cancelled by the customer",
            )
            .await?;
            let key = step_key(&order, CHARGE, Side::Forward);
            self.said(tx.as_mut(), key, Answer::Succeeded).await?;
            if let Some(work) = tx.saga(&SagaRef::Id(saga_id.clone())).await? {
                let mut after = work.saga.clone();
                for step in &mut after.steps {
                    match step.name.as_str() {
                        RESERVE_STOCK => step.compensation = StepState::Succeeded,
                        CHARGE => {
                            step.compensation = StepState::Failed;
                            step.attempts = 3;
                            step.timeout_at = None;
                            step.last_error = Some(REFUSED.to_owned());
                        }
                        _ => {}
                    }
                }
                after.state = SagaState::CompensationFailed;
                after.attention = Some(format!("charge could not be undone in 3 tries: {REFUSED}"));
                after.due_at = None;
                tx.saga_move(&work.saga, &after, None).await?;
            }
            self.backdate(tx.as_mut(), &saga_id, self.ago(minutes))
                .await?;
            tx.commit().await?;
            Ok::<_, SagaError>(())
        };
        written.await.map_err(told("a failed refund"))?;
        let key = crate::model::ids::AggregateId::new(number.to_string());
        let rows = self.orders.outbox_sequence(&key).await;
        let rows = rows.map_err(told("a failed refund"))?.rows;
        Ok(rows
            .into_iter()
            .map(|row| (row.event_id, minutes))
            .collect())
    }

    async fn given_back(&self, order: &Order) -> Result<(), StoreError> {
        use crate::store::Value;
        let mut tx = self.inventory.begin().await?;
        tx.execute(RELEASED, &[Value::Int(order.order_no)]).await?;
        let sku = order.sku.clone().unwrap_or_default();
        tx.execute(GIVEN_BACK, &[Value::Int(order.quantity), Value::Text(sku)])
            .await?;
        tx.commit().await
    }

    /// Charged perhaps: the answer was lost, and the processor cannot be asked. A person finds out and
    /// says so.
    pub(super) async fn charge_unknown(&self, number: i64, minutes: u64) -> Result<(), String> {
        let order = Order::draw(number, Fault::None, &mut order_rng(1, number));
        let written = async {
            self.reserved(&order).await?;
            if let Some(store) = self.ports.store("payment") {
                set_fault(store.as_ref(), number, Some((ProcessorFault::Away, 1))).await?;
            }
            let saga_id = SagaId::generate();
            let mut tx = self.orders.begin().await?;
            place::write(tx.as_mut(), &self.saga, (&order, &client(number)), &saga_id).await?;
            let key = step_key(&order, RESERVE_STOCK, Side::Forward);
            self.said(tx.as_mut(), key, Answer::Succeeded).await?;
            if let Some(work) = tx.saga(&SagaRef::Id(saga_id.clone())).await? {
                let mut after = work.saga.clone();
                for step in &mut after.steps {
                    if step.name == CHARGE {
                        step.forward = StepState::Unknown;
                        step.queries = 2;
                        step.last_error = Some("card processor does not answer".to_owned());
                    }
                }
                tx.saga_move(&work.saga, &after, None).await?;
            }
            self.backdate(tx.as_mut(), &saga_id, self.ago(minutes))
                .await?;
            tx.commit().await?;
            Ok::<_, SagaError>(())
        };
        written.await.map_err(told("an unknown charge"))
    }
}
