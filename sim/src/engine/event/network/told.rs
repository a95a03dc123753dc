//! Messages as a page shows them: noted when they leave, when they arrive, when they are lost.
//!
//! Only what says something to people: a connection's beginning and end, and data. What is
//! sent again is another message.

use super::{Content, Network, Segment};
use crate::engine::messages;
use crate::engine::world::NodeId;
use crate::history::What;
use crate::history::recorder::AsideId;

/// Why a message does not arrive.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loss {
    /// Its link is cut.
    Cut,
    /// The machine that it goes to is down.
    Down,
}

impl Network {
    /// Notes that `content` leaves `from`.
    pub(super) fn note_sent(&self, from: NodeId, to: NodeId, content: &Content) -> Option<AsideId> {
        let notes = self.notes.as_ref()?;
        let message = match content {
            Content::Syn => "SYN".to_owned(),
            Content::Refuse => "RST: nobody listens".to_owned(),
            Content::Reset => "RST".to_owned(),
            Content::Segment(_, Segment::Fin) => "FIN".to_owned(),
            Content::Segment(_, Segment::Data(bytes)) => messages::told(bytes),
            Content::Segment(_, Segment::Established)
            | Content::SynAck
            | Content::Probe
            | Content::Answer => return None,
        };
        let to = self.names[to.index()].clone();
        notes.aside(&self.names[from.index()], None, What::MessageSent { to, message })
    }

    /// Notes that a message has arrived.
    pub(super) fn note_delivered(&self, sent: Option<AsideId>, from: NodeId, to: NodeId) {
        if let (Some(notes), Some(_)) = (&self.notes, sent) {
            let from = self.names[from.index()].clone();
            notes.aside(&self.names[to.index()], sent, What::MessageDelivered { from });
        }
    }

    /// Notes that a message will not arrive: where it left, for nobody else knows of it.
    pub(super) fn note_lost(&self, sent: Option<AsideId>, from: NodeId, loss: Loss) {
        if let (Some(notes), Some(_)) = (&self.notes, sent) {
            let how = match loss {
                Loss::Cut => "the link is cut",
                Loss::Down => "the machine is down",
            };
            let how = how.to_owned();
            notes.aside(&self.names[from.index()], sent, What::MessageLost { how });
        }
    }
}
