//! What a newer broker may answer (M-09): the real management API, with words in its answers that no
//! version we know has.

use std::sync::{Arc, Mutex};

use redrive::base::tasks::Tasks;
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::super::shop::{PATIENCE, QUEUE};
use super::stage::{Stage, is_quiet};

/// What is written into every object of an answer.
type Change = fn(&mut Map<String, Value>);

/// A stand-in for a newer broker: asks the real API, and changes what it says.
struct Newer {
    url: String,
    change: Arc<Mutex<Change>>,
}

impl Newer {
    async fn than(management: &str, tasks: &Tasks) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listens");
        let here = listener.local_addr().expect("bound");
        let mut url = url::Url::parse(management).expect("a URL");
        let server = format!(
            "{}:{}",
            url.host_str().expect("a host"),
            url.port().expect("a port")
        );
        url.set_port(Some(here.port())).expect("a port");
        let change: Arc<Mutex<Change>> = Arc::new(Mutex::new(|_| {}));
        let (changes, family) = (Arc::clone(&change), tasks.clone());
        tasks.spawn_until_stopped(async move {
            while let Ok((client, _)) = listener.accept().await {
                let change = *changes.lock().expect("not poisoned");
                let server = server.clone();
                family.spawn_until_stopped(async move {
                    drop(answer(client, &server, change).await);
                });
            }
        });
        Self {
            url: url.as_str().trim_end_matches('/').to_owned(),
            change,
        }
    }

    fn says(&self, change: Change) {
        *self.change.lock().expect("not poisoned") = change;
    }
}

/// One request and its answer, both on a connection of their own.
async fn answer(mut client: TcpStream, server: &str, change: Change) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(client.read_u8().await?);
    }
    let request = String::from_utf8_lossy(&request);
    let mut upstream = TcpStream::connect(server).await?;
    // HTTP/1.0: the answer is not chunked, and ends with its connection.
    let asked = request.replacen("HTTP/1.1", "HTTP/1.0", 1);
    upstream.write_all(asked.as_bytes()).await?;
    let mut told = Vec::new();
    upstream.read_to_end(&mut told).await?;
    let told = String::from_utf8_lossy(&told);
    let (head, body) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
    let status = head.lines().next().unwrap_or_default();
    let body = match serde_json::from_str::<Value>(body) {
        Ok(mut json) => {
            walk(&mut json, change);
            json.to_string()
        }
        Err(_) => body.to_owned(),
    };
    let head = format!(
        "{status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await
}

fn walk(value: &mut Value, change: Change) {
    match value {
        Value::Object(fields) => {
            change(fields);
            fields.values_mut().for_each(|value| walk(value, change));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| walk(value, change)),
        _ => {}
    }
}

fn of_the_queue(fields: &mut Map<String, Value>, name: &str, word: &str) {
    if fields.get("name").is_some_and(|of| of == QUEUE) && fields.contains_key("type") {
        fields.insert(name.to_owned(), Value::from(word));
    }
}

fn of_the_broker(fields: &mut Map<String, Value>, version: &str) {
    if fields.contains_key("product_version") {
        fields.insert("product_version".to_owned(), Value::from(version));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m_09_what_a_newer_broker_says_is_shown_as_it_is_and_not_known_to_be_good() {
    let mut stage = Stage::open("doctor_newer").await;
    let tasks = Tasks::new();
    let management = stage.shop.servers.management.clone();
    let newer = Newer::than(&management, &tasks).await;
    stage.look_through("newer", |text| text.replacen(&management, &newer.url, 1));
    let answer = stage.doctor().await;
    assert!(
        is_quiet(&answer),
        "through the stand-in all is seen: {answer:#?}"
    );

    let states: [(Change, &str, &str); 2] = [
        (
            |fields| of_the_queue(fields, "state", "minority"),
            "minority",
            "critical",
        ),
        (
            |fields| of_the_queue(fields, "state", "some_new_state"),
            "some_new_state",
            "warning",
        ),
    ];
    for (change, word, severity) in states {
        newer.says(change);
        let answer = stage.doctor().await;
        let first = &answer.json["items"][0];
        assert_eq!(
            (
                &first["id"],
                &first["subject"],
                &first["severity"],
                answer.code
            ),
            (
                &Value::from("queue_not_whole"),
                &Value::from(QUEUE),
                &Value::from(severity),
                3
            ),
            "{answer:#?}"
        );
        assert!(first["sentence"].to_string().contains(word), "{first:#}");
        let queues = stage.eyes.run(&["queues"]).await;
        assert_eq!(queues["items"][0]["facts"]["state"], word, "{queues:#}");
    }

    newer.says(|fields| of_the_queue(fields, "type", "rabbit_jms_queue"));
    let queues = stage.eyes.run(&["queues"]).await;
    assert_eq!(
        queues["items"][0]["facts"]["kind"], "rabbit_jms_queue",
        "{queues:#}"
    );

    let versions: [(Change, &str); 2] = [
        (
            |fields| of_the_broker(fields, "4.3.0-rc.1+12.gabc"),
            "RabbitMQ 4.3.0-rc.1+12.gabc",
        ),
        (|fields| of_the_broker(fields, ""), "RabbitMQ"),
    ];
    for (change, shown) in versions {
        newer.says(change);
        let answer = stage.doctor().await;
        assert!(is_quiet(&answer), "a version is no fault: {answer:#?}");
        let status = stage.eyes.run(&["status"]).await;
        let told = status["items"][0]["health"]["management"]["detail"].as_str();
        assert!(
            told.is_some_and(|told| told.trim().starts_with(shown)),
            "{status:#}"
        );
    }

    newer.says(|_| {});
    let answer = stage.doctor().await;
    assert!(is_quiet(&answer), "known words again: {answer:#?}");
    assert!(tasks.stop(PATIENCE).await, "the stand-in ends");
    stage.close().await;
}
