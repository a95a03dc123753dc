//! A server of ours and a real one on TCP ports, and a client that keeps the bytes.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::server::redis::codec::{
    Reply, ReplyDecoder, RequestDecoder, RequestLimits, append_command,
};
use lockstorm_sim::server::redis::observe::{Observer, Unobserved};
use lockstorm_sim::server::redis::{ConfigFile, ReplicationGate, Server, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Runs a test on one thread with real time and real sockets.
pub fn on_tokio<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// A server of ours.
pub struct Ours {
    pub port: u16,
    pub config: ConfigFile,
    pub gate: ReplicationGate,
    task: JoinHandle<std::io::Result<()>>,
}

impl Ours {
    pub async fn start() -> Ours {
        Ours::start_with(Settings::default(), ConfigFile::new(), Arc::new(Unobserved)).await
    }

    pub async fn start_with(
        settings: Settings,
        config: ConfigFile,
        observer: Arc<dyn Observer>,
    ) -> Ours {
        let host = Host::tokio("redis-1");
        let listener = host.listen(0).await.unwrap();
        let port = listener.port();
        let gate = ReplicationGate::new();
        let server = Server::new(host, settings, config.clone(), gate.clone(), observer);
        Ours { port, config, gate, task: tokio::spawn(server.run_on(listener)) }
    }

    /// Waits until it has ended by itself: `Err` says why, `Ok` that it was shut down.
    pub async fn ended(self) -> std::io::Result<()> {
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, self.task).await.expect("it ends").unwrap()
    }

    /// Ends it as a crash of its process does.
    pub async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// A real redis-server in a directory of its own.
pub struct Real {
    pub port: u16,
    child: Child,
    directory: Option<tempfile::TempDir>,
}

impl Real {
    /// `None`, said loudly, where redis-server is not installed.
    pub async fn start(arguments: &[&str]) -> Option<Real> {
        Real::start_in(tempfile::tempdir().unwrap(), arguments).await
    }

    /// The same in a directory that may have files.
    pub async fn start_in(directory: tempfile::TempDir, arguments: &[&str]) -> Option<Real> {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let has_files = directory.path().read_dir().unwrap().next().is_some();
        let Ok(child) = spawn(port, directory.path(), arguments) else {
            eprintln!("SKIPPED: redis-server is not installed");
            return None;
        };
        let real = Real { port, child, directory: Some(directory) };
        real.is_listening().await;
        if has_files {
            real.has_read_its_files().await;
        }
        Some(real)
    }

    /// `kill -9`, and another start on the same port with the same files.
    pub async fn kill_and_restart(&mut self, arguments: &[&str]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let directory = self.directory.as_ref().unwrap().path();
        self.child = spawn(self.port, directory, arguments).unwrap();
        self.is_listening().await;
        self.has_read_its_files().await;
    }

    /// `kill -9`; its files are left.
    pub fn kill(mut self) -> tempfile::TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.directory.take().unwrap()
    }

    async fn is_listening(&self) {
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("redis-server did not open its port within 5 s");
    }

    /// Waits until it does not say `LOADING` any more: its port is open before it has read what
    /// it kept.
    async fn has_read_its_files(&self) {
        let mut client = Client::connect(self.port).await;
        until("what the server kept", async || {
            let reply = client.line("PING").await;
            (!matches!(&reply, Reply::Error(text) if text.starts_with(b"LOADING"))).then_some(())
        })
        .await;
    }
}

fn spawn(port: u16, directory: &std::path::Path, arguments: &[&str]) -> std::io::Result<Child> {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--repl-diskless-sync-delay", "0"])
        .args(arguments)
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that shows what came over the wire.
pub struct Client {
    stream: TcpStream,
    decoder: ReplyDecoder,
    raw: Vec<u8>,
}

impl Client {
    pub async fn connect(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, decoder: ReplyDecoder::default(), raw: Vec::new() }
    }

    pub async fn send(&mut self, arguments: &[&[u8]]) {
        let mut bytes = Vec::new();
        append_command(&mut bytes, arguments.iter().copied());
        self.send_raw(&bytes).await;
    }

    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends bytes, unless the server has closed.
    pub async fn try_send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// The next reply; `None` once the server has closed.
    pub async fn reply(&mut self) -> Option<Reply> {
        loop {
            if let Some(reply) = self.decoder.decode().expect("a well-formed reply") {
                return Some(reply);
            }
            let mut bytes = vec![0; 16 * 1024];
            let reading = self.stream.read(&mut bytes);
            let count = tokio::time::timeout(Duration::from_secs(10), reading)
                .await
                .expect("a reply within 10 s")
                .unwrap_or(0);
            if count == 0 {
                return None;
            }
            self.raw.extend_from_slice(&bytes[..count]);
            self.decoder.buffer_mut().extend_from_slice(&bytes[..count]);
        }
    }

    /// The next bytes, whatever they are.
    pub async fn read_raw(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 16 * 1024];
        let count = self.stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the server has closed");
        bytes.truncate(count);
        bytes
    }

    /// The next bytes; none once the server has closed.
    pub async fn read_some(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 256 * 1024];
        let reading = self.stream.read(&mut bytes);
        let count = tokio::time::timeout(Duration::from_secs(60), reading)
            .await
            .expect("bytes or the end within 60 s")
            .unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    /// Reads until the server closes; how much there was, if it was more than `limit`.
    pub async fn read_to_end(&mut self, limit: usize) -> Option<usize> {
        let mut total = 0;
        loop {
            let count = self.read_some().await.len();
            total += count;
            if total > limit {
                return Some(total);
            }
            if count == 0 {
                return None;
            }
        }
    }

    /// One command, one reply.
    pub async fn call(&mut self, arguments: &[&[u8]]) -> Reply {
        self.send(arguments).await;
        self.reply().await.expect("the server is there")
    }

    /// A command written as a line, with quotes as redis-cli takes them.
    pub async fn line(&mut self, line: &str) -> Reply {
        self.send(&words(line).iter().map(Vec::as_slice).collect::<Vec<_>>()).await;
        self.reply().await.expect("the server is there")
    }

    /// The reply to a script that may not end: if it does not, `other` kills it. Needs a
    /// server that says soon that it is busy.
    pub async fn script(&mut self, other: &mut Client, script: &str) -> Reply {
        self.send(&[b"EVAL", script.as_bytes(), b"0"]).await;
        loop {
            let waiting = tokio::time::timeout(Duration::from_millis(20), self.reply()).await;
            if let Ok(reply) = waiting {
                return reply.expect("the server is there");
            }
            other.line("SCRIPT KILL").await;
        }
    }

    /// Whether nothing comes for a while.
    pub async fn is_quiet(&mut self) -> bool {
        let mut bytes = vec![0; 4096];
        let reading = self.stream.read(&mut bytes);
        let silence = tokio::time::timeout(Duration::from_millis(150), reading).await.is_err();
        silence && matches!(self.decoder.decode(), Ok(None))
    }

    /// The bytes since the last call of this function.
    pub fn take_raw(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw)
    }
}

/// The arguments of a line.
pub fn words(line: &str) -> Vec<Vec<u8>> {
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    decoder.feed(line.as_bytes());
    decoder.feed(b"\n");
    let arguments = decoder.decode().expect("balanced quotes").expect("a line");
    arguments.iter().map(<[u8]>::to_vec).collect()
}

/// What a server has counted of commands and errors, in order of names: without times, and
/// without `INFO`, which a test that waits asks for as often as it must.
pub async fn counted(port: u16) -> Vec<String> {
    let reply = Client::connect(port).await.line("INFO commandstats errorstats").await;
    let text = String::from_utf8_lossy(reply.text().expect("a text")).into_owned();
    let is_count = |line: &&str| line.starts_with("cmdstat_") || line.starts_with("errorstat_");
    let lines = text.lines().filter(is_count).filter(|line| !line.starts_with("cmdstat_info:"));
    let mut lines: Vec<String> = lines
        .map(|line| {
            let fields: Vec<&str> =
                line.split(',').filter(|field| !field.starts_with("usec")).collect();
            fields.join(",")
        })
        .collect();
    lines.sort();
    lines
}

/// Repeats `probe` until it gives something, for at most 20 s.
pub async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..800 {
        if let Some(found) = probe().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("waited 20 s for {what}");
}

/// A reply as text, the elements of each of its collections sorted.
pub fn in_any_order(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) | Reply::Set(items) => {
            let mut items: Vec<String> = items.iter().map(in_any_order).collect();
            items.sort();
            format!("[{}]", items.join(", "))
        }
        Reply::Map(pairs) => {
            let mut pairs: Vec<String> = pairs
                .iter()
                .map(|(key, value)| format!("{}: {}", in_any_order(key), in_any_order(value)))
                .collect();
            pairs.sort();
            format!("{{{}}}", pairs.join(", "))
        }
        other => format!("{other:?}"),
    }
}
