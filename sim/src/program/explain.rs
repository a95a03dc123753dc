//! `lockstorm explain`: a failure's story, what decided it and when, what would help.

use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use lockstorm_sim::explain::cliff::MOST_DRAWS;
use lockstorm_sim::explain::{self, Effort, Explained, Unexplained, Watch};
use lockstorm_sim::plan::{Plan, capsule};
use lockstorm_sim::report::explained as report;

use super::arguments::Format;
use super::exit::{self, Failure};
use super::plan_source::PlanArguments;
use super::progress::Progress;
use super::run::{command_of_file, command_of_plan};
use super::say::{manner, say};

/// `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The plan.
    #[command(flatten)]
    pub plan: PlanArguments,
    /// Over how many other draws of the rest each question is asked.
    #[arg(long, value_name = "COUNT", default_value_t = Effort::default().draws,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DRAWS)))]
    pub reseeds: u32,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// How many of the runs are made; more turn out to be needed on the way.
struct Bar {
    progress: Progress,
    expected: AtomicU64,
}

impl Bar {
    fn begin() -> Bar {
        Bar { progress: Progress::new("runs", Some(0)), expected: AtomicU64::new(0) }
    }
}

impl Watch for Bar {
    fn expect(&self, runs: u64) {
        let before = self.expected.fetch_add(runs, Ordering::Relaxed);
        self.progress.set_length(before + runs);
    }

    fn done(&self) {
        self.progress.inc();
    }
}

/// Explains, and says meanwhile how far it is: for `explain` and `report --explain`.
pub fn watched(plan: &Plan, effort: &Effort) -> Result<Explained, Failure> {
    // The bar is gone before anything is said.
    explain::explain_watched(plan, effort, &Bar::begin()).map_err(unexplained)
}

/// Why there is nothing to tell, with the exit code of that.
fn unexplained(why: Unexplained) -> Failure {
    match why {
        Unexplained::NoViolation(_) => Failure::usage(why),
        Unexplained::OtherPast(_) => Failure::Nondeterminism(why.to_string()),
    }
}

/// `lockstorm explain`. Safe (0) when there was something to explain.
pub fn explain(arguments: &ExplainArguments) -> Result<u8, Failure> {
    let plan = arguments.plan.plan()?;
    let effort = Effort { draws: arguments.reseeds, ..Effort::default() };
    let explained = watched(&plan, &effort)?;
    let reproduce = match &arguments.plan.file {
        Some(file) => command_of_file("replay", file, &arguments.plan.storm.change),
        None => command_of_plan("replay", &plan, None),
    };
    match arguments.format {
        Format::Text => {
            say(report::explained(&explained, &manner()));
            say("");
            say(capsule::write(&plan));
        }
        Format::Json => say(report::explained_json(&explained, &reproduce)),
    }
    Ok(exit::SAFE)
}

#[cfg(test)]
mod tests {
    use lockstorm_sim::check::Verdict;

    use super::*;

    /// `explain` and `report --explain` both give these codes.
    #[test]
    fn what_does_not_repeat_is_no_bad_input() {
        let passes = unexplained(Unexplained::NoViolation(Verdict::Safe));
        assert!(matches!(passes, Failure::Usage(_)), "{passes:?}");
        let differs = unexplained(Unexplained::OtherPast(7));
        assert!(matches!(differs, Failure::Nondeterminism(_)), "{differs:?}");
        assert_eq!(differs.code(), exit::NONDETERMINISM);
    }
}
