//! Two worker processes on two cores, against a loop that only spins: how much of the
//! machine's own scaling the hunt keeps.

use std::process::{Command, Stdio};

use super::seconds;

const SEEDS: u64 = 400;
/// Turns of the spin loop: about as long as the hunt.
const SPINS: u64 = 2_000_000_000;

/// Hunts with one worker and with two, and spins on one thread and on two.
pub fn scaling() {
    println!("worker processes: {SEEDS} safe seeds with one and with two, against a spin loop\n");
    let (mut hunts, mut spins) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        hunts.push(hunt(1) / hunt(2));
        spins.push(spin(1) / spin(2));
    }
    let best = |of: &[f64]| of.iter().copied().fold(f64::MIN, f64::max);
    let (hunt, spin) = (best(&hunts), best(&spins));
    println!(
        "two workers are {hunt:.2} × one; the spin loop {spin:.2} ×; that is {:.2} of it\n",
        hunt / spin
    );
}

fn hunt(jobs: u64) -> f64 {
    let program = env!("CARGO_BIN_EXE_lockstorm");
    let mut command = Command::new(program);
    command.args(["hunt", "--calm", "--seeds", &SEEDS.to_string(), "--jobs", &jobs.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    seconds(|| {
        let status = command.status();
        assert!(status.is_ok_and(|status| status.success()), "the hunt failed");
    })
}

/// The same work on `threads` threads.
fn spin(threads: u64) -> f64 {
    seconds(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(move || {
                    let turns = (0..SPINS / threads).fold(1_u64, |sum, turn| {
                        sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(turn)
                    });
                    std::hint::black_box(turns);
                });
            }
        });
    })
}
