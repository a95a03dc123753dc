//! Finds the event that settled a failure, and judges it.
//!
//! What is found is the largest of all rises along the story, and the end of a search in it: by
//! the counts that it was found with even a share that never changes has a large one. So they
//! decide nothing but where to look. The event is judged by draws of its own, before it and from
//! it on; where they may be chance, the whole way that it lies on, by draws of its own as well.
//! Both are fixed before they are drawn, so that Wilson's intervals at 95 % hold their level.

use super::{Decisive, Gradual, Point, Rest, Settled, lie_apart};
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
    let (Some(last), Some(to_step)) = (to.event, to.step) else { return Ok(Settled::Nowhere) };
    if rise(&[*from, *to]) * 100 < draws * LEAST_RISE_PER_CENT {
        return Ok(Settled::Nowhere);
    }
    let told = |event: EventId, [before, after]: [u32; 2]| {
        let (at_us, name) = shares.name(event).unwrap_or_default();
        Decisive { event, at_us, name, before, after, rest }
    };
    let seen = told(last, [value(from), value(to)]);
    // What is chance where it looks steepest is not asked again.
    if !lie_apart(seen.shares(draws)) {
        return Ok(Settled::NotDecided(seen));
    }
    let (low, high) =
        halved(shares, (from.event, last), seen.before.midpoint(seen.after + 1), rest)?;
    let anew = |event| shares.failing(event, rest, Draws::Anew);
    let (before, after) = (anew(low)?, anew(Some(high))?);
    let found = told(high, [before, after]);
    if lie_apart(found.shares(draws)) {
        return Ok(Settled::By(found));
    }
    let before = if low == from.event { before } else { anew(from.event)? };
    let after = if high == last { after } else { anew(Some(last))? };
    let rise = told(last, [before, after]);
    Ok(match lie_apart(rise.shares(draws)) {
        true => Settled::Gradually(Gradual { from: from.step, to: to_step, rise }),
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
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Runs that fail by chance, with a share that is known.
    struct Known<'a> {
        share: &'a dyn Fn(u64) -> f64,
        draws: u32,
        state: Cell<u64>,
        asked: Cell<u32>,
    }

    impl<'a> Known<'a> {
        fn new(share: &'a dyn Fn(u64) -> f64, draws: u32, seed: u64) -> Known<'a> {
            let state = Cell::new(crate::draw::Draw::new(seed, "settle", "known").bits());
            Known { share, draws, state, asked: Cell::new(0) }
        }

        /// Splitmix: a number from 0 to 1.
        fn number(&self) -> f64 {
            let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.state.set(state);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn count(&self, event: u64) -> u32 {
            (0..self.draws).filter(|_| self.number() < (self.share)(event)).count() as u32
        }

        /// A story with a step at each hundredth event.
        fn points(&self, steps: u64) -> Vec<Point> {
            let point = |step: u64| {
                let event = step.checked_sub(1).map(|_| step * 100);
                let stormy = self.count(event.unwrap_or(0));
                let place = event.map(|_| step as usize - 1);
                Point { step: place, event: event.map(EventId), at_us: step, stormy, calm: 0 }
            };
            (0..=steps).map(point).collect()
        }
    }

    impl Shares for Known<'_> {
        fn failing(&self, from: Option<EventId>, _: Rest, _: Draws) -> Result<u32, Unexplained> {
            self.asked.set(self.asked.get() + 1);
            Ok(self.count(from.map_or(0, |event| event.0)))
        }

        fn name(&self, event: EventId) -> Option<(u64, String)> {
            Some((event.0, format!("event {}", event.0)))
        }
    }

    /// The steepest of two dozen rises looks like more than chance far too often; what is told
    /// does not.
    #[test]
    fn a_share_that_never_changes_is_settled_nowhere() {
        let (mut seems, mut told) = (0, 0);
        for seed in 0..1_000 {
            let known = Known::new(&|_| 0.5, 10, seed);
            let points = known.points(24);
            let apart = |pair: &[Point]| {
                let [before, after] = [pair[0].stormy, pair[1].stormy];
                let (event, at_us, name) = (EventId(0), 0, String::new());
                let rise = Decisive { event, at_us, name, before, after, rest: Rest::Stormy };
                lie_apart(rise.shares(10))
            };
            seems += u32::from(points.windows(2).any(apart));
            let settled = settled(&known, &points, 10, Rest::Stormy).unwrap();
            told += u32::from(matches!(settled, Settled::By(_) | Settled::Gradually(_)));
        }
        assert!(seems > 20, "{seems}");
        assert!(told <= 5, "{told} of 1,000, where {seems} seemed so");
    }

    #[test]
    fn a_jump_is_found_and_a_slope_is_told_as_one() {
        for seed in 0..50 {
            let jump = |event| if event < 437 { 0.1 } else { 0.9 };
            let known = Known::new(&jump, 50, seed);
            let by = settled(&known, &known.points(12), 50, Rest::Stormy).unwrap();
            assert_eq!(by.decisive().map(|by| by.event), Some(EventId(437)), "{by:?}");
            // Seven halvings, and two to judge.
            assert!(known.asked.get() <= 9, "{}", known.asked.get());
        }
        let mut slopes = 0;
        for seed in 0..50 {
            let slope = |event: u64| (event.clamp(400, 500) - 400) as f64 / 100.0;
            let known = Known::new(&slope, 50, seed);
            let settled = settled(&known, &known.points(12), 50, Rest::Stormy).unwrap();
            assert!(known.asked.get() <= 7 + 4, "{}", known.asked.get());
            if let Settled::Gradually(Gradual { from, to, rise }) = settled {
                assert_eq!((from, to, rise.event), (Some(3), 4, EventId(500)));
                assert!(lie_apart(rise.shares(50)));
                slopes += 1;
            }
        }
        assert!(slopes >= 45, "{slopes}");
    }
}
