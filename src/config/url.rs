//! Connection URLs of the file: whole, by a command, or with the password kept elsewhere. No
//! error repeats any part of a URL that may be the password.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::ConfigError;
use super::section::Section;
use crate::base::secret::SecretUrl;

/// The keys of one URL. All are spelled out so that the reference can be searched for them.
pub(super) struct UrlKeys {
    /// The URL itself.
    pub url: &'static str,
    /// A command that prints the URL.
    pub command: &'static str,
    /// An environment variable with the password.
    pub password_env: &'static str,
    /// A file with the password.
    pub password_file: &'static str,
    /// A command that prints the password.
    pub password_command: &'static str,
    /// Schemes that may be used.
    pub schemes: &'static [&'static str],
    /// An example, for error texts.
    pub example: &'static str,
}

/// A service's database.
pub(super) const DATABASE: UrlKeys = UrlKeys {
    url: "database",
    command: "database_command",
    password_env: "database_password_env",
    password_file: "database_password_file",
    password_command: "database_password_command",
    schemes: &["mysql", "mariadb", "sqlite"],
    example: "mysql://ops@db.internal/orders or sqlite:/path/to/file.db",
};

/// The broker's message port.
pub(super) const AMQP: UrlKeys = UrlKeys {
    url: "amqp",
    command: "amqp_command",
    password_env: "amqp_password_env",
    password_file: "amqp_password_file",
    password_command: "amqp_password_command",
    schemes: &["amqp", "amqps", "embedded"],
    example: "amqp://ops@mq.internal:5672/%2f",
};

/// The broker's management API.
pub(super) const MANAGEMENT: UrlKeys = UrlKeys {
    url: "management",
    command: "management_command",
    password_env: "management_password_env",
    password_file: "management_password_file",
    password_command: "management_password_command",
    schemes: &["http", "https"],
    example: "http://ops@mq.internal:15672",
};

/// Reads one URL with all its keys; `None` when it is not configured.
pub(super) fn read(
    section: &Section<'_>,
    keys: &UrlKeys,
) -> Result<Option<SecretUrl>, ConfigError> {
    let written = section.text(keys.url)?;
    let command = section.texts(keys.command)?;
    let password = password(section, keys)?;
    let whole = match (written, command) {
        (Some(_), Some(_)) => {
            return Err(section.error(
                keys.command,
                format!("is given together with `{}`", keys.url),
                "keep one of the two",
            ));
        }
        (Some(url), None) => url,
        (None, Some(_)) if section.is_lenient() => return Ok(Some(SecretUrl::new(String::new()))),
        (None, Some(command)) => run(section, keys.command, &command)?,
        (None, None) => {
            return match password {
                None => Ok(None),
                Some((key, _)) => Err(section.error(
                    key,
                    format!("is given without `{}`", keys.url),
                    format!("add {} = \"…\", e.g. {}", keys.url, keys.example),
                )),
            };
        }
    };
    let whole = match password {
        Some((key, secret)) => with_password(section, keys, key, &whole, &secret)?,
        None => whole,
    };
    if !section.is_lenient() {
        check(section, keys, &whole)?;
    }
    Ok(Some(SecretUrl::new(whole)))
}

/// The separate password: the key that gave it, and its value.
fn password(
    section: &Section<'_>,
    keys: &UrlKeys,
) -> Result<Option<(&'static str, String)>, ConfigError> {
    let env = section.text(keys.password_env)?;
    let file = section.text(keys.password_file)?;
    let command = section.texts(keys.password_command)?;
    let given = [
        env.is_some().then_some(keys.password_env),
        file.is_some().then_some(keys.password_file),
        command.is_some().then_some(keys.password_command),
    ];
    let mut given = given.into_iter().flatten();
    let Some(key) = given.next() else {
        return Ok(None);
    };
    if let Some(second) = given.next() {
        return Err(section.error(
            second,
            format!("is given together with `{key}`"),
            "keep one of them",
        ));
    }
    if section.is_lenient() {
        return Ok(Some((key, "***".to_owned())));
    }
    let secret = if let Some(name) = env {
        section.env(&name).ok_or_else(|| {
            section.error(
                key,
                format!("environment variable {name} is not set"),
                format!("export {name}"),
            )
        })?
    } else if let Some(path) = file {
        let text = std::fs::read_to_string(&path).map_err(|error| {
            section.error(
                key,
                format!("cannot read {path}: {}", error.kind()),
                "check the path and its permissions",
            )
        })?;
        first_line(&text)
    } else {
        run(section, key, &command.unwrap_or_default())?
    };
    Ok(Some((key, secret)))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Runs a secret command; its first line is the secret. Its standard error is not repeated: it may
/// hold the secret.
fn run(section: &Section<'_>, key: &str, command: &[String]) -> Result<String, ConfigError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(section.error(
            key,
            "is an empty list",
            "write [\"program\", \"argument\", …]",
        ));
    };
    let output = std::process::Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| {
            section.error(
                key,
                format!("cannot run {program}: {}", error.kind()),
                "check the program's name and PATH",
            )
        })?;
    if !output.status.success() {
        return Err(section.error(
            key,
            format!("{program} failed ({})", output.status),
            "run the command by hand to see why",
        ));
    }
    let secret = first_line(&String::from_utf8_lossy(&output.stdout));
    if secret.is_empty() {
        return Err(section.error(
            key,
            format!("{program} printed nothing on its first line"),
            "run the command by hand to see why",
        ));
    }
    Ok(secret)
}

/// Puts a password, percent-encoded, between the user and the host.
fn with_password(
    section: &Section<'_>,
    keys: &UrlKeys,
    key: &str,
    url: &str,
    secret: &str,
) -> Result<String, ConfigError> {
    let no_user = || {
        section.error(
            keys.url,
            format!("has no user name, but `{key}` gives a password"),
            format!("write the user name into the URL, e.g. {}", keys.example),
        )
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(no_user)?;
    let (user, host) = rest.split_once('@').ok_or_else(no_user)?;
    let user = user.strip_suffix(':').unwrap_or(user);
    if user.is_empty() {
        return Err(no_user());
    }
    if user.contains(':') || host.contains('@') {
        return Err(section.error(
            keys.url,
            format!("holds a password, and `{key}` gives another"),
            "keep only one of the two",
        ));
    }
    let encoded = utf8_percent_encode(secret, NON_ALPHANUMERIC);
    Ok(format!("{scheme}://{user}:{encoded}@{host}"))
}

fn check(section: &Section<'_>, keys: &UrlKeys, url: &str) -> Result<(), ConfigError> {
    let scheme = url.split(':').next().unwrap_or_default();
    if !keys.schemes.contains(&scheme) {
        return Err(section.error(
            keys.url,
            "does not start with a scheme that is known here",
            format!(
                "use {} (e.g. {})",
                keys.schemes.join(":, ") + ":",
                keys.example
            ),
        ));
    }
    if matches!(scheme, "sqlite" | "embedded") {
        return Ok(());
    }
    if has_raw_characters(url) {
        return Err(section.error(
            keys.url,
            "has special characters in its user name or password",
            format!(
                "encode special characters (e.g. @ as %40, / as %2F, % as %25) or use `{}`",
                keys.password_file
            ),
        ));
    }
    match url::Url::parse(url) {
        Ok(parsed) if parsed.has_host() => Ok(()),
        _ => Err(section.error(
            keys.url,
            "is not a URL with a host",
            format!("write it like {}", keys.example),
        )),
    }
}

/// True when the part before the host cannot have been encoded: a parser would cut it at the wrong
/// place and connect to a host made of password (X-04 a).
fn has_raw_characters(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let Some((userinfo, _)) = rest.rsplit_once('@') else {
        return false;
    };
    let bytes = userinfo.as_bytes();
    bytes.iter().enumerate().any(|(index, byte)| match byte {
        b'%' => !bytes
            .get(index + 1..index + 3)
            .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)),
        b'@' | b'/' | b'?' | b'#' | b'[' | b']' | b'"' | b'\\' | b'<' | b'>' | b'^' | b'`'
        | b'{' | b'|' | b'}' => true,
        _ => !(0x21..0x7f).contains(byte),
    })
}

#[cfg(test)]
mod tests {
    use super::has_raw_characters;
    use rstest::rstest;

    #[rstest]
    #[case("mysql://ops:p@ss:w/o#r?d%41[x]\"'\\ é@db/orders", true)]
    #[case("mysql://ops:p/S3CRET@db/orders", true)]
    #[case("mysql://ops:p%zz@db/orders", true)]
    #[case(
        "mysql://ops:p%40ss%3Aw%2Fo%23r%3Fd%2541%5Bx%5D%22%27%5C%20%C3%A9@db/orders",
        false
    )]
    #[case("mysql://db/orders", false)]
    fn x_04_a_raw_password_is_seen(#[case] url: &str, #[case] raw: bool) {
        assert_eq!(has_raw_characters(url), raw);
    }
}
