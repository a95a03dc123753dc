//! The connection itself: greeting, naming, leaving, and the list of connections.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::super::blocking;
use super::super::codec::Protocol;
use super::super::codec::number::parse_integer;
use super::super::observe::Origin;
use super::super::pubsub::Space;
use super::super::state::{Answers, Client, Next, Shared, State};
use super::{Call, Failure, NOT_AN_INTEGER, Outcome, SYNTAX, is_word, shown, word, wrong_arity};

pub(super) fn ping(call: &mut Call<'_>) -> Outcome {
    let count = call.arguments.len();
    match count {
        1 | 2 if call.client.is_subscriber() => {
            // Looks like a message: nothing else is expected there.
            call.reply.array(2);
            call.reply.bulk(b"pong");
            call.reply.bulk(call.arguments.get(1).unwrap_or_default());
        }
        1 => call.reply.simple(b"PONG"),
        2 => call.reply.bulk(&call.arguments[1]),
        _ => return Err(wrong_arity("ping")),
    }
    Ok(())
}

pub(super) fn echo(call: &mut Call<'_>) -> Outcome {
    call.reply.bulk(&call.arguments[1]);
    Ok(())
}

/// The first words of HTTP: a browser that was made to talk to this port is hung up on.
pub(super) fn not_redis(call: &mut Call<'_>) -> Outcome {
    call.client.next = Some(Next::Abort);
    Ok(())
}

pub(super) fn quit(call: &mut Call<'_>) -> Outcome {
    call.reply.ok();
    call.close();
    Ok(())
}

pub(super) fn reset(call: &mut Call<'_>) -> Outcome {
    call.client.transaction = None;
    call.state.unwatch(call.client);
    call.state.subscribers.leave(call.client);
    call.client.database = 0;
    call.client.answers = Answers::All;
    call.client.name.clear();
    speak(call, Protocol::Resp2);
    call.reply.simple(b"RESET");
    Ok(())
}

fn speak(call: &mut Call<'_>, protocol: Protocol) {
    call.client.protocol = protocol;
    call.reply.set_protocol(protocol);
}

pub(super) fn select(call: &mut Call<'_>) -> Outcome {
    let number = i32::try_from(call.integer(1)?)
        .map_err(|_| "ERR value is out of range, value must between -2147483648 and 2147483647")?;
    let count = call.state.databases.len();
    call.client.database = usize::try_from(number)
        .ok()
        .filter(|number| *number < count)
        .ok_or("ERR DB index is out of range")?;
    call.reply.ok();
    Ok(())
}

/// There is no password: only the default user exists, and it needs none.
pub(super) fn auth(call: &mut Call<'_>) -> Outcome {
    match call.arguments.len() {
        2 => Err("ERR AUTH <password> called without any password configured for the default \
                  user. Are you sure your configuration is correct?"
            .into()),
        3 => {
            check_user(&call.arguments[1])?;
            call.reply.ok();
            Ok(())
        }
        _ => Err(SYNTAX.into()),
    }
}

fn check_user(name: &[u8]) -> Outcome {
    if name == b"default" {
        return Ok(());
    }
    Err("WRONGPASS invalid username-password pair or user is disabled.".into())
}

fn check_name(name: &[u8]) -> Outcome {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
}

pub(super) fn hello(call: &mut Call<'_>) -> Outcome {
    let mut protocol = call.client.protocol;
    if call.arguments.len() > 1 {
        let version = parse_integer(&call.arguments[1])
            .ok_or("ERR Protocol version is not an integer or out of range")?;
        protocol = match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err("NOPROTO unsupported protocol version".into()),
        };
    }
    let mut name = None;
    let mut index = 2;
    while index < call.arguments.len() {
        let more = call.arguments.len() - index - 1;
        if call.is(index, "auth") && more >= 2 {
            check_user(&call.arguments[index + 1])?;
            index += 3;
        } else if call.is(index, "setname") && more >= 1 {
            check_name(&call.arguments[index + 1])?;
            name = Some(call.arguments[index + 1].to_vec());
            index += 2;
        } else {
            let option = &call.arguments[index];
            return Err([&b"ERR Syntax error in HELLO option '"[..], shown(option), b"'"]
                .concat()
                .into());
        }
    }
    if let Some(name) = name {
        call.client.name = name;
    }
    speak(call, protocol);
    let id = call.client.id as i64;
    let role: &[u8] = if call.state.is_replica() { b"replica" } else { b"master" };
    let reply = &mut *call.reply;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(super::super::VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(protocol.number());
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(role);
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

pub(super) fn client(call: &mut Call<'_>) -> Outcome {
    let count = call.arguments.len();
    match call.arguments[1].to_ascii_lowercase().as_slice() {
        b"id" if count == 2 => call.reply.integer(call.client.id as i64),
        b"getname" if count == 2 => match call.client.name.as_slice() {
            [] => call.reply.null(),
            name => call.reply.bulk(name),
        },
        b"setname" if count == 3 => {
            check_name(&call.arguments[2])?;
            call.client.name = call.arguments[2].to_vec();
            call.reply.ok();
        }
        b"info" if count == 2 => {
            let mut text = String::new();
            describe(&mut text, call.shared, call.state.port, call.client);
            call.reply.verbatim(b"txt", text.as_bytes());
        }
        b"reply" if count == 3 => reply(call)?,
        b"list" => list(call)?,
        b"unblock" if count == 3 || count == 4 => unblock(call)?,
        b"kill" if count >= 3 => kill(call)?,
        b"no-evict" if count == 3 => {
            if !call.is(2, "on") && !call.is(2, "off") {
                return Err(SYNTAX.into());
            }
            call.reply.ok();
        }
        name @ (b"id" | b"getname" | b"setname" | b"info" | b"kill" | b"no-evict" | b"reply") => {
            return Err(call.wrong_arity_of(&String::from_utf8_lossy(name)));
        }
        b"unblock" => return Err(call.unknown_subcommand_or_arity()),
        _ => return Err(call.unknown_subcommand()),
    }
    Ok(())
}

/// `CLIENT REPLY`: whether this client is answered. Only being answered again is an answer.
fn reply(call: &mut Call<'_>) -> Outcome {
    if call.is(2, "on") {
        call.client.answers = Answers::All;
        call.reply.ok();
    } else if call.is(2, "off") {
        call.client.answers = Answers::Nothing;
    } else if call.is(2, "skip") {
        if call.client.answers != Answers::Nothing {
            // This one and the next.
            call.client.answers = Answers::Skip(2);
        }
    } else {
        return Err(SYNTAX.into());
    }
    Ok(())
}

/// `CLIENT UNBLOCK`: ends another client's waiting, as if its time were over or with an error.
fn unblock(call: &mut Call<'_>) -> Outcome {
    let with_error = match call.arguments.get(3) {
        None => false,
        Some(_) if call.is(3, "timeout") => false,
        Some(_) if call.is(3, "error") => true,
        Some(_) => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
    };
    let id = u64::try_from(call.integer(2)?).unwrap_or(0);
    let State { clients, waiting, replication, statistics, .. } = &mut *call.state;
    let client = clients.get_mut(&id).filter(|client| client.blocked.is_some());
    call.reply.integer(i64::from(client.is_some()));
    let Some(client) = client else { return Ok(()) };
    if with_error {
        let failure = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";
        blocking::refuse(statistics, client, failure);
        blocking::unblock(waiting, client);
    } else {
        // Redis counts that as a failure, too.
        statistics.fail(client.last_place, 1);
        blocking::time_out(waiting, replication, client);
    }
    Ok(())
}

/// One line of `CLIENT LIST`.
fn describe(text: &mut String, shared: &Shared, port: u16, client: &Client) {
    let now = shared.host.monotonic();
    let mut flags = String::new();
    for (is_so, letter) in [
        (!client.subscriptions.is_empty(), 'P'),
        (client.transaction.is_some(), 'x'),
        (client.blocked.is_some(), 'b'),
    ] {
        if is_so {
            flags.push(letter);
        }
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let queued =
        client.transaction.as_ref().map_or(-1, |transaction| transaction.commands.len() as i64);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "id={} addr={} laddr={}:{port} fd={} name={} age={} idle={} flags={flags} db={} sub={} \
         psub={} ssub={} multi={queued} qbuf={} qbuf-free=0 argv-mem=0 multi-mem={} rbs=1024 rbp=0 \
         obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={} user=default redir=-1 resp={}",
        client.id,
        client.peer,
        shared.host.name(),
        client.id,
        String::from_utf8_lossy(&client.name),
        now.saturating_sub(client.connected_at).as_secs(),
        now.saturating_sub(client.active_at).as_secs(),
        client.database,
        client.subscriptions.len(Space::Channels),
        client.subscriptions.len(Space::Patterns),
        client.subscriptions.len(Space::Shards),
        client.query_bytes,
        client.transaction.as_ref().map_or(0, |transaction| transaction.bytes),
        client.last_command,
        client.protocol.number(),
    );
}

fn list(call: &mut Call<'_>) -> Outcome {
    let kind = match call.arguments.len() {
        2 => None,
        4 if call.is(2, "type") => Some(&call.arguments[3]),
        _ if call.arguments.len() > 3 && call.is(2, "id") => None,
        _ => return Err(SYNTAX.into()),
    };
    let kind = kind.map(client_kind).transpose()?;
    let ids = if call.arguments.len() > 3 && call.is(2, "id") {
        let ids = call.arguments.from(3).iter().map(|id| {
            parse_integer(id).and_then(|id| u64::try_from(id).ok()).ok_or("ERR Invalid client ID")
        });
        Some(ids.collect::<Result<Vec<u64>, _>>()?)
    } else {
        None
    };
    let mut text = String::new();
    let mut shown = |client: &Client| {
        if kind.is_none_or(|kind| kind == kind_of(client))
            && ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
        {
            describe(&mut text, call.shared, call.state.port, client);
        }
    };
    let before = call.state.clients.range(..call.client.id).map(|(_, client)| &**client);
    let after = call.state.clients.range(call.client.id..).map(|(_, client)| &**client);
    before.for_each(&mut shown);
    shown(call.client);
    after.for_each(&mut shown);
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// As `CLIENT LIST` and `CLIENT KILL` tell clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientKind {
    Normal,
    Subscriber,
    /// Links of masters and replicas: they are not among the clients here.
    Link,
}

fn client_kind(name: &[u8]) -> Result<ClientKind, Failure> {
    match word(name).as_slice() {
        b"normal" => Ok(ClientKind::Normal),
        b"pubsub" => Ok(ClientKind::Subscriber),
        b"master" | b"replica" | b"slave" => Ok(ClientKind::Link),
        _ => Err([b"ERR Unknown client type '", shown(name), b"'"].concat().into()),
    }
}

fn kind_of(client: &Client) -> ClientKind {
    match client.origin {
        Origin::Client(_) if client.subscriptions.is_empty() => ClientKind::Normal,
        Origin::Client(_) => ClientKind::Subscriber,
        Origin::Master => ClientKind::Link,
    }
}

#[derive(Default)]
struct Filter {
    id: Option<u64>,
    address: Option<SocketAddr>,
    local: Option<Vec<u8>>,
    kind: Option<ClientKind>,
    skip_me: bool,
    user: bool,
}

impl Filter {
    fn names(&self, client: &Client) -> bool {
        self.user
            && self.local.is_none()
            && self.id.is_none_or(|id| id == client.id)
            && self.address.is_none_or(|address| address == client.peer)
            && self.kind.is_none_or(|kind| kind == kind_of(client))
    }
}

fn filter(call: &Call<'_>) -> Result<Filter, Failure> {
    let mut filter = Filter { skip_me: true, user: true, ..Filter::default() };
    let words = call.arguments.from(2);
    if !words.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    for index in (0..words.len()).step_by(2) {
        let value = &words[index + 1];
        match word(&words[index]).as_slice() {
            b"id" => {
                let id = parse_integer(value).filter(|id| *id > 0);
                filter.id = Some(id.ok_or("ERR client-id should be greater than 0")? as u64);
            }
            b"addr" => filter.address = Some(address(value).ok_or(SYNTAX)?),
            b"laddr" => filter.local = Some(value.to_vec()),
            b"user" => filter.user = value == b"default",
            b"type" => filter.kind = Some(client_kind(value)?),
            b"skipme" if is_word(value, "yes") => filter.skip_me = true,
            b"skipme" if is_word(value, "no") => filter.skip_me = false,
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok(filter)
}

fn address(text: &[u8]) -> Option<SocketAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn kill(call: &mut Call<'_>) -> Outcome {
    let old_style = call.arguments.len() == 3;
    let filter = if old_style {
        let address = address(&call.arguments[2]).ok_or("ERR No such client")?;
        Filter { address: Some(address), user: true, ..Filter::default() }
    } else {
        filter(call)?
    };
    let mut killed = 0;
    for client in call.state.clients.values_mut().filter(|client| filter.names(client)) {
        client.kill();
        killed += 1;
    }
    if !filter.skip_me && filter.names(call.client) {
        killed += 1;
        call.close();
    }
    match (old_style, killed) {
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => call.reply.ok(),
        (false, killed) => call.reply.integer(killed),
    }
    Ok(())
}

/// A port number as commands take it.
pub(super) fn port(text: &[u8]) -> Result<u16, Failure> {
    let number = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    u16::try_from(number).map_err(|_| NOT_AN_INTEGER.into())
}
