//! A connection on which nothing comes any more, as behind a firewall that drops packets (B-07).

use std::time::Duration;

use redrive::base::tasks::Tasks;
use redrive::broker::rabbitmq::Limits;
use redrive::broker::{BrokerError, Flow, PublishOutcome};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::arena::{PATIENCE, Vhost, consume, declare, message, next, queue};

/// Forwards connections until told to fall silent; silent ones stay open.
struct Proxy {
    port: u16,
    silence: CancellationToken,
    tasks: Tasks,
}

impl Proxy {
    async fn start(to: (String, u16)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let silence = CancellationToken::new();
        let tasks = Tasks::new();
        let (connections, silent) = (tasks.clone(), silence.clone());
        tasks.spawn_until_stopped(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                let (to, silent) = (to.clone(), silent.clone());
                connections.spawn_until_stopped(async move {
                    let mut outer = TcpStream::connect(to).await.expect("the broker listens");
                    tokio::select! {
                        biased;
                        () = silent.cancelled() => {}
                        _ = copy_bidirectional(&mut inner, &mut outer) => return,
                    }
                    std::future::pending::<()>().await;
                });
            }
        });
        Self {
            port,
            silence,
            tasks,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b_07_a_silent_connection_is_noticed_by_its_heartbeat() {
    let vhost = Vhost::create(&format!("redrive silence {}", std::process::id())).await;
    let proxy = Proxy::start(vhost.address()).await;
    let limits = Limits {
        connect: Duration::from_millis(500),
        operation: Duration::from_millis(500),
        ..Limits::default()
    };
    let direct = vhost.broker();
    declare(&direct, &[], vec![queue("orders")]).await;
    let broker = vhost.broker_through(proxy.port, limits);
    let publisher = broker.publisher().await.expect("a publisher");
    let first = vec![message("", "orders", "m1")];
    let outcomes = publisher.publish(first, PATIENCE).await;
    assert_eq!(outcomes, [PublishOutcome::Confirmed]);
    let mut consumer = consume(&broker, "orders", 10).await;
    next(&mut consumer).await;

    proxy.silence.cancel();
    // Nothing answers: what was sent is not known, at the deadline and not later.
    let deadline = Duration::from_millis(200);
    let began = tokio::time::Instant::now();
    let outcomes = publisher
        .publish(vec![message("", "orders", "m2")], deadline)
        .await;
    assert!(
        matches!(outcomes[0], PublishOutcome::Unknown(_)),
        "{outcomes:?}"
    );
    assert!(began.elapsed() < deadline * 10, "{:?}", began.elapsed());
    let depth = broker.depth("orders").await;
    assert!(
        matches!(&depth, Err(error) if error.is_retryable()),
        "{depth:?}"
    );
    // The heartbeat tells the subscription.
    let lost = tokio::time::timeout(PATIENCE, consumer.next()).await;
    assert!(
        matches!(lost, Ok(Err(BrokerError::Unavailable(_)))),
        "{lost:?}"
    );
    // And the publisher, which then knows that nothing was sent.
    let outcome = loop {
        let sent = vec![message("", "orders", "m3")];
        match publisher.publish(sent, deadline).await.remove(0) {
            PublishOutcome::Unknown(_) => {}
            other => break other,
        }
    };
    assert!(matches!(outcome, PublishOutcome::Unsent(_)), "{outcome:?}");
    assert_eq!(publisher.flow(), Flow::Unknown);
    proxy.tasks.cancel();
    broker.close().await;
    direct.close().await;
    vhost.delete().await;
}
