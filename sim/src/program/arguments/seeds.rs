//! `seeds`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use lockstorm_sim::plan::Seed;
use lockstorm_sim::seeds::Shelf;

use super::storm::StormArguments;
use super::values::{AllEngines, Format};

/// `seeds`.
#[derive(Debug, Subcommand)]
pub enum SeedsVerb {
    /// Run every kept plan and compare with what is expected of it.
    Check {
        /// The folder.
        #[arg(default_value = "seeds")]
        folder: PathBuf,
        /// Ask all engines, and tell whether they agree.
        #[arg(long, value_enum)]
        engine: Option<AllEngines>,
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
        #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "scenario", "draws"])]
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
