//! Bugs of how a sale stands to its lock, and of what it takes for one.
//!
//! The stock is the one in PostgreSQL. What is read, written and committed, and in which order
//! with the locks, is each bug's own; the locks themselves are the product's, and sound.

use std::sync::Arc;
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use lockstorm::lock::LockError;
use lockstorm::stock::sql::{Outcome, Seen, SellError};

use super::Half;
use super::database::{Database, Session};
use crate::plan::Plan;
use crate::storm::checkout::{Item, OF_THE_SALE, Transaction, not_open};
use crate::storm::client::OTHER_KEY;
use crate::storm::postgres::SKUS;

const ANOTHER: Item = Item { key: OTHER_KEY, sku: SKUS[1] };

/// A sale of some items in one transaction, as one client makes it.
pub struct Checkout {
    database: Database,
    items: &'static [Item],
    gives_back_first: bool,
    takes: Takes,
    /// A state of somebody at it, since when this client has seen no other, and how long that
    /// may be: whoever is at it for longer has died.
    at_it: Option<(i64, Duration)>,
    patience: Duration,
    /// The session with the transaction that is open.
    open: Option<Arc<Session>>,
}

/// What guards a unit besides the lock around it.
#[derive(Clone, Copy)]
enum Takes {
    /// Nothing.
    UnderLock,
    /// A version, if that is the one that was read with the count.
    ByVersion { reads_it_late: bool },
    /// What the row says of itself: nobody is at it, or somebody is. Whoever is done sets it
    /// back, or counts it on.
    ByState { goes_round: bool },
}

/// A transaction is around the method and its lock inside of it, so what was written under
/// the lock is seen by nobody when the next one comes in.
pub(super) fn released_before_commit(host: &Host, plan: &Plan, half: Half) -> Checkout {
    let gives_back_first = !half.is_mended();
    Checkout { gives_back_first, ..Checkout::of(host, plan, &[OF_THE_SALE], Takes::UnderLock) }
}

/// redsync#145: each item is locked, written, unlocked, and all are committed after the loop.
pub(super) fn unlocked_one_by_one(host: &Host, plan: &Plan, half: Half) -> Checkout {
    let gives_back_first = !half.is_mended();
    let items = &[OF_THE_SALE, ANOTHER];
    Checkout { gives_back_first, ..Checkout::of(host, plan, items, Takes::UnderLock) }
}

/// openfoodnetwork#5300: the version is read at the checkout, when the count was read long
/// before.
pub(super) fn version_read_late(host: &Host, plan: &Plan, half: Half) -> Checkout {
    let takes = Takes::ByVersion { reads_it_late: !half.is_mended() };
    Checkout::of(host, plan, &[OF_THE_SALE], takes)
}

/// quartz#107: who finds the state that it has read takes what it has read for as it was. Others
/// have been there and set the state back.
pub(super) fn state_goes_round(host: &Host, plan: &Plan, half: Half) -> Checkout {
    let takes = Takes::ByState { goes_round: !half.is_mended() };
    Checkout::of(host, plan, &[OF_THE_SALE], takes)
}

impl Checkout {
    fn of(host: &Host, plan: &Plan, items: &'static [Item], takes: Takes) -> Checkout {
        let database = Database::new(host, plan);
        let patience = plan.lock.lease.to_duration();
        let (gives_back_first, at_it, open) = (false, None, None);
        Checkout { database, items, gives_back_first, takes, at_it, patience, open }
    }

    async fn read(&mut self, sku: i64) -> Result<Seen, SellError> {
        if self.open.is_none() {
            let session = self.database.session().await.map_err(nothing_done)?;
            self.database.ask_in(&session, "BEGIN").await.map_err(nothing_done)?;
            self.open = Some(session);
        }
        let select = format!("SELECT count, version, units FROM stock WHERE id = {sku}");
        match &self.numbers(&select).await?[..] {
            [count, version, units] => {
                Ok(Seen { sku, count: *count, version: *version, units: *units })
            }
            _ => Err(SellError::Unreachable { reason: format!("{sku} is not on sale") }),
        }
    }

    async fn write(&mut self, seen: &Seen, order: &str) -> Result<Outcome, SellError> {
        let Seen { sku, count, units, .. } = *seen;
        if count <= 0 {
            return Ok(Outcome::SoldOut { sku });
        }
        let is_taken = match self.takes {
            Takes::UnderLock => self.update(seen, "version + 1", None).await?,
            Takes::ByVersion { reads_it_late } => {
                let version = match reads_it_late {
                    true => self.read(sku).await?.version,
                    false => seen.version,
                };
                self.update(seen, "version + 1", Some(version)).await?
            }
            Takes::ByState { goes_round } => self.through_states(seen, goes_round).await?,
        };
        if !is_taken {
            return Ok(Outcome::Conflict { sku });
        }
        let unit = units - count + 1;
        let write = format!(
            "INSERT INTO orders (order_key, sku, user_id) VALUES ('{order}', {sku}, '{order}'); \
             INSERT INTO ledger (sku, unit, order_key) VALUES ({sku}, {unit}, '{order}')"
        );
        self.numbers(&write).await?;
        Ok(Outcome::Sold { units: vec![unit], repeated: false })
    }

    /// Takes the row for itself, then sells and gives it back, each for all to see. An odd
    /// number says that somebody is at it.
    async fn through_states(&mut self, seen: &Seen, goes_round: bool) -> Result<bool, SellError> {
        let next = |state: i64| if goes_round { 1 - state } else { state + 1 };
        if seen.version % 2 != 0 {
            self.clear(seen, next(seen.version)).await?;
            return Ok(false);
        }
        self.at_it = None;
        let (idle, taken) = (seen.version, next(seen.version));
        let sku = seen.sku;
        let at_it = format!(
            "UPDATE stock SET version = {taken} WHERE id = {sku} AND version = {idle} RETURNING id"
        );
        if self.numbers(&at_it).await?.is_empty() {
            return Ok(false);
        }
        self.numbers("COMMIT; BEGIN").await?;
        self.update(seen, &next(taken).to_string(), Some(taken)).await
    }

    /// Somebody is at it. Who has been for too long has died, and is made to be no more; should
    /// it go on after all, it finds another state than its own.
    async fn clear(&mut self, seen: &Seen, idle: i64) -> Result<(), SellError> {
        let (sku, taken, now) = (seen.sku, seen.version, self.database.host.monotonic());
        let since = self.at_it.filter(|(state, _)| *state == taken).map_or(now, |(_, since)| since);
        self.at_it = Some((taken, since));
        if now.saturating_sub(since) >= self.patience {
            let clear =
                format!("UPDATE stock SET version = {idle} WHERE id = {sku} AND version = {taken}");
            self.numbers(&format!("{clear}; COMMIT; BEGIN")).await?;
        }
        Ok(())
    }

    /// Writes one less than what was seen; only upon this version, if one is told.
    async fn update(
        &self,
        seen: &Seen,
        version: &str,
        upon: Option<i64>,
    ) -> Result<bool, SellError> {
        let (sku, left) = (seen.sku, seen.count - 1);
        let upon = upon.map_or_else(String::new, |upon| format!(" AND version = {upon}"));
        let update = format!(
            "UPDATE stock SET count = {left}, version = {version} WHERE id = {sku}{upon} \
             RETURNING id"
        );
        Ok(!self.numbers(&update).await?.is_empty())
    }

    /// The first row of what the statements answer in the order's transaction.
    async fn numbers(&self, sql: &str) -> Result<Vec<i64>, SellError> {
        let session = self.open.as_ref().ok_or_else(not_open)?;
        let rows = self.database.ask_in(session, sql).await.map_err(nothing_done)?;
        let numbers = rows.into_iter().next().unwrap_or_default().into_iter().flatten();
        Ok(numbers.filter_map(|text| text.parse().ok()).collect())
    }
}

impl Transaction for Checkout {
    fn items(&self) -> &'static [Item] {
        self.items
    }

    fn gives_back_first(&self) -> bool {
        self.gives_back_first
    }

    fn look(&mut self, sku: i64) -> BoxFuture<'_, Result<Seen, SellError>> {
        Box::pin(self.read(sku))
    }

    fn take<'a>(
        &'a mut self,
        seen: &'a Seen,
        order: &'a str,
    ) -> BoxFuture<'a, Result<Outcome, SellError>> {
        Box::pin(self.write(seen, order))
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), SellError>> {
        Box::pin(async move {
            let session = self.open.take().ok_or_else(not_open)?;
            match self.database.ask_in(&session, "COMMIT").await {
                Ok(_) => Ok(()),
                Err(LockError::Indeterminate { reason }) => {
                    Err(SellError::Indeterminate { reason })
                }
                Err(error) => Err(nothing_done(error)),
            }
        })
    }

    fn roll_back(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(session) = self.open.take() {
                // A connection without an answer is never used again, and its session ends.
                let _ = self.database.ask_in(&session, "ROLLBACK").await;
            }
        })
    }
}

/// Nobody commits the transaction.
fn nothing_done(error: LockError) -> SellError {
    SellError::Unreachable { reason: error.to_string() }
}

impl std::fmt::Debug for Checkout {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Checkout").field("items", &self.items).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Fence, scenario};

    #[test]
    fn what_was_never_begun_is_not_committed() {
        let plan =
            scenario::default_plan("postgres-single", "planted/version-read-late", Fence::Off);
        let (host, plan) = (Host::tokio("app-1"), plan.unwrap());
        let mut sale = version_read_late(&host, &plan, Half::Mended);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(sale.commit()).unwrap_err();
        assert!(matches!(error, SellError::Unreachable { .. }), "{error:?}");
    }
}
