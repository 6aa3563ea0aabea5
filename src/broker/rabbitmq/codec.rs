//! Messages between the model and lapin: all 14 basic properties and every field type, exactly, both
//! ways (H-06, H-08). The only file that knows both shapes.

use lapin::BasicProperties;
use lapin::types::{
    AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable as WireTable, LongString,
    ShortString, ShortStringError,
};

use crate::broker::Delivery;
use crate::model::message::{FieldTable, FieldValue, Message, Payload, Properties};

/// A short string; lapin's own conversions panic on more than 255 bytes.
pub(super) fn short(text: &str) -> Result<ShortString, ShortStringError> {
    ShortString::try_new(text)
}

/// Properties as lapin sends them.
pub(super) fn to_wire(properties: &Properties) -> Result<BasicProperties, ShortStringError> {
    // Destructured, so that a fifteenth property cannot be forgotten here.
    let Properties {
        content_type,
        content_encoding,
        headers,
        delivery_mode,
        priority,
        correlation_id,
        reply_to,
        expiration,
        message_id,
        timestamp,
        kind,
        user_id,
        app_id,
        cluster_id,
    } = properties;
    let mut wire = BasicProperties::default();
    if let Some(text) = content_type {
        wire = wire.with_content_type(short(text)?);
    }
    if let Some(text) = content_encoding {
        wire = wire.with_content_encoding(short(text)?);
    }
    if !headers.is_empty() {
        wire = wire.with_headers(table_to_wire(headers)?);
    }
    if let Some(mode) = delivery_mode {
        wire = wire.with_delivery_mode(*mode);
    }
    if let Some(priority) = priority {
        wire = wire.with_priority(*priority);
    }
    if let Some(text) = correlation_id {
        wire = wire.with_correlation_id(short(text)?);
    }
    if let Some(text) = reply_to {
        wire = wire.with_reply_to(short(text)?);
    }
    if let Some(text) = expiration {
        wire = wire.with_expiration(short(text)?);
    }
    if let Some(text) = message_id {
        wire = wire.with_message_id(short(text)?);
    }
    if let Some(seconds) = timestamp {
        wire = wire.with_timestamp(*seconds);
    }
    if let Some(text) = kind {
        wire = wire.with_type(short(text)?);
    }
    if let Some(text) = user_id {
        wire = wire.with_user_id(short(text)?);
    }
    if let Some(text) = app_id {
        wire = wire.with_app_id(short(text)?);
    }
    if let Some(text) = cluster_id {
        wire = wire.with_cluster_id(short(text)?);
    }
    Ok(wire)
}

/// Properties as lapin received them. Header fields come in the order of their names.
pub(super) fn from_wire(wire: &BasicProperties) -> Properties {
    let text = |value: &Option<ShortString>| value.as_ref().map(|text| text.as_str().to_owned());
    Properties {
        content_type: text(wire.content_type()),
        content_encoding: text(wire.content_encoding()),
        headers: wire
            .headers()
            .as_ref()
            .map(table_from_wire)
            .unwrap_or_default(),
        delivery_mode: *wire.delivery_mode(),
        priority: *wire.priority(),
        correlation_id: text(wire.correlation_id()),
        reply_to: text(wire.reply_to()),
        expiration: text(wire.expiration()),
        message_id: text(wire.message_id()),
        timestamp: *wire.timestamp(),
        kind: text(wire.kind()),
        user_id: text(wire.user_id()),
        app_id: text(wire.app_id()),
        cluster_id: text(wire.cluster_id()),
    }
}

/// A delivery with its message.
pub(super) fn delivery(wire: lapin::message::Delivery) -> Delivery {
    Delivery {
        tag: wire.delivery_tag,
        is_redelivered: wire.redelivered,
        exchange: wire.exchange.into(),
        routing_key: wire.routing_key.into(),
        message: Message {
            properties: from_wire(&wire.properties),
            payload: Payload::new(wire.data),
        },
    }
}

fn table_to_wire(table: &FieldTable) -> Result<WireTable, ShortStringError> {
    let mut wire = WireTable::default();
    for (name, value) in table.iter() {
        wire.insert(short(name)?, value_to_wire(value)?);
    }
    Ok(wire)
}

fn table_from_wire(wire: &WireTable) -> FieldTable {
    wire.into_iter()
        .map(|(name, value)| (name.as_str().to_owned(), value_from_wire(value)))
        .collect()
}

fn value_to_wire(value: &FieldValue) -> Result<AMQPValue, ShortStringError> {
    Ok(match value {
        FieldValue::Bool(value) => AMQPValue::Boolean(*value),
        FieldValue::I8(value) => AMQPValue::ShortShortInt(*value),
        FieldValue::U8(value) => AMQPValue::ShortShortUInt(*value),
        FieldValue::I16(value) => AMQPValue::ShortInt(*value),
        FieldValue::U16(value) => AMQPValue::ShortUInt(*value),
        FieldValue::I32(value) => AMQPValue::LongInt(*value),
        FieldValue::U32(value) => AMQPValue::LongUInt(*value),
        FieldValue::I64(value) => AMQPValue::LongLongInt(*value),
        FieldValue::F32Bits(bits) => AMQPValue::Float(f32::from_bits(*bits)),
        FieldValue::F64Bits(bits) => AMQPValue::Double(f64::from_bits(*bits)),
        FieldValue::Decimal { scale, value } => AMQPValue::DecimalValue(DecimalValue {
            scale: *scale,
            value: *value,
        }),
        FieldValue::Text(text) => AMQPValue::LongString(LongString::from(text.as_bytes())),
        FieldValue::TextBytes(bytes) => AMQPValue::LongString(LongString::from(bytes.as_slice())),
        FieldValue::Bytes(bytes) => AMQPValue::ByteArray(ByteArray::from(bytes.as_slice())),
        FieldValue::Time(seconds) => AMQPValue::Timestamp(*seconds),
        FieldValue::Array(values) => AMQPValue::FieldArray(FieldArray::from(
            values
                .iter()
                .map(value_to_wire)
                .collect::<Result<Vec<_>, _>>()?,
        )),
        FieldValue::Table(table) => AMQPValue::FieldTable(table_to_wire(table)?),
        FieldValue::Void => AMQPValue::Void,
    })
}

fn value_from_wire(value: &AMQPValue) -> FieldValue {
    match value {
        AMQPValue::Boolean(value) => FieldValue::Bool(*value),
        AMQPValue::ShortShortInt(value) => FieldValue::I8(*value),
        AMQPValue::ShortShortUInt(value) => FieldValue::U8(*value),
        AMQPValue::ShortInt(value) => FieldValue::I16(*value),
        AMQPValue::ShortUInt(value) => FieldValue::U16(*value),
        AMQPValue::LongInt(value) => FieldValue::I32(*value),
        AMQPValue::LongUInt(value) => FieldValue::U32(*value),
        AMQPValue::LongLongInt(value) => FieldValue::I64(*value),
        AMQPValue::Float(value) => FieldValue::F32Bits(value.to_bits()),
        AMQPValue::Double(value) => FieldValue::F64Bits(value.to_bits()),
        AMQPValue::DecimalValue(decimal) => FieldValue::Decimal {
            scale: decimal.scale,
            value: decimal.value,
        },
        AMQPValue::ShortString(text) => FieldValue::text(text.as_str()),
        AMQPValue::LongString(text) => match std::str::from_utf8(text.as_bytes()) {
            Ok(text) => FieldValue::text(text),
            Err(_) => FieldValue::TextBytes(text.as_bytes().to_vec()),
        },
        AMQPValue::FieldArray(values) => {
            FieldValue::Array(values.as_slice().iter().map(value_from_wire).collect())
        }
        AMQPValue::Timestamp(seconds) => FieldValue::Time(*seconds),
        AMQPValue::FieldTable(table) => FieldValue::Table(table_from_wire(table)),
        AMQPValue::ByteArray(bytes) => FieldValue::Bytes(bytes.as_slice().to_vec()),
        AMQPValue::Void => FieldValue::Void,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_type() -> FieldTable {
        let nested: FieldTable = [(
            "a".to_owned(),
            FieldValue::Table(
                [(
                    "b".to_owned(),
                    FieldValue::Array(vec![
                        FieldValue::I32(1),
                        FieldValue::text("x"),
                        FieldValue::Void,
                    ]),
                )]
                .into_iter()
                .collect(),
            ),
        )]
        .into_iter()
        .collect();
        [
            ("A", FieldValue::Array(vec![])),
            ("B", FieldValue::U8(251)),
            ("D", {
                FieldValue::Decimal {
                    scale: 2,
                    value: 0xffff_f831,
                }
            }),
            ("F", FieldValue::Table(FieldTable::new())),
            ("I", FieldValue::I32(-7)),
            ("N", FieldValue::Table(nested)),
            ("S", FieldValue::TextBytes(vec![0xff, 0xfe, 0])),
            ("T", FieldValue::Time(0x6957_35a5)),
            ("V", FieldValue::Void),
            ("b", FieldValue::I8(-5)),
            ("d", FieldValue::F64Bits(0x3fb9_9999_9999_999a)),
            ("f", FieldValue::F32Bits(0x3fc0_0000)),
            ("i", FieldValue::U32(4_000_000_000)),
            ("l", FieldValue::I64(i64::MIN / 2)),
            ("s", FieldValue::I16(-300)),
            ("t", FieldValue::Bool(true)),
            ("u", FieldValue::U16(65_000)),
            ("w", FieldValue::text("заказ")),
            ("x", FieldValue::Bytes(vec![0, 0xff, 0x80])),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    #[test]
    fn h_08_every_field_type_survives_both_ways() {
        let properties = Properties {
            headers: every_type(),
            ..Properties::default()
        };
        assert_eq!(
            from_wire(&to_wire(&properties).expect("short names")),
            properties
        );
    }

    #[test]
    fn h_06_all_fourteen_properties_survive_both_ways() {
        let properties = Properties {
            content_type: Some("application/vnd.acme.order+json;v=2".into()),
            content_encoding: Some("gzip".into()),
            headers: every_type(),
            delivery_mode: Some(2),
            priority: Some(7),
            correlation_id: Some("corr-77".into()),
            reply_to: Some("answers".into()),
            expiration: Some("60000".into()),
            message_id: Some("018f3c1e-7d2a-7c4e-9b1a-5a2f0c9d1e11".into()),
            timestamp: Some(1_767_323_045),
            kind: Some("order.placed".into()),
            user_id: Some("guest".into()),
            app_id: Some("shop-web".into()),
            cluster_id: Some("c1".into()),
        };
        assert_eq!(
            from_wire(&to_wire(&properties).expect("short names")),
            properties
        );
        assert_eq!(
            from_wire(&to_wire(&Properties::default()).expect("nothing to convert")),
            Properties::default()
        );
    }

    #[test]
    fn n_05_a_text_too_long_for_the_wire_is_an_error() {
        let properties = Properties {
            message_id: Some("x".repeat(256)),
            ..Properties::default()
        };
        assert!(to_wire(&properties).is_err());
    }
}
