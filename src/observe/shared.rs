//! Answers that are read once for all who ask within some time: counts that several panes show, so that
//! the Overview and the pane next to it do not count the same backlog twice, and what changes so slowly
//! that asking at every refresh would only cost.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The last answer of each service.
pub(super) struct Shared<T> {
    /// An answer younger than this is given again.
    fresh_for: Duration,
    answers: Mutex<HashMap<String, Arc<Answer<T>>>>,
}

/// Locked while it is read: who asks meanwhile waits for the same answer.
type Answer<T> = tokio::sync::Mutex<Option<(Instant, T)>>;

impl<T: Clone> Shared<T> {
    /// Half a refresh: a feed that comes back is never given what it was given before.
    pub(super) fn new(refresh: Duration) -> Self {
        Self::fresh_for(refresh / 2)
    }

    /// Answers that may be so old.
    pub(super) fn fresh_for(fresh_for: Duration) -> Self {
        Self {
            fresh_for,
            answers: Mutex::default(),
        }
    }

    /// Forgets the service's answer: the next who asks reads it.
    pub(super) fn forget(&self, service: &str) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.remove(service);
    }

    /// Forgets every answer.
    pub(super) fn forget_all(&self) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.clear();
    }

    /// The service's answer, from `read` unless somebody else just read it. A failure is not kept.
    pub(super) async fn get<E>(
        &self,
        service: &str,
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let answer = {
            // Nothing that can panic runs while it is held.
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(answers.entry(service.to_owned()).or_default())
        };
        let mut answer = answer.lock().await;
        if let Some((read_at, value)) = answer.as_ref()
            && read_at.elapsed() < self.fresh_for
        {
            return Ok(value.clone());
        }
        let value = read.await?;
        *answer = Some((Instant::now(), value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::Shared;

    #[tokio::test]
    async fn one_read_answers_all_who_ask_at_the_same_time() {
        let shared = Shared::new(Duration::from_mins(1));
        let reads = AtomicU32::new(0);
        let read = || async {
            tokio::task::yield_now().await;
            Ok::<_, String>(reads.fetch_add(1, Ordering::Relaxed) + 1)
        };
        let answers = tokio::join!(shared.get("orders", read()), shared.get("orders", read()));
        assert_eq!(answers, (Ok(1), Ok(1)));
        assert_eq!(shared.get("inventory", read()).await, Ok(2));
    }

    #[tokio::test]
    async fn what_was_forgotten_is_read_again() {
        let shared = Shared::fresh_for(Duration::from_mins(1));
        let read = |n: u32| async move { Ok::<_, &str>(n) };
        assert_eq!(shared.get("orders", read(1)).await, Ok(1));
        shared.forget("orders");
        assert_eq!(shared.get("orders", read(2)).await, Ok(2));
        assert_eq!(shared.get("inventory", read(3)).await, Ok(3));
        shared.forget_all();
        assert_eq!(shared.get("orders", read(4)).await, Ok(4));
        assert_eq!(shared.get("inventory", read(5)).await, Ok(5));
    }

    #[tokio::test]
    async fn what_failed_or_is_old_is_read_again() {
        let shared = Shared::new(Duration::from_mins(1));
        assert_eq!(
            shared.get("orders", async { Err("down") }).await,
            Err("down")
        );
        assert_eq!(
            shared.get("orders", async { Ok::<_, &str>(1) }).await,
            Ok(1)
        );
        assert_eq!(
            shared.get("orders", async { Ok::<_, &str>(2) }).await,
            Ok(1)
        );
        let forgetful = Shared::new(Duration::ZERO);
        assert_eq!(
            forgetful.get("orders", async { Ok::<_, &str>(1) }).await,
            Ok(1)
        );
        assert_eq!(
            forgetful.get("orders", async { Ok::<_, &str>(2) }).await,
            Ok(2)
        );
    }
}
