//! A real PostgreSQL for tests: a server of its own for each, a client past our code, and a
//! proxy that loses a request or its reply.

#![allow(dead_code, reason = "each test file uses its part")]

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::lock::postgres::{Endpoint, schema};
use lockstorm::stock::sql;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BINARIES: &str = "/usr/lib/postgresql/15/bin";
const LIMIT: Duration = Duration::from_secs(10);

/// A server that ends with the test.
pub struct Server {
    process: Child,
    port: u16,
    arguments: Vec<String>,
    data: PathBuf,
    directory: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.crash();
    }
}

impl Server {
    /// A running server, or `None` where PostgreSQL 15 is not installed.
    pub async fn start(host: &Host, arguments: &[&str]) -> Option<Server> {
        if !Path::new(BINARIES).join("initdb").exists() {
            eprintln!("SKIPPED: PostgreSQL 15 is not installed in {BINARIES}");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        give_to_postgres(directory.path());
        let made = as_postgres("initdb")
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        // Free now; should another program take it first, this panics.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = spawn(&data, port, &arguments);
        let server = Server { process, port, arguments, data, directory };
        server.until_it_answers(host).await;
        Some(server)
    }

    async fn until_it_answers(&self, host: &Host) {
        for _ in 0..400 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                && connect(self.port).await.is_some()
            {
                return;
            }
            host.sleep(Duration::from_millis(25)).await;
        }
        panic!("the server does not answer");
    }

    /// A client past our code.
    pub async fn client(&self) -> Option<tokio_postgres::Client> {
        connect(self.port).await
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends it as a crash does: nothing is flushed, nobody is told (an immediate shutdown;
    /// killed outright, it would leave its shared memory behind).
    fn crash(&mut self) {
        let process = self.process.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &process]).status();
        let _ = self.process.wait();
    }

    pub async fn crash_and_restart(&mut self, host: &Host) {
        self.crash();
        self.process = spawn(&self.data, self.port, &self.arguments);
        self.until_it_answers(host).await;
    }
}

fn spawn(data: &Path, port: u16, arguments: &Vec<String>) -> Child {
    as_postgres("postgres")
        .arg("-D")
        .arg(data)
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
        .args(["-c", "unix_socket_directories=", "-c", "fsync=off"])
        .args(["-c", "shared_buffers=16MB", "-c", "deadlock_timeout=200ms"])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// PostgreSQL does not run as root: as the user that its package made, then.
fn as_postgres(program: &str) -> Command {
    let program = Path::new(BINARIES).join(program);
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

fn is_root() -> bool {
    id(&["-u"]) == Some(0)
}

fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn give_to_postgres(directory: &Path) {
    if is_root() {
        let (user, group) = (id(&["-u", "postgres"]), id(&["-g", "postgres"]));
        chown(directory, user, group).unwrap();
    }
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).unwrap();
}

async fn connect(port: u16) -> Option<tokio_postgres::Client> {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").dbname("postgres").application_name("test");
    let (client, connection) = config.connect_raw(stream, tokio_postgres::NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}

/// One machine, one server with the tables, and how to look at it.
pub struct Bench {
    pub host: Host,
    pub server: Server,
}

impl Bench {
    pub async fn new() -> Option<Bench> {
        let host = Host::tokio("app-1");
        let server = Server::start(&host, &[]).await?;
        let endpoint = Endpoint::at(server.address());
        // Twice: it may be run again.
        for _ in 0..2 {
            schema::install(&host, &endpoint, LIMIT).await.unwrap();
            sql::install(&host, &endpoint, LIMIT).await.unwrap();
        }
        Some(Bench { host, server })
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::at(self.server.address())
    }

    /// A client past our code.
    pub async fn client(&self) -> tokio_postgres::Client {
        self.server.client().await.unwrap()
    }

    /// The first column of the first row of the answer; empty where there is none.
    pub async fn ask(&self, statement: &str) -> String {
        let messages = self.client().await.simple_query(statement).await.unwrap();
        let row = messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        row.unwrap_or_default()
    }
}

/// Skips the test, loudly, where there is no server.
macro_rules! bench {
    () => {
        match Bench::new().await {
            Some(bench) => bench,
            None => return,
        }
    };
}
pub(crate) use bench;

/// Where a statement is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The server never sees it.
    BeforeItArrives,
    /// The server does it, and its reply is lost.
    AfterItArrived,
}

/// Between the client and the server: cuts the connection, once, at the first statement with
/// a certain word in it.
pub struct Proxy {
    port: u16,
    cuts: Arc<AtomicU32>,
}

impl Proxy {
    pub async fn before(bench: &Bench, word: &'static str, when: When) -> Proxy {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cuts, server) = (Arc::new(AtomicU32::new(0)), bench.server.port);
        let counter = cuts.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = tokio::net::TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                tokio::spawn(carry(client, server, word, when, counter.clone()));
            }
        });
        Proxy { port, cuts }
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::at(format!("127.0.0.1:{}", self.port))
    }

    /// How often it has cut.
    pub fn cuts(&self) -> u32 {
        self.cuts.load(Ordering::Relaxed)
    }
}

async fn carry(
    mut client: tokio::net::TcpStream,
    mut server: tokio::net::TcpStream,
    word: &str,
    when: When,
    cuts: Arc<AtomicU32>,
) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let said = &asked[..length];
                let is_it = said.windows(word.len()).any(|window| window == word.as_bytes());
                if is_it && cuts.load(Ordering::Relaxed) == 0 {
                    cuts.store(1, Ordering::Relaxed);
                    if when == When::AfterItArrived {
                        server.write_all(said).await.unwrap();
                        // Its answer: done, and told to nobody.
                        let _ = server.read(&mut answered).await;
                    }
                    return;
                }
                if server.write_all(said).await.is_err() { return }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answered[..length]).await.is_err() { return }
            }
        }
    }
}
