//! The reference pipeline on MariaDB and RabbitMQ: the same workers, handlers, tables and history as
//! in the demo, so that nothing in them works on the embedded pipeline alone.

use std::sync::Arc;

use redrive::assembly::{Options, Services};
use redrive::base::secret::SecretUrl;
use redrive::sandbox;
use redrive::store::Value;
use sqlx::{AssertSqlSafe, MySqlPool};
use tokio::time::Instant;

use super::shop::{PATIENCE, create, server};

async fn rabbitmqctl(arguments: &[&str]) {
    let out = tokio::process::Command::new(server("REDRIVE_TEST_RABBITMQ_CTL"))
        .args(arguments)
        .output()
        .await
        .expect("rabbitmqctl starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "rabbitmqctl {arguments:?}: {stderr}");
}

async fn number(services: &Services, service: &str, statement: &'static str) -> i64 {
    let store = services.ports.store(service).expect("a store");
    let mut tx = store.begin().await.expect("begins");
    let row = tx.fetch_one(statement, &[]).await.expect("reads");
    tx.rollback().await.expect("rolls back");
    match row.as_deref() {
        Some([Value::Int(n)]) => *n,
        other => panic!("not a number: {other:?}"),
    }
}

const CONFIRMED: &str = "SELECT CAST(COUNT(*) AS SIGNED) FROM orders WHERE state = 'confirmed'";
const COMPLETED: &str = "SELECT CAST(COUNT(*) AS SIGNED) FROM sagas WHERE state = 'completed'";
const CHARGED: &str = "SELECT CAST(COUNT(*) AS SIGNED) FROM payments WHERE state = 'charged'";
const RESERVED: &str =
    "SELECT CAST(SUM(quantity) AS SIGNED) FROM reservations WHERE state = 'reserved'";
const HELD: &str = "SELECT CAST(SUM(reserved) AS SIGNED) FROM stock";
const LETTERS: &str = "SELECT CAST(COUNT(*) AS SIGNED) FROM dead_letters";

#[tokio::test]
async fn an_order_is_confirmed_with_one_effect_at_each_stop() {
    let suffix = uuid::Uuid::now_v7().simple().to_string();
    let vhost = format!("reference-{suffix}");
    let amqp = server("REDRIVE_TEST_AMQP_URL");
    let amqp = amqp
        .trim_end_matches("%2f")
        .trim_end_matches('/')
        .to_owned();
    let user = url::Url::parse(&amqp).expect("a URL").username().to_owned();
    rabbitmqctl(&["add_vhost", &vhost]).await;
    rabbitmqctl(&["set_permissions", "-p", &vhost, &user, ".*", ".*", ".*"]).await;

    let folder = tempfile::tempdir().expect("a folder");
    let mariadb = server("REDRIVE_TEST_MARIADB_URL");
    let mut context = sandbox::demo_context(folder.path());
    context.amqp = Some(SecretUrl::new(format!("{amqp}/{vhost}")));
    let mut pools: Vec<MySqlPool> = Vec::new();
    for service in &mut context.services {
        let database = format!("{}_{suffix}", service.name);
        pools.push(create(&mariadb, &database).await);
        service.database = SecretUrl::new(format!("{mariadb}/{database}"));
    }
    let services = Services::open(Arc::new(context), Options::default()).expect("opens");
    sandbox::prepare(&services.ports).await.expect("prepares");
    let mut workers = sandbox::workers(&services.ports, 7).expect("builds");

    let started = Instant::now();
    let mut problems = Vec::new();
    while number(&services, "orders", CONFIRMED).await < 3 {
        assert!(
            started.elapsed() < PATIENCE,
            "no order is confirmed: {problems:?}"
        );
        for worker in &mut workers {
            problems.extend(worker.run_once().await.problem);
        }
    }
    assert_eq!(problems, Vec::<String>::new());
    let confirmed = number(&services, "orders", CONFIRMED).await;
    assert_eq!(number(&services, "orders", COMPLETED).await, confirmed);
    assert!(number(&services, "payment", CHARGED).await >= confirmed);
    let held = number(&services, "inventory", HELD).await;
    assert_eq!(number(&services, "inventory", RESERVED).await, held);
    assert!(number(&services, "inventory", LETTERS).await >= 14);

    for worker in &mut workers {
        worker.drain().await;
    }
    services.close().await;
    for pool in pools {
        let options = pool.connect_options();
        let name = options.get_database().unwrap_or_default().to_owned();
        sqlx::query(AssertSqlSafe(format!("DROP DATABASE `{name}`")))
            .execute(&pool)
            .await
            .expect("dropped");
        pool.close().await;
    }
    rabbitmqctl(&["delete_vhost", &vhost]).await;
}
