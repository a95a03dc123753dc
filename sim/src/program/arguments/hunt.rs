//! `hunt` and `merge`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockstorm_sim::hunt::course::{Shard, Strategy};
use lockstorm_sim::plan::Seed;
use lockstorm_sim::storm::environment::Environment;

use super::storm::{StormArguments, engine_within, settings_of_no_file};
use super::values::{Format, real_time};
use crate::program::exit::Failure;

/// `hunt`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("settings", |set| set.long_help(settings_of_no_file())))]
pub struct HuntArguments {
    /// Which storm.
    #[command(flatten)]
    pub storm: StormArguments,
    /// How to search; portfolio, and with --calm swarm, where nothing else is said.
    #[arg(long, value_enum)]
    pub strategy: Option<StrategyArgument>,
    /// How many runs. Without it: certify tries everything once, the others 1,000 more, and
    /// with --for as many as there is time for.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// The first seed; 0x0, and with --for one of today's date, where nothing is said.
    #[arg(long)]
    pub seed: Option<Seed>,
    /// A campaign: hunt for so long (real time), and write everything down in --out. Started
    /// again, it goes on where it was.
    #[arg(long = "for", value_name = "DURATION", value_parser = real_time)]
    pub duration: Option<Duration>,
    /// Only this part of a campaign, such as 1/4; `lockstorm merge` puts them together.
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<Shard>,
    /// Compare the certificate with this older one; exit code 0 if they agree.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["duration", "shard", "seeds"])]
    pub against: Option<PathBuf>,
    /// How many worker processes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Run everything again in other processes and compare the traces.
    #[arg(long, conflicts_with_all = ["duration", "shard"])]
    pub twice: bool,
    /// How long a worker may be silent over one run before it is stopped and the run told
    /// as internal; real time.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = real_time)]
    pub seed_limit: Duration,
    /// Write the plan of each distinct failure, shrunk, and the certificate, into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Leave the plans as they were found.
    #[arg(long)]
    pub no_shrink: bool,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `--strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StrategyArgument {
    /// Every single fault at every moment of a fault-free run; a file that can be compared.
    Certify,
    /// Those, then pairs of them.
    Pairs,
    /// Plans drawn from seeds.
    Swarm,
    /// All three, by turns.
    Portfolio,
}

impl StrategyArgument {
    /// As the hunt has it.
    pub fn strategy(self) -> Strategy {
        match self {
            StrategyArgument::Certify => Strategy::Certify,
            StrategyArgument::Pairs => Strategy::Pairs,
            StrategyArgument::Swarm => Strategy::Swarm,
            StrategyArgument::Portfolio => Strategy::Portfolio,
        }
    }
}

impl HuntArguments {
    /// With what the environment says where a flag does not.
    pub fn within(&self, environment: &Environment) -> Result<HuntArguments, Failure> {
        let mut arguments = self.clone();
        arguments.seed = arguments.seed.or(environment.seed);
        arguments.out = arguments.out.or_else(|| environment.out.clone());
        if arguments.against.is_none() {
            arguments.seeds = arguments.seeds.or(environment.seeds);
            if !arguments.twice {
                arguments.duration = arguments.duration.or(environment.duration);
            }
        }
        arguments.storm.engine = engine_within(arguments.storm.engine, environment)?;
        if arguments.seeds == Some(0) {
            return Err(Failure::usage("LOCKSTORM_SEEDS=`0`: a hunt of no runs finds nothing"));
        }
        let needs = [
            ("--for", self.duration.is_some()),
            ("LOCKSTORM_FOR", arguments.duration.is_some()),
            ("--shard", arguments.shard.is_some()),
            ("--no-shrink", arguments.no_shrink),
        ];
        match needs.into_iter().find(|(_, is_said)| *is_said && arguments.out.is_none()) {
            None => Ok(arguments),
            Some((name, _)) => Err(Failure::usage(format!(
                "{name} is about what is written down; add --out FOLDER"
            ))),
        }
    }
}

/// `merge`.
#[derive(Debug, Args)]
pub struct MergeArguments {
    /// The folders of all shards.
    #[arg(required = true)]
    pub folders: Vec<PathBuf>,
    /// Where the whole campaign is written.
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Leave the plans of failures as they were found.
    #[arg(long)]
    pub no_shrink: bool,
    /// How many worker processes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

fn shard(text: &str) -> Result<Shard, String> {
    let numbers = text
        .split_once('/')
        .and_then(|(index, of)| Some(Shard { index: index.parse().ok()?, of: of.parse().ok()? }));
    match numbers {
        Some(shard) if (1..=shard.of).contains(&shard.index) && shard.of <= 10_000 => Ok(shard),
        _ => Err("write which part of how many, such as 1/4 to 4/4".to_owned()),
    }
}
