//! The story of a finding: the few events of a history that matter, numbered.
//!
//! Order of things: [`choose`] picks the events and says how much each matters,
//! [`tell`](mod@tell) puts each into the field's words, with the command as it went
//! over the wire, and here they are cut to length, numbered and set in columns.

mod at_work;
mod choose;
mod tell;
#[cfg(test)]
mod tests;

use crate::history::{EventId, History};
use crate::plan::Plan;
use crate::report::layout::{fold, pad, pad_left, width};
use crate::report::manner::{Charset, Manner};
use crate::report::subject::Subject;
use crate::visible::visible;

pub use tell::wrong_event;

/// So many steps has a story at most of which nothing below wants more.
const MOST_STEPS: usize = 12;
/// For so many faults that nothing is blamed on there is room; each one more has its step
/// beyond the others.
const ROOM_FOR_FAULTS: usize = 4;

/// How many steps a story has at most: `needed` of them are never left out (what proves the
/// finding, what its why speaks of, the grants and the faults), and `beside` of those are faults
/// that nothing is blamed on.
pub fn most_steps(needed: usize, beside: usize) -> usize {
    (MOST_STEPS + beside.saturating_sub(ROOM_FOR_FAULTS)).max(needed)
}

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
        let (mut chosen, others) = choose::choose(history, subject);
        choose::join_replies(&mut chosen);
        let needed =
            |chosen: &[choose::Scene<'_>]| chosen.iter().filter(|scene| scene.weight == 0).count();
        // Of what matters least, the latest goes first: a story needs its beginning.
        while chosen.len() > most_steps(needed(&chosen), others) {
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
        // A step's cells are one line each, whatever the names in them hold.
        let fit = |text: &str| manner.charset.fit(&visible(text));
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
        let mut columns = Columns {
            number: widest(|row| &row.number).unwrap_or(0),
            time: widest(|row| &row.time).unwrap_or(0),
            who: widest(|row| &row.who).unwrap_or(0),
            what: 0,
            most: manner.width,
        };
        // What has no outcome may run on, and what is too wide has its outcome below.
        let beside = rows.iter().filter(|row| {
            !row.outcome.is_empty() && columns.end(width(&row.what), &row.outcome) <= manner.width
        });
        columns.what = beside.map(|row| width(&row.what)).max().unwrap_or(0);
        let steps = self.steps.iter().zip(&rows);
        steps.flat_map(|(step, row)| columns.lines(step.mark, row, manner)).collect()
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
    /// How wide a line may be.
    most: usize,
}

/// How far in a step goes on below its first line, where there is no room beside it.
const BELOW: usize = 11;

impl Columns {
    /// Where `what` begins.
    fn before(&self) -> usize {
        2 + 2 + 1 + self.number + 1 + self.time + 2 + self.who + 2
    }

    /// Where the outcome ends beside a `what` of so many cells.
    fn end(&self, what: usize, outcome: &str) -> usize {
        self.before() + what + 2 + width(outcome)
    }

    /// The step on one line; on more where one is too wide. The command is not broken.
    fn lines(&self, mark: Mark, row: &Row, manner: &Manner) -> Vec<String> {
        // The bolt takes two cells in most terminals.
        let sign = pad(&manner.charset.fit(mark.sign()), 2);
        let colour = |text: &str| match mark {
            Mark::None => text.to_owned(),
            Mark::Fault => manner.style.warning(text),
            Mark::Wrong => manner.style.bad(text),
            Mark::Held => manner.style.good(text),
        };
        let head = format!(
            "  {} {} {}  {}",
            colour(&sign),
            pad(&row.number, self.number),
            pad_left(&row.time, self.time),
            pad(&row.who, self.who),
        );
        let remark = match row.remark.as_str() {
            "" => String::new(),
            remark => format!("{} {remark}", manner.charset.fit("←")),
        };
        let mut lines = vec![head];
        let room = self.most.saturating_sub(self.before());
        let (below, mut column) = if width(&row.what) <= room {
            // Beside who did it.
            lines[0].push_str(&format!("  {}", row.what));
            (self.before(), self.before() + width(&row.what))
        } else if row.outcome.is_empty() && mark == Mark::Fault && room >= 40 {
            let mut parts = fold(&row.what, room).into_iter();
            lines[0].push_str(&format!("  {}", parts.next().unwrap_or_default()));
            lines.extend(parts.map(|part| format!("{:1$}{part}", "", self.before())));
            (self.before(), self.most)
        } else {
            let parts = fold(&row.what, self.most - BELOW);
            let column = BELOW + parts.last().map_or(0, |part| width(part));
            lines.extend(parts.into_iter().map(|part| format!("{:BELOW$}{part}", "")));
            (BELOW, column)
        };
        // Beside what stands there, in its column if it can, else below.
        let mut append = |text: &str, shown: &str, wanted: usize| {
            let next = column + 2;
            let fits = |at: usize| at + width(text) <= self.most;
            let at = [wanted.max(next), next].into_iter().find(|at| fits(*at));
            let last = lines.last_mut();
            if let Some((at, last)) = at.zip(last) {
                last.push_str(&format!("{:1$}{shown}", "", at - column));
                column = at + width(text);
            } else if width(text) + BELOW <= self.most {
                let below = (below + 2).min(self.most - width(text));
                lines.push(format!("{:below$}{shown}", ""));
                column = below + width(text);
            } else {
                let parts = fold(text, self.most - BELOW);
                lines.extend(parts.iter().map(|part| format!("{:BELOW$}{part}", "")));
                column = self.most;
            }
        };
        if !row.outcome.is_empty() {
            append(&row.outcome, &row.outcome, self.before() + self.what + 2);
        }
        if !remark.is_empty() {
            append(&remark, &colour(&remark), 0);
        }
        lines
    }
}

/// The times of the steps: seconds with three decimals, or with six where steps would
/// look as if they were at once and are not. The points stand below each other.
fn times(steps: &[Step]) -> Vec<String> {
    let is_fine = |step: &Step| {
        let looks_alike = |other: &&Step| other.at_us / 1_000 == step.at_us / 1_000;
        let mut alike = steps.iter().filter(looks_alike);
        alike.any(|other| other.at_us != step.at_us)
    };
    let any_fine = steps.iter().any(is_fine);
    let time = |step: &Step| {
        let (seconds, micros) = (step.at_us / 1_000_000, step.at_us % 1_000_000);
        match (is_fine(step), any_fine) {
            (true, _) => format!("{seconds}.{micros:06}s"),
            (false, true) => format!("{seconds}.{:03}s   ", micros / 1_000),
            (false, false) => format!("{seconds}.{:03}s", micros / 1_000),
        }
    };
    steps.iter().map(time).collect()
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
