//! Retry queues: `<queue>.retry.<milliseconds>`, in which a message lives that long and then goes back
//! to its queue through the default exchange. Nobody consumes them.

use std::sync::Arc;
use std::time::Duration;

use super::super::copy::{Copier, CopyFault};
use crate::broker::{Broker, NewQueue, Topology};
use crate::config::consuming::NAME_BYTES_MAX;
use crate::model::dead_letter::retry_queue;
use crate::model::message::Message;

/// The retry queues of one work queue.
pub(super) struct RetryQueues {
    broker: Arc<dyn Broker>,
    queue: String,
    delays: Vec<Duration>,
}

impl RetryQueues {
    pub(super) fn new(broker: Arc<dyn Broker>, queue: &str, delays: &[Duration]) -> Self {
        Self {
            broker,
            queue: queue.to_owned(),
            delays: delays.to_vec(),
        }
    }

    /// Declares them: of the work queue's kind where that can be told, since a message that waits
    /// must be as safe as one that is ready. Those that exist stay as they are; one that exists with
    /// another time to live is refused.
    ///
    /// # Errors
    /// Which queue cannot be used, and why.
    pub(super) async fn declare(&self) -> Result<(), String> {
        let work = self.broker.queue(&self.queue).await.ok().flatten();
        let is_quorum = work.is_some_and(|queue| queue.kind.as_deref() == Some("quorum"));
        for delay in &self.delays {
            let name = retry_queue(&self.queue, *delay);
            if name.len() > NAME_BYTES_MAX {
                return Err(format!(
                    "retry queue {name:?} would have a name of {} bytes; a broker takes \
                     {NAME_BYTES_MAX}: use a shorter queue name",
                    name.len()
                ));
            }
            if let Err(first) = self.declare_one(&name, *delay, is_quorum).await {
                // It may have been declared while the kind could not be told.
                if self.declare_one(&name, *delay, !is_quorum).await.is_err() {
                    return Err(format!("retry queue {name}: {first}"));
                }
            }
        }
        Ok(())
    }

    async fn declare_one(
        &self,
        name: &str,
        delay: Duration,
        is_quorum: bool,
    ) -> Result<(), String> {
        let queue = NewQueue {
            name: name.to_owned(),
            is_quorum,
            dead_letter: Some((String::new(), self.queue.clone())),
            message_ttl_ms: Some(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)),
            ..NewQueue::default()
        };
        let topology = Topology {
            exchanges: Vec::new(),
            queues: vec![queue],
        };
        let declared = self.broker.declare(&topology).await;
        declared.map_err(|error| error.to_string())
    }

    /// Sends a copy to wait for `delay`; a queue that is missing is declared first.
    ///
    /// # Errors
    /// Why it is not certain that the copy waits: then the original must not be acknowledged.
    pub(super) async fn send(
        &self,
        copier: &Copier,
        delay: Duration,
        message: Message,
    ) -> Result<(), String> {
        let name = retry_queue(&self.queue, delay);
        match copier.send(&name, message.clone()).await {
            Ok(()) => Ok(()),
            Err(CopyFault::Unroutable { .. }) => {
                self.declare().await?;
                let sent = copier.send(&name, message).await;
                sent.map_err(|fault| fault.to_string())
            }
            Err(fault) => Err(fault.to_string()),
        }
    }
}
