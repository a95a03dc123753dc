//! What does a Redis server still have after a crash? As much as a real one: by each policy,
//! after a crash of its process and of its machine; a disk that fails or hangs; and whether a
//! real server reads the files of ours, and ours those of a real one.

mod redis_support;

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm_sim::disk::{self, Ailment, Disk, Files};
use lockstorm_sim::server::redis::codec::Reply;
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::{AppendFsync, ConfigFile, Persistence, SaveRule, Settings};
use redis_support::{Client, Ours, Real, on_tokio, until};

fn disk() -> Disk {
    Disk::new(disk::Settings::default(), 1, "redis-1")
}

fn files(disk: &Disk) -> Files {
    disk.mount(&Host::tokio("redis-1"))
}

fn ok() -> Reply {
    Reply::Simple(bytes::Bytes::from_static(b"OK"))
}

async fn start(disk: &Disk, persistence: &Persistence) -> (Ours, Client) {
    let settings = Settings {
        disk: Some(disk.clone()),
        persistence: persistence.clone(),
        ..Settings::default()
    };
    let ours = Ours::start_with(settings, ConfigFile::new(), Arc::new(Unobserved)).await;
    let mut client = Client::connect(ours.port).await;
    // It has loaded what it has.
    client.line("ECHO x").await;
    (ours, client)
}

/// A change of every kind: each effect must come back as it was.
const CHANGES: &[&str] = &[
    "SET plain value",
    "SET short gone PX 1",
    "SET lease owner PX 500000",
    "SET refused x NX",
    "SET plain other NX",
    "EXPIRE plain 1000",
    "PERSIST plain",
    "INCRBYFLOAT sum 1.5",
    "HSET hash a 1 b 2",
    "HINCRBY hash a 5",
    "RPUSH list 1 2 3",
    "LMOVE list list LEFT RIGHT",
    "SADD set a b c",
    "SREM set b",
    "ZADD sorted 1.5 a 2 b",
    "XADD stream 1-1 field value",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
    "SET gone x",
    "DEL gone",
    "EVAL \"redis.call('set', 'a', 1) redis.call('select', 3) redis.call('set', 'b', 2)\" 0",
    "MULTI",
    "INCR counter",
    "INCR counter",
    "EXEC",
    "SELECT 5",
    "SET other-database x",
    "SELECT 0",
    "PUBLISH channel message",
];

/// All that can be seen of a data set.
async fn contents(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for database in [0, 3, 5] {
        client.line(&format!("SELECT {database}")).await;
        for key in [
            "a",
            "b",
            "plain",
            "short",
            "lease",
            "refused",
            "sum",
            "hash",
            "list",
            "set",
            "sorted",
            "stream",
            "gone",
            "counter",
            "other-database",
        ] {
            let Reply::Simple(kind) = client.line(&format!("TYPE {key}")).await else {
                panic!("TYPE answers with a word")
            };
            let kind = String::from_utf8_lossy(&kind).into_owned();
            let question = match kind.as_str() {
                "string" => format!("GET {key}"),
                "hash" => format!("HGETALL {key}"),
                "list" => format!("LRANGE {key} 0 -1"),
                "set" => format!("SMEMBERS {key}"),
                "zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
                "stream" => format!("XPENDING {key} group - + 10"),
                _ => format!("EXISTS {key}"),
            };
            let mut value = redis_support::in_any_order(&client.line(&question).await);
            if kind == "stream" {
                value = format!("{} pending", value.matches("consumer").count());
            }
            let left = client.line(&format!("PTTL {key}")).await;
            let expires = matches!(left, Reply::Integer(left_ms) if left_ms > 0);
            all.push(format!("{database} {key} {kind} {value} {expires}"));
        }
    }
    all
}

async fn change(client: &mut Client) {
    for line in CHANGES {
        client.line(line).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
}

fn policies() -> Vec<(Persistence, Vec<&'static str>)> {
    let aof = |policy: AppendFsync| {
        (
            Persistence::append_only(policy),
            vec!["--appendonly", "yes", "--appendfsync", policy.name()],
        )
    };
    vec![
        (Persistence::none(), vec![]),
        (Persistence::snapshots(), vec!["--save", "3600 1 300 100 60 10000"]),
        aof(AppendFsync::Always),
        aof(AppendFsync::EverySecond),
        aof(AppendFsync::No),
    ]
}

/// The same changes, `kill -9`, another start: the same is there.
#[test]
fn after_a_crash_of_the_process_ours_has_what_a_real_one_has() {
    on_tokio(async {
        for (persistence, arguments) in policies() {
            for ask in [None, Some("SAVE"), Some("BGREWRITEAOF")] {
                let Some(mut real) = Real::start(&arguments).await else { return };
                let mut theirs = Client::connect(real.port).await;
                let disk = disk();
                let (ours, mut mine) = start(&disk, &persistence).await;
                for client in [&mut theirs, &mut mine] {
                    change(client).await;
                    if let Some(ask) = ask {
                        client.line(ask).await;
                        idle(client).await;
                    }
                    client.line("SET last one").await;
                    client.line("SET plain newest").await;
                    written(client).await;
                }
                real.kill_and_restart(&arguments).await;
                ours.crash().await;
                let (_ours, mut mine) = start(&disk, &persistence).await;
                let mut theirs = Client::connect(real.port).await;
                let (mine, theirs) = (contents(&mut mine).await, contents(&mut theirs).await);
                assert_eq!(mine, theirs, "{arguments:?} {ask:?}");
            }
        }
    });
}

/// Waits until no child is at work.
async fn idle(client: &mut Client) {
    until("the children", async || {
        let info = client.line("INFO persistence").await;
        let text = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
        let busy =
            ["rdb_bgsave_in_progress:1", "aof_rewrite_in_progress:1", "aof_rewrite_scheduled:1"];
        (!busy.iter().any(|line| text.contains(line))).then_some(())
    })
    .await;
}

/// Waits until nothing is left to be written: while an earlier synchronisation takes long, as
/// on a busy machine, a server puts off what comes after it.
async fn written(client: &mut Client) {
    until("the append-only file", async || {
        let info = client.line("INFO persistence").await;
        let text = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
        let waits = text.lines().find_map(|line| line.strip_prefix("aof_buffer_length:"));
        waits.is_none_or(|bytes| bytes.trim() == "0").then_some(())
    })
    .await;
}

#[test]
fn a_real_server_reads_our_files_and_ours_reads_its() {
    on_tokio(async {
        for (persistence, arguments) in policies().into_iter().skip(1) {
            let disk = disk();
            let (ours, mut mine) = start(&disk, &persistence).await;
            change(&mut mine).await;
            mine.line(if persistence.append_only { "BGREWRITEAOF" } else { "SAVE" }).await;
            idle(&mut mine).await;
            if persistence.append_only {
                mine.line("SET after rewrite").await;
                mine.line("SELECT 3").await;
                mine.line("DEL b").await;
            }
            let expected = contents(&mut mine).await;
            ours.crash().await;
            let directory = tempfile::tempdir().unwrap();
            let mounted = files(&disk);
            for name in mounted.names() {
                let path = directory.path().join(&name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, mounted.read(&name).await.unwrap()).unwrap();
            }
            let Some(real) = Real::start_in(directory, &arguments).await else { return };
            let mut theirs = Client::connect(real.port).await;
            assert_eq!(contents(&mut theirs).await, expected, "{arguments:?}");
            // And back: what the real one writes.
            change(&mut theirs).await;
            theirs.line(if persistence.append_only { "BGREWRITEAOF" } else { "SAVE" }).await;
            idle(&mut theirs).await;
            if persistence.append_only {
                theirs.line("SET after again").await;
            }
            let expected = contents(&mut theirs).await;
            let directory = real.kill();
            let disk = self::disk();
            let mounted = files(&disk);
            for name in names_in(directory.path()) {
                let bytes = std::fs::read(directory.path().join(&name)).unwrap();
                mounted.append(&name, &bytes).unwrap();
            }
            let (_ours, mut mine) = start(&disk, &persistence).await;
            assert_eq!(contents(&mut mine).await, expected, "{arguments:?}");
        }
    });
}

fn names_in(directory: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for folder in ["", "appendonlydir"] {
        let Ok(entries) = std::fs::read_dir(directory.join(folder)) else { continue };
        for entry in entries.map(Result::unwrap).filter(|entry| entry.path().is_file()) {
            let name = entry.file_name().into_string().unwrap();
            names.push(if folder.is_empty() { name } else { format!("{folder}/{name}") });
        }
    }
    names
}

/// Each answered write before a machine crash, and how many of them are there after it.
async fn written_and_kept(persistence: &Persistence, pause: Duration) -> (i64, i64) {
    let disk = disk();
    let (ours, mut client) = start(&disk, persistence).await;
    let mut written = 0;
    for number in 1..=20 {
        assert_eq!(client.line(&format!("SET count {number}")).await, ok());
        written = number;
        tokio::time::sleep(pause).await;
    }
    disk.lose_power();
    ours.crash().await;
    let (_ours, mut client) = start(&disk, persistence).await;
    let kept = client.line("GET count").await;
    let kept = kept.text().map_or(0, |text| String::from_utf8_lossy(text).parse().unwrap());
    (written, kept)
}

#[test]
fn after_a_crash_of_the_machine_always_has_all_and_everysec_all_but_the_last_seconds() {
    on_tokio(async {
        let always = Persistence::append_only(AppendFsync::Always);
        let (written, kept) = written_and_kept(&always, Duration::ZERO).await;
        assert_eq!(written, kept, "always");
        let everysec = Persistence::append_only(AppendFsync::EverySecond);
        // Twenty writes in four seconds: at most ten of them, two seconds, may be lost.
        let (written, kept) = written_and_kept(&everysec, Duration::from_millis(200)).await;
        assert!(kept >= written - 10, "everysec: {kept} of {written}");
        let (_, kept) = written_and_kept(&everysec, Duration::ZERO).await;
        assert!(kept < 20, "all of a fraction of a second was synchronised");
        let no = Persistence::append_only(AppendFsync::No);
        let (_, kept) = written_and_kept(&no, Duration::from_millis(100)).await;
        assert!(kept < 20, "the kernel wrote back within two seconds");
    });
}

#[test]
fn a_torn_end_is_cut_off_and_damage_before_it_is_not_survived() {
    on_tokio(async {
        let persistence = Persistence::append_only(AppendFsync::Always);
        let file = "appendonlydir/appendonly.aof.1.incr.aof";
        for (tail, last, starts) in [
            (&b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nto"[..], "b", true),
            (b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nx\r\n", "b", true),
            (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nc\r\n", "c", true),
            (b"SET a c\r\n", "", false),
            (b"*1\r\n$6\r\nNOSUCH\r\n", "", false),
        ] {
            let disk = disk();
            let (ours, mut client) = start(&disk, &persistence).await;
            client.line("SET a b").await;
            ours.crash().await;
            files(&disk).append(file, tail).unwrap();
            let before = files(&disk).read(file).await.unwrap().len();
            if !starts {
                let settings = Settings {
                    disk: Some(disk.clone()),
                    persistence: persistence.clone(),
                    ..Settings::default()
                };
                let ours =
                    Ours::start_with(settings, ConfigFile::new(), Arc::new(Unobserved)).await;
                let why = ours.ended().await.unwrap_err().to_string();
                assert!(why.starts_with("what it kept cannot be read: "), "{why}");
                continue;
            }
            let (_ours, mut client) = start(&disk, &persistence).await;
            assert_eq!(client.line("GET a").await.text(), Some(last.as_bytes()));
            let after = files(&disk).read(file).await.unwrap().len();
            assert_eq!(after == before, last == "c", "the torn end is cut off");
            client.line("SET a d").await;
        }
    });
}

#[test]
fn a_disk_that_fails_ends_always_and_has_the_others_refuse_writes() {
    on_tokio(async {
        let disk = disk();
        let (ours, mut client) = start(&disk, &Persistence::append_only(AppendFsync::Always)).await;
        client.line("SET a b").await;
        disk.set_ailment(Ailment { failing: true, ..Ailment::default() });
        client.send(&[b"SET", b"a", b"c"]).await;
        assert_eq!(client.reply().await, None, "no answer to what was not kept");
        let why = ours.ended().await.unwrap_err().to_string();
        assert!(why.starts_with("its append-only file cannot be "), "{why}");

        let disk = self::disk();
        let (_ours, mut client) =
            start(&disk, &Persistence::append_only(AppendFsync::EverySecond)).await;
        disk.set_ailment(Ailment { failing: true, ..Ailment::default() });
        let refused = until("a refusal", async || {
            let reply = client.line("SET a b").await;
            reply.as_error().map(|error| String::from_utf8_lossy(error).into_owned())
        })
        .await;
        assert_eq!(refused, "MISCONF Errors writing to the AOF file: Input/output error");
        assert!(client.line("PING").await.as_error().is_some());
        assert_eq!(client.line("GET a").await.text(), Some(&b"b"[..]));

        let disk = self::disk();
        let rules = vec![SaveRule { after_s: 1, changes: 1 }];
        let (_ours, mut client) =
            start(&disk, &Persistence { save: rules, ..Persistence::none() }).await;
        disk.set_ailment(Ailment { failing: true, ..Ailment::default() });
        let refused = until("a refusal", async || {
            let reply = client.line("SET a b").await;
            reply.as_error().map(|error| String::from_utf8_lossy(error).into_owned())
        })
        .await;
        assert!(refused.starts_with("MISCONF Redis is configured to save RDB snapshots"));
        disk.set_ailment(Ailment::default());
        until("the next snapshot", async || {
            let reply = client.line("SET a c").await;
            reply.as_error().is_none().then_some(())
        })
        .await;
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a real server is waited for in real time")]
fn while_the_disk_hangs_always_answers_nobody_and_everysec_answers_for_a_while() {
    on_tokio(async {
        let stalled = Ailment { stalled: true, ..Ailment::default() };
        let disk = disk();
        let (ours, mut client) = start(&disk, &Persistence::append_only(AppendFsync::Always)).await;
        let mut other = Client::connect(ours.port).await;
        other.line("PING").await;
        disk.set_ailment(stalled);
        client.send(&[b"SET", b"a", b"b"]).await;
        assert!(client.is_quiet().await);
        other.send(&[b"PING"]).await;
        assert!(other.is_quiet().await, "the one thread waits");
        disk.set_ailment(Ailment::default());
        assert_eq!(client.reply().await, Some(ok()));
        assert!(other.reply().await.is_some());

        let disk = self::disk();
        let (_ours, mut client) =
            start(&disk, &Persistence::append_only(AppendFsync::EverySecond)).await;
        client.line("SET a b").await;
        disk.set_ailment(stalled);
        let mut answered = 0;
        let start = std::time::SystemTime::now();
        loop {
            client.send(&[b"SET", b"a", b"b"]).await;
            let waiting = Duration::from_millis(300);
            if tokio::time::timeout(waiting, client.reply()).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            answered += 1;
            assert!(start.elapsed().unwrap() < Duration::from_secs(10));
        }
        assert!(answered > 3, "answered {answered} before it had to wait");
        disk.set_ailment(Ailment::default());
        client.reply().await.unwrap();
        let info = client.line("INFO persistence").await;
        let text = String::from_utf8_lossy(info.text().unwrap()).into_owned();
        assert!(text.contains("aof_delayed_fsync:1"), "{text}");
    });
}

#[test]
fn a_command_about_snapshots_says_what_a_real_server_says() {
    on_tokio(async {
        let Some(real) = Real::start(&[]).await else { return };
        let mut theirs = Client::connect(real.port).await;
        let (_ours, mut mine) = start(&disk(), &Persistence::none()).await;
        for line in [
            "CONFIG GET save",
            "CONFIG GET append*",
            "CONFIG SET save x",
            "CONFIG SET save \"60 1000\"",
            "CONFIG GET save",
            "CONFIG SET appendonly maybe",
            "CONFIG SET appendfsync often",
            "SAVE now",
            "SAVE",
            "BGSAVE later",
            "MULTI",
            "SAVE",
            "EXEC",
            "MULTI",
            "BGSAVE",
            "BGREWRITEAOF",
            "EXEC",
        ] {
            let mut both = Vec::new();
            for client in [&mut theirs, &mut mine] {
                let reply = client.line(line).await;
                let mut text = format!("{reply:?}");
                // A real server has more of these.
                for name in ["appendfilename", "appenddirname"] {
                    if let Some(at) = text.find(name) {
                        text.truncate(at);
                    }
                }
                both.push(text);
            }
            if line != "CONFIG GET append*" {
                assert_eq!(both[1], both[0], "{line}");
            }
        }
        for client in [&mut theirs, &mut mine] {
            idle(client).await;
            client.line("CONFIG SET appendonly yes").await;
            idle(client).await;
            client.line("SET a b").await;
            client.line("CONFIG SET appendonly no").await;
            assert_eq!(client.line("GET a").await.text(), Some(&b"b"[..]));
        }
    });
}
