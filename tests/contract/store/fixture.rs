//! One database a test, on each product; services of every layout in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::base::secret::SecretUrl;
use redrive::config::{DeadLetterPart, InboxPart, OutboxPart, SagaPart, Service, Thresholds};
use redrive::model::audit::AuditRecord;
use redrive::model::dead_letter::{DeadLetterDetail, DeathRecorded, NewDeath};
use redrive::model::ids::{ClaimToken, ConsumerName, DeadLetterId, EventId, OperationId};
use redrive::model::message::{FieldTable, Message, Payload, Properties};
use redrive::model::operation::{ItemState, Verb};
use redrive::model::outbox::{NewEvent, OutboxQuery, OutboxRow, OutboxState};
use redrive::store::sql::SqlStore;
use redrive::store::{
    BusinessTx, Claim, ClaimRequest, ItemStep, NewOperation, Reservation, Store, Value,
};

use super::gate::Gate;

/// Databases of one process have different names.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A fresh database.
pub struct Fixture {
    /// What the case runs on.
    pub product: &'static str,
    url: String,
    server: Option<String>,
    folder: Option<tempfile::TempDir>,
    /// A store with every native part, migrated.
    pub store: Arc<dyn Store>,
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run tests/run, which starts the servers"))
}

/// A text that lives as long as a statement has to.
pub fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

impl Fixture {
    /// On a file.
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        Self::migrated("sqlite", url, None, Some(folder)).await
    }

    /// On the MariaDB server of `tests/run`.
    pub async fn mariadb() -> Self {
        Self::on_server("mariadb", &variable("REDRIVE_TEST_MARIADB_URL")).await
    }

    /// On a real MySQL; `None` when `tests/run` brought none, which it says.
    pub async fn mysql() -> Option<Self> {
        let url = std::env::var("REDRIVE_TEST_MYSQL_URL").ok()?;
        Some(Self::on_server("mysql", &url).await)
    }

    async fn on_server(product: &'static str, server: &str) -> Self {
        let name = format!(
            "store_{}_{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::SeqCst)
        );
        let root = open(&service("root", server), false);
        let create = leak(format!("CREATE DATABASE {name}"));
        root.create_business_tables(vec![create].leak())
            .await
            .expect("the test account may create a database");
        root.close().await;
        Self::migrated(
            product,
            format!("{server}/{name}"),
            Some(server.to_owned()),
            None,
        )
        .await
    }

    async fn migrated(
        product: &'static str,
        url: String,
        server: Option<String>,
        folder: Option<tempfile::TempDir>,
    ) -> Self {
        let store = open(&native(&url), false);
        store.migrate(true).await.expect("migrates");
        Self {
            product,
            url,
            server,
            folder,
            store,
        }
    }

    /// Another console or worker on the same database.
    pub fn another(&self) -> Arc<dyn Store> {
        open(&native(&self.url), false)
    }

    /// One that may not write.
    pub fn read_only(&self) -> Arc<dyn Store> {
        open(&native(&self.url), true)
    }

    /// Another, on a server database, of an account that has only these rights there; its name.
    pub async fn with_rights(&self, rights: &str) -> (String, Arc<dyn Store>) {
        let database = self.url.rsplit('/').next().expect("a name");
        let user = format!("u_{}", uuid::Uuid::new_v4().simple())[..30].to_owned();
        let name = format!("'{user}'@'%'");
        self.sql(format!("CREATE USER {name} IDENTIFIED BY 'pw'"))
            .await;
        self.sql(format!("GRANT {rights} ON {database}.* TO {name}"))
            .await;
        let (_, place) = self.url.split_once('@').expect("an account");
        let url = format!("mysql://{user}:pw@{place}");
        (name, open(&native(&url), true))
    }

    /// Another, on a server database, through a gate that can hold back what the server answers.
    pub fn gated(&self) -> (Arc<dyn Store>, Gate) {
        let server = self.server.as_deref().expect("a server");
        let place = server.rsplit('@').next().expect("host and port");
        let gate = Gate::to(place.parse().expect("an address"));
        let url = self.url.replace(place, &gate.address.to_string());
        (open(&native(&url), false), gate)
    }

    /// With other limits.
    pub fn with(&self, change: impl FnOnce(&mut Service, &mut Thresholds)) -> Arc<dyn Store> {
        let (mut service, mut thresholds) = (native(&self.url), thresholds());
        change(&mut service, &mut thresholds);
        SqlStore::connect(&service, &thresholds, false).expect("opens")
    }

    /// Drops the database.
    pub async fn drop_database(self) {
        self.store.close().await;
        if let Some(server) = &self.server {
            let name = self.url.rsplit('/').next().expect("a name").to_owned();
            let root = open(&service("root", server), false);
            root.create_business_tables(vec![leak(format!("DROP DATABASE {name}"))].leak())
                .await
                .expect("drops its database");
            root.close().await;
        }
        drop(self.folder);
    }

    /// Runs a statement of the test's own.
    pub async fn sql(&self, statement: impl Into<String>) {
        let mut tx = self.store.begin().await.expect("begins");
        tx.execute(leak(statement.into()), &[])
            .await
            .expect("the test's own statement runs");
        tx.commit().await.expect("commits");
    }

    /// Reads a whole number.
    pub async fn number(&self, query: impl Into<String>) -> i64 {
        let mut tx = self.store.begin().await.expect("begins");
        let row = tx
            .fetch_one(leak(query.into()), &[])
            .await
            .expect("the test's own query runs")
            .expect("a row");
        tx.rollback().await.expect("rolls back");
        match row.first() {
            Some(Value::Int(n)) => *n,
            Some(Value::Text(text)) => text.parse().expect("a number"),
            other => panic!("not a number: {other:?}"),
        }
    }

    /// An expression for now, plus some microseconds, as this database stores times.
    pub fn moment(&self, micros: i64) -> String {
        if self.product == "sqlite" {
            format!("(CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000 + ({micros}))")
        } else {
            format!("(NOW(6) + INTERVAL {micros} MICROSECOND)")
        }
    }

    /// Writes events of one aggregate in one transaction.
    pub async fn emit(&self, ids: &[&str]) {
        emit(&self.store, ids).await;
    }

    /// Lets every lease run out, on the database's clock.
    pub async fn expire_leases(&self) {
        let before = self.moment(-1_000_000);
        self.sql(format!(
            "UPDATE outbox_events SET lease_until = {before} WHERE lease_until IS NOT NULL"
        ))
        .await;
    }

    /// The ids in a state.
    pub async fn ids(&self, state: OutboxState) -> Vec<String> {
        rows(&self.store, state)
            .await
            .into_iter()
            .map(|row| row.event_id.to_string())
            .collect()
    }

    /// A recorded death's letter with everything.
    pub async fn detail(&self, id: &DeadLetterId) -> DeadLetterDetail {
        self.store
            .dead_letter(id)
            .await
            .expect("reads")
            .expect("is there")
    }

    /// Records a first death.
    pub async fn bury(&self, event_id: &str) -> DeadLetterId {
        match self.store.record_death(&death(event_id)).await {
            Ok(DeathRecorded::New(id)) => id,
            other => panic!("not a new letter: {other:?}"),
        }
    }

    /// A reservation of a letter as it is now.
    pub async fn reservation(&self, id: &DeadLetterId) -> Reservation {
        let letter = self.detail(id).await.letter;
        Reservation {
            dead_letter_id: id.clone(),
            version: letter.version,
            payload_sha256: letter.payload_sha256,
            token: ClaimToken::generate(),
            lease: Duration::from_secs(30),
        }
    }
}

/// Opens a service.
pub fn open(service: &Service, read_only: bool) -> Arc<dyn Store> {
    SqlStore::connect(service, &thresholds(), read_only).expect("opens")
}

fn thresholds() -> Thresholds {
    Thresholds {
        statement_timeout: Duration::from_secs(20),
        ..Thresholds::default()
    }
}

/// A service without parts.
pub fn service(name: &str, url: &str) -> Service {
    Service {
        name: name.to_owned(),
        database: SecretUrl::new(url.to_owned()),
        outbox: None,
        inbox: None,
        dead_letters: None,
        sagas: None,
        journal: false,
    }
}

/// A service with every native part.
pub fn native(url: &str) -> Service {
    Service {
        outbox: Some(outbox_part("native")),
        inbox: Some(inbox_part("native")),
        dead_letters: Some(DeadLetterPart {
            layout: "native".into(),
            table: None,
            queues: vec!["inventory.orders.dlq".into()],
        }),
        sagas: Some(SagaPart {
            layout: "native".into(),
            table: None,
        }),
        journal: true,
        ..service("inventory", url)
    }
}

/// An outbox part.
pub fn outbox_part(layout: &str) -> OutboxPart {
    OutboxPart {
        layout: layout.into(),
        table: None,
        exchange: "shop.events".into(),
    }
}

/// An inbox part.
pub fn inbox_part(layout: &str) -> InboxPart {
    InboxPart {
        layout: layout.into(),
        table: None,
        consumer: consumer(),
        queue: "inventory.orders".into(),
    }
}

/// The consumer of every test.
pub fn consumer() -> ConsumerName {
    ConsumerName::new("inventory")
}

/// An event.
pub fn event(id: &str) -> NewEvent {
    NewEvent {
        event_id: EventId::new(id),
        aggregate_id: "order-42".into(),
        aggregate_version: 1,
        event_type: "order.created".into(),
        schema_version: 1,
        payload: Payload::new(r#"{"order_id":4634343214213523454,"f":1.10,"e":1E400}"#),
        headers: FieldTable::new(),
        exchange: None,
        routing_key: None,
        trace_id: None,
        causation_id: None,
    }
}

/// Writes events, versions in order.
pub async fn emit(store: &Arc<dyn Store>, ids: &[&str]) {
    let mut tx = store.begin().await.expect("begins");
    for (version, id) in (1..).zip(ids) {
        let event = NewEvent {
            aggregate_version: version,
            ..event(id)
        };
        tx.append(&event).await.expect("appends");
    }
    tx.commit().await.expect("commits");
}

/// The first 100 rows in a state.
pub async fn rows(store: &Arc<dyn Store>, state: OutboxState) -> Vec<OutboxRow> {
    store
        .outbox_page(&page(state, 100))
        .await
        .expect("pages")
        .rows
}

/// A first page.
pub fn page(state: OutboxState, limit: u32) -> OutboxQuery {
    OutboxQuery {
        state,
        after: None,
        limit,
        event_type: None,
    }
}

/// Claims with a lease of half a minute.
pub async fn claim(store: &Arc<dyn Store>, rows: u32) -> Claim {
    store
        .claim_batch(&ClaimRequest {
            batch_rows: rows,
            lease: Duration::from_secs(30),
        })
        .await
        .expect("claims")
}

/// Ids of a claim in its order.
pub fn ids_of(claim: &Claim) -> Vec<EventId> {
    claim
        .events
        .iter()
        .map(|event| event.row.event_id.clone())
        .collect()
}

/// A first death of an event.
pub fn death(event_id: &str) -> NewDeath {
    NewDeath {
        consumer: consumer(),
        event_id: Some(EventId::new(event_id)),
        aggregate_id: Some("order-42".into()),
        aggregate_version: Some(3),
        event_type: Some("order.created".into()),
        message_at: None,
        failed_queue: Some("inventory.orders".into()),
        source_exchange: Some("shop.events".into()),
        source_routing_key: Some("order.created".into()),
        dead_letter_queue: "inventory.orders.dlq".into(),
        reason: Some("rejected".into()),
        error_class: "decode: missing field sku".into(),
        error_summary: Some("missing field `sku` at line 1 column 58".into()),
        stack_digest: None,
        delivery_count: Some(1),
        retry_count: None,
        died_at: redrive::base::clock::Clock::System.now(),
        producer_version: None,
        consumer_version: Some("4.2.0".into()),
        trace_id: None,
        replay_allowed: true,
        owner: None,
        operation_id: None,
        fingerprint: format!("death-1-of-{event_id}"),
        redelivered: false,
        message: message(br#"{"sku":null}"#),
    }
}

/// A message with a body.
pub fn message(body: &[u8]) -> Message {
    Message {
        properties: Properties {
            content_type: Some("application/json".into()),
            ..Properties::default()
        },
        payload: Payload::new(body),
    }
}

/// An operation.
pub fn operation(verb: Verb) -> NewOperation {
    NewOperation {
        operation_id: OperationId::generate(),
        verb,
        actor: "mia@desk".into(),
        reason: "sku made optional".into(),
        ticket: None,
        plan_digest: "d".repeat(64),
        plan: r#"{"plan":"as shown"}"#.into(),
    }
}

/// Its audit entry.
pub fn audit(operation: &NewOperation, phase: &str) -> AuditRecord {
    AuditRecord {
        actor: operation.actor.clone(),
        action: operation.verb.word().into(),
        phase: phase.into(),
        operation_id: Some(operation.operation_id.clone()),
        subject: "an event".into(),
        reason: operation.reason.clone(),
        detail: "{}".into(),
    }
}

/// A step of an operation's first item.
pub fn step(
    operation: &NewOperation,
    token: &ClaimToken,
    from: ItemState,
    to: ItemState,
) -> ItemStep {
    ItemStep {
        operation_id: operation.operation_id.clone(),
        no: 1,
        token: token.clone(),
        from: vec![from],
        to,
        evidence: format!("{} then {}", from.word(), to.word()),
        audit: None,
    }
}

/// Runs a transaction that inserts one inbox row.
pub async fn consume(store: &Arc<dyn Store>, event_id: &str, digest: &str) -> Box<dyn BusinessTx> {
    let mut tx = store.begin().await.expect("begins");
    tx.inbox_insert(&consumer(), &EventId::new(event_id), digest)
        .await
        .expect("inserts");
    tx
}
