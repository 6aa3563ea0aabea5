//! The exporter as a process: what it serves, what it leaves out, how it ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Home;

/// Servers that are not there.
const NOBODY: &str = "\
[contexts.a]
environment = \"staging\"
amqp = \"amqp://ops:S3CRET-42@127.0.0.1:1/%2f\"
management = \"http://ops:S3CRET-42@127.0.0.1:1\"
thresholds = { statement_timeout = \"500ms\" }
[[contexts.a.services]]
name = \"orders\"
database = \"mysql://ops:S3CRET-42@127.0.0.1:1/orders\"
outbox = { exchange = \"shop.events\" }
inbox = { consumer = \"orders\", queue = \"orders.q\" }
dead_letters = { queues = [\"orders.dlq\"] }
sagas = {}
";

/// A first look on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
        let stderr = child.stderr.take().expect("a pipe");
        let first = BufReader::new(stderr)
            .lines()
            .next()
            .expect("says where it serves")
            .expect("UTF-8");
        let address = first
            .strip_prefix("serving http://")
            .and_then(|rest| rest.strip_suffix("/metrics"))
            .unwrap_or_else(|| panic!("{first}"))
            .to_owned();
        Self { child, address }
    }

    /// Status line, headers and body of one answer.
    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream
            .write_all(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }

    /// The page, once the first look has ended.
    fn page(&self) -> String {
        let from = Instant::now();
        loop {
            let answer = self.ask("GET", "/metrics");
            if answer.starts_with("HTTP/1.1 200") {
                return answer;
            }
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(from.elapsed() < PATIENCE, "{answer}");
        }
    }

    fn terminate(mut self) -> i32 {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("told");
        self.child.wait().expect("ends").code().unwrap_or(-1)
    }
}

#[test]
fn a_server_that_is_not_there_makes_values_absent_and_not_zero() {
    let home = Home::with_config(NOBODY);
    let exporter = Exporter::start(home.command(&["exporter", "--listen", "127.0.0.1:0"]));
    let page = exporter.page();
    assert!(page.contains("application/openmetrics-text"), "{page}");
    let values: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("redrive_"))
        .collect();
    for line in [
        "redrive_up{server=\"db orders\"} 0",
        "redrive_up{server=\"amqp\"} 0",
    ] {
        assert!(
            values.iter().any(|value| value.starts_with(line)),
            "{line}\n{page}"
        );
    }
    for absent in [
        "redrive_outbox_rows",
        "redrive_dead_letters",
        "redrive_queue_ready",
        "redrive_sagas_open",
    ] {
        assert!(
            !values.iter().any(|value| value.starts_with(absent)),
            "{absent}\n{page}"
        );
    }
    assert!(
        values.iter().any(
            |value| value.starts_with("redrive_unread{what=\"outbox of orders\"}")
                || value.starts_with("redrive_unread{what=\"outbox counts of orders\"}")
        ),
        "{page}"
    );
    assert!(!page.contains("S3CRET-42"), "{page}");
    assert_eq!(exporter.terminate(), 0);
}

#[test]
fn it_answers_what_a_scraper_asks_and_ends_when_told() {
    let home = Home::with_config(NOBODY);
    let exporter = Exporter::start(home.command(&["exporter", "--listen", "127.0.0.1:0"]));
    assert!(exporter.ask("GET", "/").starts_with("HTTP/1.1 200"));
    assert!(exporter.ask("GET", "/secrets").starts_with("HTTP/1.1 404"));
    assert!(exporter.ask("POST", "/metrics").starts_with("HTTP/1.1 405"));
    // One look for any number of scrapes: the age goes on, the look is the same.
    let took = |page: &str| {
        let line = page
            .lines()
            .find(|line| line.starts_with("redrive_look_duration_seconds"));
        line.map(str::to_owned).expect("a duration")
    };
    let first = took(&exporter.page());
    assert!((0..20).all(|_| took(&exporter.page()) == first));
    assert_eq!(exporter.terminate(), 0);
}

#[test]
fn an_address_that_is_taken_is_said() {
    let home = Home::with_config(NOBODY);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("has one").to_string();
    let run = home.run(&["exporter", "--listen", &address]).exits(2);
    assert!(run.stderr.contains("cannot listen on"), "{}", run.stderr);
}
