//! The program `lockstorm` with the engine `madsim`, and without the interposer: the two
//! define the same symbols of the C library.

use std::process::ExitCode;

use lockstorm_sim::{program, storm};

fn main() -> ExitCode {
    match lockstorm_madsim::engine() {
        Ok(engine) => {
            storm::add_engine(engine);
            program::main()
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(program::exit::USAGE)
        }
    }
}
