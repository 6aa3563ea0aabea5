//! Both hooks against a real program and a real socket on this machine.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::command::CommandHook;
use super::webhook::WebhookHook;
use super::*;
use crate::base::clock::Timestamp;
use crate::base::secret::SecretUrl;
use crate::model::ids::{ConsumerName, DeadLetterId};

const LIMIT: Duration = Duration::from_secs(10);

fn alert() -> Alert {
    Alert {
        context: "shop".to_owned(),
        dead_letter_id: DeadLetterId::new("d-1"),
        consumer: ConsumerName::new("inventory"),
        event_id: Some("e-1".into()),
        event_type: Some("order.created".to_owned()),
        aggregate_id: Some("8812".into()),
        aggregate_version: Some(3),
        error_class: "decode: missing field `sku`".to_owned(),
        error_summary: None,
        failed_queue: Some("inventory.orders".to_owned()),
        deaths: 1,
        died_at: Timestamp::from_micros(1_767_323_045_000_000),
        owner: Some("team-stock".to_owned()),
        trace_id: None,
        producer_version: None,
        consumer_version: Some("4.2.1".to_owned()),
        left_out: 2,
    }
}

fn shell(script: &str, limit: Duration) -> CommandHook {
    CommandHook::new("sh", &["-c".to_owned(), script.to_owned()], limit)
}

#[tokio::test]
async fn a_program_gets_one_line_of_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("alert.json");
    let hook = shell(&format!("cat > '{}'", file.display()), LIMIT);
    assert_eq!(hook.tell(&alert()).await, Ok(()));
    let text = std::fs::read_to_string(file).expect("written");
    assert_eq!(text.lines().count(), 1);
    let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(told["event_id"], "e-1");
    assert_eq!(told["owner"], "team-stock");
    assert_eq!(told["left_out"], 2);
}

#[tokio::test]
async fn a_program_that_fails_hangs_or_is_missing_is_told() {
    let told = shell("exit 3", LIMIT).tell(&alert()).await;
    assert_eq!(told, Err("ended with exit status: 3".to_owned()));
    let hook = shell("exec sleep 600", Duration::from_millis(50));
    let told = hook.tell(&alert()).await.expect_err("too late");
    assert!(told.contains("did not answer within 50ms"), "{told}");
    let hook = CommandHook::new("/nowhere/alert", &[], LIMIT);
    let told = hook.tell(&alert()).await.expect_err("missing");
    assert!(told.contains("cannot be started"), "{told}");
}

/// Answers one request with `status` and gives back what was asked.
async fn answer_once(listener: TcpListener, status: &str) -> String {
    let (mut socket, _) = listener.accept().await.expect("a connection");
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let mut part = [0; 4096];
        let read = socket.read(&mut part).await.expect("reads");
        assert!(read > 0, "the request is whole");
        request.extend_from_slice(&part[..read]);
    }
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    socket.write_all(answer.as_bytes()).await.expect("answers");
    String::from_utf8_lossy(&request).into_owned()
}

#[tokio::test]
async fn x_05_a_webhook_gets_the_alert_and_no_error_shows_its_secret() {
    for (status, expected) in [
        ("204 No Content", Ok(())),
        (
            "500 Oops",
            Err("answered 500 Internal Server Error".to_owned()),
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let url = SecretUrl::new(format!("http://{host}/hook/s3cret"));
        let hook = WebhookHook::new(&url, &format!("http://{host}"), LIMIT).expect("a client");
        assert!(!hook.name().contains("s3cret"));
        let alert = alert();
        let (request, told) = tokio::join!(answer_once(listener, status), hook.tell(&alert));
        assert_eq!(told, expected);
        assert!(
            request.starts_with("POST /hook/s3cret HTTP/1.1"),
            "{request}"
        );
        assert!(request.contains("\"event_id\":\"e-1\""), "{request}");
        // Nobody listens there any more.
        let told = hook.tell(&alert).await.expect_err("refused");
        assert!(!told.contains("s3cret"), "{told}");
    }
}
