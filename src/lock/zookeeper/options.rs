//! What a user may choose, and which choices cannot work.

use std::time::Duration;

/// Options of all locks on ZooKeeper. Make them with [`Options::new`] and change fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long the ensemble keeps a session that says nothing. It is what a lease is
    /// elsewhere, with the difference that the servers decide when it is over. They round it
    /// to what they allow: between 2 and 20 of their ticks, unless configured otherwise.
    pub session_timeout: Duration,
    /// How much of the session timeout a holder leaves unused, counted from the last thing
    /// that the leader has confirmed. Less than the session timeout. It covers what the
    /// leader may not have heard of yet: half a tick, and the time between two questions.
    pub margin: Duration,
    /// How long a reply may take before an acquire that does not wait, or a release, is
    /// given up as indeterminate. More than zero.
    pub command_timeout: Duration,
    /// The pause before a step that failed is tried again. More than zero.
    pub retry: Duration,
    /// The servers' `tickTime`. Nothing is told to them: it says how late a session may end,
    /// and so what the takeover bound is.
    pub tick: Duration,
    /// Under which node the locks are kept: absolute, without a slash at its end.
    pub root: String,
}

impl Options {
    /// The defaults for a session timeout: a third of it unused, 1 s for a reply, 100 ms
    /// between tries, a tick of 2 s (ZooKeeper's sample configuration), `/lockstorm`.
    pub fn new(session_timeout: Duration) -> Self {
        Options {
            session_timeout,
            margin: session_timeout / 3,
            command_timeout: Duration::from_secs(1),
            retry: Duration::from_millis(100),
            tick: Duration::from_secs(2),
            root: "/lockstorm".to_owned(),
        }
    }

    /// How often the leader is asked to confirm a session in which somebody has, or wants,
    /// a lock.
    pub(super) fn heartbeat(&self) -> Duration {
        (self.session_timeout / 12).max(Duration::from_millis(1))
    }

    /// The session timeout as the servers will have it, if their tick is what is said here.
    pub(super) fn negotiated(&self) -> Duration {
        self.session_timeout.clamp(2 * self.tick, 20 * self.tick)
    }

    /// How long a lock whose holder died may stay closed: until the leader ends the session
    /// (its timeout and one and a half ticks after it last heard of it), and until a waiter
    /// whose server has gone silent has found another.
    pub(super) fn takeover_bound(&self) -> Duration {
        let expiry = self.negotiated() + self.tick + self.tick / 2;
        expiry + self.negotiated() * 2 / 5 + 2 * self.command_timeout + self.retry
    }

    /// These options, if they can work.
    pub(super) fn checked(self) -> Result<Self, InvalidOptions> {
        let millisecond = Duration::from_millis(1);
        if self.session_timeout < millisecond || self.session_timeout > LONGEST_SESSION {
            return Err(InvalidOptions::SessionTimeout { timeout: self.session_timeout });
        }
        if self.margin >= self.session_timeout {
            return Err(InvalidOptions::Margin {
                margin: self.margin,
                timeout: self.session_timeout,
            });
        }
        if self.command_timeout.is_zero() {
            return Err(InvalidOptions::CommandTimeout);
        }
        if self.retry.is_zero() {
            return Err(InvalidOptions::Retry);
        }
        if self.tick < millisecond || self.tick > LONGEST_SESSION {
            return Err(InvalidOptions::Tick { tick: self.tick });
        }
        if !super::names::is_path(&self.root) {
            return Err(InvalidOptions::Root { root: self.root });
        }
        Ok(self)
    }
}

/// The servers count it in signed 32-bit milliseconds; a day is far inside of that.
const LONGEST_SESSION: Duration = Duration::from_secs(24 * 60 * 60);

/// `zk-1:2181,zk-2:2181` of these servers.
pub(super) fn cluster(servers: &[String]) -> Result<String, InvalidOptions> {
    if servers.is_empty() {
        return Err(InvalidOptions::NoServers);
    }
    for (position, address) in servers.iter().enumerate() {
        let well_formed = address.rsplit_once(':').is_some_and(|(name, port)| {
            let plain = |character: char| character.is_ascii_graphic() && character != ',';
            !name.is_empty() && name.chars().all(plain) && port.parse::<u16>().is_ok()
        });
        if !well_formed || address.contains('/') {
            return Err(InvalidOptions::Address { address: address.clone() });
        }
        if servers[..position].contains(address) {
            return Err(InvalidOptions::SameServer { address: address.clone() });
        }
    }
    Ok(servers.join(","))
}

/// An option that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// The session timeout cannot be told to a server, or never passes.
    #[error("the session timeout is {timeout:?}: give it at least 1ms and at most a day")]
    SessionTimeout {
        /// As given.
        timeout: Duration,
    },
    /// The margin leaves nothing of the session timeout.
    #[error(
        "the margin is {margin:?} of a session timeout of {timeout:?}: nothing is left to use, \
         give it less"
    )]
    Margin {
        /// As given.
        margin: Duration,
        /// As given.
        timeout: Duration,
    },
    /// No request could ever be answered.
    #[error("the command timeout is zero: no reply can come in time, give it more")]
    CommandTimeout,
    /// What failed would be tried again without a pause.
    #[error("the retry time is zero: what fails would be tried without a pause, give it more")]
    Retry,
    /// No server has such a tick.
    #[error("the tick is {tick:?}: give the servers' tickTime, 2s unless it was changed")]
    Tick {
        /// As given.
        tick: Duration,
    },
    /// A path that ZooKeeper does not take.
    #[error("`{root}` is no path of a node: begin with a slash and do not end with one")]
    Root {
        /// As given.
        root: String,
    },
    /// Nobody to ask.
    #[error("there are no servers: name at least one as name:port, better three or five")]
    NoServers,
    /// An address cannot be connected to.
    #[error("`{address}` is no address of the form name:port")]
    Address {
        /// As given.
        address: String,
    },
    /// The same server twice.
    #[error("`{address}` is named twice: name each server once")]
    SameServer {
        /// As given.
        address: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(6);

    #[test]
    fn defaults_work_and_leave_a_third_unused() {
        let options = Options::new(TIMEOUT).checked().unwrap();
        assert_eq!(options.margin, Duration::from_secs(2));
        // Half a tick and one heartbeat may be unknown to the leader.
        assert!(options.tick / 2 + options.heartbeat() <= options.margin);
    }

    #[test]
    fn the_bound_is_of_the_timeout_that_servers_allow() {
        let bound = |seconds| Options::new(Duration::from_secs(seconds)).takeover_bound();
        assert_eq!(bound(1), bound(4), "no session is shorter than two ticks");
        assert_eq!(bound(40), bound(400), "nor longer than twenty");
        // Timeout and a tick and a half, two fifths to find another server, two replies.
        assert_eq!(bound(6), Duration::from_millis(6_000 + 3_000 + 2_400 + 2_000 + 100));
    }

    #[test]
    fn choices_that_cannot_work_are_refused_with_the_mend() {
        let good = Options::new(TIMEOUT);
        let told = |options: Options| options.checked().unwrap_err().to_string();
        insta::assert_snapshot!(told(Options::new(Duration::ZERO)),
            @"the session timeout is 0ns: give it at least 1ms and at most a day");
        insta::assert_snapshot!(told(Options { margin: TIMEOUT, ..good.clone() }),
            @"the margin is 6s of a session timeout of 6s: nothing is left to use, give it less");
        insta::assert_snapshot!(told(Options { command_timeout: Duration::ZERO, ..good.clone() }),
            @"the command timeout is zero: no reply can come in time, give it more");
        insta::assert_snapshot!(told(Options { retry: Duration::ZERO, ..good.clone() }),
            @"the retry time is zero: what fails would be tried without a pause, give it more");
        insta::assert_snapshot!(told(Options { tick: Duration::ZERO, ..good.clone() }),
            @"the tick is 0ns: give the servers' tickTime, 2s unless it was changed");
        for root in ["", "/", "lockstorm", "/lockstorm/", "//a", "/a/../b", "/a\0"] {
            let options = Options { root: root.to_owned(), ..good.clone() };
            assert!(told(options).contains("no path of a node"), "{root}");
        }
        assert!(Options::new(Duration::MAX).checked().is_err());
    }

    #[test]
    fn servers_are_addresses_and_each_is_named_once() {
        let cluster = |servers: &[&str]| {
            cluster(&servers.iter().map(|server| (*server).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(cluster(&["zk-1:2181", "zk-2:2181"]).unwrap(), "zk-1:2181,zk-2:2181");
        assert_eq!(cluster(&[]), Err(InvalidOptions::NoServers));
        for bad in ["zk-1", "zk-1:", ":2181", "zk-1:2181/chroot", "a,b:1", "zk-1:99999"] {
            let error = cluster(&[bad]).unwrap_err();
            assert!(matches!(error, InvalidOptions::Address { .. }), "{bad}: {error}");
        }
        let error = cluster(&["zk-1:1", "zk-1:1"]).unwrap_err();
        assert!(matches!(error, InvalidOptions::SameServer { .. }), "{error}");
    }
}
