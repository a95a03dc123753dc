//! Storms as tests: the builder that a `#[test]` uses.
//!
//! ```no_run
//! # use lockstorm_sim::storm::Storm;
//! # use lockstorm_sim::plan::Fence;
//! Storm::new("redis-failover").lock("redis").fence(Fence::Full).seeds(200).run();
//! ```
//!
//! [`Storm::run`] panics with a block that says what happened, why, and with which
//! one line it happens again; [`Storm::outcome`] only counts. The environment can
//! narrow a storm: `LOCKSTORM_SEED` to one seed, `LOCKSTORM_PLAN` to one plan,
//! `LOCKSTORM_SEEDS` to a number of seeds, `LOCKSTORM_ENGINE` to an engine; or have it go on
//! (`LOCKSTORM_FOR`) and keep the plan of what fails (`LOCKSTORM_OUT`); see
//! [`super::environment`].

mod telling;

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::environment::Environment;
use super::locks::{self, LockFactory};
use super::repeat::{self, Repetition, Site, Tested};
use super::watchdog::Watchdog;
use super::{ENGINES, Run, engine, run_with};
use crate::check::{Kind, Verdict};
use crate::engine::Engine;
use crate::own::section::Section;
use crate::own::{self, Failure, Inside, Node, OwnLock};
use crate::plan::scenario::{LockKind, OWN_LOCK, default_lock, find_lock};
use crate::plan::{Fence, Plan, PlanError, Seed};
use crate::report::Tally;
use crate::report::layout::counted;

/// A storm to be run by a test.
#[derive(Clone)]
pub struct Storm {
    scenario: String,
    lock: String,
    fence: Fence,
    engine: String,
    first_seed: u64,
    seeds: u64,
    faults: bool,
    twice: bool,
    settings: Vec<(String, String)>,
    plan: Option<Plan>,
    factory: LockFactory,
    section: Option<Section>,
    /// Where in the test's code what is under test was brought in, if it is not ours.
    site: Option<Site>,
    replays: u32,
    limit: Duration,
}

/// How long a run may take, of real time, unless the storm says otherwise.
const LIMIT: Duration = Duration::from_secs(300);

/// What a storm over many seeds came to.
#[derive(Debug)]
pub struct Outcome {
    /// How many plans were run.
    pub runs: u64,
    /// How many of them ended so.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// In how many of them each kind was found, advisories included.
    pub kinds: BTreeMap<Kind, u64>,
    /// In how many of them each kind was a violation.
    pub violations: BTreeMap<Kind, u64>,
    /// In how many of them no record of a test's own lock was seen: of those, promises are not
    /// judged.
    pub without_records: u64,
    /// Of the runs that were neither safe nor inert the first of the gravest verdict, with its
    /// position from 1.
    pub first_failure: Option<(u64, Run)>,
    /// The first run that was inert.
    pub first_inert: Option<(u64, Run)>,
    /// Everything counted, for the line that a passing storm prints.
    pub tally: Tally,
}

impl Outcome {
    /// How many runs had a violation of this kind.
    pub fn violations_of(&self, kind: Kind) -> u64 {
        self.violations.get(&kind).copied().unwrap_or(0)
    }

    /// How many runs ended with this verdict.
    pub fn verdicts_of(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    fn add(&mut self, run: Run) {
        self.runs += 1;
        self.tally.add_run(&run);
        *self.verdicts.entry(run.judgement.verdict).or_default() += 1;
        for kind in run.judgement.kinds() {
            *self.kinds.entry(kind).or_default() += 1;
            if run.judgement.has_violation(kind) {
                *self.violations.entry(kind).or_default() += 1;
            }
        }
        if run.plan.lock.name == OWN_LOCK.name && !run.setting.lock_has_records {
            self.without_records += 1;
        }
        let verdict = run.judgement.verdict;
        let failure = match verdict {
            Verdict::Inert => &mut self.first_inert,
            verdict if verdict.is_safe() => return,
            _ => &mut self.first_failure,
        };
        let known = failure.as_ref().map(|(_, known)| known.judgement.verdict);
        // The first of the gravest: what says nothing must not hide what fails.
        if known.is_none_or(|known| known != verdict && Verdict::merge([known, verdict]) == verdict)
        {
            *failure = Some((self.runs, run));
        }
    }

    /// The line of a storm in which all is well.
    fn line(&self, engine: &str) -> String {
        let line = self.tally.line(engine);
        match self.without_records {
            0 => line,
            runs => format!(
                "{line}\n  in {} no record of the lock was seen: judged by beliefs and effects alone",
                counted(runs, "run")
            ),
        }
    }

    /// What a test is to fail with. Of many drawn plans some touch nothing: they prove
    /// nothing and fail nothing, unless there are no others.
    pub fn failure(&self) -> Option<&(u64, Run)> {
        let all_inert = self.verdicts_of(Verdict::Inert) == self.runs;
        self.first_failure.as_ref().or(self.first_inert.as_ref().filter(|_| all_inert))
    }
}

impl Storm {
    /// A storm of this scenario, with its own lock, no fence, 50 seeds from 0, on
    /// the event engine.
    pub fn new(scenario: impl Into<String>) -> Self {
        let scenario = scenario.into();
        Storm {
            lock: default_lock(&scenario).to_owned(),
            scenario,
            fence: Fence::Off,
            engine: "event".to_owned(),
            first_seed: 0,
            seeds: 50,
            faults: true,
            twice: false,
            settings: Vec::new(),
            plan: None,
            factory: Arc::new(locks::build),
            section: None,
            site: None,
            replays: telling::REPLAYS,
            limit: LIMIT,
        }
    }

    /// Exactly this plan, and no other.
    pub fn of(plan: Plan) -> Self {
        let mut storm = Storm::new(plan.scenario.clone());
        storm.lock.clone_from(&plan.lock.name);
        storm.fence = plan.fence;
        storm.plan = Some(plan);
        storm
    }

    /// With this lock of ours.
    #[must_use]
    pub fn lock(mut self, name: impl Into<String>) -> Self {
        if self.lock == OWN_LOCK.name {
            self.factory = Arc::new(locks::build);
        }
        self.lock = name.into();
        self
    }

    /// With a lock of the caller's own, built on each client's node.
    #[must_use]
    #[track_caller]
    pub fn lock_with(mut self, factory: LockFactory) -> Self {
        self.site = Some(Location::caller());
        self.factory = factory;
        self
    }

    /// With a test's own lock, which `build` makes on the node of each client; see
    /// [`own`].
    #[must_use]
    #[track_caller]
    pub fn own_lock<L, F, B>(mut self, build: B) -> Self
    where
        L: OwnLock,
        F: Future<Output = Result<L, Failure>> + Send + 'static,
        B: Fn(Node) -> F + Send + Sync + 'static,
    {
        self.site = Some(Location::caller());
        OWN_LOCK.name.clone_into(&mut self.lock);
        if let Some(plan) = &mut self.plan {
            OWN_LOCK.name.clone_into(&mut plan.lock.name);
        }
        self.factory = own::factory(build);
        self
    }

    /// With this done inside, by each client each time, in place of selling a unit; see
    /// [`Inside::effect`].
    #[must_use]
    #[track_caller]
    pub fn section<F, R>(mut self, run: R) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
        R: Fn(Inside) -> F + Send + Sync + 'static,
    {
        self.site = Some(Location::caller());
        self.section = Some(Section::new(run));
        self
    }

    /// Shrinks what fails with at most so many runs before it is told; 0 tells it as it was
    /// drawn. Unless set, 100.
    #[must_use]
    pub fn shrink(mut self, replays: u32) -> Self {
        self.replays = replays;
        self
    }

    /// Ends the process, and says where the run is, when one run takes longer than this of real
    /// time: its thread is blocked. Unless set, five minutes.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// With this much of the fence.
    #[must_use]
    pub fn fence(mut self, fence: Fence) -> Self {
        self.fence = fence;
        self
    }

    /// On this engine: `event`, `event-shuffled`, `turmoil`, or one that was added
    /// ([`add_engine`](super::add_engine)).
    #[must_use]
    pub fn engine(mut self, name: impl Into<String>) -> Self {
        self.engine = name.into();
        self
    }

    /// Over this many seeds.
    #[must_use]
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// From this seed on.
    #[must_use]
    pub fn first_seed(mut self, seed: u64) -> Self {
        self.first_seed = seed;
        self
    }

    /// Without faults: calm weather.
    #[must_use]
    pub fn without_faults(mut self) -> Self {
        self.faults = false;
        self
    }

    /// Each plan twice, the second time in a fresh process: two traces are a failure. A
    /// run that is not safe is always repeated before it is told.
    #[must_use]
    pub fn twice(mut self) -> Self {
        self.twice = true;
        self
    }

    /// With one knob of the plan set, as `--set` does: `("lock.lease", "2s")`.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Runs the storm. When all is well one line says what was run.
    ///
    /// # Panics
    /// When a run is not safe, with the failure block (an inert one of many drawn plans
    /// is let pass, see [`Outcome::failure`]); when the storm is not well
    /// formed (an unknown scenario, lock, engine or knob), with what is wrong.
    #[track_caller]
    pub fn run(self) {
        let outcome = self.outcome();
        if let Some((index, run)) = outcome.failure() {
            let position = Some((*index, outcome.runs));
            let shrunk = self.shrunk(run);
            let (block, plan) = match &shrunk {
                Some(shrunk) => (self.shrunk_block(run, shrunk), shrunk.plan()),
                None => (self.block(run, position), &run.plan),
            };
            match Environment::get().out.as_deref().map(|folder| telling::keep(folder, plan)) {
                None => panic!("{block}"),
                Some(Ok(path)) => panic!("{block}\n  plan        {}", path.display()),
                Some(Err(error)) => panic!("{block}\n  LOCKSTORM_OUT: {error}"),
            }
        }
        println!("{}", outcome.line(self.engine_or_panic().title()));
    }

    /// Runs the storm over all its seeds and counts. Does not stop at a failure.
    ///
    /// # Panics
    /// When the storm is not well formed.
    #[track_caller]
    pub fn outcome(&self) -> Outcome {
        let tested = self.under_test();
        repeat::serve(&tested);
        assert!(self.count() > 0, "a storm over no seeds tests nothing: ask for at least one");
        let mut outcome = Outcome {
            runs: 0,
            verdicts: BTreeMap::new(),
            kinds: BTreeMap::new(),
            violations: BTreeMap::new(),
            without_records: 0,
            first_failure: None,
            first_inert: None,
            tally: Tally::default(),
        };
        let engine = self.engine_or_panic();
        let until = self.until();
        let watchdog = Watchdog::start(telling::stands_still);
        for index in 0.. {
            if index >= self.count() && until.is_none_or(|until| until <= now()) {
                break;
            }
            let plan = self.plan_at(index);
            watchdog.begin(self.limit);
            let mut run = run_with(&plan, engine.as_ref(), &tested.factory);
            watchdog.end();
            if self.twice
                && let Repetition::Differs { .. } = repeat::twice(&run, &tested)
            {
                run.judgement.verdict = Verdict::Nondeterminism;
            }
            outcome.add(run);
        }
        outcome
    }

    /// What is put through the storm.
    ///
    /// # Panics
    /// When its clients have something to do inside, and no lock to be inside of, or a fence
    /// that would not see it.
    fn under_test(&self) -> Tested {
        let (factory, site) = (self.factory.clone(), self.site);
        let Some(section) = &self.section else { return Tested { factory, site } };
        let is_way_to_sell = find_lock(&self.lock).is_ok_and(LockKind::has_sale);
        assert!(
            !is_way_to_sell,
            "`{}` is a way to sell, not a lock: there is no inside of it for a section",
            self.lock
        );
        assert!(
            self.fence == Fence::Off,
            "what a section does goes past the stock and its fence: take the fence off"
        );
        Tested { factory: own::with_section(factory, section.clone()), site }
    }

    /// The plan of the how-manieth run, from 0.
    fn plan_at(&self, index: u64) -> Plan {
        if let Some(plan) = &Environment::get().plan {
            let (scenario, lock) = (&plan.scenario, &plan.lock.name);
            assert!(
                *scenario == self.scenario && *lock == self.lock,
                "LOCKSTORM_PLAN is of {scenario} with the lock {lock}, and this storm of {} with \
                 the lock {}: name the one test that it is of",
                self.scenario,
                self.lock
            );
            return plan.clone();
        }
        if let Some(plan) = &self.plan {
            return plan.clone();
        }
        let first = Environment::get().seed.map_or(self.first_seed, |seed| seed.0);
        let plan = self.plan_of(Seed(first.wrapping_add(index)));
        plan.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Until when the storm goes on beyond its seeds; of one plan, or one seed, there are no
    /// more.
    fn until(&self) -> Option<Instant> {
        let environment = Environment::get();
        let is_one = self.plan.is_some() || environment.plan.is_some();
        let goes_on = !is_one && environment.seed.is_none();
        environment.duration.filter(|_| goes_on).map(|duration| now() + duration)
    }

    fn count(&self) -> u64 {
        let environment = Environment::get();
        match (self.plan.as_ref().or(environment.plan.as_ref()), environment.seed) {
            (Some(_), _) | (None, Some(_)) => 1,
            (None, None) => environment.seeds.unwrap_or(self.seeds),
        }
    }

    /// The plan of one seed.
    ///
    /// # Errors
    /// When scenario, lock or a knob is unknown.
    pub fn plan_of(&self, seed: Seed) -> Result<Plan, PlanError> {
        let settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let plan = Plan::from_seed_with(&self.scenario, &self.lock, self.fence, seed, &settings)?;
        Ok(if self.faults { plan } else { plan.without_faults() })
    }

    fn engine_or_panic(&self) -> Arc<dyn Engine> {
        let name = Environment::get().engine.clone().unwrap_or_else(|| self.engine.clone());
        engine(&name).unwrap_or_else(|| {
            let here = ENGINES.into_iter().filter(|name| engine(name).is_some());
            let here = here.collect::<Vec<_>>().join(", ");
            panic!("no engine is called `{name}` in this program; there are: {here}")
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a test goes on; no storm reads it")]
fn now() -> Instant {
    Instant::now()
}

impl std::fmt::Debug for Storm {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Storm")
            .field("scenario", &self.scenario)
            .field("lock", &self.lock)
            .field("fence", &self.fence)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}
