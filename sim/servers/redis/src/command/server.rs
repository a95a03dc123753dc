//! The server: its clock, what it says of itself, what can be set.

use super::super::glob;
use super::super::pubsub::event;
use super::super::state::State;
use super::{
    COMMANDS, Call, Failure, Outcome, SYNTAX, c_string, eviction, info, persistence_settings,
    shown, tuned, word,
};

pub(super) fn time(call: &mut Call<'_>) -> Outcome {
    let wall = call.shared.host.wall();
    call.reply.array(2);
    call.reply.bulk_integer(i64::try_from(wall.as_secs()).unwrap_or(i64::MAX));
    call.reply.bulk_integer(i64::from(wall.subsec_micros()));
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let sections: Vec<Vec<u8>> = call.arguments.from(1).iter().map(word).collect();
    let text = info::text(call.shared, call.state, &sections);
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn command(call: &mut Call<'_>) -> Outcome {
    if call.arguments.len() == 1 {
        call.reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(call, command));
        return Ok(());
    }
    match call.arguments[1].to_ascii_lowercase().as_slice() {
        b"count" if call.arguments.len() == 2 => call.reply.integer(COMMANDS.len() as i64),
        b"count" => return Err(call.wrong_arity_of("count")),
        // Documentation is for people; clients that ask accept none.
        b"docs" => call.reply.map(0),
        b"info" => {
            let names = call.arguments.from(2);
            call.reply.array(names.len());
            for name in names.iter() {
                match super::find(name) {
                    Some(command) => describe(call, command),
                    None => call.reply.null(),
                }
            }
        }
        _ => return Err(call.unknown_subcommand()),
    }
    Ok(())
}

/// Name, arity and flags; no key positions: no cluster client talks to this server.
fn describe(call: &mut Call<'_>, command: &super::Command) {
    let reply = &mut *call.reply;
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let write = command.flags & super::WRITE != 0;
    let no_script = command.flags & super::NO_SCRIPT != 0;
    reply.set(usize::from(write) + usize::from(no_script));
    if write {
        reply.simple(b"write");
    }
    if no_script {
        reply.simple(b"noscript");
    }
    for _ in 0..3 {
        reply.integer(0);
    }
    reply.set(0);
    for _ in 0..3 {
        reply.array(0);
    }
}

/// What `CONFIG GET` knows: name, value, whether `CONFIG SET` may change it (the
/// value is kept and told, and changes nothing).
const PARAMETERS: &[(&str, &str, bool)] = &[
    ("databases", "16", false),
    ("hz", "10", true),
    ("lazyfree-lazy-expire", "no", false),
    (MAX_MEMORY, "0", true),
    (POLICY, "noeviction", true),
    (NOTIFY, "", true),
    ("proto-max-bulk-len", "536870912", true),
    ("slowlog-log-slower-than", "10000", true),
    ("slowlog-max-len", "128", true),
    ("timeout", "0", true),
];

const MAX_MEMORY: &str = "maxmemory";
const POLICY: &str = "maxmemory-policy";
const NOTIFY: &str = "notify-keyspace-events";

/// What `CONFIG SET maxmemory` was last told, bytes; 0: no limit.
pub(super) fn maxmemory(state: &State) -> usize {
    state.parameters.get(MAX_MEMORY).and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// What `CONFIG SET maxmemory-policy` was last told.
pub(super) fn eviction_policy(state: &State) -> &str {
    state.parameters.get(POLICY).map_or("noeviction", String::as_str)
}

/// `100`, `1k` (1000), `1kb` (1024) and so on, bytes.
fn memory_value(text: &[u8]) -> Option<u64> {
    let text = String::from_utf8(word(text)).ok()?;
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn value(call: &Call<'_>, name: &'static str, default: &str) -> String {
    call.state.parameters.get(name).cloned().unwrap_or_else(|| default.to_owned())
}

fn parameters(call: &Call<'_>) -> Vec<(&'static str, String)> {
    let settings = &call.shared.settings;
    let mut all: Vec<(&'static str, String)> =
        PARAMETERS.iter().map(|(name, default, _)| (*name, value(call, name, default))).collect();
    all.push(("maxclients", settings.max_clients.to_string()));
    all.extend(tuned::all(call.state, settings));
    all.extend(persistence_settings::all(call.state));
    all.push(("port", call.state.port.to_string()));
    all.push(("repl-backlog-size", settings.backlog_bytes.to_string()));
    all.push(("repl-diskless-sync-delay", settings.sync_delay.as_secs().to_string()));
    all.sort();
    all
}

pub(super) fn config(call: &mut Call<'_>) -> Outcome {
    let count = call.arguments.len();
    match call.arguments[1].to_ascii_lowercase().as_slice() {
        b"get" if count >= 3 => {
            let mut found = parameters(call);
            let patterns = call.arguments.from(2);
            found.retain(|(name, _)| {
                patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes(), true))
            });
            call.reply.map(found.len());
            for (name, value) in found {
                call.reply.bulk(name.as_bytes());
                call.reply.bulk(value.as_bytes());
            }
        }
        b"set" if count >= 4 => config_set(call)?,
        b"resetstat" if count == 2 => {
            call.state.statistics.reset();
            call.reply.ok();
        }
        b"rewrite" if count == 2 => call.reply.ok(),
        name @ (b"get" | b"set" | b"resetstat" | b"rewrite") => {
            return Err(call.wrong_arity_of(&String::from_utf8_lossy(name)));
        }
        _ => return Err(call.unknown_subcommand()),
    }
    Ok(())
}

fn config_set(call: &mut Call<'_>) -> Outcome {
    let pairs = call.arguments.from(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    let mut wanted = Vec::new();
    let mut events = None;
    let mut changes = Vec::new();
    for index in (0..pairs.len()).step_by(2) {
        let given = &pairs[index];
        if let Some(change) = persistence_settings::Change::parse(given, &pairs[index + 1])? {
            changes.push(change);
            continue;
        }
        if let Some(change) = tuned::parse(given, &pairs[index + 1])? {
            wanted.push(change);
            continue;
        }
        let known = PARAMETERS
            .iter()
            .find(|(name, ..)| given.eq_ignore_ascii_case(name.as_bytes()))
            .ok_or_else(|| unknown_parameter(given))?;
        let (name, _, true) = *known else {
            return Err(immutable(known.0));
        };
        let given = c_string(&pairs[index + 1]);
        let mut value = String::from_utf8_lossy(given).into_owned();
        if name == MAX_MEMORY {
            let bytes = memory_value(given).ok_or(
                "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument \
                 must be a memory value",
            )?;
            value = bytes.to_string();
        }
        if name == POLICY && !eviction::is_policy(&value) {
            return Err(
                "ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - \
                        argument(s) must be one of the following: volatile-lru, volatile-lfu, \
                        volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, \
                        noeviction"
                    .into(),
            );
        }
        if name == NOTIFY {
            let flags = event::parse(given).ok_or(
                "ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - \
                 Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
            )?;
            value = event::letters(flags);
            events = Some(flags);
        }
        wanted.push((name, value));
    }
    for change in changes {
        change.make(call)?;
    }
    call.state.parameters.extend(wanted);
    call.state.notified_events = events.unwrap_or(call.state.notified_events);
    // A lower limit is met at once, not when the next command comes.
    eviction::make_room(call.shared, call.state, call.client);
    call.reply.ok();
    Ok(())
}

fn unknown_parameter(given: &[u8]) -> Failure {
    [&b"ERR Unknown option or number of arguments for CONFIG SET - '"[..], shown(given), b"'"]
        .concat()
        .into()
}

fn immutable(name: &str) -> Failure {
    format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config"
    )
    .into()
}

/// There is no cluster: clients that ask learn it.
pub(super) fn cluster(_: &mut Call<'_>) -> Outcome {
    Err("ERR This instance has cluster support disabled".into())
}
