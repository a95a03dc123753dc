//! The guarded stock and its fence: units for sale, and the half of mutual exclusion
//! that no lock can give.
//!
//! A lock keeps honest clients apart while nothing goes wrong. When a grant is lost
//! and its holder does not know it yet, only the resource can tell the old holder
//! from the new: every operation shows its owner and its fencing token, and the
//! [`Fence`] refuses whoever is older than what it has seen. The stock itself is
//! naive on purpose: like a plain store that is read first and written later, it
//! takes a second sale of the same unit. What protects a unit is the lock and the
//! fence, so what they fail to do can be counted in the [`Sale`]s.
//!
//! Order of things: [`fence`] decides, this file has the books ([`Stock`]), and
//! [`wire`], [`server`] and [`client`] carry operations between machines. It is not a
//! database: the books live in memory, behind whatever keeps the [`Stock`]. The stock in a
//! database is `sql`, with the feature `postgres`.

pub mod client;
pub mod fence;
pub mod server;
#[cfg(feature = "postgres")]
pub mod sql;
pub mod wire;

pub use client::{StockClient, StockError};
pub use fence::{Fence, FenceMode, Refusal, Sharing, Shown};
pub use server::{Decided, Decision, StockObserver, StockServer, Unobserved};

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How long the name of an order may be, bytes.
pub const MAX_ORDER_BYTES: usize = 128;

/// How many sales the books have room for.
pub const MAX_SALES: usize = 1 << 20;

/// What a buyer sees before buying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// How many units nobody has bought.
    pub left: u32,
    /// The first of them; `None` when all are sold.
    pub next_unit: Option<u32>,
}

/// One accepted sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sale {
    /// The unit, from 1.
    pub unit: u32,
    /// The order's name.
    pub order: String,
}

/// Why the stock did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StockRefusal {
    /// The fence refused whoever asked.
    #[error(transparent)]
    Fence(#[from] Refusal),
    /// There is no such unit.
    #[error("there is no unit {unit}: they are numbered from 1 to {units}")]
    NoSuchUnit {
        /// As asked for.
        unit: u32,
        /// How many there are.
        units: u32,
    },
    /// The order has a unit already, and it is another.
    #[error("this order has bought unit {unit} already")]
    OrderTaken {
        /// The unit it has.
        unit: u32,
    },
    /// The order's name is empty or too long.
    #[error("an order's name has 1 to {MAX_ORDER_BYTES} bytes")]
    OrderName,
    /// The books are full.
    #[error("the books are full: there is room for {MAX_SALES} sales")]
    BooksFull,
}

/// How a sale that was not refused went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sold {
    /// It is in the books now.
    Now,
    /// The same order bought the same unit earlier: nothing has changed.
    Already,
}

/// Units numbered from 1, who bought them, and the fence before them.
pub struct Stock {
    units: u32,
    fence: Fence,
    sales: Vec<Sale>,
    /// The units that somebody has bought, and how often.
    sold: BTreeMap<u32, u32>,
    /// Each order's unit.
    orders: BTreeMap<String, u32>,
    /// No unit below this is free.
    first_free: u32,
}

impl Stock {
    /// `units` unsold units behind a fence that nobody has passed yet.
    pub fn new(units: u32, mode: FenceMode) -> Self {
        Stock {
            units,
            fence: Fence::new(mode),
            sales: Vec::new(),
            sold: BTreeMap::new(),
            orders: BTreeMap::new(),
            first_free: 1,
        }
    }

    /// How many units there were at the start.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// How many units nobody has bought, for whoever keeps the stock.
    pub fn left(&self) -> u32 {
        self.units - u32::try_from(self.sold.len()).unwrap_or(self.units)
    }

    /// Every accepted sale, in order of acceptance.
    pub fn sales(&self) -> &[Sale] {
        &self.sales
    }

    /// The books as plain values: unit and order of every sale, in order of acceptance.
    pub fn ledger(&self) -> Vec<(u32, String)> {
        self.sales.iter().map(|sale| (sale.unit, sale.order.clone())).collect()
    }

    /// The fence, for those who want to see what it has registered.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Which units are left. With [`FenceMode::Full`] reading passes the fence too.
    ///
    /// # Errors
    /// [`StockRefusal::Fence`] only.
    pub fn read(&mut self, shown: &Shown) -> Result<Level, StockRefusal> {
        self.fence.pass_read(shown)?;
        let left = self.left();
        Ok(Level { left, next_unit: (left > 0).then_some(self.first_free) })
    }

    /// Sells `unit` under `order`. A repeated order is the same sale: it is answered
    /// from the books, before the fence, because whoever asks again for want of a
    /// reply must be told the truth, and nothing changes.
    ///
    /// # Errors
    /// Any [`StockRefusal`]; the books are then unchanged.
    pub fn sell(&mut self, shown: &Shown, unit: u32, order: &str) -> Result<Sold, StockRefusal> {
        if let Some(&bought) = self.orders.get(order) {
            return match bought == unit {
                true => Ok(Sold::Already),
                false => Err(StockRefusal::OrderTaken { unit: bought }),
            };
        }
        if unit == 0 || unit > self.units {
            return Err(StockRefusal::NoSuchUnit { unit, units: self.units });
        }
        if order.is_empty() || order.len() > MAX_ORDER_BYTES {
            return Err(StockRefusal::OrderName);
        }
        if self.sales.len() >= MAX_SALES {
            return Err(StockRefusal::BooksFull);
        }
        self.fence.pass_write(shown)?;
        self.orders.insert(order.to_owned(), unit);
        self.sales.push(Sale { unit, order: order.to_owned() });
        *self.sold.entry(unit).or_default() += 1;
        while self.sold.contains_key(&self.first_free) {
            self.first_free += 1;
        }
        Ok(Sold::Now)
    }
}

impl fmt::Debug for Stock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Stock")
            .field("units", &self.units)
            .field("sales", &self.sales.len())
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn anybody() -> Shown {
        Shown::new("a", None)
    }

    #[test]
    fn units_are_sold_from_the_first() {
        let mut stock = Stock::new(3, FenceMode::Off);
        assert_eq!(stock.read(&anybody()), Ok(Level { left: 3, next_unit: Some(1) }));
        assert_eq!(stock.sell(&anybody(), 1, "x"), Ok(Sold::Now));
        assert_eq!(stock.sell(&anybody(), 3, "y"), Ok(Sold::Now));
        assert_eq!(stock.read(&anybody()), Ok(Level { left: 1, next_unit: Some(2) }));
        assert_eq!(stock.sell(&anybody(), 2, "z"), Ok(Sold::Now));
        assert_eq!(stock.read(&anybody()), Ok(Level { left: 0, next_unit: None }));
    }

    #[test]
    fn a_naive_stock_sells_a_unit_twice_and_its_books_show_it() {
        let mut stock = Stock::new(1, FenceMode::Off);
        stock.sell(&anybody(), 1, "x").unwrap();
        stock.sell(&anybody(), 1, "y").unwrap();
        assert_eq!(stock.ledger(), [(1, "x".to_owned()), (1, "y".to_owned())]);
        assert_eq!(stock.read(&anybody()), Ok(Level { left: 0, next_unit: None }));
    }

    #[test]
    fn a_repeated_order_is_the_same_sale_even_for_one_whom_the_fence_would_refuse() {
        let mut stock = Stock::new(2, FenceMode::Full);
        let (old, new) = (Shown::new("a", Some(1)), Shown::new("b", Some(2)));
        assert_eq!(stock.sell(&old, 1, "x"), Ok(Sold::Now));
        stock.read(&new).unwrap();
        assert_eq!(stock.sell(&old, 1, "x"), Ok(Sold::Already));
        assert_eq!(stock.sell(&old, 2, "x"), Err(StockRefusal::OrderTaken { unit: 1 }));
        assert!(matches!(stock.sell(&old, 2, "y"), Err(StockRefusal::Fence(_))));
        assert_eq!(stock.sales().len(), 1);
    }

    #[test]
    fn what_cannot_be_sold_is_refused_and_does_not_pass_the_fence() {
        let mut stock = Stock::new(2, FenceMode::Full);
        let newest = Shown::new("b", Some(9));
        for (unit, order) in [(0, "x"), (3, "x"), (1, ""), (1, &*"x".repeat(129))] {
            stock.sell(&newest, unit, order).unwrap_err();
        }
        stock.read(&Shown::new("a", Some(1))).unwrap();
    }

    /// The last unit, two holders, the older one asleep between its read and its
    /// write: what each mode of the fence makes of it.
    fn sales_when_a_sleeper_wakes(mode: FenceMode) -> usize {
        let mut stock = Stock::new(1, mode);
        let (sleeper, other) = (Shown::new("a", Some(1)), Shown::new("b", Some(2)));
        let seen = stock.read(&sleeper).unwrap().next_unit.unwrap();
        let unit = stock.read(&other).unwrap().next_unit.unwrap();
        // The sleeper wakes before the other has written.
        let _ = stock.sell(&sleeper, seen, "of-a");
        let _ = stock.sell(&other, unit, "of-b");
        stock.sales().len()
    }

    #[test]
    fn only_the_full_fence_keeps_a_sleeper_from_overselling() {
        assert_eq!(sales_when_a_sleeper_wakes(FenceMode::Off), 2);
        assert_eq!(sales_when_a_sleeper_wakes(FenceMode::Write), 2);
        assert_eq!(sales_when_a_sleeper_wakes(FenceMode::Full), 1);
    }

    proptest! {
        #[test]
        fn the_books_agree_with_a_count_of_what_was_accepted(
            units in 0u32..6,
            asked in proptest::collection::vec((0u32..8, 0u8..12), 0..60),
        ) {
            let mut stock = Stock::new(units, FenceMode::Off);
            let mut accepted = Vec::new();
            for (unit, order) in asked {
                let order = format!("o{order}");
                let known = accepted.iter().find(|(_, other)| *other == order).map(|(unit, _)| *unit);
                let expected = match known {
                    Some(bought) if bought == unit => Ok(Sold::Already),
                    Some(bought) => Err(StockRefusal::OrderTaken { unit: bought }),
                    None if unit == 0 || unit > units => {
                        Err(StockRefusal::NoSuchUnit { unit, units })
                    }
                    None => Ok(Sold::Now),
                };
                prop_assert_eq!(stock.sell(&anybody(), unit, &order), expected.clone());
                if expected == Ok(Sold::Now) {
                    accepted.push((unit, order));
                }
                let free: Vec<u32> = (1..=units)
                    .filter(|unit| !accepted.iter().any(|(sold, _)| sold == unit))
                    .collect();
                let level = Level {
                    left: u32::try_from(free.len()).unwrap(),
                    next_unit: free.first().copied(),
                };
                prop_assert_eq!(stock.read(&anybody()), Ok(level));
            }
            prop_assert_eq!(stock.ledger(), accepted);
        }
    }
}
