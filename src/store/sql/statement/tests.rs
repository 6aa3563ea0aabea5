//! Snapshots of every statement of every layout and dialect.

use super::*;
use crate::mapping::{Identifier, PRESETS, layout};

fn listing(statements: Vec<(String, String)>) -> String {
    statements
        .into_iter()
        .map(|(name, statement)| format!("-- {name}\n{statement}\n"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn owned(statements: Vec<(&'static str, &str)>) -> Vec<(String, String)> {
    statements
        .into_iter()
        .map(|(name, statement)| (name.to_owned(), statement.to_owned()))
        .collect()
}

#[test]
fn statements_of_every_layout_and_dialect() {
    for dialect in [Dialect::MySql, Dialect::Sqlite] {
        let slots = Slots::new(dialect);
        for preset in PRESETS {
            let layout = layout(preset.name).expect("reads");
            let name = |part: &str| format!("{}_{}_{part}", preset.name, dialect.name());
            if let Some(outbox) = layout.outbox {
                let statements = OutboxStatements::render(&slots, &outbox, &outbox.indexes)
                    .expect("every slot is filled");
                insta::assert_snapshot!(name("outbox"), listing(statements.all()));
            }
            if let Some(inbox) = layout.inbox {
                let statements =
                    InboxStatements::of_layout(&slots, &inbox).expect("every slot is filled");
                insta::assert_snapshot!(name("inbox"), listing(owned(statements.all())));
                let archive = ArchiveStatements::of_layout(&slots, &inbox).expect("filled");
                if let Some(archive) = archive {
                    insta::assert_snapshot!(name("archive"), listing(owned(archive.all())));
                }
            }
        }
        let name = |part: &str| format!("own_{}_{part}", dialect.name());
        let table = |name: &str| Identifier::new(name).expect("a good name");
        let letters = LetterStatements::of_table(&slots, &table("dead_letters"))
            .expect("every slot is filled");
        insta::assert_snapshot!(name("dead_letters"), listing(owned(letters.all())));
        let sagas =
            SagaStatements::of_table(&slots, &table("sagas")).expect("every slot is filled");
        insta::assert_snapshot!(name("sagas"), listing(owned(sagas.all())));
        let journal = JournalStatements::of_dialect(&slots).expect("every slot is filled");
        insta::assert_snapshot!(name("journal"), listing(owned(journal.all())));
        let scans = ScanStatements::render(&slots).expect("every slot is filled");
        insta::assert_snapshot!(name("scans"), listing(owned(scans.all())));
        let waiting = WaitingStatements::render(&slots).expect("every slot is filled");
        insta::assert_snapshot!(name("waiting"), listing(owned(waiting.all())));
    }
}

#[test]
fn a_template_with_an_unknown_slot_is_refused() {
    let slots = Slots::new(Dialect::MySql);
    assert_eq!(
        slots.render("SELECT {nothing}"),
        Err(UnknownSlot("nothing".to_owned()))
    );
}

#[test]
fn batches_are_padded_to_a_few_sizes() {
    assert_eq!(with_ids("IN ({ids})", 1), ("IN (?)".to_owned(), 1));
    let (statement, padded) = with_ids("IN ({ids})", 9);
    assert_eq!((statement.matches('?').count(), padded), (32, 32));
    assert_eq!(with_ids("IN ({ids})", IDS_MAX).1, IDS_MAX);
}

/// What a lease is held against, and what it is made of: nothing of it comes from the program's clock.
#[test]
fn q_04_leases_are_judged_by_the_database_s_clock() {
    for dialect in [Dialect::MySql, Dialect::Sqlite] {
        let outbox = layout("native").expect("reads").outbox.expect("has one");
        let statements = OutboxStatements::render(&Slots::new(dialect), &outbox, &outbox.indexes)
            .expect("every slot is filled");
        let now = dialect.now();
        let judged = [
            statements.claim_due.expect("has its index"),
            statements.expired.expect("has its index"),
            statements.reap,
            statements.release.expect("can be released"),
        ];
        for statement in judged {
            let compared = ["next_attempt_at", "lease_until"].iter().any(|column| {
                statement.contains(&format!("{column}` <= {now}"))
                    || statement.contains(&format!("{column}\" <= {now}"))
            });
            assert!(compared, "{statement}");
        }
        // A renewal counts from the database's now; so does a claim: `claim.rs` adds the lease to the clock
        // that came with the locked rows.
        let renew = statements.renew.expect("has a lease");
        assert!(renew.contains(dialect.now_plus()), "{renew}");
    }
}
