//! Does a report say only what happened?
//!
//! Every sentence of a why has a precondition. It is looked up here in the run's own
//! history and plan, by means of its own: nothing of what chose the sentence is used.
//! A sentence that is not known here fails: whoever writes one says what must be true.

use std::collections::BTreeMap;

use lockstorm_sim::check::{Blame, Finding};
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::history::{
    AcquireOutcome, Event, EventId, FaultFamily, History, RecordLoss, What,
};
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::plan::{FaultKind, Fence, Micros, Plan, Seed};
use lockstorm_sim::report::story::{MOST_STEPS, Story};
use lockstorm_sim::report::subject::Subject;
use lockstorm_sim::report::why;
use lockstorm_sim::storm::{self, Run};

/// What a sentence begins with, or has in it, and its precondition.
type Rule = (&'static str, fn(&Told<'_>));

const RULES: [Rule; 31] = [
    ("restarted with an empty memory (no persistence) and granted the lock again.", restarted),
    ("restarted with an empty memory (no persistence) before another was master", restarted),
    ("restarted with an empty memory (no persistence): the record was gone.", restarted),
    ("restarted with an empty memory (no persistence), and ", restarted_then_replaced),
    ("The lock was acknowledged before a replica had it; failover chose", behind_and_died),
    ("had the record: replication is asynchronous, and the client was told before.", died),
    ("had died and come back while it was being replaced", came_back),
    ("could not be reached and was replaced by", unreachable),
    ("became master without the record", promoted_without),
    ("Split brain: ", split_brain),
    ("Two masters counted tokens, each for itself", split_brain),
    ("A lease is kept as the wall time of its end", moved_clock),
    ("jumped", stepped_clock),
    ("runs fast (", fast_clock),
    ("Somebody removed a record", removed),
    ("One server granted the lock to both", one_server),
    ("The holder stood still beyond its lease", asleep_at_the_end),
    ("The holder stood still for a while", paused_meanwhile),
    ("The resource stood still while", resource_paused),
    ("The network held up what the holder did", network_held_up),
    ("The holder's clock runs slow", slow_clock),
    ("The holder worked longer than its lease", outlasted),
    ("A cut held up an operation until its holder had left", late_by_a_cut),
    ("A slow link held up an operation until its holder had left", late_by_a_slow_link),
    ("An operation was still on its way when its holder had left", late),
    ("There was no lock between them", |told| assert_eq!(told.plan.lock.name, "none")),
    ("Somebody acted without a grant", not_granted),
    ("The holder died, and its record outlived it", holder_died),
    ("The record outlived its holder", |_| {}),
    ("The counter behind the tokens went back when a server", promoted_without_the_count),
    ("The counter behind the tokens went back when redis", restarted_without_the_count),
];

/// A told run.
struct Told<'a> {
    plan: &'a Plan,
    history: &'a History,
    finding: &'a Finding,
    blame: &'a Blame,
    why: String,
    story: Story,
}

impl<'a> Told<'a> {
    fn events(&self) -> impl DoubleEndedIterator<Item = &'a Event> {
        self.history.events.iter()
    }

    fn owner(&self, n: usize) -> Option<&'a str> {
        self.blame.owners.get(n).map(String::as_str)
    }

    /// The reply that granted it to this owner.
    fn granted(&self, owner: &str) -> Option<&'a Event> {
        self.events().find(|event| {
            matches!(&event.what, What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. }
                if attempt.to_string() == owner)
        })
    }

    /// The last setting of the owner's record before its client was told.
    fn set(&self, owner: &str) -> &'a Event {
        let told = self.granted(owner).map_or(EventId(u64::MAX), |event| event.id);
        let mut sets = self.events().filter(
            |event| matches!(&event.what, What::RecordSet { owner: of, .. } if **of == *owner),
        );
        sets.rfind(|set| set.id < told).expect("a record of the owner")
    }

    fn first(&self) -> &'a Event {
        self.set(self.owner(0).expect("an owner"))
    }

    fn second(&self) -> Option<&'a Event> {
        self.owner(1).map(|owner| self.set(owner))
    }

    /// Up to where the story of the loss may go.
    fn until(&self) -> EventId {
        self.second().map_or(EventId(u64::MAX), |second| second.id)
    }

    /// The lease that the owner was promised, less its margin, µs.
    fn promise_us(&self, owner: &str) -> u64 {
        match self.granted(owner).map(|event| &event.what) {
            Some(What::AcquireReturned {
                outcome: AcquireOutcome::Granted { lease_us, margin_us, .. },
                ..
            }) => lease_us - margin_us,
            _ => panic!("{owner} was granted nothing"),
        }
    }

    fn promotions(&self) -> impl DoubleEndedIterator<Item = &'a Event> {
        self.events().filter(|event| matches!(event.what, What::Promoted { .. }))
    }

    fn promotion(&self, after: EventId, before: EventId) -> Option<&'a Event> {
        self.promotions().find(|event| after < event.id && event.id < before)
    }

    /// Where it was told that the lock's master is down, for this promotion.
    fn down(&self, promotion: &Event) -> &'a Event {
        let elected = |event: &&Event| matches!(event.what, What::LeaderElected { .. });
        let leader = self.events().filter(elected).rfind(|leader| leader.id < promotion.id);
        let leader = leader.expect("+elected-leader");
        let mut downs = self.events().filter(|event| matches!(event.what, What::MasterDown { .. }));
        downs
            .rfind(|down| down.id < promotion.id && down.node == leader.node)
            .expect("+odown of the leader")
    }

    /// A sentinel that gives a server up has heard nothing of it for as long as the plan
    /// says; and what was sent into a cut comes, after it, as much later again at most.
    fn silent_since_us(&self, down: &Event) -> u64 {
        down.at_us.saturating_sub(2 * self.plan.topology.down_after.0)
    }

    fn in_story(&self, event: &Event) -> bool {
        self.story.steps.iter().any(|step| step.event == Some(event.id))
    }

    /// The promotion, and what led to it and followed from it, are told.
    fn shows_failover(&self, promotion: &Event) {
        let switch = self.events().find(|event| {
            event.id > promotion.id
                && matches!(&event.what, What::MasterSwitched { to, .. } if to.starts_with(&*promotion.node))
        });
        assert!(self.in_story(promotion), "the promotion is told");
        assert!(self.in_story(self.down(promotion)), "+odown is told");
        let within = switch.filter(|switch| switch.id < self.until());
        assert!(within.is_none_or(|switch| self.in_story(switch)), "+switch-master is told");
    }

    /// From its beginning to its end, the faults of this position in the plan.
    fn spells(&self, fault: usize) -> Vec<(u64, u64)> {
        let mut spells: Vec<(u64, u64)> = Vec::new();
        for event in self.events() {
            match &event.what {
                What::FaultBegan { fault: of, .. } if *of == fault => {
                    spells.push((event.at_us, u64::MAX));
                }
                What::FaultEnded { fault: of } if *of == fault => {
                    if let Some(spell) = spells.last_mut() {
                        spell.1 = spell.1.min(event.at_us);
                    }
                }
                _ => {}
            }
        }
        spells
    }

    fn at_work(&self, fault: usize, from_us: u64, to_us: u64) -> bool {
        self.spells(fault).iter().any(|(began, ended)| *began <= to_us && *ended >= from_us)
    }

    /// Whether a blamed fault that `is` was at work in this time.
    fn blames(&self, from_us: u64, to_us: u64, is: impl Fn(&FaultKind) -> bool) -> bool {
        self.blame.faults.iter().any(|blamed| {
            is(&self.plan.faults[blamed.fault].kind) && self.at_work(blamed.fault, from_us, to_us)
        })
    }

    /// Whose belief or act went beyond the promise.
    fn strays(&self) -> &'a str {
        let second = self.blame.faults.iter().any(|fault| fault.role == "second-holder");
        self.owner(usize::from(second)).expect("an owner")
    }

    fn client(owner: &str) -> &str {
        owner.rsplit_once('/').expect("app-1/3").0
    }
}

fn between(kind: &FaultKind, one: &str, other: &str) -> bool {
    let (FaultKind::Partition { from, to, .. } | FaultKind::SlowLink { from, to, .. }) = kind
    else {
        return false;
    };
    let has = |side: &[String], name: &str| side.iter().any(|node| node == name);
    (has(from, one) && has(to, other)) || (has(from, other) && has(to, one))
}

fn is_cut(kind: &FaultKind, one: &str, other: &str) -> bool {
    matches!(kind, FaultKind::Partition { .. }) && between(kind, one, other)
}

fn is_crash_of(kind: &FaultKind, name: &str) -> bool {
    matches!(kind, FaultKind::ProcessCrash { node } | FaultKind::MachineCrash { node } if node == name)
}

fn is_pause_of(kind: &FaultKind, name: &str) -> bool {
    matches!(kind, FaultKind::Pause { node, .. } if node == name)
}

/// Loses the first owner's record at its own server by a restart, and returns that.
fn lost_by_restart<'a>(told: &Told<'a>) -> &'a Event {
    let (first, owner) = (told.first(), told.owner(0).unwrap());
    let lost = told.events().find(|event| {
        event.id > first.id
            && event.node == first.node
            && matches!(&event.what, What::RecordLost { owner: of, how: RecordLoss::Crash, .. } if **of == *owner)
    });
    let lost = lost.expect("the record was lost by a restart");
    assert!(lost.id < told.until(), "before the second grant");
    assert!(told.promotion(first.id, lost.id).is_none(), "no failover before");
    assert!(told.why.starts_with(&*first.node), "the server is named");
    let mut starts = told.events().filter(|event| matches!(event.what, What::NodeStarted { .. }));
    let start = starts.rfind(|start| start.node == first.node && start.id < lost.id);
    assert!(told.in_story(start.unwrap()), "the restart is told");
    for blamed in &told.blame.faults {
        let kind = &told.plan.faults[blamed.fault].kind;
        assert!(is_crash_of(kind, &first.node), "nothing but its crash is blamed: {kind:?}");
    }
    assert!(!told.blame.faults.is_empty());
    lost
}

fn restarted(told: &Told<'_>) {
    let _ = lost_by_restart(told);
    if let Some(second) = told.second() {
        assert_eq!(second.node, told.first().node, "the same server granted it again");
        assert!(told.promotion(told.first().id, second.id).is_none(), "without a failover");
    }
    let again = told.why.contains("granted the lock again");
    assert_eq!(told.why.contains("the only server"), again && told.plan.topology.redis == 1);
}

fn restarted_then_replaced(told: &Told<'_>) {
    let lost = lost_by_restart(told);
    let promotion = told.promotion(lost.id, told.until()).expect("a failover after it");
    told.shows_failover(promotion);
}

/// The failover that lost the record: after the first grant, to a server without it.
fn without<'a>(told: &Told<'a>) -> &'a Event {
    let (first, owner) = (told.first(), told.owner(0).unwrap());
    let promotion = told.promotion(first.id, told.until()).expect("a failover between the grants");
    let What::Promoted { records, .. } = &promotion.what else { unreachable!() };
    assert!(records.iter().all(|(_, of)| **of != *owner), "the new master has it not");
    let has = told.events().any(|event| {
        event.id > first.id
            && event.id < promotion.id
            && event.node == promotion.node
            && matches!(&event.what, What::RecordReplicated { owner: of, .. } if **of == *owner)
    });
    assert!(!has, "and never had it");
    let before = told.promotions().rfind(|event| event.id < first.id);
    let master = before.map_or("redis-1", |before| &*before.node);
    assert_eq!(&*first.node, master, "the first was granted by the master of the time");
    told.shows_failover(promotion);
    promotion
}

fn crashed(told: &Told<'_>, promotion: &Event) -> bool {
    told.events().any(|event| {
        event.id > told.first().id
            && event.id < promotion.id
            && event.node == told.first().node
            && matches!(event.what, What::NodeCrashed { .. })
    })
}

fn died(told: &Told<'_>) {
    let promotion = without(told);
    assert!(crashed(told, promotion), "it died");
    let down = told.down(promotion);
    let first = told.first();
    assert!(told.blames(down.at_us, down.at_us, |kind| is_crash_of(kind, &first.node)));
}

fn came_back(told: &Told<'_>) {
    let promotion = without(told);
    let (down, first) = (told.down(promotion), told.first());
    assert!(!crashed(told, promotion), "it did not die afterwards");
    assert!(told.blames(down.at_us, down.at_us, |kind| is_crash_of(kind, &first.node)));
    let back = told.events().rfind(|event| {
        event.id < first.id
            && event.node == first.node
            && matches!(event.what, What::NodeStarted { .. })
    });
    assert!(back.expect("a start").at_us > 0, "it came back before it granted");
}

fn behind_and_died(told: &Told<'_>) {
    died(told);
    let (promotion, first) = (without(told), told.first());
    let to = &*promotion.node;
    assert!(told.blames(first.at_us, promotion.at_us, |kind| match kind {
        FaultKind::ReplicationStall { node } => **node == *first.node,
        kind => between(kind, &first.node, to),
    }));
}

fn unreachable(told: &Told<'_>) {
    let promotion = without(told);
    let (down, first) = (told.down(promotion), told.first());
    assert!(told.blames(down.at_us, down.at_us, |kind| {
        is_pause_of(kind, &first.node) || is_cut(kind, &first.node, &down.node)
    }));
}

fn promoted_without(told: &Told<'_>) {
    without(told);
}

fn split_brain(told: &Told<'_>) {
    let grants = [Some(told.first()), told.second()].into_iter().flatten();
    let mut deposed = grants.filter_map(|set| {
        let before = || told.promotions().filter(|event| event.id < set.id);
        let own = before().rfind(|event| event.node == set.node).map(|own| own.id);
        let replaced = before().find(|event| Some(event.id) > own)?;
        Some((set, replaced))
    });
    let (set, promotion) = deposed.next_back().expect("a grant by a master that had been replaced");
    let (old, down) = (&*set.node, told.down(promotion));
    assert!(told.why.contains(&format!("{old} ")), "{old}");
    told.shows_failover(promotion);
    assert!(told.in_story(set));
    if told.why.contains("cut off") {
        assert!(told.blames(told.silent_since_us(down), down.at_us, |kind| {
            is_cut(kind, old, &down.node)
        }));
    } else if told.why.contains("stood still") {
        assert!(told.blames(down.at_us, down.at_us, |kind| is_pause_of(kind, old)));
    } else if told.why.contains("was down") {
        assert!(told.blames(down.at_us, down.at_us, |kind| is_crash_of(kind, old)));
        let back = told.events().rfind(|event| {
            event.id < set.id
                && *event.node == *old
                && matches!(event.what, What::NodeStarted { .. })
        });
        let crash = told.events().rfind(|event| {
            event.id < down.id
                && *event.node == *old
                && matches!(event.what, What::NodeCrashed { .. })
        });
        assert!(back.unwrap().id > crash.unwrap().id, "it came back before it granted");
    }
}

/// The early expiry of the first owner's record, and by how much it was early, µs.
fn early<'a>(told: &Told<'a>) -> (&'a Event, u64) {
    let (first, owner) = (told.first(), told.owner(0).unwrap());
    let What::RecordSet { lease_us: Some(lease_us), .. } = &first.what else { panic!("a lease") };
    let expiry = told.events().find(|event| {
        event.id > first.id
            && event.at_us < first.at_us + lease_us
            && told.why.contains(&*event.node)
            && matches!(&event.what, What::RecordExpired { owner: of, .. } if **of == *owner)
    });
    let expiry = expiry.expect("an early expiry");
    assert!(told.in_story(expiry) && expiry.id < told.until());
    let step = told.story.steps.iter().find(|step| step.event == Some(expiry.id)).unwrap();
    assert!(step.outcome.contains("clock"), "the story says what was with the clock: {step:?}");
    (expiry, first.at_us + lease_us - expiry.at_us)
}

fn rate_ppm(told: &Told<'_>, name: &str, at_us: u64) -> i64 {
    let own = told.plan.clocks.iter().find(|clock| clock.node == name);
    let faults = told.plan.faults.iter().enumerate().rev();
    let by_fault =
        faults.filter(|(n, _)| told.at_work(*n, at_us, at_us)).find_map(|(_, fault)| match &fault
            .kind
        {
            FaultKind::ClockRate { node, ppm } if node == name => Some(*ppm),
            _ => None,
        });
    by_fault.or(own.map(|clock| clock.rate_ppm)).unwrap_or(0)
}

fn moved_clock(told: &Told<'_>) {
    let (expiry, early_us) = early(told);
    let first = told.first();
    let promotion = told.promotion(first.id, expiry.id).expect("it moved by a failover");
    assert_eq!(promotion.node, expiry.node);
    told.shows_failover(promotion);
    let offset = |name: &str| {
        let own = told.plan.clocks.iter().find(|clock| clock.node == name);
        let steps =
            told.plan.faults.iter().enumerate().filter_map(|(n, fault)| match &fault.kind {
                FaultKind::ClockStep { node, by_us } if node == name => {
                    told.at_work(n, first.at_us, first.at_us).then_some(*by_us)
                }
                _ => None,
            });
        own.map_or(0, |clock| clock.offset_us) + steps.sum::<i64>()
    };
    let ahead_us = offset(&expiry.node) - offset(&first.node);
    assert!(ahead_us > 0 && ahead_us.unsigned_abs() >= early_us / 2, "{ahead_us} {early_us}");
    let (_, said) = told.why.split_once(" master, is ").unwrap();
    let (said, _) = said.split_once(" ahead of ").unwrap();
    let said: Micros = said.parse().unwrap();
    // Rates of common clocks add a little.
    assert!(said.0.abs_diff(ahead_us.unsigned_abs()) <= 20_000, "{said} {ahead_us}");
}

fn stepped_clock(told: &Told<'_>) {
    let (expiry, _) = early(told);
    let first = told.first();
    assert!(told.blames(first.at_us, expiry.at_us, |kind| {
        matches!(kind, FaultKind::ClockStep { node, .. } if **node == *expiry.node)
    }));
}

fn fast_clock(told: &Told<'_>) {
    let (expiry, early_us) = early(told);
    let ppm = rate_ppm(told, &expiry.node, expiry.at_us);
    assert!(ppm > 0, "a rate");
    let lasted_us = expiry.at_us - told.first().at_us;
    let gained_us = lasted_us / 1_000_000 * ppm.unsigned_abs() + ppm.unsigned_abs();
    assert!(gained_us * 2 >= early_us, "enough of it: {gained_us} {early_us}");
}

fn removed(told: &Told<'_>) {
    let owner = told.owner(0).unwrap();
    let deleted = told.events().find(|event| {
        matches!(&event.what, What::RecordLost { owner: of, how: RecordLoss::Deleted, .. } if **of == *owner)
    });
    assert!(told.in_story(deleted.expect("a foreign deletion")));
}

fn one_server(told: &Told<'_>) {
    let (first, second) = (told.first(), told.second().unwrap());
    assert_eq!(first.node, second.node);
    assert!(told.promotion(first.id, second.id).is_none());
    let gone = told.events().any(|event| {
        event.id > first.id
            && event.id < second.id
            && matches!(event.what, What::RecordLost { .. } | What::NodeStarted { .. })
            && event.node == first.node
    });
    assert!(!gone, "its record was there all the time");
}

/// The end of the straying owner's promise, and where it strayed last, µs.
fn strayed(told: &Told<'_>) -> (u64, u64) {
    let owner = told.strays();
    let set = told.set(owner);
    let last = told.events().rfind(|event| match &event.what {
        What::Effect { owner: of, .. } => **of == *owner,
        What::ReleaseInvoked { attempt } | What::BeliefEnded { attempt, .. } => {
            attempt.to_string() == owner
        }
        _ => false,
    });
    let last_us = last.map_or(told.history.ended_us, |last| last.at_us);
    let end_us = set.at_us + told.promise_us(owner);
    assert!(last_us >= end_us, "it went on beyond its promise: {last_us} {end_us}");
    (end_us, last_us)
}

fn asleep_at_the_end(told: &Told<'_>) {
    let (end_us, _) = strayed(told);
    let client = Told::client(told.strays());
    assert!(told.blames(end_us, end_us, |kind| is_pause_of(kind, client)));
}

fn paused_meanwhile(told: &Told<'_>) {
    let (_, last_us) = strayed(told);
    let from_us = told.set(told.strays()).at_us;
    let client = Told::client(told.strays());
    assert!(told.blames(from_us, last_us, |kind| is_pause_of(kind, client)));
}

fn resource_paused(told: &Told<'_>) {
    let (_, last_us) = strayed(told);
    let from_us = told.set(told.strays()).at_us;
    assert!(told.blames(from_us, last_us, |kind| is_pause_of(kind, "stock-1")));
}

fn network_held_up(told: &Told<'_>) {
    let (_, last_us) = strayed(told);
    let set = told.set(told.strays());
    let client = Told::client(told.strays());
    assert!(told.blames(set.at_us, last_us, |kind| {
        between(kind, client, "stock-1") || between(kind, client, &set.node)
    }));
}

fn slow_clock(told: &Told<'_>) {
    let (end_us, _) = strayed(told);
    assert!(rate_ppm(told, Told::client(told.strays()), end_us) < 0);
}

fn outlasted(told: &Told<'_>) {
    strayed(told);
}

/// The owner whose operation came late, and that operation.
fn late_act<'a>(told: &Told<'a>) -> (&'a str, &'a Event) {
    let both = [told.owner(0), told.owner(1)].into_iter().flatten();
    let mut late = both.filter_map(|owner| {
        let left = told.events().find(|event| match &event.what {
            What::ReleaseInvoked { attempt } | What::BeliefEnded { attempt, .. } => {
                attempt.to_string() == owner
            }
            What::NodeCrashed { .. } => {
                *event.node == *Told::client(owner)
                    && told.granted(owner).is_some_and(|granted| granted.id < event.id)
            }
            _ => false,
        })?;
        let act = told.events().find(|event| {
            event.id > left.id
                && matches!(&event.what, What::Effect { owner: of, accepted: true, .. } if **of == *owner)
        })?;
        Some((owner, act))
    });
    let (owner, act) = late.next_back().expect("an operation after its holder had left");
    assert!(told.in_story(act));
    (owner, act)
}

fn late(told: &Told<'_>) {
    late_act(told);
}

fn late_by_a_cut(told: &Told<'_>) {
    let (owner, act) = late_act(told);
    let from_us = told.set(owner).at_us;
    assert!(told.blames(from_us, act.at_us, |kind| is_cut(kind, Told::client(owner), "stock-1")));
}

fn late_by_a_slow_link(told: &Told<'_>) {
    let (owner, act) = late_act(told);
    let from_us = told.set(owner).at_us;
    assert!(told.blames(from_us, act.at_us, |kind| {
        matches!(kind, FaultKind::SlowLink { .. }) && between(kind, Told::client(owner), "stock-1")
    }));
}

fn not_granted(told: &Told<'_>) {
    assert!(told.blame.owners.iter().all(|owner| told.granted(owner).is_none()));
}

fn holder_died(told: &Told<'_>) {
    let owner = told.owner(0).unwrap();
    let granted = told.granted(owner).unwrap();
    assert!(told.events().any(|event| {
        event.id > granted.id
            && *event.node == *Told::client(owner)
            && matches!(event.what, What::NodeCrashed { .. })
    }));
}

fn promoted_without_the_count(told: &Told<'_>) {
    let (first, second) = (told.first(), told.second().unwrap());
    assert!(told.promotion(first.id, second.id).is_some());
}

fn restarted_without_the_count(told: &Told<'_>) {
    let (first, second) = (told.first(), told.second().unwrap());
    assert!(told.events().any(|event| {
        first.id < event.id
            && event.id < second.id
            && event.node == first.node
            && matches!(event.what, What::NodeStarted { .. })
    }));
}

/// Whatever the sentence: the faults that are blamed are told, could have mattered,
/// and did something.
fn blame_is_told(told: &Told<'_>) {
    assert!(told.story.steps.len() <= MOST_STEPS);
    for blamed in &told.blame.faults {
        let kind = &told.plan.faults[blamed.fault].kind;
        let steps = told.story.steps.iter().filter_map(|step| told.history.get(step.event?));
        let began = steps.filter(
            |event| matches!(event.what, What::FaultBegan { fault, .. } if fault == blamed.fault),
        );
        assert_eq!(began.count(), 1, "{kind:?} is told");
        let touched = told.events().find(
            |event| matches!(event.what, What::FaultTouched { fault, .. } if fault == blamed.fault),
        );
        assert!(touched.expect("it touched something").at_us <= told.finding.to_us);
        let since_us = match ["Split brain", "Two masters", "had died and come back"]
            .iter()
            .any(|part| told.why.contains(part))
        {
            true => 0,
            false => told.blame.owners.iter().map(|owner| told.set(owner).at_us).min().unwrap_or(0),
        };
        assert!(told.at_work(blamed.fault, since_us, told.finding.to_us), "{kind:?} was at work");
        if blamed.family == FaultFamily::ReplicationStall {
            let parts = [
                "acknowledged before a replica had it",
                "which did not have the record",
                "without its latest value",
            ];
            assert!(parts.iter().any(|part| told.why.contains(part)), "{kind:?}: {}", told.why);
        }
    }
}

/// The rule of a run's why; `None` for a run in which nothing was found.
fn judged(run: &Run) -> Option<&'static str> {
    let subject = Subject::of(&run.history, &run.judgement)?;
    let why = why::why(&run.history, &run.plan, &subject);
    let story = Story::of(&run.history, &run.plan, &subject);
    let (history, plan, blame) = (&run.history, &run.plan, subject.blame());
    let finding = subject.harm.unwrap_or(subject.finding);
    let told = Told { plan, history, finding, blame, why, story };
    let rule = RULES.iter().find(|(part, _)| told.why.contains(part));
    let (part, rule) = rule.unwrap_or_else(|| panic!("no precondition is known of: {}", told.why));
    rule(&told);
    blame_is_told(&told);
    Some(part)
}

fn quarry(scenario: &str, fence: Fence) -> Quarry {
    Quarry::new(scenario, "redis", fence)
}

fn run(scenario: &str, fence: Fence, seed: u64) -> Run {
    let plan = quarry(scenario, fence).plan(Seed(seed)).unwrap();
    storm::run(&plan, &EventEngine)
}

/// Holds `seeds` against their runs; how often each sentence was said.
fn sweep(scenario: &str, fence: Fence, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u32> {
    let mut said: BTreeMap<&'static str, u32> = BTreeMap::new();
    let mut untrue = Vec::new();
    for seed in seeds {
        let run = run(scenario, fence, seed);
        let judge = std::panic::AssertUnwindSafe(|| judged(&run));
        match std::panic::catch_unwind(judge) {
            Ok(part) => *said.entry(part.unwrap_or("nothing")).or_default() += 1,
            Err(_) => untrue.push(format!("{seed:#x}")),
        }
    }
    println!("{scenario}: {said:#?}");
    assert!(untrue.is_empty(), "{scenario}: untrue reports of seeds {}", untrue.join(", "));
    said
}

#[test]
fn every_why_of_three_hundred_failovers_is_true() {
    let said = sweep("redis-failover", Fence::Off, 0..300);
    for part in ["acknowledged before a replica", "restarted with an empty memory", "Split brain"] {
        assert!(said.keys().any(|said| said.contains(part)), "never said: {part}");
    }
}

#[test]
fn every_why_of_a_hundred_long_leases_is_true() {
    let said = sweep("redis-long-lease", Fence::Off, 0..100);
    assert!(said.keys().any(|said| said.contains("restarted with an empty memory")));
}

#[test]
fn every_why_behind_a_fence_is_true() {
    sweep("redis-failover", Fence::Full, 0..60);
}

/// Each was told untruly once.
#[test]
fn what_was_told_untruly_is_told_as_it_was() {
    for (scenario, seed, part) in [
        (
            "redis-failover",
            0x5,
            "before another was master in its place, and granted the lock again",
        ),
        (
            "redis-failover",
            0x22,
            "before another was master in its place, and granted the lock again",
        ),
        (
            "redis-failover",
            0xbe,
            "before another was master in its place, and granted the lock again",
        ),
        ("redis-long-lease", 0x26, "the only server, restarted with an empty memory"),
        ("redis-long-lease", 0x3d, "the only server, restarted with an empty memory"),
        ("redis-failover", 0x39, "redis-2, the new master, is 820ms ahead of redis-1's"),
        ("redis-failover", 0x98, "A cut held up an operation"),
        ("redis-failover", 0xa8, "redis-3 had died and come back while it was being replaced"),
        ("redis-failover", 0x3d, "Split brain: redis-1 was cut off and replaced by redis-2"),
        ("redis-failover", 0x30, "Split brain: redis-1 was cut off and replaced by redis-2"),
        ("redis-failover", 0x4e, "Split brain: redis-1 was cut off and replaced by redis-2"),
        ("redis-long-lease", 0xd8, "The clock of redis-1 runs fast (+5%)"),
    ] {
        let run = run(scenario, Fence::Off, seed);
        let subject = Subject::of(&run.history, &run.judgement).unwrap();
        let why = why::why(&run.history, &run.plan, &subject);
        assert!(why.contains(part), "{scenario} {seed:#x}: {why}");
        judged(&run);
    }
}
