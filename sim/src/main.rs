//! The program `lockstorm`: parse, do, exit with a code that says how it went.
//!
//! Each verb is a module of [`program`]; the exit codes are in one place,
//! [`program::exit`].

mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::main()
}
