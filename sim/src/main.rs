//! The program `lockstorm`: parse, do, exit with a code that says how it went.
//!
//! Each verb is a module of [`program`]; the exit codes are in one place,
//! [`program::exit`].

#![warn(clippy::print_stderr, reason = "a reader that has left makes it panic: `say::complain`")]

mod program;

use std::process::ExitCode;

use lockstorm_interpose::Senses;
use lockstorm_sim::engine::senses;

fn main() -> ExitCode {
    // Third-party code on simulated nodes gets their clocks and keyed draws.
    lockstorm_interpose::install(Senses {
        monotonic_ns: senses::monotonic_ns,
        wall_ns: senses::wall_ns,
        entropy: senses::entropy,
    });
    program::main()
}
