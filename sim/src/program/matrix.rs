//! `lockstorm matrix`: every lock against every family of faults, with and without a fence.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockstorm_sim::check::{Language, Verdict};
use lockstorm_sim::matrix::journal::{Identity, Journal, SCHEMA};
use lockstorm_sim::matrix::work::{self, Trouble, Workers};
use lockstorm_sim::matrix::{Matrix, QUICK_SEEDS, Request, SEEDS};
use lockstorm_sim::plan::Seed;
use lockstorm_sim::plan::draw::alone::LONE_FAMILIES;
use lockstorm_sim::plan::scenario::LOCKS;
use lockstorm_sim::report::matrix as told;

use super::arguments::{FenceArgument, real_time};
use super::exit::{self, Failure};
use super::lesson::{LanguageArgument, language};
use super::progress::Progress;
use super::say::say;

/// `matrix`.
#[derive(Debug, Args)]
pub struct MatrixArguments {
    #[arg(long, value_name = "LOCK,…", value_delimiter = ',', help = locks())]
    pub locks: Vec<String>,
    #[arg(long, value_name = "FAMILY,…", value_delimiter = ',', help = families())]
    pub families: Vec<String>,
    /// How much of the fence, one or several; off and full where nothing is said. A lock
    /// without tokens has no fence.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub fence: Vec<FenceArgument>,
    /// How many seeds for each cell; 40 where nothing is said.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seeds: Option<u64>,
    /// The first seed of each cell.
    #[arg(long, default_value = "0x0")]
    pub seed: Seed,
    /// A first look: 12 seeds for each cell.
    #[arg(long, conflicts_with = "seeds")]
    pub quick: bool,
    /// How many worker processes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// How long a worker may be silent over one run before it is stopped and the run told
    /// as internal; real time.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = real_time)]
    pub seed_limit: Duration,
    /// Write down each cell as it is done, and in the end all of it in every format, into this
    /// folder. Started again with the same flags, it goes on where it was.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = MatrixFormat::Text)]
    pub format: MatrixFormat,
    /// In which language; that of the locale where nothing is said.
    #[arg(long, value_enum)]
    pub lang: Option<LanguageArgument>,
}

fn locks() -> String {
    let names = LOCKS.iter().map(|lock| lock.name);
    format!("Only these locks, of: {}", names.collect::<Vec<_>>().join(", "))
}

fn families() -> String {
    let names = LONE_FAMILIES.iter().map(|family| family.name);
    format!("Only these families of faults, of: {}", names.collect::<Vec<_>>().join(", "))
}

/// `--format` of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MatrixFormat {
    /// For people at a terminal.
    Text,
    /// One JSON value.
    Json,
    /// A page of documentation.
    Markdown,
    /// A page for browsers, offline, in both languages.
    Html,
}

impl MatrixArguments {
    fn request(&self) -> Result<Request, Failure> {
        let seeds = if self.quick { QUICK_SEEDS } else { SEEDS };
        let seeds = self.seeds.unwrap_or(seeds);
        let whole = Request { first: self.seed, ..Request::whole(seeds) };
        if self.seed.0.checked_add(seeds - 1).is_none() {
            let (first, last) = (self.seed, u64::MAX);
            return Err(Failure::usage(format!(
                "--seed {first} --seeds {seeds}: there are no seeds beyond 0x{last:x}; begin \
                 earlier or ask for fewer"
            )));
        }
        let request = Request {
            locks: chosen(whole.locks, &self.locks),
            families: chosen(whole.families, &self.families),
            fences: chosen(whole.fences, &self.fence.iter().map(|f| f.fence()).collect::<Vec<_>>()),
            ..whole
        };
        // Refuse bad flags before any worker is started.
        let rows = request.rows()?;
        if rows.iter().all(|row| row.families.is_empty()) {
            return Err(Failure::usage(
                "--locks, --families and --fence leave nothing: none of these families is at home \
                 with any of these locks, or no lock has this fence; leave one of the flags out",
            ));
        }
        Ok(request)
    }
}

/// What was said, each once, or all.
fn chosen<T: Clone + PartialEq>(all: Vec<T>, said: &[T]) -> Vec<T> {
    if said.is_empty() {
        return all;
    }
    let mut once: Vec<T> = Vec::new();
    for one in said {
        if !once.contains(one) {
            once.push(one.clone());
        }
    }
    once
}

/// `lockstorm matrix`. Failures of locks are what it is for: 0 if all cells were run.
pub fn matrix(arguments: &MatrixArguments) -> Result<u8, Failure> {
    let request = arguments.request()?;
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let mut journal = match &arguments.out {
        Some(folder) => Some(open(folder, &request, &program)?),
        None => None,
    };
    let rows = request.rows()?;
    let cells: usize = rows.iter().map(|row| row.families.len()).sum();
    let bar = Progress::new("cells", Some(cells as u64));
    let jobs = usize::from(arguments.jobs);
    let workers = Workers { program, jobs, limit: arguments.seed_limit };
    let matrix = work::run(&request, &workers, journal.as_mut(), &mut |_| bar.inc());
    drop(bar);
    let matrix = matrix.map_err(|trouble| match trouble {
        Trouble::Asked(error) => error.into(),
        Trouble::Worker(error) if error.kind() == ErrorKind::InvalidInput => Failure::usage(error),
        Trouble::Worker(error) => Failure::internal(error),
        Trouble::Folder(why) => Failure::Usage(why),
    })?;
    if let Some(journal) = &journal {
        conclude(journal, &matrix)?;
    }
    let language = language(arguments.lang);
    say(match arguments.format {
        MatrixFormat::Text => told::text(&matrix, language),
        MatrixFormat::Json => told::json(&matrix),
        MatrixFormat::Markdown => told::markdown(&matrix, language).trim_end().to_owned(),
        MatrixFormat::Html => told::page::page(&matrix).trim_end().to_owned(),
    });
    let ended = |verdict| matrix.cells.iter().any(|cell| cell.verdict() == verdict);
    Ok(match () {
        () if ended(Verdict::Nondeterminism) => exit::NONDETERMINISM,
        () if ended(Verdict::Internal) => exit::INTERNAL,
        () => exit::SAFE,
    })
}

fn open(folder: &Path, request: &Request, program: &Path) -> Result<Journal, Failure> {
    let bytes = std::fs::read(program).map_err(Failure::internal)?;
    let identity = Identity {
        schema: SCHEMA,
        lockstorm: env!("CARGO_PKG_VERSION").to_owned(),
        build: blake3::hash(&bytes).to_hex()[..16].to_owned(),
        request: request.clone(),
    };
    Journal::open(folder, &identity).map_err(Failure::Usage)
}

/// Everything, in every format.
fn conclude(journal: &Journal, matrix: &Matrix) -> Result<(), Failure> {
    let files = [
        ("matrix.txt", told::text(matrix, Language::English) + "\n"),
        ("matrix.json", told::json(matrix) + "\n"),
        ("matrix.md", told::markdown(matrix, Language::English)),
        ("matrix.zh-CN.md", told::markdown(matrix, Language::Chinese)),
        ("matrix.html", told::page::page(matrix)),
    ];
    for (name, text) in files {
        journal.conclude(name, &text).map_err(Failure::Usage)?;
    }
    Ok(())
}
