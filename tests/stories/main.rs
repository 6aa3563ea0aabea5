//! Stories on real servers: a team's own pipeline (MariaDB, RabbitMQ, a publisher in Python, a
//! consumer of its own) that redrive is attached to. The binary is run as an operator runs it. Each
//! story has its databases and its virtual host, and ends with the audit chain verified.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a story that cannot go on fails; clippy knows only #[test] functions as tests"
)]

mod attach;
mod collector;
mod crash;
mod redrive;
mod reference;
mod shop;
mod two_consoles;
