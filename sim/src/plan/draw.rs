//! Plans drawn from a seed.
//!
//! Swarm testing: each *family* of faults is in or out of a plan by a draw of its
//! own, so that storms differ in kind and not only in degree. Every family draws
//! from streams of its own (`plan/…`, by entity), so a new family, or one client
//! more, moves no draws of the others.
//!
//! Faults are anchored to events of clients wherever that makes sense ("just after
//! app-2's 5th acquire was applied"), because such a plan does the same on another
//! engine, where times differ a little.
//!
//! What a seed draws is a promise to whoever was told of it, so a wider choice is another
//! set of draws ([`Draws`]) and not another meaning of the same seeds.
//!
//! Order of things: [`Plan::from_seed`], the conditions of work (`Weather` is what
//! families share), clocks, and the families in `families` and `ensemble` and, for the wide
//! draws, in `wide`; [`alone`] has those that strike alone.

pub mod alone;
mod database;
mod ensemble;
mod families;
mod wide;

use serde::{Deserialize, Serialize};

use super::file;
use super::rules;
use super::scenario;
use super::{
    Anchor, ClockPlan, Fence, Micros, Operation, Phase, Plan, PlanError, STOCK_NODE, Seed,
    StockPlace, When, app_node,
};
use crate::draw::Draw;
use families::{FAMILIES, Family};
use wide::WIDE_FAMILIES;

/// What seeds draw from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draws {
    /// Crashes, pauses, cuts, slow links, lag, clocks.
    #[default]
    First,
    /// The same draws, and beside them bursts of faults, partitions that cut and heal node
    /// by node, resets, cancelled futures, hangs, and frozen and slewed clocks.
    Wide,
}

impl Draws {
    /// As flags and files write it.
    pub fn name(self) -> &'static str {
        match self {
            Draws::First => "first",
            Draws::Wide => "wide",
        }
    }

    /// What is drawn beside the first families.
    fn families_beside(self) -> &'static [Family] {
        match self {
            Draws::First => &[],
            Draws::Wide => WIDE_FAMILIES,
        }
    }
}

impl Plan {
    /// The plan that `seed` draws for this scenario, lock and fence.
    ///
    /// # Errors
    /// Unknown names; a fence for a lock that has no tokens.
    pub fn from_seed(
        scenario: &str,
        lock: &str,
        fence: Fence,
        seed: Seed,
    ) -> Result<Plan, PlanError> {
        Ok(drawn(Draws::First, scenario::default_plan(scenario, lock, fence)?, seed))
    }

    /// Likewise, with settings that the draws keep to (`("lock.lease", "2s")`): they
    /// are applied before, so that faults are drawn to measure, and win over what is
    /// drawn.
    ///
    /// # Errors
    /// Those of [`Plan::from_seed`] and of [`Plan::with_settings`].
    pub fn from_seed_with(
        scenario: &str,
        lock: &str,
        fence: Fence,
        seed: Seed,
        settings: &[(&str, &str)],
    ) -> Result<Plan, PlanError> {
        let base = scenario::default_plan(scenario, lock, fence)?;
        Plan::from_seed_by(Draws::First, base, seed, settings)
    }

    /// What `seed` draws by `draws` for the storm of `base`, which has no faults, with
    /// settings as in [`Plan::from_seed_with`].
    ///
    /// # Errors
    /// Those of [`Plan::with_settings`].
    pub fn from_seed_by(
        draws: Draws,
        base: Plan,
        seed: Seed,
        settings: &[(&str, &str)],
    ) -> Result<Plan, PlanError> {
        drawn(draws, base.with_settings(settings)?, seed).with_settings(settings)
    }

    /// One setting changed, as by `--set lock.lease=2s`.
    ///
    /// # Errors
    /// Unknown settings, values that cannot be, a plan that becomes impossible; the
    /// place is the flag.
    pub fn with_set(self, key: &str, value: &str) -> Result<Plan, PlanError> {
        self.with_settings(&[(key, value)])
    }

    /// The same plan with what flags say: another lock (what only the old one had is at its
    /// default again), another fence, other settings; judged together at the end, for one of
    /// them may need another.
    ///
    /// # Errors
    /// At the flag: unknown names, and what is not possible with the rest of the plan.
    pub fn with_changes(
        mut self,
        lock: Option<&str>,
        fence: Option<Fence>,
        settings: &[(&str, &str)],
    ) -> Result<Plan, PlanError> {
        if let Some(name) = lock {
            let lock = scenario::find_lock(name);
            let lock = lock.map_err(|complaint| PlanError::named("--lock", complaint))?;
            lock.name.clone_into(&mut self.lock.name);
            self.lock.own = self.lock.own.only_of(lock.name);
        }
        self.fence = fence.unwrap_or(self.fence);
        for (key, value) in settings {
            file::setting::apply(&mut self, key, value)?;
        }
        let Err(problem) = rules::first_problem(&self) else { return Ok(self) };
        let is_at = |name: &str| problem.at.iter().any(|at| at == name);
        let flag = match (lock, fence) {
            _ if settings.iter().any(|(name, _)| is_at(name)) => None,
            (_, Some(_)) if is_at("fence") => Some("--fence"),
            (Some(_), _) => Some("--lock"),
            _ => None,
        };
        match flag {
            Some(flag) => Err(PlanError::named(flag, problem.complaint)),
            None => file::setting::judge(&self, settings).map(|()| self),
        }
    }

    /// Several settings changed, judged together at the end.
    ///
    /// # Errors
    /// Those of [`Plan::with_set`].
    pub fn with_settings(mut self, settings: &[(&str, &str)]) -> Result<Plan, PlanError> {
        for (key, value) in settings {
            file::setting::apply(&mut self, key, value)?;
        }
        file::setting::judge(&self, settings)?;
        Ok(self)
    }
}

/// Draws conditions, clocks and faults for a plan that has none. Clients that are absent are
/// so from what would be drawn with them.
fn drawn(draws: Draws, mut plan: Plan, seed: Seed) -> Plan {
    let absent = std::mem::take(&mut plan.topology.absent);
    let mut plan = drawn_for_all(draws, plan, seed);
    absent.into_iter().map(app_node).for_each(|client| plan.take_out_client(&client));
    plan
}

fn drawn_for_all(draws: Draws, mut plan: Plan, seed: Seed) -> Plan {
    plan.seed = seed;
    conditions(&mut plan);
    plan.clocks = clocks(&plan);
    let weather = Weather { plan: &plan };
    let at_home: Vec<&Family> = FAMILIES.iter().filter(|family| (family.at_home)(&plan)).collect();
    let struck = |family: &&&Family| {
        weather.draw(family.name, "in").chance(u64::from((family.in_thousand)(&plan)))
    };
    let mut chosen: Vec<&Family> = at_home.iter().filter(struck).copied().collect();
    if chosen.is_empty() {
        // A storm without a fault says nothing.
        chosen.extend(weather.draw("plan/at-least-one", "").pick(&at_home));
    }
    let beside = draws.families_beside().iter().filter(|family| (family.at_home)(&plan));
    chosen.extend(beside.filter(|family| struck(&family)));
    let faults = chosen
        .iter()
        .flat_map(|family| (family.strike)(&weather, &mut weather.draw(family.name, "what")))
        .collect();
    plan.faults = faults;
    plan
}

/// How the clients and links are in this storm.
fn conditions(plan: &mut Plan) {
    let seed = plan.seed.0;
    let pick = |purpose: &str, choices: &[u64]| {
        Draw::new(seed, purpose, "").pick(choices).copied().unwrap_or(1)
    };
    let topology = &mut plan.topology;
    // Halved, as it is, or up to four times.
    topology.latency.0 = (topology.latency.0 * pick("plan/latency", &[2, 4, 4, 8, 16]) / 4).max(1);
    let sigma = u64::from(topology.latency_sigma_milli) * pick("plan/sigma", &[1, 2, 2, 4]) / 2;
    topology.latency_sigma_milli = u32::try_from(sigma).unwrap_or(u32::MAX).min(1_500);
    let work = &mut plan.workload;
    let slow = u64::from(work.slow_per_mille) * pick("plan/slow", &[1, 2, 2, 4]) / 2;
    work.slow_per_mille = u32::try_from(slow).unwrap_or(u32::MAX).min(1_000);
    // Some clients do not look at their deadline. They are harmless while nothing
    // goes wrong only if their slowest work fits into the lease.
    let slowest_us = work.slow_work.0.max(work.work.0) / 2 * 3;
    let careless = Draw::new(seed, "plan/deadline-check", "").chance(300);
    if careless && slowest_us < plan.lock.lease.0 / 10 * 9 {
        work.deadline_check = false;
    }
}

/// Clocks that are not true from the start: often a little fast or slow, which must
/// not matter, and set a little wrong.
fn clocks(plan: &Plan) -> Vec<ClockPlan> {
    const COMMON_PPM: u64 = 500;
    const COMMON_OFFSET_MS: u64 = 2_000;
    const GRAIN: u64 = 10;
    let seed = plan.seed.0;
    let rates = Draw::new(seed, "plan/clock-rates", "in").chance(300);
    let offsets = Draw::new(seed, "plan/clock-offsets", "in").chance(200);
    let mut clocks = Vec::new();
    // Nothing depends on the stock's clock.
    for node in plan.topology.nodes().into_iter().filter(|node| node != STOCK_NODE) {
        let mut rate = Draw::new(seed, "plan/clock-rates", &node);
        let mut offset = Draw::new(seed, "plan/clock-offsets", &node);
        let around = |draw: &mut Draw, most: u64| {
            let drawn = draw.below(2 * most / GRAIN + 1) * GRAIN;
            i64::try_from(drawn).unwrap_or(0) - i64::try_from(most).unwrap_or(0)
        };
        let clock = ClockPlan {
            rate_ppm: if rates { around(&mut rate, COMMON_PPM) } else { 0 },
            offset_us: if offsets { 1_000 * around(&mut offset, COMMON_OFFSET_MS) } else { 0 },
            node,
        };
        if clock.rate_ppm != 0 || clock.offset_us != 0 {
            clocks.push(clock);
        }
    }
    clocks
}

/// What all families draw from: the plan so far.
struct Weather<'a> {
    plan: &'a Plan,
}

/// A client's attempt, as the place and time of an incident.
struct Target {
    client: String,
    ordinal: u32,
    /// Whether the lock keeps a record that is applied somewhere.
    records: bool,
    /// Whether the resource tells of what is read of it.
    tells_reads: bool,
    /// Whether the client only reads.
    only_reads: bool,
}

impl Target {
    fn after(&self, operation: Operation, phase: Phase, delay: Micros) -> When {
        // What is read after the grant is read at once.
        let (operation, phase) = match operation {
            Operation::Read if !self.tells_reads => (Operation::Acquire, Phase::Returned),
            _ => (operation, phase),
        };
        let phase = match (operation, phase) {
            (Operation::Acquire | Operation::Release, Phase::Applied) if !self.records => {
                Phase::Returned
            }
            _ => phase,
        };
        let operation = match operation {
            Operation::Sell if self.only_reads => Operation::Read,
            _ => operation,
        };
        When::After { anchor: Anchor::new(&self.client, operation, self.ordinal, phase), delay }
    }
}

impl Weather<'_> {
    fn draw(&self, purpose: &str, entity: &str) -> Draw {
        Draw::new(self.plan.seed.0, purpose, entity)
    }

    /// An attempt in the first half of the storm, so that time is left to see what
    /// becomes of it.
    fn target(&self, draw: &mut Draw) -> Target {
        const LATEST: u64 = 20;
        let work = &self.plan.workload;
        let slow_us = work.slow_work.0 / 1_000 * u64::from(work.slow_per_mille);
        // Its own section, and about as long a wait for those of others.
        let cycle_us = (work.think.0 + 2 * (work.work.0 + slow_us)).max(1);
        let latest = (self.plan.duration.0 / 2 / cycle_us).clamp(1, LATEST);
        let client = 1 + draw.below(u64::from(self.plan.topology.apps));
        let ordinal = draw.between(1, latest + 1);
        let client = format!("app-{client}");
        Target {
            only_reads: self.plan.reads(&client),
            client,
            ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
            records: scenario::find_lock(&self.plan.lock.name).is_ok_and(|lock| lock.records),
            tells_reads: work.stock == StockPlace::Memory,
        }
    }

    /// A begin: mostly at some moment of an acquire, else at any time of the first
    /// three fifths.
    fn begin(&self, draw: &mut Draw) -> When {
        let target = self.target(draw);
        let phases = [Phase::Invoked, Phase::Applied, Phase::Returned];
        let phase = draw.pick(&phases).copied().unwrap_or(Phase::Applied);
        let delay = self.time(draw, 0, 50_000);
        let at = self.time(draw, self.plan.duration.0 / 20, self.plan.duration.0 / 5 * 3);
        if draw.chance(750) { target.after(Operation::Acquire, phase, delay) } else { When::At(at) }
    }

    /// A time in `from_us..to_us`, rounded for readers, and short enough to end
    /// within the storm.
    fn time(&self, draw: &mut Draw, from_us: u64, to_us: u64) -> Micros {
        let us = draw.between(from_us, to_us);
        let grain_us = match us {
            0..1_000 => 100,
            1_000..1_000_000_000 => 1_000,
            _ => 1_000_000,
        };
        let most_us = self.plan.duration.0 / 5 * 3;
        Micros((us / grain_us * grain_us).min(most_us))
    }

    /// A length between these shares of the storm, thousandths.
    fn share(&self, draw: &mut Draw, from: u64, to: u64) -> Micros {
        let whole = self.plan.duration.0 / 1_000;
        self.some(draw, whole * from, whole * to)
    }

    /// Like [`Weather::time`], and never nothing.
    fn some(&self, draw: &mut Draw, from_us: u64, to_us: u64) -> Micros {
        let Micros(us) = self.time(draw, from_us, to_us);
        Micros(us.max(100))
    }
}

#[cfg(test)]
mod tests;
