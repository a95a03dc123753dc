//! Whether shelf and books agree, and what the shelf should say where they do not.
//!
//! The books are right: they are durable, and take no more orders than there are units. The
//! shelf may say too much (its Redis failed over to a replica that had not heard of the latest
//! orders: buyers queue for units that are sold, and the books refuse them) or too little (a
//! unit was taken by somebody who died, and nobody can buy it). [`plan`] works out what it
//! should say.
//!
//! Each unit is in one of three places: free to be taken; set aside for an order that the books
//! do not know yet; or an order's in the books. So what is left is what there is, less the
//! orders in the books that have a unit, less those that are set aside and unknown there.
//! Shelf and books are read one after the other, the shelf first, and what is worked out is
//! done only if nothing has moved on the shelf since. What moved in the books meanwhile makes
//! it wrong by as much until the next look, never by more, and is in no buyer's way: the books
//! look for themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::orders::{Account, State};
use super::shelf::{Inventory, Restock};
use super::{Buyer, OrderName, Sku, Wish};

/// Something that does not agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// More units have an order in the books than there are.
    Oversold {
        /// How many more.
        by: u64,
    },
    /// The books do not add up: units that are free and units that have an order are not what
    /// there is.
    NotConserved {
        /// Units at the start.
        units: u32,
        /// Free in the books.
        free: i64,
        /// Orders that have a unit.
        ordered: u64,
    },
    /// The shelf says something else than the books.
    Shelf {
        /// What it says is left.
        left: Option<i64>,
        /// What should be.
        should_be: u32,
    },
    /// The shelf gave a unit, and the books do not know the order.
    NotInBooks {
        /// The order.
        order: OrderName,
    },
    /// A buyer has more than one unit.
    TwiceByOne {
        /// Who.
        buyer: Buyer,
        /// How many.
        units: u64,
    },
}

/// What does not agree. At the end of a sale, when the queue is empty and nobody buys, all of it
/// is wrong; while it goes on, orders that are under way are not in the books yet.
pub fn differences(shelf: &Inventory, books: &Account) -> Vec<Difference> {
    let mut found = Vec::new();
    let with_unit = books.orders.iter().filter(|(_, state)| state.has_unit());
    let mut of_buyer: BTreeMap<&Buyer, u64> = BTreeMap::new();
    for (wish, _) in with_unit {
        *of_buyer.entry(&wish.buyer).or_default() += 1;
    }
    let ordered: u64 = of_buyer.values().sum();
    if let Some(by) = ordered.checked_sub(u64::from(books.units)).filter(|by| *by > 0) {
        found.push(Difference::Oversold { by });
    }
    if i128::from(books.free) + i128::from(ordered) != i128::from(books.units) {
        let (units, free) = (books.units, books.free);
        found.push(Difference::NotConserved { units, free, ordered });
    }
    let should_be = left(shelf, books);
    if shelf.left != Some(i64::from(should_be)) {
        found.push(Difference::Shelf { left: shelf.left, should_be });
    }
    let missing = unknown(shelf, books).into_iter();
    found.extend(missing.map(|(_, order)| Difference::NotInBooks { order }));
    let twice = of_buyer.into_iter().filter(|(_, units)| *units > 1);
    found
        .extend(twice.map(|(buyer, units)| Difference::TwiceByOne { buyer: buyer.clone(), units }));
    found.sort();
    found
}

/// What the shelf should say; `None` where it does. Orders that the books do not know are
/// queued again if they were unknown at an earlier look, too: `suspects`, by name.
pub fn plan(
    sku: &Sku,
    shelf: &Inventory,
    books: &Account,
    suspects: &BTreeSet<OrderName>,
) -> Option<Restock> {
    let states: BTreeMap<&OrderName, State> =
        books.orders.iter().map(|(wish, state)| (&wish.order, *state)).collect();
    let over = |order: &OrderName| states.get(order).is_some_and(|state| !state.has_unit());
    let gone = shelf.buyers.iter().filter(|(_, order)| over(order));
    let gone: Vec<Buyer> = gone.map(|(buyer, _)| buyer.clone()).collect();
    let lost = unknown(shelf, books).into_iter().filter(|(_, order)| suspects.contains(order));
    let requeued = lost.map(|(buyer, order)| Wish { order, buyer, sku: sku.clone() });
    let restock = Restock { left: left(shelf, books), requeued: requeued.collect(), gone };
    let is_right = shelf.left == Some(i64::from(restock.left))
        && restock.gone.is_empty()
        && restock.requeued.is_empty();
    (!is_right).then_some(restock)
}

/// The orders that are set aside on the shelf and unknown in the books.
pub fn unknown(shelf: &Inventory, books: &Account) -> Vec<(Buyer, OrderName)> {
    let known: BTreeSet<&OrderName> = books.orders.iter().map(|(wish, _)| &wish.order).collect();
    shelf.buyers.iter().filter(|(_, order)| !known.contains(order)).cloned().collect()
}

fn left(shelf: &Inventory, books: &Account) -> u32 {
    let ordered = books.orders.iter().filter(|(_, state)| state.has_unit()).count();
    let gone = ordered + unknown(shelf, books).len();
    books.units.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sku() -> Sku {
        Sku::new("s").unwrap()
    }

    fn wish(buyer: &str, order: &str) -> Wish {
        let order = OrderName::new(order).unwrap();
        Wish { order, buyer: Buyer::new(buyer).unwrap(), sku: sku() }
    }

    fn shelf(left: i64, buyers: &[(&str, &str)]) -> Inventory {
        let pair = |(buyer, order): &(&str, &str)| {
            (Buyer::new(*buyer).unwrap(), OrderName::new(*order).unwrap())
        };
        Inventory { left: Some(left), buyers: buyers.iter().map(pair).collect(), moves: 3 }
    }

    fn books(units: u32, free: i64, orders: &[(&str, &str, State)]) -> Account {
        let orders = orders.iter().map(|(buyer, order, state)| (wish(buyer, order), *state));
        Account { units, free, orders: orders.collect() }
    }

    #[test]
    fn what_agrees_has_no_difference() {
        let shelf = shelf(1, &[("a", "1"), ("b", "2")]);
        let books = books(3, 1, &[("a", "1", State::Paid), ("b", "2", State::Unpaid)]);
        assert_eq!(differences(&shelf, &books), []);
        assert_eq!(plan(&sku(), &shelf, &books, &BTreeSet::new()), None);
    }

    #[test]
    fn each_difference_is_told() {
        let orders = [("a", "1", State::Paid), ("a", "3", State::Paid), ("c", "4", State::Unpaid)];
        let found = differences(&shelf(5, &[("a", "1"), ("b", "2")]), &books(2, 0, &orders));
        let order = OrderName::new("2").unwrap();
        assert_eq!(
            found,
            [
                Difference::Oversold { by: 1 },
                Difference::NotConserved { units: 2, free: 0, ordered: 3 },
                Difference::Shelf { left: Some(5), should_be: 0 },
                Difference::NotInBooks { order },
                Difference::TwiceByOne { buyer: Buyer::new("a").unwrap(), units: 2 },
            ]
        );
    }

    #[test]
    fn a_shelf_that_forgot_orders_is_told_what_is_left() {
        // Three were sold, and a failover took two of them back.
        let orders = [("a", "1", State::Paid), ("b", "2", State::Paid), ("c", "3", State::Unpaid)];
        let restock =
            plan(&sku(), &shelf(4, &[("a", "1")]), &books(5, 2, &orders), &BTreeSet::new());
        assert_eq!(restock, Some(Restock { left: 2, ..Restock::default() }));
    }

    #[test]
    fn a_unit_whose_order_came_to_nothing_is_free_again() {
        let orders = [("a", "1", State::Lapsed), ("b", "2", State::Refused)];
        let restock = plan(
            &sku(),
            &shelf(0, &[("a", "1"), ("b", "2")]),
            &books(2, 2, &orders),
            &BTreeSet::new(),
        );
        let gone = ["a", "b"].map(|buyer| Buyer::new(buyer).unwrap()).to_vec();
        assert_eq!(restock, Some(Restock { left: 2, requeued: Vec::new(), gone }));
    }

    #[test]
    fn an_order_that_stays_unknown_is_queued_again() {
        let (shelf, books) = (shelf(1, &[("a", "1")]), books(2, 2, &[]));
        assert_eq!(plan(&sku(), &shelf, &books, &BTreeSet::new()), None);
        let suspects = BTreeSet::from([OrderName::new("1").unwrap()]);
        let restock = plan(&sku(), &shelf, &books, &suspects);
        let requeued = vec![wish("a", "1")];
        assert_eq!(restock, Some(Restock { left: 1, requeued, gone: Vec::new() }));
    }
}
