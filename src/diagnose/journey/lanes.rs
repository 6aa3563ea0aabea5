//! A story as lines for a terminal: a lane a service, one line a moment, laid out once for the command
//! line and for the console, which only draw.
//!
//! ```text
//!  time          after  orders  broker  inventory
//!  14:00:01.123         ●       │       │          order.created v1 committed
//!  14:00:01.456   0.3s  ├──────▶●       │          confirmed by the broker
//!  14:00:02       0.5s  │       │       ✖          died at inventory
//! ```

use crate::base::clock::Timestamp;
use crate::base::text::{safe, width};

use super::story::{ClockShown, short};
use super::story::{Finding, Moment, Story, Tone, What};

/// Columns kept for the words of a moment before lanes get their full names.
const WORDS_MIN: usize = 58;
/// Columns of time and distance.
const TIMES: usize = 21;
/// Columns of a lane without room for its name.
const NARROW: usize = 3;

/// One line of a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Position of the moment in [`Story::moments`].
    pub moment: usize,
    /// Time and distance from the moment before.
    pub times: String,
    /// The lanes.
    pub art: String,
    /// Words, made safe for a terminal, as long as they are.
    pub text: String,
    /// How it is to be read.
    pub tone: Tone,
}

/// A laid out story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// What it is about: a few lines.
    pub head: Vec<(Tone, String)>,
    /// Names of the lanes.
    pub names: Vec<String>,
    /// Moments.
    pub rows: Vec<Row>,
    /// Gaps, conflicts, notes; not what was unread, which every face has its own place for.
    pub foot: Vec<(Tone, String)>,
}

/// Lays a story out for so many columns.
pub fn chart(story: &Story, columns: usize) -> Chart {
    let lanes = Lanes::new(story, columns);
    let mut before: Option<Timestamp> = None;
    let mut rows = Vec::with_capacity(story.moments.len());
    for (index, moment) in story.moments.iter().enumerate() {
        rows.push(Row {
            moment: index,
            times: times(moment, before),
            art: lanes.art(moment),
            text: safe(&moment.text),
            tone: moment.tone,
        });
        before = Some(moment.at);
    }
    Chart {
        head: head(story),
        names: lanes.names(),
        rows,
        foot: foot(story),
    }
}

struct Lanes<'a> {
    names: &'a [String],
    /// Columns of each lane; `None`: three each, and the names in steps.
    widths: Option<Vec<usize>>,
}

impl<'a> Lanes<'a> {
    fn new(story: &'a Story, columns: usize) -> Self {
        let names = story.lanes.as_slice();
        let widths: Vec<usize> = names.iter().map(|name| width(&safe(name)) + 2).collect();
        let has_room = TIMES + widths.iter().sum::<usize>() + WORDS_MIN <= columns;
        Self {
            names,
            widths: has_room.then_some(widths),
        }
    }

    fn width(&self, lane: usize) -> usize {
        self.widths
            .as_ref()
            .and_then(|widths| widths.get(lane).copied())
            .unwrap_or(NARROW)
    }

    /// One line with every name above its lane, or one line a name in steps.
    fn names(&self) -> Vec<String> {
        let pad = " ".repeat(TIMES);
        if self.widths.is_some() {
            let mut line = pad;
            for (lane, name) in self.names.iter().enumerate() {
                let name = safe(name);
                line.push_str(&name);
                line.push_str(&" ".repeat(self.width(lane).saturating_sub(width(&name))));
            }
            return vec![line.trim_end().to_owned()];
        }
        (0..self.names.len())
            .map(|step| {
                let bars = "│  ".repeat(step);
                let name = self
                    .names
                    .get(step)
                    .map(|name| safe(name))
                    .unwrap_or_default();
                format!("{pad}{bars}{name}")
            })
            .collect()
    }

    fn position(&self, name: Option<&str>) -> Option<usize> {
        let name = name?;
        self.names.iter().position(|lane| lane == name)
    }

    /// A mark in its lane, a line to the lane it goes to, and what else runs on.
    fn art(&self, moment: &Moment) -> String {
        let from = self.position(Some(&moment.lane));
        let to = self.position(moment.to.as_deref()).or(from);
        let (Some(from), Some(to)) = (from, to) else {
            return " ".repeat((0..self.names.len()).map(|lane| self.width(lane)).sum());
        };
        let (low, high) = (from.min(to), from.max(to));
        let is_right = from <= to;
        let mut out = String::new();
        for lane in 0..self.names.len() {
            let is_on_line = low <= lane && lane < high;
            let mark = if lane == to {
                mark(moment)
            } else if lane == from {
                if is_right { "├" } else { "┤" }
            } else if low < lane && lane < high {
                "┼"
            } else {
                "│"
            };
            out.push_str(mark);
            let room = self.width(lane).saturating_sub(1);
            if !is_on_line {
                out.push_str(&" ".repeat(room));
            } else if is_right && lane + 1 == to {
                out.push_str(&"─".repeat(room.saturating_sub(1)));
                out.push('▶');
            } else if !is_right && lane == to {
                out.push('◀');
                out.push_str(&"─".repeat(room.saturating_sub(1)));
            } else {
                out.push_str(&"─".repeat(room));
            }
        }
        out
    }
}

const fn mark(moment: &Moment) -> &'static str {
    match (moment.what, moment.tone) {
        (_, Tone::Bad) => "✖",
        (What::Now | What::Waiting, _) => "○",
        (_, Tone::Warn) => "!",
        (_, Tone::Plain | Tone::Good) => "●",
    }
}

fn times(moment: &Moment, before: Option<Timestamp>) -> String {
    let clock = if moment.what == What::Now {
        "now         ".to_owned()
    } else {
        let part = if moment.is_coarse {
            "    ".to_owned()
        } else {
            let millis = moment.at.micros().rem_euclid(1_000_000) / 1_000;
            format!(".{millis:03}")
        };
        format!("{}{part}", moment.at.to_clock())
    };
    let after = before.map_or_else(String::new, |before| {
        super::story::brief(moment.at.seconds_since(before).max(0.0))
    });
    format!("{clock} {after:>6}  ")
}

fn head(story: &Story) -> Vec<(Tone, String)> {
    let mut out = Vec::new();
    let subject = story.events.first();
    let mut first = format!("{} {}", story.subject.word(), story.subject.id());
    if let Some(event) = subject {
        for part in [
            event.event_type.clone(),
            event.aggregate_id.as_ref().map(|key| format!("key {key}")),
            event.aggregate_version.map(|v| format!("v{v}")),
        ]
        .into_iter()
        .flatten()
        {
            first.push_str("  ");
            first.push_str(&part);
        }
    }
    out.push((Tone::Plain, safe(&format!("{first}  {}", day(story)))));
    if !story.lineage.is_empty() {
        let mut line = "lineage  ".to_owned();
        let mut last = None;
        for link in &story.lineage {
            if last != link.from.as_ref() || last.is_none() {
                if last.is_some() {
                    line.push_str("; ");
                }
                let from = link.from.as_ref().map_or("(no event id)", |id| id.as_str());
                line.push_str(&short(from));
            }
            line.push_str(" ─repair─▶ ");
            line.push_str(&short(link.to.as_str()));
            last = Some(&link.to);
        }
        out.push((Tone::Plain, safe(&line)));
    }
    out.push((Tone::Plain, safe(&ClockShown(&story.clocks).to_string())));
    out
}

/// The day or days the times of the chart are of.
fn day(story: &Story) -> String {
    let day = |at: Timestamp| at.to_rfc3339().chars().take(10).collect::<String>();
    let told = || {
        story
            .moments
            .iter()
            .filter(|m| m.what != What::Now)
            .map(|m| m.at)
    };
    match (told().min(), told().max()) {
        (Some(first), Some(last)) if day(first) == day(last) => format!("{} UTC", day(first)),
        (Some(first), Some(last)) => format!("{} to {} UTC", day(first), day(last)),
        _ => String::new(),
    }
}

fn foot(story: &Story) -> Vec<(Tone, String)> {
    let line =
        |tone, mark: &str, finding: &Finding| (tone, safe(&format!("{mark} {}", finding.text)));
    let mut out = Vec::new();
    out.extend(
        story
            .conflicts
            .iter()
            .map(|f| line(Tone::Bad, "✖ conflict:", f)),
    );
    out.extend(story.gaps.iter().map(|f| line(Tone::Warn, "! gap:", f)));
    let notes = story.order_notes.iter();
    out.extend(notes.map(|note| (Tone::Warn, safe(&format!("! order: {note}")))));
    let limits = story.limits.iter();
    out.extend(limits.map(|limit| (Tone::Plain, safe(&format!("– {limit}")))));
    if story.conflicts.is_empty() && story.gaps.is_empty() {
        let first = if story.unread.is_empty() {
            (Tone::Good, "✓ no gap, no conflict".to_owned())
        } else {
            (
                Tone::Plain,
                "– no gap, no conflict in what was read".to_owned(),
            )
        };
        out.insert(0, first);
    }
    out
}
