//! The ways to take a unit: under a lock, with the row locked, optimistic, conditional.
//!
//! | way | guarantee | what it costs, and how it is known to fail |
//! |---|---|---|
//! | [`Way::UnderLock`] | none of its own | as good as the lock around it: two inside sell one unit twice |
//! | [`Way::ForUpdate`] | no unit twice | waiters queue, each with a connection; the row is held through the COMMIT's disk write |
//! | [`Way::Optimistic`] | no unit twice, if it also asks that one is left | attempts per sale grow with the buyers; whoever is slow starves |
//! | [`Way::Conditional`] | no unit twice | one statement; the row is held from it to the COMMIT |
//!
//! All of these stand on one primary: a failover to a standby that is behind forgets sales
//! that were confirmed. With several skus in one order, each of them can deadlock with an
//! order that has them the other way round: the server ends one (40P01).

use tokio_postgres::types::Type;

use super::{Outcome, Parameter, Seen, SqlStock};
use crate::lock::postgres::failure::Failure;
use crate::lock::postgres::pool::Lent;

/// How a unit is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Writes one less than what was read, whoever wrote meanwhile. Whoever sells so has
    /// read and sells under a lock.
    UnderLock,
    /// `SELECT … FOR UPDATE`, then the write: the pessimistic way.
    ForUpdate {
        /// Give up at once when somebody else has the row, instead of waiting.
        nowait: bool,
    },
    /// By a version that is compared as it is written: the optimistic way. Its statement
    /// alone is the guard, so [`Isolation::ReadCommitted`] suffices.
    Optimistic {
        /// What else is asked for.
        check: Check,
        /// Of the transaction around it.
        isolation: Isolation,
    },
    /// `UPDATE … WHERE count > 0`: a row that changed meanwhile is looked at again.
    Conditional,
}

/// What an optimistic sale asks for besides the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing, as the statement is often written. A version that nobody changed says
    /// nothing about whether anything is left: at zero this goes on selling.
    Nothing,
    /// That the count that was read is above zero; the statement is the same.
    Read,
    /// That the count is above zero, within the statement.
    Statement,
}

/// A transaction's isolation level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it; an UPDATE that waited looks at the
    /// row again.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the first; an UPDATE of a row that was
    /// changed since is refused (40001), which is a [`Outcome::Conflict`] here.
    RepeatableRead,
}

impl Isolation {
    pub(super) fn sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
        }
    }
}

impl Way {
    pub(super) fn isolation(self) -> Isolation {
        match self {
            Way::Optimistic { isolation, .. } => isolation,
            Way::UnderLock | Way::ForUpdate { .. } | Way::Conditional => Isolation::ReadCommitted,
        }
    }
}

/// The optimistic statement, word for word as it is taught, with PostgreSQL's parameters for
/// its question marks.
pub(super) const OPTIMISTIC: &str =
    "UPDATE stock SET count = count - 1, version = version + 1 WHERE id = $1 AND version = $2";

/// The same, corrected.
pub(super) const OPTIMISTIC_CORRECTED: &str = "UPDATE stock SET count = count - 1, \
     version = version + 1 WHERE id = $1 AND version = $2 AND count > 0";

const CONDITIONAL: &str = "UPDATE stock SET count = count - 1, version = version + 1 \
     WHERE id = $1 AND count > 0 RETURNING units - count";

/// What was read, less one; the parameter is the new count.
const WRITE_BACK: &str = "UPDATE stock SET count = $2, version = version + 1 WHERE id = $1";

/// Whether a read locks what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locking {
    No,
    Wait,
    Nowait,
}

/// Reads a sku.
pub(super) async fn read(
    stock: &SqlStock,
    lent: &Lent,
    sku: i64,
    locking: Locking,
) -> Result<Seen, Failure> {
    let locks = match locking {
        Locking::No => "",
        Locking::Wait => " FOR UPDATE",
        Locking::Nowait => " FOR UPDATE NOWAIT",
    };
    let select = format!("SELECT count, version, units FROM stock WHERE id = $1{locks}");
    let parameters: [Parameter; 1] = [(&sku, Type::INT8)];
    let request = lent.client().query_typed(&select, &parameters);
    let rows = lent.run(stock.limit(), request).await?;
    let Some(row) = rows.first() else {
        return Err(Failure::Refused {
            code: "P0002".to_owned(),
            message: format!("the sku {sku} is not on sale"),
            fatal: false,
        });
    };
    let column = |at| row.try_get::<usize, i64>(at).map_err(|error| Failure::of_statement(&error));
    Ok(Seen { sku, count: column(0)?, version: column(1)?, units: column(2)? })
}

/// Takes a unit of the sku, within a transaction: which, or why none.
pub(super) async fn take(
    stock: &SqlStock,
    lent: &Lent,
    sku: i64,
    seen: Option<&Seen>,
) -> Result<Result<i64, Outcome>, Failure> {
    let (seen, statement, parameter) = match stock.options.way {
        Way::Conditional => {
            let parameters: [Parameter; 1] = [(&sku, Type::INT8)];
            let units = stock.query::<i64>(lent, CONDITIONAL, &parameters).await?;
            return Ok(units.first().copied().ok_or(Outcome::SoldOut { sku }));
        }
        Way::ForUpdate { nowait } => {
            let locking = if nowait { Locking::Nowait } else { Locking::Wait };
            let seen = read(stock, lent, sku, locking).await?;
            (seen, WRITE_BACK, seen.count - 1)
        }
        Way::UnderLock => {
            let Some(seen) = seen else { return Ok(Err(Outcome::Conflict { sku })) };
            (*seen, WRITE_BACK, seen.count - 1)
        }
        Way::Optimistic { check, .. } => {
            let Some(seen) = seen else { return Ok(Err(Outcome::Conflict { sku })) };
            let statement = match check {
                Check::Nothing | Check::Read => OPTIMISTIC,
                Check::Statement => OPTIMISTIC_CORRECTED,
            };
            (*seen, statement, seen.version)
        }
    };
    let looks = match stock.options.way {
        Way::Optimistic { check, .. } => check == Check::Read,
        _ => true,
    };
    if looks && seen.count <= 0 {
        return Ok(Err(Outcome::SoldOut { sku }));
    }
    let parameters: [Parameter; 2] = [(&sku, Type::INT8), (&parameter, Type::INT8)];
    match stock.execute(lent, statement, &parameters).await {
        Ok(1) => Ok(Ok(seen.units - seen.count + 1)),
        // A statement that looks does not say what it missed: the version or a unit.
        Ok(_) if seen.count <= 0 => Ok(Err(Outcome::SoldOut { sku })),
        Ok(_) => Ok(Err(Outcome::Conflict { sku })),
        Err(failure) if failure.is_serialization() => Ok(Err(Outcome::Conflict { sku })),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_taught_statement_is_word_for_word() {
        let taught = "UPDATE stock SET count = count - 1, version = version + 1 \
                      WHERE id = ? AND version = ?";
        let ours = OPTIMISTIC.replace("$1", "?").replace("$2", "?");
        assert_eq!(ours, taught);
        assert_eq!(OPTIMISTIC_CORRECTED.strip_suffix(" AND count > 0"), Some(OPTIMISTIC));
    }
}
