//! The pane of drills in a real terminal: listed, one run on the embedded pipeline, one that needs
//! what is not here.

use super::pty::{Console, Size};

const SIZES: [Size; 2] = [(80, 24), (120, 36)];

#[test]
fn a_drill_is_run_from_its_pane_and_its_verdict_stands_first() {
    for size in SIZES {
        let mut console = Console::start(size, &["demo", "--seed", "7"], &[]);
        console.wait_for("Overview");
        console.press("0");
        console.wait_for("sent-not-marked");
        let shown = console.shown();
        for part in ["0 Drill", "before-outbox", "verdict", "R run"] {
            assert!(shown.contains(part), "{size:?}: no {part}:\n{shown}");
        }
        assert!(!shown.contains("passed"), "nothing was run:\n{shown}");

        console.press("\r");
        console.wait_for("not run from here yet");
        console.press("R");
        console.wait_for("passed   0 rows lost   recovered in ");
        let shown = console.shown();
        for part in [
            "1 passed",
            "1 before-outbox",
            "inject     The producer throws",
        ] {
            assert!(shown.contains(part), "{size:?}: no {part}:\n{shown}");
        }
        console.press("G");
        console.wait_for("recovered\n");

        console.press("\x1b");
        console.press("/drill:node-lost\r");
        console.wait_for("1 of ");
        console.press("R");
        console.wait_for("not run: the fault needs processes and connections");
        console.press("\r");
        console.wait_for("reason     the fault needs processes and connections");
        console.press("q");
        assert_eq!(console.end(), 0);
    }
}
