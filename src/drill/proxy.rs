//! A TCP proxy between a drill's processes and a server: it passes bytes, holds them back, cuts
//! connections and refuses new ones, and counts, so that a drill waits for facts and not for time.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::base::tasks::Tasks;

/// Bytes passed on at once; held bytes a connection and direction are at most this many, the rest
/// waits in the kernel and slows the sender down.
const CHUNK: usize = 16 * 1024;

/// Between two looks whether cut connections are closed.
const LOOK: Duration = Duration::from_millis(5);

/// What the proxy does with what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Everything passes.
    Open,
    /// The server hears everything, its answers are held back.
    NoReplies,
    /// Nothing passes; connections stay open.
    Silent,
    /// Connections are cut, new ones are closed at once.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    line: Line,
    /// Connections of an older epoch are cut.
    epoch: u64,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    held_bytes: AtomicU64,
    /// Connections by their epoch.
    open: Mutex<BTreeMap<u64, u64>>,
}

impl Counters {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is counted while it lives.
struct Counted {
    counters: Arc<Counters>,
    epoch: u64,
}

impl Counted {
    fn new(counters: Arc<Counters>, epoch: u64) -> Self {
        *counters.open().entry(epoch).or_default() += 1;
        Self { counters, epoch }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.counters.open();
        let left = open.remove(&self.epoch).unwrap_or_default();
        if left > 1 {
            open.insert(self.epoch, left - 1);
        }
    }
}

/// A listening proxy; it ends with the tasks it was started in.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    setting: watch::Sender<Setting>,
    server: watch::Sender<(String, u16)>,
    counters: Arc<Counters>,
}

impl Proxy {
    /// Listens on a free local port for connections to `host:port`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn to(host: &str, port: u16, tasks: &Tasks) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (setting, watched) = watch::channel(Setting {
            line: Line::Open,
            epoch: 0,
        });
        let counters = Arc::new(Counters::default());
        let (server, target) = watch::channel((host.to_owned(), port));
        tasks.spawn_until_stopped(listen(
            listener,
            target,
            (watched, Arc::clone(&counters)),
            tasks.clone(),
        ));
        Ok(Self {
            address,
            setting,
            server,
            counters,
        })
    }

    /// The port clients connect to, on this machine.
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes what passes from now on. [`Line::Refused`] also cuts what is connected.
    pub fn set(&self, line: Line) {
        self.setting.send_modify(|setting| {
            setting.line = line;
            if line == Line::Refused {
                setting.epoch += 1;
            }
        });
    }

    /// Connections from now on go to another server; those that are there are cut.
    pub async fn move_to(&self, host: &str, port: u16) {
        self.server.send_replace((host.to_owned(), port));
        self.cut().await;
    }

    /// Cuts every connection, and returns when they are closed; new ones are taken.
    pub async fn cut(&self) {
        self.setting.send_modify(|setting| setting.epoch += 1);
        let epoch = self.setting.borrow().epoch;
        let mut ticks = tokio::time::interval(LOOK);
        // Each of them hears of it and has nothing to wait for.
        while self.counters.open().range(..epoch).next().is_some() {
            ticks.tick().await;
        }
    }

    /// Connections taken so far, refused ones too.
    pub fn accepted(&self) -> u64 {
        self.counters.accepted.load(Ordering::Acquire)
    }

    /// Connections closed at once because of [`Line::Refused`].
    pub fn refused(&self) -> u64 {
        self.counters.refused.load(Ordering::Acquire)
    }

    /// Bytes that were held back so far on their way to the server.
    pub fn held_bytes(&self) -> u64 {
        self.counters.held_bytes.load(Ordering::Acquire)
    }
}

type Shared = (watch::Receiver<Setting>, Arc<Counters>);

async fn listen(
    listener: TcpListener,
    target: watch::Receiver<(String, u16)>,
    shared: Shared,
    tasks: Tasks,
) {
    // A failed accept is a connection that went away while it waited.
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let (watched, counters) = &shared;
        counters.accepted.fetch_add(1, Ordering::AcqRel);
        let setting = *watched.borrow();
        if setting.line == Line::Refused {
            counters.refused.fetch_add(1, Ordering::AcqRel);
            continue;
        }
        let (server, shared) = (target.borrow().clone(), shared.clone());
        let counted = Counted::new(Arc::clone(counters), setting.epoch);
        tasks.spawn_until_stopped(async move {
            let _counted = counted;
            // A server that is not there is a cut connection for the client, too.
            let Ok(upstream) = TcpStream::connect((server.0.as_str(), server.1)).await else {
                return;
            };
            join(client, upstream, shared, setting.epoch).await;
        });
    }
}

/// Carries bytes both ways until one side ends or the connection is cut.
async fn join(client: TcpStream, upstream: TcpStream, shared: Shared, epoch: u64) {
    // Latency is not what a drill is about: failing to switch Nagle off changes nothing.
    for stream in [&client, &upstream] {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "proxy: nodelay");
        }
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = upstream.into_split();
    let (watched, counters) = shared;
    let mut cut = watched.clone();
    tokio::select! {
        () = carry(from_client, to_server, watched.clone(), Some(&counters)) => {}
        () = carry(from_server, to_client, watched, None) => {}
        _ = cut.wait_for(|setting| setting.epoch != epoch) => {}
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut watched: watch::Receiver<Setting>,
    to_server: Option<&Counters>,
) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let passes = |setting: &Setting| match setting.line {
            Line::Open => true,
            Line::NoReplies => to_server.is_some(),
            Line::Silent | Line::Refused => false,
        };
        if !passes(&watched.borrow())
            && let Some(counters) = to_server
        {
            let bytes = u64::try_from(length).unwrap_or(u64::MAX);
            counters.held_bytes.fetch_add(bytes, Ordering::AcqRel);
        }
        if watched.wait_for(passes).await.is_err() {
            return;
        }
        let Some(bytes) = buffer.get(..length) else {
            return;
        };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each byte with the next one.
    async fn server(tasks: &Tasks) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listens");
        let port = listener.local_addr().expect("bound").port();
        let family = tasks.clone();
        tasks.spawn_until_stopped(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                family.spawn_until_stopped(async move {
                    while let Ok(byte) = client.read_u8().await {
                        client.write_u8(byte + 1).await.expect("answers");
                    }
                });
            }
        });
        port
    }

    async fn client(proxy: &Proxy) -> TcpStream {
        TcpStream::connect(("127.0.0.1", proxy.port()))
            .await
            .expect("connects")
    }

    #[tokio::test]
    async fn bytes_pass_are_held_and_a_cut_ends_the_connection() {
        let tasks = Tasks::new();
        let port = server(&tasks).await;
        let proxy = Proxy::to("127.0.0.1", port, &tasks).await.expect("listens");
        let mut one = client(&proxy).await;
        one.write_u8(1).await.expect("sent");
        assert_eq!(one.read_u8().await.expect("answered"), 2);

        proxy.set(Line::Silent);
        one.write_u8(5).await.expect("taken by the kernel");
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        while proxy.held_bytes() == 0 {
            ticks.tick().await;
        }
        proxy.set(Line::Open);
        assert_eq!(one.read_u8().await.expect("answered late"), 6);

        proxy.cut().await;
        assert!(one.read_u8().await.is_err(), "cut");
        let mut two = client(&proxy).await;
        two.write_u8(1).await.expect("sent");
        assert_eq!(two.read_u8().await.expect("a new one is taken"), 2);

        proxy.set(Line::Refused);
        assert!(two.read_u8().await.is_err(), "cut as well");
        let mut three = client(&proxy).await;
        assert!(three.read_u8().await.is_err(), "refused");
        assert_eq!((proxy.accepted(), proxy.refused()), (3, 1));
        assert!(tasks.stop(Duration::from_secs(5)).await);
    }
}
