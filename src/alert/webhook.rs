//! A URL to which each alert is posted as JSON.

use std::time::Duration;

use async_trait::async_trait;

use super::AlertHook;
use crate::base::secret::SecretUrl;
use crate::base::tls;
use crate::config::ConfigError;
use crate::model::alert::Alert;

/// Posts to a URL. Only its host is ever shown: the path is often the secret.
pub struct WebhookHook {
    http: reqwest::Client,
    url: SecretUrl,
    host: String,
}

impl WebhookHook {
    /// Reaches nothing.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(url: &SecretUrl, host: &str, time_limit: Duration) -> Result<Self, ConfigError> {
        // Somebody else may have chosen a provider before: theirs stands.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder()
            .timeout(time_limit)
            .connect_timeout(time_limit)
            // A redirect would carry the alert, and the secret, to somebody else.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
            .pool_max_idle_per_host(1)
            .build()
            .map_err(|error| ConfigError {
                origin: "configuration".to_owned(),
                key: "on_death.webhook".to_owned(),
                problem: format!("no HTTP client: {}", error.without_url()),
                fix: "check the system's certificate store".to_owned(),
            })?;
        Ok(Self {
            http,
            url: url.clone(),
            host: host.to_owned(),
        })
    }
}

#[async_trait]
impl AlertHook for WebhookHook {
    fn name(&self) -> String {
        format!("webhook at {}", self.host)
    }

    async fn tell(&self, alert: &Alert) -> Result<(), String> {
        let sent = self.http.post(self.url.expose()).json(alert).send().await;
        match sent {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("answered {}", response.status())),
            Err(error) => {
                let error = error.without_url();
                let mut words = error.to_string();
                let mut cause = std::error::Error::source(&error);
                while let Some(inner) = cause {
                    words = format!("{words}: {inner}");
                    cause = inner.source();
                }
                Err(tls::explained(&words, &self.host).unwrap_or(words))
            }
        }
    }
}
