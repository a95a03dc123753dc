//! Blame: which pair of grants stood in each other's way, and which faults parted
//! promise, belief and effect.
//!
//! The rules, in order, for a pair:
//! 1. Both were promised at once. The earlier one's record had vanished (by a
//!    failover, a crash, a resynchronisation: blame the fault that kept the record
//!    from the replicas and the one that took the master; before its time: the
//!    server's clock; by a foreign hand: the lock), or two servers granted as masters,
//!    or one server granted twice.
//! 2. Both believed at once. One stayed beyond its promise: a pause or the clock of
//!    its client, else the network between.
//! 3. One of them had no grant at all: not the lock's fault.
//! 4. An operation arrived after its holder's belief had ended: the network, or a
//!    pause.
//! 5. Otherwise no pair of grants overlaps: not a lock bug.
//!
//! Only faults that touched something, before the violation was complete, are
//! blamed, and of several that fit the latest: each added fault would be one that
//! shrinking cannot remove.

use std::collections::BTreeMap;

use serde::Serialize;

use super::case::Case;
use super::detail::Vanished;
use super::grants::Grant;
use super::interval::{Interval, Moment, overlapping_pairs};
use super::records::Loss;
use super::words::{self, Language};
use crate::history::{EventId, FaultFamily, History, Name, What};

/// All fault families.
pub const FAMILIES: [FaultFamily; 16] = [
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
}

impl Parted {
    /// All of them.
    pub const ALL: [Parted; 18] = [
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
        }
    }

    /// What people call it.
    pub fn word(self, language: Language) -> &'static str {
        words::word(self.id(), language)
    }
}

/// A fault that is blamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BlamedFault {
    /// Its position in the plan, from 0.
    pub fault: usize,
    /// What sort of fault it is.
    pub family: FaultFamily,
    /// Which part the struck node plays: `authority` (the server that had the
    /// record), `first-holder`, `second-holder`, `resource`.
    pub role: &'static str,
    /// The events of its beginning and of its first effect.
    pub events: Vec<EventId>,
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
    /// Further events that show it, such as the record's loss.
    pub shown_by: Vec<EventId>,
}

impl Blame {
    /// Whether the lock, or its absence, is at the root of it.
    pub fn is_lock_bug(&self) -> bool {
        !matches!(self.parted, Parted::NotALockBug | Parted::NotGranted)
    }

    /// All events that show it.
    pub fn events(&self) -> impl Iterator<Item = EventId> + '_ {
        let faults = self.faults.iter().flat_map(|fault| &fault.events);
        self.shown_by.iter().chain(faults).copied()
    }

    fn of(parted: Parted, grants: &[&Grant], faults: Vec<BlamedFault>) -> Blame {
        let owners = grants.iter().map(|grant| grant.owner.clone()).collect();
        Blame { parted, owners, faults, shown_by: Vec::new() }
    }
}

/// A fault as the history tells of it.
#[derive(Clone, Debug)]
struct Fact {
    fault: usize,
    family: FaultFamily,
    targets: Vec<Name>,
    began: (Moment, EventId),
    touched: Option<(Moment, EventId)>,
}

/// All faults of a history, in order of their beginning.
#[derive(Clone, Debug, Default)]
pub struct Faults(Vec<Fact>);

use FaultFamily::{
    Cancel, ClockFreeze, ClockRate, ClockSlew, ClockStep, Hang, MachineCrash, Partition, Pause,
    ProcessCrash, ReplicationStall, Reset, SlowLink,
};

/// What makes a clock untrue.
const CLOCKS: &[FaultFamily] = &[ClockStep, ClockRate, ClockFreeze, ClockSlew];

/// What keeps a client from seeing on its own machine that its time is over.
const OWN_DELAY: &[FaultFamily] = &[Pause, Hang, ClockRate, ClockStep, ClockSlew];

/// What makes a release late.
const SLOW_OR_UNTRUE: &[FaultFamily] = &[SlowLink, ClockRate, ClockStep, ClockFreeze, ClockSlew];

/// What takes a master, the likeliest first.
const FAILOVER: [&[FaultFamily]; 3] = [&[MachineCrash, ProcessCrash], &[Pause], &[Partition]];

impl Faults {
    /// Gathers them.
    pub fn of(history: &History) -> Faults {
        let mut facts: Vec<Fact> = Vec::new();
        let mut newest: BTreeMap<usize, usize> = BTreeMap::new();
        for event in history.iter() {
            let mark = (Moment::of(event), event.id);
            match &event.what {
                What::FaultBegan { fault, family, targets, .. } => {
                    let mut targets = targets.clone();
                    targets.push(event.node.clone());
                    let (fault, family) = (*fault, *family);
                    newest.insert(fault, facts.len());
                    facts.push(Fact { fault, family, targets, began: mark, touched: None });
                }
                What::FaultTouched { fault, .. } => {
                    if let Some(began) = newest.get(fault) {
                        facts[*began].touched.get_or_insert(mark);
                    }
                }
                _ => {}
            }
        }
        Faults(facts)
    }

    /// Of the first group of families that has any: the latest fault that strikes one
    /// of `nodes` and touched something before `until`.
    fn pick(
        &self,
        groups: &[&[FaultFamily]],
        nodes: &[(&Name, &'static str)],
        until: Moment,
    ) -> Option<BlamedFault> {
        groups.iter().find_map(|group| {
            self.0.iter().rev().find_map(|fact| {
                let touched = fact.touched.filter(|(moment, _)| *moment <= until)?;
                if !group.contains(&fact.family) {
                    return None;
                }
                let struck = |(node, _): &&(&Name, &'static str)| fact.targets.contains(node);
                let (_, role) = nodes.iter().find(struck)?;
                let mut events = vec![fact.began.1, touched.1];
                events.dedup();
                Some(BlamedFault { fault: fact.fault, family: fact.family, role, events })
            })
        })
    }

    /// What kept a record from the replicas, and what took its master.
    fn behind_failover(&self, nodes: &[(&Name, &'static str)], until: Moment) -> Vec<BlamedFault> {
        let copy = self.pick(&[&[ReplicationStall], &[Partition], &[SlowLink]], nodes, until);
        let take = self.pick(&FAILOVER, nodes, until);
        distinct([copy, take])
    }
}

fn distinct(faults: [Option<BlamedFault>; 2]) -> Vec<BlamedFault> {
    let mut faults: Vec<BlamedFault> = faults.into_iter().flatten().collect();
    faults.sort_by_key(|fault| fault.fault);
    faults.dedup_by_key(|fault| fault.fault);
    faults
}

/// Blames the loss of a record.
pub(super) fn loss(case: &Case<'_>, grant: &Grant, loss: &Loss) -> Blame {
    let authority = [(&loss.authority, "authority")];
    let faults = &case.faults;
    let (parted, faults) = match loss.how {
        Vanished::Failover | Vanished::Resync | Vanished::Crash => {
            (Parted::RecordLost, faults.behind_failover(&authority, loss.moment))
        }
        Vanished::ExpiredEarly => {
            let clock = faults.pick(&[CLOCKS], &authority, loss.moment);
            // Where the record moved to a server with another clock: what moved it.
            let moved = grant.applied.as_ref().filter(|applied| applied.node != loss.authority);
            let moved = moved.and_then(|applied| {
                faults.pick(&FAILOVER, &[(&applied.node, "authority")], loss.moment)
            });
            (Parted::ExpiredEarly, distinct([clock, moved]))
        }
        Vanished::Deleted | Vanished::Overwritten => (Parted::RecordDeleted, Vec::new()),
    };
    let shown_by = vec![loss.event];
    Blame { shown_by, ..Blame::of(parted, &[grant], faults) }
}

/// Blames a belief, or an act, beyond the promise.
pub(super) fn overstay(case: &Case<'_>, grant: &Grant, role: &'static str, until: Moment) -> Blame {
    let mut nodes: Vec<(&Name, &'static str)> = Vec::new();
    nodes.extend(grant.client().map(|client| (client, role)));
    let own = case.faults.pick(&[OWN_DELAY], &nodes, until);
    let fault = own.or_else(|| {
        nodes.extend(grant.applied.as_ref().map(|applied| (&applied.node, "authority")));
        let network: [&[FaultFamily]; 2] =
            [&[Partition, SlowLink], &[Pause, ProcessCrash, MachineCrash]];
        case.faults.pick(&network, &nodes, until)
    });
    Blame::of(Parted::Overstayed, &[grant], fault.into_iter().collect())
}

/// Blames a lock that nobody can take.
pub(super) fn leak(case: &Case<'_>, holder: Option<&Grant>, until: Moment) -> Blame {
    let Some(grant) = holder else {
        return Blame { parted: Parted::RecordLeft, ..Blame::default() };
    };
    let mut nodes: Vec<(&Name, &'static str)> = Vec::new();
    nodes.extend(grant.client().map(|client| (client, "first-holder")));
    nodes.extend(grant.applications.last().map(|applied| (&applied.node, "authority")));
    let groups: [&[FaultFamily]; 3] =
        [&[ProcessCrash, MachineCrash], &[Pause, Hang, Partition, Reset, Cancel], SLOW_OR_UNTRUE];
    let fault = case.faults.pick(&groups, &nodes, until);
    Blame::of(Parted::RecordLeft, &[grant], fault.into_iter().collect())
}

/// Blames tokens that went back between two grants.
pub(super) fn tokens(case: &Case<'_>, earlier: &Grant, later: &Grant, until: Moment) -> Blame {
    let nodes: Vec<(&Name, &'static str)> =
        earlier.applied.iter().map(|applied| (&applied.node, "authority")).collect();
    let faults = case.faults.behind_failover(&nodes, until);
    Blame::of(Parted::TokenSource, &[earlier, later], faults)
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
    let both =
        |blame: Blame| Blame { owners: vec![first.owner.clone(), second.owner.clone()], ..blame };
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
    for (grant, role) in [(first, "first-holder"), (second, "second-holder")] {
        let strayed = grant.acts.iter().filter(|act| act.accepted && act.moment <= until);
        match grant.belief {
            Some(belief) => {
                if let Some(late) = strayed.rev().find(|act| act.moment >= belief.to) {
                    return both(late_effect(case, grant, role, &late.resource, until));
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
    if let Some(lost) = case.losses.get(&rows.0).filter(|lost| lost.moment <= begins) {
        return loss(case, first, lost);
    }
    let pair = [first, second];
    match (&first.applied, &second.applied) {
        (Some(one), Some(other)) if one.node != other.node => {
            let nodes = [(&one.node, "authority"), (&other.node, "authority")];
            let faults = case.faults.behind_failover(&nodes, begins);
            Blame::of(Parted::TwoMasters, &pair, faults)
        }
        (Some(_), Some(_)) => Blame::of(Parted::NoExclusion, &pair, Vec::new()),
        _ if !case.grants.has_servers() => Blame::of(Parted::LetIn, &pair, Vec::new()),
        _ => Blame::of(Parted::NoRecord, &pair, Vec::new()),
    }
}

fn late_effect(
    case: &Case<'_>,
    grant: &Grant,
    role: &'static str,
    resource: &Name,
    until: Moment,
) -> Blame {
    let mut nodes: Vec<(&Name, &'static str)> = Vec::new();
    nodes.extend(grant.client().map(|client| (client, role)));
    nodes.push((resource, "resource"));
    let fault = case.faults.pick(&[&[Partition, SlowLink, Pause, Hang]], &nodes, until);
    Blame::of(Parted::LateEffect, &[grant], fault.into_iter().collect())
}
