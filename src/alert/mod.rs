//! Telling somebody outside: the port to an alert hook. `command` starts a program, `webhook` posts to a
//! URL. What is told, and how often, is decided by the pipeline.

pub mod command;
pub mod webhook;

use async_trait::async_trait;

use crate::model::alert::Alert;

/// Somebody who is told about deaths.
#[async_trait]
pub trait AlertHook: Send + Sync {
    /// How it is called in reports; never with a secret.
    fn name(&self) -> String;
    /// Tells one alert, within the hook's own time limit.
    ///
    /// # Errors
    /// Why it is not certain that it was taken; never with a secret.
    ///
    /// # Cancel safety
    /// Dropped, it may have been told.
    async fn tell(&self, alert: &Alert) -> Result<(), String>;
}

#[cfg(test)]
mod tests;
