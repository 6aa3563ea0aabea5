//! One opened database: its pools, its rendered statements, its limits.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::RwLock;

use crate::config::{ConfigError, Service, Thresholds};
use crate::mapping::{Identifier, InboxLayout, Layout, OutboxIndexes, OutboxLayout, layout};
use crate::model::ids::ConsumerName;

use super::dialect::Dialect;
use super::exec::{Session, text};
use super::fault::{Fault, SqlResult};
use super::session::{self, Pools};
use super::statement::{
    ArchiveStatements, InboxStatements, JournalStatements, LetterStatements, OutboxStatements,
    SagaStatements, ScanStatements, Slots, UnknownSlot, WaitingStatements,
};
use super::version::Server;

/// While an index is missing it is looked for again after so long; a full set is kept.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A mapped outbox and its statements, known once the server has told its indexes.
pub struct Outbox {
    /// The mapping.
    pub layout: OutboxLayout,
    statements: RwLock<Option<Found>>,
}

struct Found {
    statements: Arc<OutboxStatements>,
    good_until: Option<Instant>,
}

/// A mapped inbox.
pub struct Inbox {
    /// The mapping.
    pub layout: InboxLayout,
    /// Its consumer by configuration.
    pub consumer: ConsumerName,
    /// Its statements.
    pub statements: InboxStatements,
    /// Statements on what it has applied and what waits.
    pub waiting: WaitingStatements,
    /// Statements of its retention; `None` where its rows are the service's own.
    pub archive: Option<ArchiveStatements>,
}

/// Everything a call needs.
pub struct Db {
    /// Service name, for errors.
    pub service: String,
    /// Its sessions.
    pub pools: Pools,
    /// Slots of the dialect.
    pub slots: Slots,
    /// Time limit of a call.
    pub timeout: Duration,
    /// Counting stops here.
    pub count_cap: u64,
    /// Skew that is worth a warning.
    pub clock_skew: Duration,
    /// Its outbox.
    pub outbox: Option<Outbox>,
    /// Its inbox.
    pub inbox: Option<Inbox>,
    /// Its dead letters: table and statements.
    pub letters: Option<(Identifier, LetterStatements)>,
    /// Its sagas.
    pub sagas: Option<(Identifier, SagaStatements)>,
    /// Its journal.
    pub journal: Option<JournalStatements>,
    /// Its scans and findings, kept with the journal.
    pub scans: Option<ScanStatements>,
    /// The server's own estimate of the outbox's rows, and when it was asked.
    pub outbox_rows: Mutex<Option<(Instant, Option<u64>)>>,
    /// Until when the tables of waiting events are taken for missing.
    pub no_waiting_until: Mutex<Option<Instant>>,
}

impl Db {
    /// Reads the layouts and renders everything that needs no server.
    ///
    /// # Errors
    /// [`ConfigError`] names the key: an unknown layout, a part the layout lacks, a bad table name, a bad URL.
    pub fn open(
        service: &Service,
        thresholds: &Thresholds,
        read_only: bool,
    ) -> Result<Self, ConfigError> {
        let pools = session::open(
            &service.name,
            &service.database,
            thresholds.statement_timeout,
            read_only,
        )?;
        let slots = Slots::new(pools.dialect);
        let part = Part {
            service: &service.name,
        };
        let outbox = match &service.outbox {
            None => None,
            Some(configured) => {
                let mut found = part.of("outbox", &configured.layout, |l| l.outbox)?;
                found.table = part.table("outbox", configured.table.as_deref(), found.table)?;
                Some(Outbox {
                    layout: found,
                    statements: RwLock::new(None),
                })
            }
        };
        let inbox = match &service.inbox {
            None => None,
            Some(configured) => {
                let mut found = part.of("inbox", &configured.layout, |l| l.inbox)?;
                found.table = part.table("inbox", configured.table.as_deref(), found.table)?;
                Some(Inbox {
                    statements: part.rendered(InboxStatements::of_layout(&slots, &found))?,
                    waiting: part.rendered(WaitingStatements::render(&slots))?,
                    archive: part.rendered(ArchiveStatements::of_layout(&slots, &found))?,
                    layout: found,
                    consumer: configured.consumer.clone(),
                })
            }
        };
        let letters = match &service.dead_letters {
            None => None,
            Some(configured) => {
                let table = part.of("dead_letters", &configured.layout, |l| l.dead_letters)?;
                let table = part.table("dead_letters", configured.table.as_deref(), table)?;
                let statements = part.rendered(LetterStatements::of_table(&slots, &table))?;
                Some((table, statements))
            }
        };
        let sagas = match &service.sagas {
            None => None,
            Some(configured) => {
                let table = part.of("sagas", &configured.layout, |l| l.sagas)?;
                let table = part.table("sagas", configured.table.as_deref(), table)?;
                let statements = part.rendered(SagaStatements::of_table(&slots, &table))?;
                Some((table, statements))
            }
        };
        Ok(Self {
            service: service.name.clone(),
            timeout: thresholds.statement_timeout,
            count_cap: thresholds.count_cap,
            clock_skew: thresholds.clock_skew,
            outbox,
            inbox,
            letters,
            sagas,
            journal: service
                .journal
                .then(|| part.rendered(JournalStatements::of_dialect(&slots)))
                .transpose()?,
            scans: service
                .journal
                .then(|| part.rendered(ScanStatements::render(&slots)))
                .transpose()?,
            outbox_rows: Mutex::default(),
            no_waiting_until: Mutex::default(),
            pools,
            slots,
        })
    }

    /// The dialect.
    pub const fn dialect(&self) -> Dialect {
        self.pools.dialect
    }

    /// The server, once a session was opened.
    pub fn server(&self) -> Option<&Server> {
        self.pools.server.get()
    }

    /// A read-only session.
    pub async fn read(&self) -> SqlResult<Session> {
        self.pools.read.session().await
    }

    /// A writing session; none for a read-only store, and none on a server too old to be fenced.
    pub async fn write(&self) -> SqlResult<Session> {
        let Some(pool) = &self.pools.write else {
            return Err(Fault::Denied(
                "this context was opened read-only: nothing is written".to_owned(),
            ));
        };
        let session = pool.session().await?;
        match self.server().and_then(Server::too_old) {
            Some(reason) => Err(Fault::Unsupported(reason)),
            None => Ok(session),
        }
    }

    /// A writing session inside a transaction.
    pub async fn transaction(&self) -> SqlResult<Session> {
        let mut session = self.write().await?;
        session.begin().await?;
        Ok(session)
    }

    /// The outbox's mapping.
    pub fn outbox_layout(&self) -> SqlResult<&OutboxLayout> {
        self.outbox
            .as_ref()
            .map(|outbox| &outbox.layout)
            .ok_or_else(|| Fault::unsupported("has no outbox in the configuration"))
    }

    /// The outbox's mapping and statements; asks the server for its indexes the first time.
    pub async fn outbox(&self) -> SqlResult<(&OutboxLayout, Arc<OutboxStatements>)> {
        let layout = self.outbox_layout()?;
        let Some(outbox) = &self.outbox else {
            return Err(Fault::unsupported("has no outbox in the configuration"));
        };
        if let Some(found) = outbox.statements.read().await.as_ref()
            && found.good_until.is_none_or(|until| Instant::now() < until)
        {
            return Ok((layout, Arc::clone(&found.statements)));
        }
        let mut session = self.read().await?;
        let indexes = find_outbox_indexes(&mut session, layout).await?;
        let is_complete = indexes.due.is_some()
            && indexes.created.is_some()
            && indexes.key.is_some()
            && (indexes.lease.is_some() || layout.lease_until.is_none());
        let statements = Arc::new(
            OutboxStatements::render(&self.slots, layout, &indexes)
                .map_err(|e| Fault::Invalid(e.to_string()))?,
        );
        *outbox.statements.write().await = Some(Found {
            statements: Arc::clone(&statements),
            good_until: (!is_complete).then(|| Instant::now() + LOOK_AGAIN),
        });
        Ok((layout, statements))
    }

    /// Forgets what is known of the server's indexes.
    pub async fn forget_indexes(&self) {
        if let Some(outbox) = &self.outbox {
            *outbox.statements.write().await = None;
        }
    }

    /// The inbox.
    pub fn inbox(&self) -> SqlResult<&Inbox> {
        self.inbox
            .as_ref()
            .ok_or_else(|| Fault::unsupported("has no inbox in the configuration"))
    }

    /// Statements on applied versions and waiting events.
    pub fn waiting(&self) -> SqlResult<&WaitingStatements> {
        self.inbox().map(|inbox| &inbox.waiting)
    }

    /// Statements of the dead letters.
    pub fn letters(&self) -> SqlResult<&LetterStatements> {
        self.letters
            .as_ref()
            .map(|(_, statements)| statements)
            .ok_or_else(|| Fault::unsupported("has no dead letters in the configuration"))
    }

    /// Statements on scans and findings.
    pub fn scans(&self) -> SqlResult<&ScanStatements> {
        self.journal()?;
        self.scans
            .as_ref()
            .ok_or_else(|| Fault::unsupported("keeps no scans"))
    }

    /// Statements of the journal.
    pub fn journal(&self) -> SqlResult<&JournalStatements> {
        self.journal.as_ref().ok_or_else(|| {
            Fault::unsupported(
                "has no journal: set `journal = true` for the service and run `redrive migrate`",
            )
        })
    }
}

struct Part<'a> {
    service: &'a str,
}

impl Part<'_> {
    fn error(&self, key: &str, problem: String, fix: &str) -> ConfigError {
        ConfigError {
            origin: format!("service {}", self.service),
            key: key.to_owned(),
            problem,
            fix: fix.to_owned(),
        }
    }

    fn of<T>(
        &self,
        key: &str,
        name: &str,
        take: impl FnOnce(Layout) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let found = layout(name).map_err(|e| {
            self.error(
                &format!("{key}.layout"),
                e.problem,
                &format!("write one of {}", crate::mapping::names().join(", ")),
            )
        })?;
        take(found).ok_or_else(|| {
            self.error(
                &format!("{key}.layout"),
                format!("the layout {name} has no {key}"),
                "write native",
            )
        })
    }

    fn table(
        &self,
        key: &str,
        configured: Option<&str>,
        of_layout: Identifier,
    ) -> Result<Identifier, ConfigError> {
        match configured {
            None => Ok(of_layout),
            Some(name) => Identifier::new(name).map_err(|e| {
                self.error(&format!("{key}.table"), e.to_string(), "correct the name")
            }),
        }
    }

    fn rendered<T>(&self, statements: Result<T, UnknownSlot>) -> Result<T, ConfigError> {
        statements.map_err(|e| self.error("database", e.to_string(), "report this as a defect"))
    }
}

/// Every index of a table with its columns in order. Catalogue only.
pub async fn indexes_of(
    session: &mut Session,
    table: &str,
) -> SqlResult<Vec<(String, Vec<String>)>> {
    let statement = match session.dialect() {
        Dialect::MySql => {
            "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX"
        }
        Dialect::Sqlite => {
            "SELECT l.name, i.name FROM pragma_index_list(?) l \
             JOIN pragma_index_info(l.name) i ORDER BY l.name, i.seqno"
        }
    };
    let mut indexes: Vec<(String, Vec<String>)> = Vec::new();
    for row in session.fetch(statement, &[text(table)]).await? {
        let (name, column) = (row.text(0)?, row.text_or_null(1)?.unwrap_or_default());
        match indexes.last_mut() {
            Some((last, columns)) if *last == name => columns.push(column),
            _ => indexes.push((name, vec![column])),
        }
    }
    Ok(indexes)
}

/// The first index that begins with `columns`, the one with the fewest columns first.
pub fn index_on(indexes: &[(String, Vec<String>)], columns: &[&Identifier]) -> Option<Identifier> {
    let mut fitting: Vec<&(String, Vec<String>)> = indexes
        .iter()
        .filter(|(_, of)| {
            of.len() >= columns.len()
                && columns
                    .iter()
                    .zip(of)
                    .all(|(want, have)| want.as_str().eq_ignore_ascii_case(have))
        })
        .collect();
    fitting.sort_by_key(|(_, of)| of.len());
    fitting
        .first()
        .and_then(|(name, _)| Identifier::new(name.clone()).ok())
}

async fn find_outbox_indexes(
    session: &mut Session,
    layout: &OutboxLayout,
) -> SqlResult<OutboxIndexes> {
    let indexes = indexes_of(session, layout.table.as_str()).await?;
    if indexes.is_empty() {
        // Perhaps there is no table: then that is what has to be said.
        let look = format!(
            "SELECT {} FROM {} LIMIT 1",
            layout.id.quoted(),
            layout.table.quoted()
        );
        session.fetch(&look, &[]).await?;
    }
    Ok(OutboxIndexes {
        due: index_on(&indexes, &[&layout.status, &layout.due_at]),
        lease: layout
            .lease_until
            .as_ref()
            .and_then(|lease| index_on(&indexes, &[&layout.status, lease])),
        created: index_on(&indexes, &[&layout.status, &layout.created_at]),
        key: index_on(
            &indexes,
            &[
                &layout.key,
                layout.seq.as_ref().unwrap_or(&layout.created_at),
            ],
        ),
    })
}
