//! What a page draws beside events: the nodes and what each of them is at what time, the
//! faults, the offsets, the clocks, and of every grant its promise, its belief and its
//! effects.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::chinese::{Both, bounded};
use crate::check::blame::family_id;
use crate::check::grants::{Grant, Grants};
use crate::check::interval::{Interval, Moment};
use crate::check::{Blame, Language, blame};
use crate::history::{History, What};

/// The longest list of points that a track has.
const MOST_POINTS: usize = 1_000;
/// The most nodes that have a lane.
pub const MOST_NODES: usize = 200;
/// The most faults that are drawn.
const MOST_FAULTS: usize = 200;
/// The most grants that are drawn.
const MOST_GRANTS: usize = 3_000;
/// The most effects of one grant that are drawn.
const MOST_ACTS: usize = 32;

/// A time that every JSON reader has: no integer of a script is larger.
pub fn time(us: u64) -> u64 {
    us.min((1 << 53) - 1)
}

/// A node's lane.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lane {
    /// Its name, cut.
    pub name: String,
    /// What sort of node it is: `client`, `server`, `sentinel`, `resource`, `other`.
    pub role: &'static str,
    /// Whom it follows: from when, µs, and whether it is a master.
    pub masters: Vec<(u64, bool)>,
    /// From when to when it was down, µs; without an end, to the end.
    pub downs: Vec<(u64, Option<u64>)>,
    /// From when, µs, and how far its replication is, bytes.
    pub offsets: Vec<(u64, u64)>,
    /// From when, µs, how far its wall clock is ahead then, µs, and its rate, ppm.
    pub clocks: Vec<(u64, i64, i64)>,
}

/// The lanes, in the order in which they are drawn, and which a name has.
#[derive(Clone, Debug, Default)]
pub struct Lanes<'a> {
    /// The lanes.
    pub lanes: Vec<Lane>,
    positions: BTreeMap<&'a str, usize>,
}

impl<'a> Lanes<'a> {
    /// The nodes of `history`: clients, servers, sentinels, the resource, others.
    pub fn of(history: &'a History, grants: &'a Grants) -> Lanes<'a> {
        let mut roles: BTreeMap<&str, u8> = BTreeMap::new();
        for event in history.iter() {
            let role = role_of(&event.what);
            let known = roles.entry(&event.node).or_insert(4);
            *known = (*known).min(role);
        }
        for client in grants.rows().iter().filter_map(Grant::client) {
            roles.entry(client).or_insert(0);
        }
        let mut names: Vec<(u8, &str)> =
            roles.into_iter().map(|(name, role)| (role, name)).collect();
        names.sort_by(|a, b| (a.0, natural(a.1)).cmp(&(b.0, natural(b.1))));
        names.truncate(MOST_NODES);
        let mut lanes = Lanes::default();
        for (role, name) in names {
            lanes.positions.insert(name, lanes.lanes.len());
            lanes.lanes.push(Lane {
                name: bounded(name),
                role: ["client", "server", "sentinel", "resource", "other"][usize::from(role)],
                ..Lane::default()
            });
        }
        lanes.follow(history);
        lanes
    }

    /// The lane of this name, unless there are too many.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    fn follow(&mut self, history: &History) {
        for event in history.iter() {
            let Some(lane) = self.position(&event.node).and_then(|at| self.lanes.get_mut(at))
            else {
                continue;
            };
            let at_us = time(event.at_us);
            match &event.what {
                What::Promoted { offset, .. } => {
                    lane.masters.push((at_us, true));
                    lane.offsets.push((at_us, *offset));
                }
                What::Demoted { .. } => lane.masters.push((at_us, false)),
                What::Resynchronised { offset, .. } => {
                    lane.masters.push((at_us, false));
                    lane.offsets.push((at_us, *offset));
                }
                What::ReplicationPosition { offset } => lane.offsets.push((at_us, *offset)),
                // A program that has ended by itself may be struck by a crash after that.
                What::NodeCrashed { .. } | What::ProgramEnded { .. }
                    if !matches!(lane.downs.last(), Some((_, None))) =>
                {
                    lane.downs.push((at_us, None));
                }
                What::NodeStarted { incarnation } => {
                    if let Some((_, end @ None)) = lane.downs.last_mut() {
                        *end = Some(at_us);
                        // Whoever comes back does not know yet whom it follows.
                        lane.masters.push((at_us, *incarnation > 1));
                    }
                }
                What::ClockChanged { offset_us, rate_ppm } => {
                    lane.clocks.push((at_us, *offset_us, *rate_ppm));
                }
                _ => {}
            }
        }
        for lane in &mut self.lanes {
            lane.masters = thinned(std::mem::take(&mut lane.masters));
            lane.downs = thinned(std::mem::take(&mut lane.downs));
            lane.offsets = thinned(std::mem::take(&mut lane.offsets));
            lane.clocks = thinned(std::mem::take(&mut lane.clocks));
        }
        self.first_masters(history);
    }

    /// Whoever granted before anybody told it to follow was a master from the start.
    fn first_masters(&mut self, history: &History) {
        let mut grants: BTreeSet<usize> = BTreeSet::new();
        for event in history.iter() {
            if let What::RecordSet { .. } = event.what {
                grants.extend(self.position(&event.node));
            }
        }
        for (position, lane) in self.lanes.iter_mut().enumerate() {
            let follows_first = lane.masters.first().is_some_and(|(_, master)| !master);
            if lane.role == "server" && grants.contains(&position) && !follows_first {
                lane.masters.insert(0, (0, true));
            }
        }
    }
}

/// 0 for what only clients do, 1 servers, 2 sentinels, 3 resources, 4 for what anybody does.
fn role_of(what: &What) -> u8 {
    match what {
        What::AcquireInvoked { .. }
        | What::AcquireReturned { .. }
        | What::ReleaseInvoked { .. }
        | What::ReleaseReturned { .. }
        | What::RenewInvoked { .. }
        | What::RenewReturned { .. }
        | What::BeliefEnded { .. }
        | What::OrderReturned { .. } => 0,
        What::RecordSet { .. }
        | What::RecordRefused { .. }
        | What::RecordExtended { .. }
        | What::RecordReleased { .. }
        | What::RecordExpired { .. }
        | What::RecordReplicated { .. }
        | What::RecordLoaded { .. }
        | What::RecordUnreplicated { .. }
        | What::RecordLost { .. }
        | What::SessionExpired { .. }
        | What::WaitBegan { .. }
        | What::WaitEnded { .. }
        | What::Promoted { .. }
        | What::Demoted { .. }
        | What::Resynchronised { .. }
        | What::ReplicationPosition { .. } => 1,
        What::MasterDown { .. } | What::LeaderElected { .. } | What::MasterSwitched { .. } => 2,
        What::Effect { .. } | What::Ledger { .. } | What::StockCounted { .. } => 3,
        _ => 4,
    }
}

/// A name so that `app-10` comes after `app-9`.
fn natural(name: &str) -> (&str, u64, &str) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count().min(18);
    let (stem, number) = name.split_at(name.len() - digits);
    (stem, number.parse().unwrap_or(0), name)
}

/// Evenly fewer, with the first and the last.
fn thinned<T: Clone>(points: Vec<T>) -> Vec<T> {
    if points.len() <= MOST_POINTS {
        return points;
    }
    let last = points.len() - 1;
    (0..MOST_POINTS).map(|n| points[n * last / (MOST_POINTS - 1)].clone()).collect()
}

/// A fault.
#[derive(Clone, Debug, Serialize)]
pub struct FaultBand {
    /// Its position in the plan, from 0.
    pub fault: usize,
    /// Its family's stable name.
    pub family: &'static str,
    /// What people call the family.
    pub word: Both,
    /// The lanes that it strikes.
    pub targets: Vec<usize>,
    /// What it is.
    pub text: Both,
    /// From when, µs.
    pub from: u64,
    /// To when, µs; to the end without.
    pub to: Option<u64>,
    /// When it first had an effect, µs.
    pub touched: Option<u64>,
    /// What that was.
    pub how: Option<Both>,
    /// Whether it is blamed.
    pub blamed: bool,
    /// The event with which it began.
    pub event: u64,
}

/// The faults of `history`.
pub fn faults(history: &History, lanes: &Lanes<'_>, blame: Option<&Blame>) -> Vec<FaultBand> {
    let blamed: BTreeSet<usize> =
        blame.iter().flat_map(|blame| &blame.faults).map(|fault| fault.fault).collect();
    let mut bands: Vec<FaultBand> = Vec::new();
    for event in history.iter() {
        match &event.what {
            What::FaultBegan { fault, family, targets, description }
                if bands.len() < MOST_FAULTS =>
            {
                let known = targets.iter().filter_map(|target| lanes.position(target));
                bands.push(FaultBand {
                    fault: *fault,
                    family: family_id(*family),
                    word: Both {
                        en: blame::family_word(*family, Language::English).to_owned(),
                        zh: Some(blame::family_word(*family, Language::Chinese).to_owned()),
                    },
                    targets: known.collect(),
                    text: Both::of(description),
                    from: time(event.at_us),
                    to: None,
                    touched: None,
                    how: None,
                    blamed: blamed.contains(fault),
                    event: event.id.0,
                });
            }
            What::FaultEnded { fault } => {
                if let Some(band) = open(&mut bands, *fault) {
                    band.to = Some(time(event.at_us));
                }
            }
            What::FaultTouched { fault, how } => {
                if let Some(band) = open(&mut bands, *fault)
                    && band.touched.is_none()
                {
                    band.touched = Some(time(event.at_us));
                    band.how = Some(Both::of(how));
                }
            }
            _ => {}
        }
    }
    bands
}

fn open(bands: &mut [FaultBand], fault: usize) -> Option<&mut FaultBand> {
    bands.iter_mut().rev().find(|band| band.fault == fault)
}

/// A grant's three intervals, drawn apart.
#[derive(Clone, Debug, Serialize)]
pub struct Bars {
    /// The owner, cut.
    pub owner: String,
    /// The lock, cut.
    pub key: String,
    /// The lane of its client.
    pub lane: usize,
    /// Its token, as text.
    pub token: Option<String>,
    /// What the servers promised, µs.
    pub promise: Vec<(u64, Option<u64>)>,
    /// What the client believed, µs.
    pub belief: Option<(u64, Option<u64>)>,
    /// What was done in its name: when, µs, and whether the resource accepted it.
    pub effects: Vec<(u64, bool)>,
    /// Whether the finding is about it.
    pub party: bool,
}

/// The grants that are drawn: the parties', then those nearest to the violation.
pub fn bars(
    history: &History,
    grants: &Grants,
    lanes: &Lanes<'_>,
    owners: &[&str],
    window: (u64, u64),
) -> (Vec<Bars>, usize) {
    let told = |grant: &&Grant| {
        !grant.promise.is_empty() || grant.belief.is_some() || !grant.acts.is_empty()
    };
    let mut rows: Vec<&Grant> = grants.rows().iter().filter(told).collect();
    let is_party = |grant: &Grant| owners.contains(&&*grant.owner);
    let left_out = rows.len().saturating_sub(MOST_GRANTS);
    if left_out > 0 {
        rows.sort_by_cached_key(|grant| {
            let at_us = grant.start().at_us;
            let before = window.0.saturating_sub(at_us);
            (!is_party(grant), before.max(at_us.saturating_sub(window.1)))
        });
        rows.truncate(MOST_GRANTS);
        rows.sort_by_cached_key(|grant| grant.start());
    }
    let ends = |interval: Interval| {
        let is_open = interval.to == Moment::NEVER || interval.to.at_us > history.ended_us;
        (time(interval.from.at_us), (!is_open).then_some(time(interval.to.at_us)))
    };
    let bars = rows.into_iter().filter_map(|grant| {
        let lane = grant.client().map_or(&*grant.owner, |client| client);
        Some(Bars {
            owner: bounded(&grant.owner),
            key: bounded(&grant.key),
            lane: lanes.position(lane)?,
            token: grant.token().map(|token| token.to_string()),
            promise: grant.promise.iter().take(MOST_ACTS).map(|piece| ends(*piece)).collect(),
            belief: grant.belief.map(ends),
            effects: (grant.acts.iter().take(MOST_ACTS))
                .map(|act| (time(act.moment.at_us), act.accepted))
                .collect(),
            party: is_party(grant),
        })
    });
    (bars.collect(), left_out)
}
