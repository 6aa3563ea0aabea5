//! Finds and reads the file. Secrets are fetched only for the context that is used, so that a missing
//! production password does not stop a look at staging.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::section::{Section, Source};
use super::{Config, ConfigError, context};

/// Environment variables, or a test's stand-in.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A configuration with the place of every key that was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Dotted key → `file:line`; keys with their default value are absent.
    pub origins: BTreeMap<String, String>,
}

/// Whose secrets are fetched: environment variables, files and commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets<'a> {
    /// Of every context.
    All,
    /// Of one context; of the default one when `None`. The others are checked, but cannot connect.
    Only(Option<&'a str>),
    /// Of none: for showing the configuration.
    None,
}

/// Reads the configuration with the secrets of every context. Without `path` it is looked for as
/// [`find`] says.
///
/// # Errors
/// Names file and line, key and fix.
pub fn load(path: Option<&Path>, env: Env<'_>) -> Result<Config, ConfigError> {
    load_with(path, env, Secrets::All).map(|loaded| loaded.config)
}

/// Reads the configuration with some of its secrets, and the place of every key.
///
/// # Errors
/// Names file and line, key and fix.
pub fn load_with(
    path: Option<&Path>,
    env: Env<'_>,
    secrets: Secrets<'_>,
) -> Result<Loaded, ConfigError> {
    let path = find(path, env)?;
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|error| ConfigError {
        origin: shown.clone(),
        key: "(file)".to_owned(),
        problem: format!("cannot be read: {error}"),
        fix: "check the path and its permissions, or write one with `redrive config init`"
            .to_owned(),
    })?;
    let mut loaded = parse(&shown, &text, env, secrets)?;
    loaded.config.path = Some(path);
    Ok(loaded)
}

/// Reads a configuration from its text; `file` is how errors call it.
///
/// # Errors
/// Names file and line, key and fix.
pub fn parse(
    file: &str,
    text: &str,
    env: Env<'_>,
    secrets: Secrets<'_>,
) -> Result<Loaded, ConfigError> {
    let source = Source {
        file: file.to_owned(),
        text,
        env,
        origins: BTreeMap::new().into(),
    };
    let table = DeTable::parse(text).map_err(|error| {
        // The parser's own display repeats the line, which may hold a password: only its message is used.
        let line = source.line(error.span().map_or(0, |span| span.start));
        ConfigError {
            origin: format!("{file}:{line}"),
            key: "(syntax)".to_owned(),
            problem: format!("is not TOML: {}", error.message()),
            fix: "mend this line; texts stand in double quotes".to_owned(),
        }
    })?;
    let config = root(&Section::root(&source, table.get_ref()), secrets)?;
    Ok(Loaded {
        config,
        origins: source.origins.take(),
    })
}

fn root(section: &Section<'_>, secrets: Secrets<'_>) -> Result<Config, ConfigError> {
    section.only(&["default_context", "contexts"])?;
    let default_context = section.name("default_context")?;
    let parts = match section.section("contexts")? {
        Some(contexts) => contexts.named_sections()?,
        None => Vec::new(),
    };
    if parts.is_empty() {
        return Err(section.error(
            "contexts",
            "has no context",
            "add one: [contexts.NAME] with environment, amqp and [[contexts.NAME.services]]",
        ));
    }
    let names: Vec<String> = parts.iter().map(|(name, _)| name.clone()).collect();
    if let Some(default) = default_context
        .as_ref()
        .filter(|name| !names.contains(name))
    {
        return Err(section.error(
            "default_context",
            format!("names no context: {default}"),
            format!("use one of: {}", names.join(", ")),
        ));
    }
    let used = match secrets {
        Secrets::All | Secrets::None => None,
        Secrets::Only(name) => name
            .or(default_context.as_deref())
            .or(match names.as_slice() {
                [only] => Some(only.as_str()),
                _ => None,
            }),
    };
    let contexts = parts
        .into_iter()
        .map(|(name, section)| {
            let is_used = secrets == Secrets::All || used == Some(name.as_str());
            let section = if is_used {
                section
            } else {
                section.leniently()
            };
            context::read(&name, &section)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Config {
        path: None,
        default_context,
        contexts,
    })
}

/// The file that will be read: `path` (a flag), else `REDRIVE_CONFIG`, else
/// `$XDG_CONFIG_HOME/redrive/redrive.toml`, else `~/.config/redrive/redrive.toml`.
///
/// # Errors
/// When none of the last two exists. A path that was given is returned whether it exists or not.
pub fn find(path: Option<&Path>, env: Env<'_>) -> Result<PathBuf, ConfigError> {
    if let Some(path) = path {
        return Ok(path.to_owned());
    }
    if let Some(path) = given(env, "REDRIVE_CONFIG") {
        return Ok(path);
    }
    let places = default_places(env);
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
        ConfigError {
            origin: "redrive.toml".to_owned(),
            key: "(file)".to_owned(),
            problem: if looked.is_empty() {
                "not found, and neither XDG_CONFIG_HOME nor HOME is set".to_owned()
            } else {
                format!("not found at {}", looked.join(" or "))
            },
            fix: "write one with `redrive config init`, name one with --config, or try `redrive demo`"
                .to_owned(),
        }
    })
}

/// Where `redrive config init` writes without a path: the first place that is looked at.
pub fn default_path(env: Env<'_>) -> Option<PathBuf> {
    given(env, "REDRIVE_CONFIG").or_else(|| default_places(env).into_iter().next())
}

fn given(env: Env<'_>, name: &str) -> Option<PathBuf> {
    env(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn default_places(env: Env<'_>) -> Vec<PathBuf> {
    let xdg = given(env, "XDG_CONFIG_HOME");
    let home = given(env, "HOME").map(|home| home.join(".config"));
    [xdg, home]
        .into_iter()
        .flatten()
        .map(|base| base.join("redrive").join("redrive.toml"))
        .collect()
}

impl Config {
    /// The context called `name`; without a name the default one, or the only one.
    ///
    /// # Errors
    /// Lists the names there are.
    pub fn context(&self, name: Option<&str>) -> Result<&super::Context, ConfigError> {
        let names = || {
            let names: Vec<_> = self.contexts.iter().map(|c| c.name.as_str()).collect();
            names.join(", ")
        };
        let error = |problem: String| ConfigError {
            origin: self
                .path
                .as_ref()
                .map_or_else(|| "--context".to_owned(), |path| path.display().to_string()),
            key: "contexts".to_owned(),
            problem,
            fix: format!("name one with --context: {}", names()),
        };
        match (
            name.or(self.default_context.as_deref()),
            self.contexts.as_slice(),
        ) {
            (Some(name), contexts) => contexts
                .iter()
                .find(|context| context.name == name)
                .ok_or_else(|| error(format!("there is no context {name:?}"))),
            (None, [only]) => Ok(only),
            (None, _) => Err(error("several contexts and no default_context".to_owned())),
        }
    }
}
