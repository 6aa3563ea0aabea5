//! What is known of a store without asking its server.

use crate::mapping::{ColumnAction, SafetyWord};
use crate::store::{Safety, StoreFacts};

use super::db::Db;
use super::dialect::Dialect;
use super::version::Product;

/// What is known of a store without asking its server.
pub fn of(db: &Db) -> StoreFacts {
    let layout = db.outbox.as_ref().map(|outbox| &outbox.layout);
    let product = match (db.server(), db.dialect()) {
        (Some(server), _) => server.product,
        (None, Dialect::MySql) => Product::MySql,
        (None, Dialect::Sqlite) => Product::Sqlite,
    };
    let none = || Safety::Impossible("this service has no outbox".to_owned());
    let has_journal = db.journal.is_some();
    StoreFacts {
        service: db.service.clone(),
        product: product.word().to_owned(),
        outbox_layout: layout.map(|layout| layout.layout.clone()),
        consumer: db.inbox.as_ref().map(|inbox| inbox.consumer.clone()),
        has_dead_letters: db.letters.is_some(),
        has_sagas: db.sagas.is_some(),
        has_journal,
        is_fenced: layout.is_some_and(|l| l.token.is_some() && l.lease_until.is_some()),
        outbox_replay: layout.map_or_else(none, |l| safety(&l.replay, has_journal)),
        release: layout.map_or_else(none, |l| safety(&l.release, has_journal)),
    }
}

fn safety(action: &ColumnAction, has_journal: bool) -> Safety {
    if !has_journal {
        return Safety::Impossible(
            "this service has no journal: set `journal = true` and run `redrive migrate`"
                .to_owned(),
        );
    }
    match action.safety {
        SafetyWord::Safe if action.is_possible => Safety::Safe,
        SafetyWord::Duplicates if action.is_possible => {
            Safety::MayDuplicate(action.because.clone())
        }
        SafetyWord::NeedsApp => Safety::NeedsApplication(action.because.clone()),
        SafetyWord::Safe | SafetyWord::Duplicates | SafetyWord::Unsupported => {
            Safety::Impossible(action.because.clone())
        }
    }
}
