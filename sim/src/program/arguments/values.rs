//! What several verbs take as a value.

use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use lockstorm_sim::plan::{Draws, Fence, Micros};

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

    /// As a flag.
    pub fn of(fence: Fence) -> FenceArgument {
        match fence {
            Fence::Off => FenceArgument::Off,
            Fence::Write => FenceArgument::Write,
            Fence::Full => FenceArgument::Full,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineArgument {
    /// Fast, with the whole fault model.
    #[default]
    Event,
    /// The same with ready tasks in a drawn order.
    EventShuffled,
    /// The reference.
    Turmoil,
    /// The second opinion, in a program of its own.
    Madsim,
}

impl EngineArgument {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            EngineArgument::Event => "event",
            EngineArgument::EventShuffled => "event-shuffled",
            EngineArgument::Turmoil => "turmoil",
            EngineArgument::Madsim => "madsim",
        }
    }
}

/// `--engine` where several can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// This one.
    One(EngineArgument),
    /// event, turmoil and madsim, side by side.
    All,
}

impl ValueEnum for EngineChoice {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [EngineChoice; 5] = [
            EngineChoice::One(EngineArgument::Event),
            EngineChoice::One(EngineArgument::EventShuffled),
            EngineChoice::One(EngineArgument::Turmoil),
            EngineChoice::One(EngineArgument::Madsim),
            EngineChoice::All,
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            EngineChoice::One(engine) => engine.to_possible_value(),
            EngineChoice::All => {
                Some(PossibleValue::new("all").help("Event, turmoil and madsim, side by side"))
            }
        }
    }
}

/// `seeds check --engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AllEngines {
    /// Event, turmoil and madsim, side by side.
    All,
}

/// A real time of at least a second, written as in plans.
pub fn real_time(text: &str) -> Result<Duration, String> {
    let micros: Micros = text.parse().map_err(|error| format!("{error}"))?;
    if micros.0 < 1_000_000 {
        return Err("write at least 1s".to_owned());
    }
    Ok(Duration::from_micros(micros.0))
}

/// Splits `lock.lease=2s`.
pub fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as lock.lease=2s".to_owned()),
    }
}
