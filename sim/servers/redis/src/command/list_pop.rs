//! Taking elements out of lists: at once, or once there are some.

use bytes::Bytes;

use super::super::blocking::Wanted;
use super::super::codec::Arguments;
use super::super::keyspace::{End, List};
use super::super::pubsub::event::{GENERIC, LIST};
use super::list::reply_range;
use super::waiting::{self, Timeout};
use super::{Call, Failure, Outcome, POSITIVE, SYNTAX, wrong_arity};

fn pop_event(end: End) -> &'static str {
    if end == End::Left { "lpop" } else { "rpop" }
}

/// Takes elements out of a list that is there.
fn take(call: &mut Call<'_>, key: &[u8], end: End, count: usize) -> Result<Vec<Bytes>, Failure> {
    call.change_and_notify(key, LIST, pop_event(end), |list: &mut List| {
        (0..count).map_while(|_| list.pop(end)).collect()
    })
}

fn pop(call: &mut Call<'_>, end: End) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let count = match arguments.len() {
        2 => None,
        3 => Some(call.at_least(2, 0, POSITIVE)? as usize),
        _ => return Err(wrong_arity(call.name)),
    };
    if call.lookup_as::<List>(key)?.is_none() {
        match count {
            Some(_) => call.reply.null_array(),
            None => call.reply.null(),
        }
        return Ok(());
    }
    if count == Some(0) {
        call.reply.array(0);
        return Ok(());
    }
    let elements = take(call, key, end, count.unwrap_or(1))?;
    call.propagate();
    match (count, elements.first()) {
        (None, Some(element)) => call.reply.bulk(element),
        _ => reply_range(call.reply, elements.iter()),
    }
    Ok(())
}

pub(super) fn lpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Left)
}

pub(super) fn rpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Right)
}

fn end(call: &Call<'_>, index: usize) -> Result<End, Failure> {
    match () {
        () if call.is(index, "left") => Ok(End::Left),
        () if call.is(index, "right") => Ok(End::Right),
        () => Err(SYNTAX.into()),
    }
}

fn word(end: End) -> &'static [u8] {
    if end == End::Left { b"LEFT" } else { b"RIGHT" }
}

/// Moves an element from one list to another. False: the first is not there.
fn move_element(call: &mut Call<'_>, from: End, to: End) -> Result<bool, Failure> {
    let arguments = call.arguments;
    let (source, destination) = (&arguments[1], &arguments[2]);
    if call.lookup_as::<List>(source)?.is_none() {
        return Ok(false);
    }
    call.lookup_as::<List>(destination)?;
    // The key goes last, so that a list that turns in itself keeps its expiry; and Redis
    // tells of the push first.
    let number = call.client.database;
    let database = &mut call.state.databases[number];
    let Some(element) = database.modify_as(source, |list: &mut List| list.pop(from)).flatten()
    else {
        return Ok(false);
    };
    let push_event = if to == End::Left { "lpush" } else { "rpush" };
    call.change(destination, |list: &mut List| list.push(to, element.clone()))?;
    call.notify(LIST, push_event, destination);
    call.notify(LIST, pop_event(from), source);
    let is_spent = call.lookup_as::<List>(source)?.is_some_and(List::is_empty);
    if is_spent {
        call.remove(source);
        call.notify(GENERIC, "del", source);
    } else {
        call.state.touch(number, source);
    }
    call.reply.bulk(&element);
    Ok(true)
}

pub(super) fn lmove(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (end(call, 3)?, end(call, 4)?);
    if move_element(call, from, to)? {
        call.propagate();
    } else {
        call.reply.null();
    }
    Ok(())
}

pub(super) fn rpoplpush(call: &mut Call<'_>) -> Outcome {
    if move_element(call, End::Right, End::Left)? {
        call.propagate();
    } else {
        call.reply.null();
    }
    Ok(())
}

fn move_when_there(call: &mut Call<'_>, from: End, to: End, timeout: Timeout) -> Outcome {
    if !move_element(call, from, to)? {
        if !call.may_block {
            call.reply.null();
            return Ok(());
        }
        let source = call.arguments.part(1..2);
        call.wait_for(source, Wanted::List, timeout);
        return Ok(());
    }
    let arguments = call.arguments;
    let (source, destination) = (&arguments[1], &arguments[2]);
    if call.name == "blmove" {
        call.propagate_as([&b"LMOVE"[..], source, destination, word(from), word(to)]);
    } else {
        call.propagate_as([&b"RPOPLPUSH"[..], source, destination]);
    }
    Ok(())
}

pub(super) fn blmove(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (end(call, 3)?, end(call, 4)?);
    let timeout = waiting::seconds(&call.arguments[5])?;
    move_when_there(call, from, to, timeout)
}

pub(super) fn brpoplpush(call: &mut Call<'_>) -> Outcome {
    let timeout = waiting::seconds(&call.arguments[3])?;
    move_when_there(call, End::Right, End::Left, timeout)
}

/// Takes elements out of the first of some lists that is there, and answers with its key and
/// them. False: none is there.
fn pop_first(
    call: &mut Call<'_>,
    keys: Arguments<'_>,
    end: End,
    count: Option<usize>,
) -> Result<bool, Failure> {
    for key in keys.iter() {
        if !call.looks_at(key) || call.lookup_as::<List>(key)?.is_none() {
            continue;
        }
        let elements = take(call, key, end, count.unwrap_or(1))?;
        call.reply.array(2);
        call.reply.bulk(key);
        let name: &[u8] = if end == End::Left { b"LPOP" } else { b"RPOP" };
        if count.is_some() {
            reply_range(call.reply, elements.iter());
            let mut number = itoa::Buffer::new();
            call.propagate_as([name, key, number.format(elements.len()).as_bytes()]);
        } else {
            elements.iter().for_each(|element| call.reply.bulk(element));
            call.propagate_as([name, key]);
        }
        return Ok(true);
    }
    Ok(false)
}

fn pop_when_there(
    call: &mut Call<'_>,
    keys: Arguments<'_>,
    end: End,
    count: Option<usize>,
    timeout: Timeout,
) -> Outcome {
    if pop_first(call, keys, end, count)? {
        return Ok(());
    }
    if call.may_block {
        call.wait_for(keys, Wanted::List, timeout);
    } else {
        call.reply.null_array();
    }
    Ok(())
}

fn blocking_pop(call: &mut Call<'_>, end: End) -> Outcome {
    let last = call.arguments.len() - 1;
    let timeout = waiting::seconds(&call.arguments[last])?;
    let keys = call.arguments.part(1..last);
    pop_when_there(call, keys, end, None, timeout)
}

pub(super) fn blpop(call: &mut Call<'_>) -> Outcome {
    blocking_pop(call, End::Left)
}

pub(super) fn brpop(call: &mut Call<'_>) -> Outcome {
    blocking_pop(call, End::Right)
}

/// `numkeys key… WHERE [COUNT count]`: the keys, the place of WHERE, the count.
pub(super) fn keys_and_count<'a>(
    call: &Call<'a>,
    numkeys: usize,
) -> Result<(Arguments<'a>, usize, usize), Failure> {
    let arguments = call.arguments;
    let keys = call.at_least(numkeys, 1, "ERR numkeys should be greater than 0")? as usize;
    let first = numkeys + 1;
    let place = first.checked_add(keys).filter(|place| *place < arguments.len()).ok_or(SYNTAX)?;
    let is_word = |word: &str| call.is(place, word);
    if !["left", "right", "min", "max"].into_iter().any(is_word) {
        return Err(SYNTAX.into());
    }
    let count = match arguments.len() - place - 1 {
        0 => 1,
        2 if call.is(place + 1, "count") => {
            call.at_least(place + 2, 1, "ERR count should be greater than 0")? as usize
        }
        // Whatever is wrong with the first count comes first.
        more if more > 2 && call.is(place + 1, "count") => {
            call.at_least(place + 2, 1, "ERR count should be greater than 0")?;
            return Err(SYNTAX.into());
        }
        _ => return Err(SYNTAX.into()),
    };
    Ok((arguments.part(first..place), place, count))
}

pub(super) fn lmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, place, count) = keys_and_count(call, 1)?;
    let end = end(call, place)?;
    if !pop_first(call, keys, end, Some(count))? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn blmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, place, count) = keys_and_count(call, 2)?;
    let end = end(call, place)?;
    let timeout = waiting::seconds(&call.arguments[1])?;
    pop_when_there(call, keys, end, Some(count), timeout)
}
