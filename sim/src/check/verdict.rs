//! The verdict on a run, and on many.

use serde::{Deserialize, Serialize};

use super::words::{self, Language};

/// What a run, or a campaign, comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing is wrong, the goals were met. Speaks of this run only.
    Safe,
    /// The lock was promised twice, and the fence kept the effects apart.
    SafeByFence,
    /// Something is wrong.
    Violation,
    /// A checker failed, or a goal was not met: nothing can be said.
    Unknown,
    /// The plan has faults, and none had an observable effect.
    Inert,
    /// The engine cannot do what the plan asks.
    NotExpressible,
    /// A worker died, or the program is wrong.
    Internal,
    /// Two runs of one plan differ.
    Nondeterminism,
}

impl Verdict {
    /// All of them, in order of precedence: of many, the first that occurs counts.
    /// `Internal` counts only when there is nothing else.
    pub const BY_PRECEDENCE: [Verdict; 8] = [
        Verdict::Nondeterminism,
        Verdict::Violation,
        Verdict::Unknown,
        Verdict::Inert,
        Verdict::NotExpressible,
        Verdict::SafeByFence,
        Verdict::Safe,
        Verdict::Internal,
    ];

    /// The program's exit code for it.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Safe | Verdict::SafeByFence => 0,
            Verdict::Violation => 1,
            Verdict::Unknown | Verdict::Inert | Verdict::NotExpressible => 2,
            Verdict::Nondeterminism => 3,
            Verdict::Internal => 70,
        }
    }

    /// Whether it is one of the two safe ones.
    pub fn is_safe(self) -> bool {
        self.exit_code() == 0
    }

    /// The verdict on many runs. Of no runs at all, nothing can be said.
    pub fn merge(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
        let rank = |verdict: &Verdict| Self::BY_PRECEDENCE.iter().position(|v| v == verdict);
        verdicts.into_iter().min_by_key(rank).unwrap_or(Verdict::Unknown)
    }

    /// The verdict on plans that were drawn, not written. Some of many touch nothing: they
    /// prove nothing and fail nothing, unless there are no others (docs/adr/0007).
    pub fn merge_drawn(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
        let (inert, others): (Vec<_>, Vec<_>) =
            verdicts.into_iter().partition(|verdict| *verdict == Verdict::Inert);
        Verdict::merge(if others.is_empty() { inert } else { others })
    }

    /// Its stable name, as in files and JSON.
    pub fn id(self) -> &'static str {
        match self {
            Verdict::Safe => "safe",
            Verdict::SafeByFence => "safe-by-fence",
            Verdict::Violation => "violation",
            Verdict::Unknown => "unknown",
            Verdict::Inert => "inert",
            Verdict::NotExpressible => "not-expressible",
            Verdict::Internal => "internal",
            Verdict::Nondeterminism => "nondeterminism",
        }
    }

    /// What people call it.
    pub fn word(self, language: Language) -> &'static str {
        words::word(self.id(), language)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.word(Language::English))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_design() {
        let codes = Verdict::BY_PRECEDENCE.map(Verdict::exit_code);
        assert_eq!(codes, [3, 1, 2, 2, 2, 0, 0, 70]);
    }

    #[test]
    fn of_many_the_first_of_3_1_2_0_counts_and_70_only_alone() {
        use Verdict::*;
        let code = |verdicts: &[Verdict]| Verdict::merge(verdicts.iter().copied()).exit_code();
        assert_eq!(code(&[Safe, Unknown, Violation, Nondeterminism]), 3);
        assert_eq!(code(&[Internal, Unknown, Violation, Safe]), 1);
        assert_eq!(code(&[Safe, Inert, Internal]), 2);
        assert_eq!(code(&[Internal, Safe, Internal]), 0);
        assert_eq!(code(&[Internal, Internal]), 70);
        assert_eq!(code(&[]), 2);
        assert_eq!(Verdict::merge([Safe, SafeByFence]), SafeByFence);
    }

    #[test]
    fn of_drawn_plans_the_inert_count_only_alone() {
        use Verdict::*;
        let code =
            |verdicts: &[Verdict]| Verdict::merge_drawn(verdicts.iter().copied()).exit_code();
        assert_eq!(code(&[Safe, Inert, SafeByFence]), 0);
        assert_eq!(code(&[Inert, Violation]), 1);
        assert_eq!(code(&[Inert, Unknown, Safe]), 2);
        assert_eq!(code(&[Inert, Inert]), 2);
        assert_eq!(code(&[]), 2);
    }

    #[test]
    fn the_stable_name_is_the_serialised_one() {
        for verdict in Verdict::BY_PRECEDENCE {
            let text = serde_json::to_string(&verdict).unwrap();
            assert_eq!(text, format!("\"{}\"", verdict.id()));
        }
    }
}
