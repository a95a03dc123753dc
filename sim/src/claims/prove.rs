//! Repeats what a sentence's verdict is shown by, before it is told: the same plan in a fresh
//! process must leave the same trace, and here the same verdict and the same measurement. Of
//! something that happened turmoil is asked, too.
//!
//! A number is not asked of turmoil: it moves messages in whole milliseconds, so speeds there
//! are those of its ticks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Arm;
use super::judge::{Judged, Sighting};
use super::measure::Sample;
use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::hunt::examine::Examiner;
use crate::plan::{Plan, PlanError, Seed, capsule};
use crate::storm::abreast::spread;
use crate::storm::confirm::{self, Confirmation};
use crate::storm::locks::{self, LockFactory};
use crate::storm::repeat::Repetition;

/// A run that shows why a sentence stands as it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Of which arm, from 0.
    pub arm: usize,
    /// Its seed.
    pub seed: Seed,
    /// Its plan on one line, for `lockstorm replay`.
    pub capsule: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Its trace hash.
    pub trace: String,
    /// What was measured of it.
    pub sample: Sample,
    /// Whether it decides: a counterexample, or an example of what is said to be possible.
    pub is_decisive: bool,
    /// How it repeated; `None` while nobody has tried.
    pub proof: Option<Proof>,
}

/// How a witness repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// In a fresh process.
    pub repeated: Repeated,
    /// What turmoil says, where it was asked.
    pub confirmation: Option<Confirmation>,
}

/// What came of a second run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// The same trace, verdict and measurement.
    Same,
    /// Another trace, verdict or measurement: which.
    Differs(String),
    /// The fresh process died or hung over it: how.
    Lost(String),
}

/// By what witnesses are repeated.
#[derive(Clone, Debug)]
pub struct Prover {
    /// The program that is started as a worker.
    pub program: PathBuf,
    /// How long one run may take, real time.
    pub limit: Duration,
    /// Whether turmoil is asked.
    pub confirms: bool,
}

impl Witness {
    /// Of what this run says to an arm; `None` if it says nothing.
    pub(super) fn of(
        at: usize,
        arm: &Arm,
        sighting: &Sighting,
        is_decisive: bool,
    ) -> Option<Witness> {
        let plan = arm.storm.plan(sighting.seed).ok()?;
        Some(Witness {
            arm: at,
            seed: sighting.seed,
            capsule: capsule::write(&plan),
            verdict: sighting.verdict,
            trace: sighting.trace.clone(),
            sample: sighting.sample?,
            is_decisive,
            proof: None,
        })
    }
}

/// Repeats the witnesses of all these claims, so many at once; `note` hears of each claim that
/// is done.
///
/// # Errors
/// An arm whose storm is impossible: ours.
pub fn prove(
    judged: &mut [Judged],
    prover: &Prover,
    jobs: usize,
    note: &(dyn Fn() + Sync),
) -> Result<(), PlanError> {
    let proofs = spread(judged, jobs, |one| {
        let proof = one.witness.as_ref().map(|witness| {
            let arm = one.outcomes[witness.arm].arm;
            prover.proof(arm, witness)
        });
        note();
        proof.transpose()
    });
    for (one, proof) in judged.iter_mut().zip(proofs) {
        let proof = proof?;
        if let Some(witness) = &mut one.witness {
            witness.proof = proof;
        }
    }
    Ok(())
}

impl Prover {
    fn proof(&self, arm: &Arm, witness: &Witness) -> Result<Proof, PlanError> {
        let plan = arm.storm.plan(witness.seed)?;
        let repeated = self.repeated(&plan, arm, witness);
        let is_asked = self.confirms && witness.is_decisive && repeated == Repeated::Same;
        let confirmation = match witness.sample {
            Sample::Happened(_) if is_asked => Some(confirmed(&plan, arm, witness)),
            _ => None,
        };
        Ok(Proof { repeated, confirmation })
    }

    fn repeated(&self, plan: &Plan, arm: &Arm, witness: &Witness) -> Repeated {
        let examiner = Examiner::new(self.program.clone(), self.limit);
        let (run, examination) = match examiner.examine(plan, &EventEngine, false) {
            Ok(examined) => examined,
            Err(trouble) => return Repeated::Lost(trouble.to_string()),
        };
        if let Repetition::Differs { first } = examination.repetition {
            let at = first.map(|first| format!(" at event {}", first.event));
            return Repeated::Differs(format!("two traces{}", at.unwrap_or_default()));
        }
        let again = Sighting::of(&run, arm.measure);
        match () {
            () if again.trace != witness.trace => Repeated::Differs("another trace".to_owned()),
            () if again.verdict != witness.verdict => {
                Repeated::Differs(format!("the verdict {}", again.verdict))
            }
            () if again.sample != Some(witness.sample) => {
                Repeated::Differs("another measurement".to_owned())
            }
            () => Repeated::Same,
        }
    }
}

fn confirmed(plan: &Plan, arm: &Arm, witness: &Witness) -> Confirmation {
    let factory: LockFactory = Arc::new(locks::build);
    let shows = |run: &crate::storm::Run| arm.measure.of(run) == Some(witness.sample);
    confirm::confirm_shown(plan, &factory, shows)
}
