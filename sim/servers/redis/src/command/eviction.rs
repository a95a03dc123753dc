//! `maxmemory-policy`: which keys go when there is no memory for more.
//!
//! When keys were used is not kept: where Redis looks for one that was not used for long, or
//! seldom, any is as good here, drawn by the server's machine.

use std::sync::Arc;

use super::super::keyspace::Key;
use super::super::observe::{Observation, Origin};
use super::super::pubsub::event::EVICTED;
use super::super::state::{Client, Shared, State};
use super::keyspace_access::Pending;
use super::notifications::notify;
use super::{is_out_of_memory, server};

const POLICIES: [&str; 8] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

/// Whether there is a policy of this name.
pub(super) fn is_policy(name: &str) -> bool {
    POLICIES.contains(&name)
}

/// Removes keys until the data set fits, or the policy lets no more go. Before the command of
/// a client that might need memory.
pub(super) fn make_room(shared: &Arc<Shared>, state: &mut State, client: &mut Client) {
    if server::eviction_policy(state) == "noeviction"
        || client.origin == Origin::Master
        || state.busy.is_some()
    {
        return;
    }
    while is_out_of_memory(shared, state, client) {
        let Some((database, key)) = victim(shared, state) else { return };
        evict(shared, state, client, database, &key);
    }
}

fn victim(shared: &Shared, state: &State) -> Option<(usize, Key)> {
    let policy = server::eviction_policy(state);
    let databases = state.databases.iter().enumerate();
    if policy == "volatile-ttl" {
        let soonest = databases.filter_map(|(number, database)| {
            let (at_ms, key) = database.first_expiring()?;
            Some((at_ms, number, key))
        });
        return soonest.min().map(|(_, number, key)| (number, key));
    }
    let is_volatile = policy.starts_with("volatile");
    let candidates: Vec<(usize, &Key)> = databases
        .flat_map(|(number, database)| {
            let keys = database.iter();
            keys.filter(move |(_, entry)| !is_volatile || entry.expires_at_ms.is_some())
                .map(move |(key, _)| (number, key))
        })
        .collect();
    let count = candidates.len() as u64;
    let drawn = shared.host.random("redis-eviction").checked_rem(count)?;
    candidates.get(drawn as usize).map(|(number, key)| (*number, (*key).clone()))
}

fn evict(
    shared: &Arc<Shared>,
    state: &mut State,
    client: &mut Client,
    database: usize,
    key: &[u8],
) {
    let Some(entry) = state.databases[database].remove(key) else { return };
    let value = entry.value.told();
    shared.observer.observe(&Observation::Evicted { key, value });
    state.touch(database, key);
    // Each by itself: keys that go together are no transaction.
    let mut pending = Pending::default();
    pending.push(state, database, [&b"DEL"[..], key]);
    notify(state, Some(client), database, EVICTED, "evicted", key);
    pending.flush(shared, state);
}
