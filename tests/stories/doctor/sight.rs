//! Faults of what the console looks through: servers that are away, rights that are missing, clocks, and a
//! broker that loses nodes.

use redrive::drill::proxy::Line;

use super::super::node::{FIRST, Node};
use super::super::shop::{QUEUE, python, until};
use super::stage::{Stage, is_quiet};

/// Other nodes of a cluster of three.
const SECOND: &str = "rabbitmq-2";
const THIRD: &str = "rabbitmq-3";

/// The server of one URL of the configuration is away.
async fn is_away(stage: &mut Stage, url: &str) {
    let through = stage.proxy_to(url).await;
    stage.look_through("away", |text| text.replacen(url, &through, 1));
    let seen = stage.doctor().await;
    assert!(is_quiet(&seen), "through the proxy all is seen: {seen:#?}");
    stage.line(Line::Refused);
}

pub async fn the_database_is_away(stage: &mut Stage) {
    let url = format!("{}/{}", stage.shop.servers.mariadb, stage.shop.database());
    is_away(stage, &url).await;
}

pub async fn the_broker_is_away(stage: &mut Stage) {
    let url = stage.shop.amqp_url.clone();
    is_away(stage, &url).await;
}

pub async fn the_management_is_away(stage: &mut Stage) {
    let url = stage.shop.servers.management.clone();
    is_away(stage, &url).await;
}

/// The same console, without another look at its configuration, once the server is back.
pub fn the_server_is_back(stage: &Stage) {
    stage.line(Line::Open);
}

/// An account of the management API with these tags, and no right anywhere.
pub async fn the_account_has_no_rights(stage: &mut Stage, tags: &str) {
    let management = stage.shop.servers.management.clone();
    let name = account_name();
    python(&["blind", &management, &name, "x", tags], "").await;
    let blind = with_account(&management, &name);
    stage.look_through("blind", |text| text.replacen(&management, &blind, 1));
    stage.account = Some(name);
}

/// The account is taken away, and the doctor looks through its own again.
pub async fn the_account_has_its_rights(stage: &mut Stage) {
    let name = stage.account.take().expect("an account");
    python(&["forget", &stage.shop.servers.management, &name], "").await;
    stage.look_plainly();
}

/// An account of the database that may read every table but the dead letters.
pub async fn the_letters_are_hidden(stage: &mut Stage) {
    let name = database_account(stage, &["PROCESS"]).await;
    let tables: Vec<(String,)> = sqlx::query_as(
        "SELECT CAST(TABLE_NAME AS CHAR) FROM information_schema.TABLES
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME <> 'dead_letters'",
    )
    .fetch_all(&stage.shop.inventory)
    .await
    .expect("tables");
    for (table,) in tables {
        stage
            .inventory(&format!("GRANT SELECT ON `{table}` TO '{name}'@'%'"))
            .await;
    }
    let database = stage.shop.database();
    look_with(stage, &name, &[&database]);
}

/// An account that may not see who holds locks.
pub async fn the_locks_are_hidden(stage: &mut Stage) {
    let name = database_account(stage, &[]).await;
    let orders = stage.orders_database();
    stage
        .orders(&format!("GRANT SELECT ON `{orders}`.* TO '{name}'@'%'"))
        .await;
    look_with(stage, &name, &[&orders]);
}

/// The clock of every session of the console is a minute ahead.
pub async fn the_clock_is_ahead(stage: &mut Stage) {
    let name = database_account(stage, &["PROCESS"]).await;
    let databases = [stage.orders_database(), stage.shop.database()];
    for database in &databases {
        stage
            .orders(&format!("GRANT ALL ON `{database}`.* TO '{name}'@'%'"))
            .await;
    }
    // Only accounts without rights over connections run it: this one.
    stage
        .orders("SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() + 60'")
        .await;
    look_with(stage, &name, &databases.each_ref().map(String::as_str));
}

pub async fn the_clock_is_set(stage: &mut Stage) {
    stage.orders("SET GLOBAL init_connect = ''").await;
}

/// Taken away with its rights.
pub async fn the_database_account_goes(stage: &mut Stage) {
    let name = stage.account.take().expect("an account");
    stage.orders(&format!("DROP USER '{name}'@'%'")).await;
    stage.look_plainly();
}

fn account_name() -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    format!("blind{}", &id[12..])
}

fn with_account(url: &str, name: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (_, host) = rest.split_once('@').expect("an account");
    format!("{scheme}://{name}:x@{host}")
}

/// A new account of the database server, with rights over the whole server.
async fn database_account(stage: &mut Stage, rights: &[&str]) -> String {
    let name = account_name();
    stage
        .orders(&format!("CREATE USER '{name}'@'%' IDENTIFIED BY 'x'"))
        .await;
    for right in rights {
        stage
            .orders(&format!("GRANT {right} ON *.* TO '{name}'@'%'"))
            .await;
    }
    stage.account = Some(name.clone());
    name
}

fn look_with(stage: &mut Stage, name: &str, databases: &[&str]) {
    let server = stage.shop.servers.mariadb.clone();
    let other = with_account(&server, name);
    stage.look_through("account", |text| {
        databases.iter().fold(text, |text, database| {
            let (from, to) = (
                format!("{server}/{database}"),
                format!("{other}/{database}"),
            );
            assert!(text.contains(&from), "{from}: {text}");
            text.replacen(&from, &to, 1)
        })
    });
}

// ---- a broker of the stage's own -------------------------------------------------------------------

fn node(stage: &Stage) -> &Node {
    stage.node.as_ref().expect("servers of its own")
}

/// The node has more in memory than it may.
pub async fn memory_is_short(stage: &mut Stage) {
    watermark(stage, &["absolute", "1MB"]).await;
    stage
        .emit(
            &super::super::shop::Event::order(1, true),
            "order.created",
            super::stage::LATE,
        )
        .await;
}

pub async fn memory_is_enough(stage: &mut Stage) {
    watermark(stage, &["0.4"]).await;
    until("events go out again", || async {
        stage
            .console
            .try_run(&["worker", "dispatcher", "--once"])
            .await;
        stage
            .number("SELECT COUNT(*) FROM outbox_events WHERE status <> 'sent'")
            .await
            == 0
    })
    .await;
    stage.all_is_consumed().await;
}

async fn watermark(stage: &Stage, limit: &[&str]) {
    node(stage)
        .ctl(&[&["set_vm_memory_high_watermark"], limit].concat())
        .await;
    let is_short = limit.contains(&"1MB");
    until(
        "the management API tells of the alarm, or of its end",
        || async {
            let nodes = stage.management("nodes").await;
            let nodes = nodes.as_array().cloned().unwrap_or_default();
            let is_raised = nodes.iter().any(|node| node["mem_alarm"] == true);
            !nodes.is_empty() && is_raised == is_short
        },
    )
    .await;
}

/// One of three nodes is killed: two members serve the queue.
pub async fn a_node_is_killed(stage: &mut Stage) {
    node(stage).kill(&[THIRD]).await;
    stage
        .statistics("two members online", |facts| online(facts) == Some(2))
        .await;
}

/// Two of three nodes are killed: no member can confirm anything.
pub async fn the_majority_is_killed(stage: &mut Stage) {
    node(stage).kill(&[SECOND, THIRD]).await;
    stage
        .statistics("one member online", |facts| online(facts) == Some(1))
        .await;
}

pub async fn the_nodes_are_back(stage: &mut Stage) {
    let killed: Vec<&str> = if is_running(stage, SECOND).await {
        vec![THIRD]
    } else {
        vec![SECOND, THIRD]
    };
    node(stage).restart(&killed).await;
    node(stage).ctl(&["await_online_nodes", "3"]).await;
    stage
        .statistics("all members online", |facts| online(facts) == Some(3))
        .await;
}

async fn is_running(stage: &Stage, name: &str) -> bool {
    let told = node(stage)
        .ctl(&["cluster_status", "--formatter", "json"])
        .await;
    let status: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let running = status["running_nodes"].to_string();
    assert!(running.contains(FIRST), "{running}");
    running.contains(name)
}

fn online(facts: &serde_json::Value) -> Option<usize> {
    assert_eq!(facts["name"], QUEUE);
    facts["online"].as_array().map(Vec::len)
}
