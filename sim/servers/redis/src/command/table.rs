//! Which commands there are: their names, how many arguments they take, what is to be known of
//! them before they run, and the functions that run them.
//!
//! Order of things: the flags, [`Command`], the table, the commands of two words, [`find`].

use super::super::statistics::Place;
use super::*;

/// Changes keys: refused on replicas.
pub(super) const WRITE: u16 = 1;
/// Not to be called by scripts.
pub(super) const NO_SCRIPT: u16 = 2;
/// Runs at once inside `MULTI`.
pub(super) const NO_QUEUE: u16 = 4;
/// May need memory: refused when there is none.
pub(super) const DENY_OOM: u16 = 8;
/// Not a write, and yet sent to the replicas: not for scripts that only read.
pub(super) const MAY_REPLICATE: u16 = 16;
/// Taken from a subscriber of RESP2, which has no other way to tell replies from messages.
pub(super) const OF_SUBSCRIBER: u16 = 32;
/// Not to be queued by `MULTI`.
pub(super) const NO_MULTI: u16 = 64;
/// Taken while a script runs for too long.
pub(super) const WHILE_BUSY: u16 = 128;
/// Taken from a replica that has lost its master and is not to answer with what is old.
pub(super) const WHILE_STALE: u16 = 256;
/// Said in two words: each second word is a command of its own.
pub(super) const TWO_WORDS: u16 = 512;
/// Runs a script, which may say itself what it does.
pub(super) const SCRIPT: u16 = 1_024;

pub(in super::super) struct Command {
    pub(in super::super) name: &'static str,
    /// Arguments with the name; negative: at least so many.
    pub(super) arity: i16,
    pub(super) flags: u16,
    pub(super) run: fn(&mut Call<'_>) -> Outcome,
    /// Which of the table it is.
    index: u16,
}

impl Command {
    pub(super) fn accepts(&self, count: usize) -> bool {
        accepts(self.arity, count)
    }
}

fn accepts(arity: i16, count: usize) -> bool {
    let bound = usize::from(arity.unsigned_abs());
    if arity < 0 { count >= bound } else { count == bound }
}

macro_rules! commands {
    ($($name:literal $arity:literal $flags:expr, $run:path;)*) => {
        &numbered([$(Command { name: $name, arity: $arity, flags: $flags, run: $run, index: 0 }),*])
    };
}

const fn numbered<const COUNT: usize>(mut commands: [Command; COUNT]) -> [Command; COUNT] {
    let mut index = 0;
    while index < COUNT {
        commands[index].index = index as u16;
        index += 1;
    }
    commands
}

/// All commands by name.
pub(super) static COMMANDS: &[Command] = commands! {
    "append" 3 WRITE | DENY_OOM, string::append;
    "auth" -2 NO_SCRIPT | WHILE_BUSY | WHILE_STALE, connection::auth;
    "bgrewriteaof" 1 NO_SCRIPT, persistence::bgrewriteaof;
    "bgsave" -1 NO_SCRIPT, persistence::bgsave;
    "bitcount" -2 0, bitmap::bitcount;
    "bitfield" -2 WRITE | DENY_OOM, bitfield::bitfield;
    "bitfield_ro" -2 0, bitfield::bitfield_ro;
    "bitop" -4 WRITE | DENY_OOM, bitmap::bitop;
    "bitpos" -3 0, bitmap::bitpos;
    "blmove" 6 WRITE | DENY_OOM | NO_SCRIPT, list_pop::blmove;
    "blmpop" -5 WRITE, list_pop::blmpop;
    "blpop" -3 WRITE | NO_SCRIPT, list_pop::blpop;
    "brpop" -3 WRITE | NO_SCRIPT, list_pop::brpop;
    "brpoplpush" 4 WRITE | DENY_OOM | NO_SCRIPT, list_pop::brpoplpush;
    "bzmpop" -5 WRITE, sorted_set::bzmpop;
    "bzpopmax" -3 WRITE | NO_SCRIPT, sorted_set::bzpopmax;
    "bzpopmin" -3 WRITE | NO_SCRIPT, sorted_set::bzpopmin;
    "client" -2 NO_SCRIPT | WHILE_STALE | TWO_WORDS, connection::client;
    "cluster" -2 NO_SCRIPT | TWO_WORDS, server::cluster;
    "command" -1 WHILE_STALE | TWO_WORDS, server::command;
    "config" -2 NO_SCRIPT | WHILE_STALE | TWO_WORDS, server::config;
    "copy" -3 WRITE | DENY_OOM, keys_more::copy;
    "dbsize" 1 0, keys::dbsize;
    "debug" -2 NO_SCRIPT | WHILE_STALE, debug::debug;
    "decr" 2 WRITE | DENY_OOM, string::decr;
    "decrby" 3 WRITE | DENY_OOM, string::decrby;
    "del" -2 WRITE, keys::del;
    "discard" 1 NO_SCRIPT | NO_QUEUE | WHILE_BUSY | WHILE_STALE, transaction::discard;
    "dump" 2 0, dump::dump;
    "echo" 2 WHILE_STALE, connection::echo;
    "eval" -3 NO_SCRIPT | WHILE_STALE | SCRIPT, scripting::eval;
    "eval_ro" -3 NO_SCRIPT | WHILE_STALE | SCRIPT, scripting::eval_ro;
    "evalsha" -3 NO_SCRIPT | WHILE_STALE | SCRIPT, scripting::evalsha;
    "evalsha_ro" -3 NO_SCRIPT | WHILE_STALE | SCRIPT, scripting::evalsha_ro;
    "exec" 1 NO_SCRIPT | NO_QUEUE | WHILE_STALE, transaction::exec;
    "exists" -2 0, keys::exists;
    "expire" -3 WRITE, expiry::expire;
    "expireat" -3 WRITE, expiry::expireat;
    "expiretime" 2 0, expiry::expiretime;
    "fcall" -3 NO_SCRIPT | WHILE_STALE | SCRIPT, functions::fcall;
    "fcall_ro" -3 NO_SCRIPT | WHILE_STALE | SCRIPT, functions::fcall_ro;
    "flushall" -1 WRITE, keys::flushall;
    "flushdb" -1 WRITE, keys::flushdb;
    "function" -2 NO_SCRIPT | WHILE_BUSY | WHILE_STALE | TWO_WORDS, functions::function;
    "get" 2 0, string::get;
    "getbit" 3 0, bitmap::getbit;
    "getdel" 2 WRITE, string::getdel;
    "getex" -2 WRITE, string_more::getex;
    "getrange" 4 0, string_more::getrange;
    "getset" 3 WRITE | DENY_OOM, string::getset;
    "hdel" -3 WRITE, hash::hdel;
    "hello" -1 NO_SCRIPT | WHILE_BUSY | WHILE_STALE, connection::hello;
    "hexists" 3 0, hash::hexists;
    "hget" 3 0, hash::hget;
    "hgetall" 2 0, hash::hgetall;
    "hincrby" 4 WRITE | DENY_OOM, hash::hincrby;
    "hincrbyfloat" 4 WRITE | DENY_OOM, hash::hincrbyfloat;
    "hkeys" 2 0, hash::hkeys;
    "hlen" 2 0, hash::hlen;
    "hmget" -3 0, hash::hmget;
    "hmset" -4 WRITE | DENY_OOM, hash::hmset;
    "host:" -1 NO_SCRIPT | NO_QUEUE, connection::not_redis;
    "hrandfield" -2 0, scan::hrandfield;
    "hscan" -3 0, scan::hscan;
    "hset" -4 WRITE | DENY_OOM, hash::hset;
    "hsetnx" 4 WRITE | DENY_OOM, hash::hsetnx;
    "hstrlen" 3 0, hash::hstrlen;
    "hvals" 2 0, hash::hvals;
    "incr" 2 WRITE | DENY_OOM, string::incr;
    "incrby" 3 WRITE | DENY_OOM, string::incrby;
    "incrbyfloat" 3 WRITE | DENY_OOM, string_more::incrbyfloat;
    "info" -1 WHILE_STALE, server::info;
    "keys" 2 0, keys::keys;
    "lastsave" 1 WHILE_STALE, persistence::lastsave;
    "lindex" 3 0, list::lindex;
    "linsert" 5 WRITE | DENY_OOM, list::linsert;
    "llen" 2 0, list::llen;
    "lmove" 5 WRITE | DENY_OOM, list_pop::lmove;
    "lmpop" -4 WRITE, list_pop::lmpop;
    "lpop" -2 WRITE, list_pop::lpop;
    "lpos" -3 0, list::lpos;
    "lpush" -3 WRITE | DENY_OOM, list::lpush;
    "lpushx" -3 WRITE | DENY_OOM, list::lpushx;
    "lrange" 4 0, list::lrange;
    "lrem" 4 WRITE, list::lrem;
    "lset" 4 WRITE | DENY_OOM, list::lset;
    "ltrim" 4 WRITE, list::ltrim;
    "mget" -2 0, string::mget;
    "move" 3 WRITE, databases::move_;
    "mset" -3 WRITE | DENY_OOM, string::mset;
    "msetnx" -3 WRITE | DENY_OOM, string::msetnx;
    "multi" 1 NO_SCRIPT | NO_QUEUE | WHILE_BUSY | WHILE_STALE, transaction::multi;
    "object" -2 TWO_WORDS, keys_more::object;
    "persist" 2 WRITE, expiry::persist;
    "pexpire" -3 WRITE, expiry::pexpire;
    "pexpireat" -3 WRITE, expiry::pexpireat;
    "pexpiretime" 2 0, expiry::pexpiretime;
    "ping" -1 OF_SUBSCRIBER, connection::ping;
    "post" -1 NO_SCRIPT | NO_QUEUE, connection::not_redis;
    "psetex" 4 WRITE | DENY_OOM, string::psetex;
    "psubscribe" -2 NO_SCRIPT | OF_SUBSCRIBER | WHILE_STALE, pubsub::psubscribe;
    "psync" -3 NO_SCRIPT | NO_MULTI, replication::psync;
    "pttl" 2 0, expiry::pttl;
    "publish" 3 MAY_REPLICATE | WHILE_STALE, pubsub::publish;
    "pubsub" -2 WHILE_STALE | TWO_WORDS, pubsub::pubsub;
    "punsubscribe" -1 NO_SCRIPT | OF_SUBSCRIBER | WHILE_STALE, pubsub::punsubscribe;
    "quit" -1 NO_SCRIPT | NO_QUEUE | OF_SUBSCRIBER | WHILE_BUSY | WHILE_STALE, connection::quit;
    "randomkey" 1 0, keys_more::randomkey;
    "rename" 3 WRITE, keys_more::rename;
    "renamenx" 3 WRITE, keys_more::renamenx;
    "replconf" -1 NO_SCRIPT | WHILE_BUSY | WHILE_STALE, replication::replconf;
    "replicaof" 3 NO_SCRIPT | WHILE_STALE, replication::replicaof;
    "reset" 1 NO_SCRIPT | NO_QUEUE | OF_SUBSCRIBER | WHILE_BUSY | WHILE_STALE, connection::reset;
    "restore" -4 WRITE | DENY_OOM, dump::restore;
    "role" 1 NO_SCRIPT | WHILE_STALE, replication::role;
    "rpop" -2 WRITE, list_pop::rpop;
    "rpoplpush" 3 WRITE | DENY_OOM, list_pop::rpoplpush;
    "rpush" -3 WRITE | DENY_OOM, list::rpush;
    "rpushx" -3 WRITE | DENY_OOM, list::rpushx;
    "sadd" -3 WRITE | DENY_OOM, set::sadd;
    "save" 1 NO_SCRIPT | NO_MULTI, persistence::save;
    "scan" -2 0, scan::scan;
    "scard" 2 0, set::scard;
    "script" -2 NO_SCRIPT | WHILE_BUSY | WHILE_STALE | TWO_WORDS, scripting::script;
    "sdiff" -2 0, set::sdiff;
    "sdiffstore" -3 WRITE | DENY_OOM, set::sdiffstore;
    "select" 2 WHILE_STALE, connection::select;
    "set" -3 WRITE | DENY_OOM, string::set;
    "setbit" 4 WRITE | DENY_OOM, bitmap::setbit;
    "setex" 4 WRITE | DENY_OOM, string::setex;
    "setnx" 3 WRITE | DENY_OOM, string::setnx;
    "setrange" 4 WRITE | DENY_OOM, string_more::setrange;
    "shutdown" -1 NO_SCRIPT | NO_MULTI | WHILE_BUSY | WHILE_STALE, persistence::shutdown;
    "sinter" -2 0, set::sinter;
    "sintercard" -3 0, set::sintercard;
    "sinterstore" -3 WRITE | DENY_OOM, set::sinterstore;
    "sismember" 3 0, set::sismember;
    "slaveof" 3 NO_SCRIPT | WHILE_STALE, replication::replicaof;
    "smembers" 2 0, set::smembers;
    "smismember" -3 0, set::smismember;
    "smove" 4 WRITE, set::smove;
    "sort" -2 WRITE | DENY_OOM, sort::sort;
    "sort_ro" -2 0, sort::sort_ro;
    "spop" -2 WRITE, set::spop;
    "spublish" 3 MAY_REPLICATE | WHILE_STALE, pubsub::spublish;
    "srandmember" -2 0, set::srandmember;
    "srem" -3 WRITE, set::srem;
    "sscan" -3 0, scan::sscan;
    "ssubscribe" -2 NO_SCRIPT | OF_SUBSCRIBER | WHILE_STALE, pubsub::ssubscribe;
    "strlen" 2 0, string::strlen;
    "subscribe" -2 NO_SCRIPT | OF_SUBSCRIBER | WHILE_STALE, pubsub::subscribe;
    "substr" 4 0, string_more::getrange;
    "sunion" -2 0, set::sunion;
    "sunionstore" -3 WRITE | DENY_OOM, set::sunionstore;
    "sunsubscribe" -1 NO_SCRIPT | OF_SUBSCRIBER | WHILE_STALE, pubsub::sunsubscribe;
    "swapdb" 3 WRITE, databases::swapdb;
    "sync" 1 NO_SCRIPT | NO_MULTI, replication::sync;
    "time" 1 WHILE_STALE, server::time;
    "touch" -2 0, keys_more::touch;
    "ttl" 2 0, expiry::ttl;
    "type" 2 0, keys::type_;
    "unlink" -2 WRITE, keys::del;
    "unsubscribe" -1 NO_SCRIPT | OF_SUBSCRIBER | WHILE_STALE, pubsub::unsubscribe;
    "unwatch" 1 NO_SCRIPT | WHILE_BUSY | WHILE_STALE, transaction::unwatch;
    "wait" 3 NO_SCRIPT, replication::wait;
    "watch" -2 NO_SCRIPT | NO_QUEUE | WHILE_BUSY | WHILE_STALE, transaction::watch;
    "xack" -4 WRITE, stream_group::xack;
    "xadd" -5 WRITE | DENY_OOM, stream::xadd;
    "xautoclaim" -6 WRITE, stream_group::xautoclaim;
    "xclaim" -6 WRITE, stream_group::xclaim;
    "xdel" -3 WRITE, stream::xdel;
    "xgroup" -2 WRITE | TWO_WORDS, stream_group::xgroup;
    "xinfo" -2 TWO_WORDS, stream_info::xinfo;
    "xlen" 2 0, stream::xlen;
    "xpending" -3 0, stream_group::xpending;
    "xrange" -4 0, stream::xrange;
    "xread" -4 0, stream_read::xread;
    "xreadgroup" -7 WRITE, stream_read::xreadgroup;
    "xrevrange" -4 0, stream::xrevrange;
    "xsetid" -3 WRITE | DENY_OOM, stream::xsetid;
    "xtrim" -4 WRITE, stream::xtrim;
    "zadd" -4 WRITE | DENY_OOM, sorted_set::zadd;
    "zcard" 2 0, sorted_set::zcard;
    "zcount" 4 0, sorted_set_range::zcount;
    "zdiff" -3 0, sorted_set_algebra::zdiff;
    "zdiffstore" -4 WRITE | DENY_OOM, sorted_set_algebra::zdiffstore;
    "zincrby" 4 WRITE | DENY_OOM, sorted_set::zincrby;
    "zinter" -3 0, sorted_set_algebra::zinter;
    "zintercard" -3 0, sorted_set_algebra::zintercard;
    "zinterstore" -4 WRITE | DENY_OOM, sorted_set_algebra::zinterstore;
    "zlexcount" 4 0, sorted_set_range::zlexcount;
    "zmpop" -4 WRITE, sorted_set::zmpop;
    "zmscore" -3 0, sorted_set::zmscore;
    "zpopmax" -2 WRITE, sorted_set::zpopmax;
    "zpopmin" -2 WRITE, sorted_set::zpopmin;
    "zrandmember" -2 0, sorted_set::zrandmember;
    "zrange" -4 0, sorted_set_range::zrange;
    "zrangebylex" -4 0, sorted_set_range::zrangebylex;
    "zrangebyscore" -4 0, sorted_set_range::zrangebyscore;
    "zrangestore" -5 WRITE | DENY_OOM, sorted_set_range::zrangestore;
    "zrank" 3 0, sorted_set::zrank;
    "zrem" -3 WRITE, sorted_set::zrem;
    "zremrangebylex" 4 WRITE, sorted_set_range::zremrangebylex;
    "zremrangebyrank" 4 WRITE, sorted_set_range::zremrangebyrank;
    "zremrangebyscore" 4 WRITE, sorted_set_range::zremrangebyscore;
    "zrevrange" -4 0, sorted_set_range::zrevrange;
    "zrevrangebylex" -4 0, sorted_set_range::zrevrangebylex;
    "zrevrangebyscore" -4 0, sorted_set_range::zrevrangebyscore;
    "zrevrank" 3 0, sorted_set::zrevrank;
    "zscan" -3 0, scan::zscan;
    "zscore" 3 0, sorted_set::zscore;
    "zunion" -3 0, sorted_set_algebra::zunion;
    "zunionstore" -4 WRITE | DENY_OOM, sorted_set_algebra::zunionstore;
};

/// Commands that are said in two words, and the second word's arity: it is looked at before
/// the command is queued.
static SUBCOMMANDS: &[(&str, &[(&str, i16)])] = &[
    (
        "client",
        &[
            ("getname", 2),
            ("id", 2),
            ("info", 2),
            ("kill", -3),
            ("list", -2),
            ("no-evict", 3),
            ("reply", 3),
            ("setname", 3),
            ("unblock", -3),
        ],
    ),
    (
        "cluster",
        &[
            ("addslots", -3),
            ("addslotsrange", -4),
            ("bumpepoch", 2),
            ("count-failure-reports", 3),
            ("countkeysinslot", 3),
            ("delslots", -3),
            ("delslotsrange", -4),
            ("failover", -2),
            ("flushslots", 2),
            ("forget", 3),
            ("getkeysinslot", 4),
            ("help", 2),
            ("info", 2),
            ("keyslot", 3),
            ("links", 2),
            ("meet", -4),
            ("myid", 2),
            ("nodes", 2),
            ("replicas", 3),
            ("replicate", 3),
            ("reset", -2),
            ("saveconfig", 2),
            ("set-config-epoch", 3),
            ("setslot", -4),
            ("shards", 2),
            ("slaves", 3),
            ("slots", 2),
        ],
    ),
    ("command", &[("count", 2), ("docs", -2), ("info", -2)]),
    ("config", &[("get", -3), ("resetstat", 2), ("rewrite", 2), ("set", -4)]),
    ("object", &[("encoding", 3), ("freq", 3), ("idletime", 3), ("refcount", 3)]),
    (
        "pubsub",
        &[
            ("channels", -2),
            ("numpat", 2),
            ("numsub", -2),
            ("shardchannels", -2),
            ("shardnumsub", -2),
        ],
    ),
    (
        "xgroup",
        &[("create", -5), ("createconsumer", 5), ("delconsumer", 5), ("destroy", 4), ("setid", -5)],
    ),
    ("xinfo", &[("consumers", 4), ("groups", 3), ("stream", -3)]),
    (
        "function",
        &[("delete", 3), ("flush", -2), ("kill", 2), ("list", -2), ("load", -3), ("stats", 2)],
    ),
    ("script", &[("exists", -3), ("flush", -2), ("kill", 2), ("load", 3)]),
];

/// How many commands are counted: those of the table, and then each one of two words.
pub(in super::super) const COUNTED: usize = {
    let mut count = COMMANDS.len();
    let mut container = 0;
    while container < SUBCOMMANDS.len() {
        count += SUBCOMMANDS[container].1.len();
        container += 1;
    }
    count
};

/// The command that is meant.
#[derive(Clone, Copy)]
pub(super) struct Named {
    pub(super) command: &'static Command,
    /// The second word, of a command of two that has it, and its arity.
    word: Option<(&'static str, i16)>,
    /// Where it is counted.
    pub(super) place: Place,
}

impl Named {
    /// Refuses so many arguments, if it does not take them.
    pub(super) fn check_arity(&self, count: usize) -> Outcome {
        let name = self.command.name;
        match self.word {
            Some((word, arity)) if !accepts(arity, count) => {
                Err(wrong_arity(&format!("{name}|{word}")))
            }
            None if !self.command.accepts(count) => Err(wrong_arity(name)),
            _ => Ok(()),
        }
    }
}

/// The command that is meant by these arguments.
///
/// # Errors
/// When there is none.
pub(super) fn named(arguments: Arguments<'_>) -> Result<Named, Failure> {
    let command = find(&arguments[0]).ok_or_else(|| unknown(arguments))?;
    let of_table = Named { command, word: None, place: Place(command.index) };
    if command.flags & TWO_WORDS == 0 {
        return Ok(of_table);
    }
    let Some(given) = arguments.get(1) else { return Ok(of_table) };
    let mut index = COMMANDS.len();
    for (container, words) in SUBCOMMANDS {
        if *container != command.name {
            index += words.len();
            continue;
        }
        let found = words.iter().position(|(word, _)| given.eq_ignore_ascii_case(word.as_bytes()));
        let Some(found) = found else { break };
        return Ok(Named { word: Some(words[found]), place: place(index + found), command });
    }
    Err(unknown_subcommand(command.name, arguments))
}

fn place(index: usize) -> Place {
    // There are some hundred.
    Place(u16::try_from(index).unwrap_or(u16::MAX))
}

/// The name of what is counted there, as `INFO` has it.
pub(super) fn name_at(Place(index): Place) -> Option<(&'static str, Option<&'static str>)> {
    let index = usize::from(index);
    if let Some(command) = COMMANDS.get(index) {
        return Some((command.name, None));
    }
    let mut words = SUBCOMMANDS
        .iter()
        .flat_map(|(container, words)| words.iter().map(|(word, _)| (*container, Some(*word))));
    words.nth(index - COMMANDS.len())
}

/// Whether there is a command of this name.
pub(in super::super) fn is_command(name: &[u8]) -> bool {
    find(name).is_some()
}

/// The command of this name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut buffer = [0u8; 16];
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let lower: &[u8] = lower;
    let letter = usize::from(lower.first()?.checked_sub(b'a')?);
    let range = usize::from(*INDEX.get(letter)?)..usize::from(*INDEX.get(letter + 1)?);
    let commands = COMMANDS.get(range)?;
    let index = commands.binary_search_by(|command| command.name.as_bytes().cmp(lower)).ok()?;
    commands.get(index)
}

/// Where the names begin that begin with each letter, and where the last of them end.
static INDEX: [u16; 27] = {
    let mut index = [0; 27];
    let mut letter = 0;
    let mut at = 0;
    while letter < 27 {
        while at < COMMANDS.len() && COMMANDS[at].name.as_bytes()[0] < b'a' + letter as u8 {
            at += 1;
        }
        index[letter] = at as u16;
        letter += 1;
    }
    index
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_found_in_any_case() {
        assert!(COMMANDS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for command in COMMANDS {
            assert_eq!(
                find(command.name.to_uppercase().as_bytes()).map(|command| command.name),
                Some(command.name)
            );
        }
        let flagged = COMMANDS.iter().filter(|command| command.flags & TWO_WORDS != 0);
        let mut containers: Vec<&str> = SUBCOMMANDS.iter().map(|(name, _)| *name).collect();
        containers.sort_unstable();
        assert_eq!(flagged.map(|command| command.name).collect::<Vec<_>>(), containers);
        assert!(find(b"").is_none());
        assert!(find(&[b'a'; 100]).is_none());
    }

    #[test]
    fn everything_that_is_counted_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            (0..COUNTED).map(|index| name_at(place(index)).unwrap()).collect();
        assert_eq!(names.len(), COUNTED);
        assert_eq!(name_at(place(COUNTED)), None);
    }
}
