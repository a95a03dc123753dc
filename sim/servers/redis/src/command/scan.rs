//! `SCAN` and its kin: walks in pages, with a cursor that the client carries.
//!
//! The order is that of a checksum of the names, and the cursor is the checksum of the next:
//! what is there from the beginning to the end of a walk is seen, whatever comes and goes.

use bytes::Bytes;

use super::super::codec::number::{c_string, format_double, parse_c_unsigned, parse_integer};
use super::super::glob;
use super::super::keyspace::{Hash, Kind, Set, SortedSet};
use super::super::rdb::crc64;
use super::{Call, Failure, Outcome, SYNTAX, is_word};

/// A cursor as Redis reads it with C's `strtoul`: nothing at all is 0, blanks before it are not
/// taken.
fn cursor(text: &[u8]) -> Result<u64, Failure> {
    let text = c_string(text);
    match text.first() {
        None => Ok(0),
        Some(b' ' | b'\t'..=b'\r') => Err("ERR invalid cursor".into()),
        Some(_) => parse_c_unsigned(text).ok_or("ERR invalid cursor".into()),
    }
}

struct Options<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

fn options<'a>(call: &Call<'a>, mut index: usize, of_keys: bool) -> Result<Options<'a>, Failure> {
    let arguments = call.arguments;
    let mut options = Options { count: 10, pattern: None, kind: None };
    while index < arguments.len() {
        let value = arguments.get(index + 1).ok_or(SYNTAX)?;
        if call.is(index, "count") {
            let count = call.integer(index + 1)?;
            options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
        } else if call.is(index, "match") {
            options.pattern = Some(value);
        } else if of_keys && call.is(index, "type") {
            options.kind = Some(value);
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    Ok(options)
}

/// The next page of some named things, and the cursor behind it.
fn page<T>(mut all: Vec<(Bytes, T)>, cursor: u64, count: usize) -> (u64, Vec<(Bytes, T)>) {
    all.retain(|(name, _)| crc64(name) >= cursor);
    all.sort_by_key(|(name, _)| crc64(name));
    let mut end = count.min(all.len());
    // Those of the same checksum go together.
    while end > 0 && end < all.len() && crc64(&all[end].0) == crc64(&all[end - 1].0) {
        end += 1;
    }
    let next = all.get(end).map_or(0, |(name, _)| crc64(name));
    all.truncate(end);
    (next, all)
}

fn reply_cursor(call: &mut Call<'_>, cursor: u64) {
    call.reply.array(2);
    call.reply.bulk(cursor.to_string().as_bytes());
}

pub(super) fn scan(call: &mut Call<'_>) -> Outcome {
    let from = cursor(&call.arguments[1])?;
    let Options { count, pattern, kind } = options(call, 2, true)?;
    call.pending.is_loose |= call.may_block;
    let database = &call.state.databases[call.client.database];
    let keys = database.iter().map(|(key, _)| (Bytes::copy_from_slice(key), ())).collect();
    let (next, mut found) = page(keys, from, count);
    found.retain(|(key, ())| {
        pattern.is_none_or(|pattern| glob::matches(pattern, key, false))
            && call
                .lookup(key)
                .is_some_and(|entry| kind.is_none_or(|kind| is_word(kind, entry.value.type_name())))
    });
    reply_cursor(call, next);
    call.reply.array(found.len());
    found.iter().for_each(|(key, ())| call.reply.bulk(key));
    Ok(())
}

/// A walk through what is under a key: names and, if there are any, what belongs to them.
/// What is small is told at once and in its order, whatever the cursor.
fn walk<T: Kind>(
    call: &mut Call<'_>,
    list: impl FnOnce(&T) -> (Vec<(Bytes, Option<Bytes>)>, bool),
) -> Outcome {
    let arguments = call.arguments;
    let from = cursor(&arguments[2])?;
    let Some(value) = call.lookup_as::<T>(&arguments[1])? else {
        reply_cursor(call, 0);
        call.reply.array(0);
        return Ok(());
    };
    let (all, is_small) = list(value);
    let Options { count, pattern, .. } = options(call, 3, false)?;
    let (next, mut found) = if is_small { (0, all) } else { page(all, from, count) };
    found.retain(|(name, _)| pattern.is_none_or(|pattern| glob::matches(pattern, name, false)));
    reply_cursor(call, next);
    let has_values = found.iter().any(|(_, value)| value.is_some());
    call.reply.array(if has_values { 2 * found.len() } else { found.len() });
    for (name, value) in &found {
        call.reply.bulk(name);
        if let Some(value) = value {
            call.reply.bulk(value);
        }
    }
    Ok(())
}

pub(super) fn hscan(call: &mut Call<'_>) -> Outcome {
    walk(call, |hash: &Hash| {
        let fields = hash
            .iter()
            .map(|(field, value)| (Bytes::copy_from_slice(field), Some(value.clone())))
            .collect();
        (fields, hash.encoding() == "listpack")
    })
}

pub(super) fn sscan(call: &mut Call<'_>) -> Outcome {
    walk(call, |set: &Set| {
        let members =
            set.members().iter().map(|member| (Bytes::copy_from_slice(member), None)).collect();
        (members, set.encoding() == "intset")
    })
}

pub(super) fn zscan(call: &mut Call<'_>) -> Outcome {
    walk(call, |set: &SortedSet| {
        let members = set
            .iter()
            .map(|(member, score)| {
                (Bytes::copy_from_slice(member), Some(Bytes::from(format_double(score))))
            })
            .collect();
        (members, set.encoding() == "listpack")
    })
}

/// `HRANDFIELD`: one field, or several: different ones, or any where the count is negative.
pub(super) fn hrandfield(call: &mut Call<'_>) -> Outcome {
    use super::super::codec::Protocol;
    let with_values = match call.arguments.len() {
        2 | 3 => false,
        4 if call.is(3, "withvalues") => true,
        _ => return Err(SYNTAX.into()),
    };
    let arguments = call.arguments;
    let count = match arguments.get(2) {
        Some(count) => Some(parse_integer(count).ok_or(super::NOT_AN_INTEGER)?),
        None => None,
    };
    let all: Vec<(Bytes, Bytes)> = call
        .lookup_as::<Hash>(&arguments[1])?
        .map(|hash| {
            hash.iter()
                .map(|(field, value)| (Bytes::copy_from_slice(field), value.clone()))
                .collect()
        })
        .unwrap_or_default();
    let Some(count) = count else {
        match call.drawn(&all) {
            Some((field, _)) => call.reply.bulk(field),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let drawn = call.sample(&all, count)?;
    let nested = with_values && call.reply.protocol() == Protocol::Resp3;
    call.reply.array(if with_values && !nested { 2 * drawn.len() } else { drawn.len() });
    for (field, value) in &drawn {
        if nested {
            call.reply.array(2);
        }
        call.reply.bulk(field);
        if with_values {
            call.reply.bulk(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_sees_everything_that_stays() {
        let names: Vec<(Bytes, ())> =
            (0..1_000).map(|number| (Bytes::from(number.to_string()), ())).collect();
        let (mut from, mut seen) = (0, std::collections::BTreeSet::new());
        loop {
            // Every third goes while the walk goes on.
            let there = names.iter().enumerate().filter(|(index, _)| from == 0 || index % 3 != 0);
            let (next, found) = page(there.map(|(_, name)| name.clone()).collect(), from, 7);
            seen.extend(found.into_iter().map(|(name, ())| name));
            from = next;
            if from == 0 {
                break;
            }
        }
        let stays = names.iter().enumerate().filter(|(index, _)| index % 3 != 0);
        assert!(stays.into_iter().all(|(_, (name, ()))| seen.contains(name)));
    }

    #[test]
    fn cursors_are_read_as_c_reads_them() {
        assert_eq!(cursor(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!((cursor(b""), cursor(b"+5"), cursor(b"-1")), (Ok(0), Ok(5), Ok(u64::MAX)));
        for text in ["18446744073709551616", "x", " 1", "1 ", "-"] {
            assert!(cursor(text.as_bytes()).is_err(), "{text}");
        }
    }
}
