//! What kernels do about what was not delivered: they keep it, send it again, and end
//! the connection when that has gone on for too long.

use std::io;

use super::{Content, End, Network, Packet, Place, Retransmission, Segment};
use crate::engine::event::core::{Effects, Step};
use crate::engine::event::queue::Queue;
use crate::engine::kernel::SYN_RTO_US;
use crate::engine::world::{Touch, World};

impl End {
    /// Whether nothing waits but the end of the handshake, which every segment carries.
    pub(super) fn only_greets(&self) -> bool {
        self.undelivered.len() == 1
            && matches!(self.undelivered.values().next(), Some(Segment::Established))
    }
}

impl Network {
    /// Leaves a segment with its sender's kernel, to be sent again.
    pub(super) fn keep_undelivered(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, from_side): Place,
        number: u64,
        segment: Segment,
    ) {
        let Some(connection) = self.connection(index, generation) else { return };
        let sender = &connection.ends[usize::from(from_side)];
        // The kernel that would send it again may be gone, or have given up.
        if self.has_lost_its_kernel(sender) || sender.broken {
            return;
        }
        let (rto_min_us, _) = self.wire.rto_us;
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let sender = &mut connection.ends[usize::from(from_side)];
        let is_first = sender.retransmission.is_none() || sender.only_greets();
        let is_greeting = matches!(segment, Segment::Established);
        sender.undelivered.insert(number, segment);
        if is_first {
            // A lost end of the handshake is found by the other kernel, when it repeats
            // its SYN-ACK.
            let rto_us = if is_greeting { SYN_RTO_US } else { rto_min_us };
            sender.retransmissions = sender.retransmissions.wrapping_add(1);
            let number = sender.retransmissions;
            sender.retransmission = Some(Retransmission { number, first_us: None, rto_us });
            let step = Step::Retransmit { connection: index, generation, side: from_side, number };
            queue.push(world.now_us() + rto_us, step);
        }
    }

    /// A segment has arrived and its acknowledgement can come back; that of the end of a
    /// handshake is not sent.
    pub(super) fn acknowledge(
        &mut self,
        now_us: u64,
        place: Place,
        number: u64,
        is_greeting: bool,
    ) {
        let (index, generation, from_side) = place;
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let sender = &mut connection.ends[usize::from(from_side)];
        if !is_greeting {
            sender.hear(now_us);
        }
        if sender.retransmission.is_some() {
            sender.undelivered.remove(&number);
            if sender.undelivered.is_empty() {
                sender.retransmission = None;
            }
        }
    }

    /// A kernel's retransmission timer fired.
    pub(in crate::engine::event) fn retransmit(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (place, number): (Place, u32),
        effects: &mut Effects,
    ) {
        let (index, generation, side) = place;
        let now_us = world.now_us();
        let Some(connection) = self.connection(index, generation) else { return };
        let sender = &connection.ends[usize::from(side)];
        let (from, to) = (sender.node, connection.ends[usize::from(1 - side)].node);
        let Some(state) = sender.retransmission else { return };
        if state.number != number {
            return;
        }
        if self.has_lost_its_kernel(sender) || sender.undelivered.is_empty() {
            if let Some(connection) = self.connection_mut(index, generation) {
                connection.ends[usize::from(side)].retransmission = None;
            }
            return;
        }
        if self.has_taken_too_long(place, state, now_us) {
            if let Some(connection) = self.connection_mut(index, generation) {
                let sender = &mut connection.ends[usize::from(side)];
                sender.break_with(io::ErrorKind::TimedOut, effects);
            }
            return self.remove_if_over(index, generation);
        }
        let is_cut = self.is_cut(from, to);
        if is_cut {
            effects.touch(Touch::Cut { from, to });
        }
        if is_cut || self.dead[to.index()] {
            return self.back_off(queue, now_us, place, state);
        }
        if self.is_cut(to, from) {
            // Until something is acknowledged, a kernel sends one segment at a time.
            let first = sender.undelivered.iter().next();
            if let Some((number, segment)) = first.map(|(number, segment)| (*number, segment)) {
                let content = Content::Segment(number, segment.clone());
                let packet = Packet {
                    connection: index,
                    generation,
                    to_side: 1 - side,
                    content,
                    sent: None,
                };
                self.launch(queue, world, packet, effects);
            }
            return self.back_off(queue, now_us, place, state);
        }
        self.retransmit_now(queue, world, place, effects);
    }

    /// Sends again all that waits.
    pub(super) fn retransmit_now(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, side): Place,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let sender = &mut connection.ends[usize::from(side)];
        sender.retransmission = None;
        let again = std::mem::take(&mut sender.undelivered);
        for (number, segment) in again {
            let content = Content::Segment(number, segment);
            let packet =
                Packet { connection: index, generation, to_side: 1 - side, content, sent: None };
            self.launch(queue, world, packet, effects);
        }
    }

    /// Sets the timer anew, at twice the time or at the user timeout.
    fn back_off(
        &mut self,
        queue: &mut Queue<Step>,
        now_us: u64,
        (index, generation, side): Place,
        state: Retransmission,
    ) {
        let (_, rto_max_us) = self.wire.rto_us;
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let sender = &mut connection.ends[usize::from(side)];
        let first_us = state.first_us.unwrap_or(now_us);
        let rto_us = (state.rto_us * 2).min(rto_max_us);
        let mut at_us = now_us + rto_us;
        if let Some(limit_us) = sender.user_timeout_us {
            at_us = at_us.min(first_us.saturating_add(limit_us)).max(now_us + 1);
        }
        sender.retransmission = Some(Retransmission { first_us: Some(first_us), rto_us, ..state });
        let step = Step::Retransmit { connection: index, generation, side, number: state.number };
        queue.push(at_us, step);
    }

    /// Whether the kernel gives up now.
    fn has_taken_too_long(&self, place: Place, state: Retransmission, now_us: u64) -> bool {
        let (index, generation, side) = place;
        let Some(connection) = self.connection(index, generation) else { return false };
        let sender = &connection.ends[usize::from(side)];
        // The end of the handshake is nothing whose acknowledgement a kernel awaits.
        let Some(first_us) = state.first_us.filter(|_| !sender.only_greets()) else {
            return false;
        };
        let elapsed_us = now_us - first_us;
        match sender.user_timeout_us {
            Some(limit_us) => elapsed_us >= limit_us,
            // A kernel's first wait is longer than 200 ms by the round trip, which
            // doubles along: 3 in 1000 stand for it.
            None => {
                let limit_us = self.kernel.retransmit_for_us(!sender.held);
                elapsed_us + elapsed_us * 3 / 1_000 >= limit_us
            }
        }
    }
}
