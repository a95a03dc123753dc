//! One hunt for one bug, and the swarm that is matched to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cpu;
use crate::draw::Draw;
use crate::engine::event::EventEngine;
use crate::engine::{Ending, Engine, Stage};
use crate::hunt::course::{Course, Seeds, Source, Strategy};
use crate::hunt::{Quarry, Summary};
use crate::plan::{Draws, Plan, PlanError, Seed, file};
use crate::planted::{Bug, Half};
use crate::storm::{self, Run};

/// A hunt to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Trial {
    /// The bug's name.
    pub bug: String,
    /// How it is hunted.
    pub strategy: Strategy,
    /// The how-manieth hunt, from 0: decides all draws.
    pub number: u64,
    /// The most executions.
    pub budget: u64,
}

/// What a hunt came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcome {
    /// Whether the bug was found. If not, the hunt is *censored*: it may be found later.
    pub found: bool,
    /// Executions up to and with the first that found it; or all.
    pub executions: u64,
    /// CPU time up to there, µs; not equal from one time to the next.
    pub cpu_us: u64,
    /// How many plans showed the bug's kinds and were passed over because the mended twin
    /// showed them too.
    pub twin_too: u64,
    /// The plan that found it, as TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tried {
    /// Which.
    pub trial: Trial,
    /// The strategy's.
    pub own: Outcome,
    /// The matched swarm's; `None` beside the swarm itself.
    pub matched: Option<Outcome>,
}

/// Seeds of two hunts lie so far apart.
const APART: u64 = 1 << 32;

impl Trial {
    /// Hunts, with the strategy and with the swarm that is matched to it.
    ///
    /// # Errors
    /// When the storm of the bug is impossible.
    pub fn run(&self, bug: &Bug) -> Result<Tried, PlanError> {
        let mut hunt = Hunt::new(bug, self.budget);
        let counts = hunt.by_course(self.strategy, self.seeds())?;
        let own = hunt.outcome();
        let matched = match self.strategy {
            Strategy::Swarm => None,
            _ => {
                let mut hunt = Hunt::new(bug, self.budget);
                hunt.by_draws(&counts, self.seeds().first)?;
                Some(hunt.outcome())
            }
        };
        Ok(Tried { trial: self.clone(), own, matched })
    }

    fn seeds(&self) -> Seeds {
        let first = Seed(1 + self.number.wrapping_mul(APART));
        Seeds { first, calm: first }
    }
}

/// The storm of a bug.
pub fn quarry(bug: &Bug, half: Half) -> Quarry {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Quarry {
        draws: Draws::Wide,
        settings: bug.settings.iter().map(owned).collect(),
        ..Quarry::new(bug.scenario, &bug.lock_name(half), bug.fence)
    }
}

/// A hunt under way.
struct Hunt<'a> {
    bug: &'a Bug,
    quarry: Quarry,
    engine: Arc<Counting>,
    budget: u64,
    began: Duration,
    /// Spent on twins.
    aside: Duration,
    found: Option<Found>,
    twin_too: u64,
}

struct Found {
    executions: u64,
    cpu: Duration,
    plan: String,
}

impl<'a> Hunt<'a> {
    fn new(bug: &'a Bug, budget: u64) -> Hunt<'a> {
        Hunt {
            bug,
            quarry: quarry(bug, Half::Planted),
            engine: Arc::default(),
            budget,
            began: cpu::used(),
            aside: Duration::ZERO,
            found: None,
            twin_too: 0,
        }
    }

    fn cpu(&self) -> Duration {
        cpu::used().saturating_sub(self.began).saturating_sub(self.aside)
    }

    fn is_over(&self) -> bool {
        self.found.is_some() || self.engine.runs() >= self.budget
    }

    /// Follows a strategy's course; gives how many faults each of its plans had.
    fn by_course(&mut self, strategy: Strategy, seeds: Seeds) -> Result<Vec<usize>, PlanError> {
        let budget = Some(self.budget);
        let engine = self.engine.clone();
        let mut course = Course::new(&self.quarry, engine, strategy, seeds, budget, false)?;
        let mut counts = Vec::new();
        loop {
            // Fault-free runs are made before their round is known.
            let before = if counts.is_empty() { 0 } else { self.engine.runs() };
            let round = course.next_round()?;
            if round.is_empty() {
                return Ok(counts);
            }
            for step in &round {
                if let Source::Calm(position) = step.source {
                    counts.push(0);
                    let run = course.survey().and_then(|survey| survey.calm.get(position));
                    if let Some(run) = run.cloned() {
                        self.look_at(&run, before + 1 + position as u64);
                    }
                    continue;
                }
                if self.is_over() {
                    return Ok(counts);
                }
                let plan = self.quarry.plan_of(&step.task)?;
                counts.push(plan.faults.len());
                let run = self.execute(&plan);
                course.note(step, &Summary::of(&run));
            }
        }
    }

    /// Drawn plans with as many faults as `counts` says, over and over.
    fn by_draws(&mut self, counts: &[usize], first: Seed) -> Result<(), PlanError> {
        let counts = if counts.is_empty() { &[1] } else { counts };
        for (position, most) in counts.iter().cycle().enumerate() {
            if self.is_over() {
                break;
            }
            let plan = self.quarry.plan(Seed(first.0.wrapping_add(position as u64)))?;
            self.execute(&thinned(plan, *most));
        }
        Ok(())
    }

    fn execute(&mut self, plan: &Plan) -> Run {
        let run = storm::run(plan, self.engine.as_ref());
        self.look_at(&run, self.engine.runs());
        run
    }

    /// Whether the run, the how-manieth of the hunt, shows the bug, and the twin does not.
    fn look_at(&mut self, run: &Run, executions: u64) {
        if self.found.is_some() || executions > self.budget || !shows(self.bug, run) {
            return;
        }
        let cpu = self.cpu();
        let before = cpu::used();
        let mut twin = run.plan.clone();
        twin.lock.name = self.bug.lock_name(Half::Mended);
        let too = shows(self.bug, &storm::run(&twin, &EventEngine));
        self.aside += cpu::used().saturating_sub(before);
        if too {
            self.twin_too += 1;
        } else {
            self.found = Some(Found { executions, cpu, plan: file::write(&run.plan) });
        }
    }

    fn outcome(self) -> Outcome {
        let cpu_of = |cpu: Duration| u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX);
        let (runs, cpu) = (self.engine.runs().min(self.budget), self.cpu());
        match self.found {
            Some(found) => Outcome {
                found: true,
                executions: found.executions,
                cpu_us: cpu_of(found.cpu),
                twin_too: self.twin_too,
                plan: Some(found.plan),
            },
            None => Outcome {
                found: false,
                executions: runs,
                cpu_us: cpu_of(cpu),
                twin_too: self.twin_too,
                plan: None,
            },
        }
    }
}

/// Whether a run shows one of the kinds that the bug is known by.
pub fn shows(bug: &Bug, run: &Run) -> bool {
    let judgement = &run.judgement;
    let of_bug = |kind: &crate::check::Kind| bug.shows.contains(&kind.id());
    judgement.kinds().into_iter().any(|kind| of_bug(&kind) && judgement.has_violation(kind))
}

/// The plan with at most so many of its faults, chosen by its seed.
fn thinned(mut plan: Plan, most: usize) -> Plan {
    while plan.faults.len() > most {
        let entity = plan.faults.len().to_string();
        let mut draw = Draw::new(plan.seed.0, "bench/thinned", &entity);
        let at = usize::try_from(draw.below(plan.faults.len() as u64)).unwrap_or(0);
        plan.faults.remove(at);
    }
    plan
}

/// The engine that counts.
#[derive(Default)]
struct Counting(AtomicU64);

impl Counting {
    fn runs(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Engine for Counting {
    fn name(&self) -> &'static str {
        EventEngine.name()
    }

    fn title(&self) -> &'static str {
        EventEngine.title()
    }

    fn cannot_express(&self, plan: &Plan) -> Option<String> {
        EventEngine.cannot_express(plan)
    }

    fn gives_senses(&self) -> bool {
        EventEngine.gives_senses()
    }

    fn run(&self, stage: Stage) -> Ending {
        self.0.fetch_add(1, Ordering::Relaxed);
        EventEngine.run(stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::BUGS;

    fn trial(bug: &str, strategy: Strategy, budget: u64) -> Tried {
        let bug = BUGS.iter().find(|known| known.name == bug).unwrap();
        Trial { bug: bug.name.to_owned(), strategy, number: 0, budget }.run(bug).unwrap()
    }

    fn same(a: &Outcome, b: &Outcome) -> bool {
        Outcome { cpu_us: 0, ..a.clone() } == Outcome { cpu_us: 0, ..b.clone() }
    }

    #[test]
    fn a_bug_of_every_storm_is_found_at_once_and_equally_again() {
        let tried = trial("get-then-set", Strategy::Swarm, 20);
        assert!(tried.own.found && tried.own.executions <= 20, "{tried:?}");
        assert!(same(&tried.own, &trial("get-then-set", Strategy::Swarm, 20).own));
        assert_eq!(tried.matched, None);
    }

    #[test]
    fn a_hunt_that_is_over_before_it_found_anything_is_censored() {
        let tried = trial("renewal-outlives-hold", Strategy::Swarm, 2);
        assert!(!tried.own.found && tried.own.executions == 2, "{tried:?}");
    }

    #[test]
    fn a_thinned_plan_keeps_some_of_its_faults() {
        let quarry = quarry(&BUGS[0], Half::Planted);
        let plan = (0..).map(|seed| quarry.plan(Seed(seed)).unwrap());
        let plan = plan.into_iter().find(|plan| plan.faults.len() > 3).unwrap();
        let thin = thinned(plan.clone(), 2);
        assert_eq!(thin.faults.len(), 2);
        assert!(thin.faults.iter().all(|fault| plan.faults.contains(fault)));
        assert_eq!(thinned(plan.clone(), 99), plan);
    }
}
