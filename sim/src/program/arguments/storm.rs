//! What says which storm: of `run`, `replay`, and of whatever takes those flags.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::plan::{Draws, Fence, Seed, scenario};
use lockstorm_sim::storm::environment::Environment;

use super::values::{DrawsArgument, EngineArgument, FenceArgument, Format, key_and_value};
use crate::program::exit::Failure;
use crate::program::report::Files;

fn scenarios() -> String {
    let names = scenario::SCENARIOS.iter().map(|scenario| scenario.name);
    format!("The scenario: {}", names.collect::<Vec<_>>().join(", "))
}

fn locks() -> String {
    let names = scenario::LOCKS.iter().map(|lock| lock.name);
    format!(
        "The lock under test, the scenario's own where nothing is said: {} (none must fail)",
        names.collect::<Vec<_>>().join(", ")
    )
}

/// Which storm.
#[derive(Debug, Clone, Args)]
pub struct StormArguments {
    // The help names what there is.
    #[arg(long, default_value = "redis-failover", help = scenarios())]
    pub scenario: String,
    #[arg(long, help = locks())]
    pub lock: Option<String>,
    /// How much of the fence the stock uses.
    #[arg(long, value_enum, default_value_t = FenceArgument::Off)]
    pub fence: FenceArgument,
    /// A knob of the plan, such as `lock.lease=2s`; may be repeated. `run --print-plan`
    /// shows them all.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub settings: Vec<(String, String)>,
    /// Calm weather: the plans without their faults.
    #[arg(long)]
    pub calm: bool,
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
        self.lock.clone().unwrap_or_else(own)
    }

    /// The engine that is asked for.
    pub fn engine(&self) -> EngineArgument {
        self.engine.unwrap_or(EngineArgument::Event)
    }

    /// The flags that name this quarry.
    pub fn of(quarry: &Quarry) -> StormArguments {
        StormArguments {
            scenario: quarry.scenario.clone(),
            lock: Some(quarry.lock.clone()),
            fence: match quarry.fence {
                Fence::Off => FenceArgument::Off,
                Fence::Write => FenceArgument::Write,
                Fence::Full => FenceArgument::Full,
            },
            settings: quarry.settings.clone(),
            calm: !quarry.faults,
            draws: Some(match quarry.draws {
                Draws::First => DrawsArgument::First,
                Draws::Wide => DrawsArgument::Wide,
            }),
            engine: Some(match quarry.engine.as_str() {
                "turmoil" => EngineArgument::Turmoil,
                _ => EngineArgument::Event,
            }),
        }
    }
}

/// `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    /// A plan file (TOML) or a capsule instead of a drawn plan.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "scenario", "lock", "fence", "draws"])]
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
    /// The engine; event where nothing is said.
    #[arg(long, value_enum)]
    pub engine: Option<EngineArgument>,
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
        arguments.engine = engine_within(arguments.engine, environment)?;
        Ok(arguments)
    }
}

/// The engine that a flag names, or else the environment.
pub(super) fn engine_within(
    flag: Option<EngineArgument>,
    environment: &Environment,
) -> Result<Option<EngineArgument>, Failure> {
    let (None, Some(name)) = (flag, &environment.engine) else { return Ok(flag) };
    let mend = format!("LOCKSTORM_ENGINE=`{name}`: there are: event, turmoil");
    EngineArgument::from_str(name, false).map(Some).map_err(|_| Failure::usage(mend))
}
