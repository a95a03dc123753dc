//! The block that a failing storm prints: what happened, in one sentence; what came of
//! it; which run that was; the story; why; what to try; and last, on one line, the
//! command that shows it again.
//!
//! Runs that failed without a violation have the same block with what is missing in
//! place of the story ([`missing`]). A run that did not repeat has no story: what was
//! seen may not be what happened ([`nondeterminism`]).

mod missing;
mod nondeterminism;

use crate::check::{Judgement, Kind, Language, Mechanism, Verdict};
use crate::history::{History, What};
use crate::plan::scenario::OWN_LOCK;
use crate::plan::{ClockPlan, Plan, Ppm, SignedMicros};
use crate::report::layout::{counted, fold, grouped, labelled, width};
use crate::report::manner::{Charset, Manner};
use crate::report::story::Story;
use crate::report::subject::{self, Subject};
use crate::report::why::clocks::{Clocks, Gain};
use crate::report::{timers, why};
use crate::storm::Run;
use crate::storm::confirm::Confirmation;
use crate::storm::repeat::Repetition;

/// A run to be told of.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The run.
    pub run: &'a Run,
    /// The how-manieth of how many it was.
    pub position: Option<(u64, u64)>,
    /// How it repeated, if it was tried.
    pub repetition: Option<&'a Repetition>,
    /// What the reference engine says of it, if it was asked.
    pub confirmation: Option<&'a Confirmation>,
    /// The command that runs it again.
    pub reproduce: &'a str,
}

/// Clocks no further off than this are what every machine has, and matter to no sound
/// lock.
const HARMLESS_PPM: i64 = 500;

/// How wide the labels of the last part are, with their indentation.
const LABEL: usize = 14;

/// The block of `failure` in the characters of this process's locale, without colours.
/// It has no more than 40 lines, and no line feed at its end.
pub fn failure_block(failure: &Failure<'_>) -> String {
    failure_block_in(failure, &Manner::from_environment())
}

/// The block of `failure` in this manner.
pub fn failure_block_in(failure: &Failure<'_>, manner: &Manner) -> String {
    let mut block = Block::new(manner);
    block.rule();
    match failure.repetition {
        Some(Repetition::Differs { first }) => {
            nondeterminism::tell(&mut block, failure, first.as_ref());
        }
        _ => tell(&mut block, failure),
    }
    block.labelled("Reproduce", &[failure.reproduce]);
    block.rule();
    block.text.trim_end().to_owned()
}

/// A block that is being written.
pub(super) struct Block<'m> {
    manner: &'m Manner,
    text: String,
}

impl<'m> Block<'m> {
    fn new(manner: &'m Manner) -> Self {
        Block { manner, text: String::new() }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn blank(&mut self) {
        self.line("");
    }

    fn rule(&mut self) {
        let rule = self.manner.charset.fit(&"─".repeat(self.manner.width));
        let rule = self.manner.style.faint(&rule);
        self.line(&rule);
    }

    /// A paragraph, indented.
    fn paragraph(&mut self, text: &str) {
        for line in fold(&self.manner.charset.fit(text), self.manner.width - 2) {
            self.line(&format!("  {line}"));
        }
    }

    /// Each of `texts` behind `label`, folded. Nothing without texts.
    fn labelled(&mut self, label: &str, texts: &[&str]) {
        for (n, text) in texts.iter().enumerate() {
            let label = if n == 0 { format!("  {label}") } else { String::new() };
            let text = self.manner.charset.fit(text);
            // A command must stay on one line to be copied.
            if ["Reproduce", "Try it"].contains(&label.trim()) {
                self.line(&format!("{label:LABEL$}{text}"));
            } else {
                self.line(&labelled(&label, LABEL, &text, self.manner.width));
            }
        }
    }

    /// The facts of a run: which, from which plan, on which build.
    fn facts(&mut self, failure: &Failure<'_>, subject: Option<&Subject<'_>>) {
        let run = failure.run;
        let plan = &run.plan;
        let mut which = vec![plan.seed.to_string()];
        if let Some((index, count)) = failure.position {
            which.push(format!("run {} of {}", grouped(index), grouped(count)));
        }
        which.push(format!("{} simulated", seconds(run.history.ended_us)));
        which.push(counted(run.ending.steps, "step"));
        self.fact("seed", &which);
        let faults = counted(plan.faults.len() as u64, "fault");
        let fence = plan.fence.name();
        self.fact("plan", &[plan.scenario.clone(), format!("fence {fence}"), faults]);
        // No fault begins them, so the story cannot tell.
        let compared = subject.map_or_else(Vec::new, |subject| compared_clocks(run, subject));
        let untrue = plan.clocks.iter().filter(|clock| {
            clock.rate_ppm.abs() > HARMLESS_PPM || compared.contains(&clock.node.as_str())
        });
        let clocks: Vec<String> = untrue.map(clock).collect();
        if !clocks.is_empty() {
            self.fact("clocks", &[clocks.join(", ")]);
        }
        if subject.is_some() {
            for line in missing::inert_faults(&run.judgement, plan, 3) {
                self.fact("inert", &[line]);
            }
        }
        if let Some(connections) = &run.connections {
            for (n, fact) in connections.facts().into_iter().enumerate() {
                self.fact(if n == 0 { "pools" } else { "" }, &[fact]);
            }
        }
        if plan.lock.name == OWN_LOCK.name && !run.setting.lock_has_records {
            let told = "none was seen at a server: judged by beliefs and effects alone";
            self.fact("records", &[told.to_owned()]);
        }
        if let Some(timers) = timers::did_not_follow(plan) {
            self.fact("timers", &[timers.to_string()]);
        }
        let build = format!("{} · {}", self.manner.build, run.engine);
        // A run that never was has no trace.
        let trace = match run.history.events.is_empty() {
            true => String::new(),
            false => format!(" · trace {}", run.trace_hash),
        };
        self.fact("build", &[format!("{build}{trace}")]);
        let lacks = self.manner.build.lacks();
        if !lacks.is_empty() {
            self.fact("without", &[lacks.join(", ")]);
        }
    }

    fn fact(&mut self, label: &str, facts: &[String]) {
        let facts = self.manner.charset.fit(&facts.join("    "));
        let line = format!("  {label:8}{facts}");
        match width(&line) <= self.manner.width {
            true => self.line(&line),
            false => self.line(&labelled(&format!("  {label}"), 10, &facts, self.manner.width)),
        }
    }
}

/// The first line: the verdict, the kinds, the lock; the same in Chinese.
pub(super) fn headline(
    verdict: Verdict,
    judgement: &Judgement,
    plan: &Plan,
    manner: &Manner,
) -> String {
    let word = verdict.word(Language::English).to_uppercase();
    let word = match verdict {
        Verdict::Safe | Verdict::SafeByFence => manner.style.good(&word),
        Verdict::Violation | Verdict::Nondeterminism | Verdict::Internal => manner.style.bad(&word),
        Verdict::Unknown | Verdict::Inert | Verdict::NotExpressible => manner.style.warning(&word),
    };
    let kinds = match verdict {
        Verdict::Violation => subject::kinds(judgement, true),
        // What the fence kept from doing harm.
        Verdict::SafeByFence => vec![(Kind::DoubleGrant, 1)],
        _ => Vec::new(),
    };
    let named = |language| {
        let names: Vec<&str> = kinds.iter().map(|(kind, _)| kind.word(language)).collect();
        names.join(", ")
    };
    let english = verdict.word(Language::English);
    let mut parts = vec![named(Language::English), format!("lock {}", plan.lock.name)];
    if manner.charset.has_chinese() {
        let chinese = format!("{} {}", verdict.word(Language::Chinese), named(Language::Chinese));
        parts.push(chinese.trim_end().to_owned());
    }
    // What does not fit goes on below.
    let (mut line, mut cells) = (word, width(english));
    for (n, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        let gap = if n == 0 { "  " } else { "   " };
        if cells + width(gap) + width(part) <= manner.width {
            line.push_str(&format!("{gap}{part}"));
            cells += width(gap) + width(part);
            continue;
        }
        for folded in fold(part, manner.width - 2) {
            line.push_str(&format!("\n  {folded}"));
            cells = 2 + width(&folded);
        }
    }
    line.trim_end().to_owned()
}

/// The block of a run that repeated, or was not repeated.
fn tell(block: &mut Block<'_>, failure: &Failure<'_>) {
    let run = failure.run;
    let judgement = &run.judgement;
    block.line(&headline(judgement.verdict, judgement, &run.plan, block.manner));
    let subject = match judgement.verdict {
        Verdict::Violation | Verdict::SafeByFence | Verdict::Safe => {
            Subject::of(&run.history, judgement)
        }
        _ => None,
    };
    match subject {
        Some(subject) => found(block, failure, &subject),
        None => missing::tell(block, failure),
    }
    if let Some(confirmation) = failure.confirmation {
        let label = match confirmation {
            Confirmation::Confirmed { .. } | Confirmation::ConfirmedInPart { .. } => "Confirmed",
            _ => "Unconfirmed",
        };
        let (told, explained) = (confirmation.to_string(), explained(confirmation));
        let texts: Vec<&str> = [told.as_str()].into_iter().chain(explained).collect();
        block.labelled(label, &texts);
    }
    if judgement.violations().next().is_some() {
        block.labelled("Signature", &[&judgement.signature()]);
    }
    match failure.repetition {
        // Nothing was run that could repeat.
        _ if judgement.verdict == Verdict::NotExpressible => {}
        Some(Repetition::FreshProcess) => {
            block.labelled("Repeated", &["the same trace in a fresh process"]);
        }
        Some(Repetition::FreshThread { why }) => {
            let how = format!("the same trace on a fresh thread (no fresh process: {why})");
            block.labelled("Repeated", &[&how]);
        }
        Some(Repetition::Differs { .. }) | None => {}
    }
}

/// What a confirmation means, where its own words do not say.
fn explained(confirmation: &Confirmation) -> Option<&'static str> {
    match confirmation {
        Confirmation::Confirmed { tries: 2.. } => Some(
            "(a try is the same plan with other random draws; those before it did not show it)",
        ),
        Confirmation::ConfirmedInPart { .. } => Some(
            "(in part: some try of the plan with other random draws failed there too, but less \
             gravely)",
        ),
        Confirmation::NotConfirmed { .. } => {
            Some("(no try of the plan, each with other random draws, showed it there)")
        }
        _ => None,
    }
}

/// Sentence, effect, facts, story, why, what to try.
fn found(block: &mut Block<'_>, failure: &Failure<'_>, subject: &Subject<'_>) {
    let run = failure.run;
    block.paragraph(&subject.finding.sentence());
    if let Some(effect) = effect(&run.history, subject) {
        block.paragraph(&format!("Effect: {effect}"));
    }
    let others = others(&run.judgement);
    if !others.is_empty() {
        block.paragraph(&format!("Found: {others}."));
    }
    block.blank();
    block.facts(failure, Some(subject));
    block.blank();
    let heading = block.manner.style.strong("What happened");
    block.line(&format!("  {heading}"));
    for line in Story::of(&run.history, &run.plan, subject).lines(block.manner) {
        block.line(&line);
    }
    block.blank();
    block.labelled("Why", &[&why::why(&run.history, &run.plan, subject)]);
    let saved = why::saved::saved_by(&run.history, subject);
    block.labelled("Saved by", &saved.iter().map(String::as_str).collect::<Vec<_>>());
    block.labelled("Try", &why::proposals(subject, &run.plan));
    if why::fence_helps(subject, &run.plan)
        && let Some(command) = fenced(failure.reproduce)
    {
        block.labelled("Try it", &[&command]);
    }
}

/// The command that runs it with a full fence; `None` of one that takes no such flag, such as
/// `cargo test`.
fn fenced(reproduce: &str) -> Option<String> {
    let mut programs = ["lockstorm ", "cargo run -- "].into_iter();
    let verb = programs.find_map(|program| reproduce.strip_prefix(program))?;
    if !verb.starts_with("run ") && !verb.starts_with("replay ") {
        return None;
    }
    let mut said = [" --fence off", " --fence write"].into_iter();
    Some(match said.find(|said| verb.contains(said)) {
        Some(said) => reproduce.replacen(said, " --fence full", 1),
        None => format!("{reproduce} --fence full"),
    })
}

/// The nodes whose clocks were compared with each other, where that ended a lease.
fn compared_clocks<'s>(run: &Run, subject: &Subject<'s>) -> Vec<&'s str> {
    let mechanism = &subject.blame().mechanism;
    match (mechanism, Clocks::of(&run.history, &run.plan).gain(mechanism)) {
        (Mechanism::ExpiredEarly { set_at, expired_at, .. }, Gain::Moved(_)) => {
            vec![set_at, expired_at]
        }
        _ => Vec::new(),
    }
}

/// A clock that is not true from the start: `redis-2 runs +5% and is off by +2s`.
fn clock(clock: &ClockPlan) -> String {
    let rate = (clock.rate_ppm != 0).then(|| format!("runs {}", Ppm(clock.rate_ppm)));
    let offset = SignedMicros(clock.offset_us);
    let offset = (clock.offset_us != 0).then(|| format!("is off by {offset}"));
    let facts: Vec<String> = rate.into_iter().chain(offset).collect();
    format!("{} {}", clock.node, facts.join(" and "))
}

/// What it did to the stock, from its books; `None` where it did nothing.
pub(super) fn effect(history: &History, subject: &Subject<'_>) -> Option<String> {
    let (units, sales) = history.events.iter().rev().find_map(|event| match &event.what {
        What::Ledger { units, sales } => Some((*units, sales)),
        _ => None,
    })?;
    let harm = subject.harm?;
    let mut sold: Vec<u32> = sales.iter().map(|(unit, _)| *unit).collect();
    sold.sort_unstable();
    let total = sold.len() as u64;
    sold.dedup();
    sold.retain(|unit| (1..=units).contains(unit));
    let over = total - sold.len() as u64;
    if units == 1 {
        return Some(format!("stock 1, sold {} (oversold by {}).", grouped(total), grouped(over)));
    }
    let (units, total) = (grouped(u64::from(units)), grouped(total));
    let in_all =
        format!("In all {total} sales from a stock of {units}, {} too many.", grouped(over));
    if std::ptr::eq(harm, subject.finding) {
        return Some(in_all);
    }
    Some(format!("{} {in_all}", harm.sentence()))
}

/// What the headline does not say: advisories, and how many there are of a kind.
fn others(judgement: &Judgement) -> String {
    let is_headline = |kind: Kind| match judgement.verdict {
        Verdict::SafeByFence => kind == Kind::DoubleGrant,
        _ => judgement.violations().any(|finding| finding.kind == kind),
    };
    let all = subject::kinds(judgement, true).into_iter().map(|found| (found, ""));
    let advisories = subject::kinds(judgement, false).into_iter();
    let all = all.chain(advisories.map(|found| (found, " (advisory)")));
    let more = all.filter(|((kind, count), _)| *count > 1 || !is_headline(*kind));
    let counted = more.map(|((kind, count), note)| {
        let times = if count > 1 { format!(" ×{}", grouped(count)) } else { String::new() };
        format!("{kind}{times}{note}")
    });
    counted.collect::<Vec<_>>().join(", ")
}

/// Simulated time with one decimal: `6.2 s`.
pub(super) fn seconds(us: u64) -> String {
    format!("{}.{} s", grouped(us / 1_000_000), us / 100_000 % 10)
}

/// The block of `failure` in these characters, without colours.
pub fn failure_block_with(failure: &Failure<'_>, charset: Charset) -> String {
    failure_block_in(failure, &Manner::of(charset))
}
