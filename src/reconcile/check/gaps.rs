//! A version that is missing between two events of one sequence. Where a sequence begins is not judged:
//! what is older may have been deleted. Version 0 is no place in a sequence.

use async_trait::async_trait;

use super::{BuiltIn, Check, Ground, Look, PAGE, place, placed};
use crate::base::clock::Timestamp;
use crate::model::ids::AggregateId;
use crate::model::scan::{Difference, Fact, Suggestion};
use crate::store::StoreError;
use crate::store::scan::{Place, PlaceCursor};

/// Its entry.
pub const CHECK: BuiltIn = BuiltIn {
    name: "version-gaps",
    about: "Versions missing between two events of one sequence in an outbox",
    build: || Box::new(Gaps),
};

struct Gaps;

/// Where a page ended, as text.
type End = (String, i64, String);

/// The versions missing between two places of one aggregate.
fn gap(before: (&AggregateId, i64), after: &Place) -> Option<(i64, i64)> {
    let (aggregate, version) = before;
    let is_gap = aggregate == &after.aggregate_id && version >= 1 && after.version > version + 1;
    is_gap.then(|| (version + 1, after.version - 1))
}

fn difference(part: &str, (first, last): (i64, i64), after: &Place) -> Difference {
    let key = &after.aggregate_id;
    let missing = if first == last {
        format!("version {first}")
    } else {
        format!("versions {first} to {last}")
    };
    Difference {
        class: "version_gap".to_owned(),
        subject: format!("{part} {key} {first}-{last}"),
        service: part.to_owned(),
        summary: format!("{key} has no {missing} in the outbox of {part}, and later ones"),
        event_id: Some(after.event_id.clone()),
        consumer: None,
        since: Some(after.created_at),
        at: None,
        facts: vec![
            Fact::new("key", key.as_str()),
            Fact::new("missing", missing),
            Fact::new(
                "followed by",
                format!("{} v{}", after.event_id, after.version),
            ),
            Fact::new("written_at", after.created_at.to_rfc3339()),
        ],
        suggestion: Some(Suggestion {
            verb: "look".to_owned(),
            target: key.to_string(),
            service: part.to_owned(),
            command: format!("redrive outbox --service {part} --state sent --filter key:{key}"),
        }),
    }
}

fn judge(
    ground: &Ground,
    part: &str,
    (before, rows, now): (Option<(AggregateId, i64)>, &[Place], Timestamp),
    look: &mut Look,
) {
    let mut before = before;
    for row in rows {
        let missing = before
            .as_ref()
            .and_then(|(aggregate, version)| gap((aggregate, *version), row));
        if let Some(missing) = missing {
            if ground.is_over(Some(row.created_at), now) {
                look.differences.push(difference(part, missing, row));
            } else {
                look.in_flight += 1;
            }
        }
        before = Some((row.aggregate_id.clone(), row.version));
    }
}

#[async_trait]
impl Check for Gaps {
    fn parts(&self, ground: &Ground) -> Vec<String> {
        ground.services(|service| service.outbox.is_some())
    }

    async fn page(
        &self,
        ground: &Ground,
        part: &str,
        after: Option<&str>,
    ) -> Result<Look, StoreError> {
        let after: Option<End> = after.and_then(place);
        let cursor = after.as_ref().map(|(key, version, id)| PlaceCursor {
            aggregate_id: key.clone(),
            version: *version,
            event_id: id.clone(),
        });
        let walk = ground
            .store(part)?
            .walk_places(cursor.as_ref(), PAGE)
            .await?;
        let end = walk.rows.last().filter(|_| walk.is_full).map(|row| {
            let end: End = (
                row.aggregate_id.to_string(),
                row.version,
                row.event_id.to_string(),
            );
            end
        });
        let mut look = Look {
            examined: walk.rows.len() as u64,
            rows_read: walk.rows.len() as u64,
            next: end.as_ref().and_then(placed),
            ..Look::default()
        };
        let before = after.map(|(key, version, _)| (AggregateId::new(key), version));
        judge(ground, part, (before, &walk.rows, walk.now), &mut look);
        Ok(look)
    }

    async fn again(
        &self,
        ground: &Ground,
        part: &str,
        suspects: Vec<Difference>,
    ) -> Result<Look, StoreError> {
        let store = ground.store(part)?;
        let mut look = Look::default();
        for suspect in suspects {
            let key = suspect.facts.iter().find(|fact| fact.name == "key");
            let Some(key) = key.and_then(|fact| fact.value.clone()) else {
                continue;
            };
            let sequence = store.outbox_sequence(&AggregateId::new(key)).await?;
            look.rows_read += sequence.rows.len() as u64;
            let places: Vec<Place> = sequence
                .rows
                .iter()
                .filter_map(|row| {
                    Some(Place {
                        aggregate_id: row.aggregate_id.clone()?,
                        version: row.aggregate_version?,
                        event_id: row.event_id.clone(),
                        created_at: row.created_at?,
                    })
                })
                .collect();
            // Of a long sequence only the newest are read: a gap before them is as it was.
            let is_before = sequence.truncated
                && places
                    .first()
                    .is_some_and(|first| suspect.since.is_some_and(|at| at < first.created_at));
            let still = places.windows(2).any(|pair| match pair {
                [before, after] => {
                    gap((&before.aggregate_id, before.version), after).is_some_and(|missing| {
                        difference(part, missing, after).subject == suspect.subject
                    })
                }
                _ => false,
            });
            if is_before || still {
                look.differences.push(suspect);
            }
        }
        Ok(look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn row(key: &str, version: i64) -> Place {
        Place {
            aggregate_id: AggregateId::from(key),
            version,
            event_id: "e".into(),
            created_at: Timestamp::from_micros(1),
        }
    }

    #[rstest]
    #[case(("a", 1), ("a", 2), None)]
    #[case(("a", 1), ("a", 4), Some((2, 3)))]
    #[case(("a", 2), ("a", 2), None)]
    #[case(("a", 0), ("a", 2), None)]
    #[case(("a", 1), ("b", 4), None)]
    fn only_what_is_missing_between_two_is_a_gap(
        #[case] before: (&str, i64),
        #[case] after: (&str, i64),
        #[case] expected: Option<(i64, i64)>,
    ) {
        let before = row(before.0, before.1);
        let found = gap(
            (&before.aggregate_id, before.version),
            &row(after.0, after.1),
        );
        assert_eq!(found, expected);
    }
}
