//! A message sent on to exactly one queue, with a confirm, as it came: to a dead-letter queue with
//! the reason, or aside. Only what the broker would refuse or act on is moved into a header.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::headers;
use crate::broker::{Broker, Outgoing, PublishOutcome, Publisher};
use crate::model::message::{FieldValue, Message};

/// How long a copy may take to be confirmed.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why it is not certain that a queue has a copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CopyFault {
    /// There is no such queue.
    #[error("{queue}: unroutable: {why}")]
    Unroutable { queue: String, why: String },
    /// Anything else; it may or may not be stored.
    #[error("{0}")]
    Uncertain(String),
}

/// Sends copies over a channel of its own, opened when first needed.
pub(super) struct Copier {
    broker: Arc<dyn Broker>,
    publisher: OnceCell<Box<dyn Publisher>>,
}

impl Copier {
    /// Nothing is opened yet.
    pub(super) fn new(broker: Arc<dyn Broker>) -> Self {
        Self {
            broker,
            publisher: OnceCell::new(),
        }
    }

    /// Sends `message` to `queue`.
    ///
    /// # Errors
    /// Why it is not certain that the queue has it: then the original must not be acknowledged.
    pub(super) async fn send(&self, queue: &str, message: Message) -> Result<(), CopyFault> {
        let uncertain = |why: String| Err(CopyFault::Uncertain(format!("{queue}: {why}")));
        let publisher = match self
            .publisher
            .get_or_try_init(|| self.broker.publisher())
            .await
        {
            Ok(publisher) => publisher,
            Err(error) => return uncertain(error.to_string()),
        };
        let out = Outgoing {
            exchange: String::new(),
            routing_key: queue.to_owned(),
            message: for_one_queue(message, self.broker.user().as_deref()),
        };
        match publisher.publish(vec![out], DEADLINE).await.pop() {
            Some(PublishOutcome::Confirmed) => Ok(()),
            Some(PublishOutcome::Returned(why)) => Err(CopyFault::Unroutable {
                queue: queue.to_owned(),
                why,
            }),
            Some(PublishOutcome::Nacked) => uncertain("refused by broker (nack)".to_owned()),
            Some(PublishOutcome::Refused(why)) => uncertain(format!("refused: {why}")),
            Some(PublishOutcome::Unsent(why)) => uncertain(format!("not sent: {why}")),
            Some(PublishOutcome::Unknown(why)) => {
                uncertain(format!("unknown whether stored: {why}"))
            }
            None => uncertain("unknown whether stored: no outcome".to_owned()),
        }
    }
}

/// Persistent, without expiry (H-05), without CC and BCC (H-02), under our own user (H-01); what was
/// taken stays readable in headers.
fn for_one_queue(mut message: Message, user: Option<&str>) -> Message {
    let properties = &mut message.properties;
    properties.delivery_mode = Some(2);
    if let Some(expiration) = properties.expiration.take() {
        properties
            .headers
            .set(headers::ORIGINAL_EXPIRATION, FieldValue::Text(expiration));
    }
    if properties.user_id.as_deref() != user
        && let Some(owner) = properties.user_id.take()
    {
        properties
            .headers
            .set(headers::ORIGINAL_USER_ID, FieldValue::Text(owner));
    }
    let copies = properties
        .headers
        .take_where(|name| name == "CC" || name == "BCC");
    if let Some((_, value)) = copies.into_iter().next() {
        properties.headers.set(headers::ORIGINAL_CC, value);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_02_a_copy_goes_to_one_queue_and_does_not_expire() {
        let mut message = Message::default();
        message.properties.expiration = Some("3000".into());
        message.properties.user_id = Some("orders-svc".into());
        message
            .properties
            .headers
            .set("CC", FieldValue::Array(vec![FieldValue::text("audit")]));
        let copy = for_one_queue(message, Some("relay-ops")).properties;
        assert_eq!(
            (copy.expiration, copy.user_id, copy.delivery_mode),
            (None, None, Some(2))
        );
        assert!(copy.headers.get("CC").is_none());
        assert_eq!(copy.headers.len(), 3);
    }
}
