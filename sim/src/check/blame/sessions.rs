//! How the session of a holder came to end while it was at work.
//!
//! The leader ends a session of which it has heard nothing for its timeout, by its own
//! clock. So what silenced the holder was at work when the session ended, or just before;
//! and where less than the timeout was enough, the leader's clock had a part in it.
//!
//! Which of several silences it was, in order: the holder stood still; it was cut off from
//! the servers; the servers were struck themselves; what the holder sent was slow. A history
//! does not say which side of a cut a node is on: that servers were parted from each other
//! shows in a change of the leader.
//!
//! A database has sessions of its own, one a connection: there the server itself stands for
//! the leader, and what breaks the connection ends the session at once.

use std::collections::BTreeSet;

use super::faults::{Group, Struck, distinct};
use super::mechanism::{Mechanism, Told};
use crate::check::case::Case;
use crate::check::grants::Grant;
use crate::check::interval::{Interval, Moment};
use crate::history::FaultFamily::{
    ClockRate, ClockSlew, DiskError, DiskSlow, DiskStall, MachineCrash, Partition, Pause,
    ProcessCrash, Reset, SlowLink,
};
use crate::history::event::{ENSEMBLE, is_of_ensemble};
use crate::history::{Event, FaultFamily, Name, What};

/// From this rate on a leader's clock is fast enough to matter, ppm: twenty times what
/// clocks are allowed to be off.
const FAST_PPM: i64 = 10_000;

/// How the session of `grant` ended, if it did by `until`, and the faults behind that.
pub(super) fn ended(
    case: &Case<'_>,
    grant: &Grant,
    role: &'static str,
    until: Moment,
) -> Option<Told> {
    let client = grant.client()?;
    let is_its_end = |event: &&Event| match &event.what {
        What::SessionExpired { records, .. } => {
            records.iter().any(|(key, owner)| *key == grant.key && *owner == grant.owner)
        }
        _ => false,
    };
    let expiry = case.history.iter().find(is_its_end)?;
    let end = Moment::of(expiry);
    if end > until {
        return None;
    }
    let before = || case.history.iter().take_while(|event| event.id < expiry.id);
    let authority = &expiry.node;
    let is_ensemble = **authority == *ENSEMBLE;
    let leader = if is_ensemble { leader(before()) } else { Some(authority.clone()) };
    let clock = leader.as_ref().and_then(|leader| fast_clock(before(), leader));
    let since = Interval::new(grant.start().min(end), end);
    let has_changed = case.history.iter().any(|event| {
        matches!(event.what, What::Leading { .. } | What::SteppedDown { .. })
            && since.contains(Moment::of(event))
    });
    let parted: &[FaultFamily] = if has_changed { &[Partition] } else { &[] };
    let servers = || vec![Struck::node(authority, "authority")];
    let silences: [Group<'_>; 6] = [
        (&[Pause], vec![Struck::node(client, role)]),
        (&[Partition], vec![Struck::link(client, authority, role)]),
        (&[Pause, MachineCrash, ProcessCrash], servers()),
        (parted, servers()),
        (&[SlowLink], vec![Struck::link(client, authority, role)]),
        (&[DiskStall, DiskError, DiskSlow], servers()),
    ];
    // What was at work at the end, before what had been so since the grant.
    let at_the_end = case.faults.pick(&silences, Interval::new(end, end));
    let silenced = at_the_end.or_else(|| case.faults.pick(&silences, since));
    // The session was there since the grant, so a reset since then broke its connection.
    let reset: [Group<'_>; 1] = [(&[Reset], vec![Struck::link(client, authority, role)])];
    let broken = (!is_ensemble).then(|| case.faults.pick(&reset, since)).flatten();
    let silenced = broken.or(silenced);
    let fast = clock.zip(leader.as_ref()).and_then(|(_, leader)| {
        let groups: [Group<'_>; 1] =
            [(&[ClockRate, ClockSlew], vec![Struck::node(leader, "authority")])];
        case.faults.pick(&groups, Interval::new(end, end))
    });
    let mechanism = Mechanism::SessionEnded {
        holder: client.clone(),
        expiry: expiry.id,
        leader,
        clock: clock.map(|event| event.id),
    };
    Some((mechanism, distinct([silenced, fast])))
}

/// The server that leads at the end of these events: the last that said so, or the only one.
fn leader<'h>(events: impl Iterator<Item = &'h Event>) -> Option<Name> {
    let (mut leader, mut servers) = (None, BTreeSet::new());
    for event in events {
        match event.what {
            What::Leading { .. } => leader = Some(&event.node),
            What::NodeStarted { .. } if is_of_ensemble(&event.node) => {
                servers.insert(&event.node);
            }
            _ => {}
        }
    }
    leader.or_else(|| servers.pop_first().filter(|_| servers.is_empty())).cloned()
}

/// The change after which the clock of `node` ran fast, if it does at the end of these
/// events.
fn fast_clock<'h>(events: impl Iterator<Item = &'h Event>, node: &Name) -> Option<&'h Event> {
    let changes = events.filter(|event| event.node == *node);
    let changes = changes.filter_map(|event| match event.what {
        What::ClockChanged { rate_ppm, .. } => Some((event, rate_ppm)),
        _ => None,
    });
    changes.last().filter(|(_, rate_ppm)| *rate_ppm >= FAST_PPM).map(|(event, _)| event)
}
