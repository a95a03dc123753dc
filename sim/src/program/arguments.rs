//! The grammar of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lockstorm_sim::history::edn::Model;
use lockstorm_sim::hunt::Quarry;
use lockstorm_sim::hunt::course::{Shard, Strategy};
use lockstorm_sim::plan::{Draws, Fence, Micros, Seed, scenario};
use lockstorm_sim::seeds::Shelf;
use lockstorm_sim::storm::environment::Environment;

use super::exit::Failure;
use super::explain::ExplainArguments;
use super::lesson::LessonVerb;
use super::manual::{CompletionsArguments, ManArguments};
use super::matrix::MatrixArguments;
use super::report::{Files, ReportArguments};
use super::shrink::ShrinkArguments;

/// Puts distributed locks through a storm, by seed.
///
/// Without a verb: a guided demonstration of how replication lag loses a lock.
#[derive(Debug, Parser)]
#[command(name = "lockstorm", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

const EXIT_CODES: &str = "Exit codes: 0 safe, 1 violation, 2 unknown, inert or not expressible, \
3 nondeterminism, 64 usage or bad input, 70 internal.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run one plan: drawn from a seed, or from a file.
    Run(RunArguments),
    /// Run many plans and examine what fails.
    Hunt(HuntArguments),
    /// Put the shards of a campaign together.
    Merge(MergeArguments),
    /// Run a plan file or a seed file again; a violation also under turmoil.
    Replay(ReplayArguments),
    /// Shrink a plan that fails to the smallest that fails in the same way.
    Shrink(ShrinkArguments),
    /// Explain a failure: its story, what decided it and when, what would help.
    Explain(ExplainArguments),
    /// Write a history, a plan's run or a capsule's as a page, a trace or a diagram.
    Report(ReportArguments),
    /// Judge a recorded history: ours, or of a real system.
    ///
    /// Reads NDJSON (docs/history.md) and Jepsen's EDN, plain or gzip; see docs/check.md.
    Check(CheckArguments),
    /// Storms to learn from: what goes wrong with locks, why, and what helps.
    #[command(subcommand)]
    Lesson(LessonVerb),
    /// Every lock against every family of faults, with and without a fence.
    ///
    /// A cell is so many plans with faults of one family alone. Failures of locks are what it is
    /// for: exit code 0 if all cells were run.
    Matrix(MatrixArguments),
    /// The kept plans under `seeds/`.
    #[command(subcommand)]
    Seeds(SeedsVerb),
    /// Open a simulated server on a TCP port.
    #[command(subcommand)]
    Serve(ServeVerb),
    /// Measure lockstorm itself.
    #[command(subcommand)]
    Bench(BenchVerb),
    /// Print a script that completes verbs and flags: `source <(lockstorm completions bash)`.
    Completions(CompletionsArguments),
    /// Print the manual page, or write those of all verbs into a folder.
    Man(ManArguments),
    /// Serve a hunt (for lockstorm's own use).
    #[command(hide = true)]
    Worker,
    /// Serve a bench (for lockstorm's own use).
    #[command(hide = true)]
    BenchWorker,
}

fn scenarios() -> String {
    let names = scenario::SCENARIOS.iter().map(|scenario| scenario.name);
    format!("The scenario: {}", names.collect::<Vec<_>>().join(", "))
}

fn locks() -> String {
    let names = scenario::LOCKS.iter().map(|lock| lock.name);
    format!("The lock under test: {} (none must fail)", names.collect::<Vec<_>>().join(", "))
}

/// Which storm.
#[derive(Debug, Clone, Args)]
pub struct StormArguments {
    // The help names what there is.
    #[arg(long, default_value = "redis-failover", help = scenarios())]
    pub scenario: String,
    #[arg(long, default_value = "redis", help = locks())]
    pub lock: String,
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
    /// The engine that is asked for.
    pub fn engine(&self) -> EngineArgument {
        self.engine.unwrap_or(EngineArgument::Event)
    }

    /// The flags that name this quarry.
    pub fn of(quarry: &Quarry) -> StormArguments {
        StormArguments {
            scenario: quarry.scenario.clone(),
            lock: quarry.lock.clone(),
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

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The history; `-` is standard input.
    pub file: PathBuf,
    /// How far the hosts' clocks may be from true time, such as `5ms`, or `app-1=2ms` for
    /// one host; may be repeated.
    #[arg(long, value_name = "[HOST=]TIME", value_parser = host_and_time)]
    pub clock_uncertainty: Vec<(Option<String>, Micros)>,
    /// Of an EDN history: what it is a history of.
    #[arg(long, value_enum)]
    pub model: Option<ModelArgument>,
    /// Of an EDN history: how long a grant lasts when nobody renews it.
    #[arg(long, value_name = "TIME")]
    pub lease: Option<Micros>,
    /// Of an EDN history of a counter: how many units there were.
    #[arg(long, value_name = "COUNT")]
    pub units: Option<u32>,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `--model`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModelArgument {
    /// A lock that its holder cannot take again.
    Mutex,
    /// A lock that its holder can take again.
    ReentrantMutex,
    /// A lock whose grants carry growing tokens.
    FencedMutex,
    /// Both.
    ReentrantFencedMutex,
    /// A stock that is only counted.
    Counter,
}

impl ModelArgument {
    /// As the reader knows it.
    pub fn model(self) -> Model {
        match self {
            ModelArgument::Mutex => Model::Mutex,
            ModelArgument::ReentrantMutex => Model::ReentrantMutex,
            ModelArgument::FencedMutex => Model::FencedMutex,
            ModelArgument::ReentrantFencedMutex => Model::ReentrantFencedMutex,
            ModelArgument::Counter => Model::Counter,
        }
    }
}

/// `hunt`.
#[derive(Debug, Clone, Args)]
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

/// The engine that a flag names, or else the environment.
fn engine_within(
    flag: Option<EngineArgument>,
    environment: &Environment,
) -> Result<Option<EngineArgument>, Failure> {
    let (None, Some(name)) = (flag, &environment.engine) else { return Ok(flag) };
    let mend = format!("LOCKSTORM_ENGINE=`{name}`: there are: event, turmoil");
    EngineArgument::from_str(name, false).map(Some).map_err(|_| Failure::usage(mend))
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

impl ReplayArguments {
    /// With what the environment says where a flag does not.
    pub fn within(&self, environment: &Environment) -> Result<ReplayArguments, Failure> {
        let mut arguments = self.clone();
        arguments.engine = engine_within(arguments.engine, environment)?;
        Ok(arguments)
    }
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

/// `bench`.
#[derive(Debug, Subcommand)]
pub enum BenchVerb {
    /// Hunt the planted bugs (docs/bugs.md): executions and CPU time until each is found.
    ///
    /// Exit code 0 iff the portfolio (where it was not asked for: every strategy) found
    /// every bug in every hunt.
    Bugs(BugsArguments),
}

/// `bench bugs`.
#[derive(Debug, Args)]
pub struct BugsArguments {
    /// Only this strategy; may be repeated.
    #[arg(long, value_enum)]
    pub strategy: Vec<StrategyArgument>,
    /// Only this bug; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub bug: Vec<String>,
    /// The most executions of a hunt.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: u64,
    /// Hunts of each bug by each strategy, with different seeds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=120))]
    pub repeat: u64,
    /// Write every hunt down here as it ends, and do not make again what is written there.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// How many worker processes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
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

/// `seeds`.
#[derive(Debug, Subcommand)]
pub enum SeedsVerb {
    /// Run every kept plan and compare with what is expected of it.
    Check {
        /// The folder.
        #[arg(default_value = "seeds")]
        folder: PathBuf,
    },
    /// List the kept plans.
    List {
        /// The folder.
        #[arg(default_value = "seeds")]
        folder: PathBuf,
        /// How to tell it.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Name the known-unsafe plans that show a failure that a smaller one shows.
    Prune {
        /// The folder.
        #[arg(default_value = "seeds")]
        folder: PathBuf,
        /// Delete them.
        #[arg(long)]
        delete: bool,
    },
    /// Keep the plan of a seed, or of a file, with what comes of it today.
    Add {
        /// The seed whose plan is kept.
        #[arg(long, default_value = "0x0")]
        seed: Seed,
        /// A plan file (TOML) or a capsule instead of a drawn plan.
        #[arg(long, value_name = "FILE",
              conflicts_with_all = ["seed", "scenario", "lock", "fence", "settings", "calm"])]
        plan: Option<PathBuf>,
        /// Where it belongs.
        #[arg(long, value_enum, default_value_t = ShelfArgument::KnownUnsafe)]
        shelf: ShelfArgument,
        /// Which storm.
        #[command(flatten)]
        storm: StormArguments,
        /// Keep it also if a file shows the same failure already.
        #[arg(long)]
        another: bool,
        /// The file's name, without folder and ending.
        #[arg(long)]
        id: String,
        /// One sentence in English.
        #[arg(long)]
        title: String,
        /// The same in Chinese.
        #[arg(long)]
        title_zh: String,
        /// The folder.
        #[arg(long, default_value = "seeds")]
        folder: PathBuf,
    },
}

/// `--shelf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShelfArgument {
    /// Bugs of this project, mended: must be safe.
    Regression,
    /// Locks that are unsafe by design: must still fail.
    KnownUnsafe,
    /// Plans that lessons tell.
    Lesson,
}

impl ShelfArgument {
    /// As the seeds module knows it.
    pub fn shelf(self) -> Shelf {
        match self {
            ShelfArgument::Regression => Shelf::Regression,
            ShelfArgument::KnownUnsafe => Shelf::KnownUnsafe,
            ShelfArgument::Lesson => Shelf::Lesson,
        }
    }
}

/// `serve`.
#[derive(Debug, Subcommand)]
pub enum ServeVerb {
    /// A Redis server, or a master with replicas and sentinels.
    Redis(ServeRedis),
    /// A PostgreSQL server.
    Postgres(ServePostgres),
    /// A ZooKeeper server, or an ensemble.
    Zookeeper(ServeZookeeper),
}

/// `serve postgres`.
#[derive(Debug, Clone, Copy, Args)]
pub struct ServePostgres {
    /// The port; 0 chooses a free one.
    #[arg(long, default_value_t = 5432)]
    pub port: u16,
    /// The address that is listened on. Anybody who can reach it can do everything: there
    /// are no passwords.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub address: std::net::IpAddr,
}

/// `serve redis`.
#[derive(Debug, Clone, Copy, Args)]
pub struct ServeRedis {
    /// The port; replicas take those after it. 0 chooses free ones.
    #[arg(long, default_value_t = 6379)]
    pub port: u16,
    /// So many servers follow it.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub replicas: u16,
    /// So many sentinels watch them as `mymaster`, on the ports from 26379 on; with
    /// `--port 0` on free ones.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub sentinels: u16,
    /// The address that is listened on. Anybody who can reach it can do everything: there
    /// are no passwords.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub address: std::net::IpAddr,
}

/// `serve zookeeper`.
#[derive(Debug, Clone, Copy, Args)]
pub struct ServeZookeeper {
    /// The port for clients; further servers take those after it. 0 chooses free ones.
    #[arg(long, default_value_t = 2181)]
    pub port: u16,
    /// How many servers are the ensemble; they talk to each other on free ports.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub servers: u8,
    /// The address that is listened on. Anybody who can reach it can do everything that
    /// access lists do not forbid.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub address: std::net::IpAddr,
}

/// How something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON value.
    Json,
}

/// `--fence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FenceArgument {
    /// Tokens are not looked at.
    Off,
    /// Only writes show their token.
    Write,
    /// Reads and writes show their token.
    Full,
}

impl FenceArgument {
    /// As the plan has it.
    pub fn fence(self) -> Fence {
        match self {
            FenceArgument::Off => Fence::Off,
            FenceArgument::Write => Fence::Write,
            FenceArgument::Full => Fence::Full,
        }
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            FenceArgument::Off => "off",
            FenceArgument::Write => "write",
            FenceArgument::Full => "full",
        }
    }
}

/// `--draws`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DrawsArgument {
    /// Crashes, pauses, cuts, slow links, lag, clocks.
    First,
    /// Also bursts, partitions node by node, resets, cancelled futures, hangs, frozen and
    /// slewed clocks.
    Wide,
}

impl DrawsArgument {
    /// As the plan has it.
    pub fn draws(self) -> Draws {
        match self {
            DrawsArgument::First => Draws::First,
            DrawsArgument::Wide => Draws::Wide,
        }
    }
}

/// `--engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArgument {
    /// Fast, with the whole fault model.
    Event,
    /// The reference.
    Turmoil,
}

impl EngineArgument {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            EngineArgument::Event => "event",
            EngineArgument::Turmoil => "turmoil",
        }
    }
}

/// A real time of at least a second, written as in plans.
pub fn real_time(text: &str) -> Result<Duration, String> {
    let micros: Micros = text.parse().map_err(|error| format!("{error}"))?;
    if micros.0 < 1_000_000 {
        return Err("write at least 1s".to_owned());
    }
    Ok(Duration::from_micros(micros.0))
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

/// Splits `lock.lease=2s`.
pub fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as lock.lease=2s".to_owned()),
    }
}

fn host_and_time(text: &str) -> Result<(Option<String>, Micros), String> {
    let (host, time) = match text.split_once('=') {
        Some((host, time)) => (Some(host.to_owned()), time),
        None => (None, text),
    };
    let time = time.parse::<Micros>().map_err(|error| error.to_string())?;
    Ok((host, time))
}
