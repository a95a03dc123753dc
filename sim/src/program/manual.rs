//! `lockstorm completions` and `lockstorm man`: what shells and readers of manuals know of the
//! grammar, from the grammar itself.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use super::arguments::Arguments;
use super::exit::{self, Failure};
use super::say::say;

/// `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Write a page for each verb into this folder; without it the first page is printed.
    pub folder: Option<PathBuf>,
}

/// `lockstorm completions SHELL`.
pub fn completions(arguments: &CompletionsArguments) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "lockstorm", &mut script);
    say(String::from_utf8_lossy(&script).trim_end());
    Ok(exit::SAFE)
}

/// `lockstorm man [FOLDER]`.
pub fn manual(arguments: &ManArguments) -> Result<u8, Failure> {
    let Some(folder) = &arguments.folder else {
        let mut page = Vec::new();
        Man::new(Arguments::command()).render(&mut page).map_err(Failure::internal)?;
        say(String::from_utf8_lossy(&page).trim_end());
        return Ok(exit::SAFE);
    };
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    written.map_err(|error| {
        let mend = "name a folder that you may write";
        Failure::usage(format!("{}: cannot be written: {error}; {mend}", folder.display()))
    })?;
    say(folder.display().to_string());
    Ok(exit::SAFE)
}
