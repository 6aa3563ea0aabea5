//! The servers to measure on. Row counters are global to a server, so the figures are taken on one
//! that nobody else uses: this program runs itself again under `tests/run --servers-only`.
//! `REDRIVE_BENCH_SHARED=1` uses the servers of the environment instead, for work on this program.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use color_eyre::eyre::{Result, WrapErr, eyre};

/// Set for the second run: the servers of the environment are ours alone.
const PRIVATE: &str = "REDRIVE_BENCH_PRIVATE";
const SHARED: &str = "REDRIVE_BENCH_SHARED";
const MARIADB: &str = "REDRIVE_TEST_MARIADB_URL";
const AMQP: &str = "REDRIVE_TEST_AMQP_URL";
const MANAGEMENT: &str = "REDRIVE_TEST_MANAGEMENT_URL";

/// Where to reach the servers.
pub struct Servers {
    /// Without a database.
    pub mariadb: String,
    pub amqp: String,
    pub management: String,
}

/// Where the figures are taken.
pub enum Place {
    /// In this process.
    Here(Servers),
    /// They were, in a process that has ended.
    Restarted(ExitCode),
}

impl Servers {
    /// The servers, or the exit code of a second run that had them.
    pub fn private_or_restart(arguments: &[String]) -> Result<Place> {
        let is_set = |name: &str| std::env::var(name).is_ok_and(|value| value == "1");
        if is_set(PRIVATE) || is_set(SHARED) {
            return Self::from_environment().map(Place::Here);
        }
        let start = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run");
        let own = std::env::current_exe().wrap_err("this program's own path")?;
        let mut command = Command::new(&start);
        command
            .arg("--servers-only")
            .arg(own)
            .args(arguments)
            .env(PRIVATE, "1");
        for name in [MARIADB, AMQP, MANAGEMENT] {
            command.env_remove(name);
        }
        let status = command
            .status()
            .wrap_err_with(|| format!("{}", start.display()))?;
        let code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        Ok(Place::Restarted(ExitCode::from(
            u8::try_from(code).unwrap_or(1),
        )))
    }

    fn from_environment() -> Result<Self> {
        let get = |name: &str| std::env::var(name).map_err(|_| eyre!("{name} is not set"));
        Ok(Self {
            mariadb: get(MARIADB)?,
            amqp: get(AMQP)?,
            management: get(MANAGEMENT)?,
        })
    }

    /// URL of one database on the MariaDB server.
    pub fn database(&self, name: &str) -> String {
        format!("{}/{name}", self.mariadb.trim_end_matches('/'))
    }
}
