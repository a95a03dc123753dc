//! `serve --plan`.

use std::path::PathBuf;

use clap::Args;
use lockstorm_sim::plan::Seed;

use super::serve::ServeVerb;
use super::storm::StormArguments;

/// `serve`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServeArguments {
    /// One server, or a few that belong together.
    #[command(subcommand)]
    pub verb: Option<ServeVerb>,
    /// Or a whole plan.
    #[command(flatten)]
    pub plan: ServePlan,
}

/// What of `serve` is about a plan.
#[derive(Debug, Clone, Args)]
pub struct ServePlan {
    /// A plan file (TOML), a seed file or a capsule: its servers are opened on ports of loopback,
    /// one for each app and server, and its faults are applied in real time. That is seeded, and
    /// not deterministic.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "scenario", "draws"])]
    pub plan: Option<PathBuf>,
    /// The seed whose plan it is, instead of a file.
    #[arg(long)]
    pub seed: Option<Seed>,
    /// Which storm.
    #[command(flatten)]
    pub storm: StormArguments,
    /// The first port; 0 chooses free ones.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Write the ports into this file, as JSON, once they are open.
    #[arg(long, value_name = "FILE.json")]
    pub ports: Option<PathBuf>,
    /// Keys of Redis that begin so are locks.
    #[arg(long, value_name = "PREFIX", default_value = "lock:")]
    pub locks: String,
    /// Write the history that the servers saw into this file, for `lockstorm check`; gzip if its
    /// name ends in `.gz`.
    #[arg(long, value_name = "FILE.ndjson.gz")]
    pub history: Option<PathBuf>,
}
