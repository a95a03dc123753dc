//! Lists, but for what waits: [`list_pop`](super::list_pop).

use bytes::Bytes;

use super::super::codec::ReplyEncoder;
use super::super::keyspace::{End, List};
use super::super::pubsub::event::LIST;
use super::{Call, Failure, Outcome, SYNTAX};

const NO_KEY: &str = "ERR no such key";

fn push(call: &mut Call<'_>, end: End, only_if_there: bool) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    if call.lookup_as::<List>(key)?.is_none() && only_if_there {
        call.reply.integer(0);
        return Ok(());
    }
    let event = if end == End::Left { "lpush" } else { "rpush" };
    let length = call.change_and_notify(key, LIST, event, |list: &mut List| {
        for element in arguments.from(2).iter() {
            list.push(end, Bytes::copy_from_slice(element));
        }
        list.len()
    })?;
    call.propagate();
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn lpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left, false)
}

pub(super) fn rpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right, false)
}

pub(super) fn lpushx(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left, true)
}

pub(super) fn rpushx(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right, true)
}

pub(super) fn llen(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    call.ask(&arguments[1], |list: Option<&List>, reply| {
        reply.integer(list.map_or(0, List::len) as i64);
    })
}

/// Where an index points that counts from the right when it is negative.
fn position(index: i64, length: usize) -> Option<usize> {
    let from_left = if index < 0 { index.checked_add(length as i64)? } else { index };
    usize::try_from(from_left).ok().filter(|position| *position < length)
}

/// The places of a range both of whose ends count, from the right where they are negative.
pub(super) fn range(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = length as i64;
    let from_left = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let start = from_left(start).max(0);
    let stop = from_left(stop).min(length - 1);
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

pub(super) fn lindex(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    // The key's type comes before the index.
    let index = call.integer(2);
    if call.lookup_as::<List>(&arguments[1])?.is_none() {
        call.reply.null();
        return Ok(());
    }
    let index = index?;
    call.ask(&arguments[1], |list: Option<&List>, reply| {
        let element = list.and_then(|list| list.get(position(index, list.len())?));
        match element {
            Some(element) => reply.bulk(element),
            None => reply.null(),
        }
    })
}

pub(super) fn lset(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let length = call.lookup_as::<List>(key)?.ok_or(NO_KEY)?.len();
    let at = position(call.integer(2)?, length).ok_or("ERR index out of range")?;
    call.change_and_notify(key, LIST, "lset", |list: &mut List| {
        list.set(at, Bytes::copy_from_slice(&arguments[3]))
    })?;
    call.propagate();
    call.reply.ok();
    Ok(())
}

/// Answers with the elements of a range.
pub(super) fn reply_range<'a>(
    reply: &mut ReplyEncoder,
    elements: impl ExactSizeIterator<Item = &'a Bytes>,
) {
    reply.array(elements.len());
    elements.for_each(|element| reply.bulk(element));
}

pub(super) fn lrange(call: &mut Call<'_>) -> Outcome {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let arguments = call.arguments;
    call.ask(&arguments[1], |list: Option<&List>, reply| match list {
        None => reply.array(0),
        Some(list) => {
            let range = range(start, stop, list.len());
            reply_range(reply, list.iter().skip(range.start).take(range.len()));
        }
    })
}

pub(super) fn ltrim(call: &mut Call<'_>) -> Outcome {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let arguments = call.arguments;
    let key = &arguments[1];
    if let Some(list) = call.lookup_as::<List>(key)? {
        let length = list.len();
        let kept = range(start, stop, length);
        call.change_and_notify(key, LIST, "ltrim", |list: &mut List| list.keep(kept.clone()))?;
        if kept.len() < length {
            call.propagate();
        }
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn linsert(call: &mut Call<'_>) -> Outcome {
    let behind = match () {
        () if call.is(2, "after") => 1,
        () if call.is(2, "before") => 0,
        () => return Err(SYNTAX.into()),
    };
    let arguments = call.arguments;
    let (key, pivot) = (&arguments[1], &arguments[3]);
    let Some(list) = call.lookup_as::<List>(key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let Some(at) = list.iter().position(|element| element == pivot) else {
        call.reply.integer(-1);
        return Ok(());
    };
    let length = call.change_and_notify(key, LIST, "linsert", |list: &mut List| {
        list.insert(at + behind, Bytes::copy_from_slice(&arguments[4]));
        list.len()
    })?;
    call.propagate();
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn lrem(call: &mut Call<'_>) -> Outcome {
    let count = call.integer(2)?;
    let arguments = call.arguments;
    let (key, element) = (&arguments[1], &arguments[3]);
    let is_there = call
        .lookup_as::<List>(key)?
        .is_some_and(|list| list.iter().any(|present| present == element));
    if !is_there {
        call.reply.integer(0);
        return Ok(());
    }
    let from = if count < 0 { End::Right } else { End::Left };
    let most = match count.unsigned_abs() {
        0 => usize::MAX,
        count => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let removed = call
        .change_and_notify(key, LIST, "lrem", |list: &mut List| list.remove(from, most, element))?;
    call.propagate();
    call.reply.integer(removed as i64);
    Ok(())
}

/// The options of `LPOS`.
struct Search {
    from: End,
    /// The first match that counts, from 1.
    rank: u64,
    /// How many are wanted; `None`: one, told alone.
    count: Option<usize>,
    /// How many elements are looked at.
    length: usize,
}

fn search(call: &Call<'_>) -> Result<Search, Failure> {
    let mut search = Search { from: End::Left, rank: 1, count: None, length: usize::MAX };
    let words = call.arguments;
    let mut index = 3;
    while index + 1 < words.len() {
        let value = index + 1;
        if call.is(index, "rank") {
            let rank = call.integer(value)?;
            if rank == 0 {
                return Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from \
                            the second ... or use negative to start from the end of the list"
                    .into());
            }
            search.from = if rank < 0 { End::Right } else { End::Left };
            // The least integer has no opposite: C leaves it less than every number of matches.
            search.rank = rank.checked_abs().map_or(1, i64::unsigned_abs);
        } else if call.is(index, "count") {
            let count = call.at_least(value, 0, "ERR COUNT can't be negative")?;
            search.count = Some(if count == 0 { usize::MAX } else { count as usize });
        } else if call.is(index, "maxlen") {
            let length = call.at_least(value, 0, "ERR MAXLEN can't be negative")?;
            search.length = if length == 0 { usize::MAX } else { length as usize };
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    if index < words.len() { Err(SYNTAX.into()) } else { Ok(search) }
}

pub(super) fn lpos(call: &mut Call<'_>) -> Outcome {
    let Search { from, rank, count, length } = search(call)?;
    let arguments = call.arguments;
    let wanted = &arguments[2];
    call.ask(&arguments[1], |list: Option<&List>, reply| {
        let elements = list.map_or(0, List::len);
        let place = |looked: usize| if from == End::Left { looked } else { elements - 1 - looked };
        let matches: Vec<usize> = (0..elements.min(length))
            .map(place)
            .filter(|at| list.and_then(|list| list.get(*at)).is_some_and(|found| found == wanted))
            .skip(usize::try_from(rank - 1).unwrap_or(usize::MAX))
            .take(count.unwrap_or(1))
            .collect();
        match (count, matches.first()) {
            (Some(_), _) => {
                reply.array(matches.len());
                matches.iter().for_each(|at| reply.integer(*at as i64));
            }
            (None, Some(at)) => reply.integer(*at as i64),
            (None, None) => reply.null(),
        }
    })
}
