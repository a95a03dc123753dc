//! The wire: sending and arriving.

use std::io;

use super::told::Loss;
use super::{Connection, Content, Handshake, Network, Packet, Place, Segment};
use crate::engine::event::core::{Effects, Step};
use crate::engine::event::queue::Queue;
use crate::engine::world::{Touch, World};

/// Segments that a kernel sends without an acknowledgement (the initial window).
const UNACKNOWLEDGED_MAX: usize = 10;

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
            let sent = self.note_sent(from, to, &content);
            self.note_lost(sent, from, Loss::Cut);
            return;
        }
        let packet = Packet { connection: index, generation, to_side, content, sent: None };
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
        let Some(connection) = self.connection(index, generation) else { return };
        let from = connection.ends[from_side].node;
        let to = connection.ends[usize::from(to_side)].node;
        if connection.ends[from_side].only_greets() && !self.is_cut(from, to) {
            // What is sent completes the handshake as well.
            let place = (index, generation, 1 - to_side);
            self.retransmit_now(queue, world, place, effects);
        }
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let sender = &mut connection.ends[from_side];
        let number = sender.numbered;
        sender.numbered += 1;
        // Behind what waits to be sent again it waits too. What is merely unacknowledged
        // holds nothing up until it is sent again, or until there is too much of it.
        let is_blocked = sender.retransmission.is_some_and(|state| state.first_us.is_some())
            || sender.undelivered.len() >= UNACKNOWLEDGED_MAX;
        let waits = !sender.undelivered.is_empty() && (is_blocked || !self.is_cut(to, from));
        if !waits && !self.is_cut(from, to) {
            let content = Content::Segment(number, segment);
            let packet = Packet { connection: index, generation, to_side, content, sent: None };
            return self.launch(queue, world, packet, effects);
        }
        if self.is_cut(from, to) {
            effects.touch(Touch::Cut { from, to });
            if !waits && self.notes.is_some() {
                let sent = self.note_sent(from, to, &Content::Segment(number, segment.clone()));
                self.note_lost(sent, from, Loss::Cut);
            }
        }
        self.keep_undelivered(queue, world, (index, generation, 1 - to_side), number, segment);
    }

    /// Schedules the arrival of a packet whose link is open.
    pub(super) fn launch(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        mut packet: Packet,
        effects: &mut Effects,
    ) {
        let Some(connection) = self.connection(packet.connection, packet.generation) else {
            return;
        };
        let from = connection.ends[usize::from(1 - packet.to_side)].node;
        let to = connection.ends[usize::from(packet.to_side)].node;
        packet.sent = self.note_sent(from, to, &packet.content);
        if self.extra_us[self.link(from, to)] > 0 {
            effects.touch(Touch::Slowed { from, to });
        }
        let now_us = world.now_us();
        let earliest_us = now_us + self.latency_us(from, to);
        let apart_us = self.wire.apart_us;
        self.messages += 1;
        let Some(connection) = self.connection_mut(packet.connection, packet.generation) else {
            return;
        };
        let sender = &mut connection.ends[usize::from(1 - packet.to_side)];
        // One connection takes one path: what was sent first arrives first.
        let after_us = sender.last_arrival_us.max(now_us) + apart_us;
        let at_us = earliest_us.max(after_us);
        sender.last_arrival_us = at_us;
        queue.push(at_us, Step::Arrive(packet));
    }

    /// A connecting kernel had no answer to its SYN.
    pub(in crate::engine::event) fn repeat_syn(
        &mut self,
        queue: &mut Queue<Step>,
        world: &World,
        (index, generation, tries): (u32, u32, u32),
        effects: &mut Effects,
    ) {
        let repeats = self.kernel.syn_repeats();
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
        if tries >= repeats {
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
        let wait_us = self.kernel.syn_wait_us(tries);
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
        let Packet { connection: index, generation, to_side, content, sent } = packet;
        let Some(connection) = self.connection(index, generation) else { return };
        let from = connection.ends[usize::from(1 - to_side)].node;
        let receiver = &connection.ends[usize::from(to_side)];
        let to = receiver.node;
        let life_is_over = receiver.life != self.lives[to.index()];
        let is_cut = self.wire.catches && self.is_cut(from, to);
        if is_cut || self.dead[to.index()] {
            if is_cut {
                effects.touch(Touch::Cut { from, to });
            }
            self.note_lost(sent, from, if is_cut { Loss::Cut } else { Loss::Down });
            if let Content::Segment(number, segment) = content {
                let place = (index, generation, 1 - to_side);
                self.keep_undelivered(queue, world, place, number, segment);
            }
            return;
        }
        self.note_delivered(sent, from, to);
        let place = (index, generation, to_side);
        if let Content::Segment(number, segment) = &content {
            let sender = (index, generation, 1 - to_side);
            if self.is_cut(to, from) {
                // It arrives, and the acknowledgement does not.
                effects.touch(Touch::Cut { from: to, to: from });
                self.keep_undelivered(queue, world, sender, *number, segment.clone());
            } else {
                let is_greeting = matches!(segment, Segment::Established);
                self.acknowledge(world.now_us(), sender, *number, is_greeting);
            }
        }
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
            Content::Probe => self.arrive_probe(queue, world, place, effects),
            Content::Answer => {
                if let Some(connection) = self.connection_mut(index, generation) {
                    connection.ends[usize::from(to_side)].hear(world.now_us());
                }
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
        if connection.handshake != Handshake::SynSent {
            // A repeated one that was slow.
            return;
        }
        let at = (connection.ends[1].node, connection.ports[1]);
        let Some(listening) = self.listening.get(&at) else {
            return self.send(queue, world, (index, generation, 0), Content::Refuse, effects);
        };
        if self.kernel.is_full(listening.ready.len()) {
            // A full backlog drops the SYN; the other kernel repeats it.
            return;
        }
        let (life, listener) = (self.lives[at.0.index()], listening.number);
        if let Some(connection) = self.connection_mut(index, generation) {
            connection.ends[1].life = life;
            connection.listener = Some(listener);
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
        connection.ends[0].hear(world.now_us());
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
        let sender = (index, generation, 1 - side);
        if matches!(segment, Segment::Established) && self.is_backlog_full(index, generation) {
            // The last step of the handshake is dropped as if it had been lost.
            return self.keep_undelivered(queue, world, sender, number, segment);
        }
        let Some(connection) = self.connection_mut(index, generation) else { return };
        let end = &mut connection.ends[usize::from(side)];
        if end.broken {
            // This kernel knows nothing of the connection any more.
            return self.answer_with_reset(queue, world, (index, generation, side), effects);
        }
        end.hear(world.now_us());
        if number < end.expected {
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
