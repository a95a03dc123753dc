//! Ranges of sorted sets: by rank, by score, by member.

use std::sync::Arc;

use super::super::codec::Protocol;
use super::super::codec::number::parse_c_double;
use super::super::keyspace::{Limit, Name, SortedSet};
use super::super::pubsub::event::{GENERIC, SORTED_SET};
use super::{Call, Failure, Outcome, SYNTAX, is_word, list};

/// What a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Name,
}

/// The two ends of a range, the lower first where they are scores or members.
enum Range<'a> {
    Ranks(i64, i64),
    Scores(Limit<f64>, Limit<f64>),
    Names(Name<'a>, Name<'a>),
}

fn score_limit(text: &[u8]) -> Result<Limit<f64>, Failure> {
    let (is_excluded, number) = match text {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    // Unlike scores, limits are C's to read, also where they are out of range.
    let (value, _) = parse_c_double(number).ok_or("ERR min or max is not a float")?;
    Ok(Limit { value, is_excluded })
}

fn name_limit(text: &[u8]) -> Result<Name<'_>, Failure> {
    match text {
        _ if is_word(text, "-") => Ok(Name::Lowest),
        _ if is_word(text, "+") => Ok(Name::Highest),
        [b'[', value @ ..] => Ok(Name::Bytes(Limit { value, is_excluded: false })),
        [b'(', value @ ..] => Ok(Name::Bytes(Limit { value, is_excluded: true })),
        _ => Err("ERR min or max not valid string range item".into()),
    }
}

fn range<'a>(call: &Call<'a>, by: By, least: usize, most: usize) -> Result<Range<'a>, Failure> {
    let text = |index| call.arguments.get(index).unwrap_or_default();
    Ok(match by {
        By::Rank => Range::Ranks(call.integer(least)?, call.integer(most)?),
        By::Score => Range::Scores(score_limit(text(least))?, score_limit(text(most))?),
        By::Name => Range::Names(name_limit(text(least))?, name_limit(text(most))?),
    })
}

type Members = Vec<(Arc<[u8]>, f64)>;

/// Which members of a range are wanted, from its first.
#[derive(Clone, Copy)]
struct Part {
    skipped: usize,
    most: usize,
}

impl Part {
    const WHOLE: Part = Part { skipped: 0, most: usize::MAX };
}

impl Range<'_> {
    /// The members of this range in their order, or from the last.
    fn members(&self, set: &SortedSet, reversed: bool, part: Part) -> Members {
        let owned = |(member, score): (&Arc<[u8]>, f64)| (member.clone(), score);
        fn cut<'a>(
            members: impl DoubleEndedIterator<Item = (&'a Arc<[u8]>, f64)>,
            reversed: bool,
            part: Part,
            owned: impl Fn((&Arc<[u8]>, f64)) -> (Arc<[u8]>, f64),
        ) -> Members {
            if reversed {
                members.rev().skip(part.skipped).take(part.most).map(owned).collect()
            } else {
                members.skip(part.skipped).take(part.most).map(owned).collect()
            }
        }
        match *self {
            Range::Ranks(start, stop) => {
                let places = list::range(start, stop, set.len());
                let part = Part { skipped: places.start, most: places.len() };
                cut(set.iter(), reversed, part, owned)
            }
            Range::Scores(least, most) => cut(set.by_score(least, most), reversed, part, owned),
            Range::Names(least, most) => cut(set.by_name(least, most), reversed, part, owned),
        }
    }
}

/// `ZRANGE` in all its forms. The source is at `first`; with `store` the destination is
/// before it.
fn find(
    call: &mut Call<'_>,
    first: usize,
    store: bool,
    by: Option<By>,
    reversed: Option<bool>,
) -> Outcome {
    let (mut wanted_by, mut is_reversed, mut with_scores) = (by, reversed, false);
    let (mut offset, mut limit) = (0, -1);
    let arguments = call.arguments;
    let mut index = first + 3;
    while index < arguments.len() {
        if !store && call.is(index, "withscores") {
            with_scores = true;
        } else if call.is(index, "limit") && arguments.len() - index > 2 {
            (offset, limit) = (call.integer(index + 1)?, call.integer(index + 2)?);
            index += 2;
        } else if is_reversed.is_none() && call.is(index, "rev") {
            is_reversed = Some(true);
        } else if wanted_by.is_none() && call.is(index, "bylex") {
            wanted_by = Some(By::Name);
        } else if wanted_by.is_none() && call.is(index, "byscore") {
            wanted_by = Some(By::Score);
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let (by, reversed) = (wanted_by.unwrap_or(By::Rank), is_reversed.unwrap_or(false));
    if limit != -1 && by == By::Rank {
        return Err("ERR syntax error, LIMIT is only supported in combination with either \
                    BYSCORE or BYLEX"
            .into());
    }
    if with_scores && by == By::Name {
        return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
    }
    let (least, most) =
        if reversed && by != By::Rank { (first + 2, first + 1) } else { (first + 1, first + 2) };
    let range = range(call, by, least, most)?;
    // A negative offset finds nothing, a negative limit has none.
    let part = Part {
        skipped: usize::try_from(offset).unwrap_or(usize::MAX),
        most: usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let set = call.lookup_as::<SortedSet>(&arguments[first])?;
    let members = set.map_or(Members::new(), |set| range.members(set, reversed, part));
    if store {
        return keep(call, members, "zrangestore");
    }
    reply_members(call, &members, with_scores);
    Ok(())
}

/// Answers with members, and with their scores if they are wanted.
pub(super) fn reply_members(call: &mut Call<'_>, members: &[(Arc<[u8]>, f64)], scores: bool) {
    let nested = scores && call.reply.protocol() == Protocol::Resp3;
    call.reply.array(if scores && !nested { 2 * members.len() } else { members.len() });
    for (member, score) in members {
        if nested {
            call.reply.array(2);
        }
        call.reply.bulk(member);
        if scores {
            call.reply.double(*score);
        }
    }
}

/// Puts members under the first key of the command in place of whatever is there, and answers
/// with their number.
pub(super) fn keep(call: &mut Call<'_>, members: Members, event: &str) -> Outcome {
    let arguments = call.arguments;
    let destination = &arguments[1];
    let mut set = SortedSet::default();
    for (member, score) in &members {
        set.insert(member, *score);
    }
    let is_empty = members.is_empty();
    let count = set.len();
    call.lookup(destination);
    if is_empty {
        if call.remove(destination) {
            call.notify(GENERIC, "del", destination);
            call.propagate();
        }
    } else {
        call.put(destination, set, None);
        call.notify(SORTED_SET, event, destination);
        call.propagate();
    }
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zrange(call: &mut Call<'_>) -> Outcome {
    find(call, 1, false, None, None)
}

pub(super) fn zrangestore(call: &mut Call<'_>) -> Outcome {
    find(call, 2, true, None, None)
}

pub(super) fn zrevrange(call: &mut Call<'_>) -> Outcome {
    find(call, 1, false, Some(By::Rank), Some(true))
}

pub(super) fn zrangebyscore(call: &mut Call<'_>) -> Outcome {
    find(call, 1, false, Some(By::Score), Some(false))
}

pub(super) fn zrevrangebyscore(call: &mut Call<'_>) -> Outcome {
    find(call, 1, false, Some(By::Score), Some(true))
}

pub(super) fn zrangebylex(call: &mut Call<'_>) -> Outcome {
    find(call, 1, false, Some(By::Name), Some(false))
}

pub(super) fn zrevrangebylex(call: &mut Call<'_>) -> Outcome {
    find(call, 1, false, Some(By::Name), Some(true))
}

fn count(call: &mut Call<'_>, by: By) -> Outcome {
    let range = range(call, by, 2, 3)?;
    let arguments = call.arguments;
    call.ask(&arguments[1], |set: Option<&SortedSet>, reply| {
        let count = set.map_or(0, |set| range.members(set, false, Part::WHOLE).len());
        reply.integer(count as i64);
    })
}

pub(super) fn zcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Score)
}

pub(super) fn zlexcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Name)
}

fn remove(call: &mut Call<'_>, by: By, event: &str) -> Outcome {
    let range = range(call, by, 2, 3)?;
    let arguments = call.arguments;
    let key = &arguments[1];
    let members = call
        .lookup_as::<SortedSet>(key)?
        .map_or(Members::new(), |set| range.members(set, false, Part::WHOLE));
    if !members.is_empty() {
        call.change_and_notify(key, SORTED_SET, event, |set: &mut SortedSet| {
            members.iter().for_each(|(member, _)| {
                set.remove(member);
            });
        })?;
        call.propagate();
    }
    call.reply.integer(members.len() as i64);
    Ok(())
}

pub(super) fn zremrangebyrank(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Rank, "zremrangebyrank")
}

pub(super) fn zremrangebyscore(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Score, "zremrangebyscore")
}

pub(super) fn zremrangebylex(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Name, "zremrangebylex")
}
