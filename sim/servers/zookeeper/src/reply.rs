//! What clients hear: answers to writes, events, and whether they have a session.

use std::sync::Arc;

use super::access;
use super::code::{Code, kind};
use super::codec::Writer;
use super::observe::Observation;
use super::records::{Access, permission, write_multi_header};
use super::session::password;
use super::state::{Client, Shared, Stage, State, Statistics};
use super::tree::Outcome;
use super::watch::Event;

/// The number of a frame that nobody asked for.
const EVENT_XID: i32 = -1;
/// `KeeperState.SyncConnected`.
const CONNECTED: i32 = 3;

impl Statistics {
    /// A request was answered after so long.
    pub(super) fn note(&mut self, waited_ms: u64) {
        self.latency_least_ms = match self.answered {
            0 => waited_ms,
            _ => self.latency_least_ms.min(waited_ms),
        };
        self.latency_most_ms = self.latency_most_ms.max(waited_ms);
        self.latency_sum_ms = self.latency_sum_ms.saturating_add(waited_ms);
        self.answered += 1;
    }
}

impl Client {
    /// Takes note of its last request.
    pub(super) fn note(&mut self, kind: i32, xid: i32, zxid: i64) {
        self.last_operation = short_name(kind);
        self.last_xid = xid;
        self.last_zxid = zxid;
    }
}

/// What `cons` calls an operation.
fn short_name(kind: i32) -> &'static str {
    match kind {
        kind::PING => "PING",
        kind::CREATE_SESSION => "SESS",
        kind::MULTI => "MULT",
        kind::MULTI_READ => "MLTR",
        kind::CREATE | kind::CREATE2 | kind::CREATE_CONTAINER | kind::CREATE_TTL => "CREA",
        kind::DELETE | kind::DELETE_CONTAINER => "DELE",
        kind::SET_DATA => "SETD",
        kind::SET_ACL => "SETA",
        kind::CLOSE_SESSION => "CLOS",
        kind::SYNC => "SYNC",
        kind::CHECK => "CHEC",
        kind::EXISTS => "EXIS",
        kind::GET_DATA => "GETD",
        kind::SET_WATCHES => "SETW",
        kind::SET_WATCHES2 => "STW2",
        kind::ADD_WATCH => "ADDW",
        kind::GET_ACL => "GETA",
        kind::GET_CHILDREN | kind::GET_CHILDREN2 => "GETC",
        kind::GET_ALL_CHILDREN_NUMBER => "GETACN",
        kind::CHECK_WATCHES => "CHKW",
        kind::REMOVE_WATCHES => "REMW",
        kind::WHO_AM_I => "HOMI",
        kind::GET_EPHEMERALS => "GETE",
        _ => "NA",
    }
}

/// Writes the body of the answer to a write, and tells its code.
pub(super) fn write_outcome(outcome: &Outcome, body: &mut Writer) -> Code {
    if outcome.kind == kind::MULTI {
        // Its parts say what failed; the whole is answered.
        return write_parts(&outcome.parts, body);
    }
    if outcome.code == 0 {
        write_single(outcome, body);
    }
    Code(outcome.code)
}

fn write_single(outcome: &Outcome, body: &mut Writer) {
    match outcome.kind {
        kind::CREATE => {
            body.java_text(outcome.path.as_deref().unwrap_or_default());
        }
        kind::CREATE2 | kind::CREATE_CONTAINER => {
            body.java_text(outcome.path.as_deref().unwrap_or_default());
            outcome.stat.unwrap_or_default().write(body);
        }
        kind::SET_DATA | kind::SET_ACL => outcome.stat.unwrap_or_default().write(body),
        // A check of its own is answered with a null record.
        _ => {}
    }
}

fn write_parts(parts: &[Outcome], body: &mut Writer) -> Code {
    for part in parts {
        if part.code == Code::SESSION_MOVED.0 {
            return Code::SESSION_MOVED;
        }
        let (mut kind, code) = match part.kind {
            kind::ERROR => (kind::ERROR, part.code),
            kind => (kind, 0),
        };
        if kind == kind::CREATE_CONTAINER {
            kind = kind::CREATE2;
        }
        write_multi_header(body, kind, false, code);
        match part.kind {
            kind::ERROR => {
                body.int(part.code);
            }
            _ => write_single(part, body),
        }
    }
    write_multi_header(body, -1, true, -1);
    Code::OK
}

/// Tells connections what they watched for, and may read: a watch that fired for something else
/// has fired all the same (CVE-2024-23944 was that it was told).
pub(super) fn tell_events(shared: &Shared, state: &mut State, events: &[Event]) {
    for event in events {
        let Some(client) = state.clients.get_mut(&event.connection) else { continue };
        let may_hear = |list: &Arc<[Access]>| {
            access::check(list, permission::READ, &client.identities).is_ok()
        };
        if !event.readers.as_ref().is_none_or(may_hear) {
            continue;
        }
        let mut frame = Writer::new();
        frame.int(EVENT_XID).long(-1).int(0);
        frame.int(event.kind as i32).int(CONNECTED).java_text(&event.path);
        client.push(frame.bytes(), shared.settings.output_limit_bytes);
        let (session, path) = (client.session, event.path.as_str());
        shared.tell(&Observation::Notified { session, kind: event.kind, path });
    }
}

/// Tells a connection whether it has a session now; without one it is closed.
pub(super) fn let_in(shared: &Shared, state: &mut State, id: u64, valid: bool) {
    let Some(client) = state.clients.get_mut(&id) else { return };
    let session = client.session;
    let mut frame = Writer::new();
    let password = if valid { password(session) } else { [0; 16] };
    let (timeout_ms, told) = if valid { (client.timeout_ms, session) } else { (0, 0) };
    frame.int(0).int(timeout_ms).long(told).buffer(Some(&password));
    if client.knows_read_only {
        frame.boolean(false);
    }
    client.push(frame.bytes(), shared.settings.output_limit_bytes);
    let peer = client.peer;
    if valid {
        client.stage = Stage::Ready;
        client.signal.notify_one();
        shared.tell(&Observation::Attached { session, peer });
    } else {
        client.close();
        shared.tell(&Observation::Refused { session, peer });
    }
}
