//! Who may ask at all: so many from one buyer, so many at one node, and the same wish
//! not twice at once.
//!
//! What costs least is asked first, and a wish that is turned away has used up nobody
//! else's share: a buyer who floods takes no token of the node.
//!
//! It remembers a bounded number of buyers, the latest. A buyer who is forgotten begins
//! with a full bucket, so a node that is asked by more buyers than it remembers within a
//! second admits a little too much; the node's own bucket holds all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::bucket::{Rate, TokenBucket};
use super::{Buyer, OrderName, Wish};

/// What is admitted.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionOptions {
    /// By one node; `None` for no limit.
    pub node: Option<Rate>,
    /// From one buyer; `None` for no limit.
    pub buyer: Option<Rate>,
    /// Whether the same order is turned away while it is under way.
    pub filters_repeats: bool,
    /// How many buyers are remembered, at least 1.
    pub remembered: usize,
}

impl Default for AdmissionOptions {
    /// A node of a small sale: 500 a second, 2 a second from one buyer.
    fn default() -> Self {
        AdmissionOptions {
            node: Some(Rate { burst: 200, per_second: 500 }),
            buyer: Some(Rate { burst: 3, per_second: 2 }),
            filters_repeats: true,
            remembered: 100_000,
        }
    }
}

/// Why somebody is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Turned {
    /// The same order is being looked at.
    #[error("this order is being looked at already")]
    Repeated,
    /// This buyer asks too often.
    #[error("too many requests from this buyer")]
    TooOften,
    /// This node is asked too often.
    #[error("too many requests at once")]
    Busy,
}

/// The admission of one node.
#[derive(Debug)]
pub struct Admission {
    options: AdmissionOptions,
    node: Option<TokenBucket>,
    buyers: BTreeMap<Buyer, (TokenBucket, Duration)>,
    /// The same buyers, the one who asked longest ago first.
    latest: BTreeSet<(Duration, Buyer)>,
    under_way: BTreeSet<OrderName>,
}

impl Admission {
    /// With full buckets.
    pub fn new(options: AdmissionOptions, now: Duration) -> Self {
        Admission {
            options,
            node: options.node.map(|rate| TokenBucket::new(rate, now)),
            buyers: BTreeMap::new(),
            latest: BTreeSet::new(),
            under_way: BTreeSet::new(),
        }
    }

    /// Lets the wish in; [`Admission::done`] must follow.
    ///
    /// # Errors
    /// [`Turned`].
    pub fn enter(&mut self, wish: &Wish, now: Duration) -> Result<(), Turned> {
        if self.options.filters_repeats && self.under_way.contains(&wish.order) {
            return Err(Turned::Repeated);
        }
        if !self.buyer_may(&wish.buyer, now) {
            return Err(Turned::TooOften);
        }
        if self.node.as_mut().is_some_and(|node| !node.take(now)) {
            if let Some((bucket, _)) = self.buyers.get_mut(&wish.buyer) {
                bucket.put_back();
            }
            return Err(Turned::Busy);
        }
        if self.options.filters_repeats {
            self.under_way.insert(wish.order.clone());
        }
        Ok(())
    }

    /// The wish was answered, however.
    pub fn done(&mut self, order: &OrderName) {
        self.under_way.remove(order);
    }

    fn buyer_may(&mut self, buyer: &Buyer, now: Duration) -> bool {
        let Some(rate) = self.options.buyer else { return true };
        let (mut bucket, before) = match self.buyers.remove(buyer) {
            Some(known) => known,
            None => (TokenBucket::new(rate, now), now),
        };
        self.latest.remove(&(before, buyer.clone()));
        let may = bucket.take(now);
        self.latest.insert((now, buyer.clone()));
        self.buyers.insert(buyer.clone(), (bucket, now));
        while self.buyers.len() > self.options.remembered.max(1) {
            let Some((_, oldest)) = self.latest.pop_first() else { break };
            self.buyers.remove(&oldest);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::Sku;

    fn wish(buyer: &str, order: &str) -> Wish {
        Wish {
            order: OrderName::new(order).unwrap(),
            buyer: Buyer::new(buyer).unwrap(),
            sku: Sku::new("sku-42").unwrap(),
        }
    }

    fn admission(options: AdmissionOptions) -> Admission {
        Admission::new(options, Duration::ZERO)
    }

    #[test]
    fn the_same_order_is_not_looked_at_twice_at_once() {
        let mut admission = admission(AdmissionOptions::default());
        let wish = wish("a", "a-1");
        assert_eq!(admission.enter(&wish, Duration::ZERO), Ok(()));
        assert_eq!(admission.enter(&wish, Duration::ZERO), Err(Turned::Repeated));
        admission.done(&wish.order);
        assert_eq!(admission.enter(&wish, Duration::ZERO), Ok(()));
    }

    #[test]
    fn who_floods_takes_nothing_from_others() {
        let node = Some(Rate { burst: 5, per_second: 0 });
        let buyer = Some(Rate { burst: 2, per_second: 0 });
        let options = AdmissionOptions { node, buyer, ..AdmissionOptions::default() };
        let mut admission = admission(options);
        let enter = |admission: &mut Admission, buyer: &str, n: u32| {
            admission.enter(&wish(buyer, &format!("{buyer}-{n}")), Duration::ZERO)
        };
        for n in 0..2 {
            assert_eq!(enter(&mut admission, "flood", n), Ok(()));
        }
        for n in 2..1_000 {
            assert_eq!(enter(&mut admission, "flood", n), Err(Turned::TooOften));
        }
        for buyer in ["a", "b", "c"] {
            assert_eq!(enter(&mut admission, buyer, 0), Ok(()));
        }
        assert_eq!(enter(&mut admission, "d", 0), Err(Turned::Busy));
        // It was not that buyer's fault: the own share is whole.
        let (share, _) = &admission.buyers[&Buyer::new("d").unwrap()];
        assert!(share.clone().take(Duration::ZERO));
    }

    #[test]
    fn only_so_many_buyers_are_remembered() {
        let options =
            AdmissionOptions { remembered: 10, node: None, ..AdmissionOptions::default() };
        let mut admission = admission(options);
        for n in 0..1_000_u64 {
            let wish = wish(&format!("b-{n}"), &format!("o-{n}"));
            admission.enter(&wish, Duration::from_millis(n)).unwrap();
            admission.done(&wish.order);
        }
        assert_eq!((admission.buyers.len(), admission.latest.len()), (10, 10));
        assert!(admission.under_way.is_empty());
    }
}
