//! The cliff: how likely the failure is from each step of its story on.
//!
//! The plan is run up to and with the step as it was, and from there with other draws, as
//! many times as asked: once with the faults that are still to come, and once without
//! them. The first says how much chance had to do with it, the second how much of the storm
//! was needed. Where the share jumps, the failure was settled; the way between two steps is
//! halved to find the one event. A rise that chance may have made, by Wilson's intervals before
//! and after it, decides nothing.

use super::{Unexplained, Watch, names, other_seeds};
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

/// The event from which on more runs fail than before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisive {
    /// It.
    pub event: EventId,
    /// When, µs.
    pub at_us: u64,
    /// What.
    pub name: String,
    /// Runs that fail in the same way from the event before it on.
    pub before: u32,
    /// The same from it on.
    pub after: u32,
    /// With which rest.
    pub rest: Rest,
}

impl Decisive {
    /// The shares before it and from it on.
    pub fn shares(&self, draws: u32) -> [Proportion; 2] {
        [self.before, self.after].map(|failed| Proportion::new(failed.into(), draws.into()))
    }

    /// With how many draws the two intervals would lie apart if the shares stayed as they are;
    /// `None` where not even the most that can be asked for would do.
    pub fn draws_that_would_do(&self, draws: u32) -> Option<u32> {
        let at = |failed: u32, of: u32| {
            let scaled = u64::from(failed) * u64::from(of);
            Proportion::new((scaled + u64::from(draws) / 2) / u64::from(draws), of.into())
        };
        (draws + 1..=MOST_DRAWS).find(|of| lie_apart([at(self.before, *of), at(self.after, *of)]))
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
    /// This one.
    By(Decisive),
    /// The share rises most at this one, and by no more than chance may do.
    NotDecided(Decisive),
    /// None: the share nowhere jumps.
    Nowhere,
}

impl Settled {
    /// The event, where one is decisive.
    pub fn decisive(&self) -> Option<&Decisive> {
        match self {
            Settled::By(decisive) => Some(decisive),
            Settled::NotDecided(_) | Settled::Nowhere => None,
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

/// A rise by fewer than so many of a hundred is no jump.
const LEAST_RISE_PER_CENT: u32 = 25;

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
    let mut points = vec![asker.at_the_start()];
    for (step, told) in steps(run).iter().enumerate() {
        let Some(event) = told.event else { continue };
        points.push(Point {
            step: Some(step),
            event: Some(event),
            at_us: told.at_us,
            stormy: asker.from(event, Rest::Stormy)?,
            calm: asker.from(event, Rest::Calm)?,
        });
    }
    let settled = match asker.settled(&points, Rest::Stormy)? {
        Settled::By(decisive) => Settled::By(decisive),
        stormy => match (stormy, asker.settled(&points, Rest::Calm)?) {
            (stormy, Settled::Nowhere) => stormy,
            (Settled::NotDecided(stormy), Settled::NotDecided(_)) => Settled::NotDecided(stormy),
            (_, calm) => calm,
        },
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

    fn at_the_start(&self) -> Point {
        let fails = |plan: &Plan| {
            let fails = self.is_the_same(&run_with(plan, &EventEngine, self.factory));
            self.watch.done();
            fails
        };
        let count = |faults: bool| {
            let plans = other_seeds(&self.run.plan, self.draws).map(|seed| {
                let mut plan = Plan { seed, ..self.run.plan.clone() };
                if !faults {
                    plan.faults.clear();
                }
                plan
            });
            let plans: Vec<Plan> = plans.collect();
            abreast(&plans, fails).into_iter().filter(|fails| *fails).count() as u32
        };
        Point { step: None, event: None, at_us: 0, stormy: count(true), calm: count(false) }
    }

    /// How many runs fail that are the same up to `event`.
    fn from(&self, event: EventId, rest: Rest) -> Result<u32, Unexplained> {
        let past = usize::try_from(event.0).unwrap_or(usize::MAX).saturating_add(1);
        let past = &self.run.history.events[..past.min(self.run.history.events.len())];
        let seeds: Vec<Seed> = other_seeds(&self.run.plan, self.draws).collect();
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

    /// Halves the way of the largest rise, unless that may be chance.
    fn settled(&self, points: &[Point], rest: Rest) -> Result<Settled, Unexplained> {
        let value = |point: &Point| match rest {
            Rest::Stormy => point.stormy,
            Rest::Calm => point.calm,
        };
        let rise = |pair: &[Point]| value(&pair[1]).saturating_sub(value(&pair[0]));
        // Of equal rises the first.
        let steepest = points.windows(2).rev().max_by_key(|pair| rise(pair));
        let Some([from, to]) = steepest else { return Ok(Settled::Nowhere) };
        if rise(&[*from, *to]) * 100 < self.draws * LEAST_RISE_PER_CENT {
            return Ok(Settled::Nowhere);
        }
        let Some(EventId(mut high)) = to.event else { return Ok(Settled::Nowhere) };
        let (mut before, mut after) = (value(from), value(to));
        let whole_way = self.named(EventId(high), [before, after], rest);
        if let Some(way) = whole_way.filter(|way| !lie_apart(way.shares(self.draws))) {
            return Ok(Settled::NotDecided(way));
        }
        let middle = (before + after).div_ceil(2);
        let mut low = from.event.map(|event| event.0);
        while high - low.unwrap_or(0) > 1 {
            let between = low.unwrap_or(0) + (high - low.unwrap_or(0)) / 2;
            self.watch.expect(u64::from(self.draws));
            let failed = self.from(EventId(between), rest)?;
            if failed >= middle {
                (high, after) = (between, failed);
            } else {
                (low, before) = (Some(between), failed);
            }
        }
        // Of a share that rises a little at many events no single one is decisive.
        Ok(match self.named(EventId(high), [before, after], rest) {
            Some(found) if lie_apart(found.shares(self.draws)) => Settled::By(found),
            Some(found) => Settled::NotDecided(found),
            None => Settled::Nowhere,
        })
    }

    fn named(&self, event: EventId, [before, after]: [u32; 2], rest: Rest) -> Option<Decisive> {
        let event = self.run.history.get(event)?;
        let name = names::name(event).unwrap_or_else(|| format!("an event at {}", event.node));
        Some(Decisive { event: event.id, at_us: event.at_us, name, before, after, rest })
    }
}
