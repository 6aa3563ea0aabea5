//! A message as any broker client sees it: opaque bytes, properties, typed headers. The bytes are
//! never reinterpreted (design invariant 8).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize, Serializer};

use crate::base::digest;

/// Payload bytes with their digest.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// Takes the bytes as they came.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, given away.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The text, if it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// SHA-256 in hex.
    pub fn sha256(&self) -> String {
        digest::sha256_hex(&self.0)
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Payload({} B, sha256 {:.12})",
            self.0.len(),
            self.sha256()
        )
    }
}

/// `{"encoding":"utf8"|"base64","data":…,"sha256":…}` (product.md section 8).
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("Payload", 3)?;
        if let Some(text) = self.text() {
            out.serialize_field("encoding", "utf8")?;
            out.serialize_field("data", text)?;
        } else {
            out.serialize_field("encoding", "base64")?;
            out.serialize_field("data", &STANDARD.encode(&self.0))?;
        }
        out.serialize_field("sha256", &self.sha256())?;
        out.end()
    }
}

/// A header value with its AMQP 0-9-1 field type, so that it can be sent back as it came (H-08).
/// Serialises as `{"<tag>": value}` with the tag letters RabbitMQ uses on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FieldValue {
    /// `t`
    #[serde(rename = "t")]
    Bool(bool),
    /// `b`, signed 8 bits
    #[serde(rename = "b")]
    I8(i8),
    /// `B`
    #[serde(rename = "B")]
    U8(u8),
    /// `s`
    #[serde(rename = "s")]
    I16(i16),
    /// `u`
    #[serde(rename = "u")]
    U16(u16),
    /// `I`
    #[serde(rename = "I")]
    I32(i32),
    /// `i`
    #[serde(rename = "i")]
    U32(u32),
    /// `l`
    #[serde(rename = "l")]
    I64(i64),
    /// `f`, as its bits: a float's text form may not come back the same
    #[serde(rename = "f")]
    F32Bits(u32),
    /// `d`, as its bits
    #[serde(rename = "d")]
    F64Bits(u64),
    /// `D`: `value / 10^scale`. The wire carries the value as 32 signed bits.
    #[serde(rename = "D")]
    Decimal {
        /// Digits after the point.
        scale: u8,
        /// The unscaled number's bits as they came.
        value: u32,
    },
    /// `S`, text that is UTF-8
    #[serde(rename = "S")]
    Text(String),
    /// `S` whose bytes are not UTF-8; base64 in JSON
    #[serde(rename = "S64", with = "base64_bytes")]
    TextBytes(Vec<u8>),
    /// `x`; base64 in JSON
    #[serde(rename = "x", with = "base64_bytes")]
    Bytes(Vec<u8>),
    /// `T`, seconds since the epoch
    #[serde(rename = "T")]
    Time(u64),
    /// `A`
    #[serde(rename = "A")]
    Array(Vec<FieldValue>),
    /// `F`
    #[serde(rename = "F")]
    Table(FieldTable),
    /// `V`
    #[serde(rename = "V")]
    Void,
}

impl FieldValue {
    /// A text value.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The text of a text value.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of an integer value of any width.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::I8(n) => Some(i64::from(*n)),
            Self::U8(n) => Some(i64::from(*n)),
            Self::I16(n) => Some(i64::from(*n)),
            Self::U16(n) => Some(i64::from(*n)),
            Self::I32(n) => Some(i64::from(*n)),
            Self::U32(n) => Some(i64::from(*n)),
            Self::I64(n) => Some(*n),
            _ => None,
        }
    }

    /// Bytes this value takes in an AMQP frame, its type tag included (H-10).
    pub fn encoded_len(&self) -> usize {
        1 + match self {
            Self::Bool(_) | Self::I8(_) | Self::U8(_) => 1,
            Self::I16(_) | Self::U16(_) => 2,
            Self::I32(_) | Self::U32(_) | Self::F32Bits(_) => 4,
            Self::I64(_) | Self::F64Bits(_) | Self::Time(_) => 8,
            Self::Decimal { .. } => 5,
            Self::Text(text) => 4 + text.len(),
            Self::TextBytes(bytes) | Self::Bytes(bytes) => 4 + bytes.len(),
            Self::Array(values) => 4 + values.iter().map(Self::encoded_len).sum::<usize>(),
            Self::Table(table) => table.encoded_len(),
            Self::Void => 0,
        }
    }

    /// One line for a screen; not yet made safe for a terminal.
    pub fn display(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::F32Bits(bits) => f32::from_bits(*bits).to_string(),
            Self::F64Bits(bits) => f64::from_bits(*bits).to_string(),
            Self::Decimal { scale, value } => {
                let signed = i64::from(i32::from_ne_bytes(value.to_ne_bytes()));
                let sign = if signed < 0 { "-" } else { "" };
                let digits = format!(
                    "{:0>width$}",
                    signed.unsigned_abs(),
                    width = usize::from(*scale) + 1
                );
                let (whole, fraction) = digits.split_at(digits.len() - usize::from(*scale));
                if fraction.is_empty() {
                    format!("{sign}{whole}")
                } else {
                    format!("{sign}{whole}.{fraction}")
                }
            }
            Self::Text(text) => text.clone(),
            Self::TextBytes(bytes) => crate::base::text::safe_bytes(bytes),
            Self::Bytes(bytes) => format!("0x{}", digest::hex(bytes)),
            Self::Time(seconds) => i64::try_from(*seconds)
                .ok()
                .and_then(|s| s.checked_mul(1_000_000))
                .map_or_else(
                    || seconds.to_string(),
                    |us| crate::base::clock::Timestamp::from_micros(us).to_rfc3339(),
                ),
            Self::Array(values) => {
                format!(
                    "[{}]",
                    values
                        .iter()
                        .map(Self::display)
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }
            Self::Table(table) => format!(
                "{{{}}}",
                table
                    .iter()
                    .map(|(k, v)| format!("{k}: {}", v.display()))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Self::Void => "void".to_owned(),
            Self::I8(_)
            | Self::U8(_)
            | Self::I16(_)
            | Self::U16(_)
            | Self::I32(_)
            | Self::U32(_)
            | Self::I64(_) => self.as_i64().unwrap_or_default().to_string(),
        }
    }
}

mod base64_bytes {
    //! Bytes as base64 text.
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD
            .decode(String::deserialize(deserializer)?)
            .map_err(serde::de::Error::custom)
    }
}

/// Header fields in the order they came. JSON form: `[["name", {"S": "text"}], …]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldTable(Vec<(String, FieldValue)>);

impl FieldTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of the first field called `name`.
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// Sets `name`, in place if it is there, else at the end.
    pub fn set(&mut self, name: impl Into<String>, value: FieldValue) {
        let name = name.into();
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes out every field for which `remove` says so; returns them.
    pub fn take_where(
        &mut self,
        mut remove: impl FnMut(&str) -> bool,
    ) -> Vec<(String, FieldValue)> {
        let (out, kept) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(key, _)| remove(key));
        self.0 = kept;
        out
    }

    /// Fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FieldValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes the table takes in a frame, its length prefix included.
    pub fn encoded_len(&self) -> usize {
        4 + self
            .0
            .iter()
            .map(|(key, value)| 1 + key.len() + value.encoded_len())
            .sum::<usize>()
    }
}

impl FromIterator<(String, FieldValue)> for FieldTable {
    fn from_iter<I: IntoIterator<Item = (String, FieldValue)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

/// All 14 basic properties of AMQP 0-9-1 (H-06). A client that has more must add them here, and the
/// replay's policy with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Properties {
    /// 1. MIME type of the payload.
    pub content_type: Option<String>,
    /// 2. e.g. `gzip`.
    pub content_encoding: Option<String>,
    /// 3. Application headers with their types.
    #[serde(default)]
    pub headers: FieldTable,
    /// 4. 1 transient, 2 persistent.
    pub delivery_mode: Option<u8>,
    /// 5. 0 to 9, or to 255 where a queue says so.
    pub priority: Option<u8>,
    /// 6.
    pub correlation_id: Option<String>,
    /// 7.
    pub reply_to: Option<String>,
    /// 8. Per-message time to live in milliseconds, as text.
    pub expiration: Option<String>,
    /// 9. The event id, for our own events.
    pub message_id: Option<String>,
    /// 10. Seconds since the epoch.
    pub timestamp: Option<u64>,
    /// 11. `type` on the wire: the event type, for our own events.
    pub kind: Option<String>,
    /// 12. Checked by the broker against the connection's user (H-01).
    pub user_id: Option<String>,
    /// 13.
    pub app_id: Option<String>,
    /// 14. Deprecated; kept as it came.
    pub cluster_id: Option<String>,
}

/// Properties and payload.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Message {
    /// The 14 basic properties.
    pub properties: Properties,
    /// The bytes.
    pub payload: Payload,
}

/// One entry of a message's death history as the broker recorded it (`x-death`), newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokerDeath {
    /// Queue it died in.
    pub queue: String,
    /// `rejected`, `expired`, `maxlen`, `delivery_limit`, or what a newer broker says.
    pub reason: String,
    /// How often it died there for that reason.
    pub count: u64,
    /// Exchange it had been published to.
    pub exchange: String,
    /// Routing keys, the first is the original one, CC keys follow.
    pub routing_keys: Vec<String>,
    /// Seconds since the epoch.
    pub time: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_08_typed_headers_survive_their_json_form() {
        let table: FieldTable = [
            ("b", FieldValue::I8(-5)),
            ("B", FieldValue::U8(251)),
            ("s", FieldValue::I16(-300)),
            ("u", FieldValue::U16(65_000)),
            ("I", FieldValue::I32(-7)),
            ("i", FieldValue::U32(4_000_000_000)),
            ("l", FieldValue::I64(i64::MIN / 2)),
            ("f", FieldValue::F32Bits(0x3fc0_0000)),
            ("d", FieldValue::F64Bits(0x3fb9_9999_9999_999a)),
            (
                "D",
                FieldValue::Decimal {
                    scale: 2,
                    value: 0xffff_f831,
                },
            ),
            ("T", FieldValue::Time(0x6957_35a5)),
            ("x", FieldValue::Bytes(vec![0, 0xff, 0x80])),
            ("S", FieldValue::TextBytes(vec![0xff, 0xfe, 0])),
            ("V", FieldValue::Void),
            ("t", FieldValue::Bool(true)),
            ("A", FieldValue::Array(vec![])),
            ("F", FieldValue::Table(FieldTable::new())),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v))
        .collect();
        let json = serde_json::to_string(&table).expect("serialises");
        assert_eq!(
            serde_json::from_str::<FieldTable>(&json).expect("parses"),
            table
        );
        assert_eq!(
            FieldValue::Decimal {
                scale: 2,
                value: 0xffff_f831
            }
            .display(),
            "-19.99"
        );
    }

    #[test]
    fn p_01_bytes_that_are_not_text_come_out_as_base64() {
        let payload = Payload::new(b"\x00\xff\x80".to_vec());
        let json = serde_json::to_value(&payload).expect("serialises");
        assert_eq!(json["encoding"], "base64");
        assert_eq!(json["data"], "AP+A");
    }
}
