//! Hunting: many seeds of one storm, over worker processes.
//!
//! Order of things: [`Quarry`] says which storm; [`worker`] is what a worker process
//! does, watched by its [`watchdog`](crate::storm::watchdog), [`process`] how it is started and heard; [`pack`] keeps the workers busy and
//! gives their results in the order of the seeds, so that nothing depends on how many
//! there are; [`examine`] repeats each failure in a fresh process and asks turmoil
//! about it; [`smaller`] has what is kept shrunk there. [`proportion`] says what counts are
//! worth.
//!
//! Workers are processes: they isolate statics, aborts, overflows and hangs. One that
//! dies, or is silent for too long, makes its seed `internal`, and the hunt goes on.

pub mod book;
pub mod campaign;
pub mod certificate;
pub mod course;
pub mod examine;
pub mod moments;
pub mod pack;
pub mod pairs;
pub mod process;
pub mod proportion;
pub mod rank;
pub mod single;
pub mod smaller;
pub mod worker;

use serde::{Deserialize, Serialize};

use crate::check::{Kind, Verdict};
use crate::history::{Event, What};
use crate::plan::{Draws, Fault, Fence, Plan, PlanError, Seed, file, scenario};
use crate::storm::Run;

/// Which storm is hunted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Quarry {
    /// The scenario's name.
    pub scenario: String,
    /// The lock's name.
    pub lock: String,
    /// How much of the fence.
    pub fence: Fence,
    /// The engine's name.
    pub engine: String,
    /// Whether the plans have faults.
    pub faults: bool,
    /// What its seeds draw.
    #[serde(default)]
    pub draws: Draws,
    /// Knobs of the plan, as `--set` writes them.
    pub settings: Vec<(String, String)>,
}

impl Quarry {
    /// The storm of these names, as it is without flags.
    pub fn new(scenario: &str, lock: &str, fence: Fence) -> Quarry {
        Quarry {
            scenario: scenario.to_owned(),
            lock: lock.to_owned(),
            fence,
            engine: "event".to_owned(),
            faults: true,
            draws: Draws::First,
            settings: Vec::new(),
        }
    }

    fn settings(&self) -> Vec<(&str, &str)> {
        self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    /// The plan without faults, with nothing drawn: the scenario as it stands.
    ///
    /// # Errors
    /// When scenario, lock or a knob is unknown.
    pub fn calm_plan(&self, seed: Seed) -> Result<Plan, PlanError> {
        let plan = scenario::default_plan(&self.scenario, &self.lock, self.fence)?;
        let plan = plan.with_settings(&self.settings())?;
        Ok(Plan { seed, ..plan })
    }

    /// The plan of one seed.
    ///
    /// # Errors
    /// When scenario, lock or a knob is unknown.
    pub fn plan(&self, seed: Seed) -> Result<Plan, PlanError> {
        let base = scenario::default_plan(&self.scenario, &self.lock, self.fence)?;
        let plan = Plan::from_seed_by(self.draws, base, seed, &self.settings())?;
        Ok(if self.faults { plan } else { plan.without_faults() })
    }

    /// The plan of a task.
    ///
    /// # Errors
    /// Those of [`Quarry::plan`]; faults that are none.
    pub fn plan_of(&self, task: &Task) -> Result<Plan, PlanError> {
        match task {
            Task::Drawn(seed) => self.plan(*seed),
            Task::InWeather { seed, faults } => {
                let drawn = self.plan(*seed)?.without_faults();
                file::parse("the task", &format!("{}{faults}", file::write(&drawn)))
            }
            Task::Written { seed, faults } => {
                let text = format!("{}{faults}", file::write(&self.calm_plan(*seed)?));
                file::parse("the task", &text)
            }
            Task::Struck { seed, family } => Plan::struck_by(self.calm_plan(*seed)?, family, *seed),
        }
    }
}

/// One run of a hunt: which plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// What this seed draws.
    Drawn(Seed),
    /// What this seed draws, but with these faults in place of its own, as a plan's file
    /// writes them.
    InWeather {
        /// Decides latencies, think times, jitter, clocks.
        seed: Seed,
        /// Tables `[[fault]]`.
        faults: String,
    },
    /// The quarry's storm without draws, of this seed, with these faults as a plan's file
    /// writes them.
    Written {
        /// Decides latencies, think times, jitter.
        seed: Seed,
        /// Tables `[[fault]]`.
        faults: String,
    },
    /// The quarry's storm, in which one family of faults strikes alone, as this seed draws it.
    Struck {
        /// Decides the faults, latencies, think times, jitter.
        seed: Seed,
        /// The family's name ([`alone`](crate::plan::draw::alone)).
        family: String,
    },
}

impl Task {
    /// The task of a plan that [`Quarry::calm_plan`] gave, with these faults.
    pub fn written(seed: Seed, faults: &[Fault]) -> Task {
        Task::Written { seed, faults: file::write_faults(faults) }
    }

    /// The seed of its plan.
    pub fn seed(&self) -> Seed {
        match self {
            Task::Drawn(seed)
            | Task::InWeather { seed, .. }
            | Task::Written { seed, .. }
            | Task::Struck { seed, .. } => *seed,
        }
    }
}

/// What a worker tells of one seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Which.
    pub seed: Seed,
    /// How it ended.
    pub verdict: Verdict,
    /// Every kind that was found.
    pub kinds: Vec<Kind>,
    /// Those of them that are violations.
    pub violations: Vec<Kind>,
    /// What tells this failure from another.
    pub signature: String,
    /// The first 64 bits of the trace hash, hex.
    pub trace: String,
    /// Grants to another owner than the one before.
    pub handovers: u64,
    /// Servers that became master.
    #[serde(default)]
    pub failovers: u64,
    /// Faults that did something.
    pub faults_showed: u64,
    /// Faults that did not.
    pub faults_inert: u64,
    /// Whether it is *unknown* for no other reason than that nobody was granted the lock before
    /// its faults had ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untried: bool,
    /// Steps of the engine.
    pub steps: u64,
    /// What went wrong inside, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Summary {
    /// Of a run.
    pub fn of(run: &Run) -> Self {
        let judgement = &run.judgement;
        let kinds: Vec<Kind> = judgement.kinds().into_iter().collect();
        let goals = &judgement.goals;
        Summary {
            seed: run.plan.seed,
            verdict: judgement.verdict,
            violations: kinds
                .iter()
                .copied()
                .filter(|kind| judgement.has_violation(*kind))
                .collect(),
            kinds,
            signature: judgement.signature(),
            trace: run.trace_hash.to_string(),
            handovers: goals.handovers as u64,
            failovers: run.history.iter().filter(is_failover).count() as u64,
            faults_showed: goals.touched.len() as u64,
            faults_inert: goals.inert.len() as u64,
            untried: judgement.is_untried(),
            steps: run.ending.steps,
            trouble: run.ending.told(),
        }
    }

    /// Whether its worker died or hung over it.
    pub fn is_lost(&self) -> bool {
        self.verdict == Verdict::Internal && self.trace.is_empty()
    }

    /// Compares with the same seed run once more: two traces are nondeterminism.
    pub fn compare(&mut self, again: &Summary) {
        if self.is_lost() || again.is_lost() {
            // Lost once is lost: the run is told as what killed its worker.
            if again.is_lost() {
                *self = again.clone();
            }
        } else if self.trace != again.trace {
            self.verdict = Verdict::Nondeterminism;
        }
    }

    /// Of a seed whose worker died or hung.
    pub fn lost(seed: Seed, why: String) -> Self {
        Summary {
            seed,
            verdict: Verdict::Internal,
            kinds: Vec::new(),
            violations: Vec::new(),
            signature: "internal".to_owned(),
            trace: String::new(),
            handovers: 0,
            failovers: 0,
            faults_showed: 0,
            faults_inert: 0,
            untried: false,
            steps: 0,
            trouble: Some(why),
        }
    }
}

fn is_failover(event: &&Event) -> bool {
    matches!(event.what, What::MasterSwitched { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(trace: &str, verdict: Verdict) -> Summary {
        let lost = Summary::lost(Seed(7), "why".to_owned());
        Summary { verdict, trace: trace.to_owned(), trouble: None, ..lost }
    }

    #[test]
    fn two_traces_of_a_seed_are_nondeterminism_and_a_lost_run_is_lost() {
        let compared = |again: Summary| {
            let mut first = summary("aaaa", Verdict::Safe);
            first.compare(&again);
            first.verdict
        };
        assert_eq!(compared(summary("aaaa", Verdict::Safe)), Verdict::Safe);
        assert_eq!(compared(summary("bbbb", Verdict::Safe)), Verdict::Nondeterminism);
        assert_eq!(compared(Summary::lost(Seed(7), "died".to_owned())), Verdict::Internal);
        let mut lost = Summary::lost(Seed(7), "died".to_owned());
        lost.compare(&summary("aaaa", Verdict::Safe));
        assert_eq!(lost.trouble.as_deref(), Some("died"));
    }
}
