//! Runs written by hand, for the tests of reports: histories as a storm writes them,
//! judged by the real checkers.

use lockstorm::lock::Release;

use crate::check::{self, Judgement, Setting, Verdict};
use crate::engine::Ending;
use crate::history::recorder::TraceHash;
use crate::history::{
    AcquireOutcome, Attempt, BeliefEnd, Event, EventId, FaultFamily, History, Name, StockOperation,
    What,
};
use crate::plan::{
    Anchor, ClockPlan, Fault, FaultKind, Fence, Micros, Operation, Phase, Plan, Seed, When,
    scenario,
};
use crate::storm::Run;

const KEY: &str = "lock:sku-42";

/// A history that is being written; times in µs.
#[derive(Default)]
struct Writer {
    history: History,
    now_us: u64,
    lease_us: u64,
}

impl Writer {
    fn at(&mut self, now_us: u64) -> &mut Self {
        assert!(now_us >= self.now_us, "time goes forwards");
        self.now_us = now_us;
        self
    }

    fn say(&mut self, node: &str, what: What) -> &mut Self {
        let id = EventId(self.history.events.len() as u64);
        let event = Event { id, at_us: self.now_us, node: node.into(), cause: None, what };
        self.history.events.push(event);
        self
    }

    fn ask(&mut self, who: &str) -> &mut Self {
        let (attempt, key) = (attempt(who), KEY.into());
        self.say(&client(who), What::AcquireInvoked { attempt, key, shared: false })
    }

    fn set(&mut self, node: &str, who: &str) -> &mut Self {
        let (key, owner, lease_us) = (KEY.into(), who.into(), Some(self.lease_us));
        self.say(node, What::RecordSet { key, owner, lease_us, shared: false })
    }

    fn granted(&mut self, who: &str, token: Option<u64>) -> &mut Self {
        let (lease_us, margin_us) = (self.lease_us, self.lease_us / 100);
        let outcome = AcquireOutcome::Granted { token, lease_us, margin_us };
        let (attempt, key) = (attempt(who), KEY.into());
        self.say(&client(who), What::AcquireReturned { attempt, key, outcome })
    }

    fn effect(
        &mut self,
        who: &str,
        token: Option<u64>,
        operation: StockOperation,
        refusal: Option<&str>,
    ) -> &mut Self {
        let (owner, accepted) = (who.into(), refusal.is_none());
        let refusal = refusal.map(Into::into);
        self.say("stock-1", What::Effect { owner, token, operation, accepted, refusal })
    }

    fn read(&mut self, who: &str, token: Option<u64>, left: u32) -> &mut Self {
        let next_unit = (left > 0).then_some(1);
        self.effect(who, token, StockOperation::Read { left, next_unit }, None)
    }

    fn sell(&mut self, who: &str, token: Option<u64>) -> &mut Self {
        self.effect(who, token, StockOperation::Sell { unit: 1, order: who.into() }, None)
    }

    fn release(&mut self, who: &str, deletes_at: Option<&str>) -> &mut Self {
        self.say(&client(who), What::ReleaseInvoked { attempt: attempt(who) });
        if let Some(node) = deletes_at {
            let (key, owner) = (KEY.into(), who.into());
            self.say(node, What::RecordReleased { key, owner });
        }
        let release = if deletes_at.is_some() { Release::Released } else { Release::NotHeld };
        self.say(&client(who), What::ReleaseReturned { attempt: attempt(who), release })
    }

    fn told(&mut self, who: &str) -> &mut Self {
        let (attempt, reason) = (attempt(who), BeliefEnd::Told);
        self.say(&client(who), What::BeliefEnded { attempt, reason })
    }

    /// A fault of `plan` begins.
    fn begin(&mut self, plan: &Plan, fault: usize, family: FaultFamily) -> &mut Self {
        let kind = &plan.faults[fault].kind;
        let description = crate::fault::narration(kind);
        let targets = crate::fault::targets(kind);
        let node = targets[0].clone();
        self.say(&node, What::FaultBegan { fault, family, targets, description })
    }

    fn touch(&mut self, plan: &Plan, fault: usize, how: &str) -> &mut Self {
        let how = how.to_owned();
        let node = crate::fault::targets(&plan.faults[fault].kind)[0].clone();
        self.say(&node, What::FaultTouched { fault, how })
    }

    /// One client that nothing happens to.
    fn passes_by(&mut self, who: &str, node: &str) -> &mut Self {
        self.ask(who).set(node, who).granted(who, None).release(who, Some(node))
    }

    fn end(&mut self, units: u32, sales: &[&str]) -> History {
        let sales = sales.iter().map(|order| (1, (*order).into())).collect();
        self.say("storm", What::Healed);
        self.say("stock-1", What::Ledger { units, sales });
        self.history.ended_us = self.now_us;
        std::mem::take(&mut self.history)
    }
}

fn attempt(text: &str) -> Attempt {
    Attempt::parse(text).unwrap()
}

fn client(who: &str) -> String {
    attempt(who).client.to_string()
}

fn plan(fence: Fence, lease: Micros, faults: Vec<Fault>) -> Plan {
    let mut plan = scenario::default_plan("redis-failover", "redis", fence).unwrap();
    plan.seed = Seed(0x5eed_0000_0000_002a);
    plan.lock.lease = lease;
    plan.workload.units = 1;
    plan.faults = faults;
    plan
}

fn fault(kind: FaultKind, at: Micros) -> Fault {
    Fault { kind, when: When::At(at), lasts: None }
}

fn judged(plan: Plan, history: History) -> Run {
    let setting = Setting {
        fence: plan.fence,
        takeover_bound_us: Some(30_000_000),
        faults: plan.faults.len(),
        ..Setting::default()
    };
    let judgement = check::judge(&history, &setting);
    Run { setting, ..run(plan, history, judgement, None) }
}

fn run(plan: Plan, history: History, judgement: Judgement, stuck: Option<&str>) -> Run {
    let mut trace_hash = TraceHash([0; 32]);
    trace_hash.0[..8].copy_from_slice(&[0x0b, 0xad, 0xca, 0xfe, 0, 1, 2, 3]);
    let stuck = stuck.map(ToOwned::to_owned);
    let ending = Ending { steps: 18_204, messages: 2_311, stuck, ..Ending::default() };
    let (engine, engine_name) = ("event 0.1.0", "event");
    let setting = Setting::default();
    Run {
        plan,
        engine,
        engine_name,
        history,
        trace_hash,
        setting,
        judgement,
        ending,
        connections: None,
    }
}

/// A lock is acknowledged, its replication stalls, its master dies: a replica without
/// the record is promoted.
fn lost(fence: Fence) -> (Plan, Writer) {
    let stall = FaultKind::ReplicationStall { node: "redis-1".to_owned() };
    let crash = FaultKind::ProcessCrash { node: "redis-1".to_owned() };
    let faults =
        vec![fault(stall, Micros::from_millis(2_050)), fault(crash, Micros::from_millis(2_300))];
    let plan = plan(fence, Micros::from_secs(5), faults);
    let mut writer = Writer { lease_us: 5_000_000, ..Writer::default() };
    writer
        .at(900_000)
        .passes_by("app-3/1", "redis-1")
        .at(1_500_000)
        .passes_by("app-1/2", "redis-1");
    writer.at(2_050_000).begin(&plan, 0, FaultFamily::ReplicationStall);
    let token = (fence != Fence::Off).then_some(7);
    writer.at(2_099_480).ask("app-1/3").at(2_100_040).set("redis-1", "app-1/3");
    writer.touch(&plan, 0, "redis-1 answered a client before its replicas could know");
    writer.at(2_100_640).granted("app-1/3", token);
    writer.at(2_101_700).read("app-1/3", token, 1);
    writer.at(2_300_000).begin(&plan, 1, FaultFamily::ProcessCrash);
    writer.say("redis-1", What::NodeCrashed { machine: false }).touch(&plan, 1, "redis-1 is down");
    writer.at(3_301_250).say("sentinel-1", What::MasterDown { master: "redis-1:6379".to_owned() });
    writer.at(3_305_100).say("redis-2", What::Promoted { offset: 117, records: Vec::new() });
    let (from, to) = ("redis-1:6379".to_owned(), "redis-2:6379".to_owned());
    writer.at(3_305_900).say("sentinel-1", What::MasterSwitched { from, to });
    (plan, writer)
}

/// A replication lag loses the lock, and the only unit is sold twice.
pub fn replication_lag() -> Run {
    replication_lag_among(0)
}

/// The same, and the first holder stands still so many times before it sells.
pub fn replication_lag_among(pauses: usize) -> Run {
    let (mut plan, mut writer) = lost(Fence::Off);
    writer.at(3_309_700).ask("app-2/2").at(3_310_010).set("redis-2", "app-2/2");
    writer.at(3_310_500).granted("app-2/2", None).at(3_311_900).read("app-2/2", None, 1);
    writer.at(3_345_000).sell("app-2/2", None).at(3_360_000).release("app-2/2", Some("redis-2"));
    for number in 0..pauses {
        let (fault_number, now_us) = (plan.faults.len(), 3_400_000 + 50_000 * number as u64);
        let kind = FaultKind::Pause { node: "app-1".to_owned(), group: None };
        plan.faults.push(fault(kind, Micros(now_us)));
        writer.at(now_us).begin(&plan, fault_number, FaultFamily::Pause);
        writer.at(now_us + 10_000).touch(&plan, fault_number, "app-1 had something to do");
        writer.at(now_us + 20_000).say("app-1", What::FaultEnded { fault: fault_number });
    }
    writer.at(4_100_300).sell("app-1/3", None).at(4_150_000).release("app-1/3", None);
    let history = writer.at(10_600_000).end(1, &["app-1/3", "app-2/2"]);
    judged(plan, history)
}

/// The same, and while the first holder works its clock begins to run fast, as a fault of the
/// plan, and that of the new master by itself.
pub fn replication_lag_beside_clocks() -> Run {
    let mut run = replication_lag();
    let kind = FaultKind::ClockRate { node: "app-1".to_owned(), ppm: 50_000 };
    run.plan.faults.push(fault(kind, Micros(3_400_000)));
    let place = run.history.events.iter().position(|event| event.at_us > 3_400_000).unwrap();
    let (before, after) = run.history.events.split_at(place);
    let events = before.to_vec();
    let history = History { events, ..History::default() };
    let mut writer = Writer { history, now_us: 3_400_000, lease_us: 5_000_000 };
    writer.begin(&run.plan, 2, FaultFamily::ClockRate);
    let changed = || What::ClockChanged { offset_us: 0, rate_ppm: 50_000 };
    writer.say("app-1", changed()).say("redis-2", changed());
    writer.touch(&run.plan, 2, "app-1 read its clock");
    for Event { at_us, node, what, .. } in after {
        writer.at(*at_us).say(node, what.clone());
    }
    writer.history.ended_us = run.history.ended_us;
    judged(run.plan, writer.history)
}

/// The same, with a fence: the counter of tokens is lost with the record.
pub fn replication_lag_fenced() -> Run {
    let (plan, mut writer) = lost(Fence::Full);
    writer.at(3_309_700).ask("app-2/2").at(3_310_010).set("redis-2", "app-2/2");
    writer.at(3_310_500).granted("app-2/2", Some(7));
    let read = StockOperation::Read { left: 1, next_unit: None };
    let refusal = Some("token 7 has been seen of app-1/3");
    writer.at(3_311_900).effect("app-2/2", Some(7), read, refusal).at(3_312_400).told("app-2/2");
    writer.at(3_313_000).release("app-2/2", Some("redis-2"));
    writer.at(3_900_000).ask("app-3/2").at(3_900_400).set("redis-2", "app-3/2");
    writer.at(3_900_900).granted("app-3/2", Some(8)).at(3_901_500).read("app-3/2", Some(8), 1);
    writer.at(3_931_000).sell("app-3/2", Some(8)).at(3_932_000).release("app-3/2", Some("redis-2"));
    let sell = StockOperation::Sell { unit: 1, order: "app-1/3".into() };
    let refusal = Some("token 7 is older than 8, which has been seen");
    writer.at(4_100_300).effect("app-1/3", Some(7), sell, refusal).at(4_100_800).told("app-1/3");
    writer.at(4_150_000).release("app-1/3", None);
    let history = writer.at(10_600_000).end(1, &["app-3/2"]);
    judged(plan, history)
}

/// A holder stands still beyond its lease and sells what another has sold.
pub fn pause_beyond_the_lease() -> Run {
    paused_beyond_the_lease(None)
}

/// The same; and the server stands still from when it has the request on, and has something to do
/// at this time.
pub fn a_pause_between_a_request_and_its_reply(touched_us: u64) -> Run {
    paused_beyond_the_lease(Some(touched_us))
}

fn paused_beyond_the_lease(server_touched_us: Option<u64>) -> Run {
    let pause = |node: &str, at| fault(FaultKind::Pause { node: node.to_owned(), group: None }, at);
    let mut faults = vec![pause("app-1", Micros(1_010_000))];
    faults.extend(server_touched_us.map(|_| pause("redis-1", Micros(1_000_600))));
    let plan = plan(Fence::Off, Micros::from_secs(1), faults);
    let mut writer = Writer { lease_us: 1_000_000, ..Writer::default() };
    writer.at(500_000).passes_by("app-3/1", "redis-1");
    writer.at(1_000_000).ask("app-1/1").at(1_000_500).set("redis-1", "app-1/1");
    let is_before = |touched_us: u64| touched_us < 1_001_000;
    if let Some(touched_us) = server_touched_us {
        writer.at(1_000_600).begin(&plan, 1, FaultFamily::Pause);
        if is_before(touched_us) {
            writer.at(touched_us).touch(&plan, 1, "redis-1 had something to do and did not");
        }
    }
    writer.at(1_001_000).granted("app-1/1", None);
    if let Some(touched_us) = server_touched_us.filter(|touched_us| !is_before(*touched_us)) {
        writer.at(touched_us).touch(&plan, 1, "redis-1 had something to do and did not");
    }
    writer.at(1_002_000).read("app-1/1", None, 1);
    writer.at(1_010_000).begin(&plan, 0, FaultFamily::Pause);
    writer.at(1_032_000).touch(&plan, 0, "app-1 had something to do and did not");
    let (key, owner) = (KEY.into(), "app-1/1".into());
    writer.at(2_000_500).say("redis-1", What::RecordExpired { key, owner });
    writer.at(2_010_000).ask("app-2/1").at(2_010_400).set("redis-1", "app-2/1");
    writer.at(2_010_900).granted("app-2/1", None).at(2_012_000).read("app-2/1", None, 1);
    writer.at(2_040_000).sell("app-2/1", None).at(2_041_000).release("app-2/1", Some("redis-1"));
    writer.at(2_510_000).say("app-1", What::FaultEnded { fault: 0 });
    writer.at(2_510_600).sell("app-1/1", None).at(2_512_000).release("app-1/1", None);
    let history = writer.at(10_200_000).end(1, &["app-1/1", "app-2/1"]);
    judged(plan, history)
}

/// A server whose clock runs fast ends the lease early.
pub fn fast_clock() -> Run {
    let mut plan = plan(Fence::Off, Micros::from_secs(10), Vec::new());
    plan.workload.units = 400;
    plan.clocks =
        vec![ClockPlan { node: "redis-1".to_owned(), offset_us: 250_000, rate_ppm: 50_000 }];
    let mut writer = Writer { lease_us: 10_000_000, ..Writer::default() };
    writer.at(1_000_000).ask("app-1/1").at(1_000_500).set("redis-1", "app-1/1");
    writer.at(1_001_000).granted("app-1/1", None).at(1_002_000).read("app-1/1", None, 400);
    let (key, owner) = (KEY.into(), "app-1/1".into());
    writer.at(10_524_300).say("redis-1", What::RecordExpired { key, owner });
    writer.at(10_524_300).ask("app-2/1").set("redis-1", "app-2/1");
    writer.at(10_524_900).granted("app-2/1", None).at(10_526_000).read("app-2/1", None, 400);
    writer.at(10_700_000).sell("app-1/1", None).at(10_720_000).sell("app-2/1", None);
    writer.at(10_721_000).release("app-2/1", Some("redis-1")).release("app-1/1", None);
    let history = writer.at(13_000_000).end(400, &["app-1/1", "app-2/1"]);
    judged(plan, history)
}

/// Nobody releases and the record never expires: nobody gets the lock again.
pub fn leak() -> Run {
    let crash = FaultKind::ProcessCrash { node: "app-1".to_owned() };
    let plan = plan(Fence::Off, Micros::from_secs(5), vec![fault(crash, Micros(2_000_000))]);
    let mut writer = Writer { lease_us: 5_000_000, ..Writer::default() };
    writer.at(900_000).passes_by("app-3/1", "redis-1");
    let (key, owner) = (KEY.into(), "app-1/1".into());
    writer.at(1_990_000).ask("app-1/1");
    let set = What::RecordSet { key, owner, lease_us: None, shared: false };
    writer.at(1_990_500).say("redis-1", set);
    writer.at(1_991_000).granted("app-1/1", None);
    writer.at(2_000_000).begin(&plan, 0, FaultFamily::ProcessCrash);
    writer.say("app-1", What::NodeCrashed { machine: false }).touch(&plan, 0, "app-1 is down");
    writer.at(10_000_000).say("storm", What::Healed);
    for second in 11..48 {
        let (key, owner) = (Name::from(KEY), Name::from(format!("app-2/{}", second - 10)));
        writer.at(second * 1_000_000).ask(&owner);
        let held_by = "app-1/1".into();
        let (attempt, outcome) = (attempt(&owner), AcquireOutcome::TimedOut);
        writer.say("redis-1", What::RecordRefused { key: key.clone(), owner, held_by });
        writer.say("app-2", What::AcquireReturned { attempt, key, outcome });
    }
    let (units, sales) = (1, Vec::new());
    writer.at(50_000_000).say("stock-1", What::Ledger { units, sales });
    let mut history = std::mem::take(&mut writer.history);
    history.ended_us = 50_000_000;
    judged(plan, history)
}

/// Two faults, one of which touched nothing while the other never began.
pub fn inert() -> Run {
    let pause = FaultKind::Pause { node: "app-3".to_owned(), group: None };
    let crash = FaultKind::MachineCrash { node: "redis-1".to_owned() };
    let anchor = Anchor::new("app-1", Operation::Acquire, 90, Phase::Applied);
    let never = When::After { anchor, delay: Micros::from_millis(5) };
    let faults = vec![
        fault(pause, Micros::from_millis(1_500)),
        Fault { kind: crash, when: never, lasts: Some(Micros::from_millis(400)) },
    ];
    let plan = plan(Fence::Off, Micros::from_secs(5), faults);
    let mut writer = Writer { lease_us: 5_000_000, ..Writer::default() };
    writer.at(900_000).passes_by("app-1/1", "redis-1");
    writer.at(1_500_000).begin(&plan, 0, FaultFamily::Pause);
    writer.at(1_900_000).passes_by("app-2/1", "redis-1");
    let history = writer.at(10_100_000).end(1, &[]);
    judged(plan, history)
}

/// One client alone: nothing was handed over.
pub fn unknown() -> Run {
    let plan = plan(Fence::Off, Micros::from_secs(5), Vec::new());
    let mut writer = Writer { lease_us: 5_000_000, ..Writer::default() };
    writer.at(900_000).passes_by("app-1/1", "redis-1");
    let history = writer.at(10_100_000).end(1, &[]);
    judged(plan, history)
}

/// Two servers' programs end by themselves, and nothing starts them again.
pub fn ended() -> Run {
    let plan = plan(Fence::Off, Micros::from_secs(5), Vec::new());
    let mut writer = Writer { lease_us: 5_000_000, ..Writer::default() };
    writer.at(900_000).passes_by("app-1/1", "redis-1");
    for (node, how) in [
        ("redis-1", "its append-only file cannot be synchronised"),
        ("redis-2", "its master writes what it cannot keep"),
    ] {
        let ended = What::ProgramEnded { how: how.to_owned() };
        writer.at(writer.now_us + 100_000).say(node, ended);
    }
    let history = writer.at(10_100_000).end(1, &[]);
    judged(plan, history)
}

/// A run without faults in which all is well.
pub fn safe() -> Run {
    let plan = plan(Fence::Off, Micros::from_secs(5), Vec::new());
    let mut writer = Writer { lease_us: 5_000_000, ..Writer::default() };
    writer.at(900_000).passes_by("app-1/1", "redis-1");
    writer.at(1_900_000).passes_by("app-2/1", "redis-1");
    let history = writer.at(10_100_000).end(1, &[]);
    judged(plan, history)
}

/// A run that was not judged, and why.
pub fn not_judged(verdict: Verdict, why: &str) -> Run {
    let judgement = Judgement { verdict, ..Judgement::internal() };
    let mut run = run(inert().plan, History::default(), judgement, Some(why));
    run.trace_hash = TraceHash([0; 32]);
    run.ending.steps = 0;
    run
}
