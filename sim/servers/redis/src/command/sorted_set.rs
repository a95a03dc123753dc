//! Sorted sets: scores, ranks, and taking members out. Ranges are in
//! [`sorted_set_range`](super::sorted_set_range).

use std::sync::Arc;

use super::super::blocking::Wanted;
use super::super::codec::number::parse_double;
use super::super::codec::{Arguments, Protocol};
use super::super::keyspace::SortedSet;
use super::super::pubsub::event::SORTED_SET;
use super::list_pop::keys_and_count;
use super::string_more::NOT_A_FLOAT;
use super::waiting::{self, Timeout};
use super::{Call, Failure, Outcome, POSITIVE, SYNTAX, word};

#[derive(Clone, Copy, Default)]
struct AddOptions {
    if_absent: bool,
    if_present: bool,
    if_greater: bool,
    if_less: bool,
    changed: bool,
    increments: bool,
}

impl AddOptions {
    /// The options, and the place of the first score.
    fn parse(call: &Call<'_>, increments: bool) -> Result<(AddOptions, usize), Failure> {
        let mut options = AddOptions { increments, ..AddOptions::default() };
        let mut index = 2;
        while let Some(given) = call.arguments.get(index) {
            let option = match word(given).as_slice() {
                b"nx" => &mut options.if_absent,
                b"xx" => &mut options.if_present,
                b"gt" => &mut options.if_greater,
                b"lt" => &mut options.if_less,
                b"ch" => &mut options.changed,
                b"incr" => &mut options.increments,
                _ => break,
            };
            *option = true;
            index += 1;
        }
        let rest = call.arguments.len() - index;
        if rest == 0 || !rest.is_multiple_of(2) {
            return Err(SYNTAX.into());
        }
        let AddOptions { if_absent, if_present, if_greater, if_less, .. } = options;
        if if_absent && if_present {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if (if_greater || if_less) && if_absent || if_greater && if_less {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if options.increments && rest > 2 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok((options, index))
    }

    /// The score that a member is to have; `None`: it stays as it is.
    ///
    /// # Errors
    /// The sum of the two infinities is not a number.
    fn score(&self, present: Option<f64>, given: f64) -> Result<Option<f64>, Failure> {
        let Some(present) = present else { return Ok((!self.if_present).then_some(given)) };
        if self.if_absent {
            return Ok(None);
        }
        let score = if self.increments { present + given } else { given };
        if score.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        let is_refused = self.if_greater && score <= present || self.if_less && score >= present;
        Ok((!is_refused).then_some(score))
    }
}

/// What became of the members of a `ZADD`.
#[derive(Default)]
struct Added {
    added: i64,
    updated: i64,
    /// The score of the last one that was not left as it was.
    score: Option<f64>,
}

fn add(call: &mut Call<'_>, increments: bool) -> Outcome {
    let (options, first) = AddOptions::parse(call, increments)?;
    let arguments = call.arguments;
    let key = &arguments[1];
    let pairs = arguments.from(first);
    let scores: Vec<f64> = pairs
        .iter()
        .step_by(2)
        .map(|score| parse_double(score).ok_or(NOT_A_FLOAT))
        .collect::<Result<_, _>>()?;
    let is_there = call.lookup_as::<SortedSet>(key)?.is_some();
    let mut done = Added::default();
    if is_there || !options.if_present {
        let work = |set: &mut SortedSet| {
            for (index, given) in scores.iter().enumerate() {
                let member = &pairs[2 * index + 1];
                let present = set.score(member);
                let Some(score) = options.score(present, *given)? else { continue };
                done.score = Some(score);
                if present.is_none() {
                    done.added += 1;
                } else if present != Some(score) {
                    done.updated += 1;
                } else {
                    continue;
                }
                set.insert(member, score);
            }
            Ok(())
        };
        let outcome: Outcome = if is_there {
            // What was refused is no change to those who watch the key.
            let database = &mut call.state.databases[call.client.database];
            let outcome = database.modify_as(key, work).unwrap_or(Ok(()));
            if done.added + done.updated > 0 {
                call.state.touch(call.client.database, key);
            }
            outcome
        } else {
            call.change(key, work)?.0
        };
        if done.added + done.updated > 0 {
            let event = if options.increments { "zincr" } else { "zadd" };
            call.notify(SORTED_SET, event, key);
            call.propagate();
        }
        outcome?;
    }
    match (options.increments, done.score) {
        (true, Some(score)) => call.reply.double(score),
        (true, None) => call.reply.null(),
        (false, _) if options.changed => call.reply.integer(done.added + done.updated),
        (false, _) => call.reply.integer(done.added),
    }
    Ok(())
}

pub(super) fn zadd(call: &mut Call<'_>) -> Outcome {
    add(call, false)
}

pub(super) fn zincrby(call: &mut Call<'_>) -> Outcome {
    add(call, true)
}

pub(super) fn zrem(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let members = arguments.from(2);
    let is_known = call
        .lookup_as::<SortedSet>(key)?
        .is_some_and(|set| members.iter().any(|member| set.score(member).is_some()));
    let mut removed = 0;
    if is_known {
        removed = call.change_and_notify(key, SORTED_SET, "zrem", |set: &mut SortedSet| {
            members.iter().filter(|member| set.remove(member)).count() as i64
        })?;
        call.propagate();
    }
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn zcard(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    call.ask(&arguments[1], |set: Option<&SortedSet>, reply| {
        reply.integer(set.map_or(0, SortedSet::len) as i64);
    })
}

pub(super) fn zscore(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    call.ask(&arguments[1], |set: Option<&SortedSet>, reply| {
        match set.and_then(|set| set.score(&arguments[2])) {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
    })
}

pub(super) fn zmscore(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let members = arguments.from(2);
    call.ask(&arguments[1], |set: Option<&SortedSet>, reply| {
        reply.array(members.len());
        for member in members.iter() {
            match set.and_then(|set| set.score(member)) {
                Some(score) => reply.double(score),
                None => reply.null(),
            }
        }
    })
}

fn rank(call: &mut Call<'_>, from_highest: bool) -> Outcome {
    let arguments = call.arguments;
    call.ask(&arguments[1], |set: Option<&SortedSet>, reply| {
        let rank = set.and_then(|set| {
            let rank = set.rank(&arguments[2])?;
            Some(if from_highest { set.len() - 1 - rank } else { rank })
        });
        match rank {
            Some(rank) => reply.integer(rank as i64),
            None => reply.null(),
        }
    })
}

pub(super) fn zrank(call: &mut Call<'_>) -> Outcome {
    rank(call, false)
}

pub(super) fn zrevrank(call: &mut Call<'_>) -> Outcome {
    rank(call, true)
}

/// Which end members are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Most {
    Lowest,
    Highest,
}

impl Most {
    fn event(self) -> &'static str {
        if self == Most::Lowest { "zpopmin" } else { "zpopmax" }
    }

    fn command(self) -> &'static [u8] {
        if self == Most::Lowest { b"ZPOPMIN" } else { b"ZPOPMAX" }
    }
}

/// Members and their scores.
type Taken = Vec<(Arc<[u8]>, f64)>;

/// Takes members out of a sorted set that is there.
fn take(call: &mut Call<'_>, key: &[u8], most: Most, count: usize) -> Result<Taken, Failure> {
    call.change_and_notify(key, SORTED_SET, most.event(), |set: &mut SortedSet| {
        let owned = |(member, score): (&Arc<[u8]>, f64)| (member.clone(), score);
        let taken: Taken = match most {
            Most::Lowest => set.iter().take(count).map(owned).collect(),
            Most::Highest => set.iter().rev().take(count).map(owned).collect(),
        };
        taken.iter().for_each(|(member, _)| {
            set.remove(member);
        });
        taken
    })
}

fn pop(call: &mut Call<'_>, most: Most) -> Outcome {
    let arguments = call.arguments;
    let key = &arguments[1];
    let count = match arguments.len() {
        2 => None,
        3 => Some(call.at_least(2, 0, POSITIVE)? as usize),
        _ => return Err(SYNTAX.into()),
    };
    if call.lookup_as::<SortedSet>(key)?.is_none() || count == Some(0) {
        call.reply.array(0);
        return Ok(());
    }
    let taken = take(call, key, most, count.unwrap_or(1))?;
    call.propagate();
    let nested = count.is_some() && call.reply.protocol() == Protocol::Resp3;
    call.reply.array(if nested { taken.len() } else { 2 * taken.len() });
    for (member, score) in &taken {
        if nested {
            call.reply.array(2);
        }
        call.reply.bulk(member);
        call.reply.double(*score);
    }
    Ok(())
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Outcome {
    pop(call, Most::Lowest)
}

pub(super) fn zpopmax(call: &mut Call<'_>) -> Outcome {
    pop(call, Most::Highest)
}

/// Takes members out of the first of some sorted sets that is there, and answers with its key
/// and them. False: none is there.
fn pop_first(
    call: &mut Call<'_>,
    keys: Arguments<'_>,
    most: Most,
    count: Option<usize>,
) -> Result<bool, Failure> {
    for key in keys.iter() {
        if !call.looks_at(key) || call.lookup_as::<SortedSet>(key)?.is_none() {
            continue;
        }
        let taken = take(call, key, most, count.unwrap_or(1))?;
        let mut number = itoa::Buffer::new();
        if count.is_some() {
            call.reply.array(2);
            call.reply.bulk(key);
            call.reply.array(taken.len());
            let count = number.format(taken.len()).as_bytes();
            call.propagate_as([most.command(), key, count]);
        } else {
            call.reply.array(1 + 2 * taken.len());
            call.reply.bulk(key);
            call.propagate_as([most.command(), key]);
        }
        for (member, score) in &taken {
            if count.is_some() {
                call.reply.array(2);
            }
            call.reply.bulk(member);
            call.reply.double(*score);
        }
        return Ok(true);
    }
    Ok(false)
}

fn pop_when_there(
    call: &mut Call<'_>,
    keys: Arguments<'_>,
    most: Most,
    count: Option<usize>,
    timeout: Timeout,
) -> Outcome {
    if pop_first(call, keys, most, count)? {
        return Ok(());
    }
    if call.may_block {
        call.wait_for(keys, Wanted::SortedSet, timeout);
    } else {
        call.reply.null_array();
    }
    Ok(())
}

fn blocking_pop(call: &mut Call<'_>, most: Most) -> Outcome {
    let last = call.arguments.len() - 1;
    let timeout = waiting::seconds(&call.arguments[last])?;
    let keys = call.arguments.part(1..last);
    pop_when_there(call, keys, most, None, timeout)
}

pub(super) fn bzpopmin(call: &mut Call<'_>) -> Outcome {
    blocking_pop(call, Most::Lowest)
}

pub(super) fn bzpopmax(call: &mut Call<'_>) -> Outcome {
    blocking_pop(call, Most::Highest)
}

fn most(call: &Call<'_>, index: usize) -> Result<Most, Failure> {
    match () {
        () if call.is(index, "min") => Ok(Most::Lowest),
        () if call.is(index, "max") => Ok(Most::Highest),
        () => Err(SYNTAX.into()),
    }
}

pub(super) fn zmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, place, count) = keys_and_count(call, 1)?;
    let most = most(call, place)?;
    if !pop_first(call, keys, most, Some(count))? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(call: &mut Call<'_>) -> Outcome {
    let (keys, place, count) = keys_and_count(call, 2)?;
    let most = most(call, place)?;
    let timeout = waiting::seconds(&call.arguments[1])?;
    pop_when_there(call, keys, most, Some(count), timeout)
}

/// `ZRANDMEMBER`: one member, or several: different ones, or any where the count is negative.
pub(super) fn zrandmember(call: &mut Call<'_>) -> Outcome {
    let with_scores = match call.arguments.len() {
        2 | 3 => false,
        4 if call.is(3, "withscores") => true,
        _ => return Err(SYNTAX.into()),
    };
    let count = (call.arguments.len() > 2).then(|| call.integer(2)).transpose()?;
    let arguments = call.arguments;
    let all: Taken = call
        .lookup_as::<SortedSet>(&arguments[1])?
        .map(|set| set.iter().map(|(member, score)| (member.clone(), score)).collect())
        .unwrap_or_default();
    let Some(count) = count else {
        match call.drawn(&all) {
            Some((member, _)) => call.reply.bulk(&member.clone()),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let drawn = call.sample(&all, count)?;
    let nested = with_scores && call.reply.protocol() == Protocol::Resp3;
    let elements = if with_scores && !nested { 2 * drawn.len() } else { drawn.len() };
    call.reply.array(elements);
    for (member, score) in &drawn {
        if nested {
            call.reply.array(2);
        }
        call.reply.bulk(member);
        if with_scores {
            call.reply.double(*score);
        }
    }
    Ok(())
}
