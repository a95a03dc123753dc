//! How many connections to the database a storm used, and how long buyers waited for one of
//! their node's pool.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::observe::postgres::Crowd;
use crate::check::numbers::Delays;
use crate::history::Name;

/// What was used of them, over the whole storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Connections {
    /// How many a node's pool may have.
    pub pool: u16,
    /// The most that one pool had lent at one time.
    pub peak_lent: usize,
    /// How long buyers waited who got one, opening it included.
    pub waits: Delays,
    /// How often none was to be had while its buyer had patience.
    pub given_up: u64,
    /// How often one could not be opened: the server refused it, or was not to be reached.
    pub failed: u64,
    /// The most sessions that one server had at one time.
    pub peak_sessions: usize,
    /// How often a server refused one because it had as many as it may have (53300).
    pub refused: u64,
}

/// The pools of a storm's nodes, through all their incarnations.
#[derive(Debug, Default)]
pub struct Pools(Mutex<BTreeMap<Name, PoolWatch>>);

impl Pools {
    fn watches(&self) -> MutexGuard<'_, BTreeMap<Name, PoolWatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of the node `name`.
    pub fn of(&self, name: &Name) -> PoolWatch {
        self.watches().entry(name.clone()).or_default().clone()
    }
}

/// Counts for one node's pool. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PoolWatch(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    lent: usize,
    peak: usize,
    waits_us: Vec<u64>,
    given_up: u64,
    failed: u64,
}

/// A connection that is out of its pool.
#[derive(Debug)]
pub struct Lending(PoolWatch);

impl Drop for Lending {
    fn drop(&mut self) {
        self.0.counts().lent -= 1;
    }
}

impl PoolWatch {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody had no patience left.
    pub fn gave_up(&self) {
        self.counts().given_up += 1;
    }

    /// One could not be opened.
    pub fn failed(&self) {
        self.counts().failed += 1;
    }

    /// One is lent to somebody who waited for so long, until the value is dropped.
    pub fn lend(&self, waited: Duration) -> Lending {
        let mut counts = self.counts();
        counts.waits_us.push(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX));
        counts.lent += 1;
        counts.peak = counts.peak.max(counts.lent);
        Lending(self.clone())
    }
}

impl Connections {
    /// What these pools, of so many each, were used for, and how many came to the servers.
    pub fn of(pool: u16, pools: &Pools, crowd: Crowd) -> Connections {
        let Crowd { peak_sessions, refused } = crowd;
        let mut connections =
            Connections { pool, peak_sessions, refused, ..Connections::default() };
        let mut waits_us = Vec::new();
        for watch in pools.watches().values() {
            let counts = watch.counts();
            connections.peak_lent = connections.peak_lent.max(counts.peak);
            connections.given_up += counts.given_up;
            connections.failed += counts.failed;
            waits_us.extend_from_slice(&counts.waits_us);
        }
        connections.waits = Delays::of(waits_us);
        connections
    }

    /// For people.
    pub fn facts(&self) -> [String; 3] {
        let millis = |us: u64| format!("{}.{} ms", us / 1_000, us / 100 % 10);
        let Delays { count, median_us, p99_us, most_us } = self.waits;
        [
            format!("at most {} of a pool's {} lent", self.peak_lent, self.pool),
            format!(
                "{count} waits for one: median {}, 99 % within {}, longest {}; beside these {} in \
                 vain, {} failed",
                millis(median_us),
                millis(p99_us),
                millis(most_us),
                self.given_up,
                self.failed
            ),
            format!("at most {} sessions, {} refused (53300)", self.peak_sessions, self.refused),
        ]
    }
}
