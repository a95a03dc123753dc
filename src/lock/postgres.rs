//! The locks that PostgreSQL keeps: a row that a transaction has locked, a row in a lock
//! table, the server's advisory locks.
//!
//! | lock | module | held by | waiters | a dead holder is rid of |
//! |---|---|---|---|---|
//! | `pg-for-update` | [`for_update`] | a transaction | queue at the server | at the end of its stream, else after the lease |
//! | `pg-nowait` | [`for_update`] | a transaction | poll | likewise |
//! | `pg-advisory` | [`advisory`] | a session | queue at the server | likewise |
//! | `pg-advisory-xact` | [`advisory`] | a transaction | queue at the server | likewise |
//! | `pg-lock-table` | [`table`] | a row | poll | after the lease |
//! | `pg-lock-table-reentrant` | [`table::reentrant`] | a row, counted | poll | after the lease |
//!
//! Ways to sell without a lock, optimistic and conditional, are the stock's:
//! [`stock::sql`](crate::stock::sql). The modules say what each guarantees, its takeover
//! bound, and how it is known to fail.
//!
//! # What they have in common
//! - One server judges: on one primary, exclusion is the database's own. None of them
//!   survives a failover to a standby that is behind, and PostgreSQL has no fence of its
//!   own against an old primary that goes on.
//! - Fencing tokens ([`Fencing::Sequence`]) come from a sequence, and the transaction that
//!   drew one has committed before it is shown: `nextval` alone is neither durable nor
//!   rolled back.
//! - A lost reply is `Indeterminate`, after the lock has asked again where asking again is
//!   safe.
//!
//! Order of things: options and endpoint (what may be configured), the connection and how
//! statements fail, the pool, the tables ([`schema`]), what sessions hold (`held`) and the
//! locks upon it, the lock table.

pub mod advisory;
pub(crate) mod connection;
mod endpoint;
pub(crate) mod failure;
pub mod for_update;
mod held;
mod options;
pub(crate) mod pool;
pub mod schema;
pub mod table;
mod waiting;

pub use endpoint::Endpoint;
pub use options::{Fencing, InvalidOptions, Options};
pub use pool::Usage;
