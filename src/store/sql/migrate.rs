//! Creating our tables: only the parts a service is configured for, each file once, idempotent. The
//! files are in `migrations/` and say why.

use crate::mapping::Identifier;
use crate::store::MigrationStep;

use super::db::Db;
use super::dialect::Dialect;
use super::exec::text;
use super::fault::{Fault, Kind, SqlResult, kind_of};

/// Remembers what was applied.
const CREATE_REGISTER: &str = "CREATE TABLE IF NOT EXISTS redrive_migrations (\
     name VARCHAR(191) NOT NULL PRIMARY KEY, applied_us BIGINT NOT NULL)";
/// Everything applied; a few rows.
const APPLIED: &str = "SELECT name FROM redrive_migrations ORDER BY name LIMIT 1000";
/// One more; unique on the name.
const REMEMBER: &str = "INSERT INTO redrive_migrations (name, applied_us) VALUES (?, {now_us})";

struct File {
    name: &'static str,
    /// The table a configuration may rename.
    table: &'static str,
    mysql: &'static str,
    sqlite: &'static str,
}

macro_rules! file {
    ($name:literal, $table:literal) => {
        File {
            name: $name,
            table: $table,
            mysql: include_str!(concat!("../../../migrations/mysql/", $name)),
            sqlite: include_str!(concat!("../../../migrations/sqlite/", $name)),
        }
    };
}

const OUTBOX: File = file!("0001_outbox.sql", "outbox_events");
const INBOX: File = file!("0002_inbox.sql", "consumer_inbox");
const DEAD_LETTERS: File = file!("0003_dead_letters.sql", "dead_letters");
const SAGAS: File = file!("0004_sagas.sql", "sagas");
const JOURNAL: File = file!("0005_journal.sql", "operations");
const SCANS: File = file!("0006_scans.sql", "scans");
const WAITING: File = file!("0007_waiting.sql", "waiting_events");
const ARCHIVE: File = file!("0008_inbox_archive.sql", "consumer_inbox_archive");
const SAGA_COORDINATOR: File = file!("0009_saga_coordinator.sql", "sagas");
const SCAN_PROGRESS: File = file!("0010_scan_progress.sql", "scans");
const TRACE: File = file!("0011_trace.sql", "operation_items");
const COMPACT_OUTBOX: File = file!("0101_compact_outbox.sql", "outbox_events");
const COMPACT_INBOX: File = file!("0102_compact_inbox.sql", "consumer_effects");

/// The files a service needs, with the name of the renamed table, if it is.
fn files(db: &Db) -> Vec<(&'static File, Option<Identifier>)> {
    let mut files = Vec::new();
    if let Some(outbox) = &db.outbox {
        let file = if outbox.layout.layout == "compact" {
            &COMPACT_OUTBOX
        } else {
            &OUTBOX
        };
        files.push((file, Some(outbox.layout.table.clone())));
    }
    if let Some(inbox) = &db.inbox {
        let file = if inbox.layout.layout == "compact" {
            &COMPACT_INBOX
        } else {
            &INBOX
        };
        files.push((file, Some(inbox.layout.table.clone())));
        files.push((&WAITING, None));
        if inbox.archive.is_some() {
            files.push((&ARCHIVE, None));
        }
    }
    if let Some((table, _)) = &db.letters {
        files.push((&DEAD_LETTERS, Some(table.clone())));
    }
    if let Some((table, _)) = &db.sagas {
        files.push((&SAGAS, Some(table.clone())));
        files.push((&SAGA_COORDINATOR, Some(table.clone())));
    }
    if db.journal.is_some() {
        files.push((&JOURNAL, None));
        files.push((&SCANS, None));
        files.push((&SCAN_PROGRESS, None));
        files.push((&TRACE, None));
    }
    files
        .into_iter()
        .map(|(file, table)| (file, table.filter(|t| t.as_str() != file.table)))
        .collect()
}

/// What there is to apply, or with `apply`, applies it.
pub async fn migrate(db: &Db, apply: bool) -> SqlResult<Vec<MigrationStep>> {
    let applied = applied(db).await?;
    let mut steps: Vec<MigrationStep> = files(db)
        .into_iter()
        .map(|(file, renamed)| step(db.dialect(), file, renamed.as_ref(), &applied))
        .collect();
    if !apply {
        return Ok(steps);
    }
    let remember = db
        .slots
        .render(REMEMBER)
        .map_err(|e| Fault::Invalid(e.to_string()))?;
    let mut session = db.write().await?;
    session.control(CREATE_REGISTER).await?;
    for step in &mut steps {
        if step.is_applied {
            continue;
        }
        // MySQL commits after each DDL: every statement is idempotent instead, and a file that stopped
        // half way is run again from its start.
        for statement in statements(&step.sql) {
            match session.control(statement).await {
                Ok(()) => {}
                // Adding a column knows no IF NOT EXISTS on MySQL and SQLite.
                Err(fault) if fault.is_there_already() => {}
                Err(fault) => return Err(fault),
            }
        }
        match session.execute(&remember, &[text(&step.name)]).await {
            Ok(_) => {}
            Err(fault) if fault.is_duplicate() => {}
            Err(fault) => return Err(fault),
        }
        step.is_applied = true;
    }
    drop(session);
    db.forget_indexes().await;
    Ok(steps)
}

async fn applied(db: &Db) -> SqlResult<Vec<String>> {
    let mut session = db.read().await?;
    match session.fetch(APPLIED, &[]).await {
        Ok(rows) => rows.iter().map(|row| row.text(0)).collect(),
        Err(Fault::Sql(error)) if kind_of(&error) == Kind::Mapping => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

fn step(
    dialect: Dialect,
    file: &File,
    renamed: Option<&Identifier>,
    applied: &[String],
) -> MigrationStep {
    let sql = match dialect {
        Dialect::MySql => file.mysql,
        Dialect::Sqlite => file.sqlite,
    };
    let (name, sql) = match renamed {
        None => (file.name.to_owned(), sql.to_owned()),
        Some(table) => (
            format!("{} as {table}", file.name),
            rename(sql, file.table, table),
        ),
    };
    MigrationStep {
        is_applied: applied.contains(&name),
        name,
        sql,
    }
}

/// The file with its table renamed, and with it what has to be unique in a database: constraints on
/// MySQL, indexes on SQLite.
fn rename(sql: &str, from: &str, to: &Identifier) -> String {
    let table = format!("`{from}`");
    sql.lines()
        .map(|line| {
            let line = line.replace(&table, &to.quoted());
            let suffixed = |line: &str, before: &str, after: &str| -> Option<String> {
                let (head, rest) = line.split_once(before)?;
                let (name, tail) = rest.split_once(after)?;
                let name = Identifier::new(format!("{name}_{to}")).ok()?.quoted();
                Some(format!("{head}{before}{name}{after}{tail}"))
            };
            suffixed(&line, "CONSTRAINT ", " CHECK")
                .or_else(|| suffixed(&line, "INDEX IF NOT EXISTS ", " ON "))
                .or_else(|| {
                    // The CHECK of a long constraint stands on the next line.
                    let name = line.strip_prefix("  CONSTRAINT ")?;
                    let name = Identifier::new(format!("{name}_{to}")).ok()?.quoted();
                    Some(format!("  CONSTRAINT {name}"))
                })
                .unwrap_or(line)
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn statements(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(";\n")
        .map(|statement| statement.trim().trim_end_matches(';'))
        .filter(|statement| {
            statement
                .lines()
                .any(|line| !line.trim().is_empty() && !line.starts_with("--"))
        })
}

/// Runs the sandbox's own DDL.
pub async fn create_tables(db: &Db, statements: &'static [&'static str]) -> SqlResult<()> {
    let mut session = db.write().await?;
    for statement in statements {
        session.control(statement).await?;
    }
    Ok(())
}

/// Names of the files this build carries, to be compared with the folders.
#[cfg(test)]
fn names() -> Vec<&'static str> {
    [
        OUTBOX,
        INBOX,
        DEAD_LETTERS,
        SAGAS,
        JOURNAL,
        SCANS,
        WAITING,
        ARCHIVE,
        SAGA_COORDINATOR,
        SCAN_PROGRESS,
        TRACE,
        COMPACT_OUTBOX,
        COMPACT_INBOX,
    ]
    .iter()
    .map(|file| file.name)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed_and_says_why() {
        for dialect in ["mysql", "sqlite"] {
            let folder = format!("{}/migrations/{dialect}", env!("CARGO_MANIFEST_DIR"));
            let mut found: Vec<String> = std::fs::read_dir(&folder)
                .expect("the folder is there")
                .map(|entry| {
                    entry
                        .expect("readable")
                        .file_name()
                        .to_string_lossy()
                        .into_owned()
                })
                .collect();
            found.sort();
            assert_eq!(found, names(), "{folder}");
            for name in found {
                let sql = std::fs::read_to_string(format!("{folder}/{name}")).expect("readable");
                assert!(sql.starts_with("-- Why: "), "{dialect}/{name}");
            }
        }
    }

    #[test]
    fn a_renamed_table_takes_its_unique_names_along() {
        let table = Identifier::new("shop_outbox").expect("good");
        let sqlite = rename(OUTBOX.sqlite, OUTBOX.table, &table);
        assert!(
            sqlite.contains("CREATE INDEX IF NOT EXISTS `outbox_due_shop_outbox` ON `shop_outbox`")
        );
        let mysql = rename(OUTBOX.mysql, OUTBOX.table, &table);
        assert!(mysql.contains("CONSTRAINT `outbox_status_is_known_shop_outbox` CHECK"));
    }
}
