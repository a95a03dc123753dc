//! The cliff: how likely the failure is from each step of its story on.
//!
//! The plan is run up to and with the step as it was, and from there with other draws, as
//! many times as asked: once with the faults that are still to come, and once without
//! them. The first says how much chance had to do with it, the second how much of the storm
//! was needed. Where the share jumps, the failure was settled ([`settle`]): the way between two
//! steps is halved to find the one event, and what was found is drawn anew, for of two dozen
//! rises the largest looks larger than it is.
//!
//! So a cliff takes twice `draws` runs for each step and the start, `draws` for each halving, and
//! at most four times `draws` to judge what was found; the last two twice where it is not
//! found while the storm goes on.

mod settle;

use super::{Draws, Unexplained, Watch, names, other_seeds};
use crate::engine::event::EventEngine;
use crate::history::EventId;
use crate::hunt::proportion::Proportion;
use crate::plan::{Plan, Seed};
use crate::report::story::{Step, Story};
use crate::report::subject::Subject;
use crate::shrink::Signature;
use crate::storm::abreast::abreast;
use crate::storm::locks::LockFactory;
use crate::storm::{Reseed, Run, run_reseeded, run_with};

use settle::{Shares, settled};

/// How many of the runs from one step on failed in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The step of the story, from 0; `None` before the first event.
    pub step: Option<usize>,
    /// Its event.
    pub event: Option<EventId>,
    /// When, µs.
    pub at_us: u64,
    /// Runs that fail in the same way, with the faults that were still to come.
    pub stormy: u32,
    /// The same without them.
    pub calm: u32,
}

/// Whether faults that are still to come do come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// They do.
    Stormy,
    /// They do not.
    Calm,
}

/// An event of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The step of the story that it is, from 0; `None` where it is none.
    pub step: Option<usize>,
    /// It.
    pub event: EventId,
    /// When, µs.
    pub at_us: u64,
    /// What.
    pub name: String,
}

/// Where the share of runs that fail rises, or seems to. What that says is in [`Settled`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rise {
    /// The step of the story, from 0, after which it rises; `None` is the start.
    pub from_step: Option<usize>,
    /// The event by which it has risen.
    pub to: Place,
    /// Runs that fail in the same way from before the rise on: from the step, or, where one
    /// event is decisive, from the event before it.
    pub before: u32,
    /// The same from its end on.
    pub after: u32,
    /// With which rest.
    pub rest: Rest,
    /// With which draws the two were counted: those that the rise was found with, or others.
    pub draws: Draws,
}

impl Rise {
    /// The shares before it and from its end on.
    pub fn shares(&self, draws: u32) -> [Proportion; 2] {
        [self.before, self.after].map(|failed| Proportion::new(failed.into(), draws.into()))
    }

    /// Below about how many draws the two intervals would overlap if the shares stayed as they
    /// are, so that fewer would not tell. It is no promise: of two shares that are as they seem
    /// about half of all counts are nearer to each other, and what was found as the steepest
    /// rise seems steeper than it is. `None` where it is more than can be asked for, or where
    /// there were no draws. Where so many runs cannot have the same share, those count that
    /// speak against it.
    pub fn least_draws(&self, draws: u32) -> Option<u32> {
        if draws == 0 {
            return None;
        }
        let scaled = |failed: u32, of: u32| u64::from(failed) * u64::from(of);
        let lies_apart = |of: &u32| {
            let before = scaled(self.before, *of).div_ceil(draws.into());
            let after = scaled(self.after, *of) / u64::from(draws);
            lie_apart([before, after].map(|failed| Proportion::new(failed, (*of).into())))
        };
        let held = (draws.saturating_add(1)..=MOST_DRAWS).rev().take_while(lies_apart);
        held.last()
    }
}

/// No question is asked over more draws.
pub const MOST_DRAWS: u32 = 10_000;

/// Whether the shares differ by more than what chance does to counts: their intervals at 95 %
/// have nothing in common.
fn lie_apart([before, after]: [Proportion; 2]) -> bool {
    before.interval_per_mille().1 < after.interval_per_mille().0
}

/// Which event settled it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The one that the rise ends with: it rises there by more than chance does, by draws anew.
    By(Rise),
    /// No single one, and yet the share rises on this way by more than chance does, by draws
    /// anew.
    Gradually(Rise),
    /// The share seemed to rise most on this way, and by no more than chance may do; by draws
    /// anew only where it did lie beyond chance in those that it was found with.
    NotDecided(Rise),
    /// None: the share nowhere jumps.
    Nowhere,
}

impl Settled {
    /// The event, where one is decisive.
    pub fn decisive(&self) -> Option<&Rise> {
        match self {
            Settled::By(decisive) => Some(decisive),
            Settled::Gradually(_) | Settled::NotDecided(_) | Settled::Nowhere => None,
        }
    }

    /// How much it says.
    fn weight(&self) -> u8 {
        match self {
            Settled::By(_) => 3,
            Settled::Gradually(_) => 2,
            Settled::NotDecided(_) => 1,
            Settled::Nowhere => 0,
        }
    }
}

/// The shares along the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cliff {
    /// Before the first event, then at each step of the story.
    pub points: Vec<Point>,
    /// Which event settled it.
    pub settled: Settled,
}

/// The cliff of a run that fails.
///
/// # Errors
/// When a repeated run has another past.
pub fn of(
    run: &Run,
    draws: u32,
    factory: &LockFactory,
    watch: &dyn Watch,
) -> Result<Cliff, Unexplained> {
    let asker = Asker { run, signature: Signature::of(run), draws, factory, watch };
    let at_the_start = |rest| asker.at_the_start(rest, Draws::Same);
    let (stormy, calm) = (at_the_start(Rest::Stormy), at_the_start(Rest::Calm));
    let mut points = vec![Point { step: None, event: None, at_us: 0, stormy, calm }];
    for (step, told) in steps(run).iter().enumerate() {
        let Some(event) = told.event else { continue };
        points.push(Point {
            step: Some(step),
            event: Some(event),
            at_us: told.at_us,
            stormy: asker.from(event, Rest::Stormy, Draws::Same)?,
            calm: asker.from(event, Rest::Calm, Draws::Same)?,
        });
    }
    let stormy = settled(&asker, &points, draws, Rest::Stormy)?;
    let settled = if stormy.decisive().is_some() {
        stormy
    } else {
        // What says more is told, of two that say as much that of the storm.
        let calm = settled(&asker, &points, draws, Rest::Calm)?;
        if calm.weight() > stormy.weight() { calm } else { stormy }
    };
    Ok(Cliff { points, settled })
}

/// How many runs [`of`] makes before it looks for the event between two steps.
pub(super) fn runs(run: &Run, draws: u32) -> u64 {
    let told = steps(run).iter().filter(|step| step.event.is_some()).count();
    (told as u64 + 1) * 2 * u64::from(draws)
}

fn steps(run: &Run) -> Vec<Step> {
    let subject = Subject::of(&run.history, &run.judgement);
    let steps = subject.map(|subject| Story::of(&run.history, &run.plan, &subject).steps);
    steps.unwrap_or_default()
}

struct Asker<'a> {
    run: &'a Run,
    signature: Option<Signature>,
    draws: u32,
    factory: &'a LockFactory,
    watch: &'a dyn Watch,
}

impl Asker<'_> {
    /// Whether another run fails in the same way: another bug is another cliff.
    fn is_the_same(&self, other: &Run) -> bool {
        self.signature.is_some() && Signature::of(other) == self.signature
    }

    /// How many runs fail of which nothing is as it was.
    fn at_the_start(&self, rest: Rest, draws: Draws) -> u32 {
        let plans = other_seeds(&self.run.plan, self.draws, draws).map(|seed| {
            let mut plan = Plan { seed, ..self.run.plan.clone() };
            if rest == Rest::Calm {
                plan.faults.clear();
            }
            plan
        });
        let plans: Vec<Plan> = plans.collect();
        let failed = abreast(&plans, |plan| {
            let fails = self.is_the_same(&run_with(plan, &EventEngine, self.factory));
            self.watch.done();
            fails
        });
        failed.into_iter().filter(|fails| *fails).count() as u32
    }

    /// How many runs fail that are the same up to `event`.
    fn from(&self, event: EventId, rest: Rest, draws: Draws) -> Result<u32, Unexplained> {
        let past = usize::try_from(event.0).unwrap_or(usize::MAX).saturating_add(1);
        let past = &self.run.history.events[..past.min(self.run.history.events.len())];
        let seeds: Vec<Seed> = other_seeds(&self.run.plan, self.draws, draws).collect();
        let failed = abreast(&seeds, |seed| {
            let reseed = Reseed { after: event, seed: seed.0, calm: rest == Rest::Calm };
            let other = run_reseeded(&self.run.plan, &EventEngine, self.factory, reseed);
            self.watch.done();
            if other.history.events.get(..past.len()) != Some(past) {
                return Err(Unexplained::OtherPast(event.0));
            }
            Ok(u32::from(self.is_the_same(&other)))
        });
        failed.into_iter().sum()
    }
}

impl Shares for Asker<'_> {
    fn failing(&self, from: Option<EventId>, rest: Rest, draws: Draws) -> Result<u32, Unexplained> {
        self.watch.expect(self.draws.into());
        match from {
            Some(event) => self.from(event, rest, draws),
            None => Ok(self.at_the_start(rest, draws)),
        }
    }

    fn name(&self, event: EventId) -> Option<(u64, String)> {
        let event = self.run.history.get(event)?;
        let name = names::name(event).unwrap_or_else(|| format!("an event at {}", event.node));
        Some((event.at_us, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rise(before: u32, after: u32) -> Rise {
        let to = Place { step: None, event: EventId(0), at_us: 0, name: String::new() };
        Rise { from_step: None, to, before, after, rest: Rest::Stormy, draws: Draws::Same }
    }

    /// Whether the intervals lie apart in every outcome of `of` runs that has the shares of
    /// `rise`, to the run.
    fn lies_apart_anyhow(rise: &Rise, draws: u32, of: u32) -> bool {
        let counts = |failed: u32| {
            let scaled = u64::from(failed) * u64::from(of);
            [scaled / u64::from(draws), scaled.div_ceil(draws.into())]
        };
        counts(rise.before).into_iter().all(|before| {
            counts(rise.after).into_iter().all(|after| {
                lie_apart([before, after].map(|failed| Proportion::new(failed, of.into())))
            })
        })
    }

    #[test]
    fn with_fewer_draws_equal_shares_do_not_lie_apart() {
        let mut told = 0;
        for draws in [2, 3, 6, 7, 15, 50] {
            for (before, after) in
                (0..=draws).flat_map(|before| (0..=draws).map(move |after| (before, after)))
            {
                if draws > 7 && (before * 7 + after) % 11 != 0 {
                    continue;
                }
                let rise = rise(before, after);
                let least = rise.least_draws(draws);
                let first = least.unwrap_or(MOST_DRAWS + 1);
                for of in (first..=MOST_DRAWS).take(400).chain((first..=MOST_DRAWS).step_by(97)) {
                    assert!(lies_apart_anyhow(&rise, draws, of), "{rise:?} of {draws}: {of}");
                }
                let less = first - 1;
                assert!(
                    less <= draws || !lies_apart_anyhow(&rise, draws, less),
                    "{rise:?}: {less}"
                );
                told += u32::from(least.is_some());
                assert!(least.is_none() || before < after);
            }
        }
        assert!(told > 50, "{told}");
        // Half a percent more, of two hundred.
        assert_eq!(rise(100, 101).least_draws(200), None);
        // Of no draws, and of more than can be asked for.
        assert_eq!(rise(0, 0).least_draws(0), None);
        assert_eq!(rise(0, 9).least_draws(u32::MAX), None);
    }

    /// Equal shares lie apart by chance so seldom that the four questions of a cliff, two with the
    /// storm going on and two without, are wrong in fewer than 2 %.
    #[test]
    fn equal_shares_seldom_lie_apart() {
        for of in [4_u64, 10, 25, 50] {
            let worst = (1..100).map(|share| {
                let share = f64::from(share) / 100.0;
                let mut chances = vec![(1.0 - share).powi(of as i32)];
                for count in 0..of {
                    let more = (of - count) as f64 / (count + 1) as f64 * share / (1.0 - share);
                    chances.push(chances[count as usize] * more);
                }
                let pairs = (0..=of).flat_map(|before| (0..=of).map(move |after| [before, after]));
                let apart = pairs.filter(|pair| lie_apart(pair.map(|n| Proportion::new(n, of))));
                apart.map(|[a, b]| chances[a as usize] * chances[b as usize]).sum::<f64>()
            });
            let worst = worst.fold(0.0, f64::max);
            assert!((0.001..0.005).contains(&worst), "{of}: {worst}");
        }
    }
}
