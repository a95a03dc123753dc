//! Servers of ours and real ones on TCP ports.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::server::zookeeper::observe::{Observer, Unobserved};
use lockstorm_sim::server::zookeeper::{Ensemble, Listeners, Member, Peers, Server, Settings};
use tokio::task::JoinHandle;

/// The tick of all of them, ms: Debian's.
pub const TICK_MS: u64 = 2_000;

/// Servers of ours: one alone, or an ensemble.
pub struct Ours {
    /// Where clients connect.
    pub addresses: Vec<String>,
    /// Where the other members do: for followers, for elections.
    pub peers: Vec<(String, String)>,
    pub disks: Vec<Disk>,
    tasks: Vec<JoinHandle<()>>,
}

/// What a test's servers are like: nothing goes by itself but sessions.
pub fn settings() -> Settings {
    let never = Duration::from_secs(3_600);
    let words = vec!["*".to_owned()];
    Settings {
        tick: Duration::from_millis(TICK_MS),
        container_interval: never,
        connections_per_address: 0,
        words,
        ..Settings::default()
    }
}

impl Ours {
    pub async fn start(count: u8) -> Ours {
        Ours::start_with(count, settings(), Arc::new(Unobserved)).await
    }

    pub async fn start_with(count: u8, settings: Settings, observer: Arc<dyn Observer>) -> Ours {
        let quick = disk::Settings { sync_median_us: 1, read_median_us: 1, ..Default::default() };
        let disks = (1..=count).map(|me| Disk::new(quick, 0, &format!("zk-{me}"))).collect();
        Ours::start_on(disks, settings, observer).await
    }

    /// On disks that may hold what others left there.
    pub async fn start_on(
        disks: Vec<Disk>,
        settings: Settings,
        observer: Arc<dyn Observer>,
    ) -> Ours {
        let local = |port: u16| format!("127.0.0.1:{port}");
        let mut members = BTreeMap::new();
        let mut listening = Vec::new();
        let mut ours = Ours { addresses: Vec::new(), peers: Vec::new(), disks, tasks: Vec::new() };
        for me in (1..).take(ours.disks.len()) {
            let host = Host::tokio(format!("zk-{me}"));
            let client = host.listen(0).await.unwrap();
            let quorum = host.listen(0).await.unwrap();
            let election = host.listen(0).await.unwrap();
            members.insert(
                me,
                Member {
                    host: "127.0.0.1".to_owned(),
                    quorum_port: quorum.port(),
                    election_port: election.port(),
                },
            );
            ours.addresses.push(local(client.port()));
            ours.peers.push((local(quorum.port()), local(election.port())));
            listening.push((me, host, client, Peers { quorum, election }));
        }
        let is_alone = listening.len() == 1;
        for ((me, host, client, peers), disk) in listening.into_iter().zip(&ours.disks) {
            let client_port = client.port();
            let (ensemble, peers) = match is_alone {
                true => (Ensemble::alone(client_port), None),
                false => (Ensemble { me, members: members.clone(), client_port }, Some(peers)),
            };
            let files = disk.mount(&host);
            let server = Server::new(host, settings.clone(), ensemble, files, observer.clone());
            ours.tasks.push(tokio::spawn(async move {
                server.run_on(Listeners { client, peers }).await.unwrap();
            }));
        }
        for address in &ours.addresses {
            while !says(address, "srvr").await.contains("Mode:") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        ours
    }

    /// Whether no server has ended: one that panicked has.
    pub fn are_alive(&self) -> bool {
        self.tasks.iter().all(|task| !task.is_finished())
    }

    /// Ends all of them as a crash of their processes does.
    pub async fn crash(mut self) -> Vec<Disk> {
        for task in &mut self.tasks {
            task.abort();
            let _ = task.await;
        }
        self.disks.clone()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// What a server, which may be one of ours in this very thread, answers to a four-letter word.
pub async fn says(address: &str, word: &str) -> String {
    let (address, word) = (address.to_owned(), word.to_owned());
    let asked = tokio::task::spawn_blocking(move || tell(&address, &word)).await.unwrap();
    asked.unwrap_or_default()
}

/// The answer to a four-letter word.
pub fn tell(address: &str, word: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(word.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

const JAR: &str = "/usr/share/java/zookeeper.jar";

/// Real servers, from Debian's jars: one alone, or an ensemble.
pub struct Real {
    pub addresses: Vec<String>,
    processes: Vec<Child>,
    _directory: tempfile::TempDir,
}

impl Real {
    /// `None`, said loudly, where ZooKeeper is not installed.
    pub fn start(count: usize) -> Option<Real> {
        let has_java = Command::new("java").arg("-version").stderr(Stdio::null()).status().is_ok();
        if !has_java || !Path::new(JAR).exists() {
            eprintln!("SKIPPED: zookeeper is not installed");
            return None;
        }
        // Ports that are free now; should another program take one first, others are tried.
        (0..3).find_map(|_| Real::try_start(count)).or_else(|| panic!("zookeeper does not serve"))
    }

    fn try_start(count: usize) -> Option<Real> {
        let directory = tempfile::tempdir().unwrap();
        let free: Vec<TcpListener> =
            (0..3 * count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> =
            free.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        drop(free);
        let members: String = (0..count)
            .map(|at| {
                format!("server.{}=127.0.0.1:{}:{}\n", at + 1, ports[3 * at + 1], ports[3 * at + 2])
            })
            .collect();
        let mut real = Real { addresses: Vec::new(), processes: Vec::new(), _directory: directory };
        for at in 0..count {
            let data = real._directory.path().join((at + 1).to_string());
            std::fs::create_dir(&data).unwrap();
            std::fs::write(data.join("myid"), (at + 1).to_string()).unwrap();
            let mut configuration = format!(
                "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\ntickTime={TICK_MS}\n\
                 initLimit=10\nsyncLimit=5\nmaxClientCnxns=0\nadmin.enableServer=false\n\
                 4lw.commands.whitelist=*\n",
                data.display(),
                ports[3 * at]
            );
            if count > 1 {
                configuration.push_str(&members);
            }
            let file = data.join("zoo.cfg");
            std::fs::write(&file, configuration).unwrap();
            // A real disk is not what is compared; nothing goes by itself but sessions.
            let script = "java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
                          -Dzookeeper.forceSync=no -Dznode.container.checkIntervalMs=3600000 \
                          -cp \"$1\" org.apache.zookeeper.server.quorum.QuorumPeerMain \"$2\" \
                          >\"$2.log\" 2>&1 </dev/null & server=$!
                          read ignored; kill -9 $server; wait $server";
            let process = Command::new("sh")
                .args(["-c", script, "zookeeper", JAR])
                .arg(&file)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            real.processes.push(process);
            real.addresses.push(format!("127.0.0.1:{}", ports[3 * at]));
        }
        let serves =
            |address: &String| tell(address, "srvr").is_some_and(|said| said.contains("Mode:"));
        for _ in 0..600 {
            if real.addresses.iter().all(serves) {
                return Some(real);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // A server ends with our pipe, whatever becomes of us.
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }
}
