//! Sets.

use std::sync::Arc;

use super::super::codec::Arguments;
use super::super::keyspace::Set;
use super::super::pubsub::event::{GENERIC, SET};
use super::{Call, Failure, Outcome, POSITIVE, SYNTAX};

pub(super) fn sadd(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let members = arguments.from(2);
    let changes = call
        .lookup_as::<Set>(key)?
        .is_none_or(|set| members.iter().any(|member| !set.contains(member)));
    let mut added = 0;
    if changes {
        added = call.change_and_notify(key, SET, "sadd", |set: &mut Set| {
            members.iter().filter(|member| set.insert(member)).count() as i64
        })?;
        call.propagate();
    }
    call.reply.integer(added);
    Ok(())
}

pub(super) fn srem(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let members = arguments.from(2);
    let changes = call
        .lookup_as::<Set>(key)?
        .is_some_and(|set| members.iter().any(|member| set.contains(member)));
    let mut removed = 0;
    if changes {
        removed = call.change_and_notify(key, SET, "srem", |set: &mut Set| {
            members.iter().filter(|member| set.remove(member)).count() as i64
        })?;
        call.propagate();
    }
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn scard(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    call.ask(&arguments[1], |set: Option<&Set>, reply| {
        reply.integer(set.map_or(0, Set::len) as i64);
    })
}

pub(super) fn sismember(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    call.ask(&arguments[1], |set: Option<&Set>, reply| {
        reply.integer(i64::from(set.is_some_and(|set| set.contains(&arguments[2]))));
    })
}

pub(super) fn smismember(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let members = arguments.from(2);
    call.ask(&arguments[1], |set: Option<&Set>, reply| {
        reply.array(members.len());
        for member in members.iter() {
            reply.integer(i64::from(set.is_some_and(|set| set.contains(member))));
        }
    })
}

pub(super) fn smembers(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let members = members(call, &arguments[1])?;
    reply_members(call, &members);
    Ok(())
}

type Members = Vec<Arc<[u8]>>;

/// The members of the set under a key; none if there is none.
fn members(call: &mut Call<'_>, key: &[u8]) -> Result<Members, Failure> {
    Ok(call.lookup_as::<Set>(key)?.map(Set::members).unwrap_or_default())
}

fn reply_members(call: &mut Call<'_>, members: &[Arc<[u8]>]) {
    call.reply.set(members.len());
    members.iter().for_each(|member| call.reply.bulk(member));
}

pub(super) fn smove(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let (source, destination, member) = (&arguments[1], &arguments[2], &arguments[3]);
    let Some(set) = call.lookup_as::<Set>(source)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let is_there = set.contains(member);
    let is_in_both = call.lookup_as::<Set>(destination)?.is_some_and(|set| set.contains(member));
    if is_there && source != destination {
        call.change_and_notify(source, SET, "srem", |set: &mut Set| set.remove(member))?;
        if !is_in_both {
            call.change_and_notify(destination, SET, "sadd", |set: &mut Set| set.insert(member))?;
        }
        call.propagate();
    }
    call.reply.integer(i64::from(is_there));
    Ok(())
}

pub(super) fn spop(call: &mut Call<'_>) -> Outcome {
    let count = match call.arguments.len() {
        2 => None,
        3 => Some(call.at_least(2, 0, POSITIVE)?),
        _ => return Err(SYNTAX.into()),
    };
    let arguments = call.arguments;
    let key = &arguments[1];
    let all = members(call, key)?;
    let drawn = call.sample(&all, count.unwrap_or(1))?;
    if !drawn.is_empty() {
        call.change_and_notify(key, SET, "spop", |set: &mut Set| {
            drawn.iter().for_each(|member| {
                set.remove(member);
            });
        })?;
        if count.is_some() && drawn.len() == all.len() {
            call.propagate_as([&b"DEL"[..], key]);
        } else {
            for member in &drawn {
                call.propagate_as([&b"SREM"[..], key, member]);
            }
        }
    }
    match (count, drawn.first()) {
        (None, Some(member)) => call.reply.bulk(member),
        (None, None) => call.reply.null(),
        (Some(_), _) => reply_members(call, &drawn),
    }
    Ok(())
}

pub(super) fn srandmember(call: &mut Call<'_>) -> Outcome {
    let count = match call.arguments.len() {
        2 => None,
        3 => Some(call.integer(2)?),
        _ => return Err(SYNTAX.into()),
    };
    let arguments = call.arguments;
    let all = members(call, &arguments[1])?;
    let Some(count) = count else {
        match call.drawn(&all) {
            Some(member) => call.reply.bulk(member),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let drawn = call.sample(&all, count)?;
    call.reply.array(drawn.len());
    drawn.iter().for_each(|member| call.reply.bulk(member));
    Ok(())
}

/// How sets are made into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

impl Operation {
    fn event(self) -> &'static str {
        match self {
            Operation::Intersection => "sinterstore",
            Operation::Union => "sunionstore",
            Operation::Difference => "sdiffstore",
        }
    }
}

fn combine(call: &mut Call<'_>, keys: Arguments<'_>, operation: Operation) -> Result<Set, Failure> {
    // Whatever the result: each key must hold a set, or nothing.
    for key in keys.iter() {
        call.lookup_as::<Set>(key)?;
    }
    let mut result = Set::default();
    for (index, key) in keys.iter().enumerate() {
        let next = call.lookup_as::<Set>(key)?;
        match operation {
            Operation::Union => next.into_iter().flat_map(Set::iter).for_each(|member| {
                result.insert(member);
            }),
            _ if index == 0 => {
                next.into_iter().flat_map(Set::iter).for_each(|member| {
                    result.insert(member);
                });
            }
            Operation::Difference => next.into_iter().flat_map(Set::iter).for_each(|member| {
                result.remove(member);
            }),
            Operation::Intersection => {
                let kept: Members = result
                    .iter()
                    .filter(|member| next.is_some_and(|next| next.contains(member)))
                    .cloned()
                    .collect();
                result = Set::default();
                kept.iter().for_each(|member| {
                    result.insert(member);
                });
            }
        }
    }
    Ok(result)
}

fn tell(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let keys = call.arguments.from(1);
    let members = combine(call, keys, operation)?.members();
    reply_members(call, &members);
    Ok(())
}

fn store(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let arguments = call.arguments;
    let destination = &arguments[1];
    let set = combine(call, arguments.from(2), operation)?;
    let count = set.len();
    call.lookup(destination);
    if !set.is_empty() {
        call.put(destination, set, None);
        call.notify(SET, operation.event(), destination);
        call.propagate();
    } else if call.remove(destination) {
        call.notify(GENERIC, "del", destination);
        call.propagate();
    }
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn sinter(call: &mut Call<'_>) -> Outcome {
    tell(call, Operation::Intersection)
}

pub(super) fn sunion(call: &mut Call<'_>) -> Outcome {
    tell(call, Operation::Union)
}

pub(super) fn sdiff(call: &mut Call<'_>) -> Outcome {
    tell(call, Operation::Difference)
}

pub(super) fn sinterstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Intersection)
}

pub(super) fn sunionstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Union)
}

pub(super) fn sdiffstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Difference)
}

pub(super) fn sintercard(call: &mut Call<'_>) -> Outcome {
    let count = call.at_least(1, 1, "ERR numkeys should be greater than 0")?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let arguments = call.arguments;
    if count > arguments.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let mut limit = 0;
    let mut index = 2 + count;
    while index < arguments.len() {
        if !call.is(index, "limit") || index + 1 >= arguments.len() {
            return Err(SYNTAX.into());
        }
        limit = call.at_least(index + 1, 0, "ERR LIMIT can't be negative")?;
        index += 2;
    }
    let size = combine(call, arguments.part(2..2 + count), Operation::Intersection)?.len() as i64;
    call.reply.integer(if limit > 0 { size.min(limit) } else { size });
    Ok(())
}
