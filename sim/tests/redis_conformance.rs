//! The same commands to our server and to a real Redis 7.0: the same bytes back.

mod redis_support;

use std::collections::BTreeMap;
use std::time::Duration;

use lockstorm_sim::server::redis::codec::Reply;
use redis_support::{Client, Ours, Real, counted, in_any_order, on_tokio, until, words};

/// Commands, one a line; `!sleep MS` waits, `#` begins a comment, `@2` sends the line on
/// a second connection (`@3`, …). `!send COMMAND` does not read a reply, `!read N` reads N
/// more, `!blocked N` waits until so many clients wait inside a command, `!counted` looks what
/// was counted of commands and errors (so does the end of each script), `!quiet` looks that nothing more comes, `!closed` that the connection ends. A `~` before a command: the order
/// of the elements of its reply does not count. `{id:2}` is the id of the second connection.
/// Each script starts with empty databases. Replies that depend on the clock to the
/// millisecond, on hash order or on ids stay out.
const STRINGS: &str = include_str!("redis_support/strings.txt");
const EXPIRY: &str = include_str!("redis_support/expiry.txt");
const SESSION: &str = include_str!("redis_support/session.txt");
const SCRIPTS: &str = include_str!("redis_support/scripts.txt");
const TRANSACTIONS: &str = include_str!("redis_support/transactions.txt");
const WATCHING: &str = include_str!("redis_support/watching.txt");
const PUBSUB: &str = include_str!("redis_support/pubsub.txt");
const EVENTS: &str = include_str!("redis_support/events.txt");
const LISTS: &str = include_str!("redis_support/lists.txt");
const BLOCKING: &str = include_str!("redis_support/blocking.txt");
const SORTED_SETS: &str = include_str!("redis_support/sorted_sets.txt");
const SETS: &str = include_str!("redis_support/sets.txt");
const STREAMS: &str = include_str!("redis_support/streams.txt");
const CJSON: &str = include_str!("redis_support/cjson.txt");
const WORDS: &str = include_str!("redis_support/words.txt");
const KEYS: &str = include_str!("redis_support/keys.txt");
const SORTING: &str = include_str!("redis_support/sorting.txt");
const BITS: &str = include_str!("redis_support/bits.txt");
const LIBRARIES: &str = include_str!("redis_support/libraries.txt");
const BREADTH: &str = include_str!("redis_support/breadth.txt");
const STATISTICS: &str = include_str!("redis_support/statistics.txt");
const FLAGS: &str = include_str!("redis_support/flags.txt");
const MEMORY: &str = include_str!("redis_support/memory.txt");

/// Waits until `count` clients wait inside commands.
async fn until_blocked(port: u16, count: &str) {
    let mut client = Client::connect(port).await;
    let wanted = format!("blocked_clients:{}\r\n", count.trim());
    until("blocked clients", async || {
        let reply = client.line("INFO clients").await;
        String::from_utf8_lossy(reply.text()?).contains(&wanted).then_some(())
    })
    .await;
}

/// What came back for each line.
async fn transcript(port: u16, script: &str, protocol: &str) -> Vec<(String, String)> {
    let mut clients: BTreeMap<String, (Client, String)> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in script.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(milliseconds) = line.strip_prefix("!sleep ") {
            tokio::time::sleep(Duration::from_millis(milliseconds.parse().unwrap())).await;
            continue;
        }
        if line == "!counted" {
            lines.push((line.to_owned(), counted(port).await.join("\n       ")));
            continue;
        }
        if let Some(count) = line.strip_prefix("!blocked ") {
            until_blocked(port, count).await;
            continue;
        }
        let numbered = line.strip_prefix('@').and_then(|line| line.split_once(' '));
        let (number, command) = numbered.unwrap_or(("1", line));
        if !clients.contains_key(number) {
            let mut client = Client::connect(port).await;
            client.line(&format!("HELLO {protocol}")).await;
            if clients.is_empty() {
                client.line("FLUSHALL").await;
                client.line("SCRIPT FLUSH").await;
                client.line("CONFIG SET notify-keyspace-events \"\"").await;
                client.line("CONFIG RESETSTAT").await;
            }
            let id = client.line("CLIENT ID").await;
            let Reply::Integer(id) = id else { panic!("{id:?}") };
            client.take_raw();
            clients.insert(number.to_owned(), (client, id.to_string()));
        }
        let mut command = command.to_owned();
        for (number, (_, id)) in &clients {
            command = command.replace(&format!("{{id:{number}}}"), id);
        }
        let client = &mut clients.get_mut(number).unwrap().0;
        lines.push((line.to_owned(), step(client, &command).await));
    }
    lines.push(("counted at the end".to_owned(), counted(port).await.join("\n       ")));
    lines
}

/// One line of a script on its connection.
async fn step(client: &mut Client, command: &str) -> String {
    if let Some(command) = command.strip_prefix("!send ") {
        client.send(&words(command).iter().map(Vec::as_slice).collect::<Vec<_>>()).await;
        return String::new();
    }
    if let Some(count) = command.strip_prefix("!read ") {
        for _ in 0..count.parse::<usize>().unwrap() {
            assert!(client.reply().await.is_some(), "closed");
        }
    } else if command == "!quiet" {
        return format!("quiet {}", client.is_quiet().await);
    } else if command == "!closed" {
        return format!("closed {}", client.reply().await.is_none());
    } else if let Some(command) = command.strip_prefix('~') {
        let reply = client.line(command).await;
        client.take_raw();
        return in_any_order(&reply);
    } else {
        client.line(command).await;
    }
    client.take_raw().escape_ascii().to_string()
}

fn compare(script: &'static str) {
    on_tokio(async {
        let Some(real) = Real::start(&[]).await else { return };
        let ours = Ours::start().await;
        for protocol in ["2", "3"] {
            let (expected, found) = (
                transcript(real.port, script, protocol).await,
                transcript(ours.port, script, protocol).await,
            );
            let differences: Vec<String> = expected
                .iter()
                .zip(&found)
                .enumerate()
                .filter(|(_, (expected, found))| expected != found)
                .map(|(index, (expected, found))| {
                    format!("{index}: {}\n  real {}\n  ours {}", expected.0, expected.1, found.1)
                })
                .collect();
            assert!(
                differences.is_empty(),
                "RESP{protocol}: {} of {} replies differ:\n{}",
                differences.len(),
                expected.len(),
                differences.join("\n")
            );
            assert!(expected.len() > 20, "the script was read");
        }
    });
}

#[test]
fn strings() {
    compare(STRINGS);
}

#[test]
fn expiry() {
    compare(EXPIRY);
}

#[test]
fn session() {
    compare(SESSION);
}

#[test]
fn scripts() {
    compare(SCRIPTS);
}

#[test]
fn transactions() {
    compare(TRANSACTIONS);
}

#[test]
fn watching() {
    compare(WATCHING);
}

#[test]
fn pubsub() {
    compare(PUBSUB);
}

#[test]
fn keyspace_events() {
    compare(EVENTS);
}

#[test]
fn lists() {
    compare(LISTS);
}

#[test]
fn blocking() {
    compare(BLOCKING);
}

#[test]
fn sorted_sets() {
    compare(SORTED_SETS);
}

#[test]
fn sets() {
    compare(SETS);
}

#[test]
fn streams() {
    compare(STREAMS);
}

/// Wherever Redis reads a C string.
#[test]
fn texts_with_a_nul() {
    compare(WORDS);
}

#[test]
fn cjson() {
    compare(CJSON);
}

#[test]
fn sorting() {
    compare(SORTING);
}

#[test]
fn bits() {
    compare(BITS);
}

#[test]
fn libraries_of_scripts() {
    compare(LIBRARIES);
}

#[test]
fn breadth() {
    compare(BREADTH);
}

#[test]
fn keys_of_any_type() {
    compare(KEYS);
}

#[test]
fn scripts_that_say_what_they_do() {
    compare(FLAGS);
}

#[test]
fn memory() {
    compare(MEMORY);
}

#[test]
fn statistics() {
    compare(STATISTICS);
}

#[test]
fn what_is_counted_is_told_when_it_is_asked_for() {
    on_tokio(async {
        let Some(real) = Real::start(&[]).await else { return };
        let ours = Ours::start().await;
        for sections in
            ["", "default", "ALL", "everything", "commandstats errorstats", "default commandstats"]
        {
            let mut told = Vec::new();
            for port in [real.port, ours.port] {
                let reply = Client::connect(port).await.line(&format!("INFO {sections}")).await;
                let text = String::from_utf8_lossy(reply.text().unwrap()).into_owned();
                let titles = text.lines().filter(|line| line.starts_with('#'));
                let titles =
                    titles.filter(|title| title.ends_with("stats") && *title != "# Latencystats");
                told.push(titles.map(str::to_owned).collect::<Vec<_>>());
            }
            assert_eq!(told[0], told[1], "INFO {sections}");
        }
    });
}

/// Bytes to a fresh connection, and what comes back until it is closed or quiet.
async fn exchange(port: u16, bytes: &[u8], quiet: Duration) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match tokio::time::timeout(quiet, stream.read(&mut buffer)).await {
            Err(_) => return answer.escape_ascii().to_string(),
            Ok(Ok(count)) if count > 0 => answer.extend_from_slice(&buffer[..count]),
            Ok(_) => return format!("{}<closed>", answer.escape_ascii()),
        }
    }
}

#[test]
fn malformed_bytes() {
    on_tokio(async {
        let Some(real) = Real::start(&[]).await else { return };
        let ours = Ours::start().await;
        let long = "a".repeat(70_000);
        let cases: Vec<Vec<u8>> = vec![
            b"PING\r\n".to_vec(),
            b"PING\nPING\r\n\r\n  \r\nPING x\r\n".to_vec(),
            b"ECHO \"a\\x41\\n\\t\\\"\"\r\nECHO 'a\\'b\\n'\r\n".to_vec(),
            b"ECHO \"a\"b\r\n".to_vec(),
            b"ECHO \"a\r\n".to_vec(),
            b"ECHO 'a\r\n".to_vec(),
            b"ECHO a\0b\r\nPING\r\n".to_vec(),
            b"*1\r\n$4\r\nPING\r\n*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n".to_vec(),
            b"*1\r\n$4\r\nPINGxy*1\r\n$4\r\nPING\r\n".to_vec(),
            b"*x\r\n".to_vec(),
            b"*\r\n".to_vec(),
            b"*2147483648\r\n".to_vec(),
            b"*-2147483649\r\nPING\r\n".to_vec(),
            b"*01\r\n".to_vec(),
            b"*1\r\n:1\r\n".to_vec(),
            b"*1\r\n\r\n".to_vec(),
            b"*1\r\n\xff1\r\n".to_vec(),
            b"*1\r\n\n1\r\n".to_vec(),
            b"*1\r\nPING\r\n".to_vec(),
            b"*1\r\n$-1\r\n".to_vec(),
            b"*1\r\n$x\r\n".to_vec(),
            b"*1\r\n$536870913\r\n".to_vec(),
            b"*1\r\n$99999999999999999999\r\n".to_vec(),
            b"*2\r\n$4\r\nECHO\r\n$3\r\nab".to_vec(),
            b"*1\r\n$4\r\nPING\r\n*1\r\n+x\r\n*1\r\n$4\r\nPING\r\n".to_vec(),
            long.clone().into_bytes(),
            format!("*{long}").into_bytes(),
            format!("*1\r\n${long}").into_bytes(),
            b"nosuch\r\n".to_vec(),
            b"*1\r\n$0\r\n\r\n".to_vec(),
            b"GET\r\nQUIT\r\nPING\r\n".to_vec(),
            b"*1\r\n\x80\r\n".to_vec(),
            b"*1\r\n\xc3\xa9\r\n".to_vec(),
            b"*1\r\n\0abc\r\n".to_vec(),
            b"*1\r\n$4\0\r\nPING\r\n".to_vec(),
            b"\0\r\nPING\r\n".to_vec(),
            b"ECHO \"a\\x00b\"\r\nECHO \"\\x00\"\r\nECHO \"\\xff\\x80\"\r\n".to_vec(),
            b"\"\\x00PING\"\r\n".to_vec(),
            b"\"nosuch\\x00x\" \"a\\x00b\" c\r\n".to_vec(),
            b"*2\r\n$6\r\nnosuch\r\n$3\r\na\0b\r\n".to_vec(),
            b"*3\r\n$3\r\na\0b\r\n$3\r\na\0b\r\n$1\r\nc\r\n".to_vec(),
            b"*2\r\n$6\r\nCLIENT\r\n$3\r\na\0b\r\n".to_vec(),
            b"*4\r\n$6\r\nEXPIRE\r\n$1\r\nk\r\n$1\r\n1\r\n$3\r\na\0b\r\n".to_vec(),
            b"nosuch\xff\xfe a\xffb\r\n".to_vec(),
            b"*1\r\n$3\r\n\xff\xfe\r\r\n".to_vec(),
            b"CLIENT nosuch\xff\r\n".to_vec(),
            b"ECHO a\"b\"\r\nECHO 'a\\x41'\r\nECHO \"a\\xZZ\"\r\nECHO \"\\x4\"\r\n".to_vec(),
            b"ECHO \"a\\\r\n".to_vec(),
            b"ECHO '' \"\"\r\n".to_vec(),
            b"*1\r\n$ 4\r\nPING\r\n".to_vec(),
            b"*+1\r\n$4\r\nPING\r\n".to_vec(),
            b"*1 \r\n$4\r\nPING\r\n".to_vec(),
            b"*1\n$4\nPING\n".to_vec(),
            b"*1\r$4\rPING\r".to_vec(),
            b"*1\r\r$4\r\nPING\r\n".to_vec(),
            b"*1\r\n$-0\r\n\r\n".to_vec(),
            b"*9223372036854775808\r\n".to_vec(),
            b"*1048577\r\nPING\r\n".to_vec(),
            b"*2147483647\r\n$4\r\nPING\r\n".to_vec(),
            b"POST / HTTP/1.1\r\nPING\r\n".to_vec(),
            b"GET / HTTP/1.1\r\nHost: x\r\nPING\r\n".to_vec(),
            b"PING\r\nhost: x\r\nPING\r\n".to_vec(),
            b"MULTI\r\nPOST x\r\nPING\r\n".to_vec(),
        ];
        for bytes in cases {
            let mut quiet = Duration::from_millis(150);
            let (mut expected, mut found) = (String::new(), "-".to_owned());
            // On a busy machine an answer may take longer: a difference must last.
            while expected != found && quiet < Duration::from_secs(10) {
                expected = exchange(real.port, &bytes, quiet).await;
                found = exchange(ours.port, &bytes, quiet).await;
                quiet *= 8;
            }
            let shown = bytes[..bytes.len().min(60)].escape_ascii().to_string();
            assert_eq!(found, expected, "to {shown}");
        }
    });
}

/// What a master sends to its replicas for these commands, after the data set.
async fn stream_of(port: u16, script: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut client = Client::connect(port).await;
    client.line("FLUSHALL").await;
    client.line("SCRIPT FLUSH").await;
    let mut replica = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    replica.write_all(b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n").await.unwrap();
    let mut bytes = Vec::new();
    // +FULLRESYNC …\r\n$length\r\n<file>
    let ends = loop {
        replica.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let Some((line, rest)) = text.split_once("\r\n$") else { continue };
        let Some((length, _)) = rest.split_once("\r\n") else { continue };
        let head = line.len() + 3 + length.len() + 2;
        break head + length.parse::<usize>().unwrap();
    };
    while bytes.len() < ends {
        replica.read_buf(&mut bytes).await.unwrap();
    }
    // The replica counts as one only once it has acknowledged.
    replica.write_all(b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("!sleep ") {
            Some(milliseconds) => {
                tokio::time::sleep(Duration::from_millis(milliseconds.parse().unwrap())).await;
            }
            None => {
                client.line(line).await;
            }
        }
    }
    client.line("SET the-end x").await;
    while !bytes.windows(7).any(|window| window == b"the-end") {
        replica.read_buf(&mut bytes).await.unwrap();
    }
    bytes[ends..].escape_ascii().to_string().replace("\\r\\n", "\n")
}

#[test]
fn replication_streams() {
    const SCRIPT: &str = r#"
        SET a 1
        SET a 2 PXAT 4000000000000
        SET a 2 EXAT 4000000000
        SET a 3 NX
        SET b 3 NX GET
        SET b 4 KEEPTTL GET
        SET b 5 XX PXAT 4000000000000 GET
        INCR a
        INCRBY a 10
        APPEND a x
        GETDEL a
        GETDEL a
        SETNX n 1
        SETNX n 2
        DEL nobody
        DEL n
        SET u 1
        UNLINK u u2
        MSET m 1 n 2
        PEXPIREAT m 4000000000000
        EXPIREAT n 4000000000 GT
        EXPIREAT n 4000000000
        EXPIREAT n 4000000001 XX GT
        PEXPIREAT n 4000000000000 LT
        PERSIST n
        PERSIST n
        EXPIREAT n 4000000000 NX
        EXPIREAT n 1
        SELECT 3
        SET in3 x
        SELECT 0
        SET in0 x
        MULTI
        SET t1 1
        GET t1
        EXEC
        MULTI
        SET t1 1
        SELECT 5
        SET t2 1
        EXEC
        SELECT 0
        EVAL "return redis.call('get','x')" 0
        EVAL "return redis.call('set',KEYS[1],ARGV[1],'PXAT','4000000000000')" 1 lock me
        EVAL "redis.call('set','s1','a') redis.call('del','s1','s2') redis.call('incr','s3')" 0
        EVAL "redis.call('set','kept','a') redis.call('nosuch')" 0
        EVAL "redis.set_repl(redis.REPL_NONE) redis.call('set','unseen','a')" 0
        PSETEX gone 1000000 v
        GETSET g 1
        HSET h f v g w
        HSET h f v
        HSETNX h f x
        HSETNX h n 1
        HINCRBY h n 5
        HDEL h nosuch
        HDEL h f nosuch
        HMSET h a b
        SET h string NX
        HDEL h g n a
        HSET h f v
        EVAL "redis.call('hset',KEYS[1],'x','1') redis.call('hincrby',KEYS[1],'x','1') redis.call('pexpireat',KEYS[1],'4000000000000')" 1 h
        SET h string
        RPUSH l a b c
        LPUSHX nobody a
        LPOP l
        LPOP l 0
        RPOP nobody
        LREM l 0 nobody
        LTRIM l 0 -1
        LTRIM l 0 0
        LSET l 0 x
        LMOVE l l2 LEFT RIGHT
        RPUSH l a b c
        BLPOP l 0
        BLMPOP 0 1 l LEFT COUNT 5
        RPUSH l a
        BLMOVE l l2 LEFT LEFT 0
        BRPOPLPUSH l2 l2 0
        LMPOP 1 l2 RIGHT COUNT 5
        ZADD z 1 a 2 b 3 c 4 d
        ZADD z 1 a
        ZADD z XX 9 nobody
        ZINCRBY z 1 a
        ZINCRBY z 0 a
        ZPOPMIN z
        BZPOPMAX z 0
        ZMPOP 1 z MIN COUNT 1
        ZREM z nobody
        ZRANGESTORE z2 z 0 -1
        ZRANGESTORE z3 nobody 0 -1
        ZREMRANGEBYRANK z 0 -1
        SADD s 1 2 3
        SADD s 1
        SREM s 9
        SMOVE s s2 1
        SMOVE s s2 9
        SPOP s2
        SADD one m
        SPOP one 5
        SADD one m
        SPOP one 1
        SINTERSTORE d s s
        SINTERSTORE d s nobody
        SINTERSTORE d s nobody
        INCRBYFLOAT f 1.5
        HINCRBYFLOAT h2 f 1.5
        GETEX f PXAT 4000000000000
        GETEX f PERSIST
        GETEX f PERSIST
        GETEX f EXAT 1
        SETRANGE sr 3 x
        SETRANGE sr 3 ""
        RENAME sr sr2
        RENAMENX sr2 sr3
        RENAMENX sr3 sr3
        COPY sr3 sr4
        COPY sr3 sr4
        PUBLISH ch message
        SPUBLISH ch message
        MULTI
        PUBLISH ch inside
        SET inside 1
        EXEC
        EVAL "redis.call('publish','ch','x') redis.call('rpush','l','1') return redis.call('lpop','l')" 0
        XADD st 1-1 f v
        XADD st 2-* f v
        XADD st MAXLEN ~ 1 3-1 f v
        XADD st MAXLEN = 2 4-1 f v
        XADD nost NOMKSTREAM 1-1 f v
        XTRIM st MAXLEN 5
        XTRIM st MAXLEN 1
        XDEL st 9-9
        XGROUP CREATE st g 0
        XGROUP CREATECONSUMER st g c
        XGROUP CREATECONSUMER st g c
        XREADGROUP GROUP g d NOACK STREAMS st >
        XGROUP SETID st g 0
        XACK st g 4-1
        XGROUP DELCONSUMER st g nobody
        XDEL st 4-1
        XSETID st 9-1
        XGROUP DESTROY st g
        XGROUP DESTROY st g
        FLUSHDB
        FLUSHALL
    "#;
    on_tokio(async {
        let Some(real) = Real::start(&[]).await else { return };
        let ours = Ours::start().await;
        // Absolute times from relative ones differ from run to run.
        let masked = |text: String| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            for index in 1..lines.len() {
                if lines[index - 1] == "$13" && lines[index] != "4000000000000" {
                    lines[index] = "TIME".to_owned();
                }
            }
            lines.join("\n")
        };
        let expected = masked(stream_of(real.port, SCRIPT).await);
        let found = masked(stream_of(ours.port, SCRIPT).await);
        assert_eq!(found, expected);
    });
}
