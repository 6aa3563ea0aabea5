//! The commented file that `redrive config init` writes. Every key is in it; a test reads it.

use std::io::Write as _;
use std::path::Path;

use super::ConfigError;

/// The file.
pub const TEMPLATE: &str = include_str!("template.toml");

/// Writes the commented file for its owner only (it may come to hold a password); an existing file
/// is never touched.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn write(path: &Path) -> Result<(), ConfigError> {
    let error = |problem: String, fix: &str| ConfigError {
        origin: path.display().to_string(),
        key: "(file)".to_owned(),
        problem,
        fix: fix.to_owned(),
    };
    let io = |cause: std::io::Error| {
        if cause.kind() == std::io::ErrorKind::AlreadyExists {
            error(
                "exists already and is left as it is".to_owned(),
                "edit it, or name another path",
            )
        } else {
            error(
                format!("cannot be written: {cause}"),
                "name a path that can be written",
            )
        }
    };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(io)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path).map_err(io)?;
    file.write_all(TEMPLATE.as_bytes()).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::{Secrets, parse};

    #[test]
    fn the_template_is_valid_as_it_stands_and_with_every_comment_opened() {
        let env = |_: &str| Some("x".to_owned());
        parse("template", TEMPLATE, &env, Secrets::All).expect("valid as it stands");
        // A line `#key = …` is a default or an alternative; prose comments start with `# `.
        let opened: Vec<&str> = TEMPLATE
            .lines()
            .filter(|line| !line.contains("# instead"))
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if !rest.starts_with(' ') => rest,
                _ => line,
            })
            .collect();
        let loaded =
            parse("template", &opened.join("\n"), &env, Secrets::All).expect("valid when opened");
        let shop = loaded.config.context(None).expect("context");
        let base = crate::config::Thresholds::default();
        assert_eq!(shop.thresholds, base, "the template shows the defaults");
        assert_eq!(
            shop.dispatcher,
            crate::config::DispatcherSettings::default()
        );
    }

    #[test]
    fn an_existing_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("redrive/redrive.toml");
        write(&path).expect("written");
        let error = write(&path).expect_err("refused");
        assert!(error.problem.contains("exists already"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), TEMPLATE);
    }
}
