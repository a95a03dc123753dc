//! Strings: `SET` and its kin, counters.

use bytes::Bytes;

use super::super::codec::number::parse_integer;
use super::super::observe::Observation;
use super::super::pubsub::event::{GENERIC, STRING};
use super::{Call, Failure, NOT_AN_INTEGER, Outcome, SYNTAX, is_word, wrong_arity};

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let key = call.arguments.get(1).unwrap_or_default();
    reply_string(call, key)
}

/// Answers with the string under a key, or with null.
pub(super) fn reply_string(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    // A cheap clone, so that the reply can be written to.
    match call.lookup_string(key)?.cloned() {
        Some(value) => call.reply.bulk(&value),
        None => call.reply.null(),
    }
    Ok(())
}

/// When an expiry that a client asked for is: absolute, Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// From now, in units of so many milliseconds.
    In(i64),
    /// Since the epoch, in units of so many milliseconds.
    At(i64),
}

pub(super) fn expiry(call: &Call<'_>, index: usize, when: When) -> Result<i64, Failure> {
    let number = call.integer(index)?;
    let invalid = || format!("ERR invalid expire time in '{}' command", call.name).into();
    if number <= 0 {
        return Err(invalid());
    }
    let (base_ms, unit_ms) = match when {
        When::In(unit_ms) => (call.now_ms, unit_ms),
        When::At(unit_ms) => (0, unit_ms),
    };
    number
        .checked_mul(unit_ms)
        .and_then(|milliseconds| milliseconds.checked_add(base_ms))
        .ok_or_else(invalid)
}

#[derive(Default)]
struct SetOptions {
    if_absent: bool,
    if_present: bool,
    keep_expiry: bool,
    get: bool,
    /// The argument and its meaning.
    expiry: Option<(usize, When)>,
}

fn set_options(call: &Call<'_>) -> Result<SetOptions, Failure> {
    let mut options = SetOptions::default();
    let mut index = 3;
    while index < call.arguments.len() {
        let word = &call.arguments[index];
        let has_more = index + 1 < call.arguments.len();
        let is = |name: &str| is_word(word, name);
        let may_expire = options.expiry.is_none() && !options.keep_expiry && has_more;
        if is("nx") && !options.if_present {
            options.if_absent = true;
        } else if is("xx") && !options.if_absent {
            options.if_present = true;
        } else if is("get") {
            options.get = true;
        } else if is("keepttl") && options.expiry.is_none() {
            options.keep_expiry = true;
        } else if may_expire && let Some(when) = expiry_word(word) {
            index += 1;
            options.expiry = Some((index, when));
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    Ok(options)
}

pub(super) fn expiry_word(word: &[u8]) -> Option<When> {
    [("px", When::In(1)), ("ex", When::In(1_000)), ("pxat", When::At(1)), ("exat", When::At(1_000))]
        .into_iter()
        .find(|(name, _)| is_word(word, name))
        .map(|(_, when)| when)
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let options = set_options(call)?;
    let expires_at_ms =
        options.expiry.map(|(index, when)| expiry(call, index, when)).transpose()?;
    let arguments = call.arguments;
    let (key, value) = (&arguments[1], &arguments[2]);
    let observer = &call.shared.observer.clone();
    let origin = call.client.origin;
    // Whatever it is, it is replaced; but only a string can be answered.
    let previous = if options.get { call.lookup_string(key)?.cloned() } else { None };
    let found = call.lookup_expiry(key);
    if options.if_absent
        && let Some(entry) = call.lookup(key)
    {
        if let Some(present) = entry.value.string() {
            observer.observe(&Observation::SetRefused { origin, key, value, present });
        }
        match previous {
            Some(previous) => call.reply.bulk(&previous),
            None => call.reply.null(),
        }
        return Ok(());
    }
    if options.if_present && found.is_none() {
        call.reply.null();
        return Ok(());
    }
    let expires_at_ms = if options.keep_expiry { found.flatten() } else { expires_at_ms };
    call.put_string(key, Bytes::copy_from_slice(value), expires_at_ms);
    call.notify(STRING, "set", key);
    if options.expiry.is_some() {
        call.notify(GENERIC, "expire", key);
    }
    match (options.expiry, expires_at_ms) {
        (Some(_), Some(at_ms)) => propagate_set(call, key, value, at_ms),
        _ if options.get => {
            let without_get = |argument: &&[u8]| !is_word(argument, "get");
            // Key and value may read like the option.
            let options: Vec<&[u8]> = arguments
                .iter()
                .take(3)
                .chain(arguments.from(3).iter().filter(without_get))
                .collect();
            call.propagate_as(options);
        }
        _ => call.propagate(),
    }
    match (options.get, previous) {
        (false, _) => call.reply.ok(),
        (true, Some(previous)) => call.reply.bulk(&previous),
        (true, None) => call.reply.null(),
    }
    Ok(())
}

/// Expiries travel as absolute times: a late replica must not extend a lease.
fn propagate_set(call: &mut Call<'_>, key: &[u8], value: &[u8], at_ms: i64) {
    let mut number = itoa::Buffer::new();
    call.propagate_as([&b"SET"[..], key, value, b"PXAT", number.format(at_ms).as_bytes()]);
}

fn set_with_expiry(call: &mut Call<'_>, when: When) -> Outcome {
    let at_ms = expiry(call, 2, when)?;
    let arguments = call.arguments;
    call.lookup(&arguments[1]);
    call.put_string(&arguments[1], Bytes::copy_from_slice(&arguments[3]), Some(at_ms));
    call.notify(STRING, "set", &arguments[1]);
    call.notify(GENERIC, "expire", &arguments[1]);
    propagate_set(call, &arguments[1], &arguments[3], at_ms);
    call.reply.ok();
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_>) -> Outcome {
    set_with_expiry(call, When::In(1_000))
}

pub(super) fn psetex(call: &mut Call<'_>) -> Outcome {
    set_with_expiry(call, When::In(1))
}

pub(super) fn setnx(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (key, value) = (&arguments[1], &arguments[2]);
    let observer = &call.shared.observer.clone();
    let origin = call.client.origin;
    if let Some(entry) = call.lookup(key) {
        if let Some(present) = entry.value.string() {
            observer.observe(&Observation::SetRefused { origin, key, value, present });
        }
        call.reply.integer(0);
    } else {
        call.put_string(key, Bytes::copy_from_slice(value), None);
        call.notify(STRING, "set", key);
        call.propagate();
        call.reply.integer(1);
    }
    Ok(())
}

pub(super) fn getset(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    reply_string(call, &arguments[1])?;
    call.put_string(&arguments[1], Bytes::copy_from_slice(&arguments[2]), None);
    call.notify(STRING, "set", &arguments[1]);
    call.propagate_as([&b"SET"[..], &arguments[1], &arguments[2]]);
    Ok(())
}

pub(super) fn getdel(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    reply_string(call, &arguments[1])?;
    if call.remove(&arguments[1]) {
        call.notify(GENERIC, "del", &arguments[1]);
        call.propagate_as([&b"DEL"[..], &arguments[1]]);
    }
    Ok(())
}

pub(super) fn mget(call: &mut Call<'_>) -> Outcome {
    let keys = call.arguments.from(1);
    call.reply.array(keys.len());
    for key in keys.iter() {
        // Whatever is not a string reads as nothing.
        match call.lookup_string(key).ok().flatten().cloned() {
            Some(value) => call.reply.bulk(&value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn set_many(call: &mut Call<'_>) -> Result<(), Failure> {
    let pairs = call.arguments.from(1);
    for index in (0..pairs.len()).step_by(2) {
        call.lookup(&pairs[index]);
        call.put_string(&pairs[index], Bytes::copy_from_slice(&pairs[index + 1]), None);
        call.notify(STRING, "set", &pairs[index]);
    }
    call.propagate();
    Ok(())
}

fn check_pairs(call: &Call<'_>) -> Outcome {
    if call.arguments.len().is_multiple_of(2) { Err(wrong_arity(call.name)) } else { Ok(()) }
}

pub(super) fn mset(call: &mut Call<'_>) -> Outcome {
    check_pairs(call)?;
    set_many(call)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn msetnx(call: &mut Call<'_>) -> Outcome {
    check_pairs(call)?;
    let keys = call.arguments.from(1);
    for key in keys.iter().step_by(2) {
        if call.lookup(key).is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    set_many(call)?;
    call.reply.integer(1);
    Ok(())
}

pub(super) fn append(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (key, tail) = (&arguments[1], &arguments[2]);
    let limit = usize::try_from(call.shared.settings.requests.argument_bytes).unwrap_or(usize::MAX);
    let mut value = match call.lookup_string(key)? {
        Some(value) if value.len() + tail.len() > limit => {
            return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
        }
        Some(value) => value.to_vec(),
        None => Vec::new(),
    };
    value.extend_from_slice(tail);
    let length = value.len();
    let expires_at_ms = call.lookup_expiry(key).flatten();
    call.put_string(key, Bytes::from(value), expires_at_ms);
    call.notify(STRING, "append", key);
    call.propagate();
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn strlen(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let length = call.lookup_string(&arguments[1])?.map_or(0, Bytes::len);
    call.reply.integer(length as i64);
    Ok(())
}

fn add(call: &mut Call<'_>, by: i64) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let value = match call.lookup_string(key)? {
        Some(value) => parse_integer(value).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = value.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    let expires_at_ms = call.lookup_expiry(key).flatten();
    let text = Bytes::copy_from_slice(itoa::Buffer::new().format(sum).as_bytes());
    call.put_string(key, text, expires_at_ms);
    call.notify(STRING, "incrby", key);
    call.propagate();
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_>) -> Outcome {
    let by = call.integer(2)?;
    add(call, by)
}

pub(super) fn decrby(call: &mut Call<'_>) -> Outcome {
    let by = call.integer(2)?;
    add(call, by.checked_neg().ok_or("ERR decrement would overflow")?)
}
