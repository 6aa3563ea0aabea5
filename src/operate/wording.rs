//! Sentences that several verbs share, so that a thing is always said the same way.

use crate::base::clock::Timestamp;
use crate::base::human;
use crate::base::text::safe;
use crate::model::dead_letter::DeadLetter;

/// `2026-01-02 03:04:05Z`.
pub(super) fn moment(at: Timestamp) -> String {
    at.to_datetime().map_or_else(
        || at.to_rfc3339(),
        |at| at.format("%Y-%m-%d %H:%M:%SZ").to_string(),
    )
}

/// How long ago `at` was; a time ahead of our clock says so instead of a negative age.
pub(super) fn ago(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.seconds_since(at);
    if seconds < -1.0 {
        format!("at {} (ahead of this clock)", moment(at))
    } else {
        format!("{} ago", human::age(seconds.max(0.0)))
    }
}

/// `order.created  key 8812  v3  died 2m ago at inventory  deaths 1  replays 0`.
pub(super) fn headline(letter: &DeadLetter, now: Timestamp) -> String {
    let mut parts = vec![safe(letter.event_type.as_deref().unwrap_or("no type"))];
    if let Some(key) = &letter.aggregate_id {
        parts.push(format!("key {}", safe(key.as_str())));
    }
    if let Some(version) = letter.aggregate_version {
        parts.push(format!("v{version}"));
    }
    parts.push(format!(
        "died {} at {}",
        ago(now, letter.last_died_at),
        safe(letter.consumer.as_str())
    ));
    parts.push(format!("deaths {}", letter.deaths));
    parts.push(format!("replays {}", letter.replays));
    parts.join("  ")
}

/// What the audit log and errors call a dead letter: its event, or its own id when it has none.
pub(super) fn subject(letter: &DeadLetter) -> String {
    letter.event_id.as_ref().map_or_else(
        || letter.dead_letter_id.to_string(),
        std::string::ToString::to_string,
    )
}

/// `v2, v5, v7`.
pub(super) fn versions(list: &[i64]) -> String {
    let words: Vec<_> = list.iter().map(|v| format!("v{v}")).collect();
    words.join(", ")
}

/// `n row` or `n rows`.
pub(super) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", human::grouped(n), if n == 1 { one } else { many })
}
