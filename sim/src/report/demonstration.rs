//! What the program shows when it is started alone: a storm in which a lock is lost,
//! what that does to a stock, and the same storm with a full fence.
//!
//! Told of two runs of one plan that differ in nothing but the fence. What the runs
//! did not show is not claimed: where the first is no violation, or the second not
//! safe, the text says what they were.

use crate::check::{Language, Verdict};
use crate::report::block::{effect, seconds};
use crate::report::layout::{counted, fold, labelled};
use crate::report::manner::Manner;
use crate::report::story::{Story, legend};
use crate::report::subject::Subject;
use crate::report::why;
use crate::storm::Run;
use crate::storm::confirm::Confirmation;

/// A run of the demonstration, and what the reference engine says of it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The run.
    pub run: &'a Run,
    /// What the reference engine says.
    pub confirmation: Option<&'a Confirmation>,
}

/// The text of the demonstration: `bare` without a fence, `fenced` the same plan with
/// a full one. `next` are the commands that it ends with, each with a few words. No
/// more than 60 lines with up to three of them.
pub fn demonstration(
    bare: &Shown<'_>,
    fenced: &Shown<'_>,
    next: &[(&str, &str)],
    manner: &Manner,
) -> String {
    let mut text = Text { manner, text: String::new() };
    introduce(&mut text, bare.run);
    let one = part(&mut text, "1. The storm", bare);
    let two = part(&mut text, "2. The same storm, fence full", fenced);
    let stories: Vec<&Story> = [&one, &two].into_iter().flatten().collect();
    let legend = legend(&stories, manner.charset);
    if !legend.is_empty() {
        text.line(&format!("  {}", manner.style.faint(&legend)));
        text.line("");
    }
    text.line(&manner.style.strong("Next"));
    let longest = next.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, words) in next {
        text.line(&format!("  {command:longest$}   {words}"));
    }
    text.text.trim_end().to_owned()
}

struct Text<'m> {
    manner: &'m Manner,
    text: String,
}

impl Text<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn paragraph(&mut self, indent: usize, text: &str) {
        for line in fold(&self.manner.charset.fit(text), self.manner.width - indent) {
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    fn labelled(&mut self, label: &str, text: &str) {
        let text = self.manner.charset.fit(text);
        self.line(&labelled(&format!("  {label}"), 13, &text, self.manner.width));
    }
}

fn introduce(text: &mut Text<'_>, run: &Run) {
    let topology = &run.plan.topology;
    let units = u64::from(run.plan.workload.units);
    let sentinels = match topology.sentinels {
        0 => String::new(),
        count => format!(" and {}", counted(u64::from(count), "sentinel")),
    };
    text.paragraph(
        0,
        &format!(
            "{}, {}{sentinels}, {} of stock: simulated in this process, decided by seed {}. The \
             clients take the lock, read the stock, sell a unit, let go. First a storm loses the \
             lock; then the same storm meets a stock that looks at fencing tokens.",
            counted(topology.app_nodes().len() as u64, "client"),
            counted(u64::from(topology.redis), "Redis server"),
            counted(units, "unit"),
            run.plan.seed,
        ),
    );
    text.line("");
}

/// One half: the story, what came of it, why, and who confirms it.
fn part(text: &mut Text<'_>, title: &str, shown: &Shown<'_>) -> Option<Story> {
    let run = shown.run;
    let title = text.manner.style.strong(title);
    let took = format!("{} simulated, {}", seconds(run.history.ended_us), run.engine);
    let took = text.manner.charset.fit(&took);
    text.line(&format!("{title}   ({took})"));
    let subject = Subject::of(&run.history, &run.judgement);
    let story = subject.as_ref().map(|subject| Story::of(&run.history, &run.plan, subject));
    for line in story.iter().flat_map(|story| story.lines(text.manner)) {
        text.line(&line);
    }
    text.line("");
    let verdict = run.judgement.verdict;
    let sentence = subject.as_ref().map(|subject| subject.finding.sentence()).unwrap_or_default();
    text.line(&verdict_line(verdict, text.manner));
    text.labelled("", &sentence);
    if let Some(subject) = &subject {
        match effect(&run.history, subject) {
            Some(effect) => text.labelled("Effect", &effect),
            None if verdict.is_safe() => text.labelled("Effect", &held(run)),
            None => {}
        }
        if !verdict.is_safe() {
            text.labelled("Why", &why::why(&run.history, &run.plan, subject));
        }
    }
    if let Some(confirmation) = shown.confirmation {
        text.labelled("Reference", &confirmation.to_string());
    }
    text.line("");
    story
}

/// `  safe by fence   凭栅栏安全`.
fn verdict_line(verdict: Verdict, manner: &Manner) -> String {
    let word = verdict.word(Language::English);
    let word = match verdict {
        Verdict::Safe | Verdict::SafeByFence => manner.style.good(word),
        _ => manner.style.bad(word),
    };
    let chinese = match manner.charset.has_chinese() {
        true => verdict.word(Language::Chinese),
        false => "",
    };
    format!("  Verdict    {word}   {chinese}").trim_end().to_owned()
}

/// What the books of a run without harm say.
fn held(run: &Run) -> String {
    use crate::history::What;
    let books = run.history.events.iter().rev().find_map(|event| match &event.what {
        What::Ledger { units, sales } => Some((*units, sales.len() as u64)),
        _ => None,
    });
    match books {
        Some((units, sold)) => format!(
            "stock {units}, sold {sold}, no unit twice: the lock was still lost, and it did no harm."
        ),
        None => "the stock's books were not read.".to_owned(),
    }
}
