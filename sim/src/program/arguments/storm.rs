//! What says which storm: of `run`, `replay`, and of whatever takes those flags.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::plan::file::setting::settable;
use lockstorm_sim::plan::keys::{Key, SECTIONS};
use lockstorm_sim::plan::{Draws, Fence, Plan, Seed, scenario};
use lockstorm_sim::storm::ENGINES;
use lockstorm_sim::storm::environment::Environment;
use lockstorm_sim::storm::frozen::Until;

use super::values::{
    DrawsArgument, EngineArgument, EngineChoice, FenceArgument, Format, key_and_value,
};
use crate::program::exit::Failure;
use crate::program::report::Files;

/// What is not as the scenario, or the plan of a file, has it. Of a flag that is said twice the
/// last counts, so that what a report proposes can be put behind the command that it prints.
#[derive(Debug, Clone, Default, Args)]
pub struct ChangeArguments {
    #[arg(long, help = locks(), overrides_with = "lock")]
    pub lock: Option<String>,
    /// How much of the fence the stock uses; off, or as the file has it, where nothing is said.
    #[arg(long, value_enum, overrides_with = "fence")]
    pub fence: Option<FenceArgument>,
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value,
          help = SETTING, long_help = settings())]
    pub settings: Vec<(String, String)>,
    /// Calm weather: the plans without their faults.
    #[arg(long, overrides_with = "calm")]
    pub calm: bool,
}

impl ChangeArguments {
    /// The plan of a file with what these say.
    ///
    /// # Errors
    /// When `--set` sets what has a flag of its own, and those of [`Plan::with_changes`].
    pub fn of_file(&self, plan: Plan) -> Result<Plan, Failure> {
        self.refuse_settings(&OF_FLAGS)?;
        if self.settings.iter().any(|(key, _)| key == "scenario") {
            let what = "--set scenario: a plan is of its scenario; change it in the file";
            return Err(Failure::usage(what));
        }
        let settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let fence = self.fence.map(FenceArgument::fence);
        // What is not there need not fit to what is changed.
        let plan = if self.calm { plan.without_faults() } else { plan };
        Ok(plan.with_changes(self.lock.as_deref(), fence, &settings)?)
    }

    /// Refuses settings of what a flag sets: set twice, one of the two would lie.
    pub fn refuse_settings(&self, of_flags: &[(&str, &str)]) -> Result<(), Failure> {
        let set = self.settings.iter();
        let mut refused = set.filter_map(|(key, _)| of_flags.iter().find(|(name, _)| name == key));
        match refused.next() {
            None => Ok(()),
            Some((key, flag)) => {
                Err(Failure::usage(format!("--set {key}: a flag sets this; write {flag} instead")))
            }
        }
    }

    /// Whether they say nothing.
    pub fn is_empty(&self) -> bool {
        self.lock.is_none() && self.fence.is_none() && self.settings.is_empty() && !self.calm
    }
}

/// What a flag sets, of any plan: the setting and the flag.
pub const OF_FLAGS: [(&str, &str); 2] = [("lock.name", "--lock"), ("fence", "--fence")];

const SETTING: &str = "A knob of the plan, such as `lock.lease=2s`; may be repeated. `--help` \
                       lists all, `run --print-plan` shows what they are";

/// Every knob there is, section by section.
fn settings() -> String {
    settings_without(&[])
}

/// Every knob that is set where nothing is read from a file: the seed has a flag there.
pub(super) fn settings_of_no_file() -> String {
    settings_without(&["seed"])
}

fn settings_without(others: &[&str]) -> String {
    let mut text = String::from(
        "A knob of the plan, such as `lock.lease=2s`; may be repeated. `run --print-plan` shows \
         what they are in a plan. There are:",
    );
    for section in [""].into_iter().chain(SECTIONS) {
        let knobs = settable().filter(|key| key.section == section).map(Key::path).filter(|path| {
            !others.contains(&path.as_str()) && OF_FLAGS.iter().all(|(name, _)| name != path)
        });
        text.push_str(&format!("\n{}", knobs.collect::<Vec<_>>().join(", ")));
    }
    text
}

fn scenarios() -> String {
    let names = scenario::SCENARIOS.iter().map(|scenario| scenario.name);
    format!("The scenario: {}", names.collect::<Vec<_>>().join(", "))
}

fn locks() -> String {
    let names = scenario::LOCKS.iter().map(|lock| lock.name);
    format!(
        "The lock under test; the scenario's own, or the file's, where nothing is said: {} (none \
         must fail, but over pools)",
        names.collect::<Vec<_>>().join(", ")
    )
}

/// Which storm.
#[derive(Debug, Clone, Args)]
pub struct StormArguments {
    // The help names what there is.
    #[arg(long, default_value = "redis-failover", help = scenarios())]
    pub scenario: String,
    /// What is not as the scenario, or the plan of a file, has it.
    #[command(flatten)]
    pub change: ChangeArguments,
    /// What seeds draw from; `first` for one seed, `wide` for a hunt, where nothing is said.
    #[arg(long, value_enum)]
    pub draws: Option<DrawsArgument>,
    /// The engine; event where nothing is said.
    #[arg(long, value_enum)]
    pub engine: Option<EngineArgument>,
}

impl StormArguments {
    /// The lock that is asked for, or the scenario's own.
    pub fn lock(&self) -> String {
        let own = || scenario::default_lock(&self.scenario).to_owned();
        self.change.lock.clone().unwrap_or_else(own)
    }

    /// The fence that is asked for, or none.
    pub fn fence(&self) -> Fence {
        self.change.fence.map_or(Fence::Off, FenceArgument::fence)
    }

    /// The engine that is asked for.
    pub fn engine(&self) -> EngineArgument {
        self.engine.unwrap_or_default()
    }

    /// The flags that name this quarry.
    pub fn of(quarry: &Quarry) -> StormArguments {
        StormArguments {
            scenario: quarry.scenario.clone(),
            change: ChangeArguments {
                lock: Some(quarry.lock.clone()),
                fence: Some(FenceArgument::of(quarry.fence)),
                settings: quarry.settings.clone(),
                calm: !quarry.faults,
            },
            draws: Some(match quarry.draws {
                Draws::First => DrawsArgument::First,
                Draws::Wide => DrawsArgument::Wide,
            }),
            engine: Some(EngineArgument::from_str(&quarry.engine, false).unwrap_or_default()),
        }
    }
}

/// `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    /// A plan file (TOML), a seed file or a capsule instead of a drawn plan.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "scenario", "draws"])]
    pub plan: Option<PathBuf>,
    /// The seed, hex with 0x or decimal; 0x0 where nothing is said.
    #[arg(long)]
    pub seed: Option<Seed>,
    /// Which storm.
    #[command(flatten)]
    pub storm: StormArguments,
    /// Draw nothing: the scenario as it stands, with this fault, such as
    /// `{ kind = "pause", node = "app-1", after = "app-1 read 1 applied", for = "6s" }`; may
    /// be repeated.
    #[arg(long = "fault", value_name = "TOML", conflicts_with_all = ["plan", "draws"])]
    pub faults: Vec<String>,
    /// Run it again in a fresh process also if it is safe, and compare the traces.
    #[arg(long)]
    pub twice: bool,
    /// Print the plan and run nothing.
    #[arg(long, conflicts_with_all = ["print_capsule", "out", "twice", "format", "engine"])]
    pub print_plan: bool,
    /// Print the plan as a capsule, one line that stands for a file, and run nothing.
    #[arg(long, conflicts_with_all = ["out", "twice", "format", "engine"])]
    pub print_capsule: bool,
    /// Write the history into this file, gzip if its name ends in `.gz`.
    #[arg(long, value_name = "FILE.ndjson.gz")]
    pub out: Option<PathBuf>,
    /// What else to write.
    #[command(flatten)]
    pub files: Files,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

impl RunArguments {
    /// With what the environment says where a flag does not. A plan in a file has its seed.
    pub fn within(&self, environment: &Environment) -> Result<RunArguments, Failure> {
        let mut arguments = self.clone();
        arguments.seed = arguments.seed.or(environment.seed);
        arguments.storm.engine = engine_within(arguments.storm.engine, environment)?;
        Ok(arguments)
    }

    /// The seed that is asked for.
    pub fn seed(&self) -> Seed {
        self.seed.unwrap_or(Seed(0))
    }
}

/// `replay`.
#[derive(Debug, Clone, Args)]
pub struct ReplayArguments {
    /// A plan file, a seed file, or a capsule (`storm1:…`).
    pub file: PathBuf,
    /// Stop the world there and tell how it stands: `violation` (the instant before it), a step of
    /// the story such as `#9`, an event's number as in JSON, `before-` either, a finding such as
    /// `double-grant` (the instant before it), or `end`.
    #[arg(long, value_name = "EVENT")]
    pub until: Option<Until>,
    /// Then open every simulated server on a TCP port of this machine, to be read with redis-cli,
    /// psql or zkCli, until interrupted. Nothing is written, and no time passes.
    #[arg(long)]
    pub serve: bool,
    /// What is not as the file has it.
    #[command(flatten)]
    pub change: ChangeArguments,
    /// The engine; event where nothing is said. `all` asks the three of them whether they agree.
    #[arg(long, value_enum)]
    pub engine: Option<EngineChoice>,
    /// What else to write.
    #[command(flatten)]
    pub files: Files,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

impl ReplayArguments {
    /// With what the environment says where a flag does not.
    pub fn within(&self, environment: &Environment) -> Result<ReplayArguments, Failure> {
        let mut arguments = self.clone();
        if arguments.engine.is_none() {
            arguments.engine = engine_within(None, environment)?.map(EngineChoice::One);
        }
        Ok(arguments)
    }
}

/// The engine that a flag names, or else the environment.
pub(super) fn engine_within(
    flag: Option<EngineArgument>,
    environment: &Environment,
) -> Result<Option<EngineArgument>, Failure> {
    let (None, Some(name)) = (flag, &environment.engine) else { return Ok(flag) };
    let mend = format!("LOCKSTORM_ENGINE=`{name}`: there are: {}", ENGINES.join(", "));
    EngineArgument::from_str(name, false).map(Some).map_err(|_| Failure::usage(mend))
}
