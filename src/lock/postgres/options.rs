//! What a user may choose, and which choices cannot work.

use std::time::Duration;

/// Where fencing tokens come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// There are none.
    #[default]
    None,
    /// The sequence `lockstorm_token`. A token is shown only when the transaction that drew
    /// it has committed: on one primary the order of tokens is the order of grants, across
    /// crashes too. A standby that is promoted without the latest commits goes back, and two
    /// owners can be given the same token; a resource must tell them apart by owner.
    Sequence,
}

/// Options of all locks on PostgreSQL. Make them with [`Options::new`] and change fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a grant lasts without a word from its holder. For a lock in a table it is
    /// the row's expiry; for one that a session or a transaction holds, the time after
    /// which the server ends a session that says nothing (`idle_session_timeout`,
    /// `idle_in_transaction_session_timeout`). At least 1 ms, at most 24 days, in whole
    /// milliseconds: what PostgreSQL's settings take.
    pub lease: Duration,
    /// How much of the lease a holder leaves unused, for clocks that run apart.
    /// Less than the lease.
    pub margin: Duration,
    /// How long a reply, and separately each step of connecting, may take. More than
    /// zero. A statement that takes longer counts as lost, and its connection with it.
    pub command_timeout: Duration,
    /// A waiter that polls asks again after a time drawn from half of this to all of it.
    /// More than zero.
    pub retry: Duration,
    /// Where fencing tokens come from.
    pub fencing: Fencing,
    /// How many connections a lock value may have open at most, one for each grant that a
    /// session holds and one for each waiter that waits at the server. At least 1. One more,
    /// shared, draws tokens: were it taken from these, holders and waiters could wait for
    /// each other.
    pub connections: usize,
    /// For how long a session is kept holding a lock at most; `None` for as long as its
    /// holder lives. At least the lease. Of no meaning for locks in a table, which nobody
    /// renews.
    pub max_hold: Option<Duration>,
}

impl Options {
    /// The defaults for a lease: a margin of 1 % of it, 250 ms for a statement, 50 ms
    /// between tries, no tokens, 10 connections, no longest hold.
    pub fn new(lease: Duration) -> Self {
        Options {
            lease,
            margin: lease / 100,
            command_timeout: Duration::from_millis(250),
            retry: Duration::from_millis(50),
            fencing: Fencing::None,
            connections: 10,
            max_hold: None,
        }
    }

    /// The lease as PostgreSQL is told it.
    pub(super) fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// The part of the lease that a holder uses.
    pub(super) fn usable(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// These options with the lease in whole milliseconds, if they can work.
    pub(super) fn checked(mut self) -> Result<Self, InvalidOptions> {
        if self.lease < Duration::from_millis(1) || self.lease > LONGEST_SETTING {
            return Err(InvalidOptions::Lease { lease: self.lease });
        }
        self.lease = Duration::from_millis(self.lease_ms());
        if self.margin >= self.lease {
            return Err(InvalidOptions::Margin { margin: self.margin, lease: self.lease });
        }
        if self.command_timeout.is_zero() {
            return Err(InvalidOptions::CommandTimeout);
        }
        if self.retry.is_zero() {
            return Err(InvalidOptions::Retry);
        }
        if self.connections == 0 {
            return Err(InvalidOptions::NoConnections);
        }
        if let Some(max_hold) = self.max_hold
            && max_hold < self.lease
        {
            return Err(InvalidOptions::ShortHold { max_hold, lease: self.lease });
        }
        Ok(self)
    }
}

/// PostgreSQL's time settings are milliseconds in a signed 32-bit number.
pub(super) const LONGEST_SETTING: Duration = Duration::from_millis(i32::MAX as u64);

/// An option that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// The lease cannot be a setting of PostgreSQL.
    #[error("the lease is {lease:?}: PostgreSQL takes 1ms to 24 days, give it such a time")]
    Lease {
        /// As given.
        lease: Duration,
    },
    /// The margin leaves nothing of the lease.
    #[error(
        "the margin is {margin:?} of a lease of {lease:?}: nothing is left to use, give it less"
    )]
    Margin {
        /// As given.
        margin: Duration,
        /// As given, in whole milliseconds.
        lease: Duration,
    },
    /// No statement could ever be answered.
    #[error("the command timeout is zero: no reply can come in time, give it more")]
    CommandTimeout,
    /// A waiter would ask without a pause.
    #[error("the retry time is zero: a waiter would ask without a pause, give it more")]
    Retry,
    /// Nothing to ask through.
    #[error("the lock may open no connection: give it at least one")]
    NoConnections,
    /// A holder that is told of its loss before the first lease is over.
    #[error("the longest hold is {max_hold:?} of a lease of {lease:?}: give it at least the lease")]
    ShortHold {
        /// As given.
        max_hold: Duration,
        /// As given, in whole milliseconds.
        lease: Duration,
    },
    /// Nobody to ask.
    #[error("there are no servers: name at least one as name:port")]
    NoServers,
    /// An address cannot be connected to.
    #[error("`{address}` is no address of the form name:port")]
    Address {
        /// As given.
        address: String,
    },
    /// A statement could wait for ever.
    #[error(
        "the lock timeout is {timeout:?}: PostgreSQL takes 1ms to 24 days, give it such a time"
    )]
    LockTimeout {
        /// As given.
        timeout: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[test]
    fn choices_that_cannot_work_are_refused_with_the_mend() {
        let good = Options::new(LEASE);
        assert_eq!(good.clone().checked(), Ok(good.clone()));
        let told = |options: Options| options.checked().unwrap_err().to_string();
        insta::assert_snapshot!(told(Options::new(Duration::from_micros(999))),
            @"the lease is 999µs: PostgreSQL takes 1ms to 24 days, give it such a time");
        insta::assert_snapshot!(told(Options::new(Duration::from_secs(2_147_484))),
            @"the lease is 2147484s: PostgreSQL takes 1ms to 24 days, give it such a time");
        insta::assert_snapshot!(told(Options { margin: LEASE, ..good.clone() }),
            @"the margin is 10s of a lease of 10s: nothing is left to use, give it less");
        insta::assert_snapshot!(told(Options { connections: 0, ..good.clone() }),
            @"the lock may open no connection: give it at least one");
        insta::assert_snapshot!(told(Options { max_hold: Some(LEASE / 2), ..good.clone() }),
            @"the longest hold is 5s of a lease of 10s: give it at least the lease");
        assert!(Options { retry: Duration::ZERO, ..good.clone() }.checked().is_err());
        assert!(Options { command_timeout: Duration::ZERO, ..good }.checked().is_err());
    }
}
