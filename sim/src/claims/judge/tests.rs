//! Is what was measured compared as predicted? Are runs that say nothing counted apart?

use super::*;
use crate::claims::measure::Unit;
use crate::hunt::proportion::Proportion;

#[test]
fn predictions_are_compared_with_what_was_measured() {
    let share = |count, of| Value::Share(Proportion::new(count, of));
    let number = |number| Value::Number { number, unit: Unit::Times, of: 3 };
    let all = [Some(number(100)), None];
    for (predicts, value, expected) in [
        (Prediction::Never, share(0, 5), Some(true)),
        (Prediction::Never, share(1, 5), Some(false)),
        (Prediction::Sometimes, share(1, 5), Some(true)),
        (Prediction::Sometimes, share(0, 5), Some(false)),
        (Prediction::EachTime, share(5, 5), Some(true)),
        (Prediction::EachTime, share(4, 5), Some(false)),
        (Prediction::AtMost(9), number(10), Some(false)),
        (Prediction::AtLeast(9), number(10), Some(true)),
        (Prediction::AtMostOf { arm: 0, percent: 50 }, number(50), Some(true)),
        (Prediction::AtMostOf { arm: 0, percent: 50 }, number(51), Some(false)),
        (Prediction::AtLeastOf { arm: 0, percent: 90 }, number(89), Some(false)),
        (Prediction::AtLeastOf { arm: 1, percent: 90 }, number(89), None),
        (Prediction::Nothing, number(1), None),
    ] {
        assert_eq!(holds(predicts, value, &all), expected, "{predicts:?} {value:?}");
    }
}

fn sighting(seed: u64, verdict: Verdict, sample: Option<Sample>) -> Sighting {
    Sighting { seed: Seed(seed), verdict, trace: "aaaa".to_owned(), sample }
}

/// A claim with one arm that predicts that nothing is found.
fn claim(reading: Reading) -> &'static Claim {
    let is_wanted = |claim: &&Claim| {
        claim.arms().len() == 1
            && claim.reading == reading
            && claim.arms()[0].predicts == Prediction::Never
    };
    super::super::all().find(is_wanted).unwrap()
}

#[test]
fn runs_that_say_nothing_are_not_runs_in_which_nothing_happened() {
    let quiet = |seed| sighting(seed, Verdict::Safe, Some(Sample::Happened(false)));
    let silent = |seed| sighting(seed, Verdict::Unknown, None);
    let of = |sightings: &[Sighting]| conclude(claim(Reading::Always), &[sightings]);
    let few = of(&[quiet(1), quiet(2), silent(3)]);
    assert_eq!(few.outcomes[0].value, Some(Value::Share(Proportion::new(0, 2))));
    assert_eq!(few.outcomes[0].silent, BTreeMap::from([(Verdict::Unknown, 1)]));
    assert_eq!(few.standing, Standing::Confirmed);
    let mostly = of(&[quiet(1), silent(2), silent(3)]);
    assert_eq!((mostly.outcomes[0].holds, mostly.standing), (None, Standing::NotMeasured));
    assert_eq!(mostly.witness, None);
    assert_eq!(of(&[silent(1)]).standing, Standing::NotMeasured);
}

#[test]
fn a_counterexample_is_the_witness() {
    let claim = claim(Reading::Always);
    let found = sighting(2, Verdict::Violation, Some(Sample::Happened(true)));
    let quiet = sighting(1, Verdict::Safe, Some(Sample::Happened(false)));
    let judged = conclude(claim, &[&[quiet, found]]);
    assert_eq!(judged.standing, Standing::Refuted);
    let witness = judged.witness.unwrap();
    assert_eq!((witness.seed, witness.verdict), (Seed(2), Verdict::Violation));
    assert!(witness.is_decisive && witness.proof.is_none());
}
