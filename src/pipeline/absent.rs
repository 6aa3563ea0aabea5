//! A consumer that was asked for by name and cannot run: said in every report, not left out in
//! silence.

use async_trait::async_trait;

use super::{Report, Worker, consumer};

/// Stands for a consumer without a handler.
pub(super) struct Absent {
    service: String,
    problem: String,
}

impl Absent {
    /// For `service`'s inbox called `consumer`.
    pub(super) fn new(service: &str, consumer: &str) -> Self {
        Self {
            service: service.to_owned(),
            problem: format!(
                "this program has no handler for consumer {consumer}: its effect is the service's \
                 own code, which calls pipeline::consumer; nothing is consumed here"
            ),
        }
    }
}

#[async_trait]
impl Worker for Absent {
    fn name(&self) -> &'static str {
        consumer::NAME
    }

    fn service(&self) -> &str {
        &self.service
    }

    async fn run_once(&mut self) -> Report {
        let mut report = Report::new(consumer::NAME, &self.service);
        report.is_idle = true;
        report.problem = Some(self.problem.clone());
        report
    }

    async fn drain(&mut self) {}
}
