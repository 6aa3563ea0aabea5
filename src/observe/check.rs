//! What `redrive check` says about the broker. Databases speak for themselves (`Store::check`).

use std::collections::HashMap;
use std::sync::Arc;

use crate::broker::{Binding, Broker, BrokerError, BrokerOverview, QueueFacts};
use crate::config::Service;
use crate::store::{CheckLevel, CheckLine};

use super::Observer;
use super::queue_view::{Role, configured, role};
use super::reader::{AMQP, MANAGEMENT};
use super::snapshot::Unread;

impl Observer {
    /// Lines about the broker: both ports, exchanges, and every configured queue with where it
    /// dead-letters to or what dead-letters to it.
    pub async fn check_broker(&self) -> Vec<CheckLine> {
        let Some(broker) = &self.ports.broker else {
            return vec![line(
                "broker",
                CheckLevel::Warning,
                "not configured: set `amqp` to publish, collect and replay",
            )];
        };
        let mut lines = vec![self.check_amqp(broker).await];
        let is_up = lines.iter().all(|line| line.level == CheckLevel::Ok);
        let (is_managed, management) = self.check_management(broker).await;
        lines.extend(management);
        if is_managed {
            lines.extend(self.check_exchanges(broker).await);
        }
        if is_up {
            lines.extend(self.check_queues(broker, is_managed).await);
        }
        lines
    }

    async fn check_amqp(&self, broker: &Arc<dyn Broker>) -> CheckLine {
        let probe = self
            .reader
            .broker(AMQP, AMQP.to_owned(), "broker probe", broker.probe())
            .await;
        match probe {
            Ok(latency) => {
                let user = broker.user().map(|user| format!(" as {user}"));
                let amqp = self.ports.context.amqp.as_ref();
                let tls = amqp.is_some_and(|url| url.scheme() == "amqps");
                let finding = format!(
                    "{} reached{}{} in {:.1} ms",
                    broker.name(),
                    user.unwrap_or_default(),
                    if tls { " over TLS" } else { "" },
                    latency.as_secs_f64() * 1e3
                );
                line(AMQP, CheckLevel::Ok, &finding)
            }
            Err(unread) => failed(AMQP, &unread),
        }
    }

    /// Whether the management API can be asked, and its lines.
    async fn check_management(&self, broker: &Arc<dyn Broker>) -> (bool, Vec<CheckLine>) {
        let subject = "management API";
        let what = subject.to_owned();
        // Asked past the gate's words: `NotConfigured` is no failure here.
        let mut is_unconfigured = false;
        let overview = async {
            let answer = broker.overview().await;
            is_unconfigured = matches!(answer, Err(BrokerError::NotConfigured(_)));
            answer
        };
        let overview = self
            .reader
            .broker(MANAGEMENT, what, "management overview", overview)
            .await;
        match overview {
            Ok(overview) => (true, management_lines(subject, &overview)),
            Err(unread) if is_unconfigured => {
                let finding = format!(
                    "{}: rates, members, policies and bindings are not shown; set `management`",
                    unread.reason
                );
                (false, vec![line(subject, CheckLevel::Warning, &finding)])
            }
            Err(unread) => (false, vec![failed(subject, &unread)]),
        }
    }

    async fn check_exchanges(&self, broker: &Arc<dyn Broker>) -> Vec<CheckLine> {
        let mut lines: Vec<CheckLine> = Vec::new();
        for (service, exchange) in self.ports.context.services.iter().filter_map(exchange_of) {
            let subject = format!("exchange {exchange}");
            if lines.iter().any(|line| line.subject == subject) {
                continue;
            }
            let read = self.bindings_of(broker, exchange).await;
            lines.push(match read {
                Ok(None) => line(
                    &subject,
                    CheckLevel::Problem,
                    &format!("does not exist: declare it, or correct outbox.exchange of {service}"),
                ),
                Ok(Some(bindings)) if bindings.is_empty() => line(
                    &subject,
                    CheckLevel::Warning,
                    "nothing is bound to it: every publish would be returned",
                ),
                Ok(Some(bindings)) => line(
                    &subject,
                    CheckLevel::Ok,
                    &format!("bound to {}", destinations(&bindings)),
                ),
                Err(unread) => failed(&subject, &unread),
            });
        }
        lines
    }

    async fn check_queues(&self, broker: &Arc<dyn Broker>, is_managed: bool) -> Vec<CheckLine> {
        let context = &self.ports.context;
        let names = configured(context);
        let mut routes = Vec::new();
        let mut lines = Vec::new();
        for name in names.iter().filter(|n| role(context, n) == Role::Work) {
            lines.push(self.check_depth(name).await);
            if is_managed {
                let (route, line) = self.check_route(broker, name).await;
                routes.extend(route);
                lines.push(line);
            }
        }
        for name in names
            .iter()
            .filter(|n| role(context, n) == Role::DeadLetters)
        {
            lines.push(self.check_depth(name).await);
            if is_managed {
                lines.push(fed_by(name, &routes));
            }
        }
        lines
    }

    async fn check_depth(&self, queue: &str) -> CheckLine {
        let subject = format!("queue {queue}");
        let is_work = role(&self.ports.context, queue) == Role::Work;
        match self.depth(queue).await {
            Ok(None) => line(
                &subject,
                CheckLevel::Problem,
                "does not exist: declare it, or correct its name in the configuration",
            ),
            Ok(Some(depth)) => {
                let finding = format!("{} ready, {} consumers", depth.ready, depth.consumers);
                let level = if is_work && depth.consumers == 0 {
                    CheckLevel::Warning
                } else {
                    CheckLevel::Ok
                };
                line(&subject, level, &finding)
            }
            Err(unread) => failed(&subject, &unread),
        }
    }

    /// Where a work queue dead-letters to.
    async fn check_route(
        &self,
        broker: &Arc<dyn Broker>,
        queue: &str,
    ) -> (Option<Route>, CheckLine) {
        let subject = format!("dead-lettering of {queue}");
        let facts = self
            .reader
            .broker(
                MANAGEMENT,
                format!("facts of {queue}"),
                "queue facts",
                broker.queue(queue),
            )
            .await;
        let facts = match facts {
            Ok(Some(facts)) => facts,
            Ok(None) => return (None, line(&subject, CheckLevel::Problem, "no such queue")),
            Err(unread) => return (None, failed(&subject, &unread)),
        };
        let Some(exchange) = facts.dead_letter_exchange.clone() else {
            let finding = "to nothing: a rejected message is lost; set a dead-letter exchange by policy or argument";
            return (None, line(&subject, CheckLevel::Warning, finding));
        };
        let targets = match self.targets_of(broker, &exchange, &facts).await {
            Ok(targets) => targets,
            Err(unread) => return (None, failed(&subject, &unread)),
        };
        let shown = if exchange.is_empty() {
            "the default exchange".to_owned()
        } else {
            format!("exchange {exchange}")
        };
        let out = if targets.is_empty() {
            let finding = format!("through {shown} to no queue: a rejected message is lost");
            line(&subject, CheckLevel::Warning, &finding)
        } else {
            let finding = format!("through {shown} to {}", targets.join(", "));
            line(&subject, CheckLevel::Ok, &finding)
        };
        let route = Route {
            queue: queue.to_owned(),
            exchange: shown,
            targets,
        };
        (Some(route), out)
    }

    /// Queues a dead message can come to, by binding; keys are not matched against each other.
    async fn targets_of(
        &self,
        broker: &Arc<dyn Broker>,
        exchange: &str,
        facts: &QueueFacts,
    ) -> Result<Vec<String>, Unread> {
        if exchange.is_empty() {
            return Ok(facts.dead_letter_routing_key.iter().cloned().collect());
        }
        let bindings = self.bindings_of(broker, exchange).await?;
        let mut targets: Vec<String> = bindings
            .into_iter()
            .flatten()
            .filter(|binding| binding.is_to_queue)
            .map(|binding| binding.destination)
            .collect();
        targets.sort_unstable();
        targets.dedup();
        Ok(targets)
    }
}

/// Where one work queue's dead messages go.
struct Route {
    queue: String,
    exchange: String,
    targets: Vec<String>,
}

fn exchange_of(service: &Service) -> Option<(&str, &str)> {
    let exchange = service.outbox.as_ref()?.exchange.as_str();
    (!exchange.is_empty()).then_some((service.name.as_str(), exchange))
}

fn fed_by(dead_letter_queue: &str, routes: &[Route]) -> CheckLine {
    let subject = format!("feeding of {dead_letter_queue}");
    let feeders: Vec<String> = routes
        .iter()
        .filter(|route| route.targets.iter().any(|t| t == dead_letter_queue))
        .map(|route| format!("{} through {}", route.queue, route.exchange))
        .collect();
    if feeders.is_empty() {
        return line(
            &subject,
            CheckLevel::Warning,
            "no configured queue dead-letters to it: is its name right?",
        );
    }
    line(&subject, CheckLevel::Ok, &feeders.join(", "))
}

fn management_lines(subject: &str, overview: &BrokerOverview) -> Vec<CheckLine> {
    let mut lines = vec![line(subject, CheckLevel::Ok, &overview.product)];
    if let Some(problem) = &overview.nodes_problem {
        lines.push(line("nodes", CheckLevel::Warning, problem));
    }
    for node in overview.nodes.iter().flatten() {
        let alarms = [
            (
                "memory alarm: publishing is blocked",
                node.memory_alarm == Some(true),
            ),
            (
                "disk alarm: publishing is blocked",
                node.disk_alarm == Some(true),
            ),
            ("is down", node.is_running == Some(false)),
        ];
        for (alarm, _) in alarms.iter().filter(|(_, is_on)| *is_on) {
            lines.push(line(
                &format!("node {}", node.name),
                CheckLevel::Problem,
                alarm,
            ));
        }
    }
    lines
}

/// Destinations with their keys: `inventory.orders (order.*), audit (#)`.
fn destinations(bindings: &[Binding]) -> String {
    let mut keys: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut order: Vec<&str> = Vec::new();
    for binding in bindings {
        let entry = keys.entry(&binding.destination).or_default();
        if entry.is_empty() {
            order.push(&binding.destination);
        }
        entry.push(&binding.routing_key);
    }
    let shown: Vec<String> = order
        .iter()
        .map(|name| {
            let keys = keys
                .get(name)
                .map(|keys| keys.join(" "))
                .unwrap_or_default();
            format!("{name} ({keys})")
        })
        .collect();
    shown.join(", ")
}

fn line(subject: &str, level: CheckLevel, finding: &str) -> CheckLine {
    CheckLine {
        subject: subject.to_owned(),
        level,
        finding: finding.to_owned(),
    }
}

fn failed(subject: &str, unread: &Unread) -> CheckLine {
    let level = if unread.is_unreachable {
        CheckLevel::Unreachable
    } else {
        CheckLevel::Problem
    };
    line(subject, level, &unread.reason)
}
