//! Blame: which pair of grants stood in each other's way, and which faults parted
//! promise, belief and effect.
//!
//! The rules, in order, for a pair:
//! 1. Both were promised at once. The earlier one's record had vanished (by a
//!    failover, a crash, a resynchronisation: blame the fault that kept the record
//!    from the replicas and the one that took the master; before its time: the
//!    server's clock; by a foreign hand: the lock, and what made that hand late), or two
//!    servers granted as masters, or one server granted twice, or one of them knew of no
//!    record: the lock, and what had left its client half-way.
//! 2. Both believed at once. One stayed beyond its promise: a pause or the clock of
//!    its client, else the network between.
//! 3. One of them had no grant at all: not the lock's fault.
//! 4. An operation arrived after its holder's belief had ended: the network, or a
//!    pause.
//! 5. Otherwise no pair of grants overlaps: not a lock bug.
//!
//! Only faults that were at work while they could matter, and touched something before
//! the violation was complete, are blamed, and of several that fit the latest: each
//! added fault would be one that shrinking cannot remove.
//!
//! Order of things: [`faults`] gathers what a blame picks from, [`mechanism`] reads off
//! the servers how a promised lock came to be granted again, [`hands`] whose release
//! removed what was not theirs, [`sessions`] why a holder's session ended, and here the rules
//! above are applied.

mod faults;
mod hands;
mod mechanism;
mod sessions;

use serde::Serialize;

pub use faults::{BlamedFault, Faults};
pub use mechanism::{Failover, Mechanism};

use super::case::Case;
use super::detail::Vanished;
use super::grants::{Act, Grant};
use super::interval::{Interval, Moment, overlapping_pairs};
use super::records::Loss;
use super::words::{self, Language};
use crate::history::{EventId, FaultFamily, Name};
use faults::{Group, Struck, distinct};
use mechanism::Told;

use FaultFamily::{
    Cancel, ClockFreeze, ClockRate, ClockSlew, ClockStep, Hang, MachineCrash, Partition, Pause,
    ProcessCrash, Reset, SlowLink,
};

/// All fault families.
pub const FAMILIES: [FaultFamily; 17] = [
    FaultFamily::ProcessCrash,
    FaultFamily::MachineCrash,
    FaultFamily::Pause,
    FaultFamily::Partition,
    FaultFamily::SlowLink,
    FaultFamily::ReplicationStall,
    FaultFamily::ClockRate,
    FaultFamily::ClockStep,
    FaultFamily::Reset,
    FaultFamily::ClockFreeze,
    FaultFamily::ClockSlew,
    FaultFamily::Cancel,
    FaultFamily::Hang,
    FaultFamily::DiskSlow,
    FaultFamily::DiskStall,
    FaultFamily::DiskError,
    FaultFamily::Promote,
];

/// The stable name of a fault family.
pub fn family_id(family: FaultFamily) -> &'static str {
    match family {
        FaultFamily::ProcessCrash => "process-crash",
        FaultFamily::MachineCrash => "machine-crash",
        FaultFamily::Pause => "pause",
        FaultFamily::Partition => "partition",
        FaultFamily::SlowLink => "slow-link",
        FaultFamily::ReplicationStall => "replication-stall",
        FaultFamily::ClockRate => "clock-rate",
        FaultFamily::ClockStep => "clock-step",
        FaultFamily::Reset => "reset",
        FaultFamily::ClockFreeze => "clock-freeze",
        FaultFamily::ClockSlew => "clock-slew",
        FaultFamily::Cancel => "cancel",
        FaultFamily::Hang => "hang",
        FaultFamily::DiskSlow => "disk-slow",
        FaultFamily::DiskStall => "disk-stall",
        FaultFamily::DiskError => "disk-error",
        FaultFamily::Promote => "promote",
    }
}

/// What people call a fault family.
pub fn family_word(family: FaultFamily, language: Language) -> &'static str {
    words::word(family_id(family), language)
}

/// What parted promise, belief and effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parted {
    /// The record vanished while it was promised.
    RecordLost,
    /// Its server's clock ended it before its time.
    ExpiredEarly,
    /// Somebody else removed it.
    RecordDeleted,
    /// Two servers granted as masters.
    TwoMasters,
    /// One server granted it to both.
    NoExclusion,
    /// The lock told a client of a grant that no server had applied.
    NoRecord,
    /// The lock let both in; what its servers did is not in the history.
    LetIn,
    /// A holder stayed beyond its promise.
    Overstayed,
    /// An operation arrived after its holder had left.
    LateEffect,
    /// There was no lock that could have kept them apart.
    Unguarded,
    /// Somebody acted without a grant.
    NotGranted,
    /// No pair of grants overlaps.
    #[default]
    NotALockBug,
    /// A record outlived its holder.
    RecordLeft,
    /// The source of tokens went back.
    TokenSource,
    /// A waiter was not woken.
    NotWoken,
    /// Holders waited for each other.
    CircularWait,
    /// Others were served first.
    PassedOver,
    /// The lock told its client something that was not so.
    Answer,
    /// The servers of one ensemble do not agree on what happened.
    ServersDisagree,
    /// What was committed was not at the server that was promoted.
    CommitLost,
}

impl Parted {
    /// All of them.
    pub const ALL: [Parted; 20] = [
        Parted::RecordLost,
        Parted::ExpiredEarly,
        Parted::RecordDeleted,
        Parted::TwoMasters,
        Parted::NoExclusion,
        Parted::NoRecord,
        Parted::LetIn,
        Parted::Overstayed,
        Parted::LateEffect,
        Parted::Unguarded,
        Parted::NotGranted,
        Parted::NotALockBug,
        Parted::RecordLeft,
        Parted::TokenSource,
        Parted::NotWoken,
        Parted::CircularWait,
        Parted::PassedOver,
        Parted::Answer,
        Parted::ServersDisagree,
        Parted::CommitLost,
    ];

    /// Its stable name.
    pub fn id(self) -> &'static str {
        match self {
            Parted::RecordLost => "record-lost",
            Parted::ExpiredEarly => "expired-early",
            Parted::RecordDeleted => "record-deleted",
            Parted::TwoMasters => "two-masters",
            Parted::NoExclusion => "no-exclusion",
            Parted::NoRecord => "no-record",
            Parted::LetIn => "let-in",
            Parted::Overstayed => "overstayed",
            Parted::LateEffect => "late-effect",
            Parted::Unguarded => "unguarded",
            Parted::NotGranted => "not-granted",
            Parted::NotALockBug => "not-a-lock-bug",
            Parted::RecordLeft => "record-left",
            Parted::TokenSource => "token-source",
            Parted::NotWoken => "not-woken",
            Parted::CircularWait => "circular-wait",
            Parted::PassedOver => "passed-over",
            Parted::Answer => "answer",
            Parted::ServersDisagree => "servers-disagree",
            Parted::CommitLost => "commit-lost",
        }
    }

    /// What people call it.
    pub fn word(self, language: Language) -> &'static str {
        words::word(self.id(), language)
    }
}

/// What is to blame for a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Blame {
    /// What parted promise, belief and effect.
    pub parted: Parted,
    /// The owners of the grants that stood in each other's way, the earlier first;
    /// of an advisory, the one grant. Empty when it is no lock bug.
    pub owners: Vec<String>,
    /// The faults behind it; none where the lock needs none to fail, or where a clock
    /// was untrue from the start.
    pub faults: Vec<BlamedFault>,
    /// How the lock came to be granted again, as its servers show it.
    pub mechanism: Mechanism,
    /// Further events that show it, such as the record's loss.
    pub shown_by: Vec<EventId>,
}

impl Blame {
    /// Whether the lock, or its absence, is at the root of it.
    pub fn is_lock_bug(&self) -> bool {
        !matches!(self.parted, Parted::NotALockBug | Parted::NotGranted | Parted::CommitLost)
    }

    /// All events that show it.
    pub fn events(&self) -> impl Iterator<Item = EventId> + '_ {
        let faults = self.faults.iter().flat_map(|fault| &fault.events);
        self.shown_by.iter().chain(faults).copied()
    }

    fn of(parted: Parted, grants: &[&Grant], faults: Vec<BlamedFault>) -> Blame {
        let owners = grants.iter().map(|grant| grant.owner.to_string()).collect();
        Blame { parted, owners, faults, ..Blame::default() }
    }

    fn and_shown_by(mut self, loss: &Loss) -> Blame {
        if !self.shown_by.contains(&loss.event) {
            self.shown_by.push(loss.event);
        }
        self
    }

    fn told(parted: Parted, grants: &[&Grant], told: Told) -> Blame {
        let (mechanism, faults) = told;
        let shown_by = mechanism.events();
        Blame { mechanism, shown_by, ..Blame::of(parted, grants, faults) }
    }
}

/// Blames the loss of a record.
pub(super) fn loss(case: &Case<'_>, grant: &Grant, loss: &Loss) -> Blame {
    let told = mechanism::between(&case.faults, grant, Some(loss), None);
    Blame::told(parted_by(loss), &[grant], by_hand(case, grant, loss, told)).and_shown_by(loss)
}

/// To a record that a hand removed: what held up that hand.
fn by_hand(case: &Case<'_>, grant: &Grant, loss: &Loss, told: Told) -> Told {
    match told.0 {
        Mechanism::Deleted | Mechanism::Overwritten => {
            (told.0, distinct([hands::held_up(case, grant, loss)]))
        }
        _ => told,
    }
}

fn parted_by(loss: &Loss) -> Parted {
    match loss.how {
        Vanished::Failover | Vanished::Resync | Vanished::Crash => Parted::RecordLost,
        Vanished::ExpiredEarly => Parted::ExpiredEarly,
        Vanished::Deleted | Vanished::Overwritten => Parted::RecordDeleted,
    }
}

/// Blames a belief, or an act, beyond the promise: what was at work in between.
pub(super) fn overstay(case: &Case<'_>, grant: &Grant, role: &'static str, until: Moment) -> Blame {
    let Some(client) = grant.client() else {
        return Blame::of(Parted::Overstayed, &[grant], Vec::new());
    };
    if let Some(told) = sessions::ended(case, grant, role, until) {
        return Blame::told(Parted::Overstayed, &[grant], told);
    }
    let since = Interval::new(grant.start().min(until), until);
    let holder = || vec![Struck::node(client, role)];
    // What stands still at the end of the promise, before what did so earlier.
    let end = grant.promise_end().unwrap_or(since.from).max(since.from).min(until);
    let asleep = case.faults.pick(&[(&[Pause, Hang], holder())], Interval::new(end, end));
    if asleep.is_some() {
        let mechanism = Mechanism::AsleepAtEnd { holder: client.clone() };
        return Blame::told(Parted::Overstayed, &[grant], (mechanism, distinct([asleep])));
    }
    let resources: Vec<&Name> = grant.acts.iter().map(|act| &act.resource).collect();
    let authority = grant.applied.as_ref().map(|applied| &applied.node);
    let others = resources.iter().copied().chain(authority);
    let groups: [Group<'_>; 3] = [
        (&[Pause, Hang, ClockRate, ClockSlew], holder()),
        (&[Partition, SlowLink], others.map(|to| Struck::link(client, to, role)).collect()),
        (&[Pause], resources.iter().map(|node| Struck::node(node, "resource")).collect()),
    ];
    let fault = case.faults.pick(&groups, since);
    Blame::of(Parted::Overstayed, &[grant], fault.into_iter().collect())
}

/// Blames a lock that nobody can take.
pub(super) fn leak(case: &Case<'_>, holder: Option<&Grant>, until: Moment) -> Blame {
    let Some(grant) = holder else {
        return Blame { parted: Parted::RecordLeft, ..Blame::default() };
    };
    let mut nodes: Vec<Struck<'_>> = Vec::new();
    nodes.extend(grant.client().map(|client| Struck::node(client, "first-holder")));
    let authority = grant.applications.last().map(|applied| &applied.node);
    nodes.extend(authority.map(|node| Struck::node(node, "authority")));
    let groups: [Group<'_>; 3] = [
        (&[ProcessCrash, MachineCrash], nodes.clone()),
        (&[Pause, Hang, Partition, Reset, Cancel], nodes.clone()),
        (&[SlowLink, ClockRate, ClockStep, ClockFreeze, ClockSlew], nodes),
    ];
    let fault = case.faults.pick(&groups, Interval::new(grant.start().min(until), until));
    Blame::of(Parted::RecordLeft, &[grant], fault.into_iter().collect())
}

/// Blames tokens that went back between two grants.
pub(super) fn tokens(case: &Case<'_>, earlier: &Grant, later: &Grant) -> Blame {
    let told = mechanism::of_counter(&case.faults, earlier, later);
    Blame::told(Parted::TokenSource, &[earlier, later], told)
}

/// Blames the first pair of grants of one lock whose holders were inside at once up to
/// `until`, for harm that cannot be told unit by unit.
pub(super) fn first_together(case: &Case<'_>, until: Moment) -> Blame {
    let table = case.grants.rows();
    let mut first: Option<(Moment, (usize, usize))> = None;
    for of_key in case.grants.by_key().values() {
        let held: Vec<(usize, Interval)> =
            of_key.iter().filter_map(|row| Some((*row, table[*row].belief?))).collect();
        let intervals: Vec<Interval> = held.iter().map(|(_, belief)| *belief).collect();
        let shared = |n: usize| table[held[n].0].shared;
        let conflict = |a: usize, b: usize| table[held[a].0].conflicts_with(&table[held[b].0]);
        for (a, b) in overlapping_pairs(&intervals, 1, shared, conflict, &case.steps) {
            let pair = (held[a].0.min(held[b].0), held[a].0.max(held[b].0));
            let at = intervals[a].from.max(intervals[b].from);
            if first.is_none_or(|(earliest, _)| at < earliest) {
                first = Some((at, pair));
            }
        }
    }
    match first.filter(|(at, _)| *at <= until) {
        Some((_, rows)) => pair(case, rows, until),
        None => Blame::default(),
    }
}

/// Blames a pair of grants for what they did to each other up to `until`. `rows` are
/// the positions of the grants in the table, the earlier first.
pub(super) fn pair(case: &Case<'_>, rows: (usize, usize), until: Moment) -> Blame {
    let table = case.grants.rows();
    let (first, second) = (&table[rows.0], &table[rows.1]);
    let both = |blame: Blame| Blame {
        owners: vec![first.owner.to_string(), second.owner.to_string()],
        ..blame
    };
    if first.promise_overlap(second).is_some() {
        return both(double_promise(case, rows));
    }
    if first.belief_overlap(second).is_some() {
        if !case.setting.lock_has_records {
            return both(Blame { parted: Parted::Unguarded, ..Blame::default() });
        }
        let stayed = if beyond_promise(first) || !beyond_promise(second) {
            overstay(case, first, "first-holder", until)
        } else {
            overstay(case, second, "second-holder", until)
        };
        return both(stayed);
    }
    if !first.is_told() || !second.is_told() {
        let grants: Vec<&Grant> = [first, second].into_iter().filter(|g| !g.is_told()).collect();
        return Blame::of(Parted::NotGranted, &grants, Vec::new());
    }
    let both_of = [(first, "first-holder"), (second, "second-holder")];
    for ((grant, role), other) in both_of.into_iter().zip([both_of[1], both_of[0]]) {
        let strayed = grant.acts.iter().filter(|act| act.accepted && act.moment <= until);
        match grant.belief {
            Some(belief) => {
                if let Some(late) = strayed.rev().find(|act| act.moment >= belief.to) {
                    return both(late_effect(case, (grant, role), other, late));
                }
            }
            // Of a foreigner only the promise is known.
            None => {
                if case.setting.lock_has_records
                    && strayed.rev().any(|act| !grant.is_promised(act.moment))
                {
                    return both(overstay(case, grant, role, until));
                }
            }
        }
    }
    Blame::default()
}

/// Blames an order that was confirmed at the beginning of `stretch` and was not in the books at
/// its end: on a promotion in between, if there was one.
pub(super) fn lost_commit(case: &Case<'_>, stretch: Interval) -> Blame {
    let Some((promotion, faults)) = case.faults.promoted_behind(stretch) else {
        return Blame::default();
    };
    Blame { parted: Parted::CommitLost, faults, shown_by: vec![promotion], ..Blame::default() }
}

fn beyond_promise(grant: &Grant) -> bool {
    match (grant.belief, grant.promise_end()) {
        (Some(belief), Some(end)) => belief.to > end,
        (belief, _) => belief.is_some(),
    }
}

fn double_promise(case: &Case<'_>, rows: (usize, usize)) -> Blame {
    let table = case.grants.rows();
    let (first, second) = (&table[rows.0], &table[rows.1]);
    let begins = second.start();
    let lost = case.losses.get(&rows.0).filter(|lost| lost.moment <= begins);
    let told = mechanism::between(&case.faults, first, lost, Some(second));
    let pair = [first, second];
    if matches!(told.0, Mechanism::SplitBrain { .. }) {
        return Blame::told(Parted::TwoMasters, &pair, told);
    }
    if let Some(lost) = lost {
        let told = by_hand(case, first, lost, told);
        return Blame::told(parted_by(lost), &pair, told).and_shown_by(lost);
    }
    let parted = match (&first.applied, &second.applied) {
        (Some(one), Some(other)) if case.setting.quorum == 1 && one.node != other.node => {
            Parted::TwoMasters
        }
        (Some(_), Some(_)) => Parted::NoExclusion,
        _ if !case.grants.has_servers() => Parted::LetIn,
        _ => Parted::NoRecord,
    };
    let unknown = [(first, "first-holder"), (second, "second-holder")];
    let unknown = unknown.into_iter().filter(|(grant, _)| grant.applied.is_none());
    let left = match parted {
        Parted::NoRecord => unknown.map(|(grant, role)| hands::left_half_way(case, grant, role)),
        _ => return Blame::of(parted, &pair, Vec::new()),
    };
    Blame::of(parted, &pair, distinct(left))
}

/// Blames an operation that arrived at `act`, after its holder's belief had ended: what
/// held it up, and what kept the other inside until then.
fn late_effect(
    case: &Case<'_>,
    (grant, role): (&Grant, &'static str),
    (other, other_role): (&Grant, &'static str),
    act: &Act,
) -> Blame {
    let since = Interval::new(grant.start().min(act.moment), act.moment);
    let ended = grant.belief.map_or(since.to, |belief| belief.to).min(since.to);
    let resource = &act.resource;
    let held_up = grant.client().and_then(|client| {
        let link = vec![Struck::link(client, resource, role)];
        let groups: [Group<'_>; 2] =
            [(&[Partition, SlowLink], link), (&[Pause], vec![Struck::node(resource, "resource")])];
        // What a dead program had handed to its kernel is on its way all the same.
        let died: [Group<'_>; 1] = [(&[ProcessCrash], vec![Struck::node(client, role)])];
        let died = || case.faults.pick(&died, Interval::new(ended, ended));
        case.faults.pick(&groups, since).or_else(died)
    });
    let kept = other.client().filter(|_| other.start() <= act.moment).and_then(|client| {
        let paused: [Group<'_>; 1] = [(&[Pause, Hang], vec![Struck::node(client, other_role)])];
        case.faults.pick(&paused, Interval::new(act.moment, act.moment))
    });
    Blame::of(Parted::LateEffect, &[grant], distinct([held_up, kept]))
}
