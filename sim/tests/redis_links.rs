//! Links between servers whose other end is not what it should be: replicas and masters
//! written by hand.

mod redis_support;

use std::sync::Arc;
use std::time::Duration;

use lockstorm_sim::server::redis::codec::Reply;
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::{ConfigFile, Settings};
use redis_support::{Client, Ours, Real, on_tokio, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A replica that acknowledges only what it is told to.
struct Replica {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Replica {
    async fn attach(port: u16) -> Replica {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n").await.unwrap();
        let mut replica = Replica { stream, bytes: Vec::new() };
        // +FULLRESYNC <id> <offset>, $<length>, the data set.
        let (offset, end) = loop {
            replica.read().await;
            let text = String::from_utf8_lossy(&replica.bytes);
            let Some((line, rest)) = text.split_once("\r\n$") else { continue };
            let Some((length, _)) = rest.split_once("\r\n") else { continue };
            let head = line.len() + 3 + length.len() + 2;
            let offset: u64 = line.split(' ').nth(2).unwrap().parse().unwrap();
            break (offset, head + length.parse::<usize>().unwrap());
        };
        while replica.bytes.len() < end {
            replica.read().await;
        }
        replica.bytes.drain(..end);
        replica.acknowledge(offset).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        replica
    }

    async fn read(&mut self) {
        let reading = self.stream.read_buf(&mut self.bytes);
        let count = tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap().unwrap();
        assert!(count > 0, "the master has closed the link");
    }

    async fn acknowledge(&mut self, offset: u64) {
        let offset = offset.to_string();
        let text =
            format!("*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n${}\r\n{offset}\r\n", offset.len());
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }
}

async fn offset(client: &mut Client) -> u64 {
    let reply = client.line("INFO replication").await;
    let text = String::from_utf8_lossy(reply.text().unwrap()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    line.unwrap().parse().unwrap()
}

/// What two WAITs say: the first asks the replica, which does not answer; then the replica
/// acknowledges the write, but not the question.
async fn waits(port: u16) -> Vec<Reply> {
    let mut replica = Replica::attach(port).await;
    let (mut client, mut other) = (Client::connect(port).await, Client::connect(port).await);
    client.line("SET k v").await;
    let written = offset(&mut other).await;
    let first = client.line("WAIT 1 100").await;
    replica.acknowledge(written).await;
    vec![first, client.line("WAIT 1 500").await]
}

#[test]
fn a_wait_does_not_wait_for_the_question_of_another() {
    on_tokio(async {
        let expected = [Reply::Integer(0), Reply::Integer(1)];
        assert_eq!(waits(Ours::start().await.port).await, expected);
        let Some(real) = Real::start(&[]).await else { return };
        assert_eq!(waits(real.port).await, expected, "the real server");
    });
}

/// Answers handshakes with `answer`, which begins with the answer to PSYNC. Gives back how
/// often somebody came.
async fn master(answer: &[u8], server: &Ours, visits: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = Client::connect(server.port).await;
    client.line(&format!("REPLICAOF 127.0.0.1 {port}")).await;
    for _ in 0..visits {
        let accepted = tokio::time::timeout(Duration::from_secs(10), listener.accept()).await;
        let (mut stream, _) = accepted.expect("the replica comes again").unwrap();
        let mut bytes = Vec::new();
        for (word, reply) in
            [("PING", "+PONG\r\n"), ("listening-port", "+OK\r\n"), ("psync2", "+OK\r\n")]
        {
            while !String::from_utf8_lossy(&bytes).contains(word) {
                assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
            }
            stream.write_all(reply.as_bytes()).await.unwrap();
        }
        while !String::from_utf8_lossy(&bytes).contains("PSYNC") {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
        }
        // It may close before it has heard everything.
        let _ = stream.write_all(answer).await;
        let mut rest = vec![0; 4096];
        let ends = async { while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {} };
        let _ = tokio::time::timeout(Duration::from_millis(400), ends).await;
        assert_eq!(client.line("PING").await, Reply::Simple("PONG".into()));
        client.line("INFO").await;
        client.line("ROLE").await;
    }
    client.line("REPLICAOF NO ONE").await;
    assert_eq!(client.line("SET k v").await, Reply::Simple("OK".into()));
    assert!(offset(&mut client).await < 1 << 62);
}

/// An empty data set, and the stream behind it.
fn answer(header: &str, file: &[u8], stream: &[u8]) -> Vec<u8> {
    let length = format!("\r\n${}\r\n", file.len());
    [header.as_bytes(), length.as_bytes(), file, stream].concat()
}

#[test]
fn hostile_masters_do_not_harm() {
    on_tokio(async {
        const ID: &str = "0123456789abcdef0123456789abcdef01234567";
        const EMPTY: &[u8] = b"REDIS0010\xff\0\0\0\0\0\0\0\0";
        const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
        let full = |offset: &str| format!("+FULLRESYNC {ID} {offset}");
        let packed = |length: u32, packed: &[u8]| {
            let mut file = b"REDIS0010\xfe\0\0\x01k\xc3\x80".to_vec();
            file.extend_from_slice(&(packed.len() as u32).to_be_bytes());
            file.push(0x80);
            file.extend_from_slice(&length.to_be_bytes());
            file.extend_from_slice(packed);
            file.extend_from_slice(b"\xff\0\0\0\0\0\0\0\0");
            file
        };
        // 264 bytes for 3.
        let bomb = [&b"\0a"[..], &b"\xe0\xff\0".repeat(1 << 16)].concat();
        let many = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n".repeat(100_000);
        let answers: Vec<Vec<u8>> = vec![
            answer(&full("18446744073709551615"), EMPTY, SET),
            answer(&full("18446744073709551600"), EMPTY, SET),
            answer(&full("9223372036854775807"), EMPTY, SET),
            answer(&full("18446744073709551616"), EMPTY, SET),
            answer(&full("-1"), EMPTY, SET),
            answer(&full(""), EMPTY, SET),
            answer("+FULLRESYNC", EMPTY, SET),
            answer("+FULLRESYNC short 5", EMPTY, SET),
            answer(&format!("+FULLRESYNC {}\x07\x08\x09 5", &ID[3..]), EMPTY, SET),
            b"+CONTINUE\r\n".to_vec(),
            [b"+CONTINUE x\r\n", SET].concat(),
            [b"+CONTINUE \xff\xff\r\n", SET].concat(),
            format!("+CONTINUE {ID} 18446744073709551615\r\n").into_bytes(),
            answer(&full("5"), b"", SET),
            answer(&full("5"), b"REDIS0010", SET),
            answer(&full("5"), b"REDIS0010\xfe\x81\xff\xff\xff\xff\xff\xff\xff\xff", SET),
            answer(&full("5"), b"REDIS0010\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffa", SET),
            answer(
                &full("5"),
                b"REDIS0010\xfb\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00\xff\0\0\0\0\0\0\0\0",
                SET,
            ),
            answer(&full("5"), &packed(u32::MAX, b"\0a"), SET),
            answer(&full("5"), &packed(1 + (1 << 16) * 264, &bomb), SET),
            answer(&full("5"), EMPTY, b"*2147483647\r\n$4\r\nPING\r\n"),
            answer(&full("5"), EMPTY, b"*99999999999\r\n"),
            answer(&full("5"), EMPTY, &[&b"*1\r\n$5\r\nMULTI\r\n"[..], &many].concat()),
            answer(&full("5"), EMPTY, &[b'x'; 200_000]),
            answer(&full("5"), EMPTY, b"\0\0\0\0"),
            answer(&full("5"), EMPTY, b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"),
            answer(
                &full("5"),
                EMPTY,
                b"*1\r\n$4\r\nQUIT\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n5\r\n$1\r\n0\r\n",
            ),
            answer(&full("5"), EMPTY, b"*3\r\n$9\r\nREPLICAOF\r\n$2\r\nNO\r\n$3\r\nONE\r\n"),
            answer(
                &full("5"),
                EMPTY,
                b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n",
            ),
            format!("{}\r\n$18446744073709551615\r\n", full("5")).into_bytes(),
            format!("{}\r\n$-1\r\n", full("5")).into_bytes(),
            format!("{}\r\n$EOF:short\r\n", full("5")).into_bytes(),
            format!("{}\r\n$EOF:{ID}\r\n{}{ID}", full("5"), "x".repeat(3_000_000)).into_bytes(),
            b"-LOADING\r\n".to_vec(),
            vec![b'x'; 200_000],
            vec![b'\n'; 200_000],
        ];
        let settings = Settings { resync_limit_bytes: 1 << 20, ..Settings::default() };
        // All at once: each waits a second before it comes again.
        let mut tasks = Vec::new();
        for answer in answers {
            let settings = settings.clone();
            tasks.push(async move {
                let server =
                    Ours::start_with(settings, ConfigFile::new(), Arc::new(Unobserved)).await;
                let shown = answer[..answer.len().min(100)].escape_ascii().to_string();
                eprintln!("{}: {shown}", server.port);
                // Promoted by its master's stream: a real server does that too, and stays.
                let visits = if shown.contains("REPLICAOF") { 1 } else { 2 };
                master(&answer, &server, visits).await;
            });
        }
        let handles: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
}

/// The gate opens on one thread while the link looks at it on another.
#[test]
fn an_opening_is_never_missed() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Ours::start().await;
        let mut replica = Replica::attach(server.port).await;
        let mut client = Client::connect(server.port).await;
        let rounds = 2_000;
        for round in 0..rounds {
            let gate = server.gate.clone();
            gate.stall();
            client.line(&format!("SET k {round}:end")).await;
            // Sometimes at once, sometimes while the link's task is between two looks.
            let opening = std::thread::spawn(move || {
                for _ in 0..round % 200 {
                    std::hint::spin_loop();
                }
                gate.open();
            });
            let mark = format!("{round}:end");
            while !String::from_utf8_lossy(&replica.bytes).contains(&mark) {
                replica.read().await;
            }
            replica.bytes.clear();
            opening.join().unwrap();
        }
    });
}

/// A replica that is no replica: what it asks and acknowledges.
#[test]
fn hostile_replicas_do_not_harm() {
    on_tokio(async {
        let server = Ours::start().await;
        let mut client = Client::connect(server.port).await;
        client.line("SET k v").await;
        for request in [
            &b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$19\r\n9223372036854775807\r\n"[..],
            b"*3\r\n$5\r\nPSYNC\r\n$2\r\n\xff\xff\r\n$20\r\n-9223372036854775808\r\n",
            b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$19\r\n9223372036854775807\r\n",
            b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n*9999999999\r\n",
            b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n*1\r\n$5\r\nMULTI\r\nxxxx\r\n\0\0",
            b"MULTI\r\n*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\nEXEC\r\n",
        ] {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
            stream.write_all(request).await.unwrap();
            let mut bytes = vec![0; 4096];
            assert!(stream.read(&mut bytes).await.unwrap() > 0);
            tokio::time::sleep(Duration::from_millis(30)).await;
            client.line("INCR n").await;
            client.line("WAIT 1 10").await;
            client.line("INFO").await;
        }
        until("the links to end", async || {
            let reply = client.line("INFO replication").await;
            let text = String::from_utf8_lossy(reply.text().unwrap()).into_owned();
            text.contains("connected_slaves:0").then_some(())
        })
        .await;
    });
}
