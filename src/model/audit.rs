//! The audit log: append-only, each entry carries the hash of the one before.

use serde::Serialize;

use crate::base::clock::Timestamp;
use crate::base::digest::sha256_hex;

use super::ids::OperationId;

/// The hash before the first entry.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What an entry says; the store adds its number and the hashes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditRecord {
    /// Who: `user@host`.
    pub actor: String,
    /// What: a verb's word, or `unlock`, `assign`, `note`.
    pub action: String,
    /// Part of an operation: `intent`, `outcome`, `refused`.
    pub phase: String,
    /// The operation, if any.
    pub operation_id: Option<OperationId>,
    /// On what: an event id, a claim token.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// Everything else as JSON text: plan line, header changes, counts.
    pub detail: String,
}

/// A stored entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditEntry {
    /// From 1, without gaps.
    pub seq: i64,
    /// When, on the database's clock.
    pub at: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub record: AuditRecord,
    /// Hash of the entry before; [`GENESIS`] for the first.
    pub previous_hash: String,
    /// [`entry_hash`] of this one.
    pub hash: String,
}

/// The hash of an entry: SHA-256 over a JSON array of the previous hash and every field in the
/// order of the table.
pub fn entry_hash(seq: i64, at: Timestamp, record: &AuditRecord, previous_hash: &str) -> String {
    let fields = serde_json::json!([
        previous_hash,
        seq,
        at.micros(),
        record.actor,
        record.action,
        record.phase,
        record.operation_id,
        record.subject,
        record.reason,
        record.detail,
    ]);
    sha256_hex(fields.to_string().as_bytes())
}

/// What is wrong with a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub enum ChainFault {
    /// An entry is missing or was renumbered.
    #[error("entry {expected} is missing: {found} follows")]
    Gap {
        /// The number that should come.
        expected: i64,
        /// The number that came.
        found: i64,
    },
    /// An entry does not follow the one before.
    #[error("entry {seq} does not follow entry {}: previous hash differs", seq - 1)]
    Unlinked {
        /// Its number.
        seq: i64,
    },
    /// An entry's content does not match its hash.
    #[error("entry {seq} was changed: its content does not match its hash")]
    Altered {
        /// Its number.
        seq: i64,
    },
    /// The stored head says the chain is longer: its end was cut off.
    #[error("the chain ends at entry {last}, its head says {head}")]
    CutOff {
        /// Last entry found.
        last: i64,
        /// Last entry by the head row.
        head: i64,
    },
}

/// Checks a chain page by page.
#[derive(Clone, Debug)]
pub struct ChainCheck {
    next_seq: i64,
    previous_hash: String,
}

impl Default for ChainCheck {
    fn default() -> Self {
        Self {
            next_seq: 1,
            previous_hash: GENESIS.to_owned(),
        }
    }
}

impl ChainCheck {
    /// Takes the next entry in order.
    ///
    /// # Errors
    /// The first fault; the check is useless afterwards.
    pub fn accept(&mut self, entry: &AuditEntry) -> Result<(), ChainFault> {
        if entry.seq != self.next_seq {
            return Err(ChainFault::Gap {
                expected: self.next_seq,
                found: entry.seq,
            });
        }
        if entry.previous_hash != self.previous_hash {
            return Err(ChainFault::Unlinked { seq: entry.seq });
        }
        if entry.hash != entry_hash(entry.seq, entry.at, &entry.record, &entry.previous_hash) {
            return Err(ChainFault::Altered { seq: entry.seq });
        }
        self.next_seq += 1;
        self.previous_hash.clone_from(&entry.hash);
        Ok(())
    }

    /// Ends the check against the stored head (number and hash of the last entry).
    ///
    /// # Errors
    /// [`ChainFault::CutOff`] when entries at the end are gone.
    pub fn finish(&self, head_seq: i64, head_hash: &str) -> Result<i64, ChainFault> {
        let last = self.next_seq - 1;
        if last != head_seq || self.previous_hash != head_hash {
            return Err(ChainFault::CutOff {
                last,
                head: head_seq,
            });
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(n: i64) -> Vec<AuditEntry> {
        let mut previous_hash = GENESIS.to_owned();
        (1..=n)
            .map(|seq| {
                let record = AuditRecord {
                    actor: "mia@desk".into(),
                    action: "replay".into(),
                    phase: "intent".into(),
                    operation_id: Some(OperationId::new("op-1")),
                    subject: format!("event-{seq}"),
                    reason: "sku made optional".into(),
                    detail: "{}".into(),
                };
                let at = Timestamp::from_micros(seq);
                let hash = entry_hash(seq, at, &record, &previous_hash);
                let entry = AuditEntry {
                    seq,
                    at,
                    record,
                    previous_hash: previous_hash.clone(),
                    hash,
                };
                previous_hash.clone_from(&entry.hash);
                entry
            })
            .collect()
    }

    fn check(entries: &[AuditEntry], head: &AuditEntry) -> Result<i64, ChainFault> {
        let mut check = ChainCheck::default();
        for entry in entries {
            check.accept(entry)?;
        }
        check.finish(head.seq, &head.hash)
    }

    #[test]
    fn a_changed_a_missing_and_a_cut_off_entry_are_found() {
        let good = chain(4);
        let head = good[3].clone();
        assert_eq!(check(&good, &head), Ok(4));

        let mut changed = good.clone();
        changed[1].record.reason = "because".into();
        assert_eq!(check(&changed, &head), Err(ChainFault::Altered { seq: 2 }));

        let mut missing = good.clone();
        missing.remove(1);
        assert_eq!(
            check(&missing, &head),
            Err(ChainFault::Gap {
                expected: 2,
                found: 3
            })
        );

        assert_eq!(
            check(&good[..3], &head),
            Err(ChainFault::CutOff { last: 3, head: 4 })
        );
    }
}
