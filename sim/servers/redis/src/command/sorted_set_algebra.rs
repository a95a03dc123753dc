//! Unions, intersections and differences of sorted sets, and of sets, whose members count as
//! having the score 1.

use std::sync::Arc;

use super::super::codec::number::parse_double;
use super::super::keyspace::{Set, SortedSet, Value};
use super::sorted_set_range::{keep, reply_members};
use super::{Call, Failure, NOT_AN_INTEGER, Outcome, SYNTAX, WRONG_TYPE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Least,
    Most,
}

impl Aggregate {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            // The two infinities together are nothing.
            Aggregate::Sum if (left + right).is_nan() => 0.0,
            Aggregate::Sum => left + right,
            Aggregate::Least => left.min(right),
            Aggregate::Most => left.max(right),
        }
    }
}

/// What becomes of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Told,
    Stored,
    Counted,
}

struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: i64,
}

type Members = Vec<(Arc<[u8]>, f64)>;

/// The members under a key: of a sorted set, or of a set.
fn source(call: &mut Call<'_>, key: &[u8]) -> Result<SortedSet, Failure> {
    let mut source = SortedSet::default();
    match call.lookup(key).map(|entry| &entry.value) {
        None => {}
        Some(Value::SortedSet(set)) => source = set.clone(),
        Some(Value::Set(set)) => Set::iter(set).for_each(|member| {
            source.insert(member, 1.0);
        }),
        Some(_) => return Err(WRONG_TYPE.into()),
    }
    Ok(source)
}

fn options(
    call: &Call<'_>,
    mut index: usize,
    count: usize,
    operation: Operation,
    wanted: Use,
) -> Result<Options, Failure> {
    let mut options = Options {
        weights: vec![1.0; count],
        aggregate: Aggregate::Sum,
        with_scores: false,
        limit: 0,
    };
    let words = call.arguments;
    let weighs = operation != Operation::Difference && wanted != Use::Counted;
    while index < words.len() {
        let more = words.len() - index - 1;
        if weighs && more >= count && call.is(index, "weights") {
            for (weight, text) in options.weights.iter_mut().zip(words.from(index + 1).iter()) {
                *weight = parse_double(text).ok_or("ERR weight value is not a float")?;
            }
            index += count;
        } else if weighs && more >= 1 && call.is(index, "aggregate") {
            index += 1;
            options.aggregate = match () {
                () if call.is(index, "sum") => Aggregate::Sum,
                () if call.is(index, "min") => Aggregate::Least,
                () if call.is(index, "max") => Aggregate::Most,
                () => return Err(SYNTAX.into()),
            };
        } else if wanted == Use::Told && call.is(index, "withscores") {
            options.with_scores = true;
        } else if wanted == Use::Counted && more >= 1 && call.is(index, "limit") {
            index += 1;
            options.limit = call.at_least(index, 0, "ERR LIMIT can't be negative")?;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    Ok(options)
}

fn combine(sources: &[SortedSet], operation: Operation, options: &Options) -> SortedSet {
    let mut result = SortedSet::default();
    for (index, source) in sources.iter().enumerate() {
        let weight = options.weights.get(index).copied().unwrap_or(1.0);
        let weighed = |score: f64| {
            let weighed = weight * score;
            if weighed.is_nan() { 0.0 } else { weighed }
        };
        match operation {
            _ if index == 0 => source.iter().for_each(|(member, score)| {
                result.insert(member, weighed(score));
            }),
            Operation::Union => {
                for (member, score) in source.iter() {
                    let score = match result.score(member) {
                        Some(present) => options.aggregate.of(present, weighed(score)),
                        None => weighed(score),
                    };
                    result.insert(member, score);
                }
            }
            Operation::Intersection => {
                let both: Members = result
                    .iter()
                    .filter_map(|(member, present)| {
                        let score = weighed(source.score(member)?);
                        Some((member.clone(), options.aggregate.of(present, score)))
                    })
                    .collect();
                result = SortedSet::default();
                both.iter().for_each(|(member, score)| {
                    result.insert(member, *score);
                });
            }
            Operation::Difference => source.iter().for_each(|(member, _)| {
                result.remove(member);
            }),
        }
    }
    result
}

/// The number of keys is at `numkeys`, the keys behind it.
fn run(call: &mut Call<'_>, numkeys: usize, operation: Operation, wanted: Use) -> Outcome {
    let count = call.integer(numkeys).map_err(|_| NOT_AN_INTEGER)?;
    if count < 1 {
        let name = call.name;
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    let arguments = call.arguments;
    let first = numkeys + 1;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > arguments.len() - first {
        return Err(SYNTAX.into());
    }
    let mut sources = Vec::with_capacity(count);
    for key in arguments.part(first..first + count).iter() {
        sources.push(source(call, key)?);
    }
    let options = options(call, first + count, count, operation, wanted)?;
    let result = combine(&sources, operation, &options);
    let members: Members = result.iter().map(|(member, score)| (member.clone(), score)).collect();
    match wanted {
        Use::Stored => {
            let event = match operation {
                Operation::Union => "zunionstore",
                Operation::Intersection => "zinterstore",
                Operation::Difference => "zdiffstore",
            };
            keep(call, members, event)?;
        }
        Use::Counted if options.limit > 0 => {
            call.reply.integer(options.limit.min(members.len() as i64));
        }
        Use::Counted => call.reply.integer(members.len() as i64),
        Use::Told => reply_members(call, &members, options.with_scores),
    }
    Ok(())
}

pub(super) fn zunion(call: &mut Call<'_>) -> Outcome {
    run(call, 1, Operation::Union, Use::Told)
}

pub(super) fn zinter(call: &mut Call<'_>) -> Outcome {
    run(call, 1, Operation::Intersection, Use::Told)
}

pub(super) fn zdiff(call: &mut Call<'_>) -> Outcome {
    run(call, 1, Operation::Difference, Use::Told)
}

pub(super) fn zunionstore(call: &mut Call<'_>) -> Outcome {
    run(call, 2, Operation::Union, Use::Stored)
}

pub(super) fn zinterstore(call: &mut Call<'_>) -> Outcome {
    run(call, 2, Operation::Intersection, Use::Stored)
}

pub(super) fn zdiffstore(call: &mut Call<'_>) -> Outcome {
    run(call, 2, Operation::Difference, Use::Stored)
}

pub(super) fn zintercard(call: &mut Call<'_>) -> Outcome {
    run(call, 1, Operation::Intersection, Use::Counted)
}
