//! Configurations for the console that is measured: written to a folder of their own, read by the
//! same code and the same binary a user runs.

use std::path::PathBuf;
use std::sync::Arc;

use color_eyre::eyre::Result;
use redrive::assembly::{Options, Services};
use redrive::config::{Context, load};
use tempfile::TempDir;

/// Where one context reaches its servers.
pub struct Addresses {
    pub database: String,
    pub amqp: String,
    pub management: String,
}

/// A folder with a configuration; also the home of the program that is measured, so that no setting
/// of the person who runs this has a say.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new(addresses: &Addresses) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("redrive.toml"), text(addresses))?;
        Ok(Self { folder })
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("redrive.toml")
    }

    pub fn context(&self) -> Result<Arc<Context>> {
        let config = load::load(Some(&self.config()), &|_| None)?;
        Ok(Arc::new(config.context(None)?.clone()))
    }

    /// Everything a face of the program gets.
    pub fn services(&self) -> Result<Services> {
        let options = Options {
            actor: "bench@localhost".to_owned(),
            read_only: false,
        };
        Ok(Services::open(self.context()?, options)?)
    }
}

/// One service that has every part: the most a database can be asked.
fn text(addresses: &Addresses) -> String {
    let Addresses {
        database,
        amqp,
        management,
    } = addresses;
    format!(
        r#"default_context = "bench"

[contexts.bench]
environment = "sandbox"
amqp = "{amqp}"
management = "{management}"

[[contexts.bench.services]]
name = "shop"
database = "{database}"
outbox = {{ layout = "native", exchange = "bench.events" }}
inbox = {{ layout = "native", consumer = "shop", queue = "bench.shop" }}
dead_letters = {{ layout = "native", queues = ["bench.shop.dlq"] }}
sagas = {{ layout = "native" }}
"#
    )
}
