//! The controller over real redis-servers: what it sends must be what they take.
//! Where redis-server is not installed each test says so, loudly, and passes.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use lockstorm::lock::redis::{Endpoint, Options, RedisLock};
use lockstorm::lock::{Lock, Owner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::Client;
use super::*;

const LIMIT: Duration = Duration::from_secs(10);

/// A redis-server on a port of its own; killed with the test.
struct RedisServer {
    process: Child,
    port: u16,
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server on `port`, following `master`; `None` where it is not installed.
fn start(port: u16, master: Option<u16>) -> Option<RedisServer> {
    let mut command = Command::new("redis-server");
    // A replica writes its master's data set to the current directory.
    command.current_dir(std::env::temp_dir());
    command.args(["--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0"]);
    command.args(["--port", &port.to_string()]).stdout(Stdio::null());
    if let Some(master) = master {
        command.args(["--replicaof", "127.0.0.1", &master.to_string()]);
    }
    match command.spawn() {
        Ok(process) => Some(RedisServer { process, port }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIPPED: redis-server is not installed");
            None
        }
        Err(error) => panic!("redis-server does not start: {error}"),
    }
}

/// Writes down what happened to the master.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl Diary {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl FailoverObserver for Diary {
    fn master_down(&self, address: &str) {
        self.0.lock().unwrap().push(format!("down {address}"));
    }

    fn switched(&self, from: &str, to: &str) {
        self.0.lock().unwrap().push(format!("switched {from} {to}"));
    }
}

/// A master, two replicas in step with it, and a controller.
struct Cluster {
    host: Host,
    servers: Vec<RedisServer>,
    settings: Settings,
    diary: Arc<Diary>,
    controller: Task,
}

impl Cluster {
    async fn start() -> Option<Cluster> {
        let host = Host::tokio("sentinel-1");
        let master = start(free_port(), None)?;
        let replicas = [(); 2].map(|()| start(free_port(), Some(master.port)).unwrap());
        let mut servers = vec![master];
        servers.extend(replicas);
        let nodes = servers.iter().map(|server| format!("127.0.0.1:{}", server.port));
        let mut settings = Settings::new(nodes.collect());
        settings.port = free_port();
        settings.down_after = Duration::from_millis(600);
        settings.ping_every = Duration::from_millis(50);
        settings.info_every = Duration::from_millis(200);
        let diary = Arc::new(Diary::default());
        let controller = control(&host, &settings, &diary);
        let cluster = Cluster { host, servers, settings, diary, controller };
        cluster.until_info(0, "connected_slaves:2").await;
        cluster.until_info(1, "master_link_status:up").await;
        cluster.until_info(2, "master_link_status:up").await;
        Some(cluster)
    }

    /// Asks a server until its INFO replication has this line.
    async fn until_info(&self, node: usize, line: &str) {
        let address = &self.settings.nodes[node];
        let asking = async {
            loop {
                if let Ok(mut client) = Client::connect(&self.host, address, LIMIT).await
                    && let Ok(reply) = client.ask(&[b"INFO", b"replication"]).await
                    && String::from_utf8_lossy(reply.text().unwrap()).contains(line)
                {
                    return;
                }
                self.host.sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = self.host.timeout(LIMIT, asking).await;
        assert!(waited.is_ok(), "{address} never said {line}; {:?}", self.diary.lines());
    }

    /// The master as clients are told.
    async fn told_master(&self) -> String {
        let address = format!("127.0.0.1:{}", self.settings.port);
        let mut client = Client::connect(&self.host, &address, LIMIT).await.unwrap();
        let reply = client.ask(&[b"SENTINEL", b"get-master-addr-by-name", b"mymaster"]).await;
        let reply = reply.unwrap();
        let parts = reply.as_array().unwrap().iter();
        let parts = parts.map(|part| String::from_utf8_lossy(part.text().unwrap()).into_owned());
        parts.collect::<Vec<_>>().join(":")
    }

    async fn until_switched(&self) -> usize {
        let waiting = async {
            while self.told_master().await == self.settings.nodes[0] {
                self.host.sleep(Duration::from_millis(20)).await;
            }
        };
        self.host.timeout(LIMIT, waiting).await.unwrap();
        let master = self.told_master().await;
        self.settings.nodes.iter().position(|node| *node == master).unwrap()
    }

    fn lock(&self) -> RedisLock {
        let endpoint = Endpoint::Sentinel {
            sentinels: vec![format!("127.0.0.1:{}", self.settings.port)],
            master_name: "mymaster".to_owned(),
        };
        let options = Options {
            command_timeout: Duration::from_secs(1),
            ..Options::new(Duration::from_secs(30))
        };
        RedisLock::new(self.host.clone(), endpoint, options).unwrap()
    }
}

fn control(host: &Host, settings: &Settings, diary: &Arc<Diary>) -> Task {
    let controller = FailoverController::new(host.clone(), settings.clone(), diary.clone());
    host.spawn("sentinel", async move { controller.run().await.unwrap() })
}

#[tokio::test]
async fn a_dead_master_is_replaced_and_demoted_when_it_returns() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let lock = cluster.lock();
    let guard = lock.acquire("before", &Owner::named("a"), LIMIT).await.unwrap();
    assert_eq!(cluster.told_master().await, cluster.settings.nodes[0]);

    let old = cluster.servers.remove(0);
    let port = old.port;
    drop(old);
    let new = cluster.until_switched().await;
    let nodes = &cluster.settings.nodes;
    assert_eq!(
        cluster.diary.lines(),
        [format!("down {}", nodes[0]), format!("switched {} {}", nodes[0], nodes[new])]
    );
    let port_of_new = nodes[new].rsplit_once(':').unwrap().1;
    let following = format!("master_port:{port_of_new}");
    cluster.until_info(3 - new, &following).await;

    // The lock finds the new master by itself, and there what had been replicated.
    let next = lock.acquire("after", &Owner::named("b"), LIMIT).await.unwrap();
    assert!(lock.acquire("before", &Owner::named("b"), Duration::ZERO).await.is_err());
    drop((guard, next));

    // Empty, and calling itself a master.
    cluster.servers.push(start(port, None).unwrap());
    cluster.until_info(0, &following).await;
    cluster.until_info(0, "master_link_status:up").await;
    assert_eq!(cluster.told_master().await, nodes[new]);
}

#[tokio::test]
async fn a_controller_that_restarts_remembers_whom_it_promoted() {
    let Some(mut cluster) = Cluster::start().await else { return };
    drop(cluster.servers.remove(0));
    let new = cluster.until_switched().await;
    cluster.controller.abort();
    // The port is free once the task has ended.
    cluster.settings.port = free_port();
    cluster.controller = control(&cluster.host, &cluster.settings, &cluster.diary);
    cluster.host.sleep(cluster.settings.ping_every).await;
    assert_eq!(cluster.told_master().await, cluster.settings.nodes[new]);
}

#[tokio::test]
async fn a_master_that_restarts_empty_before_it_is_missed_stays_the_master() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let lock = cluster.lock();
    let _guard = lock.acquire("k", &Owner::named("a"), LIMIT).await.unwrap();
    let old = cluster.servers.remove(0);
    let port = old.port;
    drop(old);
    cluster.servers.push(start(port, None).unwrap());
    cluster.until_info(0, "connected_slaves:2").await;
    assert_eq!(cluster.told_master().await, cluster.settings.nodes[0]);
    assert_eq!(cluster.diary.lines(), [""; 0]);
    // Known hazard: the record is gone everywhere.
    drop(lock.acquire("k", &Owner::named("b"), LIMIT).await.unwrap());
}

#[tokio::test]
async fn a_master_that_hangs_is_replaced_and_demoted_when_it_wakes() {
    let Some(cluster) = Cluster::start().await else { return };
    let signal = |name: &str| {
        let process = cluster.servers[0].process.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    };
    signal("-STOP");
    let new = cluster.until_switched().await;
    signal("-CONT");
    let port_of_new = cluster.settings.nodes[new].rsplit_once(':').unwrap().1;
    cluster.until_info(0, &format!("master_port:{port_of_new}")).await;
    assert_eq!(cluster.diary.lines().len(), 2, "{:?}", cluster.diary.lines());
}

/// A controller without servers to watch that exist, for its own commands.
async fn lone() -> (Host, Settings, Task) {
    let host = Host::tokio("sentinel-1");
    let mut settings = Settings::new(vec!["127.0.0.1:1".to_owned()]);
    settings.port = free_port();
    let task = control(&host, &settings, &Arc::default());
    while host.connect(&format!("127.0.0.1:{}", settings.port)).await.is_err() {
        host.sleep(Duration::from_millis(5)).await;
    }
    (host, settings, task)
}

/// Sends bytes, says that no more will come, and returns all that is answered.
async fn send(host: &Host, settings: &Settings, bytes: &[u8]) -> String {
    let mut stream = host.connect(&format!("127.0.0.1:{}", settings.port)).await.unwrap();
    // The server may end the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).replace("\r\n", " ")
}

#[tokio::test]
async fn clients_are_answered_like_by_a_sentinel() {
    let (host, settings, _task) = lone().await;
    for (command, answer) in [
        ("PING", "+PONG "),
        ("CLIENT SETINFO LIB-NAME x", "+OK "),
        ("ROLE", "*2 $8 sentinel *1 $8 mymaster "),
        ("sentinel get-master-addr-by-name mymaster", "*2 $9 127.0.0.1 $1 1 "),
        ("SENTINEL GET-MASTER-ADDR-BY-NAME yours", "*-1 "),
        ("SENTINEL MASTER yours", "-ERR No such master with that name "),
        ("SET a b", "-ERR unknown command 'SET' "),
        ("HELLO 4", "-NOPROTO unsupported protocol version "),
    ] {
        let line = format!("{command}\r\n");
        assert_eq!(send(&host, &settings, line.as_bytes()).await, answer, "{command}");
    }
    assert!(send(&host, &settings, b"HELLO 3\r\n").await.starts_with("%4 "));
    assert!(send(&host, &settings, b"SENTINEL MASTERS\r\n").await.contains("$2 ip $9 127.0.0.1 "));
    assert!(send(&host, &settings, b"INFO\r\n").await.contains("master0:name=mymaster,status="));
}

#[tokio::test]
async fn hostile_bytes_end_their_own_connection_only() {
    let (host, settings, _task) = lone().await;
    let answer = send(&host, &settings, b"*1\r\n$-5\r\n").await;
    assert_eq!(answer, "-ERR Protocol error: invalid bulk length ");
    assert_eq!(send(&host, &settings, b"PING\r\n*x\r\nPING\r\n").await.matches("PONG").count(), 1);
    assert!(send(&host, &settings, &[b'x'; 70_000]).await.len() < 100);
    assert_eq!(send(&host, &settings, b"PING\r\n").await, "+PONG ");
}
