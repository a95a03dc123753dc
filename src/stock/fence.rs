//! The fence: refuses holders that are older than what the resource has seen.
//!
//! Every guarded operation shows its owner and its fencing token. An exclusive grant
//! is accepted iff its token is larger than every registered one, or it is the
//! registered owner itself and nothing newer has been seen; it is then registered. A
//! shared grant is accepted iff its token is larger than the largest exclusive token
//! accepted, and is registered as shared.
//!
//! The owner decides between equal tokens because some sources repeat them: a
//! counter in Redis goes back after an asynchronous failover. Whoever comes second
//! with an equal token is refused, so it may starve, but two are never inside.
//!
//! It is not a lock: it keeps nobody waiting and promises nobody entry.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lock::{FencingToken, Guard, Owner};

/// How much of the fence is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FenceMode {
    /// Tokens are not looked at.
    #[default]
    Off,
    /// Only writes are checked and registered. This does not stop an overselling:
    /// a new holder that has read, but not yet written, is not known to the fence.
    Write,
    /// Every operation is checked and registered, reads included.
    Full,
}

/// Whether a grant excludes all others or only exclusive ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Nobody else may be inside.
    #[default]
    Exclusive,
    /// Other shared holders may be inside.
    Shared,
}

/// What an operation shows of the grant it is done under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Who holds the lock.
    pub owner: Owner,
    /// The grant's token; `None` where the lock has none.
    pub token: Option<FencingToken>,
    /// What kind of grant it is.
    pub sharing: Sharing,
}

impl Shown {
    /// An exclusive grant of `owner`.
    pub fn new(owner: impl Into<String>, token: Option<u64>) -> Self {
        Shown {
            owner: Owner::named(owner),
            token: token.map(FencingToken),
            sharing: Sharing::Exclusive,
        }
    }
}

impl From<&Guard> for Shown {
    /// What the holder of an exclusive lock shows.
    fn from(guard: &Guard) -> Self {
        Shown { owner: guard.owner().clone(), token: guard.token(), sharing: Sharing::Exclusive }
    }
}

/// Why the fence refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No token was shown to a fence that is in use.
    #[error("no fencing token was shown")]
    NoToken,
    /// A newer grant has been seen.
    #[error("token {shown} is older than {registered}, which has been seen")]
    Older {
        /// The token shown.
        shown: FencingToken,
        /// The largest token that stands against it.
        registered: FencingToken,
    },
    /// An equal token has been seen of somebody else, who came first.
    #[error("token {token} has been seen of {holder}")]
    SameToken {
        /// The token shown.
        token: FencingToken,
        /// Who came first with it.
        holder: Registered,
    },
}

/// Who has registered a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The holder of an exclusive grant.
    Owner(Owner),
    /// Holders of shared grants.
    Sharers,
}

impl fmt::Display for Registered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Registered::Owner(owner) => owner.fmt(formatter),
            Registered::Sharers => formatter.write_str("a shared grant"),
        }
    }
}

/// The fence of one resource: what it has registered, and what it makes of a grant.
///
/// What it has registered must be kept as durably as the resource itself; a fence
/// that forgets accepts a stale holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    mode: FenceMode,
    /// The largest exclusive token accepted, and whose it is.
    exclusive: Option<(FencingToken, Owner)>,
    /// The largest shared token accepted.
    shared: Option<FencingToken>,
}

impl Fence {
    /// A fence that nobody has passed.
    pub fn new(mode: FenceMode) -> Self {
        Fence { mode, exclusive: None, shared: None }
    }

    /// How much of it is used.
    pub fn mode(&self) -> FenceMode {
        self.mode
    }

    /// The largest token registered, shared or not.
    pub fn largest(&self) -> Option<FencingToken> {
        self.exclusive.as_ref().map(|(token, _)| *token).max(self.shared)
    }

    /// Checks and registers a reader, where reads are guarded.
    ///
    /// # Errors
    /// [`Refusal`]; nothing is then registered.
    pub fn pass_read(&mut self, shown: &Shown) -> Result<(), Refusal> {
        match self.mode {
            FenceMode::Off | FenceMode::Write => Ok(()),
            FenceMode::Full => self.pass(shown),
        }
    }

    /// Checks and registers a writer, unless the fence is off.
    ///
    /// # Errors
    /// [`Refusal`]; nothing is then registered.
    pub fn pass_write(&mut self, shown: &Shown) -> Result<(), Refusal> {
        match self.mode {
            FenceMode::Off => Ok(()),
            FenceMode::Write | FenceMode::Full => self.pass(shown),
        }
    }

    fn pass(&mut self, shown: &Shown) -> Result<(), Refusal> {
        let token = shown.token.ok_or(Refusal::NoToken)?;
        match shown.sharing {
            Sharing::Exclusive => self.pass_exclusive(token, &shown.owner),
            Sharing::Shared => self.pass_shared(token),
        }
    }

    fn pass_exclusive(&mut self, token: FencingToken, owner: &Owner) -> Result<(), Refusal> {
        if let Some(registered) = self.largest().filter(|largest| *largest > token) {
            return Err(Refusal::Older { shown: token, registered });
        }
        if self.shared == Some(token) {
            return Err(Refusal::SameToken { token, holder: Registered::Sharers });
        }
        match &self.exclusive {
            Some((largest, holder)) if *largest == token => match holder == owner {
                true => Ok(()),
                false => {
                    Err(Refusal::SameToken { token, holder: Registered::Owner(holder.clone()) })
                }
            },
            _ => {
                self.exclusive = Some((token, owner.clone()));
                Ok(())
            }
        }
    }

    fn pass_shared(&mut self, token: FencingToken) -> Result<(), Refusal> {
        match &self.exclusive {
            Some((largest, _)) if *largest > token => {
                Err(Refusal::Older { shown: token, registered: *largest })
            }
            Some((largest, holder)) if *largest == token => {
                Err(Refusal::SameToken { token, holder: Registered::Owner(holder.clone()) })
            }
            _ => {
                self.shared = self.shared.max(Some(token));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shared(owner: &str, token: u64) -> Shown {
        Shown { sharing: Sharing::Shared, ..Shown::new(owner, Some(token)) }
    }

    #[test]
    fn an_older_holder_is_refused_and_told_by_what() {
        let mut fence = Fence::new(FenceMode::Full);
        fence.pass_read(&Shown::new("a", Some(1))).unwrap();
        fence.pass_read(&Shown::new("b", Some(2))).unwrap();
        let refusal = fence.pass_write(&Shown::new("a", Some(1))).unwrap_err();
        insta::assert_snapshot!(refusal, @"token 1 is older than 2, which has been seen");
        fence.pass_write(&Shown::new("b", Some(2))).unwrap();
    }

    #[test]
    fn of_two_with_the_same_token_the_first_stays() {
        let mut fence = Fence::new(FenceMode::Full);
        fence.pass_read(&Shown::new("a", Some(7))).unwrap();
        let refusal = fence.pass_read(&Shown::new("b", Some(7))).unwrap_err();
        insta::assert_snapshot!(refusal, @"token 7 has been seen of a");
        fence.pass_write(&Shown::new("a", Some(7))).unwrap();
    }

    #[test]
    fn sharers_pass_together_and_an_exclusive_one_only_after_all_of_them() {
        let mut fence = Fence::new(FenceMode::Full);
        fence.pass_read(&Shown::new("w", Some(3))).unwrap();
        fence.pass_read(&shared("r1", 5)).unwrap();
        fence.pass_read(&shared("r2", 4)).unwrap();
        fence.pass_read(&shared("r3", 3)).unwrap_err();
        fence.pass_write(&Shown::new("x", Some(5))).unwrap_err();
        // The registered exclusive one is stale once a later sharer is inside.
        fence.pass_write(&Shown::new("w", Some(3))).unwrap_err();
        fence.pass_write(&Shown::new("x", Some(6))).unwrap();
        fence.pass_read(&shared("r1", 5)).unwrap_err();
    }

    #[test]
    fn modes_differ_in_what_they_check_and_register() {
        let newest = Shown::new("b", Some(2));
        let oldest = Shown::new("a", Some(1));
        let nothing = Shown::new("a", None);
        let mut off = Fence::new(FenceMode::Off);
        off.pass_write(&newest).unwrap();
        off.pass_write(&oldest).unwrap();
        off.pass_write(&nothing).unwrap();
        assert_eq!(off.largest(), None);

        let mut write = Fence::new(FenceMode::Write);
        write.pass_read(&newest).unwrap();
        write.pass_read(&nothing).unwrap();
        write.pass_write(&oldest).unwrap();
        write.pass_write(&newest).unwrap();
        write.pass_write(&oldest).unwrap_err();
        assert_eq!(write.pass_write(&nothing), Err(Refusal::NoToken));

        let mut full = Fence::new(FenceMode::Full);
        full.pass_read(&newest).unwrap();
        full.pass_write(&oldest).unwrap_err();
        assert_eq!(full.pass_read(&nothing), Err(Refusal::NoToken));
    }

    #[derive(Clone, Copy, Debug)]
    struct Shows {
        write: bool,
        sharing: Sharing,
        owner: u8,
        token: u64,
    }

    fn shows() -> impl Strategy<Value = Shows> {
        (any::<bool>(), any::<bool>(), 0u8..3, 0u64..6).prop_map(|(write, share, owner, token)| {
            let sharing = if share { Sharing::Shared } else { Sharing::Exclusive };
            Shows { write, sharing, owner, token }
        })
    }

    /// The rule over everything that was ever accepted, with nothing summed up.
    fn brute_force(mode: FenceMode, accepted: &[Shows], next: Shows) -> bool {
        if mode == FenceMode::Off || (mode == FenceMode::Write && !next.write) {
            return true;
        }
        accepted.iter().all(|earlier| match (earlier.sharing, next.sharing) {
            (Sharing::Shared, Sharing::Shared) => true,
            (Sharing::Exclusive, Sharing::Exclusive) => {
                next.token > earlier.token
                    || (next.token == earlier.token && next.owner == earlier.owner)
            }
            _ => next.token > earlier.token,
        })
    }

    proptest! {
        #[test]
        fn it_accepts_what_the_rule_accepts(
            mode in prop_oneof![
                Just(FenceMode::Off), Just(FenceMode::Write), Just(FenceMode::Full)
            ],
            operations in proptest::collection::vec(shows(), 0..40),
        ) {
            let mut fence = Fence::new(mode);
            let mut registered = Vec::new();
            for next in operations {
                let shown = Shown {
                    sharing: next.sharing,
                    ..Shown::new(next.owner.to_string(), Some(next.token))
                };
                let passed = match next.write {
                    true => fence.pass_write(&shown),
                    false => fence.pass_read(&shown),
                };
                prop_assert_eq!(passed.is_ok(), brute_force(mode, &registered, next));
                let registers = mode == FenceMode::Full || (mode == FenceMode::Write && next.write);
                if passed.is_ok() && registers {
                    registered.push(next);
                }
            }
        }
    }
}
