//! Hostile bytes and giant statements: whatever comes over a connection, the server says what is
//! wrong, closes if it must, keeps serving others, and does not grow beyond its limits.
//!
//! `POSTGRES_HOSTILE_CASES=20000` chooses how many inputs are drawn.

mod postgres_support;

use std::sync::{Mutex, Once};
use std::time::Duration;

use lockstorm_sim::disk::{self, Disk};
use lockstorm_sim::draw::Draw;
use lockstorm_sim::server::postgres::Settings;
use postgres_support::{Ours, Real, complaint, connect, on_tokio, peak_bytes, told, try_connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;

const STARTUP: &[u8] = b"\x00\x00\x00\x17\x00\x03\x00\x00user\0postgres\0\0";

async fn start(settings: Settings) -> Ours {
    watch_panics();
    Ours::start_on(Disk::new(disk::Settings::default(), 0, "pg-1"), settings).await
}

/// What comes back for these bytes until the server closes, or, behind their end, is done.
async fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let write = async {
        // It may have been closed already.
        let _ = writing.write_all(bytes).await;
        let _ = writing.shutdown().await;
    };
    let read = async {
        let mut answer = Vec::new();
        let _ = reading.read_to_end(&mut answer).await;
        answer
    };
    let both = async { tokio::join!(write, read).1 };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("it ends")
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

const WORDS: &[&str] = &[
    "SELECT",
    "1",
    "FROM",
    "t",
    "WHERE",
    "id",
    "=",
    "$1",
    "INSERT INTO",
    "VALUES",
    "(",
    ")",
    ",",
    "UPDATE",
    "SET",
    "v",
    "DELETE",
    "FOR UPDATE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    ";",
    "'text'",
    "NULL",
    "AND",
    "NOT",
    "::",
    "int",
    "numeric",
    "'x'",
    "ORDER BY",
    "LIMIT",
    "-1",
    "generate_series(1, 5)",
    "count(*)",
    "ON CONFLICT DO NOTHING",
    "RETURNING",
    "*",
    "1e400",
    "repeat('ab', 9)",
    "LOCK TABLE",
    "WITH",
    "AS",
    "JOIN",
    "array[1]",
    "ANY",
    "CASE",
    "END",
    "E'\\u",
    "\"",
    "/*",
    "--",
    "pg_locks",
    "PREPARE p AS",
    "EXECUTE p",
    "interval '1 day'",
    "99999999999999999999",
];

/// A message as clients send them, of words in any order.
fn valid(draw: &mut Draw) -> Vec<u8> {
    let words: Vec<&str> = (0..draw.below(9)).filter_map(|_| draw.pick(WORDS).copied()).collect();
    let statement = words.join(" ");
    let name = ["", "a", "b"][draw.below(3) as usize];
    match draw.below(7) {
        0 | 1 => message(b'Q', format!("{statement}\0").as_bytes()),
        2 => message(b'P', format!("{name}\0{statement}\0\0\0").as_bytes()),
        3 => message(b'B', format!("\0{name}\0\0\0\0\u{1}\0\0\0\u{1}7\0\0").as_bytes()),
        4 => message(b'D', format!("S{name}\0").as_bytes()),
        5 => message(b'E', b"\0\0\0\0\0"),
        _ => message(b'S', b""),
    }
}

/// Bytes that are no messages at all.
fn noise(draw: &mut Draw) -> Vec<u8> {
    let mut bytes = vec![*draw.pick(b"QPBDCESHXdcfpFzR\0").unwrap()];
    let length = match draw.below(4) {
        0 => draw.bits() as u32,
        1 => 4,
        _ => draw.below(40) as u32,
    };
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend((0..draw.below(40)).map(|_| draw.bits() as u8));
    bytes
}

fn hostile(draw: &mut Draw) -> Vec<u8> {
    let mut bytes = if draw.chance(900) { STARTUP.to_vec() } else { Vec::new() };
    let is_noise = draw.chance(300);
    for _ in 0..draw.below(8) {
        bytes.extend(if is_noise { noise(draw) } else { valid(draw) });
    }
    for _ in 0..draw.below(4) {
        if bytes.is_empty() || draw.chance(300) {
            break;
        }
        let at = draw.below(bytes.len() as u64) as usize;
        match draw.below(3) {
            0 => bytes[at] = draw.bits() as u8,
            1 => bytes.insert(at, draw.bits() as u8),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

/// Where the server panicked. A task that does so ends, and nobody else would notice.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Has every panic but the tests' own remembered.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            if !place.contains("tests/postgres_") {
                PANICS.lock().unwrap().push(place);
            }
            tell(panic);
        }));
    });
}

/// It serves a new client, has never panicked, and is small. All tests here share a process; one
/// statement of 16 MiB took 2.3 GB once.
async fn assert_unharmed(ours: &Ours) {
    let client = connect(ours.port).await;
    assert_eq!(told(&client, "SELECT 1").await, "(1) #1");
    assert_eq!(*PANICS.lock().unwrap(), [""; 0]);
    let peak = peak_bytes().unwrap_or(0);
    assert!(peak < 1_000 * MIB, "the process has had {peak} bytes");
}

/// How many inputs are drawn.
fn cases() -> u64 {
    let given = std::env::var("POSTGRES_HOSTILE_CASES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(600)
}

#[test]
fn hostile_bytes_end_a_connection_and_nothing_else() {
    on_tokio(async {
        let settings = Settings { memory_bytes: 8 * MIB, ..Settings::default() };
        let ours = start(settings).await;
        let client = connect(ours.port).await;
        told(&client, "CREATE TABLE t(id int PRIMARY KEY, v int)").await;
        for number in 0..cases() {
            let mut draw = Draw::new(1, "hostile", &number.to_string());
            exchange(ours.port, &hostile(&mut draw)).await;
            if number % 100 == 0 {
                assert_eq!(told(&client, "SELECT 1").await, "(1) #1", "after {number}");
            }
        }
        assert_eq!(told(&client, "SELECT 1").await, "(1) #1");
        assert_eq!(
            told(&client, "SELECT count(*) FROM pg_locks WHERE NOT granted").await,
            "(0) #1"
        );
        assert_eq!(ours.control.sessions(), 1);
        assert_unharmed(&ours).await;
    });
}

/// Declared lengths cost nothing, and what cannot be finished is closed.
#[test]
fn a_message_beyond_the_limit_is_refused_by_its_length() {
    on_tokio(async {
        let settings = Settings { message_bytes: MIB, ..Settings::default() };
        let ours = start(settings).await;
        let client = connect(ours.port).await;
        let too_long = |length: usize| {
            let mut bytes = STARTUP.to_vec();
            bytes.push(b'Q');
            bytes.extend_from_slice(&(length as u32).to_be_bytes());
            bytes
        };
        for length in [MIB + 1, u32::MAX as usize, 3] {
            let answer = exchange(ours.port, &too_long(length)).await;
            let answer = answer.escape_ascii().to_string();
            assert!(answer.contains("CFATAL\\x00") || answer.contains("SFATAL\\x00"), "{answer}");
            assert!(answer.contains("C08P01\\x00Minvalid message length"), "{answer}");
        }
        // One that begins many and ends none.
        let mut held = Vec::new();
        for _ in 0..90 {
            let mut stream = TcpStream::connect(("127.0.0.1", ours.port)).await.unwrap();
            stream.write_all(&too_long(MIB)).await.unwrap();
            held.push(stream);
        }
        let exact = format!("SELECT length('{}')", "x".repeat(MIB - 100));
        assert_eq!(told(&client, &exact).await, format!("({}) #1", MIB - 100));
        let longer = format!("SELECT length('{}')", "x".repeat(MIB));
        assert_eq!(complaint(&client, &longer).await, "08P01 invalid message length: no detail");
        assert_eq!(told(&client, "SELECT 1").await, "closed");
        // And a first message has a limit of its own.
        let endless = exchange(ours.port, b"\x00\x10\x00\x00\x00\x03\x00\x00user\0").await;
        let endless = endless.escape_ascii().to_string();
        assert!(endless.contains("invalid length of startup packet"), "{endless}");
        assert!(try_connect(ours.port).await.is_some());
        assert_unharmed(&ours).await;
    });
}

#[test]
fn a_statement_whose_result_is_larger_than_the_server_keeps_is_refused() {
    let much = "53200 out of memory: The result is larger than the simulated server keeps.";
    on_tokio(async {
        let settings = Settings { result_bytes: MIB, ..Settings::default() };
        let ours = start(settings).await;
        let client = connect(ours.port).await;
        told(&client, "CREATE TABLE t(id int PRIMARY KEY, v text)").await;
        told(
            &client,
            "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 900) AS n",
        )
        .await;
        assert_eq!(told(&client, "SELECT count(*) FROM t").await, "(900) #1");
        assert!(told(&client, "SELECT v FROM t").await.ends_with("#900"));
        for statement in [
            "SELECT v, v FROM t",
            "SELECT one.v FROM t AS one, t AS two",
            "SELECT DISTINCT id, v, v FROM t",
            "SELECT id, v, v FROM t GROUP BY id, v",
            "SELECT repeat('x', 1000) FROM generate_series(1, 2000)",
            "UPDATE t SET v = v RETURNING v, v",
            "WITH all_of_them AS (SELECT v, v AS w FROM t) SELECT 1 FROM all_of_them",
        ] {
            let found = complaint(&client, statement).await;
            assert_eq!(found, much, "{statement}");
        }
        assert_eq!(told(&client, "SELECT count(*) FROM t").await, "(900) #1");
        assert_unharmed(&ours).await;
    });
}

#[test]
fn a_statement_that_makes_more_than_the_server_has_is_refused_on_its_way() {
    let much = "53200 out of memory: The simulated server has a limit on what a statement makes on \
                its way.";
    on_tokio(async {
        let settings = Settings { memory_bytes: 8 * MIB, ..Settings::default() };
        let ours = start(settings).await;
        let client = connect(ours.port).await;
        told(&client, "CREATE TABLE t(id int PRIMARY KEY, v text)").await;
        for statement in [
            "SELECT count(*) FROM generate_series(1, 1500000) AS a, generate_series(1, 1500000) AS b",
            "SELECT length(repeat('x', 6000000) || repeat('y', 6000000))",
            "SELECT count(repeat('x', 1000000)) FROM generate_series(1, 100000)",
            "SELECT n FROM generate_series(1, 100000) AS n ORDER BY repeat('x', 1000000 - n)",
            "INSERT INTO t SELECT n, repeat('x', 1000000) FROM generate_series(1, 100000) AS n",
            "SELECT upper(lower(upper(lower(upper(lower(repeat('x', 2000000)))))))",
        ] {
            assert_eq!(complaint(&client, statement).await, much, "{statement}");
        }
        let wide = format!("SELECT {}", vec!["repeat('x', 1000000)"; 1_600].join(", "));
        assert_eq!(complaint(&client, &wide).await, much);
        let wider = format!("SELECT {}", vec!["1"; 1_665].join(", "));
        let entries = "54011 target lists can have at most 1664 entries: no detail";
        assert_eq!(complaint(&client, &wider).await, entries);
        assert_eq!(told(&client, "SELECT count(*) FROM t").await, "(0) #1");
        assert_unharmed(&ours).await;
    });
}

#[test]
fn tables_grow_to_the_limit_and_no_further() {
    let full = "53200 out of memory: The simulated server has a limit on what all rows hold \
                together.";
    on_tokio(async {
        let settings = Settings { memory_bytes: 2 * MIB, ..Settings::default() };
        let ours = start(settings).await;
        let (client, other) = (connect(ours.port).await, connect(ours.port).await);
        told(&client, "CREATE TABLE t(id serial PRIMARY KEY, v text)").await;
        let insert = "INSERT INTO t(v) VALUES (repeat('x', 100000))";
        let mut rows = 0;
        let refused = loop {
            let refused = complaint(&client, insert).await;
            if !refused.is_empty() {
                break refused;
            }
            rows += 1;
            assert!(rows < 100, "nobody stops it");
        };
        assert_eq!(refused, full);
        assert!((15..=21).contains(&rows), "{rows}");
        assert_eq!(told(&other, "SELECT count(*) FROM t").await, format!("({rows}) #1"));
        // A transaction that is undone leaves nothing, and what is deleted makes room.
        let undone =
            format!("BEGIN; DELETE FROM t WHERE id = 1; {insert}; {insert}; {insert}; COMMIT");
        assert_eq!(complaint(&client, &undone).await, full);
        assert_eq!(told(&client, "ROLLBACK").await, "#0");
        assert_eq!(told(&other, "SELECT count(*) FROM t").await, format!("({rows}) #1"));
        assert_eq!(told(&other, "DELETE FROM t WHERE id < 10").await, "#9");
        for _ in 0..5 {
            assert_eq!(complaint(&client, insert).await, "");
        }
        assert_unharmed(&ours).await;
    });
}

#[test]
fn giant_statements_are_read_or_refused_in_words() {
    let tokens = "53200 out of memory: The simulated server reads statements of at most 1000000 \
                  tokens.";
    on_tokio(async {
        let ours = start(Settings::default()).await;
        let client = connect(ours.port).await;
        let list = |count: usize| format!("SELECT 1 IN ({}1)", "0,".repeat(count));
        assert_eq!(told(&client, &list(100_000)).await, "(t) #1");
        assert_eq!(complaint(&client, &list(500_000)).await, tokens);
        assert_eq!(
            complaint(&client, &format!("VALUES {}(1)", "(1),".repeat(300_000))).await,
            tokens
        );
        assert_eq!(complaint(&client, &"SELECT 1;".repeat(400_000)).await, tokens);
        assert_eq!(complaint(&client, &";".repeat(2_000_000)).await, tokens);
        // The end of a text is no token of its.
        assert_eq!(complaint(&client, &";".repeat(1_000_000)).await, "");
        assert_eq!(complaint(&client, &";".repeat(1_000_001)).await, tokens);
        let giant = format!("SELECT length('{}')", "x".repeat(16_000_000));
        assert_eq!(told(&client, &giant).await, "(16000000) #1");
        let open = format!("SELECT '{}", "x".repeat(1_000_000));
        assert!(complaint(&client, &open).await.starts_with("42601 unterminated quoted string"));
        let commented = format!("{}{}SELECT 1", "/*".repeat(500_000), "*/".repeat(500_000));
        assert_eq!(told(&client, &commented).await, "(1) #1");
        // Statements that are kept under names.
        let long = format!("SELECT length('{}')", "x".repeat(1_000_000));
        let mut kept = Vec::new();
        let refused = loop {
            match client.prepare(&long).await {
                Ok(statement) => kept.push(statement),
                Err(error) => break error,
            }
            assert!(kept.len() < 100, "nobody stops it");
        };
        assert_eq!(refused.as_db_error().unwrap().detail(), Some("Too many prepared statements."));
        drop(kept);
        assert_eq!(told(&client, "SELECT 1").await, "(1) #1");
        assert_unharmed(&ours).await;
    });
}

#[test]
fn what_is_replaced_takes_no_room() {
    on_tokio(async {
        let ours = start(Settings::default()).await;
        let parse = |query: &str| message(b'P', format!("\0{query}\0\0\0").as_bytes());
        let (bind, sync) = (message(b'B', b"\0\0\0\0\0\0\0\0"), message(b'S', b""));
        let giant = parse(&format!("SELECT '{}'", "x".repeat(5 * MIB)));
        let twice = [STARTUP, &giant, &giant, &bind, &bind, &sync].concat();
        assert_eq!(kinds(&exchange(ours.port, &twice).await), "1122Z");
        // Each is gone as soon as another is to come, whatever comes of that.
        let failed = [STARTUP, &giant, &parse("SELECT FROM WHERE"), &sync, &bind, &sync].concat();
        let answer = exchange(ours.port, &failed).await;
        assert_eq!(kinds(&answer), "1EZEZ");
        assert!(String::from_utf8_lossy(&answer).contains("unnamed prepared statement does not"));

        let small = Settings { message_bytes: 64 * 1024, ..Settings::default() };
        let ours = start(small).await;
        let count: u16 = 5_000;
        let list: Vec<String> = (1..=count).map(|number| format!("${number}")).collect();
        let many = parse(&format!("SELECT 'x'::text IN ({})", list.join(",")));
        let nulls = vec![0xff; 4 * usize::from(count)];
        let bind = [&b"\0\0\0\0"[..], &count.to_be_bytes(), &nulls, b"\0\0"].concat();
        let bind = message(b'B', &bind);
        let twice = [STARTUP, &many, &bind, &bind, &sync].concat();
        assert_eq!(kinds(&exchange(ours.port, &twice).await), "122Z");
    });
}

/// The kinds of the messages behind the greeting.
fn kinds(answer: &[u8]) -> String {
    let (mut kinds, mut rest) = (String::new(), answer);
    while let [kind, a, b, c, d, ..] = *rest {
        kinds.push(char::from(kind));
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        rest = rest.get(1 + length..).unwrap_or_default();
    }
    kinds.split_once('Z').map_or_else(String::new, |(_, behind)| behind.to_owned())
}

#[test]
fn deep_statements_are_refused() {
    on_tokio(async {
        let ours = start(Settings::default()).await;
        let client = connect(ours.port).await;
        let deep = format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(told(&client, &deep).await, "54001");
        let long = format!("SELECT 1{}", " + 1".repeat(100_000));
        assert_eq!(told(&client, &long).await, "54001");
        let many = format!("SELECT {}true", "true AND ".repeat(50_000));
        assert_eq!(told(&client, &many).await, "(t) #1");
        let nots = format!("SELECT {}true", "NOT ".repeat(100_000));
        assert_eq!(told(&client, &nots).await, "54001");
        assert_unharmed(&ours).await;
    });
}

/// A hundred are served, and the next is refused, here and there.
#[test]
fn the_connection_too_many_is_refused_as_a_real_server_refuses_it() {
    on_tokio(async {
        let (ours, real) = (start(Settings::default()).await, Real::start().await);
        let ports = [Some(ours.port), real.as_ref().map(|real| real.port)];
        for port in ports.into_iter().flatten() {
            let mut config = tokio_postgres::Config::new();
            config.user("postgres").dbname("postgres");
            let mut held = Vec::new();
            let refused = loop {
                let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                match config.connect_raw(stream, tokio_postgres::NoTls).await {
                    Ok((client, connection)) => {
                        tokio::spawn(async move {
                            let _ = connection.await;
                        });
                        held.push(client);
                    }
                    Err(error) => break error,
                }
                assert!(held.len() <= 100, "nobody stops it");
            };
            let refused = refused.as_db_error().unwrap();
            let told = (refused.severity(), refused.code().code(), refused.message());
            assert_eq!(told, ("FATAL", "53300", "sorry, too many clients already"));
            assert_eq!(held.len(), 100);
        }
        while ours.control.sessions() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_unharmed(&ours).await;
    });
}
