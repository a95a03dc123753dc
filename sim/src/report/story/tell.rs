//! Puts events into words.
//!
//! Commands are told as they went over the wire, by the names that their manuals use
//! (`+switch-master` is what Sentinel itself says); what has no command is told in
//! plain words. An event that no story needs has no words here.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::lock::Release;

use super::choose::{Scene, told_applications};
use super::{Mark, Step};
use crate::check::{Detail, Finding, Kind, Mechanism};
use crate::history::event::is_of_ensemble;
use crate::history::{
    AcquireOutcome, Attempt, BeliefEnd, Event, EventId, History, RecordLoss, StockOperation, What,
};
use crate::plan::{FaultKind, Fence, Micros, Plan, Ppm};
use crate::report::subject::Subject;
use crate::report::why::clocks::{Clocks, Gain};

/// Who tells.
pub(super) struct Teller<'a> {
    plan: &'a Plan,
    key: &'a str,
    /// Which lock each attempt was granted.
    keys: BTreeMap<&'a Attempt, &'a str>,
    /// What is wrong with which event.
    wrong: BTreeMap<EventId, &'static str>,
    /// The expiry that a clock brought about, and what was with the clock.
    clock: Option<(EventId, String)>,
}

/// The words of an event.
struct Words {
    who: String,
    what: String,
    outcome: String,
}

fn words(
    who: impl Into<String>,
    what: impl Into<String>,
    outcome: impl Into<String>,
) -> Option<Words> {
    Some(Words { who: who.into(), what: what.into(), outcome: outcome.into() })
}

impl<'a> Teller<'a> {
    pub fn new(history: &'a History, plan: &'a Plan, subject: &Subject<'a>) -> Teller<'a> {
        let mut wrong = BTreeMap::new();
        mark_finding(history, subject.finding, &mut wrong);
        if let Some(harm) = subject.harm {
            mark_finding(history, harm, &mut wrong);
        }
        let clock = clock(history, plan, &subject.blame().mechanism);
        let keys = history.iter().filter_map(|event| match &event.what {
            What::AcquireReturned { attempt, key, outcome: AcquireOutcome::Granted { .. } } => {
                Some((attempt, &**key))
            }
            _ => None,
        });
        Teller { plan, key: subject.key(), keys: keys.collect(), wrong, clock }
    }

    /// The step that tells of `scene`, unless there are no words for it.
    pub fn step(&self, scene: &Scene<'_>) -> Option<Step> {
        let event = scene.event;
        let Words { who, what, mut outcome } = self.words(scene)?;
        let reply = scene.reply.and_then(|reply| self.wrong.get(&reply.id));
        let wrong = self.wrong.get(&event.id).or(reply);
        let remark = wrong.copied().unwrap_or_default().to_owned();
        let mark = match &event.what {
            _ if wrong.is_some() => Mark::Wrong,
            What::FaultBegan { .. } | What::FaultTouched { .. } | What::FaultEnded { .. } => {
                Mark::Fault
            }
            What::Effect { accepted: false, .. } => Mark::Held,
            _ => Mark::None,
        };
        if let What::Effect { accepted: false, refusal: Some(refusal), .. } = &event.what {
            outcome = format!("refused: {refusal}");
        }
        let at_us = event.at_us;
        Some(Step { event: Some(event.id), at_us, who, what, outcome, mark, remark })
    }

    fn words(&self, scene: &Scene<'_>) -> Option<Words> {
        let event = scene.event;
        self.of_client(event).or_else(|| self.of_record(scene)).or_else(|| self.of_cluster(event))
    }

    /// What clients do and learn.
    fn of_client(&self, event: &Event) -> Option<Words> {
        let node = &*event.node;
        match &event.what {
            What::AcquireInvoked { attempt, key, .. } => {
                words(node, format!("asks for {key} as {attempt}"), "")
            }
            What::AcquireReturned { attempt, key, outcome } => match outcome {
                AcquireOutcome::Granted { .. } => {
                    words(node, format!("acquire of {key} returns as {attempt}"), told(outcome))
                }
                _ => words(node, format!("acquire as {attempt}"), told(outcome)),
            },
            What::BeliefEnded { attempt, reason } => words(
                node,
                match reason {
                    BeliefEnd::Deadline => format!("{attempt} finds its deadline passed"),
                    BeliefEnd::Told => format!("{attempt} learns that it does not hold the lock"),
                    BeliefEnd::Died => format!("{attempt} dies"),
                    BeliefEnd::Dropped => format!("{attempt} drops its guard"),
                    BeliefEnd::Unseen => format!("what {attempt} believes is not seen"),
                },
                "",
            ),
            What::ReleaseInvoked { attempt } => words(node, format!("releases as {attempt}"), ""),
            What::ReleaseReturned { attempt, release } => {
                let key = self.keys.get(attempt).copied().unwrap_or(self.key);
                words(node, self.delete(key, &attempt.to_string()), self.released(release))
            }
            What::Effect { owner, token, operation, accepted, .. } => {
                let token = match token {
                    Some(token) if self.plan.fence != Fence::Off => format!(", token {token}"),
                    _ => String::new(),
                };
                let (what, outcome) = match operation {
                    StockOperation::Read { left, next_unit } => (
                        format!("read the stock as {owner}{token}"),
                        match next_unit {
                            Some(unit) => format!("{left} left, unit {unit} next"),
                            None => "sold out".to_owned(),
                        },
                    ),
                    StockOperation::Sell { unit, order } => {
                        (format!("sell unit {unit}, order {order}{token}"), "accepted".to_owned())
                    }
                    StockOperation::Reserve { unit, order } => (
                        format!("reserve unit {unit}, order {order}{token}"),
                        "accepted".to_owned(),
                    ),
                    StockOperation::Cancel { unit, order } => {
                        (format!("cancel unit {unit}, order {order}{token}"), "accepted".to_owned())
                    }
                    StockOperation::Act { name } => {
                        (format!("{name} as {owner}{token}"), "done".to_owned())
                    }
                };
                let outcome = if *accepted { outcome } else { "refused".to_owned() };
                words(format!("{} → {node}", client(owner)), what, outcome)
            }
            _ => None,
        }
    }

    /// What becomes of the lock's record.
    fn of_record(&self, scene: &Scene<'_>) -> Option<Words> {
        let event = scene.event;
        let node = &*event.node;
        let to_node = |owner: &str| format!("{} → {node}", client(owner));
        match &event.what {
            What::RecordSet { key, owner, lease_us, shared } => {
                let outcome = match scene.reply.map(|reply| &reply.what) {
                    Some(What::AcquireReturned { outcome, .. }) => told(outcome),
                    _ => "applied".to_owned(),
                };
                let set = self.set(key, owner, *lease_us);
                words(to_node(owner), if *shared { format!("shared {set}") } else { set }, outcome)
            }
            What::RecordRefused { key, owner, held_by } => words(
                to_node(owner),
                self.set(key, owner, Some(self.plan.lock.lease.0)),
                format!("nil, it is {held_by}'s"),
            ),
            What::RecordExtended { owner, lease_us, .. } => {
                words(to_node(owner), format!("renews for {} ms", lease_us / 1_000), "")
            }
            What::RecordReleased { key, owner } => {
                let outcome = match scene.reply.map(|reply| &reply.what) {
                    Some(What::ReleaseReturned { release, .. }) => self.released(release),
                    _ => "deleted".to_owned(),
                };
                words(to_node(owner), self.delete(key, owner), outcome)
            }
            What::RecordExpired { key, owner } => {
                let clock = self.clock.iter().find(|(expiry, _)| *expiry == event.id);
                let clock = clock.map(|(_, clock)| clock.clone());
                words(node, format!("{key} of {owner} expires"), clock.unwrap_or_default())
            }
            What::RecordReplicated { key, owner } => {
                words(node, format!("has {key} of {owner} from its master"), "")
            }
            What::RecordLoaded { key, owner } => {
                words(node, format!("has {key} of {owner} from its disk"), "")
            }
            What::RecordUnreplicated { key, owner } => {
                words(node, format!("removes {key} of {owner} as its master did"), "")
            }
            What::RecordLost { key, owner, how } => words(
                node,
                format!("{key} of {owner} is gone"),
                match how {
                    RecordLoss::Resync => "overwritten by a full resynchronisation",
                    RecordLoss::Crash => "it was not on its disk",
                    RecordLoss::Deleted => "deleted by somebody else",
                    RecordLoss::Overwritten => "overwritten by somebody else",
                },
            ),
            _ => None,
        }
    }

    /// What the cluster does, and what is done to it.
    fn of_cluster(&self, event: &Event) -> Option<Words> {
        let node = &*event.node;
        match &event.what {
            What::Promoted { offset, records } => {
                let record = records.iter().find(|(key, _)| **key == *self.key);
                let outcome = match record {
                    Some((key, owner)) => format!("with {key} of {owner}"),
                    // It is about no lock.
                    None if self.key.is_empty() => String::new(),
                    None => format!("without {}", self.key),
                };
                words(node, format!("becomes master at offset {offset}"), outcome)
            }
            What::Demoted { master } => words(node, format!("REPLICAOF {}", host(master)), ""),
            What::Resynchronised { master, offset } => words(
                node,
                format!("takes over the data of {}", host(master)),
                format!("offset {offset}"),
            ),
            What::MasterDown { master } => words(node, format!("+odown {}", host(master)), ""),
            What::LeaderElected { epoch, voters } => {
                let votes = match voters.is_empty() {
                    true => String::new(),
                    false => format!("votes: {}", voters.join(", ")),
                };
                words(node, format!("+elected-leader in epoch {epoch}"), votes)
            }
            What::MasterSwitched { from, to } => {
                words(node, format!("+switch-master {} → {}", host(from), host(to)), "")
            }
            What::Leading { epoch } => {
                words(node, format!("leads the ensemble in epoch {epoch}"), "")
            }
            What::SteppedDown { how, .. } => words(node, "leads no more", how.clone()),
            What::BroadcastBroken { how } => words(node, "the broadcast is broken", how.clone()),
            What::SessionExpired { session, records } => {
                let lost = records.iter().find(|(key, _)| **key == *self.key);
                let outcome =
                    lost.map(|(key, owner)| format!("and with it {owner}'s hold of {key}"));
                words(node, format!("session {session} expires"), outcome.unwrap_or_default())
            }
            What::NodeStarted { incarnation } => {
                let again = match is_of_ensemble(&event.node) {
                    true => "from its disk",
                    false => "with an empty memory",
                };
                words(node, "starts", if *incarnation > 1 { again } else { "" })
            }
            What::ClockChanged { rate_ppm, .. } if *rate_ppm != 0 => {
                let pace = if *rate_ppm > 0 { "fast" } else { "slow" };
                words(node, format!("its clocks run {pace} ({})", Ppm(*rate_ppm)), "")
            }
            What::NodeCrashed { machine: true } => words(node, "is down with its machine", ""),
            What::NodeCrashed { machine: false } => words(node, "is down", ""),
            What::ProgramEnded { how } => words(node, "ends by itself", how),
            What::FaultBegan { description, .. } => words("fault", description.clone(), ""),
            What::FaultTouched { how, .. } => words("fault", how.clone(), ""),
            What::FaultEnded { fault } => words("fault", self.end_of(*fault), ""),
            What::Healed => words("storm", "every fault has ended", ""),
            _ => None,
        }
    }

    /// The request that takes the record.
    fn set(&self, key: &str, owner: &str, lease_us: Option<u64>) -> String {
        if !self.speaks_redis() {
            return format!("acquire of {key} as {owner}");
        }
        let lease = lease_us.map(|us| format!(" PX {}", us / 1_000)).unwrap_or_default();
        // With tokens a script does both in one step.
        let count = if self.plan.fence == Fence::Off { "" } else { " + INCR" };
        format!("SET {key} {owner} NX{lease}{count}")
    }

    /// The request that removes the record: a script compares and deletes.
    fn delete(&self, key: &str, owner: &str) -> String {
        match self.speaks_redis() {
            true => format!("DEL {key} if it is {owner}"),
            false => format!("release of {key} as {owner}"),
        }
    }

    fn released(&self, release: &Release) -> String {
        match release {
            Release::Released => "done".to_owned(),
            Release::NotHeld if self.speaks_redis() => "0, no longer its own".to_owned(),
            Release::NotHeld => "no longer its own".to_owned(),
            Release::Indeterminate { reason } => format!("no reply: {reason}"),
        }
    }

    /// Whether the lock's commands are those of Redis.
    fn speaks_redis(&self) -> bool {
        self.plan.lock.name.starts_with("redis")
    }

    fn end_of(&self, fault: usize) -> String {
        match self.plan.faults.get(fault).map(|fault| &fault.kind) {
            Some(FaultKind::Pause { node, group: None }) => format!("{node} goes on"),
            Some(FaultKind::Pause { node, group: Some(group) }) => {
                format!("the {group} of {node} goes on")
            }
            Some(FaultKind::Hang { node }) => format!("the work of {node} goes on"),
            Some(FaultKind::ClockFreeze { node }) => format!("{node}'s wall clock is right again"),
            // What was put forward goes back, and the other way round.
            Some(FaultKind::ClockStep { node, by_us }) => {
                let direction = if *by_us < 0 { "ahead" } else { "back" };
                let by = Micros(by_us.unsigned_abs());
                format!("{node}'s wall clock is set right again, {by} {direction}")
            }
            Some(FaultKind::Partition { from, to, .. }) => {
                format!("the network between {} and {} is whole", from.join(", "), to.join(", "))
            }
            Some(FaultKind::ProcessCrash { node } | FaultKind::MachineCrash { node }) => {
                format!("{node} is started again")
            }
            Some(kind) => format!("over: {}", crate::fault::narration(kind)),
            None => format!("fault {fault} is over"),
        }
    }
}

/// The expiry that a clock brought about, and what was with the clock.
fn clock(history: &History, plan: &Plan, mechanism: &Mechanism) -> Option<(EventId, String)> {
    let Mechanism::ExpiredEarly { set_at, expiry, .. } = mechanism else { return None };
    let what = match Clocks::of(history, plan).gain(mechanism) {
        Gain::Moved(us) => {
            format!("its wall clock is {} ahead of {set_at}'s", Micros(us.unsigned_abs()))
        }
        Gain::Stepped(us) => {
            format!("its wall clock has jumped {} ahead", Micros(us.unsigned_abs()))
        }
        Gain::Fast(ppm) => format!("its clock runs fast ({})", Ppm(ppm)),
        Gain::Nothing => return None,
    };
    Some((*expiry, what))
}

/// The client behind an owner, or the owner itself when nothing tells.
fn client(owner: &str) -> String {
    Attempt::parse(owner).map_or_else(|| owner.to_owned(), |attempt| attempt.client.to_string())
}

/// `redis-1:6379` without its port.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn told(outcome: &AcquireOutcome) -> String {
    match outcome {
        AcquireOutcome::Granted { token: Some(token), .. } => format!("OK, token {token}"),
        AcquireOutcome::Granted { token: None, .. } => "OK".to_owned(),
        AcquireOutcome::Busy => "busy".to_owned(),
        AcquireOutcome::TimedOut => "gave up waiting".to_owned(),
        AcquireOutcome::Indeterminate { reason } => format!("no reply: {reason}"),
        AcquireOutcome::Failed { reason } => format!("failed: {reason}"),
    }
}

/// Where the second of two grants is told. One that no server has applied begins when its client
/// is told of it.
fn second_grant(history: &History, finding: &Finding) -> Option<EventId> {
    let owners = || finding.parties.iter().map(|party| party.owner.as_str());
    let is_applied = |owner| !told_applications(history, &BTreeSet::from([owner])).is_empty();
    let applied = match owners().all(is_applied) {
        true => told_applications(history, &owners().collect()).last().copied(),
        false => None,
    };
    applied.or_else(|| finding.events.last().copied())
}

/// The event that made a finding: of a unit sold more than once, its second sale.
pub fn wrong_event(history: &History, finding: &Finding) -> Option<EventId> {
    let mut wrong = BTreeMap::new();
    mark_finding(history, finding, &mut wrong);
    wrong.keys().next().copied()
}

/// Notes what is wrong with which event of a finding.
fn mark_finding(history: &History, finding: &Finding, wrong: &mut BTreeMap<EventId, &'static str>) {
    let owners = || finding.parties.iter().map(|party| party.owner.as_str());
    let evidence = || finding.events.iter().filter_map(|id| history.get(*id));
    let last = |is: &dyn Fn(&What) -> bool| evidence().filter(|event| is(&event.what)).last();
    let marked = match finding.kind {
        Kind::DoubleGrant => second_grant(history, finding).map(|id| (id, "second holder")),
        Kind::Oversell => {
            mark_sales(history, finding, wrong);
            None
        }
        Kind::EffectInterleaved => {
            last(&|what| matches!(what, What::Effect { .. })).map(|e| (e.id, "two are inside"))
        }
        Kind::WrongRelease => last(&|what| matches!(what, What::RecordLost { .. }))
            .map(|event| (event.id, "not its own record")),
        Kind::GrantLost => last(&|what| {
            matches!(
                what,
                What::RecordLost { .. } | What::RecordExpired { .. } | What::Promoted { .. }
            )
        })
        .map(|event| (event.id, "a promised record is gone")),
        Kind::TokenRegression => {
            let second = owners().nth(1).unwrap_or_default();
            let is_reply = |event: &&Event| {
                matches!(&event.what, What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. }
                    if attempt.to_string() == second)
            };
            history.iter().find(is_reply).map(|event| (event.id, "the token went back"))
        }
        Kind::FalseReject => last(&|what| matches!(what, What::Effect { accepted: false, .. }))
            .map(|event| (event.id, "the newest holder is turned away")),
        Kind::StaleEffect => {
            last(&|what| matches!(what, What::Effect { .. })).map(|e| (e.id, "of an older grant"))
        }
        Kind::DuplicateOrder => {
            last(&|what| matches!(what, What::Effect { .. })).map(|e| (e.id, "the same order"))
        }
        Kind::BroadcastBroken => evidence().next_back().map(|event| (event.id, "that must not be")),
        Kind::Undersell => finding.events.first().map(|id| (*id, "and a unit is free")),
        Kind::LostOrder => {
            last(&|what| matches!(what, What::OrderReturned { .. })).map(|e| (e.id, "it is lost"))
        }
        Kind::StockNotConserved => last(&|what| matches!(what, What::StockCounted { .. }))
            .map(|event| (event.id, "that does not add up")),
        Kind::LossNotTold => {
            last(&|what| matches!(what, What::ReleaseReturned { .. } | What::RenewReturned { .. }))
                .map(|event| (event.id, "that is not so"))
        }
        Kind::StuckWaiter | Kind::Deadlock | Kind::Unfair => {
            last(&|what| matches!(what, What::AcquireInvoked { .. } | What::WaitBegan { .. }))
                .map(|event| (event.id, "it is not served"))
        }
        Kind::LeakedLock => evidence().next_back().map(|event| (event.id, "nobody gets it")),
        Kind::Overstay => {
            let owner = owners().next().unwrap_or_default();
            let strays = |event: &&Event| {
                event.at_us >= finding.from_us
                    && matches!(&event.what, What::Effect { owner: by, accepted: true, .. } if **by == *owner)
            };
            history.iter().find(strays).map(|event| (event.id, "beyond its promise"))
        }
    };
    if let Some((id, remark)) = marked {
        // Where two things are wrong with one event, the graver was noted first.
        wrong.entry(id).or_insert(remark);
    }
}

/// Of a unit sold twice, the later sales; of a unit that never was, all.
fn mark_sales(history: &History, finding: &Finding, wrong: &mut BTreeMap<EventId, &'static str>) {
    let Detail::Oversell { unit, units, .. } = finding.detail else { return };
    let mut orders: Vec<&str> = Vec::new();
    for event in history.iter() {
        let What::Effect {
            operation: StockOperation::Sell { unit: sold, order },
            accepted: true,
            ..
        } = &event.what
        else {
            continue;
        };
        if *sold != unit || orders.contains(&&**order) {
            continue;
        }
        orders.push(order);
        if unit == 0 || unit > units {
            wrong.insert(event.id, "there is no such unit");
        } else if orders.len() > 1 {
            wrong.insert(event.id, "same unit sold twice");
        }
    }
}
