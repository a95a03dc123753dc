//! The program `lockstorm-madsim` of the package in `sim/madsim`: what `lockstorm` is, with the
//! engine `madsim` and without the interposer, for the two define the same symbols of the C
//! library. It stands here because its modules are those of `lockstorm`.

#![warn(clippy::print_stderr, reason = "a reader that has left makes it panic: `say::complain`")]

mod program;

use std::process::ExitCode;

use lockstorm_sim::storm;

fn main() -> ExitCode {
    match lockstorm_madsim::engine() {
        Ok(engine) => {
            storm::add_engine(engine);
            program::main()
        }
        Err(why) => program::exit::Failure::usage(why).tell(),
    }
}
