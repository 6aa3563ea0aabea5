//! Connection URLs: usable whole by an adapter, printable only without what must not be seen.

use secrecy::{ExposeSecret, SecretString};

/// A URL that may hold a password. `Debug` and `Display` show scheme, user, host, port and path;
/// the password and every query value are `***`.
#[derive(Clone)]
pub struct SecretUrl {
    whole: SecretString,
    shown: String,
}

impl SecretUrl {
    /// Takes a URL as written. What cannot be parsed is kept, and shown as `scheme:***` only, so
    /// that a password with special characters never leaks through an error (X-04 a).
    pub fn new(whole: String) -> Self {
        let shown = match url::Url::parse(&whole) {
            Ok(mut url) => {
                if url.password().is_some() && url.set_password(Some("***")).is_err() {
                    format!("{}:***", url.scheme())
                } else {
                    if url.query().is_some() {
                        url.set_query(Some("***"));
                    }
                    // A password with a raw `/`, `#` or `?` ends up in path or fragment (X-04 a): an `@`
                    // after the host means the URL was not encoded, so nothing after the scheme is shown.
                    if url[url::Position::BeforePath..].contains('@') {
                        format!("{}:***", url.scheme())
                    } else {
                        url.to_string()
                    }
                }
            }
            Err(_) => match whole.split_once(':') {
                Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                    format!("{scheme}:***")
                }
                _ => "***".to_owned(),
            },
        };
        Self {
            whole: SecretString::from(whole),
            shown,
        }
    }

    /// The URL with its password, for the adapter that connects.
    pub fn expose(&self) -> &str {
        self.whole.expose_secret()
    }

    /// The part before the first `:`, e.g. `mysql`, `sqlite`, `amqp`, `embedded`.
    pub fn scheme(&self) -> &str {
        self.shown.split(':').next().unwrap_or_default()
    }
}

impl std::fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl PartialEq for SecretUrl {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::SecretUrl;

    #[test]
    fn a_password_is_never_printed() {
        for url in [
            "mysql://ops:S3CRET-42@db.internal/orders?ssl-key=S3CRET-42",
            "amqp://ops:p@ss:w/S3CRET-42#x@mq/%2f",
            "amqp://ops:p/S3CRET-42@mq/%2f",
            "not a url S3CRET-42",
        ] {
            let secret = SecretUrl::new(url.to_owned());
            assert!(
                !format!("{secret} {secret:?}").contains("S3CRET-42"),
                "{secret}"
            );
            assert_eq!(secret.expose(), url);
        }
    }
}
