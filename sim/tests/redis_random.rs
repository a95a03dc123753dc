//! Random commands to our server and to a real Redis 7.0: the same bytes back.
//!
//! Each sequence has a seed, 30 commands, and two connections that take turns. Numbers of
//! sequences by `REDIS_SEQUENCES` (default 1,500), one sequence by `REDIS_SEED`. Left out, because
//! no two servers can agree on it: relative times to the millisecond, orders of hash
//! tables, ids, addresses.

mod redis_support;

use std::fmt::Write as _;

use redis_support::{Client, Ours, Real, in_any_order, on_tokio, words};

/// SplitMix64: the same sequences on every machine.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const KEYS: &[&str] = &["a", "b", "c", "n", "\"\"", "\"\\x00\\xff\"", "{x}y"];
const FIELDS: &[&str] = &["f", "g", "h", "1", "\"\"", "\"\\xff\""];
const VALUES: &[&str] = &[
    "1",
    "-1",
    "0",
    "10",
    "x",
    "\"\"",
    "9223372036854775807",
    "-9223372036854775808",
    "01",
    " 1",
    "1.5",
    "\"a b\"",
    "\"\\xff\\x00\\r\\n\"",
    "abcdefghijklmnopqrstuvwxyz",
];
const NUMBERS: &[&str] = &[
    "1",
    "-1",
    "0",
    "2",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
    "1.0",
    "\"\"",
    "+1",
    "99999999999999999999",
];
/// Far enough that no key goes while a sequence runs, or gone already.
const TIMES: &[&str] = &["1000000", "0", "-1", "9223372036854775807", "x", "4000000000"];
const WHEN: &[&str] = &["4000000000", "4000000001", "1", "0", "-5", "9223372036854775807", "z"];
const WHEN_MS: &[&str] = &["4000000000000", "4000000000001", "1", "0", "-5", "q"];

/// Places and counts.
const PLACES: &[&str] = &["0", "1", "-1", "2", "-2", "3", "-100", "100", "x"];
/// Members of sets of integers.
const SMALL: &[&str] = &["1", "2", "3", "10", "-5"];
/// Scores.
const SCORES: &[&str] = &["1", "2", "2", "3", "-1", "1.5", "0", "inf", "-inf", "1e3", "x", "0.1"];
/// Limits of ranges of scores, and of members.
const LIMITS: &[&str] = &["1", "(1", "2", "(2", "-inf", "+inf", "0", "1.5", "3", "x", "(inf"];
const NAMES: &[&str] = &["-", "+", "[1", "(1", "[x", "(x", "[", "x"];
const FLOATS: &[&str] = &["1", "0.5", "-1.25", "3.3", "1e2", "x", "0.1", "inf"];
/// Ids of entries, and limits of their ranges.
const IDS: &[&str] = &["1-1", "2-1", "3", "5-0", "5-*", "7-7", "0", "0-0", "x", "1-2-3", "9-1"];
const ID_LIMITS: &[&str] = &["-", "+", "(1-1", "2", "5-0", "(7", "0", "x", "$"];

/// Places of bits.
const BITS: &[&str] = &["0", "1", "7", "8", "13", "100", "-1", "x", "9223372036854775807"];

/// Templates: K a key, F a field, V a value, N a number, T a relative and A an absolute time in
/// seconds, M one in milliseconds, I a place or a count, J a small integer, S a score, B a limit
/// of scores and L one of members, D a float, E an id and R a limit of ids, W the
/// place of a bit and Y a bit; options in brackets of which some are taken. `~`: in any order.
const TEMPLATES: &[&str] = &[
    "HSET K F V",
    "HSET K F V F V",
    "HSET K F V F",
    "HMSET K F V F V",
    "HGET K F",
    "HMGET K F F F",
    "HDEL K F",
    "HDEL K F F",
    "HEXISTS K F",
    "HGETALL K",
    "HGETALL K",
    "HINCRBY K F N",
    "HLEN K",
    "HKEYS K",
    "HVALS K",
    "HSETNX K F V",
    "HSTRLEN K F",
    "EVAL \"return redis.call('hgetall',KEYS[1])\" 1 K",
    "EVAL \"redis.setresp(3) return redis.call('hgetall',KEYS[1])\" 1 K",
    "EVAL \"return redis.pcall('hincrby',KEYS[1],ARGV[1],ARGV[2])\" 1 K F N",
    "LPUSH K V V",
    "RPUSH K V V V",
    "LPUSHX K V",
    "RPUSHX K V V",
    "LPOP K",
    "RPOP K N",
    "LLEN K",
    "LRANGE K I I",
    "LRANGE K 0 -1",
    "LREM K I V",
    "LINDEX K I",
    "LSET K I V",
    "LTRIM K I I",
    "LINSERT K [BEFORE|AFTER|X] V V",
    "LMOVE K K [LEFT|RIGHT] [LEFT|RIGHT]",
    "RPOPLPUSH K K",
    "LPOS K V [RANK I] [COUNT I] [MAXLEN I]",
    "LMPOP 2 K K [LEFT|RIGHT] [COUNT I]",
    "BLPOP K K 0.001",
    "BRPOP K X",
    "BLMOVE K K LEFT RIGHT 0.001",
    "BLMPOP 0.001 1 K RIGHT COUNT I",
    "SADD K V V",
    "SADD K J J J",
    "SREM K V V",
    "SREM K J",
    "~SMEMBERS K",
    "SISMEMBER K V",
    "SMISMEMBER K V J",
    "SCARD K",
    "SMOVE K K J",
    "~SINTER K K",
    "~SUNION K K K",
    "~SDIFF K K",
    "SINTERSTORE K K K",
    "SUNIONSTORE K K K",
    "SDIFFSTORE K K K",
    "SINTERCARD 2 K K [LIMIT I]",
    "~SPOP K 100",
    "~SRANDMEMBER K 100",
    "ZADD K S V",
    "ZADD K S V S V S J",
    "ZADD K [NX|XX] [GT|LT] [CH] S V S J",
    "ZADD K [NX|XX|GT|LT] INCR S V",
    "ZINCRBY K S V",
    "ZREM K V J",
    "ZSCORE K V",
    "ZMSCORE K V J V",
    "ZRANK K V",
    "ZREVRANK K J",
    "ZCARD K",
    "ZCOUNT K B B",
    "ZRANGE K I I [REV] [WITHSCORES]",
    "ZRANGE K 0 -1 WITHSCORES",
    "ZRANGE K B B BYSCORE [REV] [LIMIT I I] [WITHSCORES]",
    "ZRANGE K L L BYLEX [REV] [LIMIT I I]",
    "ZRANGEBYSCORE K B B [WITHSCORES] [LIMIT I I]",
    "ZREVRANGEBYSCORE K B B [WITHSCORES]",
    "ZREVRANGE K I I",
    "ZRANGEBYLEX K L L",
    "ZLEXCOUNT K L L",
    "ZRANGESTORE K K I I [REV]",
    "ZPOPMIN K [I]",
    "ZPOPMAX K [I]",
    "BZPOPMIN K K 0.001",
    "ZMPOP 2 K K [MIN|MAX] [COUNT I]",
    "ZREMRANGEBYSCORE K B B",
    "ZREMRANGEBYRANK K I I",
    "ZREMRANGEBYLEX K L L",
    "ZUNIONSTORE K 2 K K [WEIGHTS S S] [AGGREGATE MAX|AGGREGATE MIN]",
    "ZINTERSTORE K 2 K K [AGGREGATE SUM|WITHSCORES]",
    "ZUNION 2 K K [WITHSCORES]",
    "ZINTER 2 K K WITHSCORES",
    "ZDIFF 2 K K WITHSCORES",
    "ZDIFFSTORE K 2 K K",
    "ZINTERCARD 2 K K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K [REPLACE] [DB 1|DB 0]",
    "TOUCH K K",
    "OBJECT REFCOUNT nosuch",
    "GETEX K [PERSIST|EXAT A|PXAT M|EX T]",
    "GETRANGE K I I",
    "SETRANGE K J V",
    "INCRBYFLOAT K D",
    "HINCRBYFLOAT K F D",
    "HSCAN K 0 [COUNT I]",
    "ZSCAN K 0",
    "~SCAN 0 COUNT 100 [TYPE list|TYPE string|TYPE zset|TYPE hash]",
    "XADD K E f V g V",
    "XADD K [NOMKSTREAM] [MAXLEN I|MAXLEN = I|MINID E] E f V",
    "XLEN K",
    "XRANGE K R R [COUNT I]",
    "XREVRANGE K R R",
    "XDEL K E E",
    "XTRIM K [MAXLEN I|MINID E|MAXLEN ~ I]",
    "XREAD [COUNT I] STREAMS K K E E",
    "XREAD BLOCK 1 STREAMS K $",
    "XGROUP CREATE K group R [MKSTREAM]",
    "XGROUP CREATE K group 0 MKSTREAM",
    "XGROUP SETID K group E",
    "XGROUP DESTROY K group",
    "XGROUP CREATECONSUMER K group F",
    "XGROUP DELCONSUMER K group F",
    "XREADGROUP GROUP group F [COUNT I] [NOACK] STREAMS K >",
    "XREADGROUP GROUP group F STREAMS K E",
    "XACK K group E E",
    "XPENDING K group",
    "XCLAIM K group F 0 E E [JUSTID] [FORCE]",
    "XAUTOCLAIM K group F 0 E [COUNT I] [JUSTID]",
    "XINFO GROUPS K",
    "XSETID K E",
    "PUBLISH K V",
    "PUBSUB NUMSUB K",
    "EVAL \"return redis.pcall(ARGV[1],KEYS[1],ARGV[2],ARGV[2])\" 1 K [incrby|lpush|zadd|sadd|lrange|zrange|hset|setrange|spop|zpopmin|lrem] J",
    "GET K",
    "GET K",
    "SET K V",
    "SET K V",
    "SET K V [NX|XX] [GET] [EXAT A|PXAT M|KEEPTTL]",
    "SET K V [EX T|PX T] [NX|XX|GET]",
    "SETNX K V",
    "SETEX K T V",
    "PSETEX K T V",
    "GETSET K V",
    "GETDEL K",
    "APPEND K V",
    "STRLEN K",
    "MGET K K K",
    "MSET K V K V",
    "MSET K V K",
    "MSETNX K V K V",
    "INCR K",
    "DECR K",
    "INCRBY K N",
    "DECRBY K N",
    "DEL K",
    "DEL K K",
    "UNLINK K K",
    "EXISTS K K K",
    "TYPE K",
    "DBSIZE",
    "EXPIRE K T [NX|XX] [GT|LT]",
    "EXPIREAT K A [NX|XX|GT|LT]",
    "PEXPIREAT K M [NX|XX|GT|LT]",
    "PEXPIRE K T",
    "PERSIST K",
    "EXPIRETIME K",
    "PEXPIRETIME K",
    "SELECT 0",
    "SELECT 1",
    "SELECT N",
    "FLUSHDB",
    "FLUSHALL [ASYNC|SYNC|NOW]",
    "ECHO V",
    "PING [V]",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH K",
    "WATCH K K",
    "UNWATCH",
    "KEYS nosuch",
    "KEYS {x}*",
    "NOSUCH V V",
    "GET",
    "GET K K",
    "SET K",
    "RESET",
    "EVAL \"return redis.call('get',KEYS[1])\" 1 K",
    "EVAL \"return {redis.call('set',KEYS[1],ARGV[1]),redis.pcall('incr',KEYS[1]),ARGV[1]}\" 1 K V",
    "EVAL \"return redis.pcall(ARGV[1],KEYS[1],ARGV[2])\" 1 K [incrby|append|set|get|del|persist|expireat|nosuch|strlen] N",
    "EVAL \"if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end\" 1 K V",
    "EVAL \"redis.call('set',KEYS[1],1) return redis.call('incrby',KEYS[1],ARGV[1])\" 1 K N",
    "EVAL \"return tonumber(ARGV[1])\" 0 N",
    "EVAL \"return {1,2,{3,ARGV[1]},false,4}\" 0 V",
    "EVAL \"redis.setresp(3) return redis.call('get',KEYS[1])\" 1 K",
    "EVAL \"return 1\" N",
    "EVAL_RO \"return redis.call('set',KEYS[1],1)\" 1 K",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
    "SCRIPT EXISTS ffffffffffffffffffffffffffffffffffffffff",
    "CLIENT GETNAME",
    "CLIENT SETNAME K",
    "WAIT 0 0",
    "WAIT N N2",
    "CONFIG GET maxmemory",
    "COMMAND NOSUCH",
    "AUTH V",
    "REPLICAOF",
    "TIME V",
    "SORT K [ALPHA] [DESC] [LIMIT I I]",
    "SORT K [DESC]",
    "~SORT K BY nosort",
    "SORT K BY * [DESC] GET # GET nosuch*",
    "SORT K ALPHA [GET #] STORE K",
    "SORT_RO K [LIMIT I I] ALPHA",
    "SETBIT K W Y",
    "GETBIT K W",
    "BITCOUNT K [I I] [BIT|BYTE|X]",
    "BITCOUNT K I I BIT",
    "BITPOS K Y [I]",
    "BITPOS K Y I I [BIT|BYTE]",
    "BITOP [AND|OR|XOR|NOT] K K K",
    "BITOP NOT K K",
    "BITFIELD K GET u8 W SET i5 W N INCRBY u4 #1 J",
    "BITFIELD K [OVERFLOW SAT|OVERFLOW FAIL|OVERFLOW WRAP] INCRBY i8 W N GET u3 1",
    "BITFIELD_RO K GET [u8|i16|u64|x] W",
    "MOVE K [1|0|99|x]",
    "SWAPDB 0 1",
    "RESTORE K T V",
    "CLIENT REPLY [ON|X]",
    "EVAL \"return {cmsgpack.pack(ARGV[1], tonumber(ARGV[1])), #cmsgpack.pack({ARGV})}\" 0 N",
    "EVAL \"return {bit.band(ARGV[1], 255), bit.tohex(ARGV[1])}\" 0 N",
    "EVAL \"return struct.pack('>hI4', ARGV[1], 7)\" 0 N",
];

/// One command of a template.
fn fill(draw: &mut Draw, template: &str) -> String {
    let mut line = String::new();
    let mut rest = template;
    while let Some(open) =
        rest.find('[').filter(|_| !template.starts_with("EVAL") || rest.contains("[incrby"))
    {
        let open =
            if template.starts_with("EVAL") { rest.find("[incrby").unwrap_or(open) } else { open };
        let close = open + rest[open..].find(']').unwrap();
        line.push_str(&rest[..open]);
        let choices: Vec<&str> = rest[open + 1..close].split('|').collect();
        if template.starts_with("EVAL") || draw.below(3) > 0 {
            line.push_str(draw.of(&choices));
        }
        rest = &rest[close + 1..];
    }
    line.push_str(rest);
    let mut filled = String::new();
    // Words that stand for something; what is quoted stays.
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            let _ = write!(filled, "\"{part}\"");
            continue;
        }
        for word in part.split_inclusive(' ') {
            let (name, blank) = word.strip_suffix(' ').map_or((word, ""), |name| (name, " "));
            filled.push_str(match name {
                "K" => draw.of(KEYS),
                "I" => draw.of(PLACES),
                "J" => draw.of(SMALL),
                "S" => draw.of(SCORES),
                "B" => draw.of(LIMITS),
                "L" => draw.of(NAMES),
                "D" => draw.of(FLOATS),
                "E" => draw.of(IDS),
                "W" => draw.of(BITS),
                "Y" => draw.of(&["0", "1", "1", "2", "x"]),
                "R" => draw.of(ID_LIMITS),
                // A wait that ends at once.
                "X" => "0.001",
                "F" => draw.of(FIELDS),
                "V" => draw.of(VALUES),
                "N" => draw.of(NUMBERS),
                // A wait that ends: never for ever.
                "N2" => draw.of(&["1", "-1", "x", "2"]),
                "T" => draw.of(TIMES),
                "A" => draw.of(WHEN),
                "M" => draw.of(WHEN_MS),
                name => name,
            });
            filled.push_str(blank);
        }
    }
    filled
}

fn sequence(seed: u64) -> Vec<(usize, String)> {
    let mut draw = Draw(seed);
    let command = |draw: &mut Draw| {
        let template = draw.of(TEMPLATES);
        fill(draw, template)
    };
    (0..30).map(|_| (usize::from(draw.below(4) == 0), command(&mut draw))).collect()
}

/// The replies to a sequence, as bytes.
async fn replies(port: u16, protocol: &str, commands: &[(usize, String)]) -> Vec<String> {
    let mut clients = [Client::connect(port).await, Client::connect(port).await];
    for client in &mut clients {
        client.line(&format!("HELLO {protocol}")).await;
        client.line("FLUSHALL").await;
        client.take_raw();
    }
    let mut replies = Vec::new();
    // Whether the elements of an EXEC may be in any order, since those of a set were.
    let mut any_order = false;
    for (client, command) in commands {
        let client = &mut clients[*client];
        let (command, is_unordered) = match command.strip_prefix('~') {
            Some(command) => (command, true),
            None => (&command[..], false),
        };
        any_order |= is_unordered;
        client.send(&words(command).iter().map(Vec::as_slice).collect::<Vec<_>>()).await;
        let reply = client.reply().await;
        let Some(reply) = reply else { panic!("closed at {command}") };
        let mut text = client.take_raw().escape_ascii().to_string();
        if is_unordered || any_order && command == "EXEC" {
            text = in_any_order(&reply);
        }
        // An absolute time that was made from a relative one.
        let is_time = command.contains("EXPIRETIME") && text.len() > 10;
        let is_relative = is_time && !text.starts_with(":4000000000");
        replies.push(if is_relative { ":TIME".to_owned() } else { text });
    }
    replies
}

#[test]
fn random_sequences() {
    on_tokio(async {
        // A wait that has ended is noticed by the server's cron: ten times a second by default,
        // and most of the test's time was waiting for that.
        let Some(real) = Real::start(&["--hz", "500"]).await else { return };
        let ours = Ours::start().await;
        let number =
            |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seeds = match number("REDIS_SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..number("REDIS_SEQUENCES").unwrap_or(1_500),
        };
        let (mut compared, mut differences) = (0, Vec::new());
        for seed in seeds {
            for protocol in ["2", "3"] {
                let commands = sequence(seed);
                let expected = replies(real.port, protocol, &commands).await;
                let found = replies(ours.port, protocol, &commands).await;
                compared += expected.len();
                let different = (0..expected.len()).find(|at| expected[*at] != found[*at]);
                if let Some(at) = different {
                    let mut text = format!("seed {seed}, RESP{protocol}, command {at}:\n");
                    eprintln!(
                        "DIFF {} | real {} | ours {}",
                        commands[at].1, expected[at], found[at]
                    );
                    for (client, command) in &commands[..=at] {
                        let _ = writeln!(text, "    {client}: {command}");
                    }
                    let _ = writeln!(text, "  real {}\n  ours {}", expected[at], found[at]);
                    differences.push(text);
                }
            }
        }
        eprintln!("{compared} replies compared, {} sequences differ", differences.len());
        let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
        assert!(differences.is_empty(), "{} sequences differ:\n{shown}", differences.len());
        assert!(compared >= 30, "something was compared");
    });
}

/// What the generator reaches: every template, and every command of ours that clients
/// send in one connection's life.
#[test]
fn sequences_are_the_same_every_time() {
    assert_eq!(sequence(7), sequence(7));
    assert_ne!(sequence(7), sequence(8));
    let lines: String = (0..300).flat_map(sequence).map(|(_, line)| line + "\n").collect();
    for template in TEMPLATES {
        let name = template.split(' ').next().unwrap();
        assert!(lines.lines().any(|line| line.starts_with(name)), "{name} is never drawn");
    }
}
