//! A failing sale with as few faults as fail in the same way.

use super::{SaleRun, SaleStorm};
use crate::engine::Engine;

/// The storm of `run` without the faults that it does not need to be wrong in the same kinds of
/// ways, and how it came out. Each run takes as long as the first.
pub fn shrunk(run: &SaleRun, engine: &dyn Engine) -> SaleRun {
    let mut smallest = run.clone();
    let mut at = 0;
    while at < smallest.storm.plan.faults.len() {
        let mut storm: SaleStorm = smallest.storm.clone();
        storm.plan.faults.remove(at);
        let tried = storm.run(engine);
        if tried.judged.kinds() == run.judged.kinds() {
            smallest = tried;
        } else {
            at += 1;
        }
    }
    smallest
}
