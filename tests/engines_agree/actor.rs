//! What a program of a behaviour has in its hands, the same on every arm.

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::{BoxFuture, Keepalive, Listener, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Where servers listen.
pub const PORT: u16 = 7;

/// What an arm supplies besides the host.
pub trait Surroundings: Send + Sync {
    /// Passes on a line of the program.
    fn say(&self, line: String);
    /// The program is ready for the other one.
    fn ready(&self);
    /// Completes once the script has given this cue.
    fn cue(&self, name: &'static str) -> BoxFuture<'static, ()>;
    /// The server's `name:port`.
    fn server(&self) -> String;
}

/// A program's hands and voice.
#[derive(Clone)]
pub struct Actor {
    pub host: Host,
    /// 1, and more after restarts.
    pub life: u32,
    surroundings: Arc<dyn Surroundings>,
}

impl Actor {
    pub fn new(host: Host, life: u32, surroundings: Arc<dyn Surroundings>) -> Self {
        Actor { host, life, surroundings }
    }

    pub fn say(&self, line: impl Display) {
        self.surroundings.say(line.to_string());
    }

    pub fn ready(&self) {
        self.surroundings.ready();
    }

    pub async fn cue(&self, name: &'static str) {
        self.surroundings.cue(name).await;
    }

    pub async fn sleep_ms(&self, ms: u64) {
        self.host.sleep(Duration::from_millis(ms)).await;
    }

    /// Listens on [`PORT`] and is ready.
    pub async fn listen(&self) -> Listener {
        let listener = self.host.listen(PORT).await.unwrap();
        self.ready();
        listener
    }

    /// Listens and takes one connection.
    pub async fn accept(&self) -> Stream {
        self.listen().await.accept().await.unwrap()
    }

    pub async fn connect(&self) -> io::Result<Stream> {
        self.host.connect(&self.surroundings.server()).await
    }

    /// Connects, and waits until the listening kernel knows as well.
    pub async fn open(&self) -> Stream {
        let stream = self.connect().await.unwrap();
        self.sleep_ms(50).await;
        stream
    }

    /// Connects and says so.
    pub async fn connected(&self) -> Stream {
        let stream = self.open().await;
        self.say("connected");
        stream
    }

    /// What comes of `future`, or silence.
    pub async fn within_ms(&self, ms: u64, future: impl Future<Output = String>) -> String {
        let result = self.host.timeout(Duration::from_millis(ms), future).await;
        result.unwrap_or_else(|_| "silence".to_owned())
    }

    /// A class of the time since `start`: of the first bound above it, ms.
    pub fn class(&self, start: Duration, classes: &[(u64, &'static str)]) -> &'static str {
        let elapsed = (self.host.monotonic() - start).as_millis() as u64;
        let class = classes.iter().find(|(below_ms, _)| elapsed < *below_ms);
        class.map_or("much later", |(_, class)| class)
    }
}

/// Reads `count` bytes: the text, or how far it came and what ended it.
pub async fn take(stream: &mut Stream, count: usize) -> String {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while filled < count {
        let ended = match stream.read(&mut bytes[filled..]).await {
            Ok(0) => "end of file".to_owned(),
            Ok(read) => {
                filled += read;
                continue;
            }
            Err(error) => error.kind().to_string(),
        };
        return match filled {
            0 => ended,
            _ => format!("`{}`, {ended}", String::from_utf8_lossy(&bytes[..filled])),
        };
    }
    format!("`{}`", String::from_utf8_lossy(&bytes))
}

/// Writes all of it: `written`, or what kept it from that.
pub async fn give(stream: &mut Stream, text: &str) -> String {
    told(stream.write_all(text.as_bytes()).await, "written")
}

pub fn told<T>(result: io::Result<T>, fine: &str) -> String {
    match result {
        Ok(_) => fine.to_owned(),
        Err(error) => error.kind().to_string(),
    }
}

pub async fn peer_closed(stream: &mut Stream) -> String {
    std::future::poll_fn(|context| stream.poll_peer_closed(context)).await;
    "the peer has closed".to_owned()
}

/// Keepalive in whole seconds.
pub fn keepalive(idle_s: u64, interval_s: u64, count: u32) -> Option<Keepalive> {
    let (idle, interval) = (Duration::from_secs(idle_s), Duration::from_secs(interval_s));
    Some(Keepalive { idle, interval, count })
}

/// Echoes what comes, until the end.
pub async fn echo(mut stream: Stream) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
