//! Whether shelf and books agree, once the queue is empty and nobody sells: what is asked
//! at the end of a sale, and each night.
//!
//! It finds; it mends nothing. Which side is right is a question of what was lost: after a
//! failover of the shelf's Redis the books know more, after a writer that acknowledged too
//! early the shelf does.

use std::collections::BTreeMap;

use super::shelf::Inventory;
use super::{Buyer, OrderName, Sku, Wish};

/// Something that does not agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// More units are in the books than there were.
    Oversold {
        /// How many more.
        by: u64,
    },
    /// What is left and what is sold are not what there was.
    NotConserved {
        /// Units at the start.
        units: u32,
        /// Left on the shelf.
        left: i64,
        /// In the books.
        sold: u64,
    },
    /// The shelf gave a unit, and the books have no order.
    NotInBooks {
        /// The order.
        order: OrderName,
    },
    /// The books have an order of which the shelf does not know.
    NotOnShelf {
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

/// Compares what is left of `units` of `sku` with the orders in the books.
pub fn reconcile(units: u32, sku: &Sku, shelf: &Inventory, books: &[Wish]) -> Vec<Difference> {
    let of_sku: Vec<&Wish> = books.iter().filter(|wish| wish.sku == *sku).collect();
    let written: BTreeMap<&OrderName, &Wish> =
        of_sku.iter().map(|wish| (&wish.order, *wish)).collect();
    let given: BTreeMap<&OrderName, &Buyer> =
        shelf.buyers.iter().map(|(buyer, order)| (order, buyer)).collect();
    let mut found = Vec::new();
    let sold = of_sku.len() as u64;
    if let Some(by) = sold.checked_sub(u64::from(units)).filter(|by| *by > 0) {
        found.push(Difference::Oversold { by });
    }
    if let Some(left) = shelf.left
        && i128::from(left) + i128::from(sold) != i128::from(units)
    {
        found.push(Difference::NotConserved { units, left, sold });
    }
    let missing = given.keys().filter(|order| !written.contains_key(*order));
    found.extend(missing.map(|order| Difference::NotInBooks { order: (*order).clone() }));
    let unknown = written.keys().filter(|order| !given.contains_key(*order));
    found.extend(unknown.map(|order| Difference::NotOnShelf { order: (*order).clone() }));
    let mut of_buyer: BTreeMap<&Buyer, u64> = BTreeMap::new();
    for wish in &of_sku {
        *of_buyer.entry(&wish.buyer).or_default() += 1;
    }
    let twice = of_buyer.into_iter().filter(|(_, units)| *units > 1);
    found
        .extend(twice.map(|(buyer, units)| Difference::TwiceByOne { buyer: buyer.clone(), units }));
    found.sort();
    found
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
        Inventory {
            left: Some(left),
            buyers: buyers.iter().map(pair).collect(),
            unpaid: Vec::new(),
        }
    }

    #[test]
    fn what_agrees_has_no_difference() {
        let books = [wish("a", "1"), wish("b", "2")];
        assert_eq!(reconcile(3, &sku(), &shelf(1, &[("a", "1"), ("b", "2")]), &books), []);
    }

    #[test]
    fn each_difference_is_told() {
        let books = [wish("a", "1"), wish("a", "3"), wish("c", "4")];
        let found = reconcile(2, &sku(), &shelf(0, &[("a", "1"), ("b", "2")]), &books);
        let order = |name: &str| OrderName::new(name).unwrap();
        assert_eq!(
            found,
            [
                Difference::Oversold { by: 1 },
                Difference::NotConserved { units: 2, left: 0, sold: 3 },
                Difference::NotInBooks { order: order("2") },
                Difference::NotOnShelf { order: order("3") },
                Difference::NotOnShelf { order: order("4") },
                Difference::TwiceByOne { buyer: Buyer::new("a").unwrap(), units: 2 },
            ]
        );
    }
}
