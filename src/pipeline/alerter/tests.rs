//! How often a hook is told, and what becomes of a hook that fails.

use std::sync::Mutex;

use async_trait::async_trait;

use super::*;
use crate::base::clock::Timestamp;
use crate::model::ids::{ConsumerName, DeadLetterId};

#[derive(Default)]
struct Book {
    told: Mutex<Vec<(String, u64)>>,
    is_broken: Mutex<bool>,
}

#[async_trait]
impl AlertHook for Book {
    fn name(&self) -> String {
        "the book".to_owned()
    }
    async fn tell(&self, alert: &Alert) -> Result<(), String> {
        if *self.is_broken.lock().expect("free") {
            return Err("ended with exit status: 3".to_owned());
        }
        let line = (alert.error_class.clone(), alert.left_out);
        self.told.lock().expect("free").push(line);
        Ok(())
    }
}

fn death(class: &str) -> Alert {
    Alert {
        context: "shop".to_owned(),
        dead_letter_id: DeadLetterId::generate(),
        consumer: ConsumerName::new("inventory"),
        event_id: None,
        event_type: None,
        aggregate_id: None,
        aggregate_version: None,
        error_class: class.to_owned(),
        error_summary: None,
        failed_queue: None,
        deaths: 1,
        died_at: Timestamp::from_micros(0),
        owner: None,
        trace_id: None,
        producer_version: None,
        consumer_version: None,
        left_out: 0,
    }
}

/// Goes on until nothing is under way.
async fn settle(alerter: &mut Alerter) -> Progress {
    let mut all = Progress::default();
    loop {
        let progress = alerter.go_on().await;
        all.told += progress.told;
        all.failed += progress.failed;
        if alerter.running.is_none() && alerter.queue.is_empty() {
            return all;
        }
        tokio::task::yield_now().await;
    }
}

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_cause_is_told_once_a_while_with_what_was_left_out() {
    let book = Arc::new(Book::default());
    let mut alerter = Alerter::new(book.clone(), MINUTE);
    for _ in 0..41 {
        alerter.died(death("decode"));
    }
    alerter.died(death("timeout"));
    assert_eq!(settle(&mut alerter).await.told, 2);
    tokio::time::advance(MINUTE).await;
    // The last of those that were left out is told, with the number of the others.
    assert_eq!(settle(&mut alerter).await.told, 1);
    alerter.died(death("decode"));
    tokio::time::advance(MINUTE).await;
    alerter.died(death("decode"));
    settle(&mut alerter).await;
    let told = book.told.lock().expect("free").clone();
    let line = |class: &str, left_out| (class.to_owned(), left_out);
    assert_eq!(
        told,
        [
            line("decode", 0),
            line("timeout", 0),
            line("decode", 39),
            line("decode", 1),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_alert_that_was_not_taken_is_shown_and_tried_again() {
    let book = Arc::new(Book::default());
    let mut alerter = Alerter::new(book.clone(), MINUTE);
    *book.is_broken.lock().expect("free") = true;
    alerter.died(death("decode"));
    assert_eq!(settle(&mut alerter).await.failed, 1);
    let problem = alerter.problem().expect("shown").to_owned();
    assert!(
        problem.contains("the book did not take an alert"),
        "{problem}"
    );
    assert!(problem.contains("exit status: 3"), "{problem}");
    *book.is_broken.lock().expect("free") = false;
    assert_eq!(settle(&mut alerter).await.told, 0, "not before its while");
    tokio::time::advance(MINUTE).await;
    assert_eq!(settle(&mut alerter).await.told, 1);
    assert_eq!(alerter.problem(), None);
    assert_eq!(book.told.lock().expect("free").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_causes_is_bounded() {
    let book = Arc::new(Book::default());
    let mut alerter = Alerter::new(book.clone(), MINUTE);
    for n in 0..5_000 {
        alerter.died(death(&format!("cause {n}")));
    }
    assert!(alerter.queue.len() <= QUEUE_MAX);
    assert!(alerter.causes.len() <= CAUSES_MAX + 1);
    settle(&mut alerter).await;
    assert!(book.told.lock().expect("free").len() <= QUEUE_MAX);
}
