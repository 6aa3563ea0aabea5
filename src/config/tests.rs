//! The file as people write it, and as they get it wrong.

use std::path::Path;
use std::time::Duration;

use rstest::rstest;

use super::load::{Secrets, find, load, parse};
use super::{Config, ConfigError, Environment};
use crate::model::operation::Verb;

const SHOP: &str = r#"
default_context = "shop"

[contexts.shop]
environment = "staging"
amqp        = "amqp://ops:${AMQP_PASSWORD}@mq.internal:5672/%2f"
management  = "https://ops:${AMQP_PASSWORD}@mq.internal:15671"

[[contexts.shop.services]]
name     = "orders"
database = "mysql://ops:${ORDERS_PASSWORD}@db.internal/orders"
outbox   = { layout = "native", exchange = "shop.events" }
sagas    = { layout = "native" }

[[contexts.shop.services]]
name         = "inventory"
database     = "mysql://ops:${INVENTORY_PASSWORD}@db.internal/inventory"
inbox        = { layout = "native", consumer = "inventory", queue = "inventory.orders" }
outbox       = { layout = "native", exchange = "shop.events" }
dead_letters = { layout = "native", queues = ["inventory.orders.dlq"] }
"#;

fn env(name: &str) -> Option<String> {
    name.ends_with("_PASSWORD").then(|| "S3CRET-42".to_owned())
}

fn read(text: &str) -> Result<Config, ConfigError> {
    parse("redrive.toml", text, &env, Secrets::All).map(|loaded| loaded.config)
}

/// A context with one service, each with extra lines.
fn with(context: &str, service: &str) -> Result<Config, ConfigError> {
    read(&format!(
        "[contexts.a]\nenvironment = \"sandbox\"\n{context}\n[[contexts.a.services]]\nname = \"orders\"\n{service}\n"
    ))
}

const SERVICE: &str = "database = \"sqlite:a.db\"\noutbox = { exchange = \"e\" }";

#[test]
fn the_file_of_the_manual_is_read_whole() {
    let config = read(SHOP).expect("valid");
    let shop = config.context(None).expect("default");
    assert_eq!(shop.environment, Environment::Staging);
    assert_eq!(
        shop.amqp.as_ref().expect("amqp").expose(),
        "amqp://ops:S3CRET-42@mq.internal:5672/%2f"
    );
    assert_eq!(shop.rights, Verb::ALL);
    let inventory = shop.service("inventory").expect("service");
    assert!(inventory.journal);
    assert_eq!(
        inventory.dead_letters.as_ref().expect("part").queues,
        ["inventory.orders.dlq"]
    );
    assert!(!format!("{config:?}").contains("S3CRET-42"), "x_05");
}

#[test]
fn every_optional_key_is_read() {
    let config = with(
        r#"
        read_only = true
        rights = ["replay"]
        never_replay = ["order.cancelled"]
        inbox_retention = "30d"
        ticket_pattern = "OPS-####"
        unlock = "5m"
        masked = ["customer.email"]
        owners = [{ consumer = "inventory", event_type = "order.*", owner = "mia" }]
        thresholds = { refresh = "2s", stale_after = "10s", statement_timeout = "1s", count_cap = 500, page_rows = 50, clock_skew = "1s", proof_deadline = "30s", publish_deadline = "5s" }
        dispatcher = { batch_rows = 10, lease = "20s", send_deadline = "5s", attempts_max = 3, backoff_base = "1s", backoff_cap = "1m", give_up_after = "2h", order = "sequence", idle = "1s", reap_rows = 50, reap_every = "2s" }
        "#,
        SERVICE,
    )
    .expect("valid");
    let context = config.context(Some("a")).expect("context");
    assert!(context.read_only);
    assert_eq!(context.rights, [Verb::Replay]);
    assert_eq!(context.inbox_retention, Some(Duration::from_hours(720)));
    assert_eq!(context.unlock, Duration::from_mins(5));
    assert_eq!(context.owners[0].owner, "mia");
    assert_eq!(context.thresholds.count_cap, 500);
    assert_eq!(context.dispatcher.backoff.cap, Duration::from_mins(1));
    assert_eq!(context.dispatcher.order, super::Order::Sequence);
    assert_eq!(
        context.dispatcher.statement_timeout,
        Duration::from_secs(1),
        "the context's"
    );
}

#[rstest]
#[case(
    "enviroment = 1",
    SERVICE,
    "redrive.toml:3: contexts.a.enviroment: is not a known key; did you mean `environment`?"
)]
#[case(
    "amqp = 5",
    SERVICE,
    "redrive.toml:3: contexts.a.amqp: must be a text, not a whole number; change it to a text"
)]
#[case(
    "rights = [\"reply\"]",
    SERVICE,
    "redrive.toml:3: contexts.a.rights: has a word that is no verb: \"reply\"; use some of: replay, repair, release, discard, saga_retry, saga_query, saga_compensate, saga_handled, saga_assign; an empty list allows nothing"
)]
#[case(
    "unlock = 5",
    SERVICE,
    "redrive.toml:3: contexts.a.unlock: has no unit; write it as a number with a unit, e.g. \"250ms\", \"30s\", \"5m\", \"12h\" or \"30d\""
)]
#[case(
    "amqp = \"${NOPE}\"",
    SERVICE,
    "redrive.toml:3: contexts.a.amqp: environment variable NOPE is not set; export NOPE, or write `$$` for a dollar sign"
)]
#[case(
    "amqp = \"http://x\"",
    SERVICE,
    "redrive.toml:3: contexts.a.amqp: does not start with a scheme that is known here; use amqp:, amqps:, embedded: (e.g. amqp://ops@mq.internal:5672/%2f)"
)]
#[case(
    "dispatcher = { batch_rows = 10000, order = \"sequence\" }",
    SERVICE,
    "redrive.toml:3: contexts.a.dispatcher.batch_rows: a batch may not be sent in time: batch_rows 10000 × 2ms a row (order = \"sequence\") = 20s, which is above send_deadline 10s; make send_deadline at least 20s, or batch_rows smaller"
)]
#[case(
    "dispatcher = { order = \"random\" }",
    SERVICE,
    "redrive.toml:3: contexts.a.dispatcher.order: is not an order; use \"due\" (oldest due first) or \"sequence\" (rows of one aggregate by version)"
)]
#[case(
    "dispatcher = { lease = \"10s\" }",
    SERVICE,
    "redrive.toml:3: contexts.a.dispatcher.lease: a batch may outlive its lease: statement_timeout 3s (the claim's answer) + send_deadline 10s + statement_timeout 3s (the sent mark) = 16s, which is not below lease 10s; make lease longer than 16s"
)]
#[case(
    "",
    "database = \"sqlite:a.db\"\noutbox = { layout = \"nativ\", exchange = \"e\" }",
    "redrive.toml:7: contexts.a.services[0].outbox.layout: \"nativ\" is not a known layout; did you mean \"native\"?"
)]
#[case(
    "",
    "database = \"sqlite:a.db\"\ndead_letters = { layout = \"compact\", queues = [\"q\"] }",
    "redrive.toml:7: contexts.a.services[0].dead_letters.layout: \"compact\" cannot be used here: the compact layout has no table of dead letters; use \"native\""
)]
#[case(
    "",
    "database = \"sqlite:a.db\"\ndead_letters = { queues = [] }",
    "redrive.toml:7: contexts.a.services[0].dead_letters.queues: names no dead-letter queue, so nothing would ever be collected; name at least one, e.g. queues = [\"inventory.orders.dlq\"]"
)]
#[case(
    "",
    "database = \"sqlite:a.db\"\ninbox = { consumer = \"c\" }",
    "redrive.toml:7: contexts.a.services[0].inbox.queue: is missing; name the queue it consumes"
)]
#[case(
    "",
    "database = \"sqlite:a.db\"\ninbox = { consumer = \"c\", queue = \"q\" }\ndead_letters = { queues = [\"q\"] }",
    "redrive.toml:8: contexts.a.services[0].dead_letters: collects from \"q\", which a consumer works on; name the dead-letter queue, not the work queue"
)]
#[case(
    "",
    "outbox = { exchange = \"e\" }",
    "redrive.toml:4: contexts.a.services[0].database: is missing; add database = \"…\", e.g. mysql://ops@db.internal/orders or sqlite:/path/to/file.db"
)]
#[case(
    "",
    "database = \"sqlite:a.db\"\noutbox = { exchange = \"e\" }\n[[contexts.a.services]]\nname = \"orders\"",
    "redrive.toml:9: contexts.a.services[1].name: \"orders\" is used twice; give each service its own name"
)]
#[case(
    "x = \"unfinished",
    SERVICE,
    "redrive.toml:3: (syntax): is not TOML: invalid basic string, expected `\"`; mend this line; texts stand in double quotes"
)]
fn a_mistake_names_file_line_key_and_fix(
    #[case] context: &str,
    #[case] service: &str,
    #[case] message: &str,
) {
    let error = with(context, service).expect_err("refused");
    assert_eq!(error.to_string(), message);
}

#[rstest]
#[case("\\n", "ends with a line break")]
#[case("\\r", "ends with a line break")]
#[case(" ", "starts or ends with a space")]
fn n_04_a_line_break_in_a_name_is_refused(#[case] end: &str, #[case] problem: &str) {
    let error = with(
        "",
        &format!("database = \"sqlite:a.db\"\ndead_letters = {{ queues = [\"orders.dlq{end}\"] }}"),
    )
    .expect_err("refused");
    assert_eq!(error.problem, problem);
    assert_eq!(error.key, "contexts.a.services[0].dead_letters.queues");
}

#[test]
fn n_04_a_variable_that_ends_with_a_line_break_is_refused() {
    let env = |_: &str| Some("orders.dlq\n".to_owned());
    let text = "[contexts.a]\nenvironment = \"sandbox\"\n[[contexts.a.services]]\nname = \"o\"\n\
                database = \"sqlite:a.db\"\ndead_letters = { queues = [\"${DLQ}\"] }";
    let error = parse("f", text, &env, Secrets::All).expect_err("refused");
    assert_eq!(error.problem, "ends with a line break");
}

const HARD: &str = "p@ss:w/o#r?d%41[x]\"'\\ é";
const HARD_ENCODED: &str = "p%40ss%3Aw%2Fo%23r%3Fd%2541%5Bx%5D%22%27%5C%20%C3%A9";

#[rstest]
#[case("database", "mysql", "mysql://ops@db/orders")]
#[case("amqp", "amqp", "amqp://ops@mq/%2f")]
#[case("management", "http", "http://ops@mq:15672")]
fn x_04_a_password_in_a_key_of_its_own_is_encoded(
    #[case] key: &str,
    #[case] scheme: &str,
    #[case] url: &str,
) {
    let dir = tempfile::tempdir().expect("temp dir");
    let file = dir.path().join("password");
    std::fs::write(&file, format!("{HARD}\n")).expect("written");
    let env = |name: &str| (name == "HARD").then(|| HARD.to_owned());
    let file = file.display().to_string();
    let printf = HARD.replace('\\', "\\\\").replace('"', "\\\"");
    for line in [
        format!("{key}_password_env = \"HARD\""),
        format!("{key}_password_file = \"{file}\""),
        format!("{key}_password_command = [\"printf\", \"%s\\n\", \"{printf}\"]"),
    ] {
        let lines = format!("{key} = \"{url}\"\n{line}");
        let text = if key == "database" {
            format!(
                "[contexts.a]\nenvironment = \"sandbox\"\n[[contexts.a.services]]\nname = \"o\"\n{lines}\njournal = true"
            )
        } else {
            format!(
                "[contexts.a]\nenvironment = \"sandbox\"\n{lines}\n[[contexts.a.services]]\nname = \"o\"\n{SERVICE}"
            )
        };
        let config = parse("f", &text, &env, Secrets::All).expect("valid").config;
        let context = &config.contexts[0];
        let got = match key {
            "database" => Some(&context.services[0].database),
            "amqp" => context.amqp.as_ref(),
            _ => context.management.as_ref(),
        };
        let got = got.expect("configured").expose();
        let encoded = got
            .strip_prefix(&format!("{scheme}://ops:"))
            .and_then(|rest| rest.split('@').next())
            .expect("user and password");
        assert_eq!(
            percent_encoding::percent_decode_str(encoded)
                .decode_utf8()
                .expect("utf-8"),
            HARD
        );
    }
}

#[test]
fn x_04_an_encoded_password_in_the_url_is_taken() {
    let url = format!("amqp://ops:{HARD_ENCODED}@mq/%2f");
    let config = with(&format!("amqp = \"{url}\""), SERVICE).expect("valid");
    assert_eq!(
        config.contexts[0].amqp.as_ref().expect("amqp").expose(),
        url
    );
}

#[rstest]
#[case("amqp", "amqp")]
#[case("management", "https")]
fn x_04_a_raw_password_is_refused_without_printing_it(#[case] key: &str, #[case] scheme: &str) {
    let url = format!("{scheme}://ops:{HARD}@mq/%2f")
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    let error = with(&format!("{key} = \"{url}\""), SERVICE)
        .expect_err("refused")
        .to_string();
    assert!(error.contains("encode special characters"), "{error}");
    assert!(error.contains(&format!("{key}_password_file")), "{error}");
    for part in ["p@ss", "w/o", "r?d", "[x]"] {
        assert!(!error.contains(part), "{error}");
    }
}

#[rstest]
#[case("amqp = \"amqp://ops:S3CRET-42@mq:99999/x\"")]
#[case("amqp = \"amqp:S3CRET-42\"")]
#[case("amqp = \"S3CRET-42\"")]
#[case("amqp = \"amqp://ops:S3CRET-42@mq\"\namqp_password_env = \"AMQP_PASSWORD\"")]
#[case("amqp = \"amqp://ops:S3CRET-42@mq")]
#[case("amqp = \"amqp://ops:S3CRET-42@mq\" x")]
#[case(
    "amqp_password_command = [\"sh\", \"-c\", \"echo S3CRET-42 >&2; exit 1\"]\namqp = \"amqp://o@mq\""
)]
#[case("amqp = { url = \"amqp://ops:S3CRET-42@mq\" }")]
#[case("environmet = \"S3CRET-42\"")]
fn x_05_no_error_repeats_a_secret(#[case] lines: &str) {
    let error = with(lines, SERVICE).expect_err("refused");
    assert!(
        !format!("{error} {error:?}").contains("S3CRET-42"),
        "{error}"
    );
}

#[test]
fn a_command_gives_the_whole_url() {
    let config = with(
        "",
        "database_command = [\"echo\", \"mysql://ops:x@db/orders\"]\njournal = true",
    )
    .expect("valid");
    assert_eq!(
        config.contexts[0].services[0].database.expose(),
        "mysql://ops:x@db/orders"
    );
}

#[test]
fn secrets_of_other_contexts_are_not_fetched() {
    let text = format!(
        "{SHOP}\n[contexts.prod]\nenvironment = \"production\"\namqp_command = [\"false\"]\n\
         [[contexts.prod.services]]\nname = \"orders\"\ndatabase = \"mysql://ops:${{NOT_SET}}@db/orders\"\njournal = true\n"
    );
    let only = |name| parse("f", &text, &env, Secrets::Only(name));
    assert!(only(None).is_ok());
    assert!(only(Some("prod")).is_err());
    assert!(parse("f", &text, &env, Secrets::All).is_err());
    assert!(parse("f", &text, &env, Secrets::None).is_ok());
}

#[test]
fn the_file_is_looked_for_in_order() {
    let dir = tempfile::tempdir().expect("temp dir");
    let home = dir.path().display().to_string();
    let env = |name: &str| (name == "HOME").then(|| home.clone());
    let missing = find(None, &env).expect_err("none there");
    assert!(
        missing.problem.contains("/.config/redrive/redrive.toml"),
        "{missing}"
    );
    assert!(missing.fix.contains("redrive config init"));

    let place = dir.path().join(".config/redrive");
    std::fs::create_dir_all(&place).expect("created");
    std::fs::write(place.join("redrive.toml"), SHOP).expect("written");
    assert_eq!(find(None, &env).expect("found"), place.join("redrive.toml"));

    let named = |name: &str| (name == "REDRIVE_CONFIG").then(|| "/nowhere.toml".to_owned());
    assert_eq!(
        find(None, &named).expect("named"),
        Path::new("/nowhere.toml")
    );
    assert_eq!(
        find(Some(Path::new("x")), &named).expect("flag"),
        Path::new("x")
    );
    let unreadable = load(None, &named).expect_err("not there");
    assert_eq!(unreadable.origin, "/nowhere.toml");
}

#[test]
fn the_consumers_limits_are_read_and_contradictions_refused() {
    let lines =
        "consumer = { lanes = 2, retry_delays = [\"250ms\", \"1m\"], time_limit = \"20s\" }";
    let config = with(lines, SERVICE).expect("valid");
    let limits = &config.contexts[0].consumer;
    assert_eq!((limits.lanes, limits.prefetch), (2, 50));
    let delays = [Duration::from_millis(250), Duration::from_mins(1)];
    assert_eq!(limits.retry_delays, delays);
    for (lines, told) in [
        ("consumer = { lanes = 99 }", "use 1 to 6"),
        ("consumer = { retry_delays = [\"0s\"] }", "zero"),
        ("consumer = { retry_delays = [\"5\"] }", "has no unit"),
        ("consumer = { time_limit = \"1s\" }", "statement_timeout 3s"),
        ("consumer = { attempts = 3 }", "is not a known key"),
    ] {
        let error = with(lines, SERVICE).expect_err(lines).to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn n_05_a_queue_whose_retry_queue_would_have_too_long_a_name_is_refused() {
    let service = |queue: &str| {
        format!(
            "database = \"sqlite:a.db\"\ninbox = {{ consumer = \"a\", queue = \"{queue}\" }}\n\
             dead_letters = {{ queues = [\"dlq\"] }}"
        )
    };
    // 255 bytes less `.retry.30000`.
    assert!(with("", &service(&"x".repeat(243))).is_ok());
    let error = with("", &service(&"x".repeat(244))).expect_err("too long");
    assert!(error.to_string().contains("256 bytes"), "{error}");
    // Bytes count, not characters.
    let odd = format!("{}x", "é".repeat(127));
    let error = with("", &service(&odd)).expect_err("too long");
    assert!(error.to_string().contains("shorter queue name"), "{error}");
    let none = "consumer = { retry_delays = [] }";
    assert!(with(none, &service(&odd)).is_ok(), "no name is made of it");
    let parked = service("q").replace("\"dlq\"", &format!("\"{}\"", "y".repeat(250)));
    let error = with("", &parked).expect_err("too long");
    assert!(error.to_string().contains(".parked"), "{error}");
}

#[test]
fn i_01_dead_letters_may_not_be_replayed_for_longer_than_the_inbox_remembers() {
    let lines = |window: &str| {
        format!("inbox_retention = \"7d\"\nretention = {{ replay_window = \"{window}\" }}")
    };
    let config = with(&lines("7d"), SERVICE).expect("valid");
    let window = config.contexts[0].retention.replay_window;
    assert_eq!(window, Some(Duration::from_hours(7 * 24)));
    let error = with(&lines("10d"), SERVICE)
        .expect_err("too long")
        .to_string();
    assert!(error.contains("for 10d, inbox_retention is 7d"), "{error}");
    assert!(error.contains("take effect twice"), "{error}");
}

#[test]
fn x_05_an_alert_hook_is_read_and_its_secret_never_shown() {
    let hook = "on_death = { webhook = \"https://alerts.internal:8443/hook/S3CRET-42\" }";
    let text = format!(
        "[contexts.a]\nenvironment = \"sandbox\"\n{hook}\n[[contexts.a.services]]\nname = \"orders\"\n{SERVICE}\n"
    );
    let loaded = parse("f", &text, &env, Secrets::All).expect("valid");
    let shown = super::show::settings(&loaded);
    let webhook = shown
        .iter()
        .find(|setting| setting.key == "contexts.a.on_death.webhook")
        .expect("shown");
    let value = webhook.value.as_deref();
    assert_eq!(value, Some("https://alerts.internal:8443/***"));
    assert!(!format!("{shown:?}{:?}", loaded.config).contains("S3CRET"));
    for (lines, told) in [
        ("on_death = { }", "says nobody to tell"),
        ("on_death = { command = [] }", "names no program"),
        (
            "on_death = { webhook = \"ftp://S3CRET-42/x\" }",
            "neither http: nor https:",
        ),
        ("on_death = { webhook = \"S3CRET-42\" }", "is not a URL"),
        (
            "on_death = { webhook = \"https://a/S3CRET-42\", command = [\"b\"] }",
            "together with `command`",
        ),
    ] {
        let error = with(lines, SERVICE).expect_err(lines).to_string();
        assert!(error.contains(told), "{error}");
        assert!(!error.contains("S3CRET"), "{error}");
    }
}
