//! What a drill's processes are given: a configuration, and their servers behind proxies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::config;
use crate::base::secret::SecretUrl;
use crate::base::tasks::Tasks;
use crate::drill::Bench;
use crate::drill::proxy::{Line, Proxy};
use crate::drill::trouble::Trouble;

/// Where alerts about deaths are written.
const ALERTS: &str = "alerts.log";

/// The folder, environment and proxies of a drill's processes.
pub struct Lines {
    folder: TempDir,
    config: PathBuf,
    env: Vec<(String, String)>,
    broker: Option<Proxy>,
    databases: BTreeMap<(String, u16), Proxy>,
}

impl Lines {
    /// Writes the configuration and opens the proxies.
    ///
    /// # Errors
    /// When a file or a port cannot be had.
    pub async fn open(bench: &Bench, tasks: &Tasks) -> Result<Self, Trouble> {
        let failed = |error: std::io::Error| Trouble::Stuck(format!("the drill's folder: {error}"));
        let folder = tempfile::Builder::new()
            .prefix("redrive-drill-")
            .tempdir()
            .map_err(failed)?;
        let context = &bench.ports.context;
        let path = folder.path().join("redrive.toml");
        std::fs::write(&path, config::text(context, &folder.path().join(ALERTS)))
            .map_err(failed)?;
        let mut lines = Self {
            folder,
            config: path,
            env: Vec::new(),
            broker: None,
            databases: BTreeMap::new(),
        };
        if let Some(amqp) = &context.amqp {
            let (url, proxy) = behind(amqp, 5672, &mut BTreeMap::new(), tasks).await?;
            lines.env.push((config::AMQP.to_owned(), url));
            lines.broker = proxy;
        }
        if let Some(management) = &context.management {
            let url = management.expose().to_owned();
            lines.env.push((config::MANAGEMENT.to_owned(), url));
        }
        for service in &context.services {
            let (url, _) = behind(&service.database, 3306, &mut lines.databases, tasks).await?;
            lines.env.push((config::database(&service.name), url));
        }
        Ok(lines)
    }

    /// Where the processes' files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where alerts about deaths are written, one a line.
    pub fn alerts(&self) -> PathBuf {
        self.folder().join(ALERTS)
    }

    /// Their environment.
    pub fn env(&self) -> &[(String, String)] {
        &self.env
    }

    /// Their first arguments.
    pub fn global_arguments(&self) -> Vec<String> {
        ["--config", &self.config.display().to_string()]
            .into_iter()
            .chain(["--context", config::CONTEXT, "--output", "json"])
            .map(str::to_owned)
            .collect()
    }

    /// The proxy before the broker.
    ///
    /// # Errors
    /// When there is none: TLS names the server, and a proxy has another name.
    pub fn broker(&self) -> Result<&Proxy, Trouble> {
        self.broker.as_ref().ok_or_else(|| {
            Trouble::NotConfigured(
                "this drill cuts the broker's connections, which needs amqp:// without TLS"
                    .to_owned(),
            )
        })
    }

    /// Changes what passes to the databases.
    ///
    /// # Errors
    /// When no database is behind a proxy.
    pub fn databases(&self, line: Line) -> Result<(), Trouble> {
        if self.databases.is_empty() {
            return Err(Trouble::NotConfigured(
                "this drill takes the databases away, which needs mysql:// URLs".to_owned(),
            ));
        }
        for proxy in self.databases.values() {
            proxy.set(line);
        }
        Ok(())
    }

    /// Lets the workers find the broker at another server.
    ///
    /// # Errors
    /// When the URL names none, or there is no proxy.
    pub async fn move_broker(&self, url: &str) -> Result<(), Trouble> {
        let unusable = || Trouble::Stuck("the other node's URL cannot be used".to_owned());
        let parsed = url::Url::parse(url).map_err(|_| unusable())?;
        let host = parsed
            .host_str()
            .ok_or_else(unusable)?
            .trim_matches(['[', ']']);
        self.broker()?
            .move_to(host, parsed.port().unwrap_or(5672))
            .await;
        Ok(())
    }

    /// Connections to databases that were refused so far.
    pub fn databases_refused(&self) -> u64 {
        self.databases.values().map(Proxy::refused).sum()
    }
}

/// The URL behind a proxy: one of `known` when there is one for its server, else a new one. As it is
/// where no plain TCP is spoken.
async fn behind(
    url: &SecretUrl,
    default_port: u16,
    known: &mut BTreeMap<(String, u16), Proxy>,
    tasks: &Tasks,
) -> Result<(String, Option<Proxy>), Trouble> {
    let whole = url.expose();
    let is_plain = matches!(url.scheme(), "amqp" | "mysql" | "mariadb");
    let unusable = || Trouble::Stuck(format!("{url} cannot be put behind a proxy"));
    if !is_plain {
        return Ok((whole.to_owned(), None));
    }
    let mut parsed = url::Url::parse(whole).map_err(|_| unusable())?;
    let server = (
        parsed
            .host_str()
            .ok_or_else(unusable)?
            .trim_matches(['[', ']'])
            .to_owned(),
        parsed.port().unwrap_or(default_port),
    );
    let mut alone = None;
    let port = if let Some(proxy) = known.get(&server) {
        proxy.port()
    } else {
        let proxy = Proxy::to(&server.0, server.1, tasks)
            .await
            .map_err(|error| Trouble::Stuck(format!("no proxy: {error}")))?;
        let port = proxy.port();
        if url.scheme() == "amqp" {
            alone = Some(proxy);
        } else {
            known.insert(server, proxy);
        }
        port
    };
    parsed.set_host(Some("127.0.0.1")).map_err(|_| unusable())?;
    parsed.set_port(Some(port)).map_err(|()| unusable())?;
    Ok((parsed.to_string(), alone))
}
