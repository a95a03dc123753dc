//! Hashes.

use bytes::Bytes;

use super::super::codec::ReplyEncoder;
use super::super::codec::extended::Extended;
use super::super::codec::number::parse_integer;
use super::super::keyspace::Hash;
use super::super::pubsub::event::HASH;
use super::string_more::{NOT_A_FLOAT, float_sum};
use super::{Call, Failure, Outcome, wrong_arity};

fn set_fields(call: &mut Call<'_>) -> Result<i64, Failure> {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(wrong_arity(call.name));
    }
    let arguments = call.arguments;
    let pairs = arguments.from(2);
    let added = call.change_and_notify(&arguments[1], HASH, "hset", |hash: &mut Hash| {
        let mut added = 0;
        for index in (0..pairs.len()).step_by(2) {
            let value = Bytes::copy_from_slice(&pairs[index + 1]);
            added += i64::from(hash.insert(&pairs[index], value));
        }
        added
    })?;
    for index in (0..pairs.len()).step_by(2) {
        call.observe_field(&arguments[1], &pairs[index], Some(&pairs[index + 1]));
    }
    call.propagate();
    Ok(added)
}

pub(super) fn hset(call: &mut Call<'_>) -> Outcome {
    let added = set_fields(call)?;
    call.reply.integer(added);
    Ok(())
}

pub(super) fn hmset(call: &mut Call<'_>) -> Outcome {
    set_fields(call)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn hsetnx(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (key, field, value) = (&arguments[1], &arguments[2], &arguments[3]);
    if call.lookup_as::<Hash>(key)?.is_some_and(|hash| hash.get(field).is_some()) {
        call.reply.integer(0);
        return Ok(());
    }
    call.change_and_notify(key, HASH, "hset", |hash: &mut Hash| {
        hash.insert(field, Bytes::copy_from_slice(value))
    })?;
    call.observe_field(key, field, Some(value));
    call.propagate();
    call.reply.integer(1);
    Ok(())
}

/// Answers with what `tell` makes of the hash, which is empty if there is none.
fn ask(call: &mut Call<'_>, tell: impl FnOnce(&Hash, &mut ReplyEncoder)) -> Outcome {
    let arguments = call.arguments;
    call.ask(&arguments[1], |hash: Option<&Hash>, reply| match hash {
        Some(hash) => tell(hash, reply),
        None => tell(&Hash::default(), reply),
    })
}

fn value_or_null(reply: &mut ReplyEncoder, value: Option<&Bytes>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

pub(super) fn hget(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    ask(call, |hash, reply| value_or_null(reply, hash.get(&arguments[2])))
}

pub(super) fn hmget(call: &mut Call<'_>) -> Outcome {
    let fields = call.arguments.from(2);
    ask(call, |hash, reply| {
        reply.array(fields.len());
        fields.iter().for_each(|field| value_or_null(reply, hash.get(field)));
    })
}

pub(super) fn hgetall(call: &mut Call<'_>) -> Outcome {
    ask(call, |hash, reply| {
        reply.map(hash.len());
        for (field, value) in hash.iter() {
            reply.bulk(field);
            reply.bulk(value);
        }
    })
}

pub(super) fn hkeys(call: &mut Call<'_>) -> Outcome {
    ask(call, |hash, reply| {
        reply.array(hash.len());
        hash.iter().for_each(|(field, _)| reply.bulk(field));
    })
}

pub(super) fn hvals(call: &mut Call<'_>) -> Outcome {
    ask(call, |hash, reply| {
        reply.array(hash.len());
        hash.iter().for_each(|(_, value)| reply.bulk(value));
    })
}

pub(super) fn hlen(call: &mut Call<'_>) -> Outcome {
    ask(call, |hash, reply| reply.integer(hash.len() as i64))
}

pub(super) fn hexists(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    ask(call, |hash, reply| reply.integer(i64::from(hash.get(&arguments[2]).is_some())))
}

pub(super) fn hstrlen(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    ask(call, |hash, reply| {
        reply.integer(hash.get(&arguments[2]).map_or(0, Bytes::len) as i64);
    })
}

pub(super) fn hdel(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let fields = arguments.from(2);
    let is_known = call
        .lookup_as::<Hash>(key)?
        .is_some_and(|hash| fields.iter().any(|field| hash.get(field).is_some()));
    let mut deleted = 0;
    if is_known {
        fields.iter().for_each(|field| call.observe_field(key, field, None));
        deleted = call.change_and_notify(key, HASH, "hdel", |hash: &mut Hash| {
            fields.iter().filter(|field| hash.remove(field)).count() as i64
        })?;
        call.propagate();
    }
    call.reply.integer(deleted);
    Ok(())
}

pub(super) fn hincrby(call: &mut Call<'_>) -> Outcome {
    let by = call.integer(3)?;
    let arguments = call.arguments;
    let (key, field) = (&arguments[1], &arguments[2]);
    let value = match call.lookup_as::<Hash>(key)?.and_then(|hash| hash.get(field)) {
        Some(value) => parse_integer(value).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let sum = value.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    let text = Bytes::copy_from_slice(itoa::Buffer::new().format(sum).as_bytes());
    let value = text.clone();
    call.change_and_notify(key, HASH, "hincrby", |hash: &mut Hash| hash.insert(field, text))?;
    call.observe_field(key, field, Some(&value));
    call.propagate();
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (key, field) = (&arguments[1], &arguments[2]);
    let by = Extended::parse(&arguments[3]).ok_or(NOT_A_FLOAT)?;
    if !by.is_finite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let present = call.lookup_as::<Hash>(key)?.and_then(|hash| hash.get(field));
    let sum = float_sum(present, &arguments[3], "ERR hash value is not a float")?;
    call.change_and_notify(key, HASH, "hincrbyfloat", |hash: &mut Hash| {
        hash.insert(field, sum.clone())
    })?;
    // The sum itself: another machine may count otherwise.
    call.propagate_as([&b"HSET"[..], key, field, &sum]);
    call.reply.bulk(&sum);
    Ok(())
}
