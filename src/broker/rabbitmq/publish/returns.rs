//! Which message a returned one is. The broker sends a return before the confirm of the same message,
//! but the confirm of another may come in between, and lapin hands the return to that one. Its content
//! tells: exchange, routing key, properties and bytes.

use std::collections::HashMap;

use lapin::message::BasicReturnMessage;

use crate::broker::Outgoing;

use super::super::codec;

/// Ties returned messages to the messages of one flight.
pub(super) struct Returns {
    /// Candidates in sending order, by what is cheap to compare.
    by_address: HashMap<(String, String), Vec<usize>>,
}

impl Returns {
    /// Candidates are the messages sent on the same channel since it was clean.
    pub(super) fn new(messages: &[Outgoing], candidates: impl Iterator<Item = usize>) -> Self {
        let mut by_address: HashMap<_, Vec<usize>> = HashMap::new();
        for index in candidates {
            if let Some(message) = messages.get(index) {
                let address = (message.exchange.clone(), message.routing_key.clone());
                by_address.entry(address).or_default().push(index);
            }
        }
        Self { by_address }
    }

    /// Takes the message that was returned out of the candidates: the first that is equal, else (a
    /// broker or proxy rewrote something) the one with its id, else the first under its address.
    pub(super) fn take(
        &mut self,
        messages: &[Outgoing],
        returned: &BasicReturnMessage,
    ) -> Option<usize> {
        let address = (
            returned.exchange.to_string(),
            returned.routing_key.to_string(),
        );
        let candidates = self.by_address.get_mut(&address)?;
        let found = candidates
            .iter()
            .position(|index| messages.get(*index).is_some_and(|m| is_equal(m, returned)))
            .or_else(|| {
                candidates
                    .iter()
                    .position(|index| messages.get(*index).is_some_and(|m| has_id(m, returned)))
            })
            .unwrap_or(0);
        (found < candidates.len()).then(|| candidates.remove(found))
    }
}

fn has_id(message: &Outgoing, returned: &BasicReturnMessage) -> bool {
    let id = returned.properties.message_id().as_ref();
    id.is_some()
        && id.map(lapin::types::ShortString::as_str)
            == message.message.properties.message_id.as_deref()
}

fn is_equal(message: &Outgoing, returned: &BasicReturnMessage) -> bool {
    // The cheap parts first: a batch may hold many large messages for one address.
    let sent = &message.message;
    returned
        .properties
        .message_id()
        .as_ref()
        .map(lapin::types::ShortString::as_str)
        == sent.properties.message_id.as_deref()
        && returned.data == sent.payload.bytes()
        && codec::to_wire(&sent.properties).is_ok_and(|wire| wire == returned.properties)
}
