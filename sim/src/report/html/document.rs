//! The data of a page, as the script in it reads them. Times are whole µs, tokens and seeds
//! text (no script has 64 bits); every list and every text is bounded.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::causes::Causes;
use super::chinese::{Both, bounded};
use super::choose::{self, Kept};
use super::source::Source;
use super::tracks::{self, Bars, FaultBand, Lane, Lanes, time};
use crate::check::grants::Grants;
use crate::check::{Finding, Goal, Kind, Verdict};
use crate::explain::Draws;
use crate::explain::cliff::{Rest, Rise, Settled};
use crate::explain::pair::Moment;
use crate::history::EventId;
use crate::plan::{capsule, file};
use crate::report::shrunk::nearest_line;
use crate::report::story::{Mark, Story};
use crate::report::subject::Subject;
use crate::report::why::saved::saved_by;
use crate::report::{block, why};

/// Version of the data; the page of the same build reads it.
const SCHEMA: u32 = 1;
/// The most findings that are listed.
const MOST_FINDINGS: usize = 100;
/// The most events of the cone.
const MOST_IN_CONE: usize = 4_000;
/// The longest list within an event.
const MOST_ITEMS: usize = 64;
/// The longest plan, bytes.
const LONGEST_PLAN: usize = 100_000;

/// The data of a page.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct Document {
    pub schema: u32,
    pub lockstorm: &'static str,
    pub verdict: &'static str,
    pub verdict_word: Both,
    pub kinds: Vec<KindCount>,
    pub sentence: Option<Both>,
    pub effect: Option<Both>,
    pub why: Option<Both>,
    pub saved: Option<Both>,
    pub tries: Vec<Both>,
    pub run: RunFacts,
    pub subject: Option<SubjectFacts>,
    pub missing: Missing,
    pub story: Vec<Step>,
    pub findings: Vec<Found>,
    pub findings_left_out: usize,
    pub lanes: Vec<Lane>,
    pub bars: Vec<Bars>,
    pub bars_left_out: usize,
    pub faults: Vec<FaultBand>,
    pub events: Vec<Value>,
    pub events_in_all: usize,
    pub cliff: Option<CliffFacts>,
}

/// A kind that was found.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct KindCount {
    pub word: Both,
    pub count: u64,
    pub violation: bool,
}

/// Which run it was.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct RunFacts {
    pub seed: Option<String>,
    pub scenario: Option<String>,
    pub lock: Option<String>,
    pub fence: &'static str,
    pub engine: String,
    pub trace: String,
    pub file: Option<String>,
    pub reproduce: Option<String>,
    pub capsule: Option<String>,
    pub plan: Option<String>,
    pub confirmation: Option<Both>,
    pub repeated: Option<Both>,
    pub ended: u64,
    pub steps_of_redis: bool,
    pub quorum: u16,
}

/// What is told.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct SubjectFacts {
    pub kind: Both,
    pub kind_id: &'static str,
    pub key: String,
    pub owners: Vec<String>,
    pub from: u64,
    pub to: u64,
    pub evidence: Vec<u64>,
}

/// Why nothing, or not all, can be said.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct Missing {
    pub stuck: Option<String>,
    pub goals: Vec<Both>,
    pub failed: Vec<String>,
    pub undecided: usize,
    pub inert: Vec<Both>,
    pub handovers: usize,
    pub touched: usize,
}

/// A step of the story.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct Step {
    pub event: Option<u64>,
    pub at: u64,
    pub who: Both,
    pub what: Both,
    pub outcome: Option<Both>,
    pub mark: &'static str,
    pub remark: Option<Both>,
}

/// A finding.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct Found {
    pub kind: Both,
    pub violation: bool,
    pub sentence: Both,
    pub parted: Both,
    pub from: u64,
    pub to: u64,
    pub events: Vec<u64>,
}

/// What decided it.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct CliffFacts {
    pub draws: u32,
    pub points: Vec<CliffPoint>,
    pub decisive: Option<Decisive>,
    pub gradual: Option<Way>,
    pub not_decided: Option<Way>,
    pub measures: Vec<Measure>,
    pub nearest: Both,
    pub failing: Option<PairSide>,
    pub passing: Option<PairSide>,
}

/// A point of the cliff.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct CliffPoint {
    pub step: Option<usize>,
    pub event: Option<u64>,
    pub at: u64,
    pub stormy: u32,
    pub calm: u32,
}

/// The way on which the share rises at no single event, or seems to.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct Way {
    pub from: Option<usize>,
    pub to: Option<usize>,
    pub before: u32,
    pub after: u32,
    pub calm: bool,
    pub anew: bool,
    pub least: Option<u32>,
}

/// The decisive event.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct Decisive {
    pub event: u64,
    pub at: u64,
    pub what: Both,
    pub before: u32,
    pub after: u32,
    pub calm: bool,
}

/// What was tried.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct Measure {
    pub flags: String,
    pub violations: u32,
    pub safe: u32,
    pub inconclusive: u32,
}

/// One of two events in whose order two runs part.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "sim/page/src/data.ts has them")]
pub struct PairSide {
    pub at: u64,
    pub what: Both,
    pub in_both: bool,
}

impl Document {
    /// The data of `source`, with at most so many events.
    pub fn of(source: &Source<'_>, most_events: usize) -> Document {
        let (history, judgement, plan) = (source.history, source.judgement, &source.plan);
        let verdict = source.verdict();
        // What was seen of a run that does not repeat may not be what happened.
        let subject =
            Subject::of(history, judgement).filter(|_| verdict != Verdict::Nondeterminism);
        let subject = subject.as_ref();
        let story = subject.map(|subject| Story::of(history, plan, subject)).unwrap_or_default();
        let causes = Causes::of(history, subject);
        let window = subject.map_or((0, 0), |s| (s.finding.from_us, s.finding.to_us));
        let mut roots: BTreeSet<EventId> = subject.map(Subject::evidence).unwrap_or_default();
        roots.extend(story.steps.iter().filter_map(|step| step.event));
        let cone = choose::cone(&roots, &causes, MOST_IN_CONE.min(most_events));
        let kept = choose::choose(history, &cone, window, most_events);
        let grants = Grants::of(history, source.setting.lock_has_records, source.setting.quorum);
        let lanes = Lanes::of(history, &grants);
        let owners = subject.map(Subject::owners).unwrap_or_default();
        let (bars, bars_left_out) = tracks::bars(history, &grants, &lanes, &owners, window);
        let findings = &judgement.findings;
        Document {
            schema: SCHEMA,
            lockstorm: env!("CARGO_PKG_VERSION"),
            verdict: verdict.id(),
            verdict_word: Both::word(|language| verdict.word(language)),
            kinds: kinds(source, verdict),
            sentence: subject.map(|subject| Both::of(&subject.finding.sentence())),
            effect: subject.and_then(|s| block::effect(history, s)).map(|text| Both::of(&text)),
            why: subject.map(|subject| Both::of(&why::why(history, plan, subject))),
            saved: subject.and_then(|s| saved_by(history, s)).map(|text| Both::of(&text)),
            tries: subject.filter(|_| source.is_ours).map_or_else(Vec::new, |subject| {
                why::proposals(subject, plan).into_iter().map(Both::of).collect()
            }),
            run: RunFacts::of(source),
            subject: subject.map(SubjectFacts::of),
            missing: Missing::of(source),
            story: story.steps.iter().map(Step::of).collect(),
            findings: findings.iter().take(MOST_FINDINGS).map(Found::of).collect(),
            findings_left_out: findings.len().saturating_sub(MOST_FINDINGS),
            faults: tracks::faults(history, &lanes, subject.map(Subject::blame)),
            events: kept.iter().map(|kept| event(kept, &lanes, &causes)).collect(),
            events_in_all: history.events.len(),
            lanes: lanes.lanes,
            bars,
            bars_left_out,
            cliff: source.explained.map(|explained| CliffFacts::of(explained, source)),
        }
    }
}

/// The kinds that were found, with their numbers: violations first, the gravest first.
fn kinds(source: &Source<'_>, verdict: Verdict) -> Vec<KindCount> {
    if verdict == Verdict::Nondeterminism {
        return Vec::new();
    }
    let findings = &source.judgement.findings;
    let count = |kind: Kind, violation: bool| {
        findings.iter().filter(|f| f.kind == kind && f.is_violation() == violation).count() as u64
    };
    let all = [true, false]
        .into_iter()
        .flat_map(|violation| Kind::BY_GRAVITY.into_iter().map(move |kind| (kind, violation)));
    let counted = all.map(|(kind, violation)| KindCount {
        word: Both::word(|language| kind.word(language)),
        count: count(kind, violation),
        violation,
    });
    counted.filter(|kind| kind.count > 0).collect()
}

impl RunFacts {
    fn of(source: &Source<'_>) -> RunFacts {
        let plan = Some(&source.plan).filter(|_| source.is_ours);
        let toml = plan.map(file::write).filter(|toml| toml.len() <= LONGEST_PLAN);
        RunFacts {
            seed: plan.map(|plan| plan.seed.to_string()),
            scenario: plan.map(|plan| bounded(&plan.scenario)),
            lock: plan.map(|plan| bounded(&plan.lock.name)),
            fence: source.setting.fence.name(),
            engine: bounded(&source.engine),
            trace: bounded(&source.trace),
            file: source.file.map(bounded),
            reproduce: source.reproduce.map(ToOwned::to_owned),
            capsule: plan.filter(|_| toml.is_some()).map(capsule::write),
            plan: toml,
            confirmation: source.confirmation.map(|told| Both::of(&told.to_string())),
            repeated: source.repetition.map(|how| {
                use crate::storm::repeat::Repetition;
                Both::of(match how {
                    Repetition::FreshProcess => "the same trace in a fresh process",
                    Repetition::FreshThread { .. } => "the same trace on a fresh thread",
                    Repetition::Differs { .. } => "another trace",
                })
            }),
            ended: time(source.history.ended_us),
            steps_of_redis: source.plan.lock.name.starts_with("redis"),
            quorum: source.setting.quorum,
        }
    }
}

impl SubjectFacts {
    fn of(subject: &Subject<'_>) -> SubjectFacts {
        let kind = subject.finding.kind;
        SubjectFacts {
            kind: Both::word(|language| kind.word(language)),
            kind_id: kind.id(),
            key: bounded(subject.key()),
            owners: subject.owners().into_iter().map(bounded).collect(),
            from: time(subject.finding.from_us),
            to: time(subject.finding.to_us),
            evidence: subject.evidence().into_iter().take(MOST_IN_CONE).map(|id| id.0).collect(),
        }
    }
}

impl Missing {
    fn of(source: &Source<'_>) -> Missing {
        let judgement = source.judgement;
        Missing {
            stuck: source.stuck.as_deref().map(bounded),
            goals: (judgement.goals.missed.iter())
                .map(|goal: &Goal| Both::word(|language| goal.word(language)))
                .collect(),
            failed: (judgement.failed.iter())
                .map(|failed| bounded(&format!("{}: {}", failed.checker, failed.message)))
                .collect(),
            undecided: judgement.undecided,
            inert: (judgement.goals.inert.iter().take(MOST_ITEMS))
                .map(|inert| {
                    let planned = source.plan.faults.get(inert.fault);
                    let narrated = planned.map(|fault| crate::fault::narration(&fault.kind));
                    Both::of(&narrated.unwrap_or_else(|| inert.description.clone()))
                })
                .collect(),
            handovers: judgement.goals.handovers,
            touched: judgement.goals.touched.len(),
        }
    }
}

impl Step {
    fn of(step: &crate::report::story::Step) -> Step {
        Step {
            event: step.event.map(|event| event.0),
            at: time(step.at_us),
            who: Both::of(&step.who),
            what: Both::of(&step.what),
            outcome: (!step.outcome.is_empty()).then(|| Both::of(&step.outcome)),
            mark: match step.mark {
                Mark::None => "",
                Mark::Fault => "fault",
                Mark::Wrong => "wrong",
                Mark::Held => "held",
            },
            remark: (!step.remark.is_empty()).then(|| Both::of(&step.remark)),
        }
    }
}

impl Found {
    fn of(finding: &Finding) -> Found {
        Found {
            kind: Both::word(|language| finding.kind.word(language)),
            violation: finding.is_violation(),
            sentence: Both::of(&finding.sentence()),
            parted: Both::word(|language| finding.blame.parted.word(language)),
            from: time(finding.from_us),
            to: time(finding.to_us),
            events: finding.events.iter().take(MOST_ITEMS).map(|event| event.0).collect(),
        }
    }
}

impl Way {
    fn of(rise: &Rise, draws: u32) -> Way {
        Way {
            from: rise.from_step,
            to: rise.to.step,
            before: rise.before,
            after: rise.after,
            calm: rise.rest == Rest::Calm,
            anew: rise.draws == Draws::Anew,
            least: rise.least_draws(draws),
        }
    }
}

impl CliffFacts {
    fn of(explained: &crate::explain::Explained, source: &Source<'_>) -> CliffFacts {
        let id = |event: EventId| source.renumbered(event).0;
        let side = |moment: &Moment| PairSide {
            at: time(moment.at_us),
            what: Both::of(&moment.name),
            in_both: moment.in_both,
        };
        CliffFacts {
            draws: explained.draws,
            points: (explained.cliff.points.iter())
                .map(|point| CliffPoint {
                    step: point.step,
                    event: point.event.map(id),
                    at: time(point.at_us),
                    stormy: point.stormy,
                    calm: point.calm,
                })
                .collect(),
            decisive: explained.cliff.settled.decisive().map(|rise| Decisive {
                event: id(rise.to.event),
                at: time(rise.to.at_us),
                what: Both::of(&rise.to.name),
                before: rise.before,
                after: rise.after,
                calm: rise.rest == Rest::Calm,
            }),
            gradual: match &explained.cliff.settled {
                Settled::Gradually(rise) => Some(Way::of(rise, explained.draws)),
                Settled::By(_) | Settled::NotDecided(_) | Settled::Nowhere => None,
            },
            not_decided: match &explained.cliff.settled {
                Settled::NotDecided(rise) => Some(Way::of(rise, explained.draws)),
                Settled::By(_) | Settled::Gradually(_) | Settled::Nowhere => None,
            },
            measures: (explained.measures.iter())
                .map(|measure| Measure {
                    flags: measure.flags.clone(),
                    violations: measure.violations,
                    safe: measure.safe,
                    inconclusive: measure.inconclusive,
                })
                .collect(),
            nearest: Both::of(&nearest_line(explained.nearest.as_ref())),
            failing: explained.pair.as_ref().map(|pair| side(&pair.failing)),
            passing: explained.pair.as_ref().map(|pair| side(&pair.passing)),
        }
    }
}

/// An event: `i` its id, `t` when, `n` its lane, `c` what led to it, `k` whether it is in
/// the cone, `x` and `u` how often and until when; the rest as in a file.
fn event(kept: &Kept<'_>, lanes: &Lanes<'_>, causes: &Causes) -> Value {
    let mut row = match serde_json::to_value(&kept.event.what).map(within_bounds) {
        Ok(Value::Object(row)) => row,
        _ => Map::new(),
    };
    let event = kept.event;
    row.insert("i".to_owned(), event.id.0.into());
    row.insert("t".to_owned(), time(event.at_us).into());
    if let Some(lane) = lanes.position(&event.node) {
        row.insert("n".to_owned(), lane.into());
    }
    let causes = causes.get(event.id);
    if !causes.is_empty() {
        row.insert("c".to_owned(), causes.iter().map(|cause| cause.0).collect());
    }
    if kept.in_cone {
        row.insert("k".to_owned(), 1.into());
    }
    if kept.times > 1 {
        row.insert("x".to_owned(), kept.times.into());
        row.insert("u".to_owned(), time(kept.until_us).into());
    }
    Value::Object(row)
}

/// Cuts texts and lists, leaves out what is null, and writes as text what no script counts.
pub(in crate::report) fn within_bounds(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(bounded(&text)),
        Value::Array(items) => items.into_iter().take(MOST_ITEMS).map(within_bounds).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, within_bounds(value)))
            .collect(),
        Value::Number(number) if number.as_u64().is_some_and(|n| n != time(n)) => {
            Value::String(number.to_string())
        }
        other => other,
    }
}
