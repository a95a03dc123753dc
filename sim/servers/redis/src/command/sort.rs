//! `SORT`: the elements of a list, a set or a sorted set in another order, or what keys named
//! after them hold.
//!
//! Order of things: what is asked for ([`Wanted`]), what a pattern leads to, the order, the
//! answer. Elements that compare equal by a pattern stay in their order.

use std::cmp::Ordering;

use bytes::Bytes;

use super::super::codec::number::parse_c_double;
use super::super::keyspace::{End, Hash, List, Value};
use super::super::pubsub::event::{GENERIC, LIST};
use super::{Call, Failure, Outcome, SYNTAX, WRONG_TYPE, shown, word};

struct Wanted<'a> {
    is_descending: bool,
    /// By bytes, not by numbers.
    is_alphabetic: bool,
    /// How many are left out at the beginning, and how many are wanted; below 0: all.
    limit: (i64, i64),
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    store: Option<&'a [u8]>,
}

fn wanted<'a>(call: &Call<'a>, may_store: bool) -> Result<Wanted<'a>, Failure> {
    let arguments = call.arguments;
    let mut wanted = Wanted {
        is_descending: false,
        is_alphabetic: false,
        limit: (0, -1),
        by: None,
        get: Vec::new(),
        store: None,
    };
    let mut index = 2;
    while index < arguments.len() {
        let value = arguments.get(index + 1);
        match (word(&arguments[index]).as_slice(), value) {
            (b"asc", _) => wanted.is_descending = false,
            (b"desc", _) => wanted.is_descending = true,
            (b"alpha", _) => wanted.is_alphabetic = true,
            (b"limit", _) if index + 2 < arguments.len() => {
                wanted.limit = (call.integer(index + 1)?, call.integer(index + 2)?);
                index += 2;
            }
            (b"store", Some(key)) if may_store => {
                wanted.store = Some(key);
                index += 1;
            }
            (b"by", Some(pattern)) => {
                wanted.by = Some(pattern);
                index += 1;
            }
            (b"get", Some(pattern)) => {
                wanted.get.push(pattern);
                index += 1;
            }
            _ => return Err(SYNTAX.into()),
        }
        index += 1;
    }
    Ok(wanted)
}

/// The star in a pattern: C's strings end at their first zero.
fn star(pattern: &[u8]) -> Option<usize> {
    shown(pattern).iter().position(|byte| *byte == b'*')
}

/// What a pattern leads to from an element: itself (`#`), or the string, or the field of a
/// hash (`key->field`), under the key in whose name the element takes the star's place.
fn follow(call: &mut Call<'_>, pattern: &[u8], element: &Bytes) -> Option<Bytes> {
    if shown(pattern) == b"#" {
        return Some(element.clone());
    }
    let star = star(pattern)?;
    let (prefix, rest) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = shown(rest).windows(2).position(|pair| pair == b"->");
    // A field's name is not empty.
    let arrow = arrow.filter(|at| rest.get(at + 2).is_some_and(|byte| *byte != 0));
    let (postfix, field) = match arrow {
        Some(at) => (&rest[..at], Some(&rest[at + 2..])),
        None => (rest, None),
    };
    let key = [prefix, &element[..], postfix].concat();
    let value = &call.lookup(&key)?.value;
    match field {
        Some(field) => match value {
            Value::Hash(hash) => Hash::get(hash, field).cloned(),
            _ => None,
        },
        None => value.string().cloned(),
    }
}

fn number(text: &[u8]) -> Option<f64> {
    parse_c_double(text).and_then(|(number, is_in_range)| is_in_range.then_some(number))
}

/// The elements, and whether their own order means something.
fn elements(call: &mut Call<'_>) -> Result<(Vec<Bytes>, bool), Failure> {
    let arguments = call.arguments;
    let Some(entry) = call.lookup(&arguments[1]) else { return Ok((Vec::new(), true)) };
    match &entry.value {
        Value::List(list) => Ok((list.iter().cloned().collect(), true)),
        Value::Set(set) => {
            let members = set.members();
            Ok((members.iter().map(|member| Bytes::copy_from_slice(member)).collect(), false))
        }
        Value::SortedSet(set) => {
            Ok((set.iter().map(|(member, _)| Bytes::copy_from_slice(member)).collect(), true))
        }
        _ => Err(WRONG_TYPE.into()),
    }
}

/// What an element is compared by.
enum Weight {
    Number(f64),
    /// `None`: its pattern led to nothing, which comes first.
    Text(Option<Bytes>),
}

fn compare(left: &(Weight, Bytes), right: &(Weight, Bytes)) -> Ordering {
    match (&left.0, &right.0) {
        (Weight::Number(this), Weight::Number(that)) => {
            this.partial_cmp(that).unwrap_or(Ordering::Equal).then_with(|| left.1.cmp(&right.1))
        }
        (Weight::Text(this), Weight::Text(that)) => {
            this.as_deref().map(shown).cmp(&that.as_deref().map(shown))
        }
        _ => Ordering::Equal,
    }
}

/// Sorts by the elements themselves, or by what `by` leads to.
fn sorted(
    call: &mut Call<'_>,
    elements: Vec<Bytes>,
    wanted: &Wanted<'_>,
) -> Result<Vec<Bytes>, Failure> {
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        let text = match wanted.by {
            Some(pattern) => follow(call, pattern, &element),
            None => Some(element.clone()),
        };
        let weight = match (wanted.is_alphabetic, text) {
            (true, text) => Weight::Text(text),
            (false, None) => Weight::Number(0.0),
            (false, Some(text)) => Weight::Number(
                number(&text).ok_or("ERR One or more scores can't be converted into double")?,
            ),
        };
        weighed.push((weight, element));
    }
    match wanted.is_descending {
        false => weighed.sort_by(compare),
        true => weighed.sort_by(|left, right| compare(left, right).reverse()),
    }
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

fn limited(elements: Vec<Bytes>, (skip, count): (i64, i64)) -> Vec<Bytes> {
    let skip = usize::try_from(skip).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    elements.into_iter().skip(skip).take(count).collect()
}

fn sort_as(call: &mut Call<'_>, may_store: bool) -> Outcome {
    let mut wanted = wanted(call, may_store)?;
    let (mut elements, has_order) = elements(call)?;
    // A pattern without a star asks for the order that is there; but hash tables have none
    // that replicas and scripts could rely on.
    let mut keeps_order = wanted.by.is_some_and(|pattern| star(pattern).is_none());
    if keeps_order && !has_order && (wanted.store.is_some() || call.is_of_script) {
        keeps_order = false;
        wanted.is_alphabetic = true;
        wanted.by = None;
    }
    if !keeps_order {
        elements = sorted(call, elements, &wanted)?;
    } else if wanted.is_descending && has_order {
        elements.reverse();
    }
    let elements = limited(elements, wanted.limit);
    let mut found = Vec::new();
    for element in elements {
        if wanted.get.is_empty() {
            found.push(Some(element));
            continue;
        }
        for pattern in &wanted.get {
            found.push(follow(call, pattern, &element));
        }
    }
    let Some(key) = wanted.store else {
        call.reply.array(found.len());
        for element in &found {
            match element {
                Some(element) => call.reply.bulk(element),
                None => call.reply.null(),
            }
        }
        return Ok(());
    };
    store(call, key, found);
    Ok(())
}

fn store(call: &mut Call<'_>, key: &[u8], found: Vec<Option<Bytes>>) {
    let length = found.len();
    call.lookup(key);
    if length > 0 {
        let mut list = List::default();
        for element in found {
            list.push(End::Right, element.unwrap_or_default());
        }
        call.put(key, list, None);
        call.notify(LIST, "sortstore", key);
        call.propagate();
    } else if call.remove(key) {
        call.notify(GENERIC, "del", key);
        call.propagate();
    }
    call.reply.integer(length as i64);
}

pub(super) fn sort(call: &mut Call<'_>) -> Outcome {
    sort_as(call, true)
}

pub(super) fn sort_ro(call: &mut Call<'_>) -> Outcome {
    sort_as(call, false)
}
