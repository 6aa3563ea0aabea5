//! The configuration in force, flat: dotted key, value without secrets, and where it came from.

use serde::Serialize;

use super::load::Loaded;
use super::{AlertTarget, Context, Service, duration};

/// One value in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Dotted key.
    pub key: String,
    /// Value as the file would write it; secrets are `***`. `None`: not set, and no default.
    pub value: Option<String>,
    /// `file:line`, or `default`.
    pub origin: String,
}

/// Every value of every context, in the order of the file's reference.
pub fn settings(loaded: &Loaded) -> Vec<Setting> {
    let mut list = List {
        loaded,
        out: Vec::new(),
    };
    list.add("default_context", loaded.config.default_context.clone());
    for context in &loaded.config.contexts {
        list.context(context);
    }
    list.out
}

struct List<'a> {
    loaded: &'a Loaded,
    out: Vec<Setting>,
}

impl List<'_> {
    fn add(&mut self, key: impl Into<String>, value: Option<String>) {
        let key = key.into();
        let origin = self.origin(&key);
        self.out.push(Setting { key, value, origin });
    }

    /// A URL may have come from a command, and its password from a key of its own.
    fn origin(&self, key: &str) -> String {
        let find = |key: &str| self.loaded.origins.get(key).cloned();
        find(key)
            .or_else(|| find(&format!("{key}_command")))
            .unwrap_or_else(|| "default".to_owned())
    }

    fn context(&mut self, context: &Context) {
        let path = format!("contexts.{}", context.name);
        let key = |name: &str| format!("{path}.{name}");
        self.add(
            key("environment"),
            Some(context.environment.word().to_owned()),
        );
        self.add(key("read_only"), Some(context.read_only.to_string()));
        self.add(key("amqp"), context.amqp.as_ref().map(url));
        self.add(key("management"), context.management.as_ref().map(url));
        self.add(
            key("rights"),
            Some(words(context.rights.iter().map(|v| v.word()))),
        );
        self.add(
            key("never_replay"),
            Some(words(context.never_replay.iter().map(String::as_str))),
        );
        self.add(
            key("inbox_retention"),
            context.inbox_retention.map(duration::show),
        );
        self.add(key("ticket_pattern"), context.ticket_pattern.clone());
        self.add(key("unlock"), Some(duration::show(context.unlock)));
        self.add(
            key("masked"),
            Some(words(context.masked.iter().map(String::as_str))),
        );
        for (index, rule) in context.owners.iter().enumerate() {
            let at = |name: &str| format!("{path}.owners[{index}].{name}");
            self.add(at("consumer"), rule.consumer.clone());
            self.add(at("event_type"), rule.event_type.clone());
            self.add(at("owner"), Some(rule.owner.clone()));
        }
        self.limits(context, &path);
        if let Some(hook) = &context.on_death {
            let (key, value) = match &hook.target {
                // Arguments may hold a token.
                AlertTarget::Command(words) => (
                    "command",
                    format!("[{:?}, …]", words.first().map_or("", String::as_str)),
                ),
                AlertTarget::Webhook { host, .. } => ("webhook", format!("{host}/***")),
            };
            let at = |name: &str| format!("{path}.on_death.{name}");
            self.add(at(key), Some(value));
            self.add(at("every"), Some(duration::show(hook.every)));
            self.add(at("time_limit"), Some(duration::show(hook.time_limit)));
        }
        for (index, service) in context.services.iter().enumerate() {
            self.service(service, &format!("{path}.services[{index}]"));
        }
    }

    fn limits(&mut self, context: &Context, path: &str) {
        let limits = &context.thresholds;
        let d = &context.dispatcher;
        let c = &context.consumer;
        let r = &context.retention;
        let v = &context.verdicts;
        let values = [
            ("thresholds.refresh", duration::show(limits.refresh)),
            ("thresholds.stale_after", duration::show(limits.stale_after)),
            (
                "thresholds.statement_timeout",
                duration::show(limits.statement_timeout),
            ),
            ("thresholds.count_cap", limits.count_cap.to_string()),
            ("thresholds.page_rows", limits.page_rows.to_string()),
            ("thresholds.clock_skew", duration::show(limits.clock_skew)),
            (
                "thresholds.proof_deadline",
                duration::show(limits.proof_deadline),
            ),
            (
                "thresholds.publish_deadline",
                duration::show(limits.publish_deadline),
            ),
            ("dispatcher.batch_rows", d.batch_rows.to_string()),
            ("dispatcher.lease", duration::show(d.lease)),
            ("dispatcher.send_deadline", duration::show(d.send_deadline)),
            ("dispatcher.attempts_max", d.attempts_max.to_string()),
            ("dispatcher.give_up_after", duration::show(d.give_up_after)),
            ("dispatcher.backoff_base", duration::show(d.backoff.base)),
            ("dispatcher.backoff_cap", duration::show(d.backoff.cap)),
            ("dispatcher.order", d.order.word().to_owned()),
            ("dispatcher.idle", duration::show(d.idle)),
            ("dispatcher.reap_rows", d.reap_rows.to_string()),
            ("dispatcher.reap_every", duration::show(d.reap_every)),
            ("consumer.prefetch", c.prefetch.to_string()),
            ("consumer.lanes", c.lanes.to_string()),
            (
                "consumer.retry_delays",
                words(
                    c.retry_delays
                        .iter()
                        .map(|delay| duration::show(*delay))
                        .collect::<Vec<_>>()
                        .iter()
                        .map(String::as_str),
                ),
            ),
            ("consumer.time_limit", duration::show(c.time_limit)),
            ("consumer.drain_limit", duration::show(c.drain_limit)),
            ("drill.quorum", context.drill.quorum.to_string()),
            ("retention.archive", r.archive.to_string()),
            ("retention.batch_rows", r.batch_rows.to_string()),
            ("retention.interval", duration::show(r.interval)),
            ("verdicts.every", duration::show(v.every)),
            ("verdicts.looks", v.looks.to_string()),
            ("verdicts.quiet_looks", v.quiet_looks.to_string()),
            ("verdicts.due", duration::show(v.due)),
            ("verdicts.lease", duration::show(v.lease)),
            ("verdicts.lock_wait", duration::show(v.lock_wait)),
            ("verdicts.transaction", duration::show(v.transaction)),
            ("verdicts.lag", duration::show(v.lag)),
            ("verdicts.consumed", duration::show(v.consumed)),
            ("verdicts.followed", duration::show(v.followed)),
            ("verdicts.waiting", duration::show(v.waiting)),
            ("verdicts.poison", v.poison.to_string()),
        ];
        for (key, value) in values {
            self.add(format!("{path}.{key}"), Some(value));
        }
        let scan = &context.scan;
        for (key, value) in [
            ("scan.grace", duration::show(scan.grace)),
            ("scan.window", duration::show(scan.window)),
            ("scan.second_look", duration::show(scan.second_look)),
        ] {
            self.add(format!("{path}.{key}"), Some(value));
        }
        for (index, rule) in scan.rules.iter().enumerate() {
            self.add(
                format!("{path}.scan.rules[{index}].name"),
                Some(rule.name.clone()),
            );
        }
        self.add(
            format!("{path}.retention.replay_window"),
            r.replay_window.map(duration::show),
        );
    }

    fn service(&mut self, service: &Service, path: &str) {
        let key = |name: &str| format!("{path}.{name}");
        self.add(key("name"), Some(service.name.clone()));
        self.add(key("database"), Some(url(&service.database)));
        self.add(key("journal"), Some(service.journal.to_string()));
        if let Some(part) = &service.outbox {
            self.add(key("outbox.layout"), Some(part.layout.clone()));
            self.add(key("outbox.table"), part.table.clone());
            self.add(key("outbox.exchange"), Some(part.exchange.clone()));
        }
        if let Some(part) = &service.inbox {
            self.add(key("inbox.layout"), Some(part.layout.clone()));
            self.add(key("inbox.table"), part.table.clone());
            self.add(key("inbox.consumer"), Some(part.consumer.to_string()));
            self.add(key("inbox.queue"), Some(part.queue.clone()));
        }
        if let Some(part) = &service.dead_letters {
            self.add(key("dead_letters.layout"), Some(part.layout.clone()));
            self.add(key("dead_letters.table"), part.table.clone());
            self.add(
                key("dead_letters.queues"),
                Some(words(part.queues.iter().map(String::as_str))),
            );
        }
        if let Some(part) = &service.sagas {
            self.add(key("sagas.layout"), Some(part.layout.clone()));
            self.add(key("sagas.table"), part.table.clone());
        }
    }
}

/// A URL that a command would print is not known until it is run.
fn url(url: &crate::base::secret::SecretUrl) -> String {
    if url.expose().is_empty() {
        "(printed by a command)".to_owned()
    } else {
        url.to_string()
    }
}

fn words<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<_> = items.map(|item| format!("{item:?}")).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::settings;
    use crate::config::init::TEMPLATE;
    use crate::config::load::{Secrets, parse};

    #[test]
    fn x_05_values_are_shown_with_their_place_and_without_secrets() {
        let env = |_: &str| Some("S3CRET-42".to_owned());
        for secrets in [Secrets::All, Secrets::None] {
            let loaded = parse("f", TEMPLATE, &env, secrets).expect("valid");
            let shown = settings(&loaded);
            let text = format!("{shown:?}");
            assert!(!text.contains("S3CRET-42"), "{text}");
            let amqp = shown
                .iter()
                .find(|s| s.key == "contexts.shop.amqp")
                .expect("listed");
            assert_eq!(
                amqp.value.as_deref(),
                Some("amqp://ops:***@mq.internal:5672/%2f")
            );
            assert!(amqp.origin.starts_with("f:"), "{}", amqp.origin);
            let lease = shown
                .iter()
                .find(|s| s.key == "contexts.shop.dispatcher.lease")
                .expect("listed");
            assert_eq!(
                (lease.value.as_deref(), lease.origin.as_str()),
                (Some("30s"), "default")
            );
        }
    }
}
