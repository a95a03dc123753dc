//! Sentinels: how long a failover takes, and the same conversation and the same failover
//! with ours and with real ones.

mod redis_support;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockstorm::Host;
use lockstorm_sim::draw::Draw;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::history::{History, What};
use lockstorm_sim::plan::scenario::default_plan;
use lockstorm_sim::plan::{Fault, FaultKind, Fence, Micros, Plan, Seed, When};
use lockstorm_sim::server::redis::codec::Reply;
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::sentinel::{self, MasterSettings, Sentinel};
use lockstorm_sim::server::redis::{ConfigFile, Settings};
use lockstorm_sim::storm;
use redis_support::{Client, Ours, Real, on_tokio, until, words};
use tokio::task::JoinHandle;

/// How a master dies in the storms that measure failovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// Its program: the others see its connections end.
    Process,
    /// Its machine: the others hear nothing any more.
    Machine,
}

/// The standard storm, but all that happens is that the master dies, at a drawn time.
fn death(seed: u64, death: Death) -> Plan {
    let mut plan = default_plan("redis-failover", "redis", Fence::Off).unwrap();
    plan.seed = Seed(seed);
    let at_us = Draw::new(seed, "death", "").between(2_000_000, 5_000_000);
    let node = "redis-1".to_owned();
    let kind = match death {
        Death::Process => FaultKind::ProcessCrash { node },
        Death::Machine => FaultKind::MachineCrash { node },
    };
    plan.faults = vec![Fault::new(kind, When::At(Micros(at_us)))];
    plan
}

/// From the death to where the first sentinel, and where the last, names another master,
/// ms.
fn switched_after_ms(history: &History) -> Option<(u64, u64)> {
    let died = history.iter().find(|event| matches!(event.what, What::NodeCrashed { .. }))?;
    let healed = history.iter().find(|event| matches!(event.what, What::Healed))?;
    let switches = history
        .iter()
        .filter(|event| event.id < healed.id && matches!(event.what, What::MasterSwitched { .. }));
    let after: Vec<u64> = switches.map(|event| (event.at_us - died.at_us) / 1_000).collect();
    Some((*after.first()?, *after.last()?))
}

fn quantile(sorted: &[u64], per_cent: usize) -> u64 {
    sorted[(sorted.len() - 1) * per_cent / 100]
}

/// The times from death to switch over many seeds, in order; and how many had none.
fn switches(kind: Death, seeds: u64) -> (Vec<u64>, Vec<u64>, usize) {
    let runs = (0..seeds).map(|seed| storm::run(&death(seed, kind), &EventEngine));
    let times: Vec<Option<(u64, u64)>> = runs.map(|run| switched_after_ms(&run.history)).collect();
    let none = times.iter().filter(|times| times.is_none()).count();
    let (mut first, mut last): (Vec<u64>, Vec<u64>) = times.into_iter().flatten().unzip();
    first.sort_unstable();
    last.sort_unstable();
    (first, last, none)
}

#[test]
fn a_dead_master_is_replaced_after_two_to_three_seconds() {
    for kind in [Death::Process, Death::Machine] {
        let (first, last, none) = switches(kind, 200);
        let shown = |sorted: &[u64]| [0, 10, 50, 90, 99, 100].map(|part| quantile(sorted, part));
        println!(
            "{kind:?}: first switch {:?} ms, last {:?} ms (0, 10, 50, 90, 99, 100 %), {none} none",
            shown(&first),
            shown(&last)
        );
        assert!(none <= 6, "an election that is split is tried again after the storm: {none}");
        let median = quantile(&first, 50);
        let (least, most) = match kind {
            Death::Process => (2_000, 3_000),
            // The last PING before a silent death was answered up to a second ago.
            Death::Machine => (2_000, 3_600),
        };
        assert!((least..=most).contains(&median), "{kind:?}: {median}");
    }
}

// -- ours and real ones ----------------------------------------------------------------

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Who plays which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cast {
    Real,
    Ours,
    /// Real servers; the first sentinel is real, the others are ours.
    Mixed,
}

enum RedisPart {
    Real(#[expect(dead_code, reason = "ends with the test")] Real),
    Ours(Option<Ours>),
}

/// A master, two replicas, three sentinels that have met.
struct Cluster {
    redis: Vec<RedisPart>,
    redis_ports: Vec<u16>,
    sentinel_ports: Vec<u16>,
    _directory: tempfile::TempDir,
    _processes: Vec<Process>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Cluster {
    async fn start(cast: Cast) -> Option<Cluster> {
        let mut redis = Vec::new();
        let mut ports: Vec<u16> = Vec::new();
        for _ in 0..3 {
            let master = ports.first().copied();
            let (part, port) = match cast {
                Cast::Ours => {
                    let config = match master {
                        None => ConfigFile::new(),
                        Some(port) => ConfigFile::replica_of("127.0.0.1", port),
                    };
                    let watch = Arc::new(Unobserved);
                    let ours = Ours::start_with(Settings::default(), config, watch).await;
                    let port = ours.port;
                    (RedisPart::Ours(Some(ours)), port)
                }
                _ => {
                    let port = master.unwrap_or_default().to_string();
                    let follow = ["--replicaof", "127.0.0.1", &port];
                    let arguments: &[&str] = if master.is_some() { &follow } else { &[] };
                    let real = Real::start(arguments).await?;
                    let port = real.port;
                    (RedisPart::Real(real), port)
                }
            };
            redis.push(part);
            ports.push(port);
        }
        let mut cluster = Cluster {
            redis,
            redis_ports: ports,
            sentinel_ports: Vec::new(),
            _directory: tempfile::tempdir().unwrap(),
            _processes: Vec::new(),
            tasks: Vec::new(),
        };
        for number in 0..3 {
            let is_real = cast == Cast::Real || (cast == Cast::Mixed && number == 0);
            if is_real { cluster.real_sentinel() } else { cluster.our_sentinel().await }
        }
        cluster.until_met().await;
        Some(cluster)
    }

    fn real_sentinel(&mut self) {
        let (port, master) = (free_port(), self.redis_ports[0]);
        let path = self._directory.path().join(format!("{port}.conf"));
        let text = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds mymaster 1000\n\
             sentinel failover-timeout mymaster 10000\n"
        );
        std::fs::write(&path, text).unwrap();
        let child = Command::new("redis-server")
            .arg(&path)
            .arg("--sentinel")
            .current_dir(self._directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self._processes.push(Process(child));
        self.sentinel_ports.push(port);
    }

    async fn our_sentinel(&mut self) {
        let host = Host::tokio("sentinel");
        let listener = host.listen(0).await.unwrap();
        let address = format!("127.0.0.1:{}", self.redis_ports[0]);
        let mut master = MasterSettings::new("mymaster", address, 2);
        master.down_after = Duration::from_secs(1);
        master.failover_timeout = Duration::from_secs(10);
        let mut settings = sentinel::Settings::new("127.0.0.1");
        settings.masters = vec![master];
        self.sentinel_ports.push(listener.port());
        let sentinel = Sentinel::new(host, settings, Arc::new(sentinel::Unobserved));
        self.tasks.push(tokio::spawn(async move { sentinel.run_on(listener).await.unwrap() }));
    }

    /// Waits until every sentinel knows the others and the replicas.
    async fn until_met(&self) {
        for port in &self.sentinel_ports {
            let mut client = until("a sentinel", async || {
                tokio::net::TcpStream::connect(("127.0.0.1", *port)).await.ok()?;
                Some(Client::connect(*port).await)
            })
            .await;
            until("the sentinels to meet", async || {
                let text = shown(&client.line("INFO sentinel").await, &[]);
                let replicas = shown(&client.line("SENTINEL REPLICAS mymaster").await, &[]);
                let sentinels = shown(&client.line("SENTINEL SENTINELS mymaster").await, &[]);
                let is_whole = text.contains("slaves=2,sentinels=3")
                    && replicas.matches("master-link-status=ok").count() == 2
                    && !sentinels.contains("disconnected");
                is_whole.then_some(())
            })
            .await;
        }
    }

    /// What ports are called in what is compared.
    fn names(&self) -> Vec<(String, String)> {
        let redis = self.redis_ports.iter().map(u16::to_string).zip(
            // Which of two equal replicas is promoted is a matter of their ids.
            ["<master>", "<replica>", "<replica>"],
        );
        let sentinels = self.sentinel_ports.iter().map(|port| (port.to_string(), "<sentinel>"));
        redis.chain(sentinels).map(|(port, name)| (port, name.to_owned())).collect()
    }

    async fn kill_master(&mut self) {
        match &mut self.redis[0] {
            RedisPart::Ours(ours) => ours.take().expect("it is killed once").crash().await,
            RedisPart::Real(_) => drop(self.redis.remove(0)),
        }
    }

    /// Follows the events of each sentinel until all name another master.
    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    async fn fail_over(&mut self) -> Failover {
        let mut listeners = Vec::new();
        for port in &self.sentinel_ports {
            let mut listener = Client::connect(*port).await;
            listener.line("PSUBSCRIBE *").await;
            listeners.push(listener);
        }
        let names = self.names();
        self.kill_master().await;
        let died = Instant::now();
        let listening = listeners.into_iter().map(|listener| {
            let names = names.clone();
            tokio::spawn(events(listener, names, died))
        });
        let listening: Vec<_> = listening.collect();
        let mut all = Vec::new();
        for listening in listening {
            all.push(listening.await.unwrap());
        }
        let first = all.iter().map(|(_, at)| *at).min().unwrap_or_default();
        let is_leader =
            |events: &Vec<String>| events.iter().any(|e| e.starts_with("+elected-leader"));
        let events: Vec<Vec<String>> = all.into_iter().map(|(events, _)| events).collect();
        let (leaders, followers) = events.into_iter().partition(is_leader);
        Failover { leaders, followers, first_switch: first }
    }
}

struct Failover {
    leaders: Vec<Vec<String>>,
    followers: Vec<Vec<String>>,
    first_switch: Duration,
}

/// A sentinel's events about the master and its failover, up to the switch and the
/// replicas that are known after it.
async fn events(
    mut listener: Client,
    names: Vec<(String, String)>,
    died: Instant,
) -> (Vec<String>, Duration) {
    let mut events: Vec<String> = Vec::new();
    let mut switched_at = None;
    let mut known_after = 0;
    while known_after < 2 {
        let Some(Reply::Array(message)) = listener.reply().await else { break };
        let text = |index: usize| normal(&shown(&message[index], &[]), &names);
        let (name, text) = (text(2), text(3));
        if name == "+switch-master" && switched_at.is_none() {
            switched_at = Some(died.elapsed());
        }
        known_after += usize::from(switched_at.is_some() && name == "+slave");
        // How often others are asked whether the master is down, and when they change their
        // minds, is not the same twice.
        let is_odd =
            matches!(name.as_str(), "-odown" | "-sdown" | "+sentinel" | "-role-change" | "+reboot")
                || (name == "+odown" && events.iter().any(|event| event.starts_with("+odown")))
                || (name == "+sdown" && !text.starts_with("master"));
        if !is_odd {
            events.push(format!("{name} {text}"));
        }
    }
    (events, switched_at.unwrap_or_default())
}

/// A text without ids, ports and epochs.
fn normal(text: &str, names: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (port, name) in names {
        text = text.replace(port, name);
    }
    let words = text.split(' ').map(|word| {
        let is_id = word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_id {
            true => "<id>",
            false => word,
        }
    });
    let text = words.collect::<Vec<_>>().join(" ");
    text.replace("#quorum 3/2", "#quorum 2/2")
}

/// Fields of descriptions whose values are comparable.
const FIELDS: [&str; 16] = [
    "name",
    "ip",
    "port",
    "flags",
    "link-refcount",
    "down-after-milliseconds",
    "role-reported",
    "config-epoch",
    "num-slaves",
    "num-other-sentinels",
    "quorum",
    "failover-timeout",
    "parallel-syncs",
    "master-link-status",
    "master-host",
    "replica-announced",
];

/// A reply as text; elements of a list of descriptions sorted, values of theirs that
/// change with the time or the run left out.
fn shown(reply: &Reply, names: &[(String, String)]) -> String {
    match reply {
        Reply::Simple(text) => format!("+{}", String::from_utf8_lossy(text)),
        Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Reply::Integer(number) => format!(":{number}"),
        Reply::Bulk(text) => normal(&String::from_utf8_lossy(text), names),
        Reply::Null => "null".to_owned(),
        Reply::Array(elements) => {
            let texts: Vec<String> = elements.iter().map(|e| shown(e, names)).collect();
            if texts.first().is_some_and(|first| first == "name") {
                let pairs = texts.chunks(2).map(|pair| {
                    let value = pair.get(1).map_or("", String::as_str);
                    let is_known = FIELDS.contains(&pair[0].as_str()) && value.len() < 40;
                    format!("{}={}", pair[0], if is_known { value } else { "…" })
                });
                return format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "));
            }
            let mut texts = texts;
            if texts.iter().all(|text| text.starts_with('{')) {
                texts.sort();
            }
            format!("[{}]", texts.join(", "))
        }
        other => format!("{other:?}"),
    }
}

/// What is said to each sentinel before anything happens.
const SCRIPT: &str = "\
PING
PING x
ROLE
SENTINEL MASTERS
SENTINEL MASTER mymaster
SENTINEL MASTER yours
SENTINEL MASTER
SENTINEL REPLICAS mymaster
SENTINEL SLAVES mymaster
SENTINEL SENTINELS mymaster
SENTINEL SENTINELS yours
SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
SENTINEL GET-MASTER-ADDR-BY-NAME yours
SENTINEL CKQUORUM mymaster
SENTINEL CKQUORUM yours
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 0 *
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 x 0 *
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 x *
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1
SENTINEL PENDING-SCRIPTS
SENTINEL PENDING-SCRIPTS x
SENTINEL RESET nobody*
SENTINEL REMOVE yours
SENTINEL FAILOVER yours
SENTINEL MONITOR mymaster 127.0.0.1 6379 2
SENTINEL MONITOR other 127.0.0.1 6379 0
SENTINEL MONITOR other 127.0.0.1 6379 x
SENTINEL MONITOR other 127.0.0.1 x 1
SENTINEL MONITOR other 127.0.0.1 70000 1
SENTINEL SET yours quorum 2
SENTINEL SET mymaster quorum x
SENTINEL SET mymaster quorum
SENTINEL SET mymaster nothing 1
SENTINEL SET mymaster quorum 2
SENTINEL SET mymaster parallel-syncs 1 failover-timeout 10000
SENTINEL FLUSHCONFIG
SENTINEL SIMULATE-FAILURE help
SENTINEL SIMULATE-FAILURE never
SENTINEL DEBUG nothing 1
SENTINEL DEBUG info-period x
SENTINEL DEBUG info-period 10000
SENTINEL CONFIG GET nothing
SENTINEL CONFIG GET announce-port
SENTINEL CONFIG SET nothing 1
SENTINEL CONFIG
SENTINEL NOTHING
SENTINEL
PUBLISH news x
PUBLISH news
SET a b
GET a
AUTH x
AUTH default x
CLIENT SETNAME x
CLIENT GETNAME
CLIENT SETINFO LIB-NAME x
CLIENT SETNAME
HELLO 4
HELLO x
HELLO 2 NOTHING
SUBSCRIBE +sdown
PSUBSCRIBE +*
PING
PING x
GET a
SENTINEL MASTERS
UNSUBSCRIBE +sdown
PUNSUBSCRIBE
UNSUBSCRIBE
RESET
PING";

/// The conversation with one sentinel.
async fn conversation(port: u16, names: &[(String, String)]) -> String {
    let mut client = Client::connect(port).await;
    let mut lines = Vec::new();
    for line in SCRIPT.lines() {
        let words = words(line);
        let reply = client.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()).await;
        lines.push(format!("{line}\n  {}", shown(&reply, names)));
    }
    lines.join("\n")
}

#[test]
fn the_same_conversation_and_the_same_failover_as_with_real_sentinels() {
    on_tokio(async {
        let casts = [Cast::Real, Cast::Ours, Cast::Mixed];
        let mut seen = Vec::new();
        for cast in casts {
            let Some(mut cluster) = Cluster::start(cast).await else { return };
            let names = cluster.names();
            let last = *cluster.sentinel_ports.last().unwrap();
            let conversation = conversation(last, &names).await;
            let failover = cluster.fail_over().await;
            println!("{cast:?}: first switch after {:?}", failover.first_switch);
            assert_eq!(failover.leaders.len(), 1, "{cast:?}: {:#?}", failover.leaders);
            seen.push((cast, conversation, failover));
        }
        let (_, conversation, failover) = &seen[0];
        for (cast, ours, theirs) in &seen[1..] {
            let pairs = ours.lines().zip(conversation.lines());
            let differing: Vec<_> = pairs.filter(|(ours, real)| ours != real).collect();
            assert!(differing.is_empty(), "{cast:?}, ours and real: {differing:#?}");
            assert_eq!(ours.lines().count(), conversation.lines().count());
            assert_eq!(theirs.leaders, failover.leaders, "{cast:?}");
            let last = |events: &Vec<String>| events[events.len() - 4..].to_vec();
            let ends = |failover: &Failover| -> Vec<Vec<String>> {
                failover.followers.iter().map(last).collect()
            };
            assert_eq!(ends(theirs), ends(failover), "{cast:?}");
        }
    });
}

/// How long real ones take, over several rounds: what the storms are held against.
#[test]
#[ignore = "takes a minute; prints what docs/evidence/sentinel.txt has"]
fn how_long_real_sentinels_take() {
    on_tokio(async {
        let mut times: BTreeMap<String, Vec<u128>> = BTreeMap::new();
        for _ in 0..5 {
            for cast in [Cast::Real, Cast::Ours] {
                let Some(mut cluster) = Cluster::start(cast).await else { return };
                let failover = cluster.fail_over().await;
                let times = times.entry(format!("{cast:?}")).or_default();
                times.push(failover.first_switch.as_millis());
            }
        }
        println!("from kill -9 to the first +switch-master, ms: {times:?}");
    });
}
