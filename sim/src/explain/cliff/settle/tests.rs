//! Is what is found judged by draws of its own, and only told where they bear it out?

use std::cell::{Cell, RefCell};

use super::*;

/// Runs that fail by chance, with a share that is known. The same question has the same answer:
/// equal draws give equal runs.
struct Known<'a> {
    share: &'a dyn Fn(u64) -> f64,
    draws: u32,
    seed: u64,
    asked: Cell<u32>,
    anew: RefCell<Vec<Option<EventId>>>,
}

impl<'a> Known<'a> {
    fn new(share: &'a dyn Fn(u64) -> f64, draws: u32, seed: u64) -> Known<'a> {
        let (asked, anew) = (Cell::new(0), RefCell::new(Vec::new()));
        Known { share, draws, seed, asked, anew }
    }

    /// How many of the runs from `event` on fail, of these draws.
    fn count(&self, event: u64, draws: Draws) -> u32 {
        let site = match draws {
            Draws::Same => "known",
            Draws::Anew => "known/anew",
        };
        let fails = |number: &u32| {
            let number = format!("{event} {number}");
            let bits = crate::draw::Draw::new(self.seed, site, &number).bits();
            ((bits >> 11) as f64 / (1_u64 << 53) as f64) < (self.share)(event)
        };
        (0..self.draws).filter(fails).count() as u32
    }

    /// A story with a step at each hundredth event.
    fn points(&self, steps: u64) -> Vec<Point> {
        let point = |step: u64| {
            let event = step.checked_sub(1).map(|_| step * 100);
            let stormy = self.count(event.unwrap_or(0), Draws::Same);
            let place = event.map(|_| step as usize - 1);
            Point { step: place, event: event.map(EventId), at_us: step, stormy, calm: 0 }
        };
        (0..=steps).map(point).collect()
    }
}

impl Shares for Known<'_> {
    fn failing(&self, from: Option<EventId>, _: Rest, draws: Draws) -> Result<u32, Unexplained> {
        self.asked.set(self.asked.get() + 1);
        if draws == Draws::Anew {
            self.anew.borrow_mut().push(from);
        }
        Ok(self.count(from.map_or(0, |event| event.0), draws))
    }

    fn name(&self, event: EventId) -> Option<(u64, String)> {
        Some((event.0, format!("event {}", event.0)))
    }
}

/// Who draws nothing anew: the draws that something was found with judge it.
struct Prejudiced<'a>(&'a Known<'a>);

impl Shares for Prejudiced<'_> {
    fn failing(&self, from: Option<EventId>, rest: Rest, _: Draws) -> Result<u32, Unexplained> {
        self.0.failing(from, rest, Draws::Same)
    }

    fn name(&self, event: EventId) -> Option<(u64, String)> {
        self.0.name(event)
    }
}

fn is_told(settled: &Settled) -> bool {
    matches!(settled, Settled::By(_) | Settled::Gradually(_))
}

/// The steepest of two dozen rises looks like more than chance far too often; what is told
/// does not, and would if the draws that it was found with judged it.
#[test]
fn a_share_that_never_changes_is_settled_nowhere() {
    let (mut seems, mut told) = (0, 0);
    for seed in 0..1_000 {
        let known = Known::new(&|_| 0.5, 10, seed);
        let points = known.points(24);
        let anew = settled(&known, &points, 10, Rest::Stormy).unwrap();
        told += u32::from(is_told(&anew));
        let is_sought = !known.anew.borrow().is_empty();
        let same = settled(&Prejudiced(&known), &points, 10, Rest::Stormy).unwrap();
        // What is sought at all is kept by whoever judges it as it was found.
        assert_eq!(is_told(&same), is_sought, "{seed}: {same:?}");
        if let Settled::Gradually(rise) = &same {
            let steepest = points.windows(2).any(|pair| {
                [pair[0].stormy, pair[1].stormy] == [rise.before, rise.after]
                    && pair[1].event == Some(rise.to.event)
            });
            assert!(steepest, "{seed}: {same:?}");
        }
        seems += u32::from(is_sought);
    }
    assert!(seems > 20, "{seems}");
    assert!(told <= 5, "{told} of 1,000, where {seems} seemed so");
}

/// What is told has the counts of the new draws, and says so.
#[test]
fn what_is_told_was_drawn_anew() {
    for seed in 0..50 {
        let share = |event: u64| (event.clamp(400, 500) - 400) as f64 / 100.0;
        let known = Known::new(&share, 50, seed);
        let settled = settled(&known, &known.points(12), 50, Rest::Stormy).unwrap();
        let anew = known.anew.borrow();
        let Some((from, rise)) = (match &settled {
            Settled::By(rise) => Some((anew[0], rise)),
            Settled::Gradually(rise) => Some((Some(EventId(400)), rise)),
            Settled::NotDecided(_) | Settled::Nowhere => None,
        }) else {
            continue;
        };
        assert_eq!(rise.draws, Draws::Anew);
        assert!(anew.contains(&from) && anew.contains(&Some(rise.to.event)), "{settled:?}");
        let before = known.count(from.map_or(0, |event| event.0), Draws::Anew);
        let after = known.count(rise.to.event.0, Draws::Anew);
        assert_eq!([rise.before, rise.after], [before, after], "{settled:?}");
    }
}

/// Whoever asks over too few draws is told the counts that were seen, and that they are those.
#[test]
fn what_is_not_asked_again_says_so() {
    let jump = |event| if event < 437 { 0.0 } else { 1.0 };
    let known = Known::new(&jump, 2, 0);
    let Settled::NotDecided(rise) = settled(&known, &known.points(12), 2, Rest::Stormy).unwrap()
    else {
        panic!("two draws decide nothing")
    };
    assert_eq!((rise.draws, rise.from_step, rise.to.step), (Draws::Same, Some(3), Some(4)));
    assert_eq!((rise.before, rise.after, known.asked.get()), (0, 2, 0));
    let none = Known::new(&jump, 0, 0);
    let settled = settled(&none, &none.points(12), 0, Rest::Stormy).unwrap();
    assert_eq!(settled, Settled::Nowhere, "over no draws nothing is settled");
}

#[test]
fn a_jump_is_found_and_a_slope_is_told_as_one() {
    for seed in 0..50 {
        let jump = |event| if event < 437 { 0.1 } else { 0.9 };
        let known = Known::new(&jump, 50, seed);
        let by = settled(&known, &known.points(12), 50, Rest::Stormy).unwrap();
        assert_eq!(by.decisive().map(|by| by.to.event), Some(EventId(437)), "{by:?}");
        assert_eq!(by.decisive().map(|by| (by.from_step, by.to.step)), Some((Some(3), None)));
        // Seven halvings, and two to judge.
        assert!(known.asked.get() <= 9, "{}", known.asked.get());
    }
    let mut slopes = 0;
    for seed in 0..50 {
        let slope = |event: u64| (event.clamp(400, 500) - 400) as f64 / 100.0;
        let known = Known::new(&slope, 50, seed);
        let settled = settled(&known, &known.points(12), 50, Rest::Stormy).unwrap();
        assert!(known.asked.get() <= 7 + 4, "{}", known.asked.get());
        if let Settled::Gradually(rise) = settled {
            assert_eq!((rise.from_step, rise.to.step), (Some(3), Some(4)));
            assert_eq!(rise.to.event, EventId(500));
            assert!(lie_apart(rise.shares(50)));
            slopes += 1;
        }
    }
    assert!(slopes >= 45, "{slopes}");
}
