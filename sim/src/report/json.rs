//! A run as JSON: the machine's view, schema version 1.
//!
//! Field names are kebab-case and stable. A field of this table that has no value is
//! `null`, never left out, so that a reader can tell "not asked" from "not known in
//! this version".
//! Seeds and hashes are strings: 64 bits survive no JSON reader.
//!
//! | field | what |
//! |---|---|
//! | `schema` | 1; a reader refuses what it does not know |
//! | `lockstorm` | the version that wrote it |
//! | `verdict`, `exit-code` | stable name; what the program exits with for this run alone |
//! | `signature` | what makes two failures the same bug |
//! | `seed`, `scenario`, `lock`, `fence`, `engine`, `trace` | which run it was |
//! | `ended-us`, `steps`, `messages` | simulated µs, engine steps, messages between nodes |
//! | `connections` | `null`, or, where buyers share pools of connections to the database: how many a `pool` has and the most that one had lent (`peak-lent`), the `waits` of those who got one (`count`, and in simulated µs `median-us`, `p99-us`, `most-us`), how many were `given-up` and how often one could not be opened (`failed`), the most sessions at one server (`peak-sessions`), how many it `refused` (53300) |
//! | `build` | `tokio-unstable`, `interposer`: whether the process that wrote this has what makes more of a run the seed's |
//! | `timers` | `null`, or the `nodes` whose clocks had a rate that tokio timers of third-party code did not follow there, and the `libraries` in use with the timers that each `set` |
//! | `stuck` | why the run came to no end, or was not begun |
//! | `findings` | kind, severity, sentence, lock, parties, interval in µs, event ids, blame, details |
//! | `goals`, `failed-checkers` | what the silence of a run is worth |
//! | `story` | the steps of the story, of the gravest finding |
//! | `why` | one sentence |
//! | `saved-by` | `null`, or, where a lock failed and no harm was done, what kept it off: the fence, the holder, or nothing |
//! | `repetition`, `confirmation` | whether it came back the same; what the reference engine says |
//! | `reproduce` | the command |
//! | `plan` | the whole plan as TOML, as a file holds it |
//!
//! A hunt has `schema`, `lockstorm`, `verdict` and `exit-code` likewise, of all its
//! runs; `quarry` (what was hunted), `trace` (one hash over the traces of all its seeds,
//! in their order: equal hunts have equal ones), `tally` (what was counted), `bound`
//! (what a clean hunt proves) and `failures`, each of them a run: of a swarm all, else the
//! first of each signature; `shrunk` of each is `null`, or what was made of the plan that is
//! kept (`faults-before`, `faults`, `replays`, `minimal`, `file`, and `before`, the command that
//! runs it as it was found). Beside them `strategy`, `signatures` (each with the number of
//! its runs and its first), `coverage` (`parts`: what was tried, of what; `cells`: by kind
//! of fault and operation `tried`, `inert`, `broke`) and `rests-on` (what *safe* rests on).

use serde::Serialize;
use serde_json::Value;

use crate::check::goals::Goals;
use crate::check::{FailedChecker, Finding, Verdict};
use crate::hunt::Quarry;
use crate::plan::file;
use crate::report::block::Failure;
use crate::report::manner::Build;
use crate::report::story::{Mark, Story};
use crate::report::subject::Subject;
use crate::report::table::Tally;
use crate::report::timers::{self, DidNotFollow};
use crate::report::why;
use crate::storm::confirm::Confirmation;
use crate::storm::connections::Connections;
use crate::storm::repeat::Repetition;

/// Version of the schema.
pub const SCHEMA: u32 = 1;

/// A run as JSON. See the module's table for the fields.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the module's table has them")]
pub struct Document<'a> {
    pub schema: u32,
    pub lockstorm: &'static str,
    pub verdict: Verdict,
    pub exit_code: u8,
    pub signature: String,
    pub seed: String,
    pub scenario: &'a str,
    pub lock: &'a str,
    pub fence: &'static str,
    pub engine: &'a str,
    pub trace: String,
    pub ended_us: u64,
    pub steps: u64,
    pub messages: u64,
    pub connections: Option<Connections>,
    pub build: Has,
    pub timers: Option<DidNotFollow>,
    pub stuck: Option<String>,
    pub findings: Vec<Told<'a>>,
    pub goals: &'a Goals,
    pub failed_checkers: &'a [FailedChecker],
    pub story: Vec<Step>,
    pub why: Option<String>,
    pub saved_by: Option<String>,
    pub repetition: Option<Repeated<'a>>,
    pub confirmation: Option<Confirmed<'a>>,
    pub reproduce: &'a str,
    pub plan: String,
}

/// What makes more of a run the seed's.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Has {
    /// tokio's choices are seeded, and its tasks known: `--cfg tokio_unstable`.
    pub tokio_unstable: bool,
    /// Third-party code has the nodes' clocks and keyed entropy.
    pub interposer: bool,
}

impl Has {
    fn of_process() -> Has {
        let build = Build::of_process();
        let interposer = build.interposer.unwrap_or(false);
        Has { tokio_unstable: build.tokio_unstable, interposer }
    }
}

/// A finding with its sentence.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Told<'a> {
    /// The finding as one English sentence.
    pub sentence: String,
    /// All of it.
    #[serde(flatten)]
    pub finding: &'a Finding,
}

/// A step of the story.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Step {
    /// The event's id.
    pub event: Option<u64>,
    /// Simulated time, µs.
    pub at_us: u64,
    /// Who, or who to whom.
    pub who: String,
    /// What.
    pub what: String,
    /// How it went; may be empty.
    pub outcome: String,
    /// `fault`, `wrong`, `held`, or `null`.
    pub mark: Option<&'static str>,
    /// What is wrong with it; may be empty.
    pub remark: String,
}

/// Whether a run came back the same.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", tag = "how")]
pub enum Repeated<'a> {
    /// In a fresh process.
    FreshProcess,
    /// On a fresh thread.
    FreshThread {
        /// Why not in a process.
        why: &'a str,
    },
    /// It did not.
    Differs {
        /// The first event that differs, if one does.
        event: Option<u64>,
        /// What it was, as JSON in a string.
        was: Option<&'a str>,
        /// What it is now.
        is: Option<&'a str>,
    },
}

/// What the reference engine says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Confirmed<'a> {
    /// For people.
    pub text: String,
    /// For machines.
    #[serde(flatten)]
    pub confirmation: &'a Confirmation,
}

/// A run as a JSON value; see the module's table.
pub fn run_value(failure: &Failure<'_>) -> Value {
    value(&Document::of(failure))
}

/// A run as JSON text of several lines.
pub fn run_json(failure: &Failure<'_>) -> String {
    format!("{:#}", run_value(failure))
}

/// A hunt as JSON text of several lines: what was hunted, what was counted, and the
/// failures as [`run_value`] gives them. `more` are fields beside these.
pub fn hunt_json(
    quarry: &Quarry,
    tally: Tally,
    trace: String,
    failures: Vec<Value>,
    more: &[(&str, Value)],
) -> String {
    // Whether a run repeats is not known when it is counted.
    let differs = |failure: &Value| failure["verdict"] == Verdict::Nondeterminism.id();
    let verdict = match failures.iter().any(differs) {
        true => Verdict::Nondeterminism,
        // As the exit code has it (docs/adr/0007).
        false => tally.verdict_of_hunt(),
    };
    let hunt = Hunt {
        schema: SCHEMA,
        lockstorm: env!("CARGO_PKG_VERSION"),
        verdict,
        exit_code: verdict.exit_code(),
        quarry,
        trace,
        bound: tally.bound(),
        tally,
        failures,
    };
    let mut hunt = value(&hunt);
    for (name, value) in more {
        hunt[*name] = value.clone();
    }
    format!("{hunt:#}")
}

/// What cannot be serialised says so instead; there is nothing of that sort here: no
/// map has keys that are no text.
fn value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap_or_else(|error| Value::String(error.to_string()))
}

/// A hunt.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Hunt<'a> {
    schema: u32,
    lockstorm: &'static str,
    verdict: Verdict,
    exit_code: u8,
    quarry: &'a Quarry,
    trace: String,
    tally: Tally,
    bound: Option<String>,
    failures: Vec<Value>,
}

impl<'a> Document<'a> {
    /// The document of a run.
    pub fn of(failure: &Failure<'a>) -> Document<'a> {
        let run = failure.run;
        let judgement = &run.judgement;
        let differs = matches!(failure.repetition, Some(Repetition::Differs { .. }));
        let verdict = if differs { Verdict::Nondeterminism } else { judgement.verdict };
        let subject = Subject::of(&run.history, judgement).filter(|_| !differs);
        let story = subject.as_ref().map(|subject| Story::of(&run.history, &run.plan, subject));
        Document {
            schema: SCHEMA,
            lockstorm: env!("CARGO_PKG_VERSION"),
            verdict,
            exit_code: verdict.exit_code(),
            signature: judgement.signature(),
            seed: run.plan.seed.to_string(),
            scenario: &run.plan.scenario,
            lock: &run.plan.lock.name,
            fence: run.plan.fence.name(),
            engine: run.engine,
            trace: run.trace_hash.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            ended_us: run.history.ended_us,
            steps: run.ending.steps,
            messages: run.ending.messages,
            connections: run.connections,
            build: Has::of_process(),
            timers: timers::did_not_follow(&run.plan),
            stuck: run.ending.told(),
            findings: judgement
                .findings
                .iter()
                .map(|finding| Told { sentence: finding.sentence(), finding })
                .collect(),
            goals: &judgement.goals,
            failed_checkers: &judgement.failed,
            story: story.iter().flat_map(|story| &story.steps).map(Step::of).collect(),
            why: subject.as_ref().map(|subject| why::why(&run.history, &run.plan, subject)),
            saved_by: subject.as_ref().and_then(|of| why::saved::saved_by(&run.history, of)),
            repetition: failure.repetition.map(Repeated::of),
            confirmation: failure
                .confirmation
                .map(|confirmation| Confirmed { text: confirmation.to_string(), confirmation }),
            reproduce: failure.reproduce,
            plan: file::write(&run.plan),
        }
    }
}

impl Step {
    fn of(step: &super::story::Step) -> Step {
        Step {
            event: step.event.map(|event| event.0),
            at_us: step.at_us,
            who: step.who.clone(),
            what: step.what.clone(),
            outcome: step.outcome.clone(),
            mark: match step.mark {
                Mark::None => None,
                Mark::Fault => Some("fault"),
                Mark::Wrong => Some("wrong"),
                Mark::Held => Some("held"),
            },
            remark: step.remark.clone(),
        }
    }
}

impl<'a> Repeated<'a> {
    fn of(repetition: &'a Repetition) -> Repeated<'a> {
        match repetition {
            Repetition::FreshProcess => Repeated::FreshProcess,
            Repetition::FreshThread { why } => Repeated::FreshThread { why },
            Repetition::Differs { first } => Repeated::Differs {
                event: first.as_ref().map(|first| first.event),
                was: first.as_ref().and_then(|first| first.was.as_deref()),
                is: first.as_ref().and_then(|first| first.is.as_deref()),
            },
        }
    }
}
