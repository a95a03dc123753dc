//! Is a grant ever lost, or promised twice, when the leader of an ensemble dies, and dies
//! again?
//!
//! Each storm kills servers five times, at any microsecond or exactly around a grant, in the
//! order in which they come to lead. `LOCKSTORM_SEEDS` asks for more storms than a test run
//! has: `.ci/nightly` has more than five thousand leaders die, and writes
//! docs/evidence/zookeeper-leader-kills.txt.

mod on_both_engines;

use std::collections::BTreeMap;

use lockstorm_sim::check::Kind;
use lockstorm_sim::draw::Draw;
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::history::{History, What};
use lockstorm_sim::plan::{
    Anchor, Fault, FaultKind, Fence, Micros, Operation, Phase, Plan, Seed, When,
};
use lockstorm_sim::storm::environment::Environment;
use lockstorm_sim::storm::{self, Run};

use on_both_engines::{grants, install_senses, told};

const LOCKS: [&str; 4] = ["zookeeper", "zookeeper-reentrant", "zookeeper-read", "zookeeper-write"];

/// A storm in the weather that the seed draws, in which servers die one after another.
fn plan(seed: u64) -> Plan {
    let lock = LOCKS[usize::try_from(seed / 2 % 4).unwrap()];
    let fence = if seed.is_multiple_of(2) { Fence::Full } else { Fence::Off };
    let mut plan = Plan::from_seed("zookeeper-three", lock, fence, Seed(seed)).unwrap();
    let draw = &mut Draw::new(seed, "leader-kills", "");
    plan.clocks.clear();
    plan.faults = (0..5).map(|kill| death(draw, kill)).collect();
    plan.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    plan
}

fn death(draw: &mut Draw, kill: u64) -> Fault {
    // Of servers with equal logs the one with the larger number is elected.
    let node = ["zk-3", "zk-2"][usize::try_from(kill % 2).unwrap()].to_owned();
    let kind = match draw.chance(500) {
        true => FaultKind::MachineCrash { node },
        false => FaultKind::ProcessCrash { node },
    };
    let at_us = 1_200_000 + kill * 2_600_000 + draw.below(1_200_000);
    let ordinal = u32::try_from(4 + 12 * kill + draw.below(6)).unwrap();
    let client = format!("app-{}", draw.between(1, 4));
    let phases = [Phase::Invoked, Phase::Applied, Phase::Returned];
    let phase = *draw.pick(&phases).unwrap();
    let operation = *draw.pick(&[Operation::Acquire, Operation::Release]).unwrap();
    let delay = if draw.chance(500) { Micros(0) } else { Micros(draw.below(3_000)) };
    let when = match draw.chance(400) {
        true => When::After { anchor: Anchor::new(&client, operation, ordinal, phase), delay },
        false => When::At(Micros(at_us)),
    };
    Fault { kind, when, lasts: Some(Micros(draw.between(200_000, 1_300_000))) }
}

/// How often a server died while it led.
fn leaders_killed(history: &History) -> usize {
    let (mut leader, mut killed) = (None, 0);
    for event in history.iter() {
        match &event.what {
            What::Leading { .. } => leader = Some(event.node.clone()),
            What::SteppedDown { .. } if leader.as_ref() == Some(&event.node) => leader = None,
            What::NodeCrashed { .. } if leader.as_ref() == Some(&event.node) => {
                (leader, killed) = (None, killed + 1);
            }
            _ => {}
        }
    }
    killed
}

/// What may never be, whoever died.
fn assert_kept(run: &Run) {
    assert_eq!(run.ending.stuck, None, "{}", told(run));
    let never = [
        Kind::GrantLost,
        Kind::DoubleGrant,
        Kind::BroadcastBroken,
        Kind::TokenRegression,
        Kind::WrongRelease,
    ];
    for kind in never {
        assert!(!run.judgement.found(kind), "seed {}: {}: {}", run.plan.seed, kind.id(), told(run));
    }
    if run.plan.fence == Fence::Full {
        let violations = run.judgement.violations().count();
        assert_eq!(violations, 0, "seed {}: {}", run.plan.seed, told(run));
    }
}

#[derive(Default)]
struct Tally {
    storms: u64,
    killed: usize,
    grants: usize,
    sessions_ended: usize,
    kinds: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn add(&mut self, run: &Run) {
        self.storms += 1;
        self.killed += leaders_killed(&run.history);
        self.grants += grants(run).len();
        let ends = run.history.iter();
        self.sessions_ended +=
            ends.filter(|event| matches!(event.what, What::SessionExpired { .. })).count();
        for kind in run.judgement.kinds() {
            *self.kinds.entry(kind.id()).or_default() += 1;
        }
    }

    fn tell(&self, engine: &dyn Engine) {
        println!(
            "{}: {} storms, {} leaders killed, {} grants, {} sessions ended with a place; \
             found {:?}",
            engine.title(),
            self.storms,
            self.killed,
            self.grants,
            self.sessions_ended,
            self.kinds
        );
    }
}

fn campaign(engine: &dyn Engine, seeds: std::ops::Range<u64>) -> Tally {
    install_senses();
    let mut tally = Tally::default();
    for seed in seeds {
        let run = storm::run(&plan(seed), engine);
        assert_kept(&run);
        tally.add(&run);
    }
    tally.tell(engine);
    tally
}

#[test]
fn no_grant_is_lost_with_its_leader_and_none_is_promised_twice() {
    let storms = Environment::get().seeds.unwrap_or(24);
    let first = Environment::get().seed.map_or(0, |seed| seed.0);
    let tally = campaign(&EventEngine, first..first + storms);
    assert!(tally.killed as u64 >= 3 * storms, "{} leaders killed", tally.killed);
}

#[test]
fn nor_under_turmoil() {
    let tally = campaign(&Turmoil::default(), 0..4);
    assert!(tally.killed >= 8, "{} leaders killed", tally.killed);
}
