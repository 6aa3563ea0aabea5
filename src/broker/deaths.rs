//! Death histories: what the broker wrote into a message's headers when it dead-lettered it, as
//! typed facts, and which headers belong to the broker and must not be sent back (H-03).

use crate::model::message::{BrokerDeath, FieldTable, FieldValue};

/// Headers only a broker writes. A replay removes them: sent back, they would continue a history that
/// is over, or start a broken one. Names that end in `-` are prefixes.
pub const BROKER_OWNED: [&str; 5] = [
    "x-death",
    "x-first-death-",
    "x-last-death-",
    "x-delivery-count",
    "x-acquired-count",
];

/// True for a header of [`BROKER_OWNED`]; an application's own header may start with `x-` too.
pub fn is_broker_owned(header: &str) -> bool {
    BROKER_OWNED.iter().any(|owned| {
        if owned.ends_with('-') {
            header.starts_with(owned)
        } else {
            header == *owned
        }
    })
}

/// The `x-death` entries, newest first as the broker keeps them. A header of another shape (a client
/// can forge one) gives no entries; a field of another type gives an empty or unknown value.
pub fn deaths(headers: &FieldTable) -> Vec<BrokerDeath> {
    entries(headers).map(death).collect()
}

/// The time to live in milliseconds, as text, that the newest death took from the message (H-05).
pub fn original_expiration(headers: &FieldTable) -> Option<&str> {
    entries(headers)
        .next()?
        .get("original-expiration")?
        .as_text()
}

fn entries(headers: &FieldTable) -> impl Iterator<Item = &FieldTable> {
    let values = match headers.get("x-death") {
        Some(FieldValue::Array(values)) => values.as_slice(),
        _ => &[],
    };
    values.iter().filter_map(|value| match value {
        FieldValue::Table(table) => Some(table),
        _ => None,
    })
}

fn death(entry: &FieldTable) -> BrokerDeath {
    let routing_keys = match entry.get("routing-keys") {
        Some(FieldValue::Array(keys)) => keys.iter().filter_map(text_of).collect(),
        _ => Vec::new(),
    };
    BrokerDeath {
        queue: text(entry, "queue"),
        reason: text(entry, "reason"),
        count: entry
            .get("count")
            .and_then(FieldValue::as_i64)
            .and_then(|count| u64::try_from(count).ok())
            // An entry stands for at least the death that wrote it.
            .unwrap_or(1),
        exchange: text(entry, "exchange"),
        routing_keys,
        time: entry.get("time").and_then(seconds),
    }
}

fn text(entry: &FieldTable, name: &str) -> String {
    entry.get(name).and_then(text_of).unwrap_or_default()
}

fn text_of(value: &FieldValue) -> Option<String> {
    match value {
        FieldValue::Text(text) => Some(text.clone()),
        FieldValue::TextBytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

fn seconds(value: &FieldValue) -> Option<u64> {
    match value {
        FieldValue::Time(seconds) => Some(*seconds),
        other => other.as_i64().and_then(|n| u64::try_from(n).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table<const N: usize>(fields: [(&str, FieldValue); N]) -> FieldTable {
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    #[test]
    fn h_12_a_chain_of_deaths_is_read_newest_first() {
        let headers = table([(
            "x-death",
            FieldValue::Array(vec![
                FieldValue::Table(table([
                    ("queue", FieldValue::text("billing.orders.retry")),
                    ("reason", FieldValue::text("expired")),
                    ("count", FieldValue::I64(3)),
                    ("exchange", FieldValue::text("retry")),
                    (
                        "routing-keys",
                        FieldValue::Array(vec![FieldValue::text("billing.orders")]),
                    ),
                    ("time", FieldValue::Time(1_767_323_145)),
                    ("original-expiration", FieldValue::text("3000")),
                ])),
                FieldValue::Table(table([
                    ("queue", FieldValue::text("billing.orders")),
                    ("reason", FieldValue::text("rejected")),
                    ("count", FieldValue::I64(4)),
                    ("exchange", FieldValue::text("orders")),
                    (
                        "routing-keys",
                        FieldValue::Array(vec![
                            FieldValue::text("order.placed"),
                            FieldValue::text("audit.orders"),
                        ]),
                    ),
                    ("time", FieldValue::Time(1_767_323_140)),
                ])),
            ]),
        )]);
        let found = deaths(&headers);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].reason.as_str(), found[0].count),
            ("expired", 3),
            "newest first"
        );
        assert_eq!(found[1].queue, "billing.orders");
        assert_eq!(found[1].routing_keys, ["order.placed", "audit.orders"]);
        assert_eq!(found[1].time, Some(1_767_323_140));
        assert_eq!(original_expiration(&headers), Some("3000"));
    }

    #[test]
    fn h_03_a_history_of_another_shape_gives_no_deaths() {
        for forged in [
            FieldValue::text("[{\"queue\":\"a\"}]"),
            FieldValue::Array(vec![FieldValue::text("a"), FieldValue::I64(1)]),
            FieldValue::Void,
        ] {
            assert_eq!(deaths(&table([("x-death", forged)])), []);
        }
        let odd = table([(
            "x-death",
            FieldValue::Array(vec![FieldValue::Table(table([
                ("queue", FieldValue::I32(7)),
                ("count", FieldValue::text("many")),
            ]))]),
        )]);
        assert_eq!(deaths(&odd)[0].queue, "");
        assert_eq!(deaths(&odd)[0].count, 1);
    }

    #[test]
    fn h_03_only_the_brokers_own_headers_are_the_brokers() {
        for owned in [
            "x-death",
            "x-first-death-queue",
            "x-first-death-reason",
            "x-last-death-exchange",
            "x-delivery-count",
            "x-acquired-count",
        ] {
            assert!(is_broker_owned(owned), "{owned}");
        }
        for kept in ["x-tenant", "x-deathly", "x-delivery-country", "traceparent"] {
            assert!(!is_broker_owned(kept), "{kept}");
        }
    }
}
