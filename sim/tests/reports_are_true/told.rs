//! A told run, and what is looked up in it by means of the test's own.

use lockstorm_sim::check::{Blame, Finding};
use lockstorm_sim::history::{AcquireOutcome, Event, EventId, History, What};
use lockstorm_sim::plan::{FaultKind, Plan};
use lockstorm_sim::report::story::Story;

/// A told run.
pub struct Told<'a> {
    pub plan: &'a Plan,
    pub history: &'a History,
    pub finding: &'a Finding,
    pub blame: &'a Blame,
    pub why: String,
    pub story: Story,
}

impl<'a> Told<'a> {
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &'a Event> {
        self.history.events.iter()
    }

    pub fn owner(&self, n: usize) -> Option<&'a str> {
        self.blame.owners.get(n).map(String::as_str)
    }

    /// The reply that granted it to this owner.
    pub fn granted(&self, owner: &str) -> Option<&'a Event> {
        self.events().find(|event| {
            matches!(&event.what, What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. }
                if attempt.to_string() == owner)
        })
    }

    /// The last setting of the owner's record before its client was told.
    pub fn set(&self, owner: &str) -> &'a Event {
        let told = self.granted(owner).map_or(EventId(u64::MAX), |event| event.id);
        let mut sets = self.events().filter(
            |event| matches!(&event.what, What::RecordSet { owner: of, .. } if **of == *owner),
        );
        sets.rfind(|set| set.id < told).expect("a record of the owner")
    }

    pub fn first(&self) -> &'a Event {
        self.set(self.owner(0).expect("an owner"))
    }

    pub fn second(&self) -> Option<&'a Event> {
        self.owner(1).map(|owner| self.set(owner))
    }

    /// Up to where the story of the loss may go.
    pub fn until(&self) -> EventId {
        self.second().map_or(EventId(u64::MAX), |second| second.id)
    }

    /// The lease that the owner was promised, less its margin, µs.
    pub fn promise_us(&self, owner: &str) -> u64 {
        match self.granted(owner).map(|event| &event.what) {
            Some(What::AcquireReturned {
                outcome: AcquireOutcome::Granted { lease_us, margin_us, .. },
                ..
            }) => lease_us - margin_us,
            _ => panic!("{owner} was granted nothing"),
        }
    }

    pub fn promotions(&self) -> impl DoubleEndedIterator<Item = &'a Event> {
        self.events().filter(|event| matches!(event.what, What::Promoted { .. }))
    }

    pub fn promotion(&self, after: EventId, before: EventId) -> Option<&'a Event> {
        self.promotions().find(|event| after < event.id && event.id < before)
    }

    /// Where it was told that the lock's master is down, for this promotion.
    pub fn down(&self, promotion: &Event) -> &'a Event {
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
    pub fn silent_since_us(&self, down: &Event) -> u64 {
        down.at_us.saturating_sub(2 * self.plan.topology.down_after.0)
    }

    pub fn in_story(&self, event: &Event) -> bool {
        self.story.steps.iter().any(|step| step.event == Some(event.id))
    }

    /// The promotion, and what led to it and followed from it, are told.
    pub fn shows_failover(&self, promotion: &Event) {
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
    pub fn spells(&self, fault: usize) -> Vec<(u64, u64)> {
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

    pub fn at_work(&self, fault: usize, from_us: u64, to_us: u64) -> bool {
        self.spells(fault).iter().any(|(began, ended)| *began <= to_us && *ended >= from_us)
    }

    /// Whether a blamed fault that `is` was at work in this time.
    pub fn blames(&self, from_us: u64, to_us: u64, is: impl Fn(&FaultKind) -> bool) -> bool {
        self.blame.faults.iter().any(|blamed| {
            is(&self.plan.faults[blamed.fault].kind) && self.at_work(blamed.fault, from_us, to_us)
        })
    }

    /// Whose belief or act went beyond the promise.
    pub fn strays(&self) -> &'a str {
        let second = self.blame.faults.iter().any(|fault| fault.role == "second-holder");
        self.owner(usize::from(second)).expect("an owner")
    }

    pub fn client(owner: &str) -> &str {
        owner.rsplit_once('/').expect("app-1/3").0
    }
}

pub fn between(kind: &FaultKind, one: &str, other: &str) -> bool {
    let (FaultKind::Partition { from, to, .. } | FaultKind::SlowLink { from, to, .. }) = kind
    else {
        return false;
    };
    let has = |side: &[String], name: &str| side.iter().any(|node| node == name);
    (has(from, one) && has(to, other)) || (has(from, other) && has(to, one))
}

pub fn is_cut(kind: &FaultKind, one: &str, other: &str) -> bool {
    matches!(kind, FaultKind::Partition { .. }) && between(kind, one, other)
}

pub fn is_crash_of(kind: &FaultKind, name: &str) -> bool {
    matches!(kind, FaultKind::ProcessCrash { node } | FaultKind::MachineCrash { node } if node == name)
}

pub fn is_pause_of(kind: &FaultKind, name: &str) -> bool {
    matches!(kind, FaultKind::Pause { node, .. } if node == name)
}
