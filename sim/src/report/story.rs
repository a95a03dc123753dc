//! The story of a finding: the few events of a history that matter, numbered.
//!
//! Order of things: [`choose`] picks the events and says how much each matters,
//! [`tell`](mod@tell) puts each into the field's words, with the command as it went
//! over the wire, and here they are cut to length, numbered and set in columns.

mod choose;
mod tell;

use crate::history::{EventId, History};
use crate::plan::Plan;
use crate::report::layout::{pad, pad_left, width};
use crate::report::manner::{Charset, Manner};
use crate::report::subject::Subject;

/// A story has no more steps than this.
pub const MOST_STEPS: usize = 12;

/// What is said beside a step by a sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    #[default]
    None,
    /// A fault of the plan.
    Fault,
    /// What must not happen.
    Wrong,
    /// What the fence prevented.
    Held,
}

impl Mark {
    fn sign(self) -> &'static str {
        match self {
            Mark::None => "",
            Mark::Fault => "⚡",
            Mark::Wrong => "✗",
            Mark::Held => "✓",
        }
    }
}

/// One step of a story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The event that it tells of.
    pub event: Option<EventId>,
    /// When, µs.
    pub at_us: u64,
    /// Who, or who to whom: `app-1 → redis-1`.
    pub who: String,
    /// What, in the field's words.
    pub what: String,
    /// How it went; empty when that goes without saying.
    pub outcome: String,
    /// The sign beside it.
    pub mark: Mark,
    /// What is wrong with it, in few words.
    pub remark: String,
}

/// A story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// In order of time.
    pub steps: Vec<Step>,
}

impl Story {
    /// The story of `subject`.
    pub fn of(history: &History, plan: &Plan, subject: &Subject<'_>) -> Story {
        let mut chosen = choose::choose(history, subject);
        choose::join_replies(&mut chosen);
        // Of what matters least, the latest goes first: a story needs its beginning.
        while chosen.len() > MOST_STEPS {
            let least = chosen.iter().enumerate().max_by_key(|(n, scene)| (scene.weight, *n));
            let Some((n, _)) = least else { break };
            chosen.remove(n);
            choose::join_replies(&mut chosen);
        }
        let teller = tell::Teller::new(history, plan, subject);
        Story { steps: chosen.iter().filter_map(|scene| teller.step(scene)).collect() }
    }

    /// The lines of the story, indented by two.
    pub fn lines(&self, manner: &Manner) -> Vec<String> {
        let times = times(&self.steps);
        let fit = |text: &str| manner.charset.fit(text);
        let rows: Vec<Row> = (self.steps.iter().zip(&times).enumerate())
            .map(|(n, (step, time))| Row {
                number: format!("#{}", n + 1),
                time: time.clone(),
                who: fit(&step.who),
                what: fit(&step.what),
                outcome: fit(&step.outcome),
                remark: fit(&step.remark),
            })
            .collect();
        let widest = |cell: fn(&Row) -> &str| rows.iter().map(|row| width(cell(row))).max();
        let columns = Columns {
            number: widest(|row| &row.number).unwrap_or(0),
            time: widest(|row| &row.time).unwrap_or(0),
            who: widest(|row| &row.who).unwrap_or(0),
            // What has no outcome may run on.
            what: widest(|row| if row.outcome.is_empty() { "" } else { &row.what }).unwrap_or(0),
        };
        self.steps
            .iter()
            .zip(&rows)
            .map(|(step, row)| columns.line(step.mark, row, manner))
            .collect()
    }
}

/// The cells of a step.
struct Row {
    number: String,
    time: String,
    who: String,
    what: String,
    outcome: String,
    remark: String,
}

/// The widths of the columns, in cells.
struct Columns {
    number: usize,
    time: usize,
    who: usize,
    what: usize,
}

impl Columns {
    fn line(&self, mark: Mark, row: &Row, manner: &Manner) -> String {
        // The bolt takes two cells in most terminals.
        let sign = pad(&manner.charset.fit(mark.sign()), 2);
        let colour = |text: &str| match mark {
            Mark::None => text.to_owned(),
            Mark::Fault => manner.style.warning(text),
            Mark::Wrong => manner.style.bad(text),
            Mark::Held => manner.style.good(text),
        };
        let mut line = format!(
            "  {} {} {}  {}  {}",
            colour(&sign),
            pad(&row.number, self.number),
            pad_left(&row.time, self.time),
            pad(&row.who, self.who),
            pad(&row.what, if row.outcome.is_empty() { 0 } else { self.what }),
        );
        if !row.outcome.is_empty() {
            line.push_str("  ");
            line.push_str(&row.outcome);
        }
        if !row.remark.is_empty() {
            let arrow = manner.charset.fit("←");
            line.push_str(&format!("  {}", colour(&format!("{arrow} {}", row.remark))));
        }
        line.trim_end().to_owned()
    }
}

/// The times of the steps: seconds with three decimals, or with six where two steps
/// would look as if they were at once and are not.
fn times(steps: &[Step]) -> Vec<String> {
    let close = |a: &Step, b: &Step| a.at_us != b.at_us && a.at_us / 1_000 == b.at_us / 1_000;
    (0..steps.len())
        .map(|n| {
            let step = &steps[n];
            let before = n.checked_sub(1).is_some_and(|before| close(&steps[before], step));
            let after = steps.get(n + 1).is_some_and(|after| close(step, after));
            let (seconds, micros) = (step.at_us / 1_000_000, step.at_us % 1_000_000);
            if before || after {
                format!("{seconds}.{micros:06}s")
            } else {
                format!("{seconds}.{:03}s", micros / 1_000)
            }
        })
        .collect()
}

/// The legend of the signs that occur in `stories`.
pub fn legend(stories: &[&Story], charset: Charset) -> String {
    let words = [
        (Mark::Fault, "a fault"),
        (Mark::Wrong, "what must not happen"),
        (Mark::Held, "what the fence prevented"),
    ];
    let occurs =
        |mark: Mark| stories.iter().any(|story| story.steps.iter().any(|s| s.mark == mark));
    let shown = words.iter().filter(|(mark, _)| occurs(*mark));
    let shown: Vec<String> =
        shown.map(|(mark, word)| format!("{} {word}", charset.fit(mark.sign()))).collect();
    shown.join("   ")
}
