//! Keyed draws in the units of tests.

use lockstorm_sim::draw;

/// The draws of one sequence, or of one storm.
pub struct Draw(draw::Draw);

impl Draw {
    pub fn new(seed: u64, purpose: &str) -> Draw {
        Draw(draw::Draw::new(seed, purpose, "test"))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    /// A number in `from..to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0.between(from, to)
    }

    /// Whether this one of so many.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
