//! Does a foreign client lose its lock under a served plan, and do the servers prove it?
//!
//! The clients here are blocking ones of the published `redis` crate, over real sockets, with
//! nothing of ours between them and the ports that `lockstorm serve` opened. Time is real: what
//! is awaited is asked for until it is there.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use assert_cmd::cargo::CommandCargoExt as _;

const LESSON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../seeds/lesson/replication-lag.toml");

/// How often something is asked for again, and how many times at most: a minute and a half.
const AGAIN: Duration = Duration::from_millis(50);
const MOST_TIMES: u32 = 1_800;

/// A plan that is served until it is ended.
struct Served {
    child: Child,
    folder: tempfile::TempDir,
    ports: BTreeMap<String, BTreeMap<String, String>>,
}

impl Served {
    fn begin(plan: &Path, more: &[&str]) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let (ports, history) = (folder.path().join("ports.json"), history(&folder));
        let child = Command::cargo_bin("lockstorm")
            .unwrap()
            .args(["serve", "--set", "duration=10m", "--plan"])
            .arg(plan)
            .arg("--ports")
            .arg(&ports)
            .arg("--history")
            .arg(history)
            .args(more)
            .env_remove("CARGO_MANIFEST_DIR")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let text = again(|| std::fs::read_to_string(&ports).ok());
        Served { child, folder, ports: serde_json::from_str(&text).unwrap() }
    }

    fn at(&self, app: &str, server: &str) -> &str {
        &self.ports[app][server]
    }

    fn connect(&self, app: &str, server: &str) -> redis::Connection {
        connect(self.at(app, server))
    }

    /// Ends it as a supervisor does: its exit code and what it said.
    fn end(mut self) -> (i32, String, String) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let check = Command::cargo_bin("lockstorm")
            .unwrap()
            .arg("check")
            .arg(history(&self.folder))
            .output()
            .unwrap();
        assert_eq!(check.status.code(), Some(code), "the same verdict of its file: {said}");
        (code, said, String::from_utf8(check.stdout).unwrap())
    }
}

fn history(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("history.ndjson.gz")
}

fn again<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..MOST_TIMES {
        if let Some(answer) = ask() {
            return answer;
        }
        sleep(AGAIN);
    }
    panic!("it never came");
}

fn connect(address: &str) -> redis::Connection {
    again(|| {
        let client = redis::Client::open(format!("redis://{address}/")).unwrap();
        client.get_connection_with_timeout(Duration::from_secs(2)).ok()
    })
}

/// Asks once: `SET key owner NX PX lease`.
fn take(
    connection: &mut redis::Connection,
    owner: &str,
    lease_ms: u64,
) -> redis::RedisResult<bool> {
    let mut set = redis::cmd("SET");
    set.arg("lock:stock").arg(owner).arg("NX").arg("PX").arg(lease_ms);
    set.query::<Option<String>>(connection).map(|answer| answer.is_some())
}

/// Where a sentinel says that the master is, for whoever asks through this door.
fn master(sentinel: &mut redis::Connection) -> Option<String> {
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("get-master-addr-by-name").arg("mymaster");
    let (host, port) = ask.query::<(String, String)>(sentinel).ok()?;
    Some(format!("{host}:{port}"))
}

fn plan_file(faults: &str) -> tempfile::NamedTempFile {
    let text = format!(
        "schema = 1\nscenario = \"redis-single\"\n\n[topology]\nlatency = \"100us\"\n\n{faults}"
    );
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_failover_gives_the_lock_of_a_foreign_client_to_another_and_the_servers_saw_it() {
    let served = Served::begin(Path::new(LESSON), &[]);
    let mut asked = served.connect("app-1", "sentinel-1");
    let first = again(|| master(&mut asked));
    assert_eq!(first, served.at("app-1", "redis-1"), "sentinels name doors");
    let mut holder = connect(&first);
    assert!(take(&mut holder, "8d3b", 120_000).unwrap());

    let mut asked = served.connect("app-2", "sentinel-2");
    let old = served.at("app-2", "redis-1").to_owned();
    let new = again(|| master(&mut asked).filter(|master| *master != old));
    assert_ne!(new, old);
    let mut other = connect(&new);
    again(|| take(&mut other, "c07e", 120_000).ok().filter(|taken| *taken));

    let (code, said, checked) = served.end();
    assert_eq!(code, 1, "{said}");
    for words in [
        "seeded, not deterministic",
        "redis-1's replication output buffer stops draining",
        "double-grant  violation",
        "app-1/1",
        "app-2/1",
        "2 of 2 faults took effect",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(checked.contains("double-grant  violation"), "{checked}");
}

#[test]
fn a_lost_reply_tells_nobody_and_promises_nothing() {
    let plan = plan_file(
        "[[fault]]\nkind = \"reset\"\nfrom = [\"app-1\"]\nto = [\"redis-1\"]\n\
         after = \"app-1 acquire 1 applied\"\n",
    );
    let served = Served::begin(plan.path(), &[]);
    let mut first = served.connect("app-1", "redis-1");
    take(&mut first, "a", 500).expect_err("its reply is lost");
    // It was applied all the same: the lock is free when its lease is over.
    let mut second = served.connect("app-2", "redis-1");
    again(|| take(&mut second, "b", 60_000).unwrap().then_some(()));
    let deleted: u32 = redis::cmd("DEL").arg("lock:stock").query(&mut second).unwrap();
    assert_eq!(deleted, 1);
    let mut first = served.connect("app-1", "redis-1");
    assert!(take(&mut first, "c", 60_000).unwrap());
    let (code, said, _) = served.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("2 grants, 1 handovers, 1 of 1 faults took effect"), "{said}");
}

#[test]
fn a_reply_that_its_client_did_not_wait_for_tells_nobody_whoever_comes_next() {
    let plan = plan_file(
        "[[fault]]\nkind = \"partition\"\nfrom = [\"app-1\"]\nto = [\"redis-1\"]\nfor = \"2s\"\n\
         after = \"app-1 acquire 1 applied\"\n",
    );
    let served = Served::begin(plan.path(), &[]);
    let mut first = served.connect("app-1", "redis-1");
    first.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    take(&mut first, "a", 120_000).expect_err("its reply is held back");
    drop(first);
    // Over another connection it hears everything, and nothing of that.
    let mut second = served.connect("app-1", "redis-1");
    let present: String = redis::cmd("GET").arg("lock:stock").query(&mut second).unwrap();
    assert_eq!(present, "a");
    // Long enough for what was held back to come, to nobody.
    sleep(Duration::from_secs(2));
    let _: String = redis::cmd("PING").query(&mut second).unwrap();
    let (code, said, _) = served.end();
    assert_eq!(code, 2, "nobody was told of a grant, and nothing is shown: {said}");
    assert!(said.contains("0 grants, 0 handovers, 1 of 1 faults took effect"), "{said}");
}

#[test]
fn a_lock_in_a_hash_is_owned_as_one_in_a_string_is() {
    // As Redisson keeps it: a field for its owner, and how often that has it.
    const TAKE: &str = "if redis.call('exists', KEYS[1]) == 0 then \
                        redis.call('hincrby', KEYS[1], ARGV[1], 1) \
                        redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end return 0";
    let plan = plan_file("");
    let served = Served::begin(plan.path(), &[]);
    for app in ["app-1", "app-2"] {
        let mut connection = served.connect(app, "redis-1");
        let mut take = redis::cmd("EVAL");
        take.arg(TAKE).arg(1).arg("lock:stock").arg(format!("{app}:1")).arg(60_000);
        assert!(take.query::<bool>(&mut connection).unwrap());
        let mut give = redis::cmd("HINCRBY");
        give.arg("lock:stock").arg(format!("{app}:1")).arg(-1);
        give.query::<i64>(&mut connection).unwrap();
        redis::cmd("DEL").arg("lock:stock").query::<i64>(&mut connection).unwrap();
    }
    let (code, said, _) = served.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("2 grants, 1 handovers"), "{said}");
}

#[test]
fn a_fault_that_met_nobody_is_told_as_inert_and_the_opening_says_what_this_is() {
    let plan = plan_file(
        "[[fault]]\nkind = \"partition\"\nfrom = [\"app-3\"]\nto = [\"redis-1\"]\nat = \"0ms\"\n",
    );
    let served = Served::begin(plan.path(), &[]);
    for app in ["app-1", "app-2"] {
        let mut connection = served.connect(app, "redis-1");
        assert!(take(&mut connection, app, 60_000).unwrap());
        let _: u32 = redis::cmd("DEL").arg("lock:stock").query(&mut connection).unwrap();
    }
    let (code, said, _) = served.end();
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("INERT"), "{said}");
    assert!(said.contains("fault 1 was inert, it met nobody: "), "{said}");
    let (opening, _) = said.split_once("Ctrl-C").unwrap();
    insta::assert_snapshot!(without_ports(opening));
}

/// The numbers of ports that were free.
fn without_ports(text: &str) -> String {
    let lines = text.lines().map(|line| match line.rsplit_once("127.0.0.1:") {
        Some((before, _)) => format!("{before}127.0.0.1:…"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_cannot_be_served_is_refused_by_name_before_anything_is_opened() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let fault = |text: &str| plan_file(&format!("[[fault]]\n{text}\n"));
    let pause = fault("kind = \"pause\"\nnode = \"app-1\"\nat = \"1s\"");
    let crash = fault("kind = \"process-crash\"\nnode = \"app-2\"\nat = \"1s\"");
    let stock = fault("kind = \"partition\"\nfrom = [\"app-1\"]\nto = [\"stock-1\"]\nat = \"1s\"");
    let among = fault(
        "kind = \"partition\"\nfrom = [\"app-1\"]\nto = [\"redis-1\", \"stock-1\"]\nat = \"1s\"",
    );
    let sells =
        fault("kind = \"process-crash\"\nnode = \"redis-1\"\nafter = \"app-1 sell 1 applied\"");
    let clock = plan_file("[[clock]]\nnode = \"app-1\"\nrate = \"+300ppm\"\n");
    let file = |file: &tempfile::NamedTempFile| file.path().display().to_string();
    let of_plan = |plan: &tempfile::NamedTempFile| vec!["--plan".to_owned(), file(plan)];
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let cases = [
        ("nothing is named", words(&[])),
        ("no such plan", words(&["--plan", "nowhere.toml"])),
        ("a client is paused", of_plan(&pause)),
        ("a client crashes", of_plan(&crash)),
        ("the stock is cut off", of_plan(&stock)),
        ("the stock among others is cut off", of_plan(&among)),
        ("an event that nobody sees", of_plan(&sells)),
        ("a client's clock", of_plan(&clock)),
        ("a port in use", words(&["--seed", "1", "--calm", "--port", &port])),
        ("an engine", words(&["--seed", "1", "--engine", "turmoil"])),
        ("a fence", words(&["--seed", "1", "--fence", "full"])),
    ];
    let told = cases.map(|(what, arguments)| {
        let output = Command::cargo_bin("lockstorm")
            .unwrap()
            .arg("serve")
            .args(&arguments)
            .env_remove("CARGO_MANIFEST_DIR")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64), "{what}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{what}");
        let told = String::from_utf8(output.stderr).unwrap().replace(&port, "PORT");
        format!("# {what}\n{told}")
    });
    insta::assert_snapshot!(told.join("\n"));
}
