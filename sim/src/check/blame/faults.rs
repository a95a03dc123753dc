//! The faults of a history, and what the cluster did under them: what a blame picks
//! from.
//!
//! A fault can only have played a part while it was at work: every choice is made
//! within a stretch of the run, such as from the grant to the loss of its record.

use serde::Serialize;

use super::FaultFamily::{
    MachineCrash, Partition, Pause, ProcessCrash, Promote, ReplicationStall, SlowLink,
};
use crate::check::interval::{Interval, Moment};
use crate::history::event::{ENSEMBLE, is_of_ensemble};
use crate::history::{EventId, FaultFamily, History, Name, What};

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

/// A fault as the history tells of it, from its beginning to its end.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    /// Its position in the plan, from 0.
    pub fault: usize,
    /// What sort of fault it is.
    pub family: FaultFamily,
    targets: Vec<Name>,
    /// Where it began.
    pub began: (Moment, EventId),
    /// Its first effect.
    pub touched: Option<(Moment, EventId)>,
    ended: Option<Moment>,
}

impl Fact {
    /// Whether it was at work in `stretch`, and had touched something by its end.
    fn was_at_work(&self, stretch: Interval) -> bool {
        self.began.0 <= stretch.to
            && self.touched.is_some_and(|(touched, _)| touched <= stretch.to)
            && self.ended.is_none_or(|ended| ended >= stretch.from)
    }

    /// Whether it strikes `node`.
    pub fn strikes(&self, node: &Name) -> bool {
        self.targets.iter().any(|target| is(node, target))
    }

    fn blamed(&self, role: &'static str) -> BlamedFault {
        let mut events = vec![self.began.1];
        events.extend(self.touched.map(|(_, event)| event));
        events.dedup();
        BlamedFault { fault: self.fault, family: self.family, role, events }
    }
}

/// What a fault must have struck to be blamed, and the role that it is blamed in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Struck<'n> {
    /// All of them: one node, or both ends of a link.
    pub nodes: [&'n Name; 2],
    /// The role of the first.
    pub role: &'static str,
}

/// Whether what strikes `target` strikes `node`: an ensemble is struck with any of its
/// servers.
fn is(node: &Name, target: &Name) -> bool {
    node == target || (**node == *ENSEMBLE && is_of_ensemble(target))
}

impl<'n> Struck<'n> {
    pub fn node(node: &'n Name, role: &'static str) -> Struck<'n> {
        Struck { nodes: [node, node], role }
    }

    /// `from` plays the role.
    pub fn link(from: &'n Name, to: &'n Name, role: &'static str) -> Struck<'n> {
        Struck { nodes: [from, to], role }
    }
}

/// Families, and what one of them must have struck.
pub(super) type Group<'n> = (&'n [FaultFamily], Vec<Struck<'n>>);

/// Something that the cluster did.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub moment: Moment,
    pub event: EventId,
    /// Who did it.
    pub node: Name,
    /// To whom, where it is about another server.
    pub other: Option<Name>,
}

/// All faults of a history in order of their beginning, and what its servers went
/// through.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    facts: Vec<Fact>,
    promotions: Vec<Mark>,
    /// A sentinel gave up on a master.
    downs: Vec<Mark>,
    /// A sentinel was elected to replace one.
    leaders: Vec<Mark>,
    switches: Vec<Mark>,
    /// Starts of nodes, the first of each left out.
    restarts: Vec<Mark>,
}

impl Faults {
    /// Gathers them.
    pub fn of(history: &History) -> Faults {
        let mut all = Faults::default();
        for event in history.iter() {
            let at = (Moment::of(event), event.id);
            let mark = |other: Option<Name>| {
                let node = event.node.clone();
                Mark { moment: at.0, event: event.id, node, other }
            };
            let latest =
                |facts: &[Fact], fault: usize| facts.iter().rposition(|fact| fact.fault == fault);
            match &event.what {
                What::FaultBegan { fault, family, targets, .. } => {
                    let mut targets = targets.clone();
                    targets.push(event.node.clone());
                    let (fault, family) = (*fault, *family);
                    let (touched, ended) = (None, None);
                    all.facts.push(Fact { fault, family, targets, began: at, touched, ended });
                }
                What::FaultTouched { fault, .. } => {
                    if let Some(n) = latest(&all.facts, *fault) {
                        all.facts[n].touched.get_or_insert(at);
                    }
                }
                What::FaultEnded { fault } => {
                    if let Some(n) = latest(&all.facts, *fault) {
                        all.facts[n].ended.get_or_insert(at.0);
                    }
                }
                What::Promoted { .. } => all.promotions.push(mark(None)),
                What::MasterDown { master } => all.downs.push(mark(Some(host(master)))),
                What::LeaderElected { .. } => all.leaders.push(mark(None)),
                What::MasterSwitched { to, .. } => all.switches.push(mark(Some(host(to)))),
                What::NodeStarted { incarnation: 2.. } => all.restarts.push(mark(None)),
                _ => {}
            }
        }
        all
    }

    /// Those that strike `node` and were at work in `stretch`, in order of their beginning.
    pub(crate) fn striking<'f>(
        &'f self,
        node: &'f Name,
        stretch: Interval,
    ) -> impl Iterator<Item = &'f Fact> {
        let is_it = move |fact: &&Fact| fact.strikes(node) && fact.was_at_work(stretch);
        self.facts.iter().filter(is_it)
    }

    /// Whether any was at work in `stretch`, and had touched something by its end.
    pub(crate) fn were_at_work(&self, stretch: Interval) -> bool {
        self.facts.iter().any(|fact| fact.was_at_work(stretch))
    }

    /// Of the first group that has any: the latest fault that strikes what it must and
    /// was at work in `stretch`.
    pub(super) fn pick(&self, groups: &[Group<'_>], stretch: Interval) -> Option<BlamedFault> {
        groups.iter().find_map(|(families, strikes)| {
            self.facts.iter().rev().find_map(|fact| {
                if !families.contains(&fact.family) || !fact.was_at_work(stretch) {
                    return None;
                }
                let struck =
                    |struck: &&Struck<'_>| struck.nodes.iter().all(|node| fact.strikes(node));
                strikes.iter().find(struck).map(|struck| fact.blamed(struck.role))
            })
        })
    }

    /// What kept a write of `stretch` on `from` from `to`.
    pub(super) fn kept_from(
        &self,
        from: &Name,
        to: &Name,
        stretch: Interval,
    ) -> Option<BlamedFault> {
        let link = || vec![Struck::link(from, to, "authority")];
        let groups: [Group<'_>; 3] = [
            (&[ReplicationStall], vec![Struck::node(from, "authority")]),
            (&[Partition], link()),
            (&[SlowLink], link()),
        ];
        self.pick(&groups, stretch)
    }

    /// What made the sentinel give up on `master` and promote another: of the faults
    /// that strike it after `since`, the one that was at work last when it gave up; of
    /// several, the likeliest, then the latest.
    pub(super) fn took(
        &self,
        master: &Name,
        since: Moment,
        promotion: &Mark,
    ) -> Option<BlamedFault> {
        let down = self.down_of(master, promotion);
        let at = down.map_or(promotion.moment, |down| down.moment);
        let sentinel = down.map(|down| &down.node);
        let rank = |family: FaultFamily| match family {
            MachineCrash | ProcessCrash => Some(2),
            Pause => Some(1),
            Partition => Some(0),
            _ => None,
        };
        let strikes = |fact: &&Fact| {
            let reaches = |node: &Name| fact.targets.contains(node);
            reaches(master) && (fact.family != Partition || sentinel.is_none_or(reaches))
        };
        let stretch = Interval::new(since.min(at), at);
        let at_work = self.facts.iter().filter(|fact| fact.was_at_work(stretch));
        let ranked = at_work.filter(strikes).filter_map(|fact| {
            let until = fact.ended.unwrap_or(at).min(at);
            Some(((until, rank(fact.family)?, fact.began.0), fact))
        });
        ranked.max_by_key(|(key, _)| *key).map(|(_, fact)| fact.blamed("authority"))
    }

    /// Where whoever promoted another gave up on `master`: of several sentinels the one
    /// that was elected.
    pub(super) fn down_of(&self, master: &Name, promotion: &Mark) -> Option<&Mark> {
        let before = |mark: &&Mark| mark.moment <= promotion.moment;
        let leader = self.leaders.iter().rfind(before).map(|leader| &leader.node);
        let of_master = |down: &&Mark| down.other.as_ref() == Some(master) && before(down);
        let downs = || self.downs.iter().filter(of_master);
        let by_leader = downs().rfind(|down| leader.is_none_or(|leader| down.node == *leader));
        by_leader.or_else(|| downs().next_back())
    }

    /// Where clients were told of `promotion`.
    pub(super) fn switch_to(&self, promotion: &Mark) -> Option<&Mark> {
        let is_it = |switch: &&Mark| switch.other.as_ref() == Some(&promotion.node);
        self.switches.iter().filter(is_it).find(|switch| switch.moment >= promotion.moment)
    }

    /// The promotion that had replaced `node` as master by `moment`: the first of
    /// another since its own.
    pub(super) fn replaced_before(&self, node: &Name, moment: Moment) -> Option<&Mark> {
        let before = self.promotions.partition_point(|promotion| promotion.moment < moment);
        let before = &self.promotions[..before];
        let own = before.iter().rposition(|promotion| promotion.node == *node);
        before.get(own.map_or(0, |own| own + 1))
    }

    /// The last promotion within `stretch` that is one of `node`, if one is named.
    pub(super) fn promotion_in(&self, stretch: Interval, node: Option<&Name>) -> Option<&Mark> {
        let is_it = |mark: &&Mark| node.is_none_or(|node| mark.node == *node);
        self.promotions
            .iter()
            .filter(is_it)
            .rfind(|mark| stretch.from <= mark.moment && mark.moment <= stretch.to)
    }

    /// The last promotion within `stretch`, and what had a part in it: what kept the promoted
    /// server from what was written at the beginning, and what promoted it.
    pub(super) fn promoted_behind(&self, stretch: Interval) -> Option<(EventId, Vec<BlamedFault>)> {
        let promotion = self.promotion_in(stretch, None)?;
        let strikes = || vec![Struck::node(&promotion.node, "authority")];
        let behind: [Group<'_>; 1] = [(&[ReplicationStall, Partition, SlowLink, Pause], strikes())];
        let promoted: [Group<'_>; 1] = [(&[Promote], strikes())];
        let until = Interval::new(stretch.from, promotion.moment);
        let behind = self.pick(&behind, Interval::new(stretch.from, stretch.from));
        Some((promotion.event, distinct([behind, self.pick(&promoted, until)])))
    }

    /// The last restart of `node` within `stretch`.
    pub(super) fn restart_in(&self, stretch: Interval, node: &Name) -> Option<&Mark> {
        let restarts = self.restarts.iter().filter(|mark| mark.node == *node);
        restarts.rev().find(|mark| stretch.from <= mark.moment && mark.moment <= stretch.to)
    }
}

/// `redis-1:6379` without its port.
fn host(address: &str) -> Name {
    address.rsplit_once(':').map_or(address, |(host, _)| host).into()
}

/// In order of the plan, none twice.
pub(super) fn distinct(faults: impl IntoIterator<Item = Option<BlamedFault>>) -> Vec<BlamedFault> {
    let mut faults: Vec<BlamedFault> = faults.into_iter().flatten().collect();
    faults.sort_by_key(|fault| fault.fault);
    faults.dedup_by_key(|fault| fault.fault);
    faults
}
