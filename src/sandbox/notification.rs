//! The notification service: a second consumer of the orders' own events, under its own inbox name. Each
//! mail builds on the one before, so an event that comes early waits for the one that is missing.

use async_trait::async_trait;

use super::handlers::{Handled, VERSION, decode, emit, over, unknown_type};
use crate::pipeline::consumer::{Handler, Outcome, Received, VersionPolicy};
use crate::store::{BusinessTx, Value};

/// Writes mails.
pub(super) struct Notification;

const MAIL: &str = "INSERT INTO mails (order_no, about) VALUES (?, ?)";
/// One mail of so many asks for a receipt, which is an event of its own.
const RECEIPT_EVERY: i64 = 6;

impl Notification {
    async fn mail(about: &str, event: &Received, tx: &mut dyn BusinessTx) -> Handled {
        let order = decode(event)?;
        let row = [Value::Int(order.order_no), Value::Text(about.to_owned())];
        tx.execute(MAIL, &row).await?;
        if about == "created" && order.order_no % RECEIPT_EVERY == 0 {
            emit(tx, &order, "notification.sent", (event, None)).await?;
        }
        Ok(Outcome::Done)
    }
}

#[async_trait]
impl Handler for Notification {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        over(match event.event_type.as_deref() {
            Some("order.created") => Self::mail("created", event, tx).await,
            Some("order.confirmed") => Self::mail("confirmed", event, tx).await,
            Some("order.cancelled") => Self::mail("cancelled", event, tx).await,
            _ => Err(unknown_type(event)),
        })
    }

    fn policy(&self, _event: &Received) -> VersionPolicy {
        VersionPolicy::increment()
    }

    fn version(&self) -> &'static str {
        VERSION
    }
}
