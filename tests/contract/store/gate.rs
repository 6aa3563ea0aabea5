//! An answer that is held back in its middle: a TCP proxy that stops reading from the server. A server whose
//! answer nobody takes stops in the middle of its statement, so a test can act between two of its rows.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// Listens until the tests end.
pub struct Gate {
    /// Where it listens.
    pub address: SocketAddr,
    answers: Arc<Answers>,
}

/// How many bytes of answers still pass; `None`: all.
#[derive(Default)]
struct Answers {
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Gate {
    /// Passes everything on.
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listens");
        let address = listener.local_addr().expect("an address");
        let answers = Arc::new(Answers::default());
        let shared = Arc::clone(&answers);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(upstream) = TcpStream::connect(server) {
                    connect(&client, &upstream, &shared);
                }
            }
        });
        Self { address, answers }
    }

    /// From now on so many bytes of answers pass, or all.
    pub fn pass(&self, bytes: Option<usize>) {
        *self
            .answers
            .left
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = bytes;
        self.answers.changed.notify_all();
    }
}

fn connect(client: &TcpStream, upstream: &TcpStream, answers: &Arc<Answers>) {
    let (asked, asks) = (client.try_clone(), upstream.try_clone());
    if let (Ok(from), Ok(to)) = (asked, asks) {
        thread::spawn(move || copy(from, to, |_| ()));
    }
    let (answered, takes) = (upstream.try_clone(), client.try_clone());
    if let (Ok(from), Ok(to)) = (answered, takes) {
        let answers = Arc::clone(answers);
        thread::spawn(move || copy(from, to, |bytes| answers.wait(bytes)));
    }
}

/// Ends with either side.
fn copy(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(usize)) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        passes(length);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // The other direction ends too.
    drop(to.shutdown(std::net::Shutdown::Both));
}

impl Answers {
    fn wait(&self, bytes: usize) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self
            .changed
            .wait_while(left, |left| *left == Some(0))
            .unwrap_or_else(PoisonError::into_inner);
        *left = left.map(|left| left.saturating_sub(bytes));
    }
}
