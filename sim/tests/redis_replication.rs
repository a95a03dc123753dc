//! Replication over the wire: ours to ours, ours to a real Redis, a real one to ours.

mod redis_support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstorm_sim::server::redis::codec::Reply;
use lockstorm_sim::server::redis::observe::{Observation, Observer, Unobserved};
use lockstorm_sim::server::redis::{ConfigFile, Settings};
use redis_support::{Client, Ours, Real, in_any_order, on_tokio, until};

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned()
}

async fn info(client: &mut Client, field: &str) -> String {
    let reply = client.line("INFO replication").await;
    let text = text(&reply);
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().to_owned()
}

/// Waits until the replica at `port` has everything of the master at `master_port`.
async fn caught_up(master_port: u16, port: u16) {
    let (mut master, mut replica) =
        (Client::connect(master_port).await, Client::connect(port).await);
    until("the replica to catch up", async || {
        let is_up = info(&mut replica, "master_link_status").await == "up";
        let offset = info(&mut replica, "slave_repl_offset").await;
        (is_up && offset == info(&mut master, "master_repl_offset").await).then_some(())
    })
    .await;
}

/// What was observed, as lines.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn observe(&self, observation: &Observation<'_>) {
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs = |pairs: &[(&[u8], &[u8])]| {
            pairs
                .iter()
                .map(|(key, value)| format!("{}={}", show(key), show(value)))
                .collect::<Vec<_>>()
                .join(",")
        };
        let line = match observation {
            Observation::Set { key, value, previous, .. } => format!(
                "set {}={}{}",
                show(key),
                show(value),
                previous.map(|previous| format!(" over {}", show(previous))).unwrap_or_default()
            ),
            Observation::SetRefused { key, value, present, .. } => {
                format!("refused {}={} for {}", show(key), show(value), show(present))
            }
            Observation::Field { key, field, value: Some(value), .. } => {
                format!("field {}.{}={}", show(key), show(field), show(value))
            }
            Observation::Field { key, field, value: None, .. } => {
                format!("no field {}.{}", show(key), show(field))
            }
            Observation::Expiry { key, .. } => format!("expiry {}", show(key)),
            Observation::Deleted { key, .. } => format!("deleted {}", show(key)),
            Observation::Expired { key, .. } => format!("expired {}", show(key)),
            Observation::Evicted { key, .. } => format!("evicted {}", show(key)),
            Observation::Promoted { strings, .. } => format!("promoted with {}", pairs(strings)),
            Observation::Demoted { .. } => "demoted".to_owned(),
            Observation::Loaded { strings, .. } => format!("loaded {}", pairs(strings)),
            Observation::Resynchronised { lost, strings, .. } => {
                format!("resynchronised lost [{}] has [{}]", pairs(lost), pairs(strings))
            }
            Observation::OutputHeld { .. } => "held".to_owned(),
            Observation::Fed { .. } => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

const WRITES: &[&str] = &[
    "SET plain value",
    "SET number 12345",
    "SET minus -7",
    "SET lease me PX 1000000",
    "SET absolute me PXAT 4000000000000",
    "HSET hash f v number 12345 minus -7 big 9223372036854775807 small -129 empty \"\"",
    "PEXPIREAT hash 4000000000000",
    "RPUSH list a 1 -5 \"\" 123456789012 a",
    "PEXPIREAT list 4000000000000",
    "SADD integers 1 -2 70000 5000000000",
    "SADD set 1 a \"\" \\xff",
    "ZADD sorted 1 a 2.5 b -inf c 3 10 0.1 d",
    "XADD stream 1-1 f v g w",
    "XADD stream 1-2 f v2 g w2",
    "XADD stream 2-5 other \"\" number 12345",
    "XDEL stream 1-2",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group alice COUNT 1 STREAMS stream >",
    "XREADGROUP GROUP group bob STREAMS stream >",
    "XACK stream group 1-1",
    "XGROUP CREATE emptystream group 0 MKSTREAM",
    "SELECT 7",
    "HSET hash f v",
    "SET elsewhere x",
    "SELECT 0",
];

/// Everything that the keys of [`WRITES`], and of what follows, hold.
async fn contents(port: u16) -> Vec<String> {
    let mut client = Client::connect(port).await;
    let mut all = Vec::new();
    for database in [0, 7] {
        client.line(&format!("SELECT {database}")).await;
        let mut keys: Vec<String> =
            client.line("KEYS *").await.as_array().unwrap().iter().map(text).collect();
        keys.sort();
        for key in keys {
            let value = text(&client.line(&format!("GET {key}")).await);
            let expires = client.line(&format!("PEXPIRETIME {key}")).await;
            let fields = client.line(&format!("HGETALL {key}")).await;
            let mut fields: Vec<String> =
                fields.as_array().unwrap_or_default().iter().map(text).collect();
            fields.sort();
            let mut elements = Vec::new();
            for line in [
                format!("LRANGE {key} 0 -1"),
                format!("SMEMBERS {key}"),
                format!("ZRANGE {key} 0 -1 WITHSCORES"),
                format!("XRANGE {key} - +"),
                format!("XINFO STREAM {key}"),
                format!("XINFO GROUPS {key}"),
                format!("XPENDING {key} group"),
            ] {
                let reply = client.line(&line).await;
                if reply.as_error().is_none() {
                    let is_set = line.starts_with("SMEMBERS");
                    let shown = if is_set { in_any_order(&reply) } else { format!("{reply:?}") };
                    // How Redis packs them is its own affair, and how many entries a group has
                    // read it does not tell its replicas.
                    let shown = shown.split("radix-tree-keys").next().unwrap();
                    elements.push(shown.split("entries-read").next().unwrap().to_owned());
                }
            }
            all.push(format!("{database} {key} {value} {fields:?} {elements:?} {expires:?}"));
        }
    }
    all
}

async fn lines(port: u16, lines: &[&str]) {
    let mut client = Client::connect(port).await;
    for line in lines {
        let reply = client.line(line).await;
        assert!(reply.as_error().is_none(), "{line}: {reply:?}");
    }
}

/// A master that had data before and writes after; a replica that must have all of it.
async fn follows(master_port: u16, replica_port: u16) {
    lines(master_port, WRITES).await;
    // Compressed in the file of a real server.
    lines(master_port, &[&format!("SET long {}", "abcabcabc".repeat(1_000))]).await;
    // A hash table there, in plain pairs, and a listpack that is compressed.
    lines(master_port, &[&format!("HSET longhash f {} g 1", "abc".repeat(1_000))]).await;
    let many: String = (0..100).map(|number| format!(" field{number} value")).collect();
    lines(master_port, &[&format!("HSET manyhash{many}")]).await;
    // Nodes of a list, a skip list, a stream of several nodes; one long element.
    lines(master_port, &[&format!("RPUSH longlist {} x", "abc".repeat(5_000))]).await;
    let script = "for i = 1, 600 do redis.call('rpush','manylist',i) \
                  redis.call('zadd','manysorted',i / 3,'m' .. i) redis.call('sadd','manyset','m' .. i) \
                  redis.call('xadd','manystream',i .. '-1','f',i) end";
    lines(master_port, &[&format!("EVAL \"{script}\" 0")]).await;
    lines(replica_port, &["SET alone x"]).await;
    lines(replica_port, &[&format!("REPLICAOF 127.0.0.1 {master_port}")]).await;
    caught_up(master_port, replica_port).await;
    assert_eq!(contents(replica_port).await, contents(master_port).await);
    lines(
        master_port,
        &[
            "SET after 1",
            "INCR after",
            "HINCRBY hash number 1",
            "HDEL hash f",
            "HSET fresh f v",
            "HDEL fresh f",
            "DEL plain",
            "RPUSH list z",
            "LPOP list",
            "LMOVE list list2 LEFT RIGHT",
            "BLPOP list 0",
            "SADD set b",
            "SPOP set",
            "SREM integers 1",
            "ZINCRBY sorted 1.25 a",
            "ZPOPMIN sorted",
            "ZRANGESTORE sorted2 sorted 0 1",
            "XADD stream * f v",
            "XADD stream MAXLEN ~ 1 * f v",
            "XREADGROUP GROUP group carol COUNT 1 STREAMS stream >",
            "XREADGROUP GROUP group carol NOACK COUNT 1 STREAMS stream >",
            "XAUTOCLAIM stream group alice 0 0",
            "XTRIM manystream MAXLEN ~ 250",
            "INCRBYFLOAT float 1.1",
            "RENAME longhash renamed",
            "COPY list2 list3",
            "EVAL \"redis.call('set','s1','a') redis.call('set','s2','b')\" 0",
            "MULTI",
            "SET t1 a",
            "SELECT 7",
            "SET t2 b",
            "EXEC",
            "SET short x PX 50",
        ],
    )
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    caught_up(master_port, replica_port).await;
    let expected = contents(master_port).await;
    assert_eq!(contents(replica_port).await, expected);
    assert!(expected.iter().all(|line| !line.contains("short")), "{expected:?}");
    let mut master = Client::connect(master_port).await;
    master.line("SET waited x").await;
    assert_eq!(master.line("WAIT 1 5000").await, Reply::Integer(1));
    let mut replica = Client::connect(replica_port).await;
    assert_eq!(text(&replica.line("GET waited").await), "x");
    let refused = replica.line("SET k v").await;
    assert_eq!(
        refused.as_error(),
        Some(&b"READONLY You can't write against a read only replica."[..])
    );
}

#[test]
fn ours_follows_ours() {
    on_tokio(async {
        let (master, replica) = (Ours::start().await, Ours::start().await);
        follows(master.port, replica.port).await;
        assert_eq!(replica.config.master().unwrap().port, master.port);
    });
}

#[test]
fn a_real_server_follows_ours() {
    on_tokio(async {
        let Some(real) = Real::start(&[]).await else { return };
        let master = Ours::start().await;
        follows(master.port, real.port).await;
    });
}

#[test]
fn ours_follows_a_real_server() {
    on_tokio(async {
        // Diskless to whoever can (`$EOF:`), and by way of the disk.
        for diskless in ["yes", "no"] {
            let Some(real) = Real::start(&["--repl-diskless-sync", diskless]).await else { return };
            let replica = Ours::start().await;
            follows(real.port, replica.port).await;
        }
    });
}

#[test]
fn what_ours_cannot_hold_is_refused() {
    on_tokio(async {
        let Some(real) = Real::start(&[]).await else { return };
        lines(real.port, &[&format!("SET large {}", "x".repeat(20_000))]).await;
        let settings = Settings { resync_limit_bytes: 10_000, ..Settings::default() };
        let replica = Ours::start_with(settings, ConfigFile::new(), Arc::new(Unobserved)).await;
        lines(replica.port, &["SET mine x"]).await;
        lines(replica.port, &[&format!("REPLICAOF 127.0.0.1 {}", real.port)]).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let mut client = Client::connect(replica.port).await;
        assert_eq!(info(&mut client, "master_link_status").await, "down");
        assert_eq!(text(&client.line("GET mine").await), "x");
    });
}

/// Libraries of functions are part of the data set: in the file and in the stream, both ways.
#[test]
fn functions_follow_the_data_set() {
    on_tokio(async {
        let library = |name: &str, answer: &str| {
            let body = format!(
                "redis.register_function('{name}', function(keys) return '{answer}' .. keys[1] end)"
            );
            format!("FUNCTION LOAD REPLACE \"#!lua name={name}\\n{body}\"")
        };
        for ours_leads in [true, false] {
            let Some(real) = Real::start(&[]).await else { return };
            let ours = Ours::start().await;
            let (master, replica) =
                if ours_leads { (ours.port, real.port) } else { (real.port, ours.port) };
            lines(master, &[&library("before", "1")]).await;
            lines(replica, &[&format!("REPLICAOF 127.0.0.1 {master}")]).await;
            caught_up(master, replica).await;
            lines(master, &[&library("after", "2")]).await;
            caught_up(master, replica).await;
            lines(replica, &["REPLICAOF NO ONE"]).await;
            let mut client = Client::connect(replica).await;
            assert_eq!(text(&client.line("FCALL before 1 k").await), "1k", "{ours_leads}");
            assert_eq!(text(&client.line("FCALL after 1 k").await), "2k", "{ours_leads}");
        }
    });
}

#[test]
fn a_chain_of_replicas() {
    on_tokio(async {
        let (first, second, third) =
            (Ours::start().await, Ours::start().await, Ours::start().await);
        lines(second.port, &[&format!("REPLICAOF 127.0.0.1 {}", first.port)]).await;
        caught_up(first.port, second.port).await;
        lines(third.port, &[&format!("REPLICAOF 127.0.0.1 {}", second.port)]).await;
        lines(first.port, WRITES).await;
        caught_up(first.port, second.port).await;
        caught_up(first.port, third.port).await;
        assert_eq!(contents(third.port).await, contents(first.port).await);
    });
}

#[test]
fn a_stalled_gate_loses_the_lock_in_a_crash_and_an_open_one_does_not() {
    on_tokio(async {
        for stalled in [true, false] {
            let notes = Arc::new(Notes::default());
            let master =
                Ours::start_with(Settings::default(), ConfigFile::new(), notes.clone()).await;
            let replica = Ours::start().await;
            lines(replica.port, &[&format!("REPLICAOF 127.0.0.1 {}", master.port)]).await;
            caught_up(master.port, replica.port).await;
            if stalled {
                master.gate.stall();
            }
            let mut client = Client::connect(master.port).await;
            assert_eq!(client.line("SET lock me NX PX 10000").await, Reply::Simple("OK".into()));
            client.line("SET other me").await;
            if !stalled {
                // Its task has had its turn.
                assert_eq!(client.line("WAIT 1 1000").await, Reply::Integer(1));
            } else {
                assert_eq!(client.line("WAIT 1 100").await, Reply::Integer(0));
            }
            drop(client);
            master.crash().await;
            lines(replica.port, &["REPLICAOF NO ONE"]).await;
            let mut client = Client::connect(replica.port).await;
            let got = client.line("SET lock you NX PX 10000").await;
            assert_eq!(got == Reply::Simple("OK".into()), stalled, "{got:?}");
            let expected: &[&str] = if stalled {
                &["set lock=me", "held", "set other=me"]
            } else {
                &["set lock=me", "set other=me"]
            };
            assert_eq!(notes.take(), expected);
        }
    });
}

#[test]
fn an_opened_gate_drains() {
    on_tokio(async {
        let (master, replica) = (Ours::start().await, Ours::start().await);
        lines(replica.port, &[&format!("REPLICAOF 127.0.0.1 {}", master.port)]).await;
        caught_up(master.port, replica.port).await;
        master.gate.stall();
        lines(master.port, &["SET k v"]).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut client = Client::connect(replica.port).await;
        assert_eq!(client.line("GET k").await, Reply::Null);
        master.gate.open();
        caught_up(master.port, replica.port).await;
        assert_eq!(text(&client.line("GET k").await), "v");
    });
}

/// The old master, alone ahead by one write, comes back as a replica: its write is
/// erased. Without the write it goes on where it was.
#[test]
fn a_demoted_master_forgets_what_it_had_alone() {
    on_tokio(async {
        for ahead in [true, false] {
            let notes = Arc::new(Notes::default());
            let old = Ours::start_with(Settings::default(), ConfigFile::new(), notes.clone()).await;
            let new = Ours::start().await;
            lines(old.port, &["SET shared x"]).await;
            lines(new.port, &[&format!("REPLICAOF 127.0.0.1 {}", old.port)]).await;
            lines(old.port, &["SET counted 1"]).await;
            caught_up(old.port, new.port).await;
            let mut client = Client::connect(old.port).await;
            old.gate.stall();
            if ahead {
                client.line("SET alone me").await;
            }
            lines(new.port, &["REPLICAOF NO ONE"]).await;
            // Promoted, so that what the old master still has is not wanted.
            old.gate.open();
            lines(new.port, &["SET newer y"]).await;
            notes.take();
            client.line(&format!("REPLICAOF 127.0.0.1 {}", new.port)).await;
            caught_up(new.port, old.port).await;
            assert_eq!(contents(old.port).await, contents(new.port).await);
            let expected: &[&str] = if ahead {
                &["demoted", "resynchronised lost [alone=me] has [counted=1,newer=y,shared=x]"]
            } else {
                &["demoted", "set newer=y"]
            };
            assert_eq!(notes.take(), expected);
            let refused = client.line("SET k v").await;
            assert!(refused.as_error().unwrap().starts_with(b"READONLY"), "still connected");
        }
    });
}

#[test]
fn a_restarted_server_is_empty_and_follows_its_configuration() {
    on_tokio(async {
        let master = Ours::start().await;
        let replica = Ours::start().await;
        lines(replica.port, &[&format!("REPLICAOF 127.0.0.1 {}", master.port)]).await;
        lines(master.port, &["SET k v"]).await;
        caught_up(master.port, replica.port).await;
        let config = replica.config.clone();
        replica.crash().await;
        lines(master.port, &["SET k2 v"]).await;
        let again =
            Ours::start_with(Settings::default(), config.clone(), Arc::new(Unobserved)).await;
        caught_up(master.port, again.port).await;
        assert_eq!(contents(again.port).await, contents(master.port).await);
        lines(again.port, &["REPLICAOF NO ONE"]).await;
        assert_eq!(config.master(), None);
        again.crash().await;
        let alone = Ours::start_with(Settings::default(), config, Arc::new(Unobserved)).await;
        assert_eq!(contents(alone.port).await, Vec::<String>::new());
    });
}

#[test]
fn waiting_ends_when_the_master_is_demoted() {
    on_tokio(async {
        let server = Ours::start().await;
        let mut waiting = Client::connect(server.port).await;
        waiting.line("SET k v").await;
        waiting.send(&[b"WAIT", b"1", b"0"]).await;
        let mut popping = Client::connect(server.port).await;
        popping.send(&[b"BLPOP", b"list", b"0"]).await;
        let mut other = Client::connect(server.port).await;
        until("both to wait", async || {
            let clients = text(&other.line("INFO clients").await);
            clients.contains("blocked_clients:2").then_some(())
        })
        .await;
        lines(server.port, &["REPLICAOF 127.0.0.1 1"]).await;
        for client in [&mut waiting, &mut popping] {
            let reply = client.reply().await.unwrap();
            assert!(reply.as_error().unwrap().starts_with(b"UNBLOCKED"), "{reply:?}");
            assert_eq!(client.reply().await, None);
        }
    });
}

#[test]
fn a_replica_hides_what_has_expired_until_its_master_deletes_it() {
    on_tokio(async {
        let (master, replica) = (Ours::start().await, Ours::start().await);
        lines(replica.port, &[&format!("REPLICAOF 127.0.0.1 {}", master.port)]).await;
        caught_up(master.port, replica.port).await;
        lines(master.port, &["SET lease me PX 60"]).await;
        caught_up(master.port, replica.port).await;
        // The deletion stays with the master.
        master.gate.stall();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut client = Client::connect(replica.port).await;
        assert_eq!(client.line("GET lease").await, Reply::Null);
        assert_eq!(client.line("PTTL lease").await, Reply::Integer(-2));
        assert_eq!(client.line("DBSIZE").await, Reply::Integer(1));
        master.gate.open();
        caught_up(master.port, replica.port).await;
        assert_eq!(client.line("DBSIZE").await, Reply::Integer(0));
    });
}

#[test]
fn too_few_good_replicas_refuse_writes() {
    on_tokio(async {
        let settings = Settings { min_replicas_to_write: 1, ..Settings::default() };
        let master = Ours::start_with(settings, ConfigFile::new(), Arc::new(Unobserved)).await;
        let mut client = Client::connect(master.port).await;
        let refused = client.line("SET k v").await;
        assert_eq!(refused.as_error(), Some(&b"NOREPLICAS Not enough good replicas to write."[..]));
        let replica = Ours::start().await;
        lines(replica.port, &[&format!("REPLICAOF 127.0.0.1 {}", master.port)]).await;
        caught_up(master.port, replica.port).await;
        assert_eq!(client.line("SET k v").await, Reply::Simple("OK".into()));
    });
}

#[test]
fn observations_of_one_client_and_its_scripts() {
    on_tokio(async {
        let notes = Arc::new(Notes::default());
        let server = Ours::start_with(Settings::default(), ConfigFile::new(), notes.clone()).await;
        lines(
            server.port,
            &[
                "SET lock a NX PX 60",
                "SET lock b NX PX 60",
                "PEXPIRE lock 80",
                "EVAL \"redis.call('set','lock','b') return redis.call('del','lock')\" 0",
                "SET lock c PX 20",
            ],
        )
        .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(
            notes.take(),
            [
                "set lock=a",
                "refused lock=b for a",
                "expiry lock",
                "set lock=b over a",
                "deleted lock",
                "set lock=c",
                "expired lock",
            ]
        );
    });
}
