//! The two connections to an instance, as the state machine sees them: what was sent,
//! which replies are due, when it was heard of. `wire` carries them.
//!
//! As in Redis a connection is there as soon as it is being opened: what is sent then
//! waits for it, and a PING that waits is a PING without a reply.

use std::collections::VecDeque;
use std::task::Waker;

use super::instance::Ms;

/// What the next reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Ping,
    Info,
    Publish,
    /// `SENTINEL IS-MASTER-DOWN-BY-ADDR`.
    MasterDown,
    /// Its effect is seen elsewhere.
    Nothing,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Commands,
    Subscription,
}

/// A connection that is open, or being opened.
pub(super) struct Connection {
    /// No other of this sentinel has it.
    pub(super) number: u64,
    pub(super) since: Ms,
    /// Not handed to the network yet.
    pub(super) outgoing: Vec<u8>,
    /// Of the task that carries it.
    pub(super) waker: Option<Waker>,
}

impl Connection {
    pub(super) fn new(number: u64, now: Ms) -> Self {
        Connection { number, since: now, outgoing: Vec::new(), waker: None }
    }

    /// Lets its task know that there is something to do.
    pub(super) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

/// Closing is forgetting it: its task finds nothing any more.
impl Drop for Connection {
    fn drop(&mut self) {
        self.wake();
    }
}

/// Both connections to an instance. To a sentinel there is only the first.
pub(super) struct Link {
    pub(super) commands: Option<Connection>,
    pub(super) subscription: Option<Connection>,
    /// One of them is missing.
    pub(super) disconnected: bool,
    pub(super) expected: VecDeque<Expected>,
    pub(super) reconnected_at: Ms,
    /// Anything came over the subscription.
    pub(super) heard_at: Ms,
    /// The last valid reply to a PING.
    pub(super) available_at: Ms,
    /// When the first PING was sent that has no valid reply yet; 0 for none.
    pub(super) ping_pending_since: Ms,
    pub(super) pinged_at: Ms,
    /// The last reply to a PING of any sort.
    pub(super) ponged_at: Ms,
}

impl Link {
    /// Not connected. A PING counts as pending from the beginning, so that whoever is
    /// never reached is down in time.
    pub(super) fn new(now: Ms) -> Self {
        Link {
            commands: None,
            subscription: None,
            disconnected: true,
            expected: VecDeque::new(),
            reconnected_at: 0,
            heard_at: 0,
            available_at: now,
            ping_pending_since: now,
            pinged_at: 0,
            ponged_at: now,
        }
    }

    /// Sends bytes that are one command, if there is a connection to send them on.
    pub(super) fn send(&mut self, command: &[u8], expected: Expected) -> bool {
        let Some(connection) = &mut self.commands else { return false };
        connection.outgoing.extend_from_slice(command);
        connection.wake();
        self.expected.push_back(expected);
        true
    }

    pub(super) fn send_ping(&mut self, now: Ms) {
        if self.send(b"*1\r\n$4\r\nPING\r\n", Expected::Ping) {
            self.pinged_at = now;
            if self.ping_pending_since == 0 {
                self.ping_pending_since = now;
            }
        }
    }

    pub(super) fn close_commands(&mut self) {
        if self.commands.take().is_some() {
            self.expected.clear();
            self.disconnected = true;
        }
    }

    pub(super) fn close_subscription(&mut self) {
        if self.subscription.take().is_some() {
            self.disconnected = true;
        }
    }

    pub(super) fn close(&mut self) {
        self.close_commands();
        self.close_subscription();
    }

    /// Which of the two has this number.
    pub(super) fn channel(&self, number: u64) -> Option<Channel> {
        let is_it = |connection: &Option<Connection>| {
            connection.as_ref().is_some_and(|connection| connection.number == number)
        };
        if is_it(&self.commands) {
            Some(Channel::Commands)
        } else {
            is_it(&self.subscription).then_some(Channel::Subscription)
        }
    }
}
