//! The program `lockstorm`: what [`lockstorm_sim::program`] does, with an interposer that
//! gives third-party code on simulated nodes their clocks and keyed draws.

use std::process::ExitCode;

use lockstorm_interpose::Senses;
use lockstorm_sim::engine::senses;

fn main() -> ExitCode {
    lockstorm_interpose::install(Senses {
        monotonic_ns: senses::monotonic_ns,
        wall_ns: senses::wall_ns,
        entropy: senses::entropy,
    });
    lockstorm_sim::program::main()
}
