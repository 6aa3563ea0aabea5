//! The oldest open transaction of a server, told by `redrive check`. While it is open nothing
//! that was deleted or changed since it began can be purged: claims read past ever more dead rows and get
//! slower, and nothing else says why. Looked at in a check only: a refresh asks nothing more for it.

use std::time::Duration;

use crate::base::human;
use crate::store::{CheckLevel, CheckLine};

use super::exec::Session;
use super::fault::{Fault, Kind, SqlResult, kind_of};

const SUBJECT: &str = "oldest transaction";
/// Longer than any statement, batch or handler of a pipeline may take.
const LONG: Duration = Duration::from_mins(1);
const DENIED: &str =
    "not known: the account may not see others' transactions; GRANT PROCESS ON *.* to it";

/// No index: both are lists in the server's memory, as long as it has transactions and counters; no row
/// is locked. `trx_started` is in the time zone of the server's machine, whatever the session's is. The
/// counter is always there: without a row for it we were not allowed to look.
const OLDEST: &str = "SELECT m.n, t.age_s, t.id \
    FROM (SELECT CAST(`COUNT` AS SIGNED) AS n FROM information_schema.INNODB_METRICS \
          WHERE NAME = 'trx_rseg_history_len') AS m \
    LEFT JOIN (SELECT CAST(TIMESTAMPDIFF(SECOND, CONVERT_TZ(trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()) AS SIGNED) AS age_s, \
                      CAST(trx_mysql_thread_id AS SIGNED) AS id \
               FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id <> CONNECTION_ID() \
               ORDER BY trx_started LIMIT 1) AS t ON 1 = 1";

/// How long it has been open, by whom, and what waits to be purged.
pub async fn oldest(session: &mut Session) -> SqlResult<CheckLine> {
    let row = match session.fetch_optional(OLDEST, &[]).await {
        Ok(row) => row,
        Err(Fault::Sql(error)) if kind_of(&error) == Kind::Denied => None,
        Err(fault) => return Err(fault),
    };
    let Some(row) = row else {
        return Ok(line(CheckLevel::Warning, DENIED.to_owned()));
    };
    let unpurged = row.int(0)?;
    Ok(match (row.int_or_null(1)?, row.int_or_null(2)?) {
        (Some(age_s), Some(connection)) => told(age_s, connection, unpurged),
        _ => line(
            CheckLevel::Ok,
            format!("none is open; {unpurged} changes to purge"),
        ),
    })
}

fn told(age_s: i64, connection: i64, unpurged: i64) -> CheckLine {
    let age = Duration::from_secs(u64::try_from(age_s).unwrap_or(0));
    let open = format!(
        "open for {}, connection {connection}; {unpurged} changes to purge",
        human::age(age.as_secs_f64())
    );
    if age < LONG {
        return line(CheckLevel::Ok, open);
    }
    line(
        CheckLevel::Warning,
        format!(
            "{open}: none since then can be purged and claims get slower; find whose it is with SHOW PROCESSLIST, \
             end it there or with KILL {connection}"
        ),
    )
}

fn line(level: CheckLevel, finding: String) -> CheckLine {
    CheckLine {
        subject: SUBJECT.to_owned(),
        level,
        finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_14_a_transaction_that_is_open_for_long_is_a_warning_with_its_connection() {
        let short = told(59, 42, 7);
        assert_eq!(short.level, CheckLevel::Ok);
        assert_eq!(
            short.finding,
            "open for 59s, connection 42; 7 changes to purge"
        );
        let long = told(600, 42, 81_000);
        assert_eq!(long.level, CheckLevel::Warning);
        for part in ["10m", "81000 changes", "KILL 42"] {
            assert!(long.finding.contains(part), "{part}: {}", long.finding);
        }
        // A clock of the server that was set back meanwhile.
        assert_eq!(told(-3, 42, 7).level, CheckLevel::Ok);
    }
}
