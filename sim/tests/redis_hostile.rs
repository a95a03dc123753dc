//! Hostile bytes: whatever comes over a connection, the server says what a real Redis says,
//! closes if it must, keeps serving others, and does not grow.

mod redis_support;

use std::sync::Arc;
use std::time::Duration;

use lockstorm_sim::server::redis::codec::{Reply, RequestDecoder, RequestLimits, append_command};
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::{ConfigFile, Settings};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use redis_support::{Client, Ours, Real, on_tokio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How an exchange ends when the server does not end it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The writing side is closed behind the bytes. Replies that wait may be lost then, so
    /// this is for what is read and answered in one piece.
    Shutdown,
    /// Nothing comes for 300 ms.
    Quiet,
}

/// What comes back for these bytes, sent in so many pieces.
async fn exchange(port: u16, bytes: &[u8], pieces: usize, until: Until) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut reading, mut writing) = stream.split();
    let write = async {
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            // The server may close before it has read everything.
            if writing.write_all(piece).await.is_err() {
                return;
            }
            if pieces > 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        if until == Until::Shutdown {
            let _ = writing.shutdown().await;
        }
    };
    let read = async {
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
        let silence = match until {
            Until::Shutdown => Duration::from_secs(20),
            Until::Quiet => Duration::from_millis(300),
        };
        // A reset may follow an error; what came before it counts.
        while let Ok(Ok(count)) = tokio::time::timeout(silence, reading.read(&mut buffer)).await
            && count > 0
        {
            answer.extend_from_slice(&buffer[..count]);
        }
        answer
    };
    let both = async { tokio::join!(write, read).1 };
    let answer = tokio::time::timeout(Duration::from_secs(60), both).await.expect("an end");
    answer.escape_ascii().to_string()
}

/// Commands whose replies are the same on every server, whatever was sent before.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        &b"PING"[..],
        b"GET",
        b"SET",
        b"ECHO",
        b"k",
        b"v",
        b"",
        b"NX",
        b"MULTI",
        b"EXEC",
        b"DEL",
        b"MGET",
        b"INCR",
        b"EXISTS",
        b"nosuch",
        b"\xff\x00",
        b"DISCARD",
        b"-1",
        b"10",
        b"STRLEN",
        b"LPUSH",
        b"LRANGE",
        b"LPOP",
        b"ZADD",
        b"ZRANGE",
        b"SADD",
        b"SCARD",
        b"XADD",
        b"XRANGE",
        b"XGROUP",
        b"CREATE",
        b"SETRANGE",
        b"LMPOP",
        b"LEFT",
        b"COPY",
        b"RENAME",
        b"SCAN",
        b"1",
    ]);
    proptest::collection::vec(word, 1..5).prop_map(|words| {
        let mut bytes = Vec::new();
        append_command(&mut bytes, words.iter().copied());
        bytes
    })
}

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let pipelines = proptest::collection::vec(valid(), 1..8).prop_map(|commands| commands.concat());
    let mutations =
        proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..5);
    let mutated = (pipelines, mutations).prop_map(|(mut bytes, mutations)| {
        for (index, byte, kind) in mutations {
            if bytes.is_empty() {
                break;
            }
            let index = index.index(bytes.len());
            match kind {
                0 => bytes[index] = byte,
                1 => bytes.insert(index, byte),
                _ => {
                    bytes.remove(index);
                }
            }
        }
        bytes
    });
    prop_oneof![
        4 => mutated,
        2 => "[*$0-9 \r\n\"'\\\\xa-f+:-]{0,120}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => (any::<i64>(), any::<i64>()).prop_map(|(count, length)| {
            format!("PING\r\n*{count}\r\n${length}\r\nPING\r\n").into_bytes()
        }),
    ]
}

/// Whether a real server's answer depends on more than the bytes and the keys.
fn depends(bytes: &[u8]) -> bool {
    // Mutations make other commands of words; those that wait, tell ids or stop the server.
    let text = bytes.to_ascii_lowercase();
    let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    let words = [&b"sync"[..], b"monitor", b"wait", b"shutdown", b"debug", b"info"];
    words.into_iter().any(has)
}

/// Whether a command among these bytes goes on from a cursor, none of which was given out: it
/// is a place in the order of a hash table, which is each server's own.
fn goes_on_from_a_cursor(bytes: &[u8]) -> bool {
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    decoder.feed(bytes);
    while let Ok(Some(arguments)) = decoder.decode() {
        let place = match arguments[0].to_ascii_lowercase().as_slice() {
            b"scan" => 1,
            b"hscan" | b"sscan" | b"zscan" => 2,
            _ => continue,
        };
        if arguments.get(place).is_some_and(is_place) {
            return true;
        }
    }
    false
}

/// A number other than 0, as C reads it. What is none is refused, by both servers alike.
fn is_place(cursor: &[u8]) -> bool {
    // C looks no further than a NUL.
    let cursor = cursor.split(|byte| *byte == 0).next().unwrap_or_default();
    let digits = cursor.strip_prefix(b"-").or(cursor.strip_prefix(b"+")).unwrap_or(cursor);
    digits.iter().all(u8::is_ascii_digit) && digits.iter().any(|digit| *digit != b'0')
}

#[test]
fn random_bytes_are_answered_as_a_real_server_answers_them() {
    on_tokio(async {
        let real = Real::start(&[]).await;
        let ours = Ours::start().await;
        let cases: u32 = std::env::var("REDIS_HOSTILE_CASES")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(400);
        // A fixed seed: the same bytes on every machine.
        let mut runner = TestRunner::deterministic();
        let (mut compared, mut unsent, mut of_cursors) = (0, 0, 0);
        let mut differences = Vec::new();
        for case in 0..cases {
            let bytes = hostile().new_tree(&mut runner).unwrap().current();
            if depends(&bytes) {
                unsent += 1;
                continue;
            }
            for port in [Some(ours.port), real.as_ref().map(|real| real.port)].into_iter().flatten()
            {
                let mut client = Client::connect(port).await;
                client.line("FLUSHALL").await;
            }
            let found = exchange(ours.port, &bytes, 1, Until::Shutdown).await;
            if goes_on_from_a_cursor(&bytes) {
                assert!(!found.is_empty(), "case {case}: no answer to {}", bytes.escape_ascii());
                of_cursors += 1;
            } else if let Some(real) = &real {
                let expected = exchange(real.port, &bytes, 1, Until::Shutdown).await;
                if found != expected {
                    differences.push(format!(
                        "case {case}: {}\n  real {expected}\n  ours {found}",
                        bytes.escape_ascii()
                    ));
                }
                compared += 1;
            }
        }
        eprintln!(
            "{compared} of {cases} hostile inputs compared, {of_cursors} with cursors sent to ours \
             alone, {unsent} sent to neither"
        );
        assert!(
            differences.is_empty(),
            "{} of {compared} inputs are answered differently:\n{}",
            differences.len(),
            differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n")
        );
        let mut client = Client::connect(ours.port).await;
        assert_eq!(client.line("PING").await, Reply::Simple("PONG".into()));
    });
}

/// Inputs that were, or are easily, somebody's bug.
fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let long = |head: &str, byte: u8, count: usize| {
        let mut bytes = head.as_bytes().to_vec();
        bytes.resize(bytes.len() + count, byte);
        bytes
    };
    vec![
        ("arrays in arrays", b"*1\r\n".repeat(50_000)),
        ("arrays of many", b"*1000000\r\n".repeat(1_000)),
        ("the longest array", b"*2147483647\r\n".to_vec()),
        ("the longest bulk", b"*1\r\n$536870912\r\nx".to_vec()),
        ("a longer bulk", b"*1\r\n$536870913\r\nx".to_vec()),
        ("many long bulks", b"*1000\r\n$536870912\r\n".repeat(1_000)),
        ("a line without end", long("", b'a', 1 << 20)),
        ("a count without end", long("*", b'1', 1 << 20)),
        ("a length without end", long("*1\r\n$", b'1', 1 << 20)),
        ("a line of quotes", long("", b'"', 60_000)),
        ("a line of words", b"a ".repeat(30_000)),
        ("a line of NULs", long("", 0, 60_000)),
        ("empty lines", b"\r\n".repeat(100_000)),
        ("empty arrays", b"*0\r\n".repeat(100_000)),
        ("negative arrays", b"*-1\r\n".repeat(100_000)),
        ("RESP3 instead", b"%1\r\n+a\r\n+b\r\n~1\r\n:1\r\n>1\r\n+x\r\n".to_vec()),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        ("HTTP", b"GET / HTTP/1.1\r\nAccept: */*\r\nHost: localhost\r\n\r\n".to_vec()),
        ("many transactions", b"MULTI\r\n".repeat(20_000)),
        ("many errors", b"*1\r\n$6\r\nnosuch\r\n".repeat(20_000)),
        ("many small arguments", {
            let mut bytes = b"*100001\r\n$3\r\nDEL\r\n".to_vec();
            bytes.extend_from_slice(&b"$1\r\nx\r\n".repeat(100_000));
            bytes
        }),
        ("a glob of stars", {
            let pattern = "a*".repeat(2_000) + "b";
            format!("SET {0} x\r\nKEYS {pattern}\r\n", "a".repeat(2_000)).into_bytes()
        }),
    ]
}

#[test]
fn a_corpus_of_hostile_bytes() {
    on_tokio(async {
        let real = Real::start(&[]).await;
        let ours = Ours::start().await;
        for (name, bytes) in corpus() {
            // A real server's matcher is exponential: it would not come back.
            let comparable = name != "a glob of stars";
            let found = exchange(ours.port, &bytes, 1, Until::Quiet).await;
            if let Some(real) = real.as_ref().filter(|_| comparable) {
                let expected = exchange(real.port, &bytes, 1, Until::Quiet).await;
                assert!(
                    found == expected,
                    "{name}: {} bytes, real {}",
                    found.len(),
                    expected.len()
                );
            }
            // How much of HTTP is answered depends on what came at once.
            if bytes.len() < 100 && name != "HTTP" {
                assert_eq!(
                    exchange(ours.port, &bytes, 20, Until::Quiet).await,
                    found,
                    "{name}, in pieces"
                );
            }
            let mut client = Client::connect(ours.port).await;
            assert_eq!(client.line("PING").await, Reply::Simple("PONG".into()), "after {name}");
        }
    });
}

/// How much memory this process has, bytes; none where nobody tells.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Declared lengths cost nothing; what arrives costs what it is; what cannot be finished
/// is closed. Others are served meanwhile.
#[test]
fn hostile_connections_do_not_grow_the_server() {
    on_tokio(async {
        let requests = RequestLimits { buffered_bytes: 1 << 20, ..RequestLimits::default() };
        let settings = Settings {
            requests,
            output_limit_bytes: 1 << 20,
            memory_bytes: 4 << 20,
            ..Settings::default()
        };
        let server = Ours::start_with(settings, ConfigFile::new(), Arc::new(Unobserved)).await;
        let mut client = Client::connect(server.port).await;
        client.line("PING").await;
        let before = resident_bytes();
        let mut held = Vec::new();
        for number in 0..200 {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
            let bytes: &[u8] = match number % 4 {
                0 => b"*2147483647\r\n$536870912\r\n",
                1 => b"*1000000\r\n$1\r\nx\r\n$1\r\ny\r\n",
                2 => b"MULTI\r\nSET a b\r\nSET c \"",
                _ => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\nabc",
            };
            stream.write_all(bytes).await.unwrap();
            held.push(stream);
        }
        assert_eq!(client.line("PING").await, Reply::Simple("PONG".into()));
        // And one that sends for ever.
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let mut sent = 0;
        stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\n").await.unwrap();
        while stream.write_all(&[b'x'; 64 * 1024]).await.is_ok() {
            sent += 64 * 1024;
            assert!(sent < 64 << 20, "nobody stops it");
        }
        assert_eq!(client.line("PING").await, Reply::Simple("PONG".into()));
        if let (Some(before), Some(after)) = (before, resident_bytes()) {
            let grown = after.saturating_sub(before);
            assert!(grown < 32 << 20, "the process grew by {grown} bytes");
        }
    });
}
