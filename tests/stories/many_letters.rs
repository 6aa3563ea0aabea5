//! T-04 on a real server: twenty thousand dead letters, and one body of a megabyte on one line. What
//! a key does stands on the screen at once.

use std::time::Duration;

use super::at_the_screen::go_to_letters;
use super::shop::{Event, SANDBOX, Shop};
use crate::pty::Console;

const LETTERS: u64 = 20_000;
const IN_TIME: Duration = Duration::from_millis(100);
const END: &str = "\x1b[F";
const HOME: &str = "\x1b[H";
const PAGE_DOWN: &str = "\x1b[6~";

/// As many more letters of the same cause, a second apart.
async fn multiply(shop: &Shop) {
    let rows = sqlx::query(
        "INSERT INTO dead_letters (dead_letter_id, consumer_name, event_id, aggregate_id,
             aggregate_version, event_type, failed_queue, dead_letter_queue, reason, error_class,
             first_died_at, last_died_at, properties, headers, payload, payload_bytes, payload_sha256)
         SELECT UUID(), consumer_name, UUID(), CONCAT('k', seq), 1, event_type, failed_queue,
             dead_letter_queue, reason, error_class, first_died_at - INTERVAL seq SECOND,
             last_died_at - INTERVAL seq SECOND, properties, headers, '{}', 2,
             '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
         FROM dead_letters JOIN seq_1_to_20000 LIMIT 20000",
    )
    .execute(&shop.inventory)
    .await
    .expect("rows");
    assert_eq!(rows.rows_affected(), LETTERS);
}

/// Presses each key and waits for what it shows. One slow answer may be the machine's: the middle one
/// is judged.
fn answers_in_time(console: &mut Console, what: &str, keys: &[(&str, &str)]) {
    let mut taken: Vec<_> = keys
        .iter()
        .map(|(key, shows)| {
            console.press(key);
            console.wait_for(shows)
        })
        .collect();
    taken.sort_unstable();
    let middle = taken[taken.len() / 2];
    assert!(middle < IN_TIME, "{what}: {middle:?} of {taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t_04_twenty_thousand_letters_and_a_body_of_a_megabyte_answer_at_once() {
    let mut big = Event::order(1, false);
    big.body = format!(
        r#"{{"pad":"{}","needle":"at the end"}}"#,
        "x".repeat(1024 * 1024)
    )
    .into_bytes();
    let shop = Shop::open("many").await;
    shop.publish_again(&big).await;
    assert_eq!(shop.consume_at_least(1, false).await.len(), 1);
    shop.collect(1).await;
    multiply(&shop).await;

    let mut console = shop.console.open((120, 36), SANDBOX, &[]);
    go_to_letters(&mut console);
    console.wait_for("≥ 10 000 open");
    console.wait_for("1/100");
    answers_in_time(
        &mut console,
        "to the end and back",
        &[
            (END, "100/100"),
            (HOME, "1/100"),
            (END, "100/100"),
            (HOME, "1/100"),
            (PAGE_DOWN, "/100"),
            (END, "100/100"),
            (HOME, "1/100"),
        ],
    );
    // The next pages come from the server, and the last row of one is followed by the next.
    for page in ["page 2", "page 3"] {
        console.press(">");
        console.wait_for(page);
    }
    console.press("<");
    console.wait("the first page", |console| {
        !console.shown().contains("page 3")
    });

    // The body of a megabyte.
    console.press(&format!("/id:{}\r", big.id));
    console.wait_for("1 of 100");
    console.press("\r");
    console.press("\x1b[C");
    console.wait_for("1.0 MiB");
    answers_in_time(
        &mut console,
        "a megabyte, to the end and back",
        &[
            (END, "at the end"),
            (HOME, "\"pad\""),
            (END, "at the end"),
            (HOME, "\"pad\""),
            (END, "at the end"),
        ],
    );
    console.press(HOME);
    console.wait_for("\"pad\"");
    console.press("/");
    console.press("needle");
    console.wait_for("needle");
    console.press("\r");
    console.wait_for("at the end");
    console.press("q");
    assert_eq!(console.end(), 0);
    shop.close().await;
}
