//! A flash sale around the lock: layer by layer fewer requests come through, until what
//! reaches the books is no more than there is to sell.
//!
//! A lock, however good, is one link. Most buyers of a sale cannot get anything, and
//! every layer turns away those whom the next need not see:
//!
//! | layer | turns away | here |
//! |---|---|---|
//! | the page | whoever only looks; a second tap; a retry that comes at once | [`page`] |
//! | the switch | everybody, while the sale is degraded | [`switch`] |
//! | admission | more than a node or a buyer may ask; the same request again | [`admission`] |
//! | the gate | more than may be under way at once | [`gate`] |
//! | deduction | buyers of what is sold out; a second purchase of one buyer | [`shelf`] |
//! | the queue | nobody: it lets orders wait for the books | [`queue`] |
//! | the writer | the same order a second time; what the shelf gave away twice | [`writer`] |
//! | the books | a payment that comes too late | [`orders`] |
//!
//! # What is true
//! The shelf is fast and forgets: a failover of its Redis takes back what was acknowledged.
//! So what it gives is a *place in the queue*; an order is confirmed to its buyer only once the
//! books, which are PostgreSQL's, have it, and they take no more orders than there are units. A
//! leader ([`leader`]), elected through ZooKeeper, puts the units on the shelf, takes back what
//! nobody pays for, and has the shelf follow the books wherever the two differ.
//!
//! Order of things: [`funnel`] counts what each layer did; [`counter`] asks the layers in the
//! order of the table, [`door`] is where buyers reach it over the network; the rest are the
//! layers. Each can be left out, which is how its worth is measured; [`reconcile`] says whether
//! shelf and books agree.
//!
//! It is no shop: there are no prices and no carts, one order is one unit of one sku.

pub mod admission;
pub mod books;
pub mod bucket;
pub mod counter;
pub mod door;
pub mod funnel;
pub mod gate;
pub mod leader;
pub mod orders;
pub mod page;
pub mod pessimistic;
pub mod queue;
pub mod reconcile;
pub mod shelf;
pub mod switch;
pub mod writer;

use std::fmt;

use serde::{Deserialize, Serialize};

/// How long the name of a buyer, a sku or an order may be, bytes.
pub const MAX_NAME_BYTES: usize = 128;

macro_rules! name {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// This name.
            ///
            /// # Errors
            /// [`InvalidName`] when it is empty, too long, or has braces or control characters:
            /// it becomes part of the names of keys.
            pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
                checked(name.into()).map($name)
            }

            /// It as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(name: String) -> Result<Self, InvalidName> {
                $name::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Who buys.
    Buyer
);
name!(
    /// What is sold.
    Sku
);
name!(
    /// One wish of one buyer, however often it is sent: the key by which it is recognised
    /// everywhere.
    OrderName
);

/// A name that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no name: 1 to {MAX_NAME_BYTES} bytes, without braces and control characters")]
pub struct InvalidName {
    /// As it was given, shortened.
    pub name: String,
}

fn checked(name: String) -> Result<String, InvalidName> {
    let is_bad = |letter: char| letter.is_control() || letter == '{' || letter == '}';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(is_bad) {
        return Err(InvalidName { name: name.chars().take(40).collect() });
    }
    Ok(name)
}

/// What a buyer wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// By this name it is known everywhere.
    pub order: OrderName,
    /// Who wants it.
    pub buyer: Buyer,
    /// What.
    pub sku: Sku,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_breaks_no_key() {
        for good in ["a", "buyer-7", "秒杀", &"x".repeat(MAX_NAME_BYTES)] {
            assert_eq!(Buyer::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "{sale}", "a\nb", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(Buyer::new(bad).is_err(), "{bad}");
        }
    }
}
