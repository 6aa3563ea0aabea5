//! Each fault injected for real: one run of `redrive doctor` (two refreshes) names exactly that one first,
//! and one run is quiet when it is over. What a crash window leaves by design without a trace is played
//! as well: nothing is said, and nothing is lost. `table.rs` says which.

mod consumer;
mod delivery;
mod healthy;
mod newer;
mod outbox;
mod people;
mod sight;
mod stage;
mod table;

use std::collections::BTreeSet;
use std::time::Duration;

use redrive::diagnose::Window;
use serde_json::Value;

use super::node::{Node, Wanted};
use super::redrive::Answer;
use super::shop::{Event, QUEUE};
use consumer::Manner;
use stage::{Stage, is_quiet};
use table::{Place, ROWS, Row, Told};

/// Looks of one run: a verdict needs two, and the first is what rates are taken against.
const LOOKS: u64 = 3;
/// Stages the rows are shared out to.
const STAGES: usize = 4;

/// No rule and no window without a fault that shows it.
#[tokio::test]
async fn every_rule_and_every_window_is_in_the_table() {
    let home = tempfile::tempdir().expect("a folder");
    let console = super::redrive::Console::new(home.path().join("none.toml"), home.path());
    let listed = console.run(&["doctor", "--list"]).await;
    let rules = listed["items"].as_array().expect("rules").iter();
    let rules: BTreeSet<&str> = rules.filter_map(|rule| rule["id"].as_str()).collect();
    let told = ROWS.iter().filter_map(|row| match row.told {
        Told::First { id, .. } => Some(id),
        Told::Nothing(_) => None,
    });
    assert_eq!(told.collect::<BTreeSet<_>>(), rules);

    for window in Window::ALL {
        let mut rows = ROWS.iter();
        let is_there = rows.any(|row| row.strikes == Some(window));
        assert!(is_there, "no fault strikes {}", window.words());
    }
    let faults: BTreeSet<&str> = ROWS.iter().map(|row| row.fault).collect();
    assert_eq!(faults.len(), ROWS.len(), "each fault has its own words");
}

#[rstest::rstest]
#[case(0)]
#[case(1)]
#[case(2)]
#[case(3)]
#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_named_first_and_quiet_when_it_is_over(#[case] part: usize) {
    let mut stage = Stage::open(&format!("doctor{part}")).await;
    let shared = ROWS.iter().filter(|row| row.place == Place::Shared);
    for row in shared.skip(part).step_by(STAGES) {
        play(&mut stage, row).await;
    }
    stage.close().await;
}

/// What needs servers that may be starved and killed.
#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_server_is_named_first_and_quiet_when_it_is_over() {
    let wanted = Wanted {
        nodes: 3,
        database: true,
        ..Wanted::NODE
    };
    let mut stage = Stage::open_on_own("doctor_own", Node::start_with(wanted).await).await;
    for row in ROWS.iter().filter(|row| row.place == Place::Own) {
        play(&mut stage, row).await;
    }
    stage.close().await;
}

async fn play(stage: &mut Stage, row: &Row) {
    (row.inject)(stage).await;
    let answer = stage.doctor().await;
    judge(row, &answer);
    (row.recover)(stage).await;
    let answer = stage.doctor().await;
    assert!(is_quiet(&answer), "quiet after {}: {answer:#?}", row.fault);
    stage.nothing_is_lost_and_nothing_doubled().await;
    stage.look_plainly();
}

fn judge(row: &Row, answer: &Answer) {
    let fault = row.fault;
    assert_eq!(answer.json["looks"], LOOKS, "{fault}: {answer:#?}");
    let (id, subject, window, (beside, follow), code) = match row.told {
        Told::Nothing(why) => {
            assert!(is_quiet(answer), "{fault}: {why}: {answer:#?}");
            return;
        }
        Told::First {
            id,
            subject,
            window,
            beside,
            follow,
            code,
        } => (id, subject, window, (beside, follow), code),
    };
    let items = answer.json["items"].as_array().expect("items");
    let first = items.first().unwrap_or(&Value::Null);
    let window = serde_json::to_value(window).expect("a word");
    assert_eq!(
        (
            &first["id"],
            &first["subject"],
            &first["window"],
            answer.code
        ),
        (&Value::from(id), &Value::from(subject), &window, code),
        "{fault}: {answer:#?}"
    );
    for other in items.iter().skip(1) {
        let other = other["id"].as_str().unwrap_or_default();
        assert!(
            beside.contains(&other),
            "{fault}: {other} beside it: {answer:#?}"
        );
    }
    let explained = first["explains"].to_string();
    for consequence in follow {
        assert!(explained.contains(consequence), "{fault}: {answer:#?}");
    }
}

/// A database that is away hides nothing of what is wrong elsewhere: exit code 3, not 5.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_named_and_the_rest_is_judged() {
    let mut stage = Stage::open("doctor_away").await;
    sight::the_database_is_away(&mut stage).await;
    outbox::nobody_claims(&mut stage).await;
    let answer = stage.doctor().await;
    assert_eq!(answer.code, 3, "{answer:#?}");
    assert_eq!(answer.json["complete"], false);
    let items = answer.json["items"].as_array().expect("items");
    let said: Vec<_> = items
        .iter()
        .map(|item| (&item["id"], &item["subject"]))
        .collect();
    let expected = [
        (
            &Value::from("server_unreachable"),
            &Value::from("db inventory"),
        ),
        (
            &Value::from("dispatcher_not_claiming"),
            &Value::from("orders"),
        ),
    ];
    assert_eq!(said, expected, "{answer:#?}");
    stage.close().await;
}

/// Events flow all the time, and limits are short: nothing is ever said.
#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_pipeline_under_load_is_quiet_for_a_minute() {
    let mut stage = Stage::open("doctor_healthy").await;
    let seen = healthy::under_load(&mut stage, Duration::from_mins(1)).await;
    assert!(seen.said.is_none(), "{seen:#?}");
    assert!(seen.events > 0 && seen.runs > 0, "{seen:#?}");
    stage.nothing_is_lost_and_nothing_doubled().await;
    stage.close().await;
}

/// Events of an order of three days ago, and of one that waited half an hour for its dispatcher, went out just now, and the
/// consumer has not come to them. Neither doctor nor scan calls that a loss before the grace time of the *last*
/// change is over.
#[tokio::test(flavor = "multi_thread")]
async fn c_01_what_was_sent_just_now_is_in_flight_however_old_its_row_is() {
    let mut stage = Stage::open("doctor_c01").await;
    stage.change_consumer(Some(Manner::Hangs)).await;
    let scan = ["scan", "run", "sent-not-consumed"];
    for (order, age_s) in [(1, 3 * 86_400), (2, 1_800)] {
        stage
            .emit(&Event::order(order, true), "order.created", age_s)
            .await;
    }
    stage.dispatch().await;
    let sent = |ago: &str| {
        format!("UPDATE outbox_events SET sent_at = NOW(6) - INTERVAL {ago} WHERE status = 'sent'")
    };
    // Longer ago than the doctor lets an event be, so that only the sent mark can be what it counts from.
    let patient = |text: String| {
        text.replace("consumed = \"5s\"", "consumed = \"2m\"")
            .replace("lag = \"5s\"", "lag = \"1h\"")
    };
    stage.look_through("patient", patient);
    stage.orders(&sent("5 SECOND")).await;
    let answer = stage.doctor().await;
    assert!(is_quiet(&answer), "in flight: {answer:#?}");
    let scanned = stage.console.run(&scan).await;
    let progress = &scanned["items"][0]["progress"];
    assert_eq!(
        (&progress["found"], &progress["in_flight"]),
        (&Value::from(0), &Value::from(2)),
        "{scanned:#}"
    );

    // The grace time of the last change is over, and the events are nowhere. The doctor follows up what was written
    // within the hour; the rest is for scans.
    stage.shop.delete_queue(QUEUE).await;
    stage.declare_work_queue(true).await;
    stage.change_consumer(Some(Manner::Works)).await;
    stage.orders(&sent("3 MINUTE")).await;
    let answer = stage.doctor().await;
    assert_eq!(
        answer.json["items"][0]["id"], "sent_not_consumed",
        "{answer:#?}"
    );
    let found = stage.console.try_run(&scan).await;
    assert_eq!(found.json["items"][0]["progress"]["found"], 2, "{found:#?}");
    assert_eq!(found.code, 3, "{found:#?}");
    stage.close().await;
}

/// More dead letters than a page holds, than a list shows and than causes are grouped from: every number says of how many
/// it is.
#[tokio::test(flavor = "multi_thread")]
async fn r_15_a_page_of_dead_letters_is_not_taken_for_all_of_them() {
    let mut stage = Stage::open("doctor_r15").await;
    delivery::one_event_dies(&mut stage).await;
    stage
        .inventory(
            "INSERT INTO dead_letters (dead_letter_id, consumer_name, event_id, aggregate_id,
                 aggregate_version, event_type, failed_queue, dead_letter_queue, reason, error_class,
                 first_died_at, last_died_at, properties, headers, payload, payload_bytes, payload_sha256)
             SELECT UUID(), consumer_name, UUID(), CONCAT('k', seq), 1, event_type, failed_queue,
                 dead_letter_queue, reason, error_class, first_died_at - INTERVAL seq SECOND,
                 last_died_at - INTERVAL seq SECOND, properties, headers, '{}', 2,
                 '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
             FROM dead_letters JOIN seq_1_to_1202",
        )
        .await;
    let dead = |more: &'static [&'static str]| {
        [&["dead", "--filter", "consumer:inventory"], more].concat()
    };
    let page = stage.console.run(&dead(&["--limit", "250"])).await;
    let shown = page["items"].as_array().map(Vec::len);
    assert_eq!((shown, &page["more"]), (Some(250), &Value::from(true)));
    let all = stage.console.run(&dead(&["--all"])).await;
    let shown = all["items"].as_array().map(Vec::len);
    assert_eq!((shown, &all["more"]), (Some(1_203), &Value::from(false)));

    let answer = stage.doctor().await;
    let first = &answer.json["items"][0];
    assert_eq!(first["id"], "poison_group", "{answer:#?}");
    let numbers = &first["numbers"];
    let (grouped, is_least) = (numbers["dead_letters"].as_u64(), &numbers["is_lower_bound"]);
    assert!(
        grouped == Some(1_203) || is_least.as_bool() == Some(true),
        "a part is not told as the whole: {first:#}"
    );
    assert_eq!(numbers["open"], 1_203, "{first:#}");
    delivery::letters_are_gone(&mut stage).await;
    let answer = stage.doctor().await;
    assert!(is_quiet(&answer), "{answer:#?}");
    stage.close().await;
}
