//! `check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lockstorm_sim::history::edn::Model;
use lockstorm_sim::plan::Micros;

use super::values::Format;

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

fn host_and_time(text: &str) -> Result<(Option<String>, Micros), String> {
    let (host, time) = match text.split_once('=') {
        Some((host, time)) => (Some(host.to_owned()), time),
        None => (None, text),
    };
    let time = time.parse::<Micros>().map_err(|error| error.to_string())?;
    Ok((host, time))
}
