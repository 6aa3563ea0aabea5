//! Everything the console tells about one dead letter, on real rows, at both sizes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::at_the_screen::go_to_letters;
use super::redrive::replay;
use super::shop::{Event, QUEUE, SANDBOX, Shop};
use crate::pty::{Console, Size};

const SIZES: [Size; 2] = [(80, 24), (120, 36)];
const LEFT: &str = "\x1b[D";
const RIGHT: &str = "\x1b[C";

fn order(key: &str, version: i64, has_sku: bool) -> Event {
    Event {
        key: key.to_owned(),
        version,
        ..Event::order(1, has_sku)
    }
}

/// First, last and number of the lines shown, from the corner of the detail; `None`: all are shown.
fn position(console: &Console) -> Option<(usize, usize, usize)> {
    let shown = console.shown();
    let edge = shown.lines().rev().find(|line| line.starts_with('└'))?;
    let corner = edge.trim_matches(|c: char| !c.is_ascii_digit());
    let (lines, all) = corner.split_once('/')?;
    let (first, last) = lines.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, all.parse().ok()?))
}

/// One tab, read from its first line to its last: it begins with the first part and has the others.
fn reads(console: &mut Console, parts: &[&str]) {
    let text = read(console, parts[0]);
    for part in parts {
        assert!(text.contains(part), "no {part}:\n{text}");
    }
}

/// What stands in a tab, page after page.
fn read(console: &mut Console, begin: &str) -> String {
    console.press("g");
    console.wait_for(begin);
    let mut text = console.shown();
    while let Some(here @ (_, last, all)) = position(console)
        && last < all
    {
        console.press("\x1b[6~");
        console.wait("the next lines", |console| position(console) != Some(here));
        text.push_str(&console.shown());
    }
    text
}

/// Puts the cursor on the row of an event, opens its detail.
fn open(console: &mut Console, event: &Event) {
    console.press(&format!("/id:{}\r", event.id));
    console.wait_for("1 of ");
    console.press("\r");
}

/// The keys that work where the console stands.
fn keys_line(console: &Console) -> String {
    let shown = console.shown();
    shown.lines().last().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tab_of_a_dead_letter_tells_its_part_on_real_rows() {
    let events = [
        order("8812", 1, true),
        order("8812", 2, false),
        order("8812", 3, false),
    ];
    let (shop, _) = Shop::with_dead_letters("tabs", &events).await;
    let [_, event, later] = &events;
    // It dies twice: once more after a replay.
    shop.console.run(&replay(&event.id, &[])).await;
    assert_eq!(shop.consume_at_least(1, false).await.len(), 1);
    shop.collect(1).await;
    shop.console.try_run(&["operations"]).await;
    // And the one behind it is replayed for good.
    shop.console.run(&replay(&later.id, &[])).await;
    assert_eq!(shop.consume_at_least(1, true).await.len(), 1);
    shop.console.try_run(&["operations"]).await;
    assert_eq!(shop.status(later).await, "replayed");

    let mut console = shop.console.open(SIZES[0], SANDBOX, &[]);
    go_to_letters(&mut console);
    open(&mut console, event);
    for size in SIZES {
        if size != SIZES[0] {
            console.resize(size);
        }
        reads(
            &mut console,
            &[
                "inventory rejected it 2 times, last ",
                &event.id,
                "order.created  key 8812  v2",
                "queue inventory.orders, reason rejected",
                "in the table only: collected (inventory.orders.dlq)",
                "replay       allowed",
                "1 time, last death ",
                " after the replay",
                "outbox of orders, same payload",
                "exchange (default), routing key inventory.orders",
            ],
        );
        console.press(RIGHT);
        reads(
            &mut console,
            &[
                "application/vnd.shop.order+json;v=2, identity  sha256 ",
                "\"order_id\": 4634343214213523454,",
                "\"total\": 1.10",
            ],
        );
        console.press(RIGHT);
        reads(
            &mut console,
            &[
                "with their AMQP types",
                "correlation_id            corr-77",
                "1767323045 (2026-01-02 03:04:05Z)",
                "app_id                    shop-web",
                "x-death",
                "x-decimal",
                "-19.99",
                "x-long",
                "4634343214213523454",
                "x-redrive-replays",
                "x-table",
            ],
        );
        console.press(RIGHT);
        reads(
            &mut console,
            &[
                "2 deaths recorded",
                "rejected in inventory.orders",
                "after replay ",
            ],
        );
        console.press(RIGHT);
        reads(
            &mut console,
            &[
                "by their own inbox rows",
                "inventory          – no row: a replay will be its first effect",
            ],
        );
        console.press(RIGHT);
        reads(
            &mut console,
            &[
                "events of key 8812, in the order of their versions",
                "  v1   order.created",
                "▸ v2   order.created",
                "this dead letter",
                ", replayed",
            ],
        );
        assert!(!console.shown().contains("dead too"));
        console.press(&LEFT.repeat(5));
    }
    console.press("q");
    assert_eq!(console.end(), 0);
    shop.console.verify_audit().await;
    shop.close().await;
}

/// A body that says gzip, rightly and wrongly, and one in an error envelope: each is told on the
/// screen before it is sent, and sent as it is.
#[tokio::test(flavor = "multi_thread")]
async fn p_02_p_12_what_a_body_really_is_stands_on_the_screen_and_the_bytes_stay() {
    let gzip = STANDARD
        .decode(
            "H4sIAAAAAAACAw3LQQrDIBBA0bvMOhYnSUkn+14gkHWYjiNkoRXRgJTcva7/+z/QS2M5TgcrWHz5SVDN4kY2i8xq6I\
             Nsnjx6K+RQEWGA0pJ2nbiFvj6EU6lZXS8cvjUWWJGIBpCas0Zp3b73De4/OpsSZmwAAAA=",
        )
        .expect("base64");
    let envelope = br#"{"error":"reject","num_attempts":6,"failed_at":"2026-04-23T18:35:22+03:00","payload":"eyJjYW5kaWRhdGVfaWQiOiIxIn0=","properties":"e30="}"#;
    let made = |encoding, body: &[u8]| Event {
        encoding,
        body: body.to_vec(),
        ..Event::order(1, false)
    };
    let cases = [
        (made("gzip", &gzip), "\"amount\": 1999", false),
        (made("gzip", br#"{"a":1}"#), "declared gzip, is not", false),
        (
            made("identity", envelope),
            "! the body looks like an error envelope",
            true,
        ),
    ];
    let shop = Shop::open("bodies").await;
    for (event, ..) in &cases {
        // No outbox row: a text column could not hold the first of them.
        shop.publish_again(event).await;
    }
    let seen = shop.consume_at_least(cases.len(), false).await;
    shop.collect(cases.len()).await;

    let mut console = shop.console.open((120, 36), SANDBOX, &[]);
    go_to_letters(&mut console);
    for (event, says, is_warned) in &cases {
        open(&mut console, event);
        console.press(RIGHT);
        reads(&mut console, &[says]);
        console.press("R");
        console.wait_for("same as");
        let warns = console
            .shown()
            .contains("body looks like an error envelope");
        assert_eq!(warns, *is_warned, "{}", console.shown());
        console.press("\x1b");
        console.wait("the dialog closed", |console| {
            !console.shown().contains("[ Cancel ]")
        });
        console.press(LEFT);
        let keys = keys_line(&console);
        console.press("\x1b");
        // Two of them read at once would be one key of a terminal.
        console.wait("the list has the keys", |console| {
            keys_line(console) != keys
        });
        console.press("\x1b");
        console.wait("no filter", |console| {
            !console.shown().contains("filter id:")
        });
    }
    console.press("q");
    assert_eq!(console.end(), 0);

    for (event, ..) in &cases {
        shop.console.run(&replay(&event.id, &[])).await;
        shop.arrives(QUEUE, 1).await;
        let again = shop.consume(true).await;
        let first = seen.iter().find(|seen| seen.message_id() == event.id);
        let first = first.expect("was seen");
        assert_eq!(
            (again[0].message_id(), &again[0].body),
            (event.id.as_str(), &event.body)
        );
        assert_eq!(
            again[0].properties.content_encoding(),
            first.properties.content_encoding()
        );
    }
    shop.console.verify_audit().await;
    shop.close().await;
}
