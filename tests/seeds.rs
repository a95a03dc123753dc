//! Every file of `seeds/` is a test of its own name: it must still do what is written
//! in it, on the event engine and under turmoil.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use lockstorm_interpose::Senses;
use lockstorm_sim::engine::senses;
use lockstorm_sim::seeds::{self, SeedFile, check};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let (monotonic_ns, wall_ns) = (senses::monotonic_ns, senses::wall_ns);
    lockstorm_interpose::install(Senses { monotonic_ns, wall_ns, entropy: senses::entropy });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let paths = match seeds::list(&folder) {
        Ok(paths) => paths,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let trials = paths.into_iter().map(|path| {
        let name = path.strip_prefix(&folder).unwrap_or(&path).with_extension("");
        let name = name.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let name = name.collect::<Vec<_>>().join("::").replace('-', "_");
        Trial::test(name, move || {
            let file = SeedFile::load(&path).map_err(|error| error.to_string())?;
            let outcome = check::check(&file);
            if outcome.is_met() {
                return Ok(());
            }
            Err(Failed::from(outcome.lines.join("\n")))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
