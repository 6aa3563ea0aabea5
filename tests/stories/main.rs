//! Stories on real servers: a team's own pipeline (MariaDB, RabbitMQ, a publisher in Python, a
//! consumer of its own) that redrive is attached to. The binary is run as an operator runs it. Each
//! story has its databases and its virtual host, and ends with the audit chain verified.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a story that cannot go on fails; clippy knows only #[test] functions as tests"
)]

#[path = "../support/pty.rs"]
mod pty;

mod at_the_screen;
mod attach;
mod away;
mod collector;
mod crash;
mod dispatcher;
mod doctor;
mod kept;
mod letter_tabs;
mod many_letters;
#[path = "../support/node.rs"]
mod node;
mod redrive;
mod reference;
mod scans;
mod secrets;
mod shop;
mod tls;
mod trace;
mod two_consoles;
