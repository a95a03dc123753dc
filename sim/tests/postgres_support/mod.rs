//! A server of ours and a real one on TCP ports.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::server::postgres::observe::Unobserved;
use lockstorm_sim::server::postgres::{Control, Server, Settings};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Runs a test on one thread with real time and real sockets.
pub fn on_tokio<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// A client of the server at a port.
pub async fn connect(port: u16) -> Client {
    try_connect(port).await.unwrap()
}

pub async fn try_connect(port: u16) -> Option<Client> {
    connect_closable(port).await.map(|(client, _)| client)
}

/// A client and the task that has its socket: whoever aborts it closes that.
pub async fn connect_closable(port: u16) -> Option<(Client, JoinHandle<()>)> {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    stream.set_nodelay(true).unwrap();
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").dbname("postgres");
    let (client, connection) = config.connect_raw(stream, NoTls).await.ok()?;
    let task = tokio::spawn(async move {
        // How it ended is told to the client.
        let _ = connection.await;
    });
    Some((client, task))
}

/// What a statement gave: rows, the number of rows, or the code of its error.
pub async fn told(client: &Client, statement: &str) -> String {
    match client.simple_query(statement).await {
        Err(error) => error.code().map_or("closed".to_owned(), |code| code.code().to_owned()),
        Ok(messages) => {
            let parts = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                    Some(format!("({})", values.collect::<Vec<_>>().join(",")))
                }
                SimpleQueryMessage::CommandComplete(count) => Some(format!("#{count}")),
                _ => None,
            });
            parts.collect::<Vec<_>>().join(" ")
        }
    }
}

/// What a statement failed with: code, message, detail. Empty if it did not.
pub async fn complaint(client: &Client, statement: &str) -> String {
    match client.simple_query(statement).await {
        Ok(_) => String::new(),
        Err(error) => match error.as_db_error() {
            Some(told) => {
                let detail = told.detail().unwrap_or("no detail");
                format!("{} {}: {detail}", told.code().code(), told.message())
            }
            None => error.to_string(),
        },
    }
}

/// How much memory this process has had at most, bytes; none where nobody tells.
pub fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

/// A server of ours, and the disk that outlives it.
pub struct Ours {
    pub port: u16,
    pub disk: Disk,
    pub control: Control,
    task: JoinHandle<()>,
}

impl Ours {
    pub async fn start() -> Ours {
        Ours::start_on(Disk::new(disk::Settings::default(), 0, "pg-1"), Settings::default()).await
    }

    /// A server over a disk that may hold what another left there.
    pub async fn start_on(disk: Disk, settings: Settings) -> Ours {
        let host = Host::tokio("pg-1");
        let listener = host.listen(0).await.unwrap();
        let port = listener.port();
        let server = Server::new(host.clone(), settings, disk.mount(&host), Arc::new(Unobserved));
        let control = server.control();
        let task = tokio::spawn(async move {
            server.run_on(listener).await.unwrap();
        });
        let ours = Ours { port, disk, control, task };
        // Whoever comes before it has read its log is told to come later.
        while try_connect(port).await.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        ours
    }

    /// Ends it as a crash of its process does.
    pub async fn crash(mut self) -> Disk {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.disk.clone()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A real PostgreSQL 15 in a directory of its own.
pub struct Real {
    pub port: u16,
    directory: tempfile::TempDir,
}

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Runs a program as a user whom PostgreSQL takes: not as root.
fn run(command: &str) -> bool {
    let user = Command::new("id").arg("-u").output();
    let is_root = user.is_ok_and(|user| user.stdout.trim_ascii() == b"0");
    let mut program = match is_root {
        true => {
            let mut program = Command::new("setpriv");
            program.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh", "-c"]);
            program
        }
        false => {
            let mut program = Command::new("sh");
            program.arg("-c");
            program
        }
    };
    let done = program.arg(command).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

impl Real {
    /// `None`, said loudly, where PostgreSQL 15 is not installed.
    pub async fn start() -> Option<Real> {
        if !Path::new(PROGRAMS).join("initdb").exists() {
            eprintln!("SKIPPED: postgresql-15 is not installed");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display().to_string();
        Command::new("chmod").args(["777", &path]).status().unwrap();
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let made = run(&format!(
            "{PROGRAMS}/initdb -D {path}/d -A trust -U postgres --locale=C --encoding=UTF8"
        ));
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={path} -c fsync=off"
        );
        let started = made
            && run(&format!("{PROGRAMS}/pg_ctl -D {path}/d -w -l {path}/log -o '{options}' start"));
        if !started {
            eprintln!("SKIPPED: postgresql-15 could not be started");
            return None;
        }
        Some(Real { port, directory })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let path = self.directory.path().display().to_string();
        run(&format!("{PROGRAMS}/pg_ctl -D {path}/d -m immediate stop"));
        run(&format!("rm -rf {path}/d"));
    }
}
