//! What clients of a sentinel may ask. Everything else is an unknown command, as it is
//! to a real one.
//!
//! Order of things: the table here; `sentinel` has the words after `SENTINEL`, `describe`
//! what they answer about an instance, `set` changes settings, `pubsub` subscribes,
//! `info` is the text of `INFO`.

mod describe;
mod info;
mod pubsub;
mod sentinel;
mod set;

use super::State;
use super::instance::Ms;
use super::service::Client;
use crate::codec::number::parse_integer;
use crate::codec::{Arguments, Protocol};
use crate::command::is_word;

/// An error reply, or none.
type Outcome = Result<(), String>;

/// A command and all that it works on.
struct Call<'a> {
    state: &'a mut State,
    client: &'a mut Client,
    arguments: Arguments<'a>,
    now: Ms,
}

impl Call<'_> {
    /// Whether an argument is this word, in any case, as C compares them: up to a NUL.
    fn is(&self, index: usize, word: &str) -> bool {
        self.arguments.get(index).is_some_and(|given| is_word(given, word))
    }

    fn text(&self, index: usize) -> String {
        String::from_utf8_lossy(self.arguments.get(index).unwrap_or_default()).into_owned()
    }

    fn integer(&self, index: usize) -> Result<i64, String> {
        let given = self.arguments.get(index).and_then(parse_integer);
        given.ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
    }
}

type Run = fn(&mut Call<'_>) -> Outcome;

/// Name, arity (negative: at least so many), and what it does.
const COMMANDS: &[(&str, i16, Run)] = &[
    ("auth", -2, auth),
    ("client", -2, client),
    ("command", -1, |call| {
        call.client.reply.array(0);
        Ok(())
    }),
    ("hello", -1, hello),
    ("info", -1, info::info),
    ("ping", -1, ping),
    ("psubscribe", -2, |call| pubsub::subscribe(call, true)),
    ("publish", 3, pubsub::publish),
    ("punsubscribe", -1, |call| pubsub::unsubscribe(call, true)),
    ("quit", -1, |call| {
        call.client.reply.ok();
        call.client.closes = true;
        Ok(())
    }),
    ("role", 1, role),
    ("sentinel", -2, sentinel::sentinel),
    ("subscribe", -2, |call| pubsub::subscribe(call, false)),
    ("unsubscribe", -1, |call| pubsub::unsubscribe(call, false)),
];

/// What a subscriber may still say in RESP2.
const WHILE_SUBSCRIBED: [&str; 6] =
    ["ping", "psubscribe", "punsubscribe", "quit", "subscribe", "unsubscribe"];

/// Runs one command and appends its reply.
pub(super) fn execute(state: &mut State, client: &mut Client, arguments: Arguments<'_>, now: Ms) {
    let outcome = find(client, arguments)
        .and_then(|run| run(&mut Call { state, client: &mut *client, arguments, now }));
    if let Err(error) = outcome {
        client.reply.error(error.as_bytes());
    }
}

fn find(client: &Client, arguments: Arguments<'_>) -> Result<Run, String> {
    let given = &arguments[0];
    let named = |name: &str| given.eq_ignore_ascii_case(name.as_bytes());
    let found = COMMANDS.iter().find(|(name, ..)| named(name));
    let Some((name, arity, run)) = found else { return Err(unknown(arguments)) };
    if !accepts(*arity, arguments.len()) {
        return Err(wrong_arity(name));
    }
    let is_bound = client.subscriptions() > 0 && client.reply.protocol() == Protocol::Resp2;
    if is_bound && !WHILE_SUBSCRIBED.contains(name) {
        let subcommand = match (*name, arguments.get(1)) {
            ("sentinel" | "client", Some(word)) => format!("|{}", shown(word, 128).to_lowercase()),
            _ => String::new(),
        };
        return Err(format!(
            "ERR Can't execute '{name}{subcommand}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
             RESET are allowed in this context"
        ));
    }
    Ok(*run)
}

fn accepts(arity: i16, given: usize) -> bool {
    let needed = usize::from(arity.unsigned_abs());
    if arity < 0 { given >= needed } else { given == needed }
}

fn wrong_arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

/// As much of an argument as an error shows: Redis' messages are C strings.
fn shown(argument: &[u8], most: usize) -> String {
    let argument = argument.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(&argument[..argument.len().min(most)]).into_owned()
}

fn unknown(arguments: Arguments<'_>) -> String {
    const SHOWN_BYTES: usize = 128;
    let mut rest = String::new();
    for argument in arguments.from(1).iter() {
        if rest.len() >= SHOWN_BYTES {
            break;
        }
        rest.push_str(&format!("'{}' ", shown(argument, SHOWN_BYTES - rest.len())));
    }
    let name = shown(&arguments[0], SHOWN_BYTES);
    format!("ERR unknown command '{name}', with args beginning with: {rest}")
}

fn unknown_subcommand(container: &str, given: &[u8]) -> String {
    format!(
        "ERR unknown subcommand '{}'. Try {} HELP.",
        shown(given, 128),
        container.to_uppercase()
    )
}

/// There is no password.
fn auth(call: &mut Call<'_>) -> Outcome {
    if call.arguments.len() == 3 && &call.arguments[1] == b"default" {
        call.client.reply.ok();
        return Ok(());
    }
    Err("ERR AUTH <password> called without any password configured for the default user. Are you \
         sure your configuration is correct?"
        .to_owned())
}

fn client(call: &mut Call<'_>) -> Outcome {
    let subcommand = call.text(1).to_ascii_lowercase();
    match (subcommand.as_str(), call.arguments.len()) {
        ("id", 2) => call.client.reply.integer(call.client.id as i64),
        ("getname", 2) if call.client.name.is_empty() => call.client.reply.null(),
        ("getname", 2) => {
            let name = call.client.name.clone();
            call.client.reply.bulk(&name);
        }
        ("setname", 3) => {
            let name = &call.arguments[2];
            if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
                return Err("ERR Client names cannot contain spaces, newlines or special \
                            characters."
                    .to_owned());
            }
            call.client.name = name.to_vec();
            call.client.reply.ok();
        }
        ("no-evict" | "reply", 3) => call.client.reply.ok(),
        ("list", 2..) => {
            let others = call.state.clients.all.values().map(described);
            let mut text: String = others.collect();
            text.push_str(&described(call.client));
            call.client.reply.bulk(text.as_bytes());
        }
        ("info", 2) => {
            let text = described(call.client);
            call.client.reply.bulk(text.as_bytes());
        }
        ("id" | "getname" | "setname" | "info" | "no-evict" | "reply", _) => {
            return Err(wrong_arity(&format!("client|{subcommand}")));
        }
        _ => return Err(unknown_subcommand("client", &call.arguments[1])),
    }
    Ok(())
}

fn described(client: &Client) -> String {
    format!(
        "id={} addr={} name={} sub={} psub={} resp={}\n",
        client.id,
        client.address,
        String::from_utf8_lossy(&client.name),
        client.channels.len(),
        client.patterns.len(),
        client.reply.protocol().number(),
    )
}

fn hello(call: &mut Call<'_>) -> Outcome {
    let mut protocol = call.client.reply.protocol();
    if let Some(version) = call.arguments.get(1) {
        let version = parse_integer(version)
            .ok_or("ERR Protocol version is not an integer or out of range")?;
        protocol = match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err("NOPROTO unsupported protocol version".to_owned()),
        };
    }
    let mut index = 2;
    while index < call.arguments.len() {
        let more = call.arguments.len() - index - 1;
        if call.is(index, "auth") && more >= 2 {
            index += 3;
        } else if call.is(index, "setname") && more >= 1 {
            call.client.name = call.arguments[index + 1].to_vec();
            index += 2;
        } else {
            return Err(format!("ERR Syntax error in HELLO option '{}'", call.text(index)));
        }
    }
    let id = call.client.id as i64;
    let reply = &mut call.client.reply;
    reply.set_protocol(protocol);
    reply.map(6);
    for (field, value) in [("server", "redis"), ("version", crate::VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(protocol.number());
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"sentinel");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn ping(call: &mut Call<'_>) -> Outcome {
    let is_bound = call.client.subscriptions() > 0;
    let argument = call.arguments.get(1).map(<[u8]>::to_vec);
    let reply = &mut call.client.reply;
    match (call.arguments.len(), argument) {
        (3.., _) => return Err(wrong_arity("ping")),
        (_, argument) if is_bound && reply.protocol() == Protocol::Resp2 => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(&argument.unwrap_or_default());
        }
        (_, None) => reply.simple(b"PONG"),
        (_, Some(argument)) => reply.bulk(&argument),
    }
    Ok(())
}

fn role(call: &mut Call<'_>) -> Outcome {
    let reply = &mut call.client.reply;
    reply.array(2);
    reply.bulk(b"sentinel");
    reply.array(call.state.core.masters.len());
    for master in &call.state.core.masters {
        reply.bulk(master.instance.name.as_bytes());
    }
    Ok(())
}
