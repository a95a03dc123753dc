//! Clients that wait inside a command: for a key to have something (`BLPOP`,
//! `XREAD BLOCK`, …), or for replicas to acknowledge (`WAIT`).
//!
//! Order of things: what a client waits for ([`Blocked`]), how it is entered ([`block`]),
//! how it goes on ([`serve_ready`], [`serve_acknowledged`], [`time_out`], [`unblock`]).
//!
//! A client that waits for keys keeps its command. Once a command of somebody else is over
//! and has put something under one of the keys, the commands of those who wait for it run
//! again, in the order in which they came, looking at that key alone. What they answer goes
//! into the mailbox of their client.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::OwnedArguments;
use super::command::run_again;
use super::keyspace::{Key, Value};
use super::replication::Replication;
use super::state::{Client, Shared, State};
use super::statistics::Statistics;

/// The type of key that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    List,
    SortedSet,
    Stream,
    /// A stream through one of its groups: it fails when the stream goes.
    StreamOfGroup,
}

impl Wanted {
    fn is(self, value: &Value) -> bool {
        match self {
            Wanted::List => value.type_name() == "list",
            Wanted::SortedSet => value.type_name() == "zset",
            Wanted::Stream | Wanted::StreamOfGroup => value.type_name() == "stream",
        }
    }
}

/// What a client waits for.
#[derive(Debug)]
pub(super) enum Blocked {
    Keys {
        command: OwnedArguments,
        keys: Vec<(usize, Key)>,
        wanted: Wanted,
    },
    Replicas {
        count: usize,
        offset: u64,
    },
    /// The disk, with the whole server.
    Disk,
    /// Its own script, which does not end.
    Script,
}

/// The ids of those who wait for each key, in the order in which they came, and the keys
/// that something was put under since they were last looked at.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    keys: BTreeMap<(usize, Key), Vec<u64>>,
    ready: Vec<(usize, Key)>,
    /// Who waits for replicas.
    replicas: Vec<u64>,
}

impl Waiting {
    /// Takes note that a key was changed.
    pub(super) fn note_change(&mut self, database: usize, key: &[u8]) {
        if self.keys.is_empty() {
            return;
        }
        let key = (database, Key::from(key));
        if self.keys.contains_key(&key) && !self.ready.contains(&key) {
            self.ready.push(key);
        }
    }

    /// Takes note that whole databases were changed.
    pub(super) fn note_all(&mut self, databases: &std::ops::Range<usize>) {
        let waited_for = self.keys.keys().filter(|(database, _)| databases.contains(database));
        self.ready.extend(waited_for.cloned());
    }

    fn enter(&mut self, id: u64, blocked: &Blocked) {
        match blocked {
            Blocked::Disk | Blocked::Script => {}
            Blocked::Replicas { .. } => self.replicas.push(id),
            Blocked::Keys { keys, .. } => {
                for key in keys {
                    let ids = self.keys.entry(key.clone()).or_default();
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
            }
        }
    }

    fn leave(&mut self, id: u64, blocked: &Blocked) {
        match blocked {
            Blocked::Disk | Blocked::Script => {}
            Blocked::Replicas { .. } => self.replicas.retain(|waiting| *waiting != id),
            Blocked::Keys { keys, .. } => {
                for key in keys {
                    let Some(ids) = self.keys.get_mut(key) else { continue };
                    ids.retain(|waiting| *waiting != id);
                    if ids.is_empty() {
                        self.keys.remove(key);
                    }
                }
            }
        }
    }
}

/// Lets a client wait.
pub(super) fn block(waiting: &mut Waiting, client: &mut Client, blocked: Blocked) {
    waiting.enter(client.id, &blocked);
    client.blocked = Some(Box::new(blocked));
}

/// Ends a client's waiting, if it waits; its connection goes on with what came meanwhile.
pub(super) fn unblock(waiting: &mut Waiting, client: &mut Client) -> bool {
    let Some(blocked) = client.blocked.take() else { return false };
    waiting.leave(client.id, &blocked);
    client.signal.notify_one();
    true
}

/// What a client hears whose time is over.
pub(super) fn time_out(waiting: &mut Waiting, replication: &Replication, client: &mut Client) {
    match client.blocked.as_deref() {
        None | Some(Blocked::Disk | Blocked::Script) => return,
        Some(Blocked::Keys { .. }) => client.push(|mail| mail.null_array()),
        Some(Blocked::Replicas { offset, .. }) => {
            let count = replication.acknowledged(*offset) as i64;
            client.push(|mail| mail.integer(count));
        }
    }
    unblock(waiting, client);
}

/// Has the command for which a client waited fail.
pub(super) fn refuse(statistics: &mut Statistics, client: &mut Client, failure: &[u8]) {
    statistics.answer(failure);
    statistics.fail(client.last_place, 1);
    client.push(|mail| mail.error(failure));
}

/// Ends all waiting with an error and the connections with it: this server is a master no
/// more.
pub(super) fn refuse_all(state: &mut State) {
    const FAILURE: &[u8] = b"UNBLOCKED force unblock from blocking operation, instance state \
                             changed (master -> replica?)";
    let State { clients, waiting, statistics, .. } = state;
    for client in clients.values_mut().filter(|client| client.blocked.is_some()) {
        // The failure of whatever made it a replica, as Redis counts.
        statistics.answer(FAILURE);
        client.push(|mail| mail.error(FAILURE));
        client.closing = true;
        unblock(waiting, client);
    }
}

/// Answers those who wait for replicas and have enough of them.
pub(super) fn serve_acknowledged(state: &mut State) {
    let State { clients, waiting, replication, .. } = state;
    for id in waiting.replicas.clone() {
        let Some(client) = clients.get_mut(&id) else { continue };
        let Some(Blocked::Replicas { count, offset }) = client.blocked.as_deref() else { continue };
        let acknowledged = replication.acknowledged(*offset);
        if acknowledged >= *count {
            client.push(|mail| mail.integer(acknowledged as i64));
            unblock(waiting, client);
        }
    }
}

/// Lets those go on who wait for a key that something was put under.
pub(super) fn serve_ready(shared: &Arc<Shared>, state: &mut State) {
    while !state.waiting.ready.is_empty() {
        for (database, key) in std::mem::take(&mut state.waiting.ready) {
            let waiting = state.waiting.keys.get(&(database, key.clone())).cloned();
            for id in waiting.into_iter().flatten() {
                serve(shared, state, id, database, &key);
            }
        }
    }
}

fn serve(shared: &Arc<Shared>, state: &mut State, id: u64, database: usize, key: &Key) {
    let now_ms = shared.wall_ms();
    let value = state.databases[database]
        .get(key)
        .filter(|entry| !entry.is_expired(now_ms))
        .map(|entry| &entry.value);
    let Some(Blocked::Keys { wanted, .. }) =
        state.clients.get(&id).and_then(|client| client.blocked.as_deref())
    else {
        return;
    };
    let is_there = value.is_some_and(|value| wanted.is(value));
    let is_lost = *wanted == Wanted::StreamOfGroup && !is_there;
    if !is_there && !is_lost {
        return;
    }
    let Some(mut client) = state.clients.remove(&id) else { return };
    if is_lost {
        refuse(&mut state.statistics, &mut client, b"UNBLOCKED the stream key no longer exists");
        unblock(&mut state.waiting, &mut client);
    } else if let Some(blocked) = client.blocked.take() {
        let is_served = match &*blocked {
            Blocked::Keys { command, .. } => {
                run_again(shared, state, &mut client, command.borrow(), key)
            }
            Blocked::Replicas { .. } | Blocked::Disk | Blocked::Script => false,
        };
        client.blocked = Some(blocked);
        if is_served {
            unblock(&mut state.waiting, &mut client);
        }
    }
    state.clients.insert(id, client);
}
