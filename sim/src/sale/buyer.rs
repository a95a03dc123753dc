//! What buyers do: come at their time, tap, tap again, ask until they know, pay, or forget to.
//!
//! Whoever comes in the rush may be anybody: some tap twice, some ask from a second device
//! under another order, some never pay, some pay as their time runs out. Whoever comes after
//! all faults have ended wants the unit and pays for it, so that what came back has a buyer.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::sale::counter;
use lockstorm::sale::door::{Ask, Caller, Told as Answer};
use lockstorm::sale::funnel::Step;
use lockstorm::sale::orders::State;
use lockstorm::sale::page::{Next, Page, PageOptions};
use lockstorm::sale::{Buyer, OrderName, Wish};

use super::facts::{SharedFacts, Told};
use super::node::{DOOR_PORT, UNPAID, sku};
use super::{Part, SaleStorm, Way};
use crate::draw::Draw;
use crate::history::{OrderAnswer, What};
use crate::storm::crew::{Seat, USERS_NODE};

/// How long a buyer waits for an answer.
const PATIENCE: Duration = Duration::from_millis(800);

/// How often a buyer looks what became of the order.
const LOOK: Duration = Duration::from_millis(150);

/// After so many looks that found nothing the order is asked for again: its place in the queue
/// may be lost.
const LOOKS: u32 = 10;

/// When everybody comes, in order, µs: the buyers of the sale, and after the faults those who
/// are there for what comes back.
pub(super) fn arrivals(storm: &SaleStorm, ends_us: u64) -> Vec<(u64, u32)> {
    /// Servers are up, and the shelf is filled.
    const OPENING_US: u64 = 1_000_000;
    /// Between two late ones.
    const LATE_US: u64 = 60_000;
    let (setup, healed_us) = (&storm.setup, storm.plan.duration.0);
    let buyers = setup.buyers();
    let rush = u64::from(buyers) * u64::from(setup.in_rush_percent) / 100;
    let rush_us = rush * 1_000_000 / u64::from(setup.rush_per_second.max(1));
    let when = |number: u32| {
        let mut draw = Draw::new(storm.plan.seed.0, "sale/arrival", &number.to_string());
        match u64::from(number) < rush {
            true => OPENING_US + draw.below(rush_us.max(1)),
            false => draw.between(OPENING_US + rush_us, healed_us),
        }
    };
    let mut all: Vec<(u64, u32)> = (0..buyers).map(|number| (when(number), number)).collect();
    let late = (healed_us..ends_us).step_by(LATE_US as usize);
    all.extend(late.zip(buyers..));
    all.sort_unstable();
    all
}

/// A buyer of this number, who comes now.
pub(super) struct Visit {
    pub host: Host,
    pub storm: Arc<SaleStorm>,
    pub seat: Seat,
    pub facts: SharedFacts,
    pub number: u32,
    /// When it was to come, µs.
    pub came_us: u64,
}

/// What one buyer is like.
struct Manner {
    taps_twice: bool,
    has_second_device: bool,
    pays: bool,
    pays_after: Duration,
}

impl Manner {
    fn of(visit: &Visit) -> Manner {
        let entity = visit.number.to_string();
        let mut draw = Draw::new(visit.storm.plan.seed.0, "sale/buyer", &entity);
        let is_late = visit.came_us >= visit.storm.plan.duration.0;
        let (taps_twice, has_second_device) = (draw.chance(150), draw.chance(60));
        let (pays, hesitates) = (draw.chance(850), draw.chance(300));
        let unpaid_ms = u64::try_from(UNPAID.as_millis()).unwrap_or(u64::MAX);
        let pays_after_ms = match hesitates {
            // Around the end of its time.
            true => draw.between(unpaid_ms * 8 / 10, unpaid_ms * 11 / 10),
            false => draw.between(20, unpaid_ms / 2),
        };
        Manner {
            taps_twice,
            has_second_device: has_second_device && !is_late,
            pays: pays || is_late,
            pays_after: Duration::from_millis(if is_late { 20 } else { pays_after_ms }),
        }
    }
}

impl Visit {
    /// The whole visit.
    pub(super) async fn run(self) {
        let round = self.seat.stop.round();
        let manner = Manner::of(&self);
        let mut caller = self.caller();
        let wish = self.wish("1");
        if manner.has_second_device {
            self.ask_beside(self.wish("2"));
        }
        let options = PageOptions {
            locks_button: self.storm.setup.has(Part::Page),
            ..PageOptions::default()
        };
        let funnel = self.facts.funnel.clone();
        let mut page = Page::open(self.host.clone(), options, funnel, wish.clone());
        if self.gets_a_place(&mut page, &mut caller, &manner).await {
            self.follow(&wish, &mut caller, &manner).await;
        }
        drop(round);
    }

    fn caller(&self) -> Caller {
        let doors = self.storm.plan.topology.app_nodes().into_iter();
        let doors = doors.map(|node| format!("{node}:{DOOR_PORT}")).collect();
        Caller::new(self.host.clone(), doors, PATIENCE)
    }

    fn wish(&self, order: &str) -> Wish {
        let buyer = format!("b{}", self.number);
        // They break no rule for names.
        let order = OrderName::new(format!("{buyer}-{order}"));
        let order = order.unwrap_or_else(|error| unreachable!("{error}"));
        let buyer = Buyer::new(buyer).unwrap_or_else(|error| unreachable!("{error}"));
        Wish { order, buyer, sku: sku() }
    }

    /// The same buyer asks on a connection of its own, and does not look at what comes back.
    fn ask_beside(&self, wish: Wish) {
        let mut caller = self.caller();
        self.host.spawn("buyer", async move {
            let _ = caller.ask(&Ask::Buy { order: wish.order, buyer: wish.buyer }).await;
        });
    }

    /// Taps, and asks until there is an answer that is one. Whether a unit is set aside.
    async fn gets_a_place(&self, page: &mut Page, caller: &mut Caller, manner: &Manner) -> bool {
        /// A buyer gives up after so many taps.
        const TAPS: u32 = 4;
        for tap in 0..TAPS {
            let Some(wish) = page.tap() else { return false };
            if manner.taps_twice
                && tap == 0
                && let Some(again) = page.tap()
            {
                self.ask_beside(again);
            }
            let ask = Ask::Buy { order: wish.order.clone(), buyer: wish.buyer.clone() };
            loop {
                let step = match caller.ask(&ask).await {
                    Some(Answer::Served { step }) => step,
                    _ => Step::Failed,
                };
                if tap == 0 {
                    let since = self.seat.recorder.now_us().saturating_sub(self.came_us);
                    self.facts.answered_after(since);
                }
                match step {
                    Step::Sold | Step::Again => return true,
                    Step::SoldOut => self.tell(&wish, Told::SoldOut),
                    _ => {}
                }
                match page.answered(counter::answer(step)) {
                    Next::Over => return false,
                    Next::Unlocked => break,
                    Next::AskAfter(after) => self.host.sleep(after).await,
                }
                if self.seat.stop.is_stopped() {
                    return false;
                }
            }
            self.host.sleep(Duration::from_millis(300)).await;
        }
        false
    }

    /// A unit is set aside: looks whether it is ordered, and pays.
    async fn follow(&self, wish: &Wish, caller: &mut Caller, manner: &Manner) {
        if self.storm.setup.way == Way::Pessimistic {
            // There it is sold with the answer.
            return self.tell(wish, Told::Paid);
        }
        let confirms = self.storm.setup.has(Part::Confirmation);
        if !confirms {
            self.tell(wish, Told::Ordered);
        } else if !self.is_confirmed(wish, caller).await {
            return;
        }
        if !manner.pays {
            return;
        }
        self.host.sleep(manner.pays_after).await;
        while !self.seat.stop.is_stopped() {
            match caller.ask(&Ask::Pay { order: wish.order.clone() }).await {
                Some(Answer::Paid { in_time: true }) => return self.tell(wish, Told::Paid),
                Some(Answer::Paid { in_time: false }) => return self.tell(wish, Told::TooLate),
                _ => self.host.sleep(LOOK).await,
            }
        }
    }

    /// Looks until the books have it, or have refused it.
    async fn is_confirmed(&self, wish: &Wish, caller: &mut Caller) -> bool {
        let mut looks = 0;
        while !self.seat.stop.is_stopped() {
            match caller.ask(&Ask::Look { order: wish.order.clone() }).await {
                Some(Answer::Known { state: Some(State::Unpaid | State::Paid) }) => {
                    self.tell(wish, Told::Ordered);
                    return true;
                }
                Some(Answer::Known { state: Some(State::Refused) }) => {
                    self.tell(wish, Told::SoldOut);
                    return false;
                }
                Some(Answer::Known { state: Some(State::Lapsed) }) => {
                    self.tell(wish, Told::TooLate);
                    return false;
                }
                _ => {}
            }
            looks += 1;
            if looks % LOOKS == 0 {
                let (order, buyer) = (wish.order.clone(), wish.buyer.clone());
                let told = caller.ask(&Ask::Buy { order, buyer }).await;
                // The place was lost, and all have been given away since.
                if let Some(Answer::Served { step: step @ (Step::SoldOut | Step::Taken) }) = told {
                    if step == Step::SoldOut {
                        self.tell(wish, Told::SoldOut);
                    }
                    return false;
                }
            }
            self.host.sleep(LOOK).await;
        }
        false
    }

    fn tell(&self, wish: &Wish, told: Told) {
        let at_us = self.seat.recorder.now_us();
        self.facts.tell(at_us, &wish.buyer, &wish.order, told);
        let answer = match told {
            // What becomes of it the buyer is told later.
            Told::Ordered => return,
            Told::Paid => OrderAnswer::Accepted,
            Told::SoldOut => OrderAnswer::SoldOut,
            Told::TooLate => OrderAnswer::Refused,
        };
        let order = wish.order.as_str().into();
        self.seat.recorder.record(&USERS_NODE.into(), What::OrderReturned { order, answer });
    }
}
