//! One GET at a time per address, with a limit on time and bytes, and an error for every way in which
//! an answer can be none (M-06, M-10).

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Url;

use crate::base::text::{cut_bytes, safe};
use crate::base::tls;
use crate::broker::{BrokerError, BrokerResult};
use crate::config::ConfigError;

use super::super::address::ManagementAddress;

/// Everything but what a URL's path never needs to encode (N-01, N-03).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
/// A page of 500 queues takes about 500 KiB.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Requests at once over all addresses.
const REQUESTS_MAX: usize = 4;
/// Longest part of a foreign text an error quotes.
const QUOTE_BYTES_MAX: usize = 200;

/// An HTTP client for one management API.
pub(super) struct Client {
    http: reqwest::Client,
    address: ManagementAddress,
    limit: Duration,
    waiting: Mutex<HashSet<String>>,
    permits: Semaphore,
}

/// Takes the address out of the set when the request ends, however it ends.
struct Waiting<'a> {
    client: &'a Client,
    path: &'a str,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self
            .client
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        waiting.remove(self.path);
    }
}

impl Client {
    /// Reaches nothing.
    pub(super) fn new(address: ManagementAddress, limit: Duration) -> Result<Self, ConfigError> {
        let http = reqwest::Client::builder()
            .timeout(limit)
            .connect_timeout(limit)
            // A redirect would carry the credentials elsewhere; a proxy has no business here.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
            .pool_max_idle_per_host(REQUESTS_MAX)
            .build()
            .map_err(|error| ConfigError {
                origin: "configuration".to_owned(),
                key: "management".to_owned(),
                problem: format!("no HTTP client: {}", error.without_url()),
                fix: "check the system's certificate store".to_owned(),
            })?;
        Ok(Self {
            http,
            address,
            limit,
            waiting: Mutex::default(),
            permits: Semaphore::new(REQUESTS_MAX),
        })
    }

    /// `host:port`.
    pub(super) fn place(&self) -> String {
        let base = &self.address.base;
        let host = base.host_str().unwrap_or_default();
        base.port_or_known_default()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Gets `/api/` and the segments, each percent-encoded once.
    pub(super) async fn get(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
    ) -> BrokerResult<Value> {
        let url = self.url(segments, query)?;
        let path = url.path().to_owned();
        let is_first = self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.clone());
        if !is_first {
            return Err(BrokerError::Unavailable(format!(
                "management API at {} has not answered the last request yet",
                self.place()
            )));
        }
        let _waiting = Waiting {
            client: self,
            path: &path,
        };
        let timed_out = || BrokerError::TimedOut {
            operation: "management API",
            after: self.limit,
        };
        let answer = timeout(self.limit, async {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await.ok();
            self.ask(url).await
        });
        let (status, body) = match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_timeout() => return Err(timed_out()),
            Ok(Err(error)) => return Err(self.unreachable(error)),
            Err(_) => return Err(timed_out()),
        };
        self.read(status, body.as_deref())
    }

    /// The URL of an object. A name that is a path's own `.` or `..` cannot be written in one.
    fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> BrokerResult<Url> {
        let mut text = format!("{}api", self.address.base);
        for segment in segments {
            if matches!(*segment, "." | "..") {
                return Err(BrokerError::Protocol(format!(
                    "{segment:?} cannot be asked for over HTTP: a URL has no way to name it"
                )));
            }
            text.push('/');
            text.extend(utf8_percent_encode(segment, SEGMENT));
        }
        let mut url = Url::parse(&text)
            .map_err(|error| BrokerError::Protocol(format!("management URL: {error}")))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    /// Status and body; the body is `None` when it is too large.
    async fn ask(&self, url: Url) -> reqwest::Result<(StatusCode, Option<Vec<u8>>)> {
        let password = self.address.password.expose_secret();
        let request = self
            .http
            .get(url)
            .basic_auth(&self.address.user, Some(password));
        let mut response = request.send().await?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Ok((status, None));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, Some(body)))
    }

    fn read(&self, status: StatusCode, body: Option<&[u8]>) -> BrokerResult<Value> {
        let Some(body) = body else {
            return Err(self.protocol(&format!("an answer of more than {BODY_BYTES_MAX} bytes")));
        };
        let json = serde_json::from_slice::<Value>(body);
        match (status, json) {
            (StatusCode::OK, Ok(json)) => Ok(json),
            (StatusCode::OK, Err(error)) if error.is_eof() && !body.is_empty() => {
                Err(self.protocol("an answer that is cut off"))
            }
            (StatusCode::OK, Err(_)) => {
                Err(self.protocol("a page that is not JSON: this is not the management API"))
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Ok(json)) => Err(self.denied(&json)),
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Err(_)) => {
                Err(self.protocol(&format!(
                    "{status} with a page that is not JSON: this is not the management API, or a \
                     proxy stands before it"
                )))
            }
            (StatusCode::NOT_FOUND, Ok(_)) => Err(BrokerError::NotFound(format!(
                "management API at {}: not found",
                self.place()
            ))),
            (StatusCode::NOT_FOUND, Err(_)) => {
                Err(self
                    .protocol("404 with a page that is not JSON: this is not the management API"))
            }
            (status, json) if status.is_server_error() => Err(BrokerError::Unavailable(format!(
                "management API at {} failed with {status}{}",
                self.place(),
                quoted(json.ok().as_ref())
            ))),
            (status, json) => {
                Err(self.protocol(&format!("{status}{}", quoted(json.ok().as_ref()))))
            }
        }
    }

    /// What a refusal means, by the reason in its body.
    fn denied(&self, json: &Value) -> BrokerError {
        let user = &self.address.user;
        let reason = json
            .get("reason")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let lower = reason.to_lowercase();
        let meaning = if lower.contains("login failed") || lower == "not_authorized" {
            format!("wrong user or password for user {user:?}")
        } else if lower.contains("management user") {
            format!("user {user:?} needs the tag `management` (or `monitoring`)")
        } else if lower.contains("monitor user") {
            format!("user {user:?} needs the tag `monitoring`")
        } else if lower.contains("administrator user") {
            format!("user {user:?} needs the tag `administrator`")
        } else if lower.contains("localhost") {
            format!("user {user:?} may log in from the broker's own machine only")
        } else {
            format!("user {user:?} was refused{}", quoted(Some(json)))
        };
        BrokerError::Denied(format!("management API at {}: {meaning}", self.place()))
    }

    fn unreachable(&self, error: reqwest::Error) -> BrokerError {
        // The cause says more than the outermost text; none of them holds a credential.
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let place = self.place();
        let cause = cause.to_string();
        let told = tls::explained(&cause, &place).unwrap_or(cause);
        BrokerError::Unavailable(format!("management API at {place}: {told}"))
    }

    fn protocol(&self, what: &str) -> BrokerError {
        BrokerError::Protocol(format!("{} answered {what}", self.place()))
    }
}

/// `: reason` of an error body, made safe and cut.
fn quoted(json: Option<&Value>) -> String {
    let Some(json) = json else {
        return String::new();
    };
    let text = |name: &str| json.get(name).and_then(Value::as_str);
    match (text("error"), text("reason")) {
        (None, None) => String::new(),
        (error, reason) => {
            let both = [error, reason]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", ");
            format!(": {}", safe(cut_bytes(&both, QUOTE_BYTES_MAX)))
        }
    }
}
