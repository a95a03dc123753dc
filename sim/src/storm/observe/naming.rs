//! Which keys of Redis are locks, and whose a record is.
//!
//! Locks of ours write the name of their attempt. Of a test's own lock [`Drawn`] knows who asked
//! while something was written; of programs outside [`Roll`] knows through whose door it came.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use lockstorm::lock::redis::OWNER_NUMBER_SEPARATOR;

use super::RedisWatch;
use crate::history::{Attempt, Name};
use crate::server::redis::observe::Origin;
use crate::storm::client::{KEY, OTHER_KEY};
use crate::storm::drawn::Drawn;
use crate::storm::served::roll::{Line, Roll};

/// Keys that begin so are locks; everything else (token counters) is not history.
const LOCKS: &str = "lock:";
/// Fencing counters live beside their lock under this suffix.
const COUNTER: &str = ":token";

/// Who knows whose a record is, where the record itself does not say so.
#[derive(Clone, Debug, Default)]
pub struct Namer {
    /// Of a test's own lock.
    pub drawn: Option<Arc<Drawn>>,
    /// Of programs outside.
    pub roll: Option<Arc<Roll>>,
}

impl Namer {
    fn owner(&self, written: &str) -> Option<Name> {
        let drawn = self.drawn.as_ref().and_then(|drawn| drawn.owner(written));
        drawn.or_else(|| self.roll.as_ref()?.owner(written))
    }

    fn is_foreign(&self) -> bool {
        self.drawn.is_some() || self.roll.is_some()
    }
}

impl RedisWatch {
    fn text(&self, bytes: &[u8]) -> Name {
        let text = String::from_utf8_lossy(bytes);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).of(&text)
    }

    /// Who a record names. An attempt that asked more than once may have numbered its names.
    pub(super) fn owner(&self, bytes: &[u8]) -> Name {
        let text = String::from_utf8_lossy(bytes);
        let numbered = text.rsplit_once(OWNER_NUMBER_SEPARATOR).filter(|(owner, number)| {
            number.parse::<u64>().is_ok() && Attempt::parse(owner).is_some()
        });
        let owner = numbered.map_or(&*text, |(owner, _)| owner);
        if let Some(known) = self.namer.owner(owner) {
            return known;
        }
        self.names.lock().unwrap_or_else(PoisonError::into_inner).of(owner)
    }

    /// Who asks, where somebody's client sends `bytes` as the owner's name.
    pub(super) fn asker(&self, origin: Origin, key: &Name, bytes: &[u8]) -> Name {
        let asks = match (origin, &self.namer) {
            (Origin::Client(peer), Namer { roll: Some(roll), .. }) => {
                roll.refused(&self.line(peer), key)
            }
            (Origin::Client(peer), Namer { drawn: Some(drawn), .. }) => self.asks(drawn, peer),
            _ => None,
        };
        asks.unwrap_or_else(|| self.owner(bytes))
    }

    fn line(&self, peer: SocketAddr) -> Line {
        Line { server: self.name.clone(), peer }
    }

    fn asks(&self, drawn: &Drawn, peer: SocketAddr) -> Option<Name> {
        let SocketAddr::V4(address) = peer else { return None };
        let node = self.world.node_at(*address.ip())?;
        Some(drawn.asks(&self.world.name(node)))
    }

    /// Whose record it is that names `bytes`: whatever else this wrote before, it is the
    /// asker's now.
    pub(super) fn written(
        &self,
        origin: Origin,
        key: &Name,
        bytes: &[u8],
        lease_us: Option<u64>,
    ) -> Name {
        let Origin::Client(peer) = origin else { return self.owner(bytes) };
        if let Some(roll) = &self.namer.roll {
            let written = String::from_utf8_lossy(bytes);
            let granted = roll.granted(&self.line(peer), key, &written, lease_us);
            return granted.unwrap_or_else(|| self.owner(bytes));
        }
        let owner = self.asker(origin, key, bytes);
        if let Some(drawn) = &self.namer.drawn {
            drawn.note(self.text(bytes), owner.clone());
        }
        owner
    }

    /// Whose record it is that names `bytes`, of what is in this server's memory.
    pub(super) fn recorded(&self, key: &Name, bytes: &[u8]) -> Name {
        let known = self.namer.is_foreign().then(|| self.lock().get(key).cloned()).flatten();
        known.unwrap_or_else(|| self.owner(bytes))
    }

    /// An owner's record has gone from this server for good.
    pub(super) fn over(&self, owner: &str) {
        if let Some(roll) = &self.namer.roll {
            roll.ended(owner);
        }
    }

    /// The name of a lock, if that is what the key is.
    pub(super) fn lock_key(&self, key: &[u8]) -> Option<Name> {
        if self.namer.drawn.is_some() {
            // Another's lock puts before it what it likes, and keeps what it likes beside it.
            let asked = [KEY, OTHER_KEY].into_iter().find(|asked| key.ends_with(asked.as_bytes()));
            return asked.map(|asked| self.text(asked.as_bytes()));
        }
        let begins = match &self.namer.roll {
            Some(roll) => roll.is_lock(key),
            None => key.starts_with(LOCKS.as_bytes()),
        };
        let is_lock = begins && !key.ends_with(COUNTER.as_bytes());
        (is_lock && std::str::from_utf8(key).is_ok()).then(|| self.text(key))
    }
}
