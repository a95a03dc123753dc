//! Keys of any type: renamed, copied, looked at.

use super::super::keyspace::{Database, Value};
use super::super::observe::Observation;
use super::super::pubsub::event::GENERIC;
use super::{Call, Failure, Outcome, SYNTAX};

const NO_KEY: &str = "ERR no such key";

impl Call<'_> {
    /// Puts a value under a key of this client's database or another, in place of whatever is
    /// there.
    pub(super) fn place(
        &mut self,
        database: usize,
        key: &[u8],
        value: Value,
        expires_at_ms: Option<i64>,
    ) {
        let previous = self.state.databases[database].get(key).map(|entry| entry.value.clone());
        let origin = self.client.origin;
        let previous = previous.as_ref().and_then(Value::told);
        match value.string().map(|text| &**text).or_else(|| value.first()) {
            Some(value) => self.shared.observer.observe(&Observation::Set {
                origin,
                key,
                previous,
                value,
                expires_at_ms,
                now_ms: self.now_ms,
            }),
            None if previous.is_some() => {
                self.shared.observer.observe(&Observation::Deleted {
                    origin,
                    key,
                    value: previous,
                });
            }
            None => {}
        }
        self.state.databases[database].insert(key, value, expires_at_ms);
        self.state.touch(database, key);
    }
}

fn rename_key(call: &mut Call<'_>, only_if_free: bool) -> Outcome {
    let arguments = call.arguments;
    let (from, to) = (&arguments[1], &arguments[2]);
    let entry = call.lookup(from).cloned().ok_or(NO_KEY)?;
    if from == to {
        if only_if_free {
            call.reply.integer(0);
        } else {
            call.reply.ok();
        }
        return Ok(());
    }
    if call.lookup(to).is_some() && only_if_free {
        call.reply.integer(0);
        return Ok(());
    }
    let database = call.client.database;
    call.remove(from);
    call.place(database, to, entry.value, entry.expires_at_ms);
    call.notify(GENERIC, "rename_from", from);
    call.notify(GENERIC, "rename_to", to);
    call.propagate();
    if only_if_free {
        call.reply.integer(1);
    } else {
        call.reply.ok();
    }
    Ok(())
}

pub(super) fn rename(call: &mut Call<'_>) -> Outcome {
    rename_key(call, false)
}

pub(super) fn renamenx(call: &mut Call<'_>) -> Outcome {
    rename_key(call, true)
}

/// The number of a database that an argument names.
fn database(call: &Call<'_>, index: usize) -> Result<usize, Failure> {
    let number = call.integer(index)?;
    let count = call.state.databases.len();
    usize::try_from(number)
        .ok()
        .filter(|number| *number < count)
        .ok_or("ERR DB index is out of range".into())
}

pub(super) fn copy(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (mut replace, mut target) = (false, call.client.database);
    let mut index = 3;
    while index < arguments.len() {
        if call.is(index, "replace") {
            replace = true;
        } else if call.is(index, "db") && index + 1 < arguments.len() {
            index += 1;
            target = database(call, index)?;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let (from, to) = (&arguments[1], &arguments[2]);
    if target == call.client.database && from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let Some(entry) = call.lookup(from).cloned() else {
        call.reply.integer(0);
        return Ok(());
    };
    let own = std::mem::replace(&mut call.client.database, target);
    let is_taken = call.lookup(to).is_some();
    call.client.database = own;
    if is_taken && !replace {
        call.reply.integer(0);
        return Ok(());
    }
    call.place(target, to, entry.value, entry.expires_at_ms);
    call.client.database = target;
    call.notify(GENERIC, "copy_to", to);
    call.client.database = own;
    call.propagate();
    call.reply.integer(1);
    Ok(())
}

pub(super) fn touch(call: &mut Call<'_>) -> Outcome {
    super::keys::exists(call)
}

pub(super) fn randomkey(call: &mut Call<'_>) -> Outcome {
    call.pending.is_loose |= call.may_block;
    let database: &Database = &call.state.databases[call.client.database];
    let mut keys: Vec<_> = database.iter().map(|(key, _)| key.clone()).collect();
    let is_replica = call.state.is_replica();
    // One whose time has come is deleted, and another is drawn.
    while let Some(key) = call.drawn(&keys).cloned() {
        if call.lookup(&key).is_some() || is_replica {
            call.reply.bulk(&key);
            return Ok(());
        }
        keys.retain(|other| *other != key);
    }
    call.reply.null();
    Ok(())
}

/// `OBJECT ENCODING`: how Redis keeps a value of this type and size.
fn encoding(value: &Value) -> &'static str {
    use super::super::codec::number::parse_integer;
    /// The longest string that Redis keeps together with its header.
    const EMBEDDED_BYTES: usize = 44;
    match value {
        Value::String(string) if string.len() <= 20 && parse_integer(string).is_some() => "int",
        Value::String(string) if string.len() <= EMBEDDED_BYTES => "embstr",
        Value::String(_) => "raw",
        Value::Hash(hash) => hash.encoding(),
        Value::List(_) => "quicklist",
        Value::Set(set) => set.encoding(),
        Value::SortedSet(set) => set.encoding(),
        Value::Stream(_) => "stream",
    }
}

/// How many small integers Redis shares among all keys.
const SHARED_INTEGERS: i64 = 10_000;

fn references(value: &Value) -> i64 {
    let integer =
        value.string().and_then(|string| super::super::codec::number::parse_integer(string));
    match integer {
        Some(0..SHARED_INTEGERS) => i64::from(i32::MAX),
        _ => 1,
    }
}

pub(super) fn object(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    if arguments.len() != 3 {
        return Err(call.unknown_subcommand());
    }
    let word = arguments[1].to_ascii_lowercase();
    let Some(entry) = call.lookup(&arguments[2]) else {
        call.reply.null();
        return Ok(());
    };
    let (encoding, references) = (encoding(&entry.value), references(&entry.value));
    match word.as_slice() {
        b"encoding" => call.reply.bulk(encoding.as_bytes()),
        b"refcount" => call.reply.integer(references),
        // When keys were looked at is not kept.
        b"idletime" => call.reply.integer(0),
        _ => {
            return Err("ERR An LFU maxmemory policy is not selected, access frequency not \
                        tracked. Please note that when switching between policies at runtime LRU \
                        and LFU data will take some time to adjust."
                .into());
        }
    }
    Ok(())
}
