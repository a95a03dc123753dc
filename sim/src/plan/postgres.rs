//! What plans say of PostgreSQL alone: where the stock is, and how its ways and its locks are
//! set.

use super::complaint::{Complaint, listed, quoted};

/// Names for values, as plans write them.
macro_rules! named {
    ($type:ident, $noun:literal, $($value:ident => $name:literal,)*) => {
        impl $type {
            /// All of them.
            pub const ALL: &[$type] = &[$($type::$value),*];

            /// As written in plans.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)*
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = Complaint;

            fn from_str(text: &str) -> Result<Self, Complaint> {
                $type::ALL.iter().copied().find(|known| known.name() == text).ok_or_else(|| {
                    Complaint {
                        what: format!("there is no {} {}", $noun, quoted(text)),
                        mend: format!("allowed: {}", listed($type::ALL.iter().map(|one| one.name()))),
                    }
                })
            }
        }
    };
}

/// Where the stock is, and what guards a unit besides the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StockPlace {
    /// In the memory of `stock-1`, with a fence.
    #[default]
    Memory,
    /// In tables of the database: sold as the lock says, which is under it, or, for
    /// `pg-optimistic` and `pg-conditional`, in their way.
    Sql,
    /// Likewise, and the sale's transaction locks the row of the stock before it reads it.
    SqlForUpdate,
    /// In tables. A sale's transaction locks the row of the stock before it reads it, and
    /// holds it through its work, on a connection of a pool that a client's buyers share.
    SqlPooled,
}

named! { StockPlace, "place for the stock",
    Memory => "memory",
    Sql => "sql",
    SqlForUpdate => "sql-for-update",
    SqlPooled => "sql-pooled",
}

/// What an optimistic sale asks for besides the version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimisticCheck {
    /// Nothing: the statement as it is often taught, and nobody looks at what was read.
    Nothing,
    /// That the count that was read is above zero.
    Read,
    /// That the count is above zero, within the statement.
    #[default]
    Statement,
}

named! { OptimisticCheck, "check",
    Nothing => "nothing",
    Read => "read",
    Statement => "statement",
}

/// The isolation level of a sale's transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// PostgreSQL's default.
    #[default]
    ReadCommitted,
    /// One snapshot for all statements.
    RepeatableRead,
}

named! { Isolation, "isolation level",
    ReadCommitted => "read-committed",
    RepeatableRead => "repeatable-read",
}

/// When a row of the lock table is over of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// With its lease.
    #[default]
    Lease,
    /// Never.
    Never,
}

named! { Expiry, "expiry",
    Lease => "lease",
    Never => "never",
}
