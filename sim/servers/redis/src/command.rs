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

mod bitfield;
mod bitmap;
mod checks;
mod connection;
mod databases;
mod debug;
mod debug_protocol;
mod drawing;
mod dump;
mod eviction;
mod expiry;
mod functions;
mod hash;
pub(super) mod info;
mod keys;
mod keys_more;
mod keyspace_access;
mod list;
mod list_pop;
mod notifications;
mod persistence;
mod persistence_settings;
mod pubsub;
mod replication;
mod scan;
mod scripting;
mod server;
mod set;
mod sort;
mod sorted_set;
mod sorted_set_algebra;
mod sorted_set_range;
mod stream;
mod stream_group;
mod stream_info;
mod stream_read;
mod string;
mod string_more;
mod table;
mod transaction;
mod tuned;
mod waiting;

use std::borrow::Cow;
use std::sync::Arc;

use super::blocking::serve_ready;
use super::codec::number::{c_string, parse_integer};
use super::codec::{Arguments, ReplyEncoder};
use super::frozen;
use super::observe::Origin;
use super::state::{Answers, Client, Next, Shared, State};
use super::statistics::Place;
use keyspace_access::Pending;

pub(super) use checks::{MASTER_DOWN, check_write, is_out_of_memory, is_stale};
pub(super) use keyspace_access::expire_due;

use checks::check;
pub(super) use table::{COUNTED, is_command};

use table::{
    COMMANDS, Command, DENY_OOM, MAY_REPLICATE, NO_MULTI, NO_QUEUE, NO_SCRIPT, Named,
    OF_SUBSCRIBER, SCRIPT, WHILE_BUSY, WHILE_STALE, WRITE, find, named,
};

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
    /// It was called by a script.
    pub(super) is_of_script: bool,
    /// The key that something was put under, when a command that waited for it runs again:
    /// it looks at no other.
    pub(super) ready: Option<&'a [u8]>,
}

impl Call<'_> {
    /// Reads an argument as an integer.
    fn integer(&self, index: usize) -> Result<i64, Failure> {
        parse_integer(&self.arguments[index]).ok_or(NOT_AN_INTEGER.into())
    }

    /// Reads an argument as an integer of at least `least`; `failure` is for any other.
    fn at_least(&self, index: usize, least: i64, failure: &'static str) -> Result<i64, Failure> {
        let integer = parse_integer(&self.arguments[index]).ok_or(failure)?;
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

    /// Whether an argument is this word, in any case, as C compares them: up to a NUL.
    fn is(&self, index: usize, word: &str) -> bool {
        is_word(&self.arguments[index], word)
    }
}

/// What C takes this text for, as a word in any case: it looks no further than a NUL. Names of
/// commands and subcommands are looked up by all of their bytes, and are no such words.
fn word(text: &[u8]) -> Vec<u8> {
    c_string(text).to_ascii_lowercase()
}

/// Whether C takes this text for the word, in any case.
pub(super) fn is_word(text: &[u8], word: &str) -> bool {
    c_string(text).eq_ignore_ascii_case(word.as_bytes())
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
    let length = reply.bytes().len();
    execute_and_answer(shared, state, client, arguments, reply);
    if client.answers == Answers::All {
        return;
    }
    // What is told of subscriptions is no answer.
    if !client.last_command.ends_with("subscribe") {
        reply.bytes_mut().truncate(length);
    }
    if let Answers::Skip(count) = client.answers {
        client.answers = if count > 1 { Answers::Skip(count - 1) } else { Answers::All };
    }
}

fn execute_and_answer(
    shared: &Arc<Shared>,
    state: &mut State,
    client: &mut Client,
    arguments: Arguments<'_>,
    reply: &mut ReplyEncoder,
) {
    eviction::make_room(shared, state, client);
    let named = named(arguments);
    let place = named.as_ref().ok().map(|named| named.place);
    let checked = named.and_then(|named| {
        named.check_arity(arguments.len())?;
        let flags = checks::flags(state, client, named.command, arguments);
        check(shared, state, client, named.command, flags, arguments)?;
        Ok((named, flags))
    });
    let (Named { command, place, .. }, flags) = match checked {
        Ok(checked) => checked,
        Err(failure) => {
            let failure = fail_transaction(state, client, arguments, failure);
            state.statistics.reject(place, &failure.0);
            reply.error(&failure.0);
            return;
        }
    };
    (client.last_command, client.last_place) = (command.name, place);
    if client.transaction.is_some() && command.flags & NO_QUEUE == 0 {
        transaction::queue(shared, state, client, flags, arguments, reply);
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
        is_of_script: false,
        ready: None,
    };
    run(&mut call, command, place);
    if state.busy.is_some() {
        // Its effects go nowhere until it ends, and it does not.
        drop(pending);
        return;
    }
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

/// Answers a command that is not run with this error; a transaction around it fails.
pub(super) fn refuse_unrun(
    state: &mut State,
    client: &mut Client,
    arguments: Arguments<'_>,
    error: &str,
    reply: &mut ReplyEncoder,
) {
    let failure = fail_transaction(state, client, arguments, error.to_owned().into());
    reply.error(&failure.0);
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
    let Ok(Named { command, place, .. }) = named(arguments) else { return false };
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
        is_of_script: false,
        ready: Some(key),
    };
    run(&mut call, command, place);
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

fn run(call: &mut Call<'_>, command: &Command, place: Place) {
    let length = call.reply.bytes().len();
    let mail = call.client.mailbox.bytes().len();
    call.state.statistics.begin();
    if let Err(failure) = (command.run)(call) {
        call.reply.bytes_mut().truncate(length);
        call.reply.error(&failure.0);
        call.state.statistics.answer_failure(&failure.0);
    }
    call.state.statistics.end(place, call.ready.is_some());
    // What the client heard of its own doing comes before the answer, if there is one.
    if call.client.answers == Answers::All && call.client.mailbox.bytes().len() > mail {
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
    let Ok(named) = named(call.arguments) else {
        let failure = Failure::from("ERR Unknown Redis command called from script");
        call.state.statistics.reject(None, &failure.0);
        return Err(failure);
    };
    let Named { command, place, .. } = named;
    if let Err(failure) = check_for_script(call, &named, read_only, memory) {
        call.state.statistics.reject(Some(place), &failure.0);
        return Err(failure);
    }
    call.name = command.name;
    call.state.statistics.begin();
    let outcome = (command.run)(call);
    let statistics = &mut call.state.statistics;
    if let Err(failure) = &outcome {
        statistics.answer_failure(&failure.0);
    }
    statistics.end(place, false);
    outcome
}

/// Everything that is checked before a script's command is run.
fn check_for_script(
    call: &Call<'_>,
    named: &Named,
    read_only: bool,
    memory: &mut ScriptMemory,
) -> Outcome {
    let command = named.command;
    if named.check_arity(call.arguments.len()).is_err() {
        return Err("ERR Wrong number of args calling Redis command from script".into());
    }
    if command.flags & NO_SCRIPT != 0 && !call.state.allows_all_in_scripts {
        return Err("ERR This Redis command is not allowed from script".into());
    }
    if command.flags & WHILE_STALE == 0 && checks::is_stale(call.state) {
        return Err("ERR Can not execute the command on a stale replica".into());
    }
    let reaches_others = command.flags & (WRITE | MAY_REPLICATE) != 0;
    if reaches_others && read_only {
        return Err("ERR Write commands are not allowed from read-only scripts.".into());
    }
    if let Some(refusal) = &call.state.frozen
        && (reaches_others || frozen::changes_server(call.arguments))
    {
        return Err(refusal.to_string().into());
    }
    if command.flags & WRITE != 0 {
        check_write(call.shared, call.state, call.client)?;
        if command.flags & DENY_OOM != 0 && !memory.allows(call) {
            return Err(OUT_OF_MEMORY.into());
        }
        memory.has_written = true;
    }
    Ok(())
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
