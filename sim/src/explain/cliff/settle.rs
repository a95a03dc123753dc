//! Finds the event that settled a failure, and judges it.
//!
//! What is found is the largest of all rises along the story, and the end of a search in it: by
//! the counts that it was found with even a share that never changes has a large one. So they
//! decide nothing but where to look. The event is judged by draws of its own, before it and from
//! it on; where they may be chance, the whole way that it lies on, by draws of its own as well.
//! Both are fixed before they are drawn, so that Wilson's intervals at 95 % hold their level.

use super::{Place, Point, Rest, Rise, Settled, lie_apart};
use crate::explain::{Draws, Unexplained};
use crate::history::EventId;

/// A rise by fewer than so many of a hundred is no jump.
const LEAST_RISE_PER_CENT: u32 = 25;

/// Who runs what is asked.
pub(super) trait Shares {
    /// How many runs fail that are as they were up to `from`, or of which nothing is.
    fn failing(&self, from: Option<EventId>, rest: Rest, draws: Draws) -> Result<u32, Unexplained>;
    /// When an event was, and what.
    fn name(&self, event: EventId) -> Option<(u64, String)>;
}

/// Which event settled it, of the rises between `points`.
pub(super) fn settled(
    shares: &dyn Shares,
    points: &[Point],
    draws: u32,
    rest: Rest,
) -> Result<Settled, Unexplained> {
    let value = |point: &Point| match rest {
        Rest::Stormy => point.stormy,
        Rest::Calm => point.calm,
    };
    let rise = |pair: &[Point]| value(&pair[1]).saturating_sub(value(&pair[0]));
    // Of equal rises the first.
    let steepest = points.windows(2).rev().max_by_key(|pair| rise(pair));
    let Some([from, to]) = steepest else { return Ok(Settled::Nowhere) };
    let Some(last) = to.event else { return Ok(Settled::Nowhere) };
    let steepest = rise(&[*from, *to]);
    if steepest == 0 || steepest * 100 < draws * LEAST_RISE_PER_CENT {
        return Ok(Settled::Nowhere);
    }
    let told = |event: EventId, [before, after]: [u32; 2], draws: Draws| {
        let (at_us, name) = shares.name(event).unwrap_or_default();
        let step = to.step.filter(|_| event == last);
        let to = Place { step, event, at_us, name };
        Rise { from_step: from.step, to, before, after, rest, draws }
    };
    let seen = told(last, [value(from), value(to)], Draws::Same);
    // What is chance where it looks steepest is not asked again.
    if !lie_apart(seen.shares(draws)) {
        return Ok(Settled::NotDecided(seen));
    }
    let (low, high) =
        halved(shares, (from.event, last), seen.before.midpoint(seen.after + 1), rest)?;
    let anew = |event| shares.failing(event, rest, Draws::Anew);
    let (before, after) = (anew(low)?, anew(Some(high))?);
    let found = told(high, [before, after], Draws::Anew);
    if lie_apart(found.shares(draws)) {
        return Ok(Settled::By(found));
    }
    let before = if low == from.event { before } else { anew(from.event)? };
    let after = if high == last { after } else { anew(Some(last))? };
    let rise = told(last, [before, after], Draws::Anew);
    Ok(match lie_apart(rise.shares(draws)) {
        true => Settled::Gradually(rise),
        false => Settled::NotDecided(rise),
    })
}

/// The event at which at least `middle` runs fail for the first time, as far as halving tells,
/// and the one before it.
fn halved(
    shares: &dyn Shares,
    (mut low, EventId(mut high)): (Option<EventId>, EventId),
    middle: u32,
    rest: Rest,
) -> Result<(Option<EventId>, EventId), Unexplained> {
    loop {
        let begin = low.map_or(0, |event| event.0);
        if high.saturating_sub(begin) <= 1 {
            return Ok((low, EventId(high)));
        }
        let between = begin + (high - begin) / 2;
        match shares.failing(Some(EventId(between)), rest, Draws::Same)? >= middle {
            true => high = between,
            false => low = Some(EventId(between)),
        }
    }
}

#[cfg(test)]
mod tests;
