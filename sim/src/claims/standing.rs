//! What is to be thought of a sentence, and how that follows from its arms.

use serde::Serialize;

use super::Reading;
use crate::check::Language;
use crate::check::words;

/// What is to be thought of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// What it predicts came true.
    Confirmed,
    /// It did not.
    Refuted,
    /// Under some conditions it did, under others not.
    Depends,
    /// There is no experiment that could tell, or its runs said too little.
    NotMeasured,
}

impl Standing {
    /// All of them.
    pub const ALL: [Standing; 4] =
        [Standing::Confirmed, Standing::Refuted, Standing::Depends, Standing::NotMeasured];

    /// Its stable name.
    pub fn id(self) -> &'static str {
        match self {
            Standing::Confirmed => "confirmed",
            Standing::Refuted => "refuted",
            Standing::Depends => "depends",
            Standing::NotMeasured => "not-measured",
        }
    }

    /// What people call it.
    pub fn word(self, language: Language) -> &'static str {
        words::word(self.id(), language)
    }

    /// Of a sentence that is read so, by what its arms say: whether the prediction of each that
    /// predicts something came true, `None` where too little could be said of it.
    ///
    /// What was not measured is never taken for what was predicted: without it a sentence may be
    /// refuted by a counterexample or confirmed by an example, and nothing else.
    pub fn of(reading: Reading, told: &[Option<bool>]) -> Standing {
        let (kept, broken) = (told.contains(&Some(true)), told.contains(&Some(false)));
        let is_whole = !told.is_empty() && !told.contains(&None);
        match (reading, kept, broken) {
            (Reading::Always, _, true) => Standing::Refuted,
            (Reading::Possible, true, _) => Standing::Confirmed,
            (Reading::Graded, true, true) => Standing::Depends,
            _ if !is_whole => Standing::NotMeasured,
            (_, _, true) => Standing::Refuted,
            (_, _, false) => Standing::Confirmed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_sentence_is_read_decides_what_a_counterexample_does() {
        let (yes, no) = (Some(true), Some(false));
        for (reading, told, standing) in [
            (Reading::Always, &[yes, no][..], Standing::Refuted),
            (Reading::Graded, &[yes, no], Standing::Depends),
            (Reading::Possible, &[yes, no], Standing::Confirmed),
            (Reading::Possible, &[no], Standing::Refuted),
            (Reading::Graded, &[no, no], Standing::Refuted),
            (Reading::Always, &[yes, yes], Standing::Confirmed),
            (Reading::Always, &[], Standing::NotMeasured),
        ] {
            assert_eq!(Standing::of(reading, told), standing, "{reading:?} {told:?}");
        }
    }

    #[test]
    fn what_was_not_measured_neither_confirms_nor_refutes() {
        let (yes, no) = (Some(true), Some(false));
        for (reading, told, standing) in [
            (Reading::Always, &[yes, None][..], Standing::NotMeasured),
            (Reading::Always, &[no, None], Standing::Refuted),
            (Reading::Possible, &[no, None], Standing::NotMeasured),
            (Reading::Possible, &[yes, None], Standing::Confirmed),
            (Reading::Graded, &[yes, None], Standing::NotMeasured),
            (Reading::Graded, &[no, None], Standing::NotMeasured),
            (Reading::Graded, &[yes, no, None], Standing::Depends),
            (Reading::Always, &[None], Standing::NotMeasured),
        ] {
            assert_eq!(Standing::of(reading, told), standing, "{reading:?} {told:?}");
        }
    }
}
