//! Servers that speak TLS under an authority nobody else knows.

use std::path::Path;

use super::node::{Node, Wanted};
use super::redrive::{Answer, Console};
use super::shop::{DLQ, QUEUE, Servers, Shop};

const SECRET: &str = "S3CRET-42";

/// A console on these addresses, trusting what `authority` holds.
fn console(shop: &Shop, folder: &Path, host: &str, node: &Node, authority: &str) -> Console {
    let place = |name: &str| {
        let url = url::Url::parse(&node.variable(name)).expect("a URL");
        format!("{host}:{}", url.port().expect("a port"))
    };
    let text = format!(
        r#"
[contexts.tls]
environment = "sandbox"
amqp = "amqps://ops:{SECRET}@{}/{}"
management = "https://ops:{SECRET}@{}"
[[contexts.tls.services]]
name = "inventory"
database = "mysql://ops:{SECRET}@{}/{}?ssl-mode=VERIFY_IDENTITY"
inbox = {{ layout = "native", consumer = "inventory", queue = "{QUEUE}" }}
dead_letters = {{ layout = "native", queues = ["{DLQ}"] }}
"#,
        place("REDRIVE_TEST_AMQPS_URL"),
        shop.vhost.replace('/', "%2f"),
        place("REDRIVE_TEST_HTTPS_URL"),
        place("REDRIVE_TEST_MARIADB_URL"),
        shop.database(),
    );
    let config = folder.join("tls.toml");
    std::fs::write(&config, text).expect("written");
    Console::new(config, folder).with("SSL_CERT_FILE", authority)
}

/// Texts of the answer; none of them holds a secret.
fn told(answer: &Answer) -> String {
    let text = format!("{} {}", answer.json, answer.stderr);
    assert!(!text.contains(SECRET), "{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_when_it_is_named_and_told_when_it_is_not() {
    let node = Node::start_with(Wanted {
        database: true,
        tls: true,
        ..Wanted::NODE
    })
    .await;
    let shop = Shop::open_on("tls", Servers::of(&node)).await;
    for arguments in [
        &["add_user", "ops", SECRET] as &[_],
        &["set_user_tags", "ops", "administrator"],
        &[
            "set_permissions",
            "-p",
            &shop.vhost,
            "ops",
            ".*",
            ".*",
            ".*",
        ],
    ] {
        node.ctl(arguments).await;
    }
    // Without TLS the server takes nobody of this name.
    shop.change("CREATE USER ops@'127.0.0.1' IDENTIFIED BY 'S3CRET-42' REQUIRE SSL")
        .await;
    shop.change("GRANT ALL ON *.* TO ops@'127.0.0.1'").await;
    let authority = node.variable("REDRIVE_TEST_CA");
    let folder = tempfile::tempdir().expect("a folder");

    // Trusted, under the name the certificate is for.
    let trusting = console(&shop, folder.path(), "localhost", &node, &authority);
    let check = trusting.try_run(&["check"]).await;
    assert!(matches!(check.code, 0 | 3), "{check:#?}");
    assert!(check.json["complete"] == true, "{:#}", check.json);
    let text = told(&check);
    assert!(text.contains("reached as ops over TLS"), "{text}");
    assert!(
        text.contains("TLSv1."),
        "the database's session too: {text}"
    );
    let dead = lapin::BasicProperties::default().with_message_id("e-1".into());
    shop.put(DLQ, &[(dead, b"{}")]).await;
    trusting.run(&["worker", "collector", "--once"]).await;
    let status = trusting.run(&["dead", "show", "e-1"]).await;
    assert!(status.to_string().contains("e-1"));

    // The same servers under another name.
    let elsewhere = console(&shop, folder.path(), "127.0.0.1", &node, &authority);
    let answer = elsewhere.try_run(&["check"]).await;
    assert_ne!(answer.code, 0, "{answer:#?}");
    let text = told(&answer);
    let refusals = text.matches("is not for the name 127.0.0.1:").count();
    assert!(refusals >= 3, "broker, API and database: {text}");

    // An authority nobody named.
    let foreign = folder.path().join("empty.pem");
    std::fs::copy(other_authority(), &foreign).expect("copied");
    let foreign = foreign.to_string_lossy();
    let stranger = console(&shop, folder.path(), "localhost", &node, &foreign);
    let answer = stranger.try_run(&["check"]).await;
    assert_ne!(answer.code, 0, "{answer:#?}");
    let text = told(&answer);
    for place in ["AMQPS_URL", "HTTPS_URL", "MARIADB_URL"] {
        let url = url::Url::parse(&node.variable(&format!("REDRIVE_TEST_{place}"))).expect("a URL");
        let cause = format!(
            "the certificate of localhost:{} is signed by an authority that is not trusted here",
            url.port().expect("a port")
        );
        assert!(text.contains(&cause), "{place}: {text}");
    }
    assert!(text.contains("SSL_CERT_FILE"), "the fix: {text}");
    shop.close().await;
    node.stop().await;
}

/// The system's authorities: none of them signed ours.
fn other_authority() -> &'static str {
    [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
    ]
    .into_iter()
    .find(|path| Path::new(path).exists())
    .expect("a certificate store")
}
