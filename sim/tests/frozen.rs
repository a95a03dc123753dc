//! Can one look into the servers of a run that stands still, and is what one sees the run's own
//! state, at that instant, unchanged by who looks?
//!
//! The servers are opened on TCP as `lockstorm replay --until … --serve` opens them, and asked by
//! the clients that people use, as far as they are here, and by the bare protocols.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::str::FromStr as _;
use std::sync::{Arc, Once, mpsc};
use std::time::Duration;

use lockstorm::Host;
use lockstorm_interpose::Senses;
use lockstorm_sim::engine::senses;
use lockstorm_sim::report::manner::{Charset, Manner};
use lockstorm_sim::report::standing::standing;
use lockstorm_sim::seeds::SeedFile;
use lockstorm_sim::server::zookeeper::code::{Code, kind};
use lockstorm_sim::server::zookeeper::codec::{Reader, Writer};
use lockstorm_sim::storm::frozen::{Frozen, Until, Watched, watched};
use lockstorm_sim::storm::locks;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TWO_MASTERS: &str = "known-unsafe/redis-failover-two-masters-001.toml";

fn install_senses() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
        lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
    });
}

fn kept(file: &str) -> Watched {
    install_senses();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds").join(file);
    watched(&SeedFile::load(&path).unwrap().plan, &(Arc::new(locks::build) as locks::LockFactory))
}

fn until(watched: &Watched, until: &str) -> Frozen {
    let place = watched.place(Until::from_str(until).unwrap()).unwrap();
    watched.freeze(place).unwrap()
}

/// Opens every server that lives; their ports.
fn opened(frozen: &Frozen) -> BTreeMap<String, u16> {
    let windows = frozen.nodes().into_iter();
    let windows: Vec<_> =
        windows.filter_map(|name| Some((name.clone(), frozen.window(&name)?.clone()))).collect();
    let (told, ports) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut doors = Vec::new();
            for (name, window) in windows {
                let listener = Host::tokio_at(name.to_string(), HERE).listen(0).await.unwrap();
                told.send((name.to_string(), listener.port())).unwrap();
                doors.push(tokio::spawn(async move {
                    while let Ok(visitor) = listener.accept().await {
                        tokio::spawn(window.clone().serve(visitor));
                    }
                }));
            }
            drop(told);
            for door in doors {
                door.await.unwrap();
            }
        });
    });
    ports.into_iter().collect()
}

/// A visitor that speaks RESP.
struct Resp(TcpStream);

impl Resp {
    fn to(port: u16) -> Resp {
        let stream = TcpStream::connect((HERE, port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Resp(stream)
    }

    /// The reply's bytes, as text.
    fn ask(&mut self, words: &[&str]) -> String {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.write_all(request.as_bytes()).unwrap();
        let mut reply = vec![0; 64 * 1024];
        let count = self.0.read(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[..count]).into_owned()
    }

    /// The text of a bulk string.
    fn text(&mut self, words: &[&str]) -> String {
        let reply = self.ask(words);
        reply.split("\r\n").nth(1).unwrap_or_else(|| panic!("{words:?}: {reply:?}")).to_owned()
    }
}

/// What redis-cli says, where there is one.
fn redis_cli(port: u16, words: &[&str]) -> Option<String> {
    let asked = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output();
    let asked = asked.ok().or_else(|| {
        println!("SKIPPED: there is no redis-cli");
        None
    })?;
    Some(String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}

#[test]
fn redis_cli_sees_the_lock_values_of_both_masters() {
    let watched = kept(TWO_MASTERS);
    // The step at which the old master grants the lock as well.
    let frozen = until(&watched, "#9");
    let ports = opened(&frozen);
    let (old, new) = (ports["redis-1"], ports["redis-3"]);
    let key = "lock:sku-42";
    for port in [old, new] {
        assert!(Resp::to(port).ask(&["ROLE"]).contains("master"), "{port}");
    }
    let values = [old, new].map(|port| Resp::to(port).text(&["GET", key]));
    assert_eq!(values, ["app-1/19", "app-2/20"]);
    for (port, value) in [(old, &values[0]), (new, &values[1])] {
        if let Some(seen) = redis_cli(port, &["GET", key]) {
            assert_eq!(seen, *value);
        }
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let seen: String = runtime.block_on(async {
            let mut client = client.get_multiplexed_async_connection().await.unwrap();
            redis::cmd("GET").arg(key).query_async(&mut client).await.unwrap()
        });
        assert_eq!(seen, *value);
    }
    // An instant earlier the old master has not granted it.
    let before = opened(&until(&watched, "before-#9"));
    assert_eq!(Resp::to(before["redis-1"]).ask(&["GET", key]), "$-1\r\n");
    assert_eq!(Resp::to(before["redis-3"]).text(&["GET", key]), values[1]);
    // A sentinel names the new one.
    let named =
        Resp::to(ports["sentinel-1"]).ask(&["SENTINEL", "get-master-addr-by-name", "mymaster"]);
    assert!(named.contains("redis-3"), "{named}");
    let refused = Resp::to(ports["sentinel-1"]).ask(&["SENTINEL", "FAILOVER", "mymaster"]);
    assert!(refused.starts_with("-READONLY lockstorm"), "{refused}");
}

#[test]
fn time_stands_on_redis_while_one_looks() {
    let watched = kept(TWO_MASTERS);
    let frozen = until(&watched, "violation");
    let ports = opened(&frozen);
    let mut redis = Resp::to(ports["redis-1"]);
    let look = |redis: &mut Resp| {
        let words = [&["PTTL", "lock:sku-42"][..], &["TIME"], &["DBSIZE"], &["ROLE"]];
        words.map(|words| redis.ask(words))
    };
    let first = look(&mut redis);
    let left: i64 = first[0].trim_start_matches(':').trim().parse().unwrap();
    assert!((1..=5_000).contains(&left), "{left}");
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(look(&mut redis), first);
    // What waits is answered as when its time is over.
    assert_eq!(redis.ask(&["WAIT", "2", "0"]), ":0\r\n");
    assert_eq!(redis.ask(&["XREAD", "BLOCK", "0", "STREAMS", "none", "0"]), "*-1\r\n");
}

#[test]
fn redis_refuses_whatever_would_change_something() {
    let watched = kept(TWO_MASTERS);
    let frozen = until(&watched, "violation");
    let ports = opened(&frozen);
    for node in ["redis-1", "redis-2", "redis-3"] {
        let mut redis = Resp::to(ports[node]);
        let before = redis.ask(&["GET", "lock:sku-42"]);
        let script = "return redis.call('DEL', KEYS[1])";
        for words in [
            &["SET", "lock:sku-42", "me"][..],
            &["GETDEL", "lock:sku-42"],
            &["DEL", "lock:sku-42"],
            &["PEXPIRE", "lock:sku-42", "1"],
            &["INCR", "new"],
            &["FLUSHALL"],
            &["EVAL", script, "1", "lock:sku-42"],
            &["PUBLISH", "here", "x"],
            &["SPUBLISH", "here", "x"],
            &["EVAL", "return redis.call('PUBLISH', 'here', 'x')", "0"],
            &["EVAL", "return redis.pcall('SPUBLISH', 'here', 'x')", "0"],
            &["CONFIG", "SET", "maxmemory", "1"],
            &["REPLICAOF", "NO", "ONE"],
            &["SHUTDOWN", "NOSAVE"],
            &["SCRIPT", "FLUSH"],
            &["PSYNC", "?", "-1"],
        ] {
            let reply = redis.ask(words);
            let told = reply.contains("READONLY lockstorm: the world stands still before event");
            assert!(reply.starts_with('-') && told, "{node} {words:?}: {reply:?}");
        }
        redis.ask(&["MULTI"]);
        assert!(redis.ask(&["SET", "new", "1"]).starts_with("-READONLY lockstorm"));
        assert!(redis.ask(&["EXEC"]).starts_with("-EXECABORT"));
        assert_eq!(redis.ask(&["GET", "lock:sku-42"]), before, "{node}");
        assert_eq!(redis.ask(&["EXISTS", "new"]), ":0\r\n", "{node}");
        assert_eq!(
            redis.ask(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "lock:sku-42"]),
            before
        );
        assert_eq!(redis.ask(&["QUIT"]), "+OK\r\n");
    }
}

#[test]
fn postgres_shows_both_primaries_and_refuses_writes() {
    let watched = kept("known-unsafe/postgres-failover-old-primary-001.toml");
    let frozen = until(&watched, "violation");
    let ports = opened(&frozen);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for node in ["pg-1", "pg-2"] {
        let port = ports[node];
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect((HERE, port)).await.unwrap();
            let mut config = tokio_postgres::Config::new();
            config.user("visitor").dbname("postgres");
            let (client, connection) =
                config.connect_raw(stream, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let row = client.query_one("SELECT pg_is_in_recovery()", &[]).await.unwrap();
            assert!(!row.get::<_, bool>(0), "{node} is a primary");
            let rows = client.query("SELECT * FROM lockstorm_row", &[]).await.unwrap();
            assert!(!rows.is_empty(), "{node}");
            for statement in [
                "DELETE FROM lockstorm_row",
                "SELECT * FROM lockstorm_row FOR UPDATE",
                "CREATE TABLE mine (id bigint)",
                "DROP TABLE lockstorm_row",
                "SELECT pg_advisory_lock(1)",
                "SELECT pg_try_advisory_lock(1)",
                "NOTIFY here",
                "VACUUM",
                "BEGIN READ WRITE; DELETE FROM lockstorm_row",
            ] {
                let error = client.batch_execute(statement).await.unwrap_err();
                let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
                assert_eq!(error.code().code(), "25006", "{node} {statement}: {error}");
                assert!(error.message().contains("the world stands still before event"), "{error}");
                client.batch_execute("ROLLBACK").await.unwrap();
            }
            let waits = client.batch_execute("SELECT pg_sleep(1)").await.unwrap_err();
            assert_eq!(waits.code().unwrap().code(), "55P03");
            let clock = async || {
                let told = "SELECT clock_timestamp()::text";
                client.query_one(told, &[]).await.unwrap().get::<_, String>(0)
            };
            let before = clock().await;
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(clock().await, before, "{node}");
            assert_eq!(
                client.query("SELECT * FROM lockstorm_row", &[]).await.unwrap().len(),
                rows.len()
            );
        });
    }
}

/// A visitor that speaks ZooKeeper's protocol.
struct Jute(TcpStream);

impl Jute {
    /// A session.
    fn to(port: u16) -> Jute {
        let stream = TcpStream::connect((HERE, port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut jute = Jute(stream);
        let mut connect = Writer::new();
        connect.int(0).long(0).int(10_000).long(0).buffer(Some(&[0; 16])).boolean(true);
        let answer = jute.exchange(connect.bytes());
        let mut reader = Reader::new(&answer);
        let (_, timeout_ms, session) =
            (reader.int().unwrap(), reader.int().unwrap(), reader.long().unwrap());
        assert!(timeout_ms > 0 && session != 0);
        jute
    }

    fn exchange(&mut self, body: &[u8]) -> Vec<u8> {
        self.0.write_all(&(body.len() as u32).to_be_bytes()).unwrap();
        self.0.write_all(body).unwrap();
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut answer).unwrap();
        answer
    }

    /// The code of the reply, and what is behind it.
    fn ask(&mut self, kind: i32, body: &Writer) -> (Code, Vec<u8>) {
        let mut request = Writer::new();
        request.int(1).int(kind).raw(body.bytes());
        let answer = self.exchange(request.bytes());
        let mut reader = Reader::new(&answer);
        let (_, _, code) = (reader.int().unwrap(), reader.long().unwrap(), reader.int().unwrap());
        (Code(code), reader.rest().to_vec())
    }

    fn children(&mut self, path: &str) -> Vec<String> {
        let mut body = Writer::new();
        body.text(path).boolean(false);
        let (code, answer) = self.ask(kind::GET_CHILDREN, &body);
        assert_eq!(code, Code::OK, "{path}");
        Reader::new(&answer).texts().unwrap()
    }
}

#[test]
fn zookeeper_shows_its_tree_and_refuses_writes() {
    let watched = kept("known-unsafe/zookeeper-pause-without-fence-001.toml");
    let frozen = until(&watched, "violation");
    let ports = opened(&frozen);
    assert!(!ports.is_empty());
    for (node, port) in &ports {
        let mut jute = Jute::to(*port);
        let top = jute.children("/");
        assert!(top.len() > 1, "{node}: {top:?}");
        let mut create = Writer::new();
        create.text("/mine").buffer(None);
        create.count(1).int(31).text("world").text("anyone").int(0);
        let mut delete = Writer::new();
        delete.text(&format!("/{}", top[0])).int(-1);
        let mut set = Writer::new();
        set.text("/").buffer(Some(b"x")).int(-1);
        for (kind, body) in
            [(kind::CREATE, &create), (kind::DELETE, &delete), (kind::SET_DATA, &set)]
        {
            assert_eq!(jute.ask(kind, body).0, Code::NOT_READ_ONLY, "{node} {kind}");
        }
        assert_eq!(jute.children("/"), top, "{node}");
        let mut sync = Writer::new();
        sync.text("/");
        assert_eq!(jute.ask(kind::SYNC, &sync).0, Code::OK);
        assert_eq!(jute.ask(kind::CLOSE_SESSION, &Writer::new()).0, Code::OK);
    }
}

#[test]
fn a_run_stands_at_any_of_its_events() {
    for file in [TWO_MASTERS, "known-unsafe/redis-failover-cut-and-machine-crash-001.toml"] {
        let watched = kept(file);
        let count = watched.run.history.events.len() as u64;
        let manner = Manner::of(Charset::Unicode);
        for event in [0, 1, count / 5, count / 3, count / 2, count * 3 / 4, count - 1] {
            let behind = until(&watched, &event.to_string());
            assert!(behind.history.events.len() as u64 > event, "{file} {event}");
            assert!(standing(&watched, &behind, &manner).contains("Holders"));
            let Ok(place) = watched.place(Until::Event { event, before: true }) else {
                assert!(event < 40, "{file}: nothing is before {event}");
                continue;
            };
            let before = watched.freeze(place).unwrap();
            assert!(before.history.events.len() as u64 <= event, "{file} {event}");
            assert_eq!(before.now_us(), watched.run.history.events[event as usize].at_us);
        }
        assert_eq!(until(&watched, "end").history.events.len() as u64, count);
    }
}

#[test]
fn a_world_that_stands_is_told() {
    let watched = kept(TWO_MASTERS);
    let manner = Manner::of(Charset::Unicode);
    insta::assert_snapshot!(standing(&watched, &until(&watched, "violation"), &manner));
    // While the old master is cut off, and a client stands still.
    insta::assert_snapshot!(standing(&watched, &until(&watched, "#4"), &manner));
    let crashed = kept("known-unsafe/redis-failover-cut-and-machine-crash-001.toml");
    insta::assert_snapshot!(standing(&crashed, &until(&crashed, "violation"), &manner));
}

#[test]
fn bad_events_are_refused_in_one_line_with_the_mend() {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds").join(TWO_MASTERS);
    let seed = seed.to_str().unwrap();
    let refusals = [
        &["--until", "1000000"][..],
        &["--until", "#99"],
        &["--until", "before-0"],
        &["--until", "yesterday"],
        &["--until", "leaked-lock"],
        &["--until", "violation", "--fence", "full"],
        &["--until", "violation", "--engine", "turmoil"],
        &["--until", "violation", "--format", "json"],
        &["--serve"],
    ];
    let told = refusals.map(|words| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("lockstorm"));
        let output = command.arg("replay").arg(seed).args(words).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{words:?}: {told}");
        assert_eq!(told.trim().lines().count(), 1, "{told}");
        format!("{}\n  {}", words.join(" "), told.trim())
    });
    insta::assert_snapshot!(told.join("\n"));
}
