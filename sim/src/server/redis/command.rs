//! Commands: which there are, what must hold before one runs, and what commands do
//! to keys.
//!
//! Order of things: the error that a command may end with, [`Call`] (a command with
//! everything it works on), the table, what is checked ([`checks`]), and [`execute`]. The commands themselves are
//! in the modules below, by what they are about.
//!
//! Changes to keys go through [`Call`]'s functions only: they observe the change at
//! the instant at which it is made, before it is appended to the replication stream
//! and before the reply is queued.

mod checks;
mod connection;
mod drawing;
mod expiry;
mod hash;
pub(super) mod info;
mod keys;
mod keys_more;
mod keyspace_access;
mod list;
mod list_pop;
mod notifications;
mod pubsub;
mod replication;
mod scan;
mod scripting;
mod server;
mod set;
mod sorted_set;
mod sorted_set_algebra;
mod sorted_set_range;
mod string;
mod string_more;
mod transaction;
mod waiting;

use std::borrow::Cow;
use std::sync::Arc;

use super::blocking::serve_ready;
use super::codec::number::parse_integer;
use super::codec::{Arguments, ReplyEncoder};
use super::observe::Origin;
use super::state::{Client, Next, Shared, State};
use keyspace_access::Pending;

pub(super) use checks::{check_write, is_out_of_memory};
pub(super) use keyspace_access::expire_due;

use checks::check;

/// The text of an error reply, its code first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure(pub(super) Cow<'static, [u8]>);

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Self {
        Failure(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure(Cow::Owned(text.into_bytes()))
    }
}

impl From<Vec<u8>> for Failure {
    fn from(text: Vec<u8>) -> Self {
        Failure(Cow::Owned(text))
    }
}

pub(super) const SYNTAX: &str = "ERR syntax error";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

const POSITIVE: &str = "ERR value is out of range, must be positive";

pub(super) type Outcome = Result<(), Failure>;

/// A command while it runs.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) state: &'a mut State,
    pub(super) client: &'a mut Client,
    pub(super) arguments: Arguments<'a>,
    pub(super) reply: &'a mut ReplyEncoder,
    /// What has been done and is not yet in the replication stream.
    pub(super) pending: &'a mut Pending,
    /// The wall clock when the command, or the script around it, began.
    pub(super) now_ms: i64,
    pub(super) name: &'static str,
    /// False inside `EXEC` and scripts, which wait for nothing.
    pub(super) may_block: bool,
    /// The key that something was put under, when a command that waited for it runs again:
    /// it looks at no other.
    pub(super) ready: Option<&'a [u8]>,
}

impl Call<'_> {
    /// Reads an argument as an integer.
    fn integer(&self, index: usize) -> Result<i64, Failure> {
        parse_integer(&self.arguments[index]).ok_or(NOT_AN_INTEGER.into())
    }

    /// Reads an argument as an integer of at least `least`; `failure` is for one that is less.
    fn at_least(&self, index: usize, least: i64, failure: &'static str) -> Result<i64, Failure> {
        let is_unreadable = if failure == POSITIVE { NOT_AN_INTEGER } else { failure };
        let integer = parse_integer(&self.arguments[index]).ok_or(is_unreadable)?;
        if integer < least { Err(failure.into()) } else { Ok(integer) }
    }

    fn wrong_arity_of(&self, subcommand: &str) -> Failure {
        format!("ERR wrong number of arguments for '{}|{subcommand}' command", self.name).into()
    }

    /// What commands say that look at their second word themselves.
    fn unknown_subcommand_or_arity(&self) -> Failure {
        let given = shown(&self.arguments[1]);
        [
            &b"ERR unknown subcommand or wrong number of arguments for '"[..],
            &given[..given.len().min(128)],
            b"'. Try ",
            self.name.to_ascii_uppercase().as_bytes(),
            b" HELP.",
        ]
        .concat()
        .into()
    }

    fn unknown_subcommand(&self) -> Failure {
        unknown_subcommand(self.name, self.arguments)
    }

    /// Whether an argument is this word, in any case.
    fn is(&self, index: usize, word: &str) -> bool {
        self.arguments[index].eq_ignore_ascii_case(word.as_bytes())
    }
}

fn unknown_subcommand(name: &str, arguments: Arguments<'_>) -> Failure {
    let mut text = b"ERR unknown subcommand '".to_vec();
    let given = shown(&arguments[1]);
    text.extend_from_slice(&given[..given.len().min(128)]);
    text.extend_from_slice(b"'. Try ");
    text.extend(name.bytes().map(|byte| byte.to_ascii_uppercase()));
    text.extend_from_slice(b" HELP.");
    text.into()
}

/// Changes keys: refused on replicas.
const WRITE: u8 = 1;
/// Not to be called by scripts.
const NO_SCRIPT: u8 = 2;
/// Runs at once inside `MULTI`.
const NO_QUEUE: u8 = 4;
/// May need memory: refused when there is none.
const DENY_OOM: u8 = 8;
/// Not a write, and yet sent to the replicas: not for scripts that only read.
const MAY_REPLICATE: u8 = 16;
/// Taken from a subscriber of RESP2, which has no other way to tell replies from messages.
const OF_SUBSCRIBER: u8 = 32;

pub(super) struct Command {
    pub(super) name: &'static str,
    /// Arguments with the name; negative: at least so many.
    arity: i16,
    flags: u8,
    run: fn(&mut Call<'_>) -> Outcome,
}

impl Command {
    fn accepts(&self, count: usize) -> bool {
        accepts(self.arity, count)
    }
}

fn accepts(arity: i16, count: usize) -> bool {
    let bound = usize::from(arity.unsigned_abs());
    if arity < 0 { count >= bound } else { count == bound }
}

macro_rules! commands {
    ($($name:literal $arity:literal $flags:expr, $run:path;)*) => {
        &[$(Command { name: $name, arity: $arity, flags: $flags, run: $run }),*]
    };
}

/// All commands by name.
static COMMANDS: &[Command] = commands! {
    "append" 3 WRITE | DENY_OOM, string::append;
    "auth" -2 NO_SCRIPT, connection::auth;
    "blmove" 6 WRITE | DENY_OOM | NO_SCRIPT, list_pop::blmove;
    "blmpop" -5 WRITE, list_pop::blmpop;
    "blpop" -3 WRITE | NO_SCRIPT, list_pop::blpop;
    "brpop" -3 WRITE | NO_SCRIPT, list_pop::brpop;
    "brpoplpush" 4 WRITE | DENY_OOM | NO_SCRIPT, list_pop::brpoplpush;
    "bzmpop" -5 WRITE, sorted_set::bzmpop;
    "bzpopmax" -3 WRITE | NO_SCRIPT, sorted_set::bzpopmax;
    "bzpopmin" -3 WRITE | NO_SCRIPT, sorted_set::bzpopmin;
    "client" -2 NO_SCRIPT, connection::client;
    "command" -1 0, server::command;
    "config" -2 NO_SCRIPT, server::config;
    "copy" -3 WRITE | DENY_OOM, keys_more::copy;
    "dbsize" 1 0, keys::dbsize;
    "decr" 2 WRITE | DENY_OOM, string::decr;
    "decrby" 3 WRITE | DENY_OOM, string::decrby;
    "del" -2 WRITE, keys::del;
    "discard" 1 NO_SCRIPT | NO_QUEUE, transaction::discard;
    "echo" 2 0, connection::echo;
    "eval" -3 NO_SCRIPT, scripting::eval;
    "eval_ro" -3 NO_SCRIPT, scripting::eval_ro;
    "evalsha" -3 NO_SCRIPT, scripting::evalsha;
    "evalsha_ro" -3 NO_SCRIPT, scripting::evalsha_ro;
    "exec" 1 NO_SCRIPT | NO_QUEUE, transaction::exec;
    "exists" -2 0, keys::exists;
    "expire" -3 WRITE, expiry::expire;
    "expireat" -3 WRITE, expiry::expireat;
    "expiretime" 2 0, expiry::expiretime;
    "flushall" -1 WRITE, keys::flushall;
    "flushdb" -1 WRITE, keys::flushdb;
    "get" 2 0, string::get;
    "getdel" 2 WRITE, string::getdel;
    "getex" -2 WRITE, string_more::getex;
    "getrange" 4 0, string_more::getrange;
    "getset" 3 WRITE | DENY_OOM, string::getset;
    "hdel" -3 WRITE, hash::hdel;
    "hello" -1 NO_SCRIPT, connection::hello;
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
    "info" -1 0, server::info;
    "keys" 2 0, keys::keys;
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
    "mset" -3 WRITE | DENY_OOM, string::mset;
    "msetnx" -3 WRITE | DENY_OOM, string::msetnx;
    "multi" 1 NO_SCRIPT | NO_QUEUE, transaction::multi;
    "object" -2 0, keys_more::object;
    "persist" 2 WRITE, expiry::persist;
    "pexpire" -3 WRITE, expiry::pexpire;
    "pexpireat" -3 WRITE, expiry::pexpireat;
    "pexpiretime" 2 0, expiry::pexpiretime;
    "ping" -1 OF_SUBSCRIBER, connection::ping;
    "post" -1 NO_SCRIPT | NO_QUEUE, connection::not_redis;
    "psetex" 4 WRITE | DENY_OOM, string::psetex;
    "psubscribe" -2 NO_SCRIPT | OF_SUBSCRIBER, pubsub::psubscribe;
    "psync" -3 NO_SCRIPT, replication::psync;
    "pttl" 2 0, expiry::pttl;
    "publish" 3 MAY_REPLICATE, pubsub::publish;
    "pubsub" -2 0, pubsub::pubsub;
    "punsubscribe" -1 NO_SCRIPT | OF_SUBSCRIBER, pubsub::punsubscribe;
    "quit" -1 NO_SCRIPT | NO_QUEUE | OF_SUBSCRIBER, connection::quit;
    "randomkey" 1 0, keys_more::randomkey;
    "rename" 3 WRITE, keys_more::rename;
    "renamenx" 3 WRITE, keys_more::renamenx;
    "replconf" -1 NO_SCRIPT, replication::replconf;
    "replicaof" 3 NO_SCRIPT, replication::replicaof;
    "reset" 1 NO_SCRIPT | NO_QUEUE | OF_SUBSCRIBER, connection::reset;
    "role" 1 NO_SCRIPT, replication::role;
    "rpop" -2 WRITE, list_pop::rpop;
    "rpoplpush" 3 WRITE | DENY_OOM, list_pop::rpoplpush;
    "rpush" -3 WRITE | DENY_OOM, list::rpush;
    "rpushx" -3 WRITE | DENY_OOM, list::rpushx;
    "sadd" -3 WRITE | DENY_OOM, set::sadd;
    "scan" -2 0, scan::scan;
    "scard" 2 0, set::scard;
    "script" -2 NO_SCRIPT, scripting::script;
    "sdiff" -2 0, set::sdiff;
    "sdiffstore" -3 WRITE | DENY_OOM, set::sdiffstore;
    "select" 2 0, connection::select;
    "set" -3 WRITE | DENY_OOM, string::set;
    "setex" 4 WRITE | DENY_OOM, string::setex;
    "setnx" 3 WRITE | DENY_OOM, string::setnx;
    "setrange" 4 WRITE | DENY_OOM, string_more::setrange;
    "sinter" -2 0, set::sinter;
    "sintercard" -3 0, set::sintercard;
    "sinterstore" -3 WRITE | DENY_OOM, set::sinterstore;
    "sismember" 3 0, set::sismember;
    "slaveof" 3 NO_SCRIPT, replication::replicaof;
    "smembers" 2 0, set::smembers;
    "smismember" -3 0, set::smismember;
    "smove" 4 WRITE, set::smove;
    "spop" -2 WRITE, set::spop;
    "spublish" 3 MAY_REPLICATE, pubsub::spublish;
    "srandmember" -2 0, set::srandmember;
    "srem" -3 WRITE, set::srem;
    "sscan" -3 0, scan::sscan;
    "ssubscribe" -2 NO_SCRIPT | OF_SUBSCRIBER, pubsub::ssubscribe;
    "strlen" 2 0, string::strlen;
    "subscribe" -2 NO_SCRIPT | OF_SUBSCRIBER, pubsub::subscribe;
    "substr" 4 0, string_more::getrange;
    "sunion" -2 0, set::sunion;
    "sunionstore" -3 WRITE | DENY_OOM, set::sunionstore;
    "sunsubscribe" -1 NO_SCRIPT | OF_SUBSCRIBER, pubsub::sunsubscribe;
    "time" 1 0, server::time;
    "touch" -2 0, keys_more::touch;
    "ttl" 2 0, expiry::ttl;
    "type" 2 0, keys::type_;
    "unlink" -2 WRITE, keys::del;
    "unsubscribe" -1 NO_SCRIPT | OF_SUBSCRIBER, pubsub::unsubscribe;
    "unwatch" 1 NO_SCRIPT, transaction::unwatch;
    "wait" 3 NO_SCRIPT, replication::wait;
    "watch" -2 NO_SCRIPT | NO_QUEUE, transaction::watch;
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
            ("setname", 3),
            ("unblock", -3),
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
    ("script", &[("exists", -3), ("flush", -2), ("kill", 2), ("load", 3)]),
];

fn check_subcommand(name: &str, arguments: Arguments<'_>) -> Outcome {
    let Some((_, known)) = SUBCOMMANDS.iter().find(|(container, _)| *container == name) else {
        return Ok(());
    };
    let Some(given) = arguments.get(1) else { return Ok(()) };
    let found = known.iter().find(|(word, _)| given.eq_ignore_ascii_case(word.as_bytes()));
    let Some((word, arity)) = found else { return Err(unknown_subcommand(name, arguments)) };
    if accepts(*arity, arguments.len()) {
        return Ok(());
    }
    Err(wrong_arity(&format!("{name}|{word}")))
}

/// The command of this name, in any case.
fn find(name: &[u8]) -> Option<&'static Command> {
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

/// As much of an argument as an error shows: Redis' messages are C strings.
fn shown(argument: &[u8]) -> &[u8] {
    argument.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn unknown(arguments: Arguments<'_>) -> Failure {
    const SHOWN_BYTES: usize = 128;
    let mut rest = Vec::new();
    for argument in arguments.from(1).iter().map(shown) {
        if rest.len() >= SHOWN_BYTES {
            break;
        }
        let room = SHOWN_BYTES - rest.len();
        rest.push(b'\'');
        rest.extend_from_slice(&argument[..argument.len().min(room)]);
        rest.extend_from_slice(b"' ");
    }
    let name = shown(&arguments[0]);
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(&name[..name.len().min(SHOWN_BYTES)]);
    text.extend_from_slice(b"', with args beginning with: ");
    text.extend_from_slice(&rest);
    text.into()
}

const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
pub(super) const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

fn wrong_arity(name: &str) -> Failure {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// Runs one command of a client, or of the master's stream, and appends its reply.
/// What comes besides is in the client's [`next`](Client::next).
pub(super) fn execute(
    shared: &Arc<Shared>,
    state: &mut State,
    client: &mut Client,
    arguments: Arguments<'_>,
    reply: &mut ReplyEncoder,
) {
    let command = match check(shared, state, client, arguments) {
        Ok(command) => command,
        Err(failure) => {
            let failure = fail_transaction(state, client, arguments, failure);
            reply.error(&failure.0);
            return;
        }
    };
    client.last_command = command.name;
    if client.transaction.is_some() && command.flags & NO_QUEUE == 0 {
        transaction::queue(shared, client, arguments, reply);
        return;
    }
    let mut pending = Pending::default();
    let mut call = Call {
        now_ms: shared.wall_ms(),
        shared,
        state,
        client,
        arguments,
        reply,
        pending: &mut pending,
        name: command.name,
        may_block: true,
        ready: None,
    };
    run(&mut call, command);
    pending.flush(shared, state);
    client.write_offset = state.replication.offset;
    serve_ready(shared, state);
    // Behind it: the next WAIT of this client must not wait for the question.
    let question = state.replication.take_question();
    if !question.is_empty() {
        shared.feed(state, &question);
    }
}

/// A command that cannot be queued fails its transaction; `EXEC` itself ends it, and says
/// so even where there is none.
fn fail_transaction(
    state: &mut State,
    client: &mut Client,
    arguments: Arguments<'_>,
    failure: Failure,
) -> Failure {
    if !arguments[0].eq_ignore_ascii_case(b"exec") {
        if let Some(transaction) = &mut client.transaction {
            transaction.failed = true;
        }
        return failure;
    }
    client.transaction = None;
    state.unwatch(client);
    let reason = failure.0.strip_prefix(b"ERR ").unwrap_or(&failure.0);
    [b"EXECABORT Transaction discarded because of: ", reason].concat().into()
}

/// Runs the command of a client that waited for `key`, now that something is under it. False:
/// it was not enough. The reply is mailed.
pub(super) fn run_again(
    shared: &Arc<Shared>,
    state: &mut State,
    client: &mut Client,
    arguments: Arguments<'_>,
    key: &[u8],
) -> bool {
    let Some(command) = find(&arguments[0]) else { return false };
    let mut pending = Pending::default();
    let mut reply = ReplyEncoder::new(client.protocol);
    reply.set_limit(shared.settings.output_limit_bytes);
    let mut call = Call {
        now_ms: shared.wall_ms(),
        shared,
        state,
        client,
        arguments,
        reply: &mut reply,
        pending: &mut pending,
        name: command.name,
        may_block: true,
        ready: Some(key),
    };
    run(&mut call, command);
    pending.flush(shared, state);
    client.write_offset = state.replication.offset;
    if client.next.take().is_some() {
        return false;
    }
    if reply.is_full() {
        client.kill();
    }
    client.push(|mail| mail.bytes_mut().extend_from_slice(reply.bytes()));
    true
}

fn run(call: &mut Call<'_>, command: &Command) {
    let length = call.reply.bytes().len();
    let mail = call.client.mailbox.bytes().len();
    if let Err(failure) = (command.run)(call) {
        call.reply.bytes_mut().truncate(length);
        call.reply.error(&failure.0);
    }
    // What the client heard of its own doing comes before the answer.
    if call.client.mailbox.bytes().len() > mail {
        let heard = call.client.mailbox.bytes_mut().split_off(mail);
        call.reply.bytes_mut().splice(length..length, heard);
    }
}

/// Runs one command for a script, which holds the server. The reply, also of an
/// error, is appended to `call.reply`.
pub(super) fn execute_for_script(
    call: &mut Call<'_>,
    read_only: bool,
    memory: &mut ScriptMemory,
) -> Outcome {
    let Some(command) = find(&call.arguments[0]) else {
        return Err("ERR Unknown Redis command called from script".into());
    };
    if !command.accepts(call.arguments.len()) {
        return Err("ERR Wrong number of args calling Redis command from script".into());
    }
    if command.flags & NO_SCRIPT != 0 {
        return Err("ERR This Redis command is not allowed from script".into());
    }
    if command.flags & (WRITE | MAY_REPLICATE) != 0 && read_only {
        return Err("ERR Write commands are not allowed from read-only scripts.".into());
    }
    if command.flags & WRITE != 0 {
        check_write(call.shared, call.state, call.client)?;
        if command.flags & DENY_OOM != 0 && !memory.allows(call) {
            return Err(OUT_OF_MEMORY.into());
        }
        memory.has_written = true;
    }
    call.name = command.name;
    (command.run)(call)
}

/// What a script may still do to the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptMemory {
    /// There was none when it began: then it may not begin to write.
    pub(super) was_out: bool,
    /// It has written, and would be left half done.
    pub(super) has_written: bool,
}

impl ScriptMemory {
    /// Redis looks at the memory only when a script begins, so that one script can grow
    /// for ever; here every write finds the server's own limit.
    fn allows(&self, call: &Call<'_>) -> bool {
        let limit = call.shared.settings.memory_bytes;
        call.client.origin == Origin::Master
            || (self.has_written || !self.was_out) && call.state.used_bytes() <= limit
    }
}

impl Call<'_> {
    /// Ends the connection after this command's reply.
    fn close(&mut self) {
        self.client.next = Some(Next::Close);
    }
}

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
        assert!(find(b"").is_none());
        assert!(find(&[b'a'; 100]).is_none());
    }
}
