//! What the committed documents (`docs/claims.md`, `docs/claims.zh-CN.md`) say of each sentence.
//!
//! No experiment reads this: `lockstorm claims` compares with it what came out, and says by its
//! exit code whether that is the same.

use super::Standing;
use super::Standing::{Confirmed, Depends, NotMeasured, Refuted};

/// Each sentence by name, in the order of the text.
pub const EXPECTED: &[(&str, Standing)] = &[
    ("s1", Confirmed),
    ("s2", Confirmed),
    ("s3", Depends),
    ("s4", Depends),
    ("s5", Depends),
    ("s6", Confirmed),
    ("s7", NotMeasured),
    ("d27", NotMeasured),
    ("d1", Depends),
    ("d2", Refuted),
    ("d3", Refuted),
    ("d4", Refuted),
    ("d5", Confirmed),
    ("d6", Depends),
    ("d7", NotMeasured),
    ("d8", Confirmed),
    ("d9", Refuted),
    ("d10", Confirmed),
    ("d11", Confirmed),
    ("d12", Refuted),
    ("d13", Refuted),
    ("d14", Confirmed),
    ("d15", Depends),
    ("d16", Refuted),
    ("d17", Depends),
    ("d18", Confirmed),
    ("d19", Refuted),
    ("d20", Confirmed),
    ("d21", Depends),
    ("d22", Confirmed),
    ("d23", Confirmed),
    ("d24", Refuted),
    ("d25", Confirmed),
    ("d26", Confirmed),
    ("c1", NotMeasured),
    ("c23", Confirmed),
    ("c2", Confirmed),
    ("c3", Confirmed),
    ("c4", Confirmed),
    ("c5", Confirmed),
    ("c6", Confirmed),
    ("c21", Confirmed),
    ("c7", Depends),
    ("c8", Depends),
    ("c9", Confirmed),
    ("c10", Refuted),
    ("c11", Confirmed),
    ("c12", Depends),
    ("c13", Confirmed),
    ("c22", NotMeasured),
    ("c14", Confirmed),
    ("c15", NotMeasured),
    ("c16", Depends),
    ("c17", Refuted),
    ("c18", Refuted),
    ("c19", Depends),
    ("c20", Depends),
    ("z1", Confirmed),
    ("z2", Refuted),
    ("z3", Refuted),
    ("z4", Confirmed),
    ("z5", Confirmed),
    ("z6", Confirmed),
    ("z7", Refuted),
    ("z8", Confirmed),
    ("z9", Confirmed),
    ("z10", Confirmed),
    ("z11", Refuted),
    ("z12", Confirmed),
    ("z13", NotMeasured),
    ("z14", Confirmed),
    ("z15", NotMeasured),
    ("z16", Confirmed),
    ("z17", Refuted),
    ("z18", Confirmed),
    ("z19", Confirmed),
    ("x1", Depends),
    ("x2", Depends),
    ("x3", NotMeasured),
    ("x4", NotMeasured),
    ("x5", Depends),
    ("x6", Depends),
    ("x7", Refuted),
    ("x8", Depends),
    ("x9", Confirmed),
    ("x10", NotMeasured),
    ("x11", Confirmed),
    ("x12", Confirmed),
    ("x13", NotMeasured),
    ("x14", Refuted),
    ("x15", NotMeasured),
];

/// What is said of this sentence; `None` where nothing is.
pub fn of(id: &str) -> Option<Standing> {
    EXPECTED.iter().find(|(known, _)| *known == id).map(|(_, standing)| *standing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Trial, all};

    #[test]
    fn every_sentence_has_one_and_what_is_not_tried_is_not_measured() {
        let ids: Vec<&str> = all().map(|claim| claim.id).collect();
        let known: Vec<&str> = EXPECTED.iter().map(|(id, _)| *id).collect();
        assert_eq!(known, ids);
        for claim in all().filter(|claim| matches!(claim.trial, Trial::None(..))) {
            assert_eq!(of(claim.id), Some(NotMeasured), "{}", claim.id);
        }
    }
}
