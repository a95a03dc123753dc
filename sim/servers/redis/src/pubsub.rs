//! Channels: who listens to what, and how a message reaches them.
//!
//! Order of things: [`Subscriptions`] (of one client), [`Subscribers`] (of the server),
//! [`publish`], the classes of keyspace events.
//!
//! A message is put into the receiver's mailbox at the instant at which it is published:
//! behind every reply that the receiver had until then, before every later one. It is not
//! kept: who is not subscribed now does not hear of it.
//!
//! Where several patterns match, Redis delivers in the order of its hash table; here it is
//! the patterns' byte order.

use std::collections::{BTreeMap, BTreeSet};

use super::glob;
use super::keyspace::Key;
use super::state::{Client, State};

/// What one client listens to.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    channels: BTreeSet<Key>,
    /// In the order in which they were asked for.
    patterns: Vec<Key>,
    shards: BTreeSet<Key>,
}

/// A space of names: what is subscribed in one is not heard in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Channels,
    Patterns,
    /// Channels of a cluster's shards; of this server alone here.
    Shards,
}

impl Subscriptions {
    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shards.is_empty()
    }

    pub(super) fn len(&self, space: Space) -> usize {
        match space {
            Space::Channels => self.channels.len(),
            Space::Patterns => self.patterns.len(),
            Space::Shards => self.shards.len(),
        }
    }

    /// As the answers to subscriptions count them.
    pub(super) fn count(&self, space: Space) -> usize {
        match space {
            Space::Shards => self.shards.len(),
            Space::Channels | Space::Patterns => self.channels.len() + self.patterns.len(),
        }
    }

    pub(super) fn names(&self, space: Space) -> Vec<Key> {
        match space {
            Space::Channels => self.channels.iter().cloned().collect(),
            Space::Patterns => self.patterns.clone(),
            Space::Shards => self.shards.iter().cloned().collect(),
        }
    }

    fn add(&mut self, space: Space, name: &Key) -> bool {
        match space {
            Space::Channels => self.channels.insert(name.clone()),
            Space::Shards => self.shards.insert(name.clone()),
            Space::Patterns => {
                let is_new = !self.patterns.contains(name);
                if is_new {
                    self.patterns.push(name.clone());
                }
                is_new
            }
        }
    }

    fn remove(&mut self, space: Space, name: &[u8]) -> bool {
        match space {
            Space::Channels => self.channels.remove(name),
            Space::Shards => self.shards.remove(name),
            Space::Patterns => {
                let before = self.patterns.len();
                self.patterns.retain(|pattern| **pattern != *name);
                self.patterns.len() < before
            }
        }
    }
}

/// The ids of those who listen, in the order in which they came.
type Listeners = BTreeMap<Key, Vec<u64>>;

/// Who listens to this server.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    channels: Listeners,
    patterns: Listeners,
    shards: Listeners,
}

impl Subscribers {
    pub(super) fn of(&self, space: Space) -> &Listeners {
        match space {
            Space::Channels => &self.channels,
            Space::Patterns => &self.patterns,
            Space::Shards => &self.shards,
        }
    }

    fn of_mut(&mut self, space: Space) -> &mut Listeners {
        match space {
            Space::Channels => &mut self.channels,
            Space::Patterns => &mut self.patterns,
            Space::Shards => &mut self.shards,
        }
    }

    /// Enters a client; nothing if it listens already.
    pub(super) fn subscribe(&mut self, client: &mut Client, space: Space, name: &[u8]) {
        let name: Key = name.into();
        if client.subscriptions.add(space, &name) {
            self.of_mut(space).entry(name).or_default().push(client.id);
        }
    }

    /// Strikes a client off; nothing if it does not listen.
    pub(super) fn unsubscribe(&mut self, client: &mut Client, space: Space, name: &[u8]) {
        if !client.subscriptions.remove(space, name) {
            return;
        }
        let listeners = self.of_mut(space);
        if let Some(ids) = listeners.get_mut(name) {
            ids.retain(|id| *id != client.id);
            if ids.is_empty() {
                listeners.remove(name);
            }
        }
    }

    /// Strikes a client off everywhere.
    pub(super) fn leave(&mut self, client: &mut Client) {
        if client.subscriptions.is_empty() {
            return;
        }
        for space in [Space::Channels, Space::Patterns, Space::Shards] {
            for name in client.subscriptions.names(space) {
                self.unsubscribe(client, space, &name);
            }
        }
    }
}

/// Puts a message into the mailboxes of all who listen, and says how many that is.
/// `current` is the client whose command is running: it is not among the state's.
pub(super) fn publish(
    state: &mut State,
    mut current: Option<&mut Client>,
    space: Space,
    channel: &[u8],
    message: &[u8],
) -> usize {
    let State { subscribers, clients, .. } = state;
    let mut receivers = 0;
    let mut deliver = |id: u64, pattern: Option<&[u8]>| {
        let client = match &mut current {
            Some(current) if current.id == id => Some(&mut **current),
            _ => clients.get_mut(&id).map(|client| &mut **client),
        };
        let Some(client) = client else { return };
        receivers += 1;
        let kind: &[u8] = match (pattern, space) {
            (Some(_), _) => b"pmessage",
            (None, Space::Shards) => b"smessage",
            (None, _) => b"message",
        };
        client.push(|mail| {
            mail.push(if pattern.is_some() { 4 } else { 3 });
            mail.bulk(kind);
            if let Some(pattern) = pattern {
                mail.bulk(pattern);
            }
            mail.bulk(channel);
            mail.bulk(message);
        });
    };
    for id in subscribers.of(space).get(channel).into_iter().flatten() {
        deliver(*id, None);
    }
    if space == Space::Channels {
        let matching =
            subscribers.patterns.iter().filter(|(name, _)| glob::matches(name, channel, false));
        for (pattern, ids) in matching {
            ids.iter().for_each(|id| deliver(*id, Some(pattern)));
        }
    }
    receivers
}

/// Classes of keyspace events, and the two channels on which they can be told: the
/// letters of `notify-keyspace-events`, as bits.
pub(super) mod event {
    pub(in super::super) const GENERIC: u16 = 1;
    pub(in super::super) const STRING: u16 = 1 << 1;
    pub(in super::super) const LIST: u16 = 1 << 2;
    pub(in super::super) const SET: u16 = 1 << 3;
    pub(in super::super) const HASH: u16 = 1 << 4;
    pub(in super::super) const SORTED_SET: u16 = 1 << 5;
    pub(in super::super) const EXPIRED: u16 = 1 << 6;
    pub(in super::super) const EVICTED: u16 = 1 << 7;
    pub(in super::super) const STREAM: u16 = 1 << 8;
    const MODULE: u16 = 1 << 9;
    pub(in super::super) const NEW: u16 = 1 << 10;
    const MISS: u16 = 1 << 11;
    pub(in super::super) const ON_KEY: u16 = 1 << 12;
    pub(in super::super) const ON_EVENT: u16 = 1 << 13;

    /// What `A` stands for.
    const ALL: u16 =
        GENERIC | STRING | LIST | SET | HASH | SORTED_SET | EXPIRED | EVICTED | STREAM | MODULE;

    /// In the order in which `CONFIG GET` tells them.
    const LETTERS: &[(u8, u16)] = &[
        (b'A', ALL),
        (b'g', GENERIC),
        (b'$', STRING),
        (b'l', LIST),
        (b's', SET),
        (b'h', HASH),
        (b'z', SORTED_SET),
        (b'x', EXPIRED),
        (b'e', EVICTED),
        (b't', STREAM),
        (b'd', MODULE),
        (b'n', NEW),
        (b'K', ON_KEY),
        (b'E', ON_EVENT),
        (b'm', MISS),
    ];

    /// The bits of a string of letters; `None` if one of them is none.
    pub(in super::super) fn parse(text: &[u8]) -> Option<u16> {
        text.iter().try_fold(0, |flags, letter| {
            let (_, bits) = LETTERS.iter().find(|(known, _)| known == letter)?;
            Some(flags | bits)
        })
    }

    /// The letters of bits, as Redis writes them.
    pub(in super::super) fn letters(flags: u16) -> String {
        let all = flags & ALL == ALL;
        LETTERS
            .iter()
            .filter(|(letter, bits)| {
                // Redis does not tell `n` beside `A`.
                let is_of_all = (ALL | NEW) & bits != 0 && *letter != b'A';
                flags & bits == *bits && !(all && is_of_all)
            })
            .map(|(letter, _)| char::from(*letter))
            .collect()
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn letters_and_bits() {
            for (given, told) in
                [("", ""), ("KEA", "AKE"), ("Kg$", "g$K"), ("g$lshzxetdnE", "AE"), ("xm", "xm")]
            {
                assert_eq!(super::letters(super::parse(given.as_bytes()).unwrap()), told);
            }
            assert_eq!(super::parse(b"Kq"), None);
        }
    }
}
