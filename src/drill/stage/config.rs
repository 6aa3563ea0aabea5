//! The configuration of a drill's processes: the context as it is, its servers behind the drill's
//! proxies, short limits so that recovery is seen soon. URLs stand in the environment, not in the file.

use std::fmt::Write as _;
use std::path::Path;

use crate::config::Context;

/// The context's name in the file.
pub const CONTEXT: &str = "drill";
/// Variable with the broker's URL.
pub const AMQP: &str = "REDRIVE_DRILL_AMQP";
/// Variable with the management API's URL.
pub const MANAGEMENT: &str = "REDRIVE_DRILL_MANAGEMENT";

/// A claim holds so long in a drill: a batch of its few rows takes milliseconds.
pub const LEASE_S: u64 = 6;

/// Limits of a drill's workers: `send_deadline` and two `statement_timeout` must stay below the lease.
const LIMITS: &str = r#"
[contexts.drill.thresholds]
statement_timeout = "1500ms"
publish_deadline = "3s"
[contexts.drill.dispatcher]
lease = "6s"
send_deadline = "2s"
reap_every = "200ms"
attempts_max = 50
backoff_base = "100ms"
backoff_cap = "2s"
idle = "50ms"
[contexts.drill.consumer]
retry_delays = ["500ms", "1s", "2s"]
"#;

/// Variable with a service's database URL.
pub fn database(service: &str) -> String {
    let name: String = service
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    format!("REDRIVE_DRILL_DATABASE_{name}")
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The file's text.
pub fn text(context: &Context, alerts: &Path) -> String {
    let mut out = format!(
        "default_context = \"{CONTEXT}\"\n[contexts.{CONTEXT}]\nenvironment = \"sandbox\"\namqp = \"${{{AMQP}}}\"\n"
    );
    let mut add = |line: String| out.push_str(&line);
    if context.management.is_some() {
        add(format!("management = \"${{{MANAGEMENT}}}\"\n"));
    }
    add(LIMITS.to_owned());
    add(format!(
        "[contexts.{CONTEXT}.on_death]\ncommand = [\"tee\", \"-a\", {}]\n",
        quoted(&alerts.display().to_string())
    ));
    for service in &context.services {
        let mut part = format!(
            "\n[[contexts.{CONTEXT}.services]]\nname = {}\ndatabase = \"${{{}}}\"\n",
            quoted(&service.name),
            database(&service.name)
        );
        if let Some(outbox) = &service.outbox {
            table(
                &mut part,
                "outbox",
                &outbox.layout,
                outbox.table.as_deref(),
                |fields| {
                    fields.push(format!("exchange = {}", quoted(&outbox.exchange)));
                },
            );
        }
        if let Some(inbox) = &service.inbox {
            table(
                &mut part,
                "inbox",
                &inbox.layout,
                inbox.table.as_deref(),
                |fields| {
                    fields.push(format!("consumer = {}", quoted(inbox.consumer.as_str())));
                    fields.push(format!("queue = {}", quoted(&inbox.queue)));
                },
            );
        }
        if let Some(letters) = &service.dead_letters {
            table(
                &mut part,
                "dead_letters",
                &letters.layout,
                letters.table.as_deref(),
                |fields| {
                    let queues: Vec<String> = letters.queues.iter().map(|q| quoted(q)).collect();
                    fields.push(format!("queues = [{}]", queues.join(", ")));
                },
            );
        }
        if let Some(sagas) = &service.sagas {
            table(
                &mut part,
                "sagas",
                &sagas.layout,
                sagas.table.as_deref(),
                |_| {},
            );
        }
        add(part);
    }
    out
}

fn table(
    out: &mut String,
    name: &str,
    layout: &str,
    table: Option<&str>,
    more: impl FnOnce(&mut Vec<String>),
) {
    let mut fields = vec![format!("layout = {}", quoted(layout))];
    if let Some(table) = table {
        fields.push(format!("table = {}", quoted(table)));
    }
    more(&mut fields);
    // Writing to a String cannot fail.
    if writeln!(out, "{name} = {{ {} }}", fields.join(", ")).is_err() {
        tracing::warn!(name, "a part of the drill's configuration was not written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::{Secrets, parse};
    use crate::sandbox::demo_context;

    #[test]
    fn what_is_written_is_read_as_the_same_services() {
        let context = demo_context(std::path::Path::new("/demo"));
        let text = text(&context, Path::new("/demo/alerts.log"));
        let env = |name: &str| {
            Some(match name {
                AMQP => "amqp://u:S3CRET@h:5672/%2f".to_owned(),
                other => format!("mysql://u:S3CRET@h/{}", other.to_lowercase()),
            })
        };
        let loaded = parse("f", &text, &env, Secrets::All).expect("valid");
        let read = loaded.config.context(None).expect("one context");
        assert!(!text.contains("S3CRET"));
        for (a, b) in read.services.iter().zip(&context.services) {
            assert_eq!(
                (&a.name, &a.outbox, &a.inbox),
                (&b.name, &b.outbox, &b.inbox)
            );
            assert_eq!((&a.dead_letters, &a.sagas), (&b.dead_letters, &b.sagas));
        }
        assert_eq!(read.dispatcher.lease.as_secs(), LEASE_S);
    }
}
