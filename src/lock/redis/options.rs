//! What a user may choose, and which choices cannot work.

use std::fmt;
use std::time::Duration;

/// Where fencing tokens come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// There are none.
    #[default]
    None,
    /// A counter beside the record, `{key}:token`, incremented by the same script
    /// that writes the record: on one master the order of tokens is the order of
    /// grants. After an asynchronous failover the counter goes back, and two owners
    /// can be given the same token; a resource must tell them apart by owner. The
    /// counter never expires.
    Counter,
}

/// How to log in at the Redis server.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The ACL user; `None` for the default user.
    pub username: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// Options of the lock `redis`. Make them with [`Options::new`] and change fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a grant lasts. At least 1 ms; what it has beyond whole milliseconds
    /// is cut off, because Redis counts in them.
    pub lease: Duration,
    /// How much of the lease a holder leaves unused, for clocks that run apart.
    /// Less than the lease.
    pub margin: Duration,
    /// How long a reply, and separately each step of connecting, may take. More than
    /// zero. A command that takes longer counts as lost, and its connection with it.
    pub command_timeout: Duration,
    /// A waiter asks again after a time drawn from half of this to all of it. More
    /// than zero.
    pub retry: Duration,
    /// Where fencing tokens come from.
    pub fencing: Fencing,
    /// How to log in; `None` where that is not asked for.
    pub credentials: Option<Credentials>,
}

impl Options {
    /// The defaults for a lease: a margin of 1 % of it, 250 ms for a command, 50 ms
    /// between tries, no tokens, no login.
    pub fn new(lease: Duration) -> Self {
        Options {
            lease,
            margin: lease / 100,
            command_timeout: Duration::from_millis(250),
            retry: Duration::from_millis(50),
            fencing: Fencing::None,
            credentials: None,
        }
    }

    /// The lease as Redis is told it, milliseconds.
    pub(super) fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// These options with the lease in whole milliseconds, if they can work.
    pub(super) fn checked(mut self) -> Result<Self, InvalidOptions> {
        if self.lease < Duration::from_millis(1) {
            return Err(InvalidOptions::ShortLease { lease: self.lease });
        }
        if self.lease > LONGEST_LEASE {
            return Err(InvalidOptions::LongLease { lease: self.lease });
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
        Ok(self)
    }
}

/// Redis adds the lease to its wall clock in signed 64-bit milliseconds; a century
/// is far inside of that.
const LONGEST_LEASE: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// An option that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// The lease is too short to be written.
    #[error("the lease is {lease:?}: Redis counts leases in milliseconds, give it at least 1ms")]
    ShortLease {
        /// As given.
        lease: Duration,
    },
    /// The lease is practically endless.
    #[error("the lease is {lease:?}: a lease of more than a century never ends, give it less")]
    LongLease {
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
    /// No command could ever be answered.
    #[error("the command timeout is zero: no reply can come in time, give it more")]
    CommandTimeout,
    /// A waiter would ask without a pause.
    #[error("the retry time is zero: a waiter would ask without a pause, give it more")]
    Retry,
    /// An address cannot be connected to.
    #[error("`{address}` is no address of the form name:port")]
    Address {
        /// As given.
        address: String,
    },
    /// There is nobody to ask for the master.
    #[error("the list of sentinels is empty: name at least one as name:port")]
    NoSentinels,
    /// A watchdog that stops before the first lease is over.
    #[error("the longest hold is {max_hold:?} of a lease of {lease:?}: give it at least the lease")]
    ShortHold {
        /// As given.
        max_hold: Duration,
        /// As given, in whole milliseconds.
        lease: Duration,
    },
    /// Nobody to wait for.
    #[error("no replica is waited for: that is the lock redis, wait for at least one")]
    NoReplicas,
    /// WAIT would last for ever, or longer than its reply is waited for.
    #[error(
        "the wait for replicas is {timeout:?}: give it at least 1ms and less than the command \
         timeout ({limit:?})"
    )]
    WaitTimeout {
        /// As given.
        timeout: Duration,
        /// The command timeout.
        limit: Duration,
    },
    /// A waiter would lose its place by one lost reply.
    #[error(
        "a waiter is dead after {timeout:?}: give it more than a retry and a command timeout \
         ({least:?})"
    )]
    WaiterTimeout {
        /// As given.
        timeout: Duration,
        /// A retry and a command timeout.
        least: Duration,
    },
    /// Nobody to ask.
    #[error("there are no servers: name at least one as name:port, better three or five")]
    NoServers,
    /// Two votes for one server.
    #[error("`{address}` is named twice: one server has one vote, name each once")]
    SameServer {
        /// As given.
        address: String,
    },
    /// Redlock was asked for tokens.
    #[error("redlock has no fencing tokens: no counter is common to its servers, leave them off")]
    NoTokens,
    /// Sentinels know masters by name.
    #[error("the master's name is empty: give the name that the sentinels monitor it under")]
    NoMasterName,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[test]
    fn defaults_work_and_leave_a_hundredth_unused() {
        let options = Options::new(LEASE).checked().unwrap();
        assert_eq!(options.margin, Duration::from_millis(100));
    }

    #[test]
    fn a_lease_is_cut_to_what_redis_can_count() {
        let options = Options::new(Duration::from_micros(2_999)).checked().unwrap();
        assert_eq!(options.lease, Duration::from_millis(2));
        assert_eq!(options.lease_ms(), 2);
    }

    #[test]
    fn choices_that_cannot_work_are_refused_with_the_mend() {
        let good = Options::new(LEASE);
        let told = |options: Options| options.checked().unwrap_err().to_string();
        insta::assert_snapshot!(told(Options::new(Duration::ZERO)),
            @"the lease is 0ns: Redis counts leases in milliseconds, give it at least 1ms");
        insta::assert_snapshot!(told(Options::new(Duration::from_micros(999))),
            @"the lease is 999µs: Redis counts leases in milliseconds, give it at least 1ms");
        insta::assert_snapshot!(told(Options { margin: LEASE, ..good.clone() }),
            @"the margin is 10s of a lease of 10s: nothing is left to use, give it less");
        insta::assert_snapshot!(told(Options { command_timeout: Duration::ZERO, ..good.clone() }),
            @"the command timeout is zero: no reply can come in time, give it more");
        insta::assert_snapshot!(told(Options { retry: Duration::ZERO, ..good }),
            @"the retry time is zero: a waiter would ask without a pause, give it more");
        assert!(Options::new(Duration::MAX).checked().is_err());
    }

    #[test]
    fn a_password_is_not_printed() {
        let credentials = Credentials { username: None, password: "secret".to_owned() };
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
