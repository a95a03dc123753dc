//! Parts of strings, and strings whose expiry is changed while they are read.

use bytes::Bytes;

use super::super::codec::extended::Extended;
use super::super::pubsub::event::{GENERIC, STRING};
use super::string::{When, expiry, expiry_word, reply_string};
use super::{Call, Failure, Outcome, SYNTAX, is_word};

/// What `GETEX` does to the expiry.
enum Change {
    Nothing,
    Persist,
    /// The argument and its meaning.
    Expire(usize, When),
}

pub(super) fn getex(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let mut change = Change::Nothing;
    let mut index = 2;
    while index < arguments.len() {
        let word = &arguments[index];
        change = match (change, expiry_word(word)) {
            (Change::Nothing | Change::Persist, None) if is_word(word, "persist") => {
                Change::Persist
            }
            (Change::Nothing, Some(when)) if index + 1 < arguments.len() => {
                index += 1;
                Change::Expire(index, when)
            }
            (Change::Expire(_, before), Some(when))
                if before == when && index + 1 < arguments.len() =>
            {
                index += 1;
                Change::Expire(index, when)
            }
            _ => return Err(SYNTAX.into()),
        };
        index += 1;
    }
    let key = &arguments[1];
    if call.lookup_string(key)?.is_none() {
        call.reply.null();
        return Ok(());
    }
    let at_ms = match change {
        Change::Expire(index, when) => Some(expiry(call, index, when)?),
        _ => None,
    };
    reply_string(call, key)?;
    match (change, at_ms) {
        (Change::Nothing, _) => {}
        (_, Some(at_ms)) if at_ms <= call.now_ms && !call.state.is_replica() => {
            call.remove(key);
            call.propagate_as([&b"DEL"[..], key]);
            call.notify(GENERIC, "del", key);
        }
        (_, Some(at_ms)) => {
            call.put_expiry(key, Some(at_ms));
            let mut number = itoa::Buffer::new();
            call.propagate_as([&b"PEXPIREAT"[..], key, number.format(at_ms).as_bytes()]);
            call.notify(GENERIC, "expire", key);
        }
        (_, None) => {
            if call.lookup_expiry(key).flatten().is_some() {
                call.put_expiry(key, None);
                call.propagate_as([&b"PERSIST"[..], key]);
                call.notify(GENERIC, "persist", key);
            }
        }
    }
    Ok(())
}

pub(super) fn getrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let arguments = call.arguments;
    let value = call.lookup_string(&arguments[1])?.cloned().unwrap_or_default();
    let length = value.len() as i64;
    let from_left =
        |index: i64| if index < 0 { index.saturating_add(length).max(0) } else { index };
    // Two places before the beginning, the second before the first, are nothing.
    let is_nothing = start < 0 && end < 0 && start > end;
    let (start, end) = (from_left(start), from_left(end).min(length - 1));
    let part = if is_nothing || start > end || length == 0 {
        Bytes::new()
    } else {
        value.slice(start as usize..end as usize + 1)
    };
    call.reply.bulk(&part);
    Ok(())
}

pub(super) fn setrange(call: &mut Call<'_>) -> Outcome {
    let offset = call.integer(2)?;
    let offset = usize::try_from(offset).map_err(|_| "ERR offset is out of range")?;
    let arguments = call.arguments;
    let (key, part) = (&arguments[1], &arguments[3]);
    let value = call.lookup_string(key)?.cloned();
    let length = value.as_ref().map_or(0, Bytes::len);
    if part.is_empty() {
        call.reply.integer(length as i64);
        return Ok(());
    }
    let settings = &call.shared.settings;
    let limit = usize::try_from(settings.requests.argument_bytes).unwrap_or(usize::MAX);
    // Nor may one string be larger than the whole data set.
    let limit = limit.min(settings.memory_bytes);
    let end = offset.checked_add(part.len()).filter(|end| *end <= limit);
    let end = end.ok_or("ERR string exceeds maximum allowed size (proto-max-bulk-len)")?;
    let mut value = value.map_or_else(Vec::new, |value| value.to_vec());
    value.resize(length.max(end), 0);
    value[offset..end].copy_from_slice(part);
    let length = value.len();
    let expires_at_ms = call.lookup_expiry(key).flatten();
    call.put_string(key, Bytes::from(value), expires_at_ms);
    call.notify(STRING, "setrange", key);
    call.propagate();
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) const NOT_A_FLOAT: &str = "ERR value is not a valid float";

/// The sum of what is there and an increment, as text.
pub(super) fn float_sum(
    present: Option<&Bytes>,
    by: &[u8],
    unreadable: &'static str,
) -> Result<Bytes, Failure> {
    let present = match present {
        Some(text) => Extended::parse(text).ok_or(unreadable)?,
        None => Extended::ZERO,
    };
    let by = Extended::parse(by).ok_or(NOT_A_FLOAT)?;
    let sum = present.sum(by).ok_or("ERR increment would produce NaN or Infinity")?;
    Ok(Bytes::from(sum.text()))
}

pub(super) fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let sum = float_sum(call.lookup_string(key)?, &arguments[2], NOT_A_FLOAT)?;
    let expires_at_ms = call.lookup_expiry(key).flatten();
    call.put_string(key, sum.clone(), expires_at_ms);
    call.notify(STRING, "incrbyfloat", key);
    // The sum itself: another machine may count otherwise.
    call.propagate_as([&b"SET"[..], key, &sum, b"KEEPTTL"]);
    call.reply.bulk(&sum);
    Ok(())
}
