//! An action done by hand in the full-screen console, on real servers.

use rustix::process::Signal;
use serde_json::Value;

use super::attach::assert_same_message;
use super::redrive::only_item;
use super::shop::{Event, OTHER_QUEUE, PRODUCTION, QUEUE, SANDBOX, Shop};
use crate::pty::{Console, READ_THE_PLAN, Size};

const WIDE: Size = (120, 36);
const NARROW: Size = (80, 24);
const ERASE: &str = "\x7f";

/// The lowest cursor on the screen: its colours tell whether the keys go there.
fn cursor(console: &Console) -> Option<(vt100::Color, bool, bool)> {
    let screen = console.screen.screen();
    let (rows, _) = screen.size();
    let mut cells = (0..rows).rev().filter_map(|row| screen.cell(row, 0));
    let cell = cells.find(|cell| cell.contents() == "▸")?;
    Some((cell.bgcolor(), cell.inverse(), cell.underline()))
}

/// Goes to the rows of the dead letters, once there are any. What Tab did is waited for: a busy machine may hand the
/// console Tab and the key that follows at once, and such a key it takes for a paste (T-10).
pub fn go_to_letters(console: &mut Console) {
    console.wait_for("Overview");
    console.press("5");
    console.wait_for("allowed");
    let before = cursor(console);
    console.press("\t");
    console.wait("the cursor on the letters", |console| {
        cursor(console).is_some_and(|now| Some(now) != before)
    });
}

/// Fills the field that a refused `y` went to, and says `y` again.
fn answer(console: &mut Console, text: &str) {
    console.press(text);
    console.wait_for(text);
    console.press("\x1b");
    console.press("y");
}

/// Production, from the lock to the proof: every way to be careless is refused on the screen, and
/// what was typed before stays.
#[tokio::test(flavor = "multi_thread")]
async fn h_06_a_locked_production_context_is_unlocked_and_one_letter_replayed_and_proven() {
    let event = Event::order(1, false);
    let (shop, seen) = Shop::with_dead_letters("production", std::slice::from_ref(&event)).await;
    let others = shop.depth(OTHER_QUEUE).await;
    let mut console = shop.console.open(WIDE, PRODUCTION, &[]);
    console.wait_for("PRODUCTION");
    console.wait_for("locked");

    // The key of an action asks for the unlock first.
    go_to_letters(&mut console);
    console.press("R");
    console.wait_for("Unlock shop-prod");
    for text in ["shop-prot", "letters after the rollout"] {
        console.press(text);
        console.press("\r");
    }
    console.wait_for("that is not the context's name");
    console.press(ERASE);
    console.press("d");
    console.press("\r");
    console.press("\r");
    console.wait_for("UNLOCKED");

    // The plan: where it goes, what it is, and the same line for a shell, with its context.
    console.wait_for("equals the outbox row");
    console.wait_for("queue inventory.orders");
    console.wait_for("--consumer inventory");
    console.wait_for("--context shop-prod");
    console.press_after(READ_THE_PLAN, "y");
    console.wait_for("✖ a reason is needed");
    answer(&mut console, "sku made optional in 4.2.1");
    console.wait_for("✖ a ticket like OPS-#### is needed");
    answer(&mut console, "JIRA-1");
    console.wait_for("✖ a ticket like OPS-#### is needed, this is none");
    console.wait_for("sku made optional in 4.2.1");
    console.press(&ERASE.repeat("JIRA-1".len()));
    answer(&mut console, "OPS-4711");
    console.wait_for("✖ type the context's name exactly");
    answer(&mut console, "shop-prot");
    console.wait_for("✖ type the context's name exactly");
    assert_eq!(shop.status(&event).await, "open", "nothing was done yet");
    assert_eq!(shop.depth(QUEUE).await, 0, "nothing was sent yet");
    console.press(ERASE);
    answer(&mut console, "d");

    // Applied: one copy, to the failed queue only, the same message.
    console.wait_for("▶ consumed?");
    shop.arrives(QUEUE, 1).await;
    assert_eq!(shop.depth(OTHER_QUEUE).await, others, "nobody else gets it");
    let again = shop.consume(true).await;
    let [again] = again.as_slice() else {
        panic!("one copy: {again:?}");
    };
    assert_eq!(again.message_id(), event.id);
    assert_same_message(&seen[0], again);

    // Proven on the same screen.
    console.wait_for("✓ consumed");
    console.wait_for("inbox row of inventory");
    assert_eq!(shop.effects(&event).await, 1);
    assert_eq!(shop.status(&event).await, "replayed");
    assert_eq!(shop.depth(QUEUE).await, 0);

    // The record and its chain.
    console.press("\x1b");
    console.press("9");
    console.wait_for("unlock");
    console.wait_for("sku made optional in 4.2.1");
    console.press("v");
    console.wait_for("every hash follows from the one before");
    console.press("\x1b");
    console.press("q");
    assert_eq!(console.end(), 0);
    assert!(shop.console.verify_audit().await >= 4);
    let log = shop.console.run(&["audit"]).await.to_string();
    assert!(log.contains("OPS-4711"), "the ticket is recorded: {log}");
    shop.close().await;
}

/// A line that acts in another context than the plan's would be the worst of all.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_of_a_plan_plans_the_same_in_any_shell() {
    let event = Event::order(1, false);
    let (shop, _) = Shop::with_dead_letters("line", std::slice::from_ref(&event)).await;
    let plan = shop
        .console
        .run(&["replay", &event.id, "--context", PRODUCTION])
        .await;
    let line = |plan: &Value| {
        let line = plan["items"][0]["command_line"].as_str();
        line.expect("a command line").to_owned()
    };
    let same_as = line(&plan);
    assert_eq!(
        same_as,
        format!(
            "redrive replay {} --consumer inventory --context shop-prod --reason … --apply",
            event.id
        )
    );
    // The default context of this configuration is another one.
    let dry = same_as.trim_end_matches(" --reason … --apply");
    let arguments: Vec<_> = dry.split(' ').skip(1).collect();
    let again = shop.console.run(&arguments).await;
    assert_eq!(again["context"], PRODUCTION);
    assert_eq!(line(&again), same_as);
    shop.close().await;
}

/// The console hangs where the broker has the message and the database does not know it, and dies.
#[tokio::test(flavor = "multi_thread")]
async fn r_05_a_console_killed_after_the_publish_leaves_an_unknown_that_the_next_one_resolves() {
    let event = Event::order(1, false);
    let (shop, _) = Shop::with_dead_letters("killed", std::slice::from_ref(&event)).await;
    let hang = ("FAILPOINTS", "replay.after_confirm=pause");
    let mut console = shop.console.open(NARROW, SANDBOX, &[hang]);
    go_to_letters(&mut console);
    console.press("R");
    console.wait_for("Tab, then why");
    console.press("\t");
    console.press("sku made optional");
    console.wait_for("sku made optional");
    console.press("\r");
    console.press_after(READ_THE_PLAN, "y");
    console.wait_for("being applied");
    shop.arrives(QUEUE, 1).await;
    console.signal(Signal::KILL);
    console.child.wait().expect("killed");

    // One that may not write shows it as unknown all the same, once it cannot be at work any more.
    let mut looker = shop.console.open(NARROW, PRODUCTION, &[]);
    looker.wait_for("locked");
    looker.wait_for("1 operation has an unknown outcome");
    looker.press("8");
    looker.wait_for("? unknown");
    looker.press("q");
    assert_eq!(looker.end(), 0);
    let list = ["operations", "--context", PRODUCTION, "--read-only"];
    let list = shop.console.run(&list).await;
    assert_eq!(only_item(&list).0, "unknown");
    assert_eq!(list["items"][0]["state"], "unknown");

    // The next one that may says so too; it sends nothing.
    let mut next = shop.console.open(NARROW, SANDBOX, &[]);
    next.wait_for("Overview");
    next.press("8");
    next.wait_for("unknown");
    assert_eq!(shop.depth(QUEUE).await, 1, "one publish");
    assert_eq!(
        shop.status(&event).await,
        "replaying",
        "nobody can press it again"
    );

    // And resolves it by itself, from the inbox.
    assert_eq!(shop.consume(true).await.len(), 1);
    next.wait("consumed, and unknown no more", |next| {
        let shown = next.shown();
        shown.contains("consumed") && !shown.contains("unknown")
    });
    next.press("q");
    assert_eq!(next.end(), 0);
    assert_eq!(shop.effects(&event).await, 1);
    assert_eq!(shop.status(&event).await, "replayed");
    let list = shop.console.run(&["operations"]).await;
    let id = list["items"][0]["operation_id"].as_str().expect("an id");
    let shown = shop.console.run(&["operations", "show", id]).await;
    assert_eq!(only_item(&shown).0, "consumed");
    shop.console.verify_audit().await;
    shop.close().await;
}
