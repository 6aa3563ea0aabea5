//! Where a broker is: the AMQP and management URLs, checked before anything is reached.
//!
//! The virtual host is what follows the first `/` of the path, percent-decoded once (N-03):
//!
//! | URL | virtual host |
//! |---|---|
//! | `amqp://h`, `amqp://h/`, `amqp://h/%2f`, `amqp://h//` | `/` |
//! | `amqp://h/%2Fbilling`, `amqp://h//billing` | `/billing` |
//! | `amqp://h/billing%2Feu`, `amqp://h/billing/eu` | `billing/eu` |

use lapin::uri::{
    AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism,
};
use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::{Host, Url};

use crate::base::secret::SecretUrl;
use crate::config::ConfigError;

/// Seconds without a sign of life after which both sides give a connection up, unless the URL says.
const HEARTBEAT_S: u16 = 15;

/// A checked AMQP URL.
pub(super) struct AmqpAddress {
    /// For lapin; holds the password.
    pub uri: AMQPUri,
}

impl AmqpAddress {
    /// Checks `url`; nothing is reached.
    pub fn parse(url: &SecretUrl, connect_ms: u64) -> Result<Self, ConfigError> {
        let parsed = parse(url, "amqp")?;
        let scheme = match parsed.scheme() {
            "amqp" => AMQPScheme::AMQP,
            "amqps" => AMQPScheme::AMQPS,
            other => {
                return Err(fault(
                    "amqp",
                    format!("{other}:// is not a message broker's scheme"),
                    "use amqp:// or amqps://",
                ));
            }
        };
        let vhost = vhost(parsed.path())?;
        let port = parsed.port().unwrap_or_else(|| scheme.default_port());
        let query = query(&parsed, connect_ms)?;
        let (username, password) = credentials(&parsed, "amqp")?;
        let uri = AMQPUri {
            scheme,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: username.unwrap_or_else(|| "guest".to_owned()),
                    password: password.unwrap_or_else(|| "guest".to_owned()),
                },
                host: host(&parsed, "amqp")?,
                port,
            },
            vhost,
            query,
        };
        Ok(Self { uri })
    }

    /// Name of the account; `None` when the transport decides it.
    pub fn known_user(&self) -> Option<String> {
        match self.uri.query.auth_mechanism {
            Some(SASLMechanism::External | SASLMechanism::Anonymous) => None,
            _ => Some(self.uri.authority.userinfo.username.clone()),
        }
    }

    /// `host:port`, for screens and errors.
    pub fn place(&self) -> String {
        let authority = &self.uri.authority;
        format!("{}:{}", authority.host, authority.port)
    }
}

/// A checked management URL.
pub(super) struct ManagementAddress {
    /// Without credentials; its path ends in `/`.
    pub base: Url,
    /// Account.
    pub user: String,
    /// Its password.
    pub password: SecretString,
}

impl ManagementAddress {
    /// Checks `url`; nothing is reached. A path is kept as a prefix, for an API behind a proxy.
    pub fn parse(url: &SecretUrl) -> Result<Self, ConfigError> {
        let mut base = parse(url, "management")?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(fault(
                "management",
                format!("{}:// is not the management API's scheme", base.scheme()),
                "use http:// or https://",
            ));
        }
        host(&base, "management")?;
        let (user, password) = credentials(&base, "management")?;
        let cleared = base.set_username("").and_then(|()| base.set_password(None));
        if cleared.is_err() {
            return Err(fault(
                "management",
                "has no host".to_owned(),
                "write http://user:password@host:15672",
            ));
        }
        base.set_query(None);
        let mut path = base.path().trim_end_matches('/').to_owned();
        // Accepted with and without the API's own part.
        if let Some(prefix) = path.strip_suffix("/api") {
            path = prefix.to_owned();
        }
        base.set_path(&format!("{path}/"));
        Ok(Self {
            base,
            user: user.unwrap_or_else(|| "guest".to_owned()),
            password: SecretString::from(password.unwrap_or_else(|| "guest".to_owned())),
        })
    }
}

fn parse(url: &SecretUrl, key: &str) -> Result<Url, ConfigError> {
    const ENCODE: &str =
        "percent-encode special characters of user and password: @ %40, / %2F, # %23, : %3A, ? %3F";
    let parsed = Url::parse(url.expose().trim())
        .map_err(|error| fault(key, format!("is not a URL ({error})"), ENCODE))?;
    // A raw `/`, `#` or `?` in a password ends the host early; what follows still holds the `@`.
    let rest = &parsed[url::Position::BeforePath..];
    if parsed.fragment().is_some() || rest.contains('@') {
        return Err(fault(
            key,
            "has a `#` or an `@` after its host: a password is not encoded".to_owned(),
            ENCODE,
        ));
    }
    Ok(parsed)
}

fn host(url: &Url, key: &str) -> Result<String, ConfigError> {
    let host = match url.host() {
        Some(Host::Domain(name)) => decoded(name),
        Some(Host::Ipv4(address)) => Some(address.to_string()),
        Some(Host::Ipv6(address)) => Some(address.to_string()),
        None => None,
    };
    host.filter(|host| !host.is_empty()).ok_or_else(|| {
        fault(
            key,
            "names no host".to_owned(),
            "write scheme://user:password@host:port",
        )
    })
}

fn credentials(url: &Url, key: &str) -> Result<(Option<String>, Option<String>), ConfigError> {
    let text = |text: &str| {
        decoded(text).ok_or_else(|| {
            fault(
                key,
                "user or password is not UTF-8 when percent-decoded".to_owned(),
                "encode the UTF-8 bytes of each special character",
            )
        })
    };
    let user = match url.username() {
        "" => None,
        user => Some(text(user)?),
    };
    Ok((user, url.password().map(text).transpose()?))
}

fn vhost(path: &str) -> Result<String, ConfigError> {
    let name = match path {
        "" | "/" => "/".to_owned(),
        path => decoded(path.strip_prefix('/').unwrap_or(path)).ok_or_else(|| {
            fault(
                "amqp",
                "the virtual host is not UTF-8 when percent-decoded".to_owned(),
                "encode the UTF-8 bytes of each special character",
            )
        })?,
    };
    if name.contains(['\n', '\r']) || name.len() > 255 {
        return Err(fault(
            "amqp",
            format!("virtual host {name:?} has a line break or more than 255 bytes"),
            "correct the path of the URL",
        ));
    }
    Ok(name)
}

fn query(url: &Url, connect_ms: u64) -> Result<AMQPQueryString, ConfigError> {
    let mut query = AMQPQueryString {
        heartbeat: Some(HEARTBEAT_S),
        connection_timeout: Some(connect_ms),
        ..AMQPQueryString::default()
    };
    for (name, value) in url.query_pairs() {
        let bad = || {
            fault(
                "amqp",
                format!("`{name}` has a value that cannot be used"),
                "give a number",
            )
        };
        match name.as_ref() {
            "heartbeat" => query.heartbeat = Some(value.parse().map_err(|_| bad())?),
            "frame_max" => query.frame_max = Some(value.parse().map_err(|_| bad())?),
            "channel_max" => query.channel_max = Some(value.parse().map_err(|_| bad())?),
            "connection_timeout" => {
                query.connection_timeout = Some(value.parse().map_err(|_| bad())?);
            }
            "auth_mechanism" => query.auth_mechanism = Some(value.parse().map_err(|_| bad())?),
            _ => {
                return Err(fault(
                    "amqp",
                    format!("unknown parameter `{name}`"),
                    "known: heartbeat, frame_max, channel_max, connection_timeout, auth_mechanism",
                ));
            }
        }
    }
    Ok(query)
}

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text)
        .decode_utf8()
        .ok()
        .map(std::borrow::Cow::into_owned)
}

fn fault(key: &str, problem: String, fix: &str) -> ConfigError {
    ConfigError {
        origin: "configuration".to_owned(),
        key: key.to_owned(),
        problem,
        fix: fix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn amqp(url: &str) -> Result<AMQPUri, ConfigError> {
        AmqpAddress::parse(&SecretUrl::new(url.to_owned()), 5000).map(|address| address.uri)
    }

    #[rstest]
    #[case("amqp://u:p@h", "/")]
    #[case("amqp://u:p@h/", "/")]
    #[case("amqp://u:p@h/%2f", "/")]
    #[case("amqp://u:p@h//", "/")]
    #[case("amqp://u:p@h/%2Fbilling", "/billing")]
    #[case("amqp://u:p@h/billing%2Feu", "billing/eu")]
    #[case("amqp://u:p@h/бухгалтерия", "бухгалтерия")]
    #[case("amqp://u:p@h/a%252Fb", "a%2Fb")]
    fn n_03_the_virtual_host_follows_the_written_rule(#[case] url: &str, #[case] vhost: &str) {
        assert_eq!(amqp(url).expect("a valid URL").vhost, vhost);
    }

    #[rstest]
    #[case("amqp://ops:p@ss:w/S3CRET-42#x@mq/%2f")]
    #[case("amqp://ops:p/S3CRET-42@mq/%2f")]
    #[case("amqp://ops:12/S3CRET-42@mq/%2f")]
    #[case("amqp://ops:p#S3CRET-42@mq/%2f")]
    #[case("http://ops:S3CRET-42@mq")]
    #[case("amqp:S3CRET-42")]
    #[case("S3CRET-42")]
    fn x_04_a_url_that_is_not_encoded_is_refused_without_being_shown(#[case] url: &str) {
        let error = amqp(url).expect_err("not usable");
        let shown = format!("{error:?} {}", error.problem);
        assert!(!shown.contains("S3CRET-42"), "{shown}");
        assert!(!error.fix.is_empty());
    }

    #[test]
    fn x_04_an_encoded_password_arrives_as_it_is() {
        let uri = amqp("amqps://ops:p%40ss%3Aw%2F%23x@[fd00::5]/%2f?heartbeat=5").expect("valid");
        assert_eq!(uri.authority.userinfo.password, "p@ss:w/#x");
        assert_eq!(uri.authority.host, "fd00::5");
        assert_eq!(uri.authority.port, 5671);
        assert_eq!(uri.query.heartbeat, Some(5));
    }

    #[rstest]
    #[case("http://ops:p@mq:15672", "http://mq:15672/")]
    #[case("http://ops:p@mq:15672/api/", "http://mq:15672/")]
    #[case("https://mq/rabbit/", "https://mq/rabbit/")]
    fn a_management_url_may_have_a_prefix(#[case] url: &str, #[case] base: &str) {
        let address = ManagementAddress::parse(&SecretUrl::new(url.to_owned())).expect("valid");
        assert_eq!(address.base.as_str(), base);
    }
}
