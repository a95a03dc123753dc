//! `DUMP` and `RESTORE`: one value as bytes, with a version and a checksum.

use super::super::keyspace::Value;
use super::super::pubsub::event::GENERIC;
use super::super::rdb;
use super::{Call, Outcome, SYNTAX};

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    match call.lookup(&arguments[1]).map(|entry| rdb::dump(&entry.value)) {
        Some(payload) => call.reply.bulk(&payload),
        None => call.reply.null(),
    }
    Ok(())
}

/// What `RESTORE` is told besides: replace, and whether the time is absolute.
fn options(call: &Call<'_>) -> Result<(bool, bool), super::Failure> {
    let (mut replace, mut is_absolute) = (false, false);
    let (mut has_idle, mut has_frequency) = (false, false);
    let mut index = 4;
    while index < call.arguments.len() {
        let has_more = index + 1 < call.arguments.len();
        if call.is(index, "replace") {
            replace = true;
        } else if call.is(index, "absttl") {
            is_absolute = true;
        } else if call.is(index, "idletime") && has_more && !has_frequency {
            // Checked, and not kept: when keys were looked at is not known here.
            call.at_least(index + 1, 0, "ERR Invalid IDLETIME value, must be >= 0")?;
            has_idle = true;
            index += 1;
        } else if call.is(index, "freq") && has_more && !has_idle {
            if !(0..=255).contains(&call.integer(index + 1)?) {
                return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
            }
            has_frequency = true;
            index += 1;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    Ok((replace, is_absolute))
}

pub(super) fn restore(call: &mut Call<'_>) -> Outcome {
    let (replace, is_absolute) = options(call)?;
    let arguments = call.arguments;
    let key = &arguments[1];
    if !replace && call.lookup(key).is_some() {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let time_ms = call.integer(2)?;
    if time_ms < 0 {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    }
    let limit = call.shared.settings.resync_limit_bytes;
    let payload = &arguments[3];
    if !rdb::is_whole_dump(payload) {
        return Err("ERR DUMP payload version or checksum are wrong".into());
    }
    let value = rdb::restored(payload, limit).map_err(|_| "ERR Bad data format")?;
    let at_ms = match (time_ms, is_absolute) {
        (0, _) => None,
        (time_ms, true) => Some(time_ms),
        (time_ms, false) => Some(time_ms.saturating_add(call.now_ms)),
    };
    call.lookup(key);
    let is_over = at_ms.is_some_and(|at_ms| at_ms <= call.now_ms);
    if is_over && !call.state.is_replica() {
        if call.remove(key) {
            call.notify(GENERIC, "del", key);
            call.propagate_as([&b"DEL"[..], key]);
        }
        call.reply.ok();
        return Ok(());
    }
    put(call, key, value, at_ms);
    call.notify(GENERIC, "restore", key);
    match at_ms.filter(|_| !is_absolute) {
        None => call.propagate(),
        Some(at_ms) => {
            // A late replica must not prolong it.
            let mut number = itoa::Buffer::new();
            let mut command: Vec<&[u8]> = arguments.iter().collect();
            command[2] = number.format(at_ms).as_bytes();
            command.push(b"ABSTTL");
            call.propagate_as(command);
        }
    }
    call.reply.ok();
    Ok(())
}

fn put(call: &mut Call<'_>, key: &[u8], value: Value, at_ms: Option<i64>) {
    match value {
        Value::String(text) => call.put_string(key, text, at_ms),
        Value::Hash(hash) => call.put(key, hash, at_ms),
        Value::List(list) => call.put(key, list, at_ms),
        Value::Set(set) => call.put(key, set, at_ms),
        Value::SortedSet(set) => call.put(key, set, at_ms),
        Value::Stream(stream) => call.put(key, *stream, at_ms),
    }
}
