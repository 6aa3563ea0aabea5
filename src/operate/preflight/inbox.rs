//! What the consumer's inbox says of an event: whether it has it, and how far back it can tell.

use super::{Facts, overridable, pass, refusal, warning};
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::base::text::safe;
use crate::model::dead_letter::DeadLetter;
use crate::model::inbox::InboxRow;
use crate::model::operation::Verb;
use crate::operate::command_line::CommandLine;
use crate::operate::look::Look;
use crate::operate::plan::PreflightLine;
use crate::operate::wording::moment;

/// Whether the consumer has processed the event, by its inbox and then by the archive.
pub(super) fn row(
    context: &str,
    letter: &DeadLetter,
    inbox: &Look<InboxRow>,
    in_archive: &Look<InboxRow>,
) -> PreflightLine {
    let consumer = safe(letter.consumer.as_str());
    match inbox {
        // The archive is asked before anything is said about "no row".
        Look::Absent if matches!(in_archive, Look::Found(_) | Look::Unread(_)) => {
            archived(context, letter, in_archive)
        }
        Look::Found(row) => {
            let other = match &row.payload_sha256 {
                Some(sha256) if *sha256 != letter.payload_sha256 => " with other content",
                _ => "",
            };
            let instead = CommandLine::of_letter(context, Verb::Discard, letter)
                .flag("--resolved", true)
                .dry();
            refusal(
                "inbox_absent",
                format!(
                    "consumer will skip this: already processed at {}{other}; close it as resolved instead: {instead}",
                    moment(row.processed_at),
                ),
            )
        }
        Look::Absent => pass(
            "inbox_absent",
            format!("{consumer} inbox has no row: this will be its first effect"),
        ),
        Look::NotConfigured(why) => warning(
            "inbox_absent",
            format!("whether {consumer} has processed it cannot be told, nor proven later: {why}"),
        ),
        Look::Unread(why) => refusal(
            "unread",
            format!("the inbox of {consumer} could not be read: {why}"),
        ),
    }
}

/// The inbox has forgotten the event: the consumer would do it again.
fn archived(context: &str, letter: &DeadLetter, found: &Look<InboxRow>) -> PreflightLine {
    let consumer = safe(letter.consumer.as_str());
    match found {
        Look::Found(row) => {
            let instead = CommandLine::of_letter(context, Verb::Discard, letter)
                .flag("--resolved", true)
                .dry();
            refusal(
                "inbox_absent",
                format!(
                    "processed at {}, and forgotten by the inbox since (the archive has the row): \
                     {consumer} would do it a second time; close it as resolved instead: {instead}",
                    moment(row.processed_at),
                ),
            )
        }
        Look::Absent | Look::NotConfigured(_) => pass("inbox_absent", "nothing is archived"),
        Look::Unread(why) => refusal(
            "unread",
            format!("the archive of {consumer}'s inbox could not be read: {why}"),
        ),
    }
}

/// An event older than the inbox keeps its rows could take effect twice: the row that would stop
/// it may be gone.
pub(super) fn retention(facts: &Facts<'_>) -> PreflightLine {
    const CHECK: &str = "inbox_retention";
    let letter = &facts.detail.letter;
    let made_at = facts
        .originals
        .found
        .iter()
        .filter_map(|original| original.created_at)
        .min()
        .or(letter.message_at);
    let known_since = made_at.unwrap_or(letter.first_died_at);
    let age_s = facts.now.seconds_since(known_since);
    let age = human::age(age_s.max(0.0));
    match &facts.memory.horizon {
        Look::Found(horizon) => return forgotten(CHECK, (known_since, &age), made_at, *horizon),
        Look::Unread(why) => {
            return overridable(
                CHECK,
                format!("how far the inbox has forgotten could not be read: {why}"),
            );
        }
        Look::Absent | Look::NotConfigured(_) => {}
    }
    // Nothing of ours has forgotten anything; what is configured may have been done by somebody else.
    let Some(kept) = facts.context.inbox_retention else {
        return pass(CHECK, "the inbox keeps its rows for ever");
    };
    let kept_text = human::duration(kept);
    if age_s >= kept.as_secs_f64() {
        overridable(
            CHECK,
            format!(
                "{age} old, the inbox keeps {kept_text}: if it was processed before, its effect could happen twice"
            ),
        )
    } else if made_at.is_none() {
        warning(
            CHECK,
            format!(
                "when it was made is not known; it first died {age} ago, the inbox keeps {kept_text}"
            ),
        )
    } else {
        pass(CHECK, format!("{age} old, inbox keeps {kept_text}"))
    }
}

/// Against the horizon, up to which rows have really gone (I-01).
fn forgotten(
    check: &str,
    (known_since, age): (Timestamp, &str),
    made_at: Option<Timestamp>,
    horizon: Timestamp,
) -> PreflightLine {
    let horizon_text = moment(horizon);
    if known_since <= horizon {
        overridable(
            check,
            format!(
                "older than the inbox window: {age} old, and ids up to {horizon_text} are forgotten: \
                 duplicate protection no longer applies, its effect could happen twice"
            ),
        )
    } else if made_at.is_none() {
        warning(
            check,
            format!(
                "when it was made is not known; it first died {age} ago, the inbox has forgotten ids up to \
                 {horizon_text}"
            ),
        )
    } else {
        pass(
            check,
            format!("{age} old, the inbox remembers everything since {horizon_text}"),
        )
    }
}
