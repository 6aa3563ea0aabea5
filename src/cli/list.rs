//! What every list shares: the filter, the limit, and pages read until enough rows match. A limit
//! that was hit is always shown.

use clap::Args;

use crate::base::human::grouped;
use crate::model::count::Count;
use crate::model::filter::{Fields, Filter, FilterKind, InService};
use crate::model::page::{Cursor, Page};

use super::envelope::Answer;
use super::failure::Outcome;

/// Rows looked at for each row asked for, before a filter that matches little gives up.
const SCAN_FACTOR: usize = 20;

/// Rows that `--all` reads of a list without pages.
const ALL_MAX: u32 = 10_000;

/// Options of every list.
#[derive(Clone, Debug, Default, Args)]
pub struct Listing {
    /// Only rows that match, e.g. 'type:order.created age>10m key:8812 error~timeout'
    #[arg(long, short, value_name = "FILTER")]
    pub filter: Option<String>,
    /// Rows to print at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Print every row, page by page, however many there are
    #[arg(long)]
    pub all: bool,
}

impl Listing {
    /// The filter for one kind of row.
    pub(super) fn filter(&self, kind: FilterKind) -> Outcome<Filter> {
        Ok(Filter::parse_whole(
            kind,
            self.filter.as_deref().unwrap_or_default(),
        )?)
    }

    /// Rows wanted.
    pub(super) fn wanted(&self) -> usize {
        if self.all {
            usize::MAX
        } else {
            usize::try_from(self.limit).unwrap_or(usize::MAX)
        }
    }

    /// Rows to ask for where a list is read in one go; even `--all` has a limit there.
    pub(super) fn limit_of_all(&self) -> u32 {
        if self.all { ALL_MAX } else { self.limit }
    }

    /// True when so many rows came that there may be more.
    pub(super) fn is_full(&self, rows: usize) -> bool {
        rows >= usize::try_from(self.limit_of_all()).unwrap_or(usize::MAX)
    }

    /// Rows to ask for at once.
    pub(super) fn page_rows(&self, context: &crate::config::Context) -> u32 {
        if self.all {
            context.thresholds.page_rows
        } else {
            self.limit.min(context.thresholds.page_rows)
        }
    }
}

/// Rows that matched, with their service.
pub(super) struct Collected<T> {
    /// The rows.
    pub rows: Vec<(String, T)>,
    /// Rows looked at.
    pub scanned: usize,
    /// There is more than was looked at or printed.
    pub more: bool,
}

/// Takes matching rows from each service's first page and on, until there are enough.
pub(super) async fn collect<T, N>(
    listing: &Listing,
    filter: &Filter,
    now: crate::base::clock::Timestamp,
    first: Vec<(String, Page<T>)>,
    next: N,
) -> Outcome<Collected<T>>
where
    T: Fields,
    N: AsyncFn(&str, Cursor) -> Outcome<Page<T>>,
{
    let wanted = listing.wanted();
    let scan_max = wanted.saturating_mul(SCAN_FACTOR);
    let mut out = Collected {
        rows: Vec::new(),
        scanned: 0,
        more: false,
    };
    for (service, mut page) in first {
        loop {
            for row in page.rows {
                out.scanned += 1;
                let named = InService {
                    service: &service,
                    row: &row,
                };
                if !filter.matches(&named, now) {
                    continue;
                }
                if out.rows.len() == wanted {
                    out.more = true;
                    break;
                }
                out.rows.push((service.clone(), row));
            }
            let Some(cursor) = page.next else { break };
            if out.rows.len() >= wanted || out.scanned >= scan_max {
                out.more = true;
                break;
            }
            page = next(&service, cursor).await?;
        }
    }
    Ok(out)
}

impl<T> Collected<T> {
    /// Says in the answer how much of the whole this is.
    pub(super) fn describe(&self, answer: &mut Answer, filter: &Filter, total: Option<Count>) {
        answer.more = Some(self.more);
        answer.total = if filter.is_empty() { total } else { None };
        let shown = grouped(self.rows.len() as u64);
        let note = if !filter.is_empty() {
            let scanned = grouped(self.scanned as u64);
            let rest = if self.more {
                "; there are more: --all looks at every row"
            } else {
                ""
            };
            format!("{shown} match of {scanned} looked at{rest}")
        } else if self.more {
            let total = total.map_or_else(|| "more".to_owned(), |total| total.to_string());
            format!("{shown} of {total} shown; --limit N or --all prints more")
        } else {
            answer.note_if_empty("none");
            return;
        };
        answer.notes.insert(0, note);
    }
}
