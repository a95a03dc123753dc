//! A lesson as text: the question, what happened, why, the curves, what to mend.
//!
//! Everything that is claimed comes from a run that is handed in; [`site`] tells the same as
//! pages, [`mod@words`] has what stands around every lesson.

pub mod site;
pub mod words;

use std::fmt::Write as _;

use crate::check::{Language, Verdict};
use crate::history::What;
use crate::lesson::{Knob, Lesson, Point, Text};
use crate::report::block::{self, seconds};
use crate::report::html::chinese::Both;
use crate::report::layout::{fold, pad, pad_left, width};
use crate::report::manner::Manner;
use crate::report::story::{Step, Story};
use crate::report::subject::Subject;
use crate::report::why;
use crate::storm::Run;
use crate::storm::confirm::Confirmation;

use words::{Words, words};

/// How lessons are told: how texts look, and in which language.
#[derive(Clone, Copy, Debug)]
pub struct Teller {
    manner: Manner,
    language: Language,
}

/// A storm of a lesson, as it went.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The run.
    pub run: &'a Run,
    /// What the reference engine says of it, if it was asked.
    pub confirmation: Option<&'a Confirmation>,
}

/// The letter of the n-th answer.
pub fn letter(n: usize) -> char {
    char::from(b'a' + u8::try_from(n).unwrap_or(25).min(25))
}

/// That nothing went wrong in a run, and how much came of it: a shop that is closed does no wrong.
fn nothing_wrong(run: &Run, language: Language) -> String {
    let nothing = words(language).nothing_went_wrong;
    let ledger = run.history.iter().rev().find_map(|event| match &event.what {
        What::Ledger { units, sales } => Some((sales.len(), *units)),
        _ => None,
    });
    match (ledger, language) {
        (None, _) => nothing.to_owned(),
        (Some((sold, units)), Language::English) => {
            format!("{nothing} {sold} of {units} units were sold.")
        }
        (Some((sold, units)), Language::Chinese) => {
            format!("{nothing}{units} 件中售出 {sold} 件。")
        }
    }
}

impl Teller {
    /// In `language`, or in English where the terminal has no Chinese.
    pub fn new(manner: Manner, language: Language) -> Teller {
        let language = if manner.charset.has_chinese() { language } else { Language::English };
        Teller { manner, language }
    }

    fn words(&self) -> &'static Words {
        words(self.language)
    }

    /// A line for each lesson.
    pub fn list(&self, lessons: &[Lesson]) -> String {
        let widest = lessons.iter().map(|lesson| lesson.id.len()).max().unwrap_or(0);
        let line = |(n, lesson): (usize, &Lesson)| {
            let id = self.manner.style.strong(&pad(&lesson.id, widest));
            format!("{:>3}  {id}  {}", n + 1, self.fit(lesson.title.of(self.language)))
        };
        lessons.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The scene and the question.
    pub fn question(&self, lesson: &Lesson, number: usize, count: usize) -> String {
        let mut out = Out::new(*self);
        let place = match self.language {
            Language::English => format!("Lesson {number} of {count}"),
            Language::Chinese => format!("第 {number} 课，共 {count} 课"),
        };
        out.line(&self.manner.style.faint(&self.fit(&place)));
        out.line(&self.manner.style.strong(&self.fit(lesson.title.of(self.language))));
        out.text(&lesson.scene);
        out.heading(self.words().before);
        out.text(&lesson.question);
        for (n, choice) in lesson.choices.iter().enumerate() {
            out.behind(&format!("    {}  ", letter(n)), choice.text.of(self.language));
        }
        out.end()
    }

    /// What is right, and why what was chosen is not.
    pub fn answer(&self, lesson: &Lesson, chosen: Option<usize>) -> String {
        let mut out = Out::new(*self);
        let words = self.words();
        let right = lesson.right();
        out.heading(words.the_answer);
        if let Some((n, choice)) = chosen.and_then(|n| Some((n, lesson.choices.get(n)?)))
            && n != right
        {
            let because = choice.because.of(self.language);
            out.behind(&format!("    {}  ", letter(n)), &format!("{} {because}", words.wrong));
        }
        if let Some(choice) = lesson.choices.get(right) {
            let mut text = choice.because.of(self.language).to_owned();
            if chosen == Some(right) {
                text = format!("{} {text}", words.right);
            }
            out.behind(&format!("    {}  ", letter(right)), &text);
        }
        out.end()
    }

    /// What happened, what is to be thought of it, why.
    pub fn storm(&self, shown: &Shown<'_>) -> String {
        let mut out = Out::new(*self);
        let (run, words) = (shown.run, self.words());
        let took = format!(
            "{} {} · {} {} · {}",
            words.seed,
            run.plan.seed,
            words.simulated,
            seconds(run.history.ended_us),
            run.engine
        );
        out.blank();
        out.line(&format!(
            "{}   {}",
            self.manner.style.strong(&self.fit(words.what_happened)),
            self.manner.style.faint(&self.fit(&took))
        ));
        let subject = Subject::of(&run.history, &run.judgement);
        let story = subject.as_ref().map(|subject| Story::of(&run.history, &run.plan, subject));
        match &story {
            Some(story) => {
                let story = Story { steps: story.steps.iter().map(|s| self.step(s)).collect() };
                story.lines(&self.manner).iter().for_each(|line| out.line(line));
            }
            None => out.behind("  ", &nothing_wrong(run, self.language)),
        }
        out.blank();
        let verdict = run.judgement.verdict;
        let word = self.fit(verdict.word(self.language));
        let word = match verdict {
            Verdict::Safe | Verdict::SafeByFence => self.manner.style.good(&word),
            _ => self.manner.style.bad(&word),
        };
        out.line(&format!("  {}{word}", pad(words.verdict, LABEL)));
        if let Some(subject) = &subject {
            out.labelled("", &self.said(&subject.finding.sentence()));
            if let Some(effect) = block::effect(&run.history, subject) {
                out.labelled(words.effect, &self.said(&effect));
            }
            if !verdict.is_safe() {
                let why = why::why(&run.history, &run.plan, subject);
                out.labelled(words.why, &self.said(&why));
            }
        }
        if let Some(confirmation) = shown.confirmation {
            out.labelled(words.reference, &self.said(&confirmation.to_string()));
        }
        out.end()
    }

    /// What it shows, what its knobs do, what is to be mended.
    pub fn lesson(&self, lesson: &Lesson, curves: &[Vec<Point>]) -> String {
        let mut out = Out::new(*self);
        let words = self.words();
        out.heading(words.what_it_shows);
        out.text(&lesson.story);
        for (knob, points) in lesson.knobs.iter().zip(curves) {
            self.curve(&mut out, knob, points);
        }
        out.heading(words.exercise);
        out.text(&lesson.exercise);
        out.line(&format!("    lockstorm lesson run {} --set KEY=VALUE", lesson.id));
        out.faint("    ", words.solution_flag);
        out.heading(words.safe_if);
        out.text(&lesson.safe_if);
        out.end()
    }

    fn curve(&self, out: &mut Out, knob: &Knob, points: &[Point]) {
        let words = self.words();
        let runs = points.first().map_or(0, |point| point.runs);
        out.heading(&format!("{}: {}", words.knob, knob.title.of(self.language)));
        let about = format!("{}, {runs} {}", knob.set, words.each_other_draws);
        out.faint("  ", &about);
        let widest = points.iter().map(|point| width(&point.value)).max().unwrap_or(0);
        for point in points {
            let value = pad_left(&point.value, widest);
            out.line(&format!("    {value}  {}", bar(point)));
        }
        out.text(&knob.text);
    }

    /// One text, below whatever was told.
    pub fn paragraph(&self, text: &Text) -> String {
        let mut out = Out::new(*self);
        out.text(text);
        out.end()
    }

    /// What one may try, with what came of it.
    pub fn fixes(&self, lesson: &Lesson, verdicts: &[Verdict]) -> String {
        let mut out = Out::new(*self);
        out.heading(self.words().solution);
        for (fix, verdict) in lesson.fixes.iter().zip(verdicts) {
            let word = verdict.word(self.language);
            let flags: Vec<String> = fix.set.iter().map(|set| format!("--set {set}")).collect();
            out.behind("    ", &format!("{}: {word}", fix.title.of(self.language)));
            out.line(&format!("      {}", flags.join(" ")));
            out.behind("      ", fix.because.of(self.language));
            out.blank();
        }
        out.end()
    }

    /// An English text of a report in the language of this teller.
    fn said(&self, english: &str) -> String {
        let both = Both::of(english);
        match self.language {
            Language::English => both.en,
            Language::Chinese => both.zh.unwrap_or(both.en),
        }
    }

    fn step(&self, step: &Step) -> Step {
        Step {
            who: self.said(&step.who),
            what: self.said(&step.what),
            outcome: self.said(&step.outcome),
            remark: self.said(&step.remark),
            ..step.clone()
        }
    }

    fn fit(&self, text: &str) -> String {
        self.manner.charset.fit(text)
    }
}

/// How wide labels are.
const LABEL: usize = 12;

/// `######....   7 of 12`.
fn bar(point: &Point) -> String {
    const CELLS: u32 = 20;
    let cells = (point.failed * CELLS).div_ceil(point.runs.max(1));
    let bar: String = (0..CELLS).map(|cell| if cell < cells { '#' } else { '.' }).collect();
    let mut text = format!("{bar}  {:>2} / {}", point.failed, point.runs);
    if point.inconclusive > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, "  (+{} ?)", point.inconclusive);
    }
    text
}

/// Lines that are being written.
struct Out {
    teller: Teller,
    text: String,
}

impl Out {
    fn new(teller: Teller) -> Out {
        Out { teller, text: String::new() }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn blank(&mut self) {
        self.line("");
    }

    fn heading(&mut self, heading: &str) {
        self.blank();
        let heading = self.teller.fit(heading);
        self.line(&self.teller.manner.style.strong(&heading));
    }

    fn text(&mut self, text: &Text) {
        for paragraph in text.paragraphs(self.teller.language) {
            self.behind("  ", &paragraph);
        }
    }

    /// `text` behind `label`, folded below itself.
    fn behind(&mut self, label: &str, text: &str) {
        let indent = width(label);
        let text = self.teller.fit(text);
        for (n, line) in folded(&text, self.teller.manner.width - indent).iter().enumerate() {
            let before = if n == 0 { label.to_owned() } else { " ".repeat(indent) };
            self.line(&format!("{before}{line}"));
        }
    }

    /// The same for what one may skip.
    fn faint(&mut self, label: &str, text: &str) {
        let text = self.teller.fit(text);
        for line in folded(&text, self.teller.manner.width - width(label)) {
            self.line(&format!("{label}{}", self.teller.manner.style.faint(&line)));
        }
    }

    fn labelled(&mut self, label: &str, text: &str) {
        self.behind(&format!("  {}", pad(label, LABEL)), text);
    }

    fn end(self) -> String {
        self.text.trim_end().to_owned()
    }
}

/// Folded at blanks, and between Chinese characters, which have none.
fn folded(text: &str, cells: usize) -> Vec<String> {
    /// What does not begin a line in Chinese.
    const CLOSING: &str = "，。；：！？、）」』…”’";
    let mut lines = Vec::new();
    for line in fold(text, cells) {
        let mut rest = String::new();
        for character in line.chars() {
            let one = character.to_string();
            if width(&rest) + width(&one) > cells && !CLOSING.contains(character) && !one.is_ascii()
            {
                lines.push(std::mem::take(&mut rest));
            }
            rest.push(character);
        }
        lines.push(rest);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_is_folded_between_characters_and_no_line_begins_with_a_comma() {
        let lines = folded("主节点宕机时，从节点还没有收到锁。", 14);
        assert!(lines.iter().all(|line| width(line) <= 16 && !line.starts_with(['，', '。'])));
        assert_eq!(lines.concat(), "主节点宕机时，从节点还没有收到锁。");
    }

    #[test]
    fn any_failure_is_seen_in_a_bar() {
        let point = |failed| Point { value: "1s".into(), runs: 12, failed, inconclusive: 0 };
        assert!(bar(&point(1)).starts_with("##..") && bar(&point(0)).starts_with("...."));
        assert!(bar(&point(12)).starts_with("####################  12"));
    }
}
