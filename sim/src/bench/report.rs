//! The bench's table: for each bug and strategy how soon it was found, beside the matched
//! swarm; then who found everything, and every loss.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use super::statistics::{Median, Needed, a12, median};
use super::trial::{Outcome, Tried};
use crate::hunt::course::Strategy;
use crate::planted::{BUGS, Bug, Purpose};

/// Below so much of A12 (in a thousand) a strategy has lost to its matched swarm: what
/// Vargha and Delaney call a small difference, the other way.
pub const LOST: u32 = 440;

/// The same for a win.
pub const WON: u32 = 560;

/// Several hunts of one sort for one bug.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Arm {
    /// How many hunts.
    pub hunts: usize,
    /// In how many the bug was found; the others are censored.
    pub found: usize,
    /// Executions until then.
    pub executions: Option<Median<Needed>>,
    /// CPU time until then, µs; of censored hunts all of it.
    pub cpu_us: Option<Median<u64>>,
    /// Plans that showed the bug's kinds and whose twin showed them too.
    pub twin_too: u64,
    #[serde(skip)]
    needed: Vec<Needed>,
}

impl Arm {
    fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Arm {
        let needed = |outcome: &Outcome| match outcome.found {
            true => Needed::Found(outcome.executions),
            false => Needed::Censored(outcome.executions),
        };
        let needed: Vec<Needed> = outcomes.clone().map(needed).collect();
        let cpu: Vec<u64> = outcomes.clone().map(|outcome| outcome.cpu_us).collect();
        Arm {
            hunts: needed.len(),
            found: outcomes.clone().filter(|outcome| outcome.found).count(),
            executions: median(&needed),
            cpu_us: median(&cpu),
            twin_too: outcomes.map(|outcome| outcome.twin_too).sum(),
            needed,
        }
    }
}

/// A bug and a strategy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The bug's name.
    pub bug: String,
    /// Whether nothing was tuned on it.
    pub held_out: bool,
    /// The strategy.
    pub strategy: Strategy,
    /// What it came to.
    pub own: Arm,
    /// Beside it the matched swarm.
    pub matched: Option<Arm>,
    /// How often it was ahead of the matched swarm, in a thousand pairs of hunts.
    pub a12: Option<u32>,
}

impl Row {
    fn of(bug: &Bug, strategy: Strategy, tried: &[Tried]) -> Option<Row> {
        let hunts = tried
            .iter()
            .filter(|tried| tried.trial.bug == bug.name && tried.trial.strategy == strategy);
        let own = Arm::of(hunts.clone().map(|tried| &tried.own));
        if own.hunts == 0 {
            return None;
        }
        let matched = Arm::of(hunts.filter_map(|tried| tried.matched.as_ref()));
        let ahead = a12(&own.needed, &matched.needed);
        Some(Row {
            bug: bug.name.to_owned(),
            held_out: bug.purpose == Purpose::HeldOut,
            strategy,
            own,
            matched: Some(matched).filter(|matched| matched.hunts > 0),
            a12: ahead,
        })
    }

    fn lost(&self) -> bool {
        self.a12.is_some_and(|a12| a12 < LOST)
    }

    fn won(&self) -> bool {
        self.a12.is_some_and(|a12| a12 > WON)
    }
}

/// What a bench came to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The most executions of a hunt.
    pub budget: u64,
    /// In the order of the bugs, then of the strategies.
    pub rows: Vec<Row>,
}

const STRATEGIES: [Strategy; 4] =
    [Strategy::Certify, Strategy::Pairs, Strategy::Swarm, Strategy::Portfolio];

impl Report {
    /// Of these trials.
    pub fn new(budget: u64, tried: &[Tried]) -> Report {
        let rows = BUGS.iter().flat_map(|bug| {
            STRATEGIES.into_iter().filter_map(move |strategy| Row::of(bug, strategy, tried))
        });
        Report { budget, rows: rows.collect() }
    }

    /// Bugs that the strategy did not find in every hunt.
    pub fn missed_by(&self, strategy: Strategy) -> Vec<&Row> {
        let rows = self.rows.iter().filter(|row| row.strategy == strategy);
        rows.filter(|row| row.own.found < row.own.hunts).collect()
    }

    /// As JSON.
    pub fn json(&self) -> String {
        // No map with foreign keys, no number out of range: it cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// For people; rows of about 110 columns.
    pub fn text(&self) -> String {
        let mut text = self.table();
        let found = self.found();
        text.push_str(&found);
        text.push_str(&self.against());
        text
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.force_no_tty();
        table.set_header([
            "bug",
            "set",
            "strategy",
            "found",
            "executions",
            "CPU s",
            "matched swarm",
            "found",
            "A12",
        ]);
        let mut last = "";
        for row in &self.rows {
            let is_new = std::mem::replace(&mut last, &row.bug) != row.bug;
            let shown = |text: &str| if is_new { text.to_owned() } else { String::new() };
            let set = if row.held_out { "held out" } else { "tuning" };
            let none = String::new;
            let cells = [
                row.strategy.name().to_owned(),
                format!("{}/{}", row.own.found, row.own.hunts),
                row.own.executions.map_or_else(none, |median| interval(&median)),
                row.own.cpu_us.map_or_else(none, |median| seconds(&median)),
                row.matched
                    .as_ref()
                    .and_then(|matched| matched.executions)
                    .map_or_else(none, |median| interval(&median)),
                row.matched
                    .as_ref()
                    .map_or_else(none, |arm| format!("{}/{}", arm.found, arm.hunts)),
                row.a12.map_or_else(none, share),
            ];
            let mut line = vec![Cell::new(shown(&row.bug)), Cell::new(shown(set))];
            line.extend(cells.into_iter().enumerate().map(|(column, text)| {
                let cell = Cell::new(text);
                if column == 0 { cell } else { cell.set_alignment(CellAlignment::Right) }
            }));
            table.add_row(line);
        }
        format!("{table}\n")
    }

    /// Who found everything.
    fn found(&self) -> String {
        let mut text = format!("\nFound within {} executions, of all hunts:\n", self.budget);
        for strategy in STRATEGIES {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.strategy == strategy).collect();
            if rows.is_empty() {
                continue;
            }
            let (hunts, found) = rows
                .iter()
                .fold((0, 0), |(hunts, found), row| (hunts + row.own.hunts, found + row.own.found));
            let whole = rows.iter().filter(|row| row.own.found == row.own.hunts).count();
            let some = rows.iter().filter(|row| row.own.found > 0).count();
            text.push_str(&format!(
                "  {:<10} {found} of {hunts}; {some} of {} bugs in some hunt, {whole} in every hunt\n",
                strategy.name(),
                rows.len()
            ));
            for row in self.missed_by(strategy) {
                let Arm { found, hunts, .. } = row.own;
                text.push_str(&format!("             censored: {} ({found}/{hunts})\n", row.bug));
            }
        }
        text
    }

    /// Against the matched swarm, on what nothing was tuned on, and all losses.
    fn against(&self) -> String {
        let mut text = String::from(
            "\nAgainst swarm with the same number of faults, bugs that nothing was tuned on:\n",
        );
        let held_out = |strategy| {
            self.rows
                .iter()
                .filter(move |row| row.strategy == strategy && row.held_out && row.a12.is_some())
        };
        for strategy in STRATEGIES {
            let number = held_out(strategy).count();
            if number == 0 {
                continue;
            }
            let sum: u32 = held_out(strategy).filter_map(|row| row.a12).sum();
            let mean = sum / u32::try_from(number).unwrap_or(1);
            let won = held_out(strategy).filter(|row| row.won()).count();
            let lost = held_out(strategy).filter(|row| row.lost()).count();
            text.push_str(&format!(
                "  {:<10} mean A12 {} over {number} bugs: {won} won, {lost} lost, {} even\n",
                strategy.name(),
                share(mean),
                number - won - lost
            ));
        }
        let losses: Vec<&Row> = self.rows.iter().filter(|row| row.lost()).collect();
        text.push_str(&format!("\nLosses (A12 below {}): {}\n", share(LOST), losses.len()));
        for row in losses {
            let ours = row.own.executions.map_or_else(String::new, |m| m.median.to_string());
            let theirs = row.matched.as_ref().and_then(|arm| arm.executions);
            let theirs = theirs.map_or_else(String::new, |median| median.median.to_string());
            text.push_str(&format!(
                "  {:<10} {}: {ours} executions, the swarm {theirs}, A12 {}\n",
                row.strategy.name(),
                row.bug,
                row.a12.map_or_else(String::new, share)
            ));
        }
        text.push_str(
            "\nMedians with intervals by order statistics (95 % where there are hunts enough); \
             >N: censored.\nA12: how often a hunt was ahead of one of the matched swarm; 0.5 is \
             no difference.\n",
        );
        text
    }
}

fn interval(median: &Median<Needed>) -> String {
    format!("{} [{}, {}]", median.median, median.from, median.to)
}

fn seconds(median: &Median<u64>) -> String {
    let text = |us: u64| format!("{}.{:02}", us / 1_000_000, us % 1_000_000 / 10_000);
    format!("{} [{}, {}]", text(median.median), text(median.from), text(median.to))
}

/// A share in a thousand.
fn share(thousandths: u32) -> String {
    format!("{}.{:02}", thousandths / 1_000, thousandths % 1_000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Trial;

    fn tried(bug: &str, strategy: Strategy, own: &[u64], matched: &[u64]) -> Vec<Tried> {
        // 0 is censored at 100.
        let outcome = |number: u64| Outcome {
            found: number > 0,
            executions: if number > 0 { number } else { 100 },
            cpu_us: 12_500 * number.max(1),
            twin_too: 0,
            plan: None,
        };
        own.iter()
            .enumerate()
            .map(|(position, own)| Tried {
                trial: Trial {
                    bug: bug.to_owned(),
                    strategy,
                    number: position as u64,
                    budget: 100,
                },
                own: outcome(*own),
                matched: matched.get(position).map(|number| outcome(*number)),
            })
            .collect()
    }

    #[test]
    fn the_table_says_who_found_what_and_who_lost() {
        let all = [
            tried("bare-del", Strategy::Swarm, &[9, 4, 80, 30, 0], &[]),
            tried("bare-del", Strategy::Portfolio, &[3, 4, 5, 6, 7], &[30, 0, 0, 20, 8]),
            tried("get-then-del", Strategy::Portfolio, &[0, 0, 90, 0, 0], &[3, 4, 5, 6, 7]),
        ];
        let report = Report::new(100, &all.concat());
        insta::assert_snapshot!(report.text());
        let missed = report.missed_by(Strategy::Portfolio);
        assert_eq!(missed.iter().map(|row| &*row.bug).collect::<Vec<_>>(), ["get-then-del"]);
    }
}
