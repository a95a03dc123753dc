//! What one node does for all of them: puts the units on the shelf before the sale, ends the
//! orders that nobody pays for, and has the shelf follow the books.
//!
//! The nodes elect it through ZooKeeper, so there is one that thinks so, and mostly one that is
//! right. A leader that was replaced and does not know it yet does no harm: the shelf refuses
//! what it says, since its epoch is the lower one, and what it does in the books can be done by
//! two at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::funnel::{Funnel, Step};
use super::orders::OrderBooks;
use super::reconcile;
use super::shelf::{Shelf, ShelfError};
use super::writer::WriterError;
use super::{OrderName, Sku};
use crate::host::Host;
use crate::lock::{FencingToken, Lock, Owner, Release};

/// How a leader works.
#[derive(Clone, Copy, Debug)]
pub struct LeaderOptions {
    /// How long it waits between two looks.
    pub pause: Duration,
    /// How many unpaid orders it ends at one look, at most.
    pub batch: u32,
    /// Whether it has the shelf follow the books. Without it the shelf is filled once, and what
    /// it forgets, or keeps for the dead, stays so.
    pub reconciles: bool,
}

impl Default for LeaderOptions {
    fn default() -> Self {
        LeaderOptions { pause: Duration::from_millis(250), batch: 100, reconciles: true }
    }
}

/// A candidate, and what it does once it leads.
pub struct Leader {
    host: Host,
    election: Arc<dyn Lock>,
    shelf: Shelf,
    books: Arc<OrderBooks>,
    sku: Sku,
    funnel: Funnel,
    options: LeaderOptions,
    /// The orders that the books did not know at the last look.
    suspects: BTreeSet<OrderName>,
}

/// How long a candidate stands before it stands anew.
const TERM: Duration = Duration::from_secs(3_600);

impl Leader {
    /// A candidate in `election`, which is for whoever looks after `sku`.
    pub fn new(
        election: Arc<dyn Lock>,
        shelf: Shelf,
        books: Arc<OrderBooks>,
        sku: Sku,
        funnel: Funnel,
        options: LeaderOptions,
    ) -> Self {
        let (host, suspects) = (shelf.host().clone(), BTreeSet::new());
        Leader { host, election, shelf, books, sku, funnel, options, suspects }
    }

    /// Stands for election, leads while it may, and stands again, until the task is dropped.
    pub async fn run(mut self) {
        loop {
            let owner = Owner::unique(&self.host);
            let key = format!("sale-{}", self.sku);
            if let Ok(office) = self.election.acquire(&key, &owner, TERM).await {
                self.suspects.clear();
                while office.check().is_ok() {
                    // What went wrong is tried again at the next look.
                    let _ = self.tend(office.token().unwrap_or(FencingToken(0))).await;
                    self.host.sleep(self.options.pause).await;
                }
                let _: Release = office.release().await;
            }
            self.host.sleep(self.options.pause).await;
        }
    }

    /// Does what is to be done now, under the epoch `token`.
    ///
    /// # Errors
    /// Of the shelf or of the books.
    pub async fn tend(&mut self, token: FencingToken) -> Result<(), WriterError> {
        for wish in self.books.lapse(&self.sku, self.options.batch).await? {
            self.funnel.count(Step::Returned);
            self.shelf.give_back(&wish).await?;
        }
        let seen = self.shelf.inventory(&self.sku).await?;
        let account = self.books.account(&self.sku).await?;
        if !self.options.reconciles {
            if seen.left.is_none() {
                self.shelf.preheat(&self.sku, account.units, token).await?;
            }
            return Ok(());
        }
        let restock = reconcile::plan(&self.sku, &seen, &account, &self.suspects);
        let unknown = reconcile::unknown(&seen, &account);
        self.suspects = unknown.into_iter().map(|(_, order)| order).collect();
        if let Some(restock) = restock
            && self.shelf.restock(&self.sku, &restock, seen.moves, token).await?
        {
            self.funnel.count(Step::Restocked);
        }
        Ok(())
    }

    /// Whether shelf and books agree now.
    ///
    /// # Errors
    /// Of the shelf or of the books.
    pub async fn audit(
        shelf: &Shelf,
        books: &OrderBooks,
        sku: &Sku,
    ) -> Result<Vec<reconcile::Difference>, WriterError> {
        let seen = shelf.inventory(sku).await.map_err(|error: ShelfError| error)?;
        Ok(reconcile::differences(&seen, &books.account(sku).await?))
    }
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Leader").field("sku", &self.sku).finish_non_exhaustive()
    }
}
