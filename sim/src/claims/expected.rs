//! What the committed documents (`docs/claims.md`, `docs/claims.zh-CN.md`) say of each sentence.
//!
//! No experiment reads this: `lockstorm claims` compares with it what came out, and says by its
//! exit code whether that is the same.

use super::Standing;
use super::Standing::{Confirmed, Depends, NotMeasured, Refuted};

/// Each sentence by name, in the order of the text.
pub const EXPECTED: &[(&str, Standing)] = &[];

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
