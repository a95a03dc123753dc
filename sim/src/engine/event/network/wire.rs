//! The wire: sending, arriving, retransmitting.

use std::io;

use super::{
    BACKLOG, Connection, Content, FIRST_RTO_US, Handshake, Network, Packet, Place,
    RETRANSMIT_FOR_US, RTO_MAX_US, Retransmission, SYN_REPEATS, Segment,
};
use crate::engine::event::core::{Effects, Step};
use crate::engine::event::queue::Queue;
use crate::engine::world::{Touch, World};

impl Network {
    /// Puts something that is not numbered on the wire towards `to_side`; a cut eats it.
    pub(super) fn send(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, to_side): Place,
        content: Content,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection(index, generation) else { return };
        let from = connection.ends[usize::from(1 - to_side)].node;
        let to = connection.ends[usize::from(to_side)].node;
        if self.is_cut(from, to) {
            effects.touch(Touch::Cut { from, to });
            return;
        }
        let packet = Packet { connection: index, generation, to_side, content };
        self.launch(queue, world, packet, effects);
    }

    /// Numbers a segment and sends it towards `to_side`, now or when the link allows.
    pub(super) fn send_segment(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, to_side): Place,
        segment: Segment,
        effects: &mut Effects,
    ) {
        let from_side = usize::from(1 - to_side);
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let from = connection.ends[from_side].node;
        let to = connection.ends[usize::from(to_side)].node;
        let sender = &mut connection.ends[from_side];
        let number = sender.numbered;
        sender.numbered += 1;
        let waits = !sender.undelivered.is_empty();
        if !waits && !self.is_cut(from, to) {
            let content = Content::Segment(number, segment);
            let packet = Packet { connection: index, generation, to_side, content };
            return self.launch(queue, world, packet, effects);
        }
        if self.is_cut(from, to) {
            effects.touch(Touch::Cut { from, to });
        }
        self.keep_undelivered(queue, world, (index, generation, 1 - to_side), number, segment);
    }

    /// Schedules the arrival of a packet whose link is open.
    fn launch(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        packet: Packet,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection(packet.connection, packet.generation) else {
            return;
        };
        let from = connection.ends[usize::from(1 - packet.to_side)].node;
        let to = connection.ends[usize::from(packet.to_side)].node;
        if self.extra_us[self.link(from, to)] > 0 {
            effects.touch(Touch::Slowed { from, to });
        }
        let earliest_us = world.now_us() + self.latency_us(from, to);
        self.messages += 1;
        let Some(connection) = self.connection_mut(packet.connection, packet.generation) else {
            return;
        };
        let sender = &mut connection.ends[usize::from(1 - packet.to_side)];
        // One connection takes one path: what was sent first arrives first.
        let at_us = earliest_us.max(sender.last_arrival_us);
        sender.last_arrival_us = at_us;
        queue.push(at_us, Step::Arrive(packet));
    }

    /// Leaves a segment with its sender's kernel, to be sent again.
    fn keep_undelivered(
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
        if self.has_lost_its_kernel(sender) || sender.broken.is_some() {
            return;
        }
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let sender = &mut connection.ends[usize::from(from_side)];
        sender.undelivered.insert(number, segment);
        if sender.retransmission.is_none() {
            let since_us = world.now_us();
            sender.retransmission = Some(Retransmission { since_us, rto_us: FIRST_RTO_US });
            let step = Step::Retransmit { connection: index, generation, side: from_side };
            queue.push(since_us + FIRST_RTO_US, step);
        }
    }

    /// A kernel's retransmission timer fired.
    pub(in crate::engine::event) fn retransmit(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, side): Place,
        effects: &mut Effects,
    ) {
        let now_us = world.now_us();
        let Some(connection) = self.connection(index, generation) else { return };
        let kernel_is_lost = self.has_lost_its_kernel(&connection.ends[usize::from(side)]);
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let to = connection.ends[usize::from(1 - side)].node;
        let sender = &mut connection.ends[usize::from(side)];
        let from = sender.node;
        let Some(state) = sender.retransmission else { return };
        if kernel_is_lost || sender.undelivered.is_empty() {
            sender.retransmission = None;
            return;
        }
        if now_us - state.since_us >= RETRANSMIT_FOR_US {
            sender.retransmission = None;
            sender.undelivered.clear();
            sender.break_with(io::ErrorKind::TimedOut, effects);
            self.remove_if_over(index, generation);
            return;
        }
        if self.is_cut(from, to) || self.dead[to.index()] {
            if self.is_cut(from, to) {
                effects.touch(Touch::Cut { from, to });
            }
            let rto_us = (state.rto_us * 2).min(RTO_MAX_US);
            let step = Step::Retransmit { connection: index, generation, side };
            queue.push(now_us + rto_us, step);
            if let Some(connection) = self.connection_mut(index, generation) {
                connection.ends[usize::from(side)].retransmission =
                    Some(Retransmission { rto_us, ..state });
            }
            return;
        }
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let sender = &mut connection.ends[usize::from(side)];
        sender.retransmission = None;
        let again = std::mem::take(&mut sender.undelivered);
        for (number, segment) in again {
            let content = Content::Segment(number, segment);
            let packet = Packet { connection: index, generation, to_side: 1 - side, content };
            self.launch(queue, world, packet, effects);
        }
    }

    /// A connecting kernel had no answer to its SYN.
    pub(in crate::engine::event) fn repeat_syn(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, tries): (u32, u32, u32),
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection(index, generation) else { return };
        let connecting = &connection.ends[0];
        if !connecting.held || self.has_lost_its_kernel(connecting) {
            if connection.handshake != Handshake::Established {
                self.remove(index);
            }
            return;
        }
        if connection.handshake != Handshake::SynSent {
            return;
        }
        let Some(connection) = self.connection_mut(index, generation) else { return };
        if tries >= SYN_REPEATS {
            connection.handshake = Handshake::Failed(io::ErrorKind::TimedOut);
            effects.wake(connection.connector.take());
            return;
        }
        self.send_syn(queue, world, (index, generation, tries + 1), effects);
    }

    /// Sends a SYN and sets the timer that repeats it.
    pub(super) fn send_syn(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, tries): (u32, u32, u32),
        effects: &mut Effects,
    ) {
        let wait_us = 1_000_000 << tries;
        let step = Step::RepeatSyn { connection: index, generation, tries };
        queue.push(world.now_us() + wait_us, step);
        self.send(queue, world, (index, generation, 1), Content::Syn, effects);
    }

    /// A packet reaches the other end of its link.
    pub(in crate::engine::event) fn arrive(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        packet: Packet,
        effects: &mut Effects,
    ) {
        let Packet { connection: index, generation, to_side, content } = packet;
        let Some(connection) = self.connection(index, generation) else { return };
        let from = connection.ends[usize::from(1 - to_side)].node;
        let receiver = &connection.ends[usize::from(to_side)];
        let to = receiver.node;
        let life_is_over = receiver.life != self.lives[to.index()];
        let is_cut = self.is_cut(from, to);
        if is_cut || self.dead[to.index()] {
            if is_cut {
                effects.touch(Touch::Cut { from, to });
            }
            if let Content::Segment(number, segment) = content {
                let place = (index, generation, 1 - to_side);
                self.keep_undelivered(queue, world, place, number, segment);
            }
            return;
        }
        let place = (index, generation, to_side);
        match content {
            Content::Syn => self.arrive_syn(queue, world, place, effects),
            // The machine was restarted and knows nothing of this connection.
            _ if life_is_over => self.answer_with_reset(queue, world, place, effects),
            Content::SynAck => self.arrive_syn_ack(queue, world, place, effects),
            Content::Refuse => {
                if let Some(connection) = self.connection_mut(index, generation)
                    && connection.handshake == Handshake::SynSent
                {
                    connection.handshake = Handshake::Failed(io::ErrorKind::ConnectionRefused);
                    effects.wake(connection.connector.take());
                }
            }
            Content::Reset => {
                if let Some(connection) = self.connection_mut(index, generation) {
                    if connection.handshake == Handshake::SynSent {
                        connection.handshake = Handshake::Failed(io::ErrorKind::ConnectionRefused);
                        effects.wake(connection.connector.take());
                    }
                    let end = &mut connection.ends[usize::from(to_side)];
                    end.break_with(io::ErrorKind::ConnectionReset, effects);
                }
                self.remove_if_over(index, generation);
            }
            Content::Segment(number, segment) => {
                self.arrive_segment(queue, world, place, (number, segment), effects);
            }
        }
    }

    fn answer_with_reset(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, at_side): Place,
        effects: &mut Effects,
    ) {
        self.send(queue, world, (index, generation, 1 - at_side), Content::Reset, effects);
    }

    fn arrive_syn(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, _): Place,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection(index, generation) else { return };
        let at = (connection.ends[1].node, connection.ports[1]);
        let Some(listening) = self.listening.get(&at) else {
            return self.send(queue, world, (index, generation, 0), Content::Refuse, effects);
        };
        if listening.ready.len() >= BACKLOG {
            // A full backlog drops the SYN; the other kernel repeats it.
            return;
        }
        let life = self.lives[at.0.index()];
        if let Some(connection) = self.connection_mut(index, generation) {
            connection.ends[1].life = life;
        }
        self.send(queue, world, (index, generation, 0), Content::SynAck, effects);
    }

    fn arrive_syn_ack(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, _): Place,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection_mut(index, generation) else { return };
        if connection.handshake != Handshake::SynSent {
            return;
        }
        if !connection.ends[0].held {
            // The program gave up connecting.
            return self.answer_with_reset(queue, world, (index, generation, 0), effects);
        }
        connection.handshake = Handshake::Established;
        effects.wake(connection.connector.take());
        self.send_segment(queue, world, (index, generation, 1), Segment::Established, effects);
    }

    fn arrive_segment(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, side): Place,
        (number, segment): (u64, Segment),
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let end = &mut connection.ends[usize::from(side)];
        if end.broken.is_some() {
            return;
        }
        end.early.insert(number, segment);
        let mut rejected = false;
        loop {
            let Some(connection) = self.connection_mut(index, generation) else { return };
            let end = &mut connection.ends[usize::from(side)];
            let Some(segment) = end.early.remove(&end.expected) else { break };
            end.expected += 1;
            match segment {
                Segment::Established => {
                    rejected |= !self.establish(index, generation, effects);
                }
                Segment::Data(bytes) => rejected |= !take_data(connection, side, bytes, effects),
                Segment::Fin => {
                    end.peer_finished = true;
                    effects.wake(end.reader.take());
                    effects.wake(end.watcher.take());
                }
            }
        }
        if rejected {
            // Nobody will read it: tell the sender, and be done with this end.
            self.answer_with_reset(queue, world, (index, generation, side), effects);
            if let Some(connection) = self.connection_mut(index, generation) {
                connection.ends[usize::from(side)]
                    .break_with(io::ErrorKind::ConnectionReset, effects);
            }
        }
        self.remove_if_over(index, generation);
    }

    /// The handshake is complete at the listening end. False if nobody listens now.
    fn establish(&mut self, index: u32, generation: u32, effects: &mut Effects) -> bool {
        let Some(connection) = self.connection(index, generation) else { return true };
        let at = (connection.ends[1].node, connection.ports[1]);
        match self.listening.get_mut(&at) {
            Some(listening) => {
                listening.ready.push_back((index, generation));
                effects.wake(listening.acceptor.take());
                if let Some(connection) = self.connection_mut(index, generation) {
                    connection.ends[1].held = true;
                }
                true
            }
            None => false,
        }
    }
}

/// Data for a program. False if there is no program to read it.
fn take_data(
    connection: &mut Connection,
    side: u8,
    bytes: bytes::Bytes,
    effects: &mut Effects,
) -> bool {
    let end = &mut connection.ends[usize::from(side)];
    if !end.held {
        return false;
    }
    end.unread.push_back(bytes);
    effects.wake(end.reader.take());
    true
}
