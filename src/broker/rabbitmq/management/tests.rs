//! Stubs that answer as reported in the field.

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::base::secret::SecretUrl;
use crate::base::tasks::Tasks;
use crate::broker::rabbitmq::{Limits, RabbitBroker};
use crate::broker::{Broker, NodeFacts};

const PASSWORD: &str = "S3CRET-42";

/// How a stub treats one request: its request line and the open connection.
trait Behaviour: Fn(String, TcpStream) -> futures::future::BoxFuture<'static, ()> {}
impl<T: Fn(String, TcpStream) -> futures::future::BoxFuture<'static, ()>> Behaviour for T {}

/// A server that lives as long as the test.
struct Stub {
    tasks: Tasks,
    broker: Arc<dyn Broker>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

async fn stub(limit: Duration, behaviour: impl Behaviour + Send + Sync + 'static) -> Stub {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let tasks = Tasks::new();
    let connections = tasks.clone();
    tasks.spawn_until_stopped(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                match socket.read_u8().await {
                    Ok(byte) => request.push(byte),
                    Err(_) => break,
                }
            }
            let line = String::from_utf8_lossy(&request)
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            connections.spawn_until_stopped(behaviour(line, socket));
        }
    });
    let url = SecretUrl::new(format!("http://ops:{PASSWORD}@127.0.0.1:{port}"));
    let limits = Limits {
        http: limit,
        ..Limits::default()
    };
    let broker = RabbitBroker::new(None, Some(&url), limits).expect("a valid URL");
    Stub { tasks, broker }
}

fn http(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A stub that always answers the same.
async fn always(status: &'static str, kind: &'static str, body: &'static str) -> Stub {
    stub(Duration::from_secs(5), move |_, mut socket| {
        Box::pin(async move {
            let answer = http(status, kind, body);
            drop(socket.write_all(answer.as_bytes()).await);
        })
    })
    .await
}

async fn json(body: &'static str) -> Stub {
    always("200 OK", "application/json", body).await
}

#[tokio::test]
async fn m_01_a_fresh_queue_has_unknown_figures_not_zero() {
    let stub = json(r#"{"arguments":{},"auto_delete":false,"consumer_details":[],"deliveries":[],"durable":true,"exclusive":false,"garbage_collection":{"fullsweep_after":-1,"max_heap_size":-1,"min_bin_vheap_size":-1,"min_heap_size":-1,"minor_gcs":-1},"incoming":[],"name":"fresh.q","node":"rabbit@mq1","type":"classic","vhost":"/"}"#).await;
    let facts = stub.broker.queue("fresh.q").await.expect("an answer");
    let expected = QueueFacts {
        name: "fresh.q".into(),
        kind: Some("classic".into()),
        is_durable: Some(true),
        ..QueueFacts::default()
    };
    assert_eq!(facts, Some(expected));
}

#[tokio::test]
async fn m_02_one_odd_element_never_hides_the_list() {
    let stub = json(r#"{"items":[{"name":"a","vhost":"/","message_stats":[],"recoverable_slaves":"","consumer_utilisation":"","policy":"","head_message_timestamp":""},{"name":"b","vhost":"/","message_stats":{},"messages_ready":0,"messages_details":{"rate":0.0},"idle_since":"2026-08-27 11:41:06"},{"name":"c","vhost":"/","messages_ready":5,"message_stats":{"publish_details":{"rate":null},"ack_details":{"rate":1.5}},"arguments":[],"effective_policy_definition":[],"members":"","policy":null},17,{"vhost":"/"}],"total_count":3}"#).await;
    let page = stub.broker.queues(1, 100).await.expect("a page");
    let [a, b, c] = page.queues.as_slice() else {
        panic!("three queues: {page:?}");
    };
    assert_eq!(
        (a.ready, a.policy.clone(), a.head_age_s),
        (None, None, None)
    );
    assert_eq!((b.ready, b.rate_in), (Some(0), None));
    assert_eq!((c.ready, c.rate_in, c.rate_ack), (Some(5), None, Some(1.5)));
    assert_eq!(
        (c.members.clone(), c.dead_letter_exchange.clone()),
        (None, None)
    );
    assert_eq!(page.total, Some(3));
    assert!(!page.statistics_off);
}

#[tokio::test]
async fn m_03_statistics_switched_off_are_told_and_nothing_is_zero() {
    let stub = json(r#"[{"name":"orders","vhost":"/","type":"quorum","state":"running","durable":true,"auto_delete":false,"exclusive":false,"arguments":{},"node":"rabbit@mq1"}]"#).await;
    let page = stub.broker.queues(1, 100).await.expect("a page");
    assert!(page.statistics_off);
    assert_eq!(page.queues[0].ready, None);
    assert_eq!(page.queues[0].consumers, None);

    let failing = always("500 Internal Server Error", "application/json", "{}").await;
    let error = failing.broker.queues(1, 100).await.expect_err("no answer");
    assert!(error.is_retryable(), "{error:?}");
}

#[rstest]
#[case(
    r#"{"error":"not_authorized","reason":"Login failed"}"#,
    "wrong user or password"
)]
#[case(
    r#"{"error":"not_authorized","reason":"Not_Authorized"}"#,
    "wrong user or password"
)]
#[case(
    r#"{"error":"not_authorised","reason":"Not management user"}"#,
    "needs the tag `management`"
)]
#[case(
    r#"{"error":"not_authorised","reason":"Not monitor user"}"#,
    "needs the tag `monitoring`"
)]
#[case(
    r#"{"error":"not_authorised","reason":"User can only log in via localhost"}"#,
    "from the broker's own machine only"
)]
#[tokio::test]
async fn m_06_each_401_has_its_own_sentence(#[case] body: &'static str, #[case] says: &str) {
    let stub = always("401 Unauthorized", "application/json", body).await;
    let error = stub.broker.queues(1, 10).await.expect_err("refused");
    assert!(matches!(error, BrokerError::Denied(_)), "{error:?}");
    assert!(error.to_string().contains(says), "{error}");
    assert!(error.to_string().contains("\"ops\""), "{error}");
    assert!(!format!("{error:?} {error}").contains(PASSWORD), "{error}");
}

#[rstest]
#[case("401 Unauthorized")]
#[case("200 OK")]
#[case("404 Not Found")]
#[tokio::test]
async fn m_06_a_page_for_people_is_not_the_management_api(#[case] status: &'static str) {
    let stub = always(status, "text/html", "<html>please log in</html>").await;
    for error in [
        stub.broker.queue("orders").await.expect_err("no answer"),
        stub.broker.overview().await.expect_err("no answer"),
    ] {
        assert!(matches!(error, BrokerError::Protocol(_)), "{error:?}");
        assert!(
            error.to_string().contains("not the management API"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn m_06_nodes_that_may_not_be_seen_are_unknown_with_the_reason() {
    let stub = stub(Duration::from_secs(5), |line, mut socket| {
        Box::pin(async move {
            let answer = if line.contains("/api/nodes") {
                let body = r#"{"error":"not_authorised","reason":"Not monitor user"}"#;
                http("401 Unauthorized", "application/json", body)
            } else {
                let body = r#"{"product_name":"RabbitMQ","product_version":"3.10.8"}"#;
                http("200 OK", "application/json", body)
            };
            drop(socket.write_all(answer.as_bytes()).await);
        })
    })
    .await;
    let overview = stub.broker.overview().await.expect("an overview");
    assert_eq!(overview.product, "RabbitMQ 3.10.8");
    assert_eq!(overview.nodes, None);
    let problem = overview.nodes_problem.expect("a reason");
    assert!(problem.contains("`monitoring`"), "{problem}");
}

#[tokio::test]
async fn m_07_a_bare_list_and_an_empty_page_are_both_accepted() {
    let bare = json(r#"[{"name":"b","vhost":"/"},{"name":"a","vhost":"/"}]"#).await;
    let page = bare.broker.queues(1, 1).await.expect("a page");
    assert_eq!(page.queues.len(), 1);
    assert_eq!(page.queues[0].name, "a");
    assert_eq!(page.total, Some(2));
    assert!(!page.statistics_off);
    let empty = json(r#"{"items":[],"page":1,"page_count":0,"total_count":0}"#).await;
    let page = empty.broker.queues(1, 100).await.expect("a page");
    assert_eq!((page.queues.len(), page.total), (0, Some(0)));
    let other = json(r#""hello""#).await;
    let error = other.broker.queues(1, 100).await.expect_err("no list");
    assert!(matches!(error, BrokerError::Protocol(_)), "{error:?}");
}

#[rstest]
#[case(r#""minority""#, Some("minority"))]
#[case(r#""some_new_state""#, Some("some_new_state"))]
#[case("7", None)]
#[tokio::test]
async fn m_09_an_unknown_state_is_kept_as_it_is(#[case] state: &str, #[case] shown: Option<&str>) {
    let body = format!(r#"{{"name":"a","state":{state},"type":"rabbit_jms_queue"}}"#);
    let facts = decode::queue(
        &serde_json::from_str(&body).expect("JSON"),
        Clock::System.now(),
    );
    let facts = facts.expect("a queue");
    assert_eq!(facts.state.as_deref(), shown);
    assert_eq!(facts.kind.as_deref(), Some("rabbit_jms_queue"));
}

#[rstest]
#[case(
    r#"{"product_version":"4.3.0-rc.1+12.gabc"}"#,
    "RabbitMQ 4.3.0-rc.1+12.gabc"
)]
#[case(r#"{"product_version":""}"#, "RabbitMQ")]
#[case(r#"{"rabbitmq_version":"3.7.0"}"#, "RabbitMQ 3.7.0")]
#[case(r#"{"product_name":"LavinMQ","product_version":2}"#, "LavinMQ")]
fn m_09_versions_of_any_form_are_accepted(#[case] body: &str, #[case] shown: &str) {
    let overview = serde_json::from_str(body).expect("JSON");
    assert_eq!(decode::product(&overview), shown);
}

#[test]
fn m_09_nodes_tell_alarms_or_that_they_are_unknown() {
    let body = r#"[{"name":"rabbit@mq1","running":true,"mem_alarm":true,"disk_free_alarm":false},{"name":"rabbit@mq2","running":false},{"running":true}]"#;
    let nodes = decode::nodes(&serde_json::from_str(body).expect("JSON")).expect("nodes");
    let expected = [
        NodeFacts {
            name: "rabbit@mq1".into(),
            is_running: Some(true),
            memory_alarm: Some(true),
            disk_alarm: Some(false),
        },
        NodeFacts {
            name: "rabbit@mq2".into(),
            is_running: Some(false),
            ..NodeFacts::default()
        },
    ];
    assert_eq!(nodes, expected);
}

#[tokio::test]
async fn m_10_a_stalled_body_ends_at_the_limit_and_the_next_request_is_not_queued_behind_it() {
    let stub = stub(Duration::from_millis(300), |_, mut socket| {
        Box::pin(async move {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"items\":[";
            drop(socket.write_all(head.as_bytes()).await);
            std::future::pending::<()>().await;
        })
    })
    .await;
    let broker = &stub.broker;
    let (first, second) = tokio::join!(broker.queues(1, 10), broker.queues(1, 10));
    assert!(
        matches!(first, Err(BrokerError::TimedOut { .. })),
        "{first:?}"
    );
    let second = second.expect_err("one request at a time");
    assert!(second.is_retryable());
    assert!(second.to_string().contains("has not answered"), "{second}");
    // And again afterwards: the address is free.
    let third = broker.queues(1, 10).await;
    assert!(
        matches!(third, Err(BrokerError::TimedOut { .. })),
        "{third:?}"
    );
}

#[tokio::test]
async fn m_10_a_server_that_never_answers_costs_the_limit() {
    let stub = stub(Duration::from_millis(200), |_, socket| {
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(socket);
        })
    })
    .await;
    let overview = stub.broker.overview().await;
    assert!(
        matches!(overview, Err(BrokerError::TimedOut { .. })),
        "{overview:?}"
    );
}

#[tokio::test]
async fn m_10_a_truncated_answer_is_an_error_not_an_empty_list() {
    let cut = json(r#"{"items":[{"name":"a""#).await;
    let error = cut.broker.queues(1, 10).await.expect_err("cut off");
    assert!(error.to_string().contains("cut off"), "{error}");
    let closed = stub(Duration::from_secs(5), |_, mut socket| {
        Box::pin(async move {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"items\":[";
            drop(socket.write_all(head.as_bytes()).await);
        })
    })
    .await;
    let error = closed.broker.queues(1, 10).await.expect_err("closed");
    assert!(error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn m_10_an_endless_answer_is_refused() {
    let stub = stub(Duration::from_secs(20), |_, mut socket| {
        Box::pin(async move {
            let head = "HTTP/1.1 200 OK\r\n\r\n[";
            let mut written = socket.write_all(head.as_bytes()).await;
            let spaces = vec![b' '; 65_536];
            while written.is_ok() {
                written = socket.write_all(&spaces).await;
            }
        })
    })
    .await;
    let error = stub.broker.queues(1, 10).await.expect_err("too much");
    assert!(error.to_string().contains("more than"), "{error}");
}

#[tokio::test]
async fn m_10_an_unreachable_server_is_named_without_its_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let url = SecretUrl::new(format!("http://ops:{PASSWORD}@127.0.0.1:{port}"));
    let broker = RabbitBroker::new(None, Some(&url), Limits::default()).expect("valid");
    let error = broker.overview().await.expect_err("nobody there");
    assert!(matches!(error, BrokerError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
}

#[rstest]
#[case("orders/eu", "orders%2Feu")]
#[case("a b", "a%20b")]
#[case("q?x=1#f", "q%3Fx%3D1%23f")]
#[case("q%2Fx", "q%252Fx")]
#[case("a+b", "a%2Bb")]
#[case("%", "%25")]
#[case("café", "caf%C3%A9")]
#[case("q:[x]", "q%3A%5Bx%5D")]
#[case("tab\tx", "tab%09x")]
#[case("..x", "..x")]
#[tokio::test]
async fn n_01_names_are_encoded_once(#[case] name: &'static str, #[case] path: &'static str) {
    let (told, mut asked) = tokio::sync::mpsc::channel(4);
    let stub = stub(Duration::from_secs(5), move |line, mut socket| {
        let told = told.clone();
        Box::pin(async move {
            drop(told.send(line).await);
            let answer = http(
                "404 Not Found",
                "application/json",
                r#"{"error":"Object Not Found"}"#,
            );
            drop(socket.write_all(answer.as_bytes()).await);
        })
    })
    .await;
    assert_eq!(stub.broker.queue(name).await, Ok(None));
    let line = asked.recv().await.expect("a request");
    assert!(
        line.starts_with(&format!("GET /api/queues/%2F/{path}?")),
        "{line}"
    );
}

#[tokio::test]
async fn n_01_a_name_no_url_can_hold_is_refused() {
    let stub = json("{}").await;
    for name in [".", ".."] {
        let error = stub.broker.queue(name).await.expect_err("no such path");
        assert!(error.to_string().contains("cannot be asked for"), "{error}");
    }
}

#[tokio::test]
async fn without_urls_every_question_says_what_is_missing() {
    let broker = RabbitBroker::new(None, None, Limits::default()).expect("nothing to check");
    let error = broker.overview().await.expect_err("no URL");
    assert!(matches!(&error, BrokerError::NotConfigured(why) if why.contains("management")));
    let error = broker.probe().await.expect_err("no URL");
    assert!(matches!(&error, BrokerError::NotConfigured(why) if why.contains("amqp")));
}
