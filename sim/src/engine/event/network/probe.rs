//! Keepalive probes and user timeouts: how a kernel finds that its peer is gone.
//!
//! After tcp_keepalive_timer and tcp_probe_timer of Linux. A probe is answered by the
//! peer's kernel, whatever its program does. The user timeout bounds three things: how
//! long something may be unacknowledged (in [`super::retransmission`]), how long a peer
//! may have no room, and how long it may leave probes unanswered.

use std::io;
use std::time::Duration;

use lockstorm::host::Keepalive;

use super::{Content, End, Network, Place, Probing};
use crate::engine::event::core::{Effects, Step};
use crate::engine::event::queue::Queue;
use crate::engine::world::World;

/// How long a kernel remembers a connection that its program has closed and whose peer
/// has not closed its side (tcp_fin_timeout), µs.
const FIN_TIMEOUT_US: u64 = 60_000_000;

impl End {
    /// The peer's kernel has said something.
    pub(super) fn hear(&mut self, now_us: u64) {
        self.heard_at_us = now_us;
        if let Some(probing) = &mut self.probing {
            probing.unanswered = 0;
        }
    }
}

impl Network {
    /// Turns probing on or off.
    pub(in crate::engine::event) fn set_keepalive(
        &mut self,
        queue: &mut Queue<Step>,
        now_us: u64,
        place: Place,
        keepalive: Option<Keepalive>,
    ) {
        let (index, generation, side) = place;
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let end = &mut connection.ends[usize::from(side)];
        end.probings = end.probings.wrapping_add(1);
        end.probing = keepalive.map(|Keepalive { idle, interval, count }| Probing {
            idle_us: microseconds(idle),
            interval_us: microseconds(interval),
            count,
            unanswered: 0,
        });
        if let Some(probing) = end.probing {
            let number = end.probings;
            let step = Step::Probe { connection: index, generation, side, number };
            queue.push(now_us.saturating_add(probing.idle_us), step);
        }
    }

    /// Sets the user timeout.
    pub(in crate::engine::event) fn set_user_timeout(
        &mut self,
        queue: &mut Queue<Step>,
        now_us: u64,
        place: Place,
        limit: Option<Duration>,
    ) {
        let (index, generation, side) = place;
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let end = &mut connection.ends[usize::from(side)];
        // Linux counts it in milliseconds.
        end.user_timeout_us = limit.map(|limit| microseconds(limit) / 1_000 * 1_000);
        self.watch_window(queue, now_us, place);
    }

    /// The timer of a full window: set when it fills and when the limit changes.
    pub(super) fn watch_window(&self, queue: &mut Queue<Step>, now_us: u64, place: Place) {
        let (index, generation, side) = place;
        let Some(connection) = self.connection(index, generation) else { return };
        let end = &connection.ends[usize::from(side)];
        if let (Some(since_us), Some(limit_us)) = (end.full_since_us, end.user_timeout_us) {
            let step = Step::LookAtWindow { connection: index, generation, side, since_us };
            queue.push(since_us.saturating_add(limit_us).max(now_us), step);
        }
    }

    /// The timer of a full window fired.
    pub(in crate::engine::event) fn look_at_window(
        &mut self,
        now_us: u64,
        (index, generation, side): Place,
        since_us: u64,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection(index, generation) else { return };
        let end = &connection.ends[usize::from(side)];
        let Some(limit_us) = end.user_timeout_us else { return };
        let is_due = end.full_since_us == Some(since_us) && now_us >= since_us + limit_us;
        if !is_due || end.broken || self.has_lost_its_kernel(end) {
            return;
        }
        if let Some(connection) = self.connection_mut(index, generation) {
            let end = &mut connection.ends[usize::from(side)];
            end.break_with(io::ErrorKind::TimedOut, effects);
        }
        self.remove_if_over(index, generation);
    }

    /// The keepalive timer fired.
    pub(in crate::engine::event) fn probe(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (place, number): (Place, u32),
        effects: &mut Effects,
    ) {
        let (index, generation, side) = place;
        let now_us = world.now_us();
        let Some(connection) = self.connection(index, generation) else { return };
        let end = &connection.ends[usize::from(side)];
        let Some(probing) = end.probing else { return };
        if end.probings != number || !end.held || end.broken || self.has_lost_its_kernel(end) {
            return;
        }
        let silent_us = now_us - end.heard_at_us;
        let wait_us = if !end.undelivered.is_empty() {
            // What is sent again probes well enough.
            probing.idle_us
        } else if silent_us < probing.idle_us {
            probing.idle_us - silent_us
        } else {
            let is_over = match end.user_timeout_us {
                Some(limit_us) => silent_us >= limit_us && probing.unanswered > 0,
                None => probing.unanswered >= probing.count,
            };
            let to = (index, generation, 1 - side);
            if is_over {
                self.send(queue, world, to, Content::Reset, effects);
                if let Some(connection) = self.connection_mut(index, generation) {
                    let end = &mut connection.ends[usize::from(side)];
                    end.break_with(io::ErrorKind::TimedOut, effects);
                }
                return self.remove_if_over(index, generation);
            }
            self.send(queue, world, to, Content::Probe, effects);
            if let Some(connection) = self.connection_mut(index, generation)
                && let Some(probing) = &mut connection.ends[usize::from(side)].probing
            {
                probing.unanswered += 1;
            }
            probing.interval_us
        };
        let step = Step::Probe { connection: index, generation, side, number };
        queue.push(now_us.saturating_add(wait_us), step);
    }

    /// A probe arrives at this end: its kernel answers, unless it knows nothing of the
    /// connection any more.
    pub(super) fn arrive_probe(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, side): Place,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection(index, generation) else { return };
        let end = &connection.ends[usize::from(side)];
        let is_forgotten = !end.held
            && end.finished
            && end.undelivered.is_empty()
            && world.now_us() - end.left_at_us > FIN_TIMEOUT_US;
        let answer = if end.broken || is_forgotten { Content::Reset } else { Content::Answer };
        self.send(queue, world, (index, generation, 1 - side), answer, effects);
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
