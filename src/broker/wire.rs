//! What AMQP 0-9-1 puts on the wire, as far as a message can be refused before it is sent: a frame
//! that is too large or a property the broker does not accept costs the whole connection or channel,
//! and with it the messages beside it (H-01, H-10). Both brokers use the same rules.

use crate::base::human::grouped;
use crate::model::message::{FieldValue, Message, Properties};

use super::Outgoing;

/// Bytes of every frame that are not content.
const FRAME_OVERHEAD: usize = 8;
/// Longest text of a property, a name or a routing key.
const SHORT_MAX: usize = 255;
/// Deepest nesting of header values; a decoder may recurse (P-09).
const DEPTH_MAX: usize = 64;
/// Largest time to live RabbitMQ takes, in milliseconds.
const EXPIRATION_MS_MAX: u64 = 0xffff_ffff;

/// Bytes of the content header's payload: it always travels in one frame.
pub fn header_bytes(properties: &Properties) -> usize {
    // Class, weight, body size and property flags.
    let fixed = 2 + 2 + 8 + 2;
    let texts: usize = short_texts(properties)
        .iter()
        .filter_map(|(_, text)| *text)
        .map(|text| 1 + text.len())
        .sum();
    let headers = if properties.headers.is_empty() {
        0
    } else {
        properties.headers.encoded_len()
    };
    let numbers = usize::from(properties.delivery_mode.is_some())
        + usize::from(properties.priority.is_some())
        + 8 * usize::from(properties.timestamp.is_some());
    fixed + texts + headers + numbers
}

/// Why `outgoing` cannot be sent by `user` over frames of at most `frame_max` bytes (0 = no limit), or
/// `None`.
pub fn refusal(outgoing: &Outgoing, user: Option<&str>, frame_max: u32) -> Option<String> {
    name_fault("exchange", &outgoing.exchange)
        .or_else(|| short_fault("routing key", &outgoing.routing_key))
        .or_else(|| property_fault(&outgoing.message.properties, user))
        .or_else(|| header_fault(&outgoing.message))
        .or_else(|| size_fault(&outgoing.message.properties, frame_max))
}

/// Why `name` cannot name a queue or an exchange (N-04, N-05), or `None`. RabbitMQ strips line breaks
/// from a name and answers under the other one, so nobody would find it again.
pub fn name_fault(what: &str, name: &str) -> Option<String> {
    if name.contains(['\n', '\r']) {
        return Some(format!(
            "{what} name {name:?} contains a line break, which the broker would drop: remove it"
        ));
    }
    short_fault(&format!("{what} name"), name)
}

fn short_fault(what: &str, text: &str) -> Option<String> {
    (text.len() > SHORT_MAX).then(|| {
        format!(
            "{what} takes {} bytes, {SHORT_MAX} are possible",
            text.len()
        )
    })
}

fn short_texts(properties: &Properties) -> [(&'static str, Option<&str>); 10] {
    [
        ("content_type", properties.content_type.as_deref()),
        ("content_encoding", properties.content_encoding.as_deref()),
        ("correlation_id", properties.correlation_id.as_deref()),
        ("reply_to", properties.reply_to.as_deref()),
        ("expiration", properties.expiration.as_deref()),
        ("message_id", properties.message_id.as_deref()),
        ("type", properties.kind.as_deref()),
        ("user_id", properties.user_id.as_deref()),
        ("app_id", properties.app_id.as_deref()),
        ("cluster_id", properties.cluster_id.as_deref()),
    ]
}

fn property_fault(properties: &Properties, user: Option<&str>) -> Option<String> {
    for (what, text) in short_texts(properties) {
        if let Some(fault) = text.and_then(|text| short_fault(what, text)) {
            return Some(fault);
        }
    }
    if let (Some(claimed), Some(user)) = (properties.user_id.as_deref(), user)
        && claimed != user
    {
        return Some(format!(
            "user_id {claimed:?} is not the connection's user {user:?}: the broker would refuse it; clear user_id"
        ));
    }
    let expiration = properties.expiration.as_deref()?;
    let is_number = expiration.bytes().all(|byte| byte.is_ascii_digit())
        && expiration
            .parse::<u64>()
            .is_ok_and(|ms| ms <= EXPIRATION_MS_MAX);
    (!is_number).then(|| format!("expiration {expiration:?} is not a number of milliseconds"))
}

fn header_fault(message: &Message) -> Option<String> {
    for (name, value) in message.properties.headers.iter() {
        if let Some(fault) = short_fault("a header's name", name) {
            return Some(fault);
        }
        let is_list = matches!(value, FieldValue::Array(keys)
            if keys.iter().all(|key| matches!(key, FieldValue::Text(_) | FieldValue::TextBytes(_))));
        if matches!(name, "CC" | "BCC") && !is_list {
            return Some(format!("header {name} is not a list of routing keys"));
        }
        if let Some(fault) = value_fault(value, DEPTH_MAX) {
            return Some(format!("header {name:?}: {fault}"));
        }
    }
    None
}

fn value_fault(value: &FieldValue, depth: usize) -> Option<String> {
    let Some(depth) = depth.checked_sub(1) else {
        return Some(format!("nested deeper than {DEPTH_MAX}"));
    };
    match value {
        // Both stop RabbitMQ 3.10 with an internal error that closes the connection.
        FieldValue::F32Bits(bits) if !f32::from_bits(*bits).is_finite() => {
            Some("not a finite number".to_owned())
        }
        FieldValue::F64Bits(bits) if !f64::from_bits(*bits).is_finite() => {
            Some("not a finite number".to_owned())
        }
        FieldValue::Array(values) => values.iter().find_map(|value| value_fault(value, depth)),
        FieldValue::Table(table) => table.iter().find_map(|(name, value)| {
            short_fault("a header's name", name).or_else(|| value_fault(value, depth))
        }),
        _ => None,
    }
}

fn size_fault(properties: &Properties, frame_max: u32) -> Option<String> {
    if frame_max == 0 {
        return None;
    }
    let room = usize::try_from(frame_max)
        .unwrap_or(usize::MAX)
        .saturating_sub(FRAME_OVERHEAD);
    let size = header_bytes(properties);
    (size > room).then(|| {
        format!(
            "headers too large to republish ({} of {})",
            with_commas(size),
            with_commas(room)
        )
    })
}

fn with_commas(number: usize) -> String {
    grouped(u64::try_from(number).unwrap_or(u64::MAX)).replace(' ', ",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::message::{FieldTable, Payload};
    use rstest::rstest;

    fn outgoing(properties: Properties) -> Outgoing {
        Outgoing {
            exchange: "orders".into(),
            routing_key: "order.placed".into(),
            message: Message {
                properties,
                payload: Payload::new(b"{}".to_vec()),
            },
        }
    }

    #[rstest]
    #[case(130_900, None)]
    #[case(130_500, None)]
    #[case(131_200, Some("headers too large to republish (131,246 of 131,064)"))]
    fn h_10_headers_must_fit_one_frame(#[case] length: usize, #[case] refused: Option<&str>) {
        let mut headers = FieldTable::new();
        headers.set(
            "x-exception-stacktrace",
            FieldValue::text("s".repeat(length)),
        );
        let properties = Properties {
            headers,
            ..Properties::default()
        };
        assert_eq!(
            refusal(&outgoing(properties), Some("ops"), 131_072).as_deref(),
            refused
        );
    }

    #[test]
    fn h_01_another_users_message_is_refused_before_it_is_sent() {
        let properties = Properties {
            user_id: Some("orders-svc".into()),
            ..Properties::default()
        };
        let why = refusal(&outgoing(properties.clone()), Some("relay-ops"), 0);
        assert!(why.is_some_and(|why| why.contains("orders-svc") && why.contains("relay-ops")));
        assert_eq!(refusal(&outgoing(properties), Some("orders-svc"), 0), None);
    }

    #[rstest]
    #[case("3000", true)]
    #[case("0", true)]
    #[case("4294967296", false)]
    #[case("-1", false)]
    #[case("soon", false)]
    fn h_05_an_expiration_is_a_number(#[case] expiration: &str, #[case] is_fine: bool) {
        let properties = Properties {
            expiration: Some(expiration.into()),
            ..Properties::default()
        };
        assert_eq!(refusal(&outgoing(properties), None, 0).is_none(), is_fine);
    }

    #[test]
    fn n_04_and_n_05_names_are_checked_by_bytes() {
        assert!(name_fault("queue", "orders.dlq\n").is_some());
        assert!(name_fault("queue", "orders.dlq\r").is_some());
        let longest = format!("{}x", "é".repeat(127));
        assert_eq!(name_fault("queue", &longest), None);
        assert!(name_fault("queue", &format!("{longest}y")).is_some());
    }

    #[test]
    fn h_02_a_cc_header_that_is_not_a_list_is_refused() {
        let mut headers = FieldTable::new();
        headers.set("CC", FieldValue::text("audit.orders"));
        let properties = Properties {
            headers,
            ..Properties::default()
        };
        assert!(refusal(&outgoing(properties), None, 0).is_some());
    }
}
