//! Connecting to what does not answer.

use tokio::net::TcpListener;

use super::*;
use crate::broker::{Outgoing, PublishOutcome};
use crate::model::message::Message;

const PASSWORD: &str = "S3CRET-42";

fn broker(port: u16) -> Arc<dyn Broker> {
    let url = SecretUrl::new(format!("amqp://ops:{PASSWORD}@127.0.0.1:{port}/%2f"));
    let limits = Limits {
        connect: Duration::from_millis(200),
        operation: Duration::from_millis(400),
        ..Limits::default()
    };
    RabbitBroker::new(Some(&url), None, limits).expect("a valid URL")
}

#[tokio::test]
async fn b_08_many_callers_make_one_attempt_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let broker = broker(port);
    let asking = (0..50).map(|_| broker.depth("orders"));
    let answers = futures::future::join_all(asking).await;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(BrokerError::Unavailable(_)))),
        "{:?}",
        answers.first()
    );
    // Whoever connected is still in the queue of the listener, which nobody served.
    let mut attempts = 0;
    while let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await {
        attempts += 1;
    }
    assert_eq!(attempts, 1);
}

#[tokio::test]
async fn an_unreachable_broker_refuses_what_it_was_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let broker = broker(port);
    assert_eq!(broker.flow(), Flow::Unknown);
    let error = broker.publisher().await.err().expect("nobody listens");
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    assert!(!broker.name().contains(PASSWORD));
    assert_eq!(broker.name(), format!("127.0.0.1:{port} vhost /"));

    let amqp = AmqpAddress::parse(
        &SecretUrl::new(format!("amqp://ops:{PASSWORD}@127.0.0.1:{port}")),
        200,
    )
    .expect("valid");
    let tasks = Tasks::new();
    let limits = Limits::default();
    let amqp = Amqp::new(&amqp, limits, &tasks);
    let publisher = RabbitPublisher::new(amqp.publishing, tasks, limits);
    let message = Outgoing {
        exchange: String::new(),
        routing_key: "orders".into(),
        message: Message::default(),
    };
    let outcomes = publisher
        .publish(vec![message; 3], Duration::from_millis(300))
        .await;
    assert!(
        outcomes.iter().all(
            |outcome| matches!(outcome, PublishOutcome::Unsent(why) if why.contains("not reachable"))
        ),
        "{outcomes:?}"
    );
}
