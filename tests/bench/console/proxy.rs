//! A server that stops answering: a TCP proxy that can be frozen, or a listener that never answered.
//! Connections are accepted and stay open, which is what a hung database looks like.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use color_eyre::eyre::Result;

/// Listens until this program ends.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_frozen: Mutex<bool>,
    changed: Condvar,
}

impl Proxy {
    /// Accepts and never says a word.
    pub fn silent() -> Result<Self> {
        Self::start(None)
    }

    /// Passes everything on, until it is frozen.
    pub fn to(server: SocketAddr) -> Result<Self> {
        Self::start(Some(server))
    }

    /// From now on nothing passes.
    pub fn freeze(&self) {
        *self
            .gate
            .is_frozen
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn start(server: Option<SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let gate = Arc::new(Gate::default());
        let shared = Arc::clone(&gate);
        thread::spawn(move || {
            let mut held = Vec::new();
            for client in listener.incoming().flatten() {
                match server.map(TcpStream::connect) {
                    Some(Ok(upstream)) => connect(&client, &upstream, &shared),
                    // Dropping the client would be an answer.
                    Some(Err(_)) | None => held.push(client),
                }
            }
        });
        Ok(Self { address, gate })
    }
}

fn connect(client: &TcpStream, upstream: &TcpStream, gate: &Arc<Gate>) {
    for (from, to) in [(client, upstream), (upstream, client)] {
        if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
            let gate = Arc::clone(gate);
            thread::spawn(move || copy(from, to, &gate));
        }
    }
}

/// Ends with either side.
fn copy(mut from: TcpStream, mut to: TcpStream, gate: &Gate) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        gate.wait_until_open();
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
}

impl Gate {
    fn wait_until_open(&self) {
        let mut is_frozen = self
            .is_frozen
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while *is_frozen {
            is_frozen = self
                .changed
                .wait(is_frozen)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
