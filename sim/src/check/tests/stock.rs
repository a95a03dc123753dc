//! What was sold.

use super::*;
use crate::history::OrderAnswer;

#[test]
fn one_unit_under_two_orders_is_oversold_even_when_the_sum_is_right() {
    let section = |sample: Sample, who: &str, unit: u32| {
        sample.grant(who).read(who, unit).sell(who, unit).let_go(who)
    };
    let sold = |second: u32| {
        let sample = section(Sample::new().at(100), "app-1/1", 1);
        let sample = section(sample.at(200), "app-2/1", second);
        sample.at(300).ledger(2, &[(1, "app-1/1"), (second, "app-2/1")]).end()
    };
    let judgement = judge(&sold(1), &setting(0));
    let oversell = one(&judgement, Kind::Oversell);
    assert_eq!(oversell.blame.parted, Parted::NotALockBug, "the sections came one by one");
    assert!(!oversell.blame.is_lock_bug());
    assert_eq!(owners(oversell), ["app-1/1", "app-2/1"]);
    assert_eq!(judge(&sold(2), &setting(0)).verdict, Verdict::Safe);
    // A unit that there never was.
    let judgement = judge(&sold(3), &setting(0));
    insta::assert_snapshot!(
        one(&judgement, Kind::Oversell).sentence(),
        @"Unit 3 was sold under order order-of-app-2/1, of only 2 units."
    );
}

#[test]
fn a_repeated_order_is_the_same_sale() {
    let history = Sample::new()
        .at(1)
        .grant("app-1/1")
        .sell("app-1/1", 1)
        .sell("app-1/1", 1)
        .let_go("app-1/1")
        .grant("app-2/1")
        .ledger(1, &[(1, "app-1/1"), (1, "app-1/1")])
        .end();
    assert_eq!(judge(&history, &setting(0)).verdict, Verdict::Safe);
}

fn sold_one_by_one() -> Sample {
    let section = |sample: Sample, who: &str, unit: u32| {
        sample.grant(who).read(who, unit).sell(who, unit).let_go(who)
    };
    let sample = section(Sample::new().at(100), "app-1/1", 1);
    section(sample.at(200), "app-2/1", 2)
}

#[test]
fn whoever_is_told_that_nothing_is_left_must_find_every_unit_taken() {
    let told = |sample: Sample, units: u32| {
        let sample = sample.at(300).answered("app-3/1", OrderAnswer::SoldOut).at(400);
        let sample = sample.ledger(units, &[(1, "app-1/1"), (2, "app-2/1")]);
        judge(&sample.end(), &setting(0))
    };
    let judgement = told(sold_one_by_one(), 3);
    assert_eq!(kinds(&judgement), ["undersell"]);
    insta::assert_snapshot!(one(&judgement, Kind::Undersell).sentence(), @"A buyer was told at 0.300 s that nothing is left, and unit 3 of 3 was free all the time.");
    assert_eq!(kinds(&told(sold_one_by_one(), 2)), [""; 0]);
    // Set aside when the buyer asked, given back later: the refusal was right.
    let reserved = sold_one_by_one().reserve("app-4/1", 3);
    assert_eq!(kinds(&told(reserved, 3)), [""; 0]);
    let early = Sample::new().at(1).reserve("app-4/1", 3).at(50).cancel("app-4/1", 3);
    let given_back_before = early.at(60).answered("app-3/1", OrderAnswer::SoldOut);
    // It may have been set aside while the buyer's request was on its way.
    assert!(!told(given_back_before, 3).findings.iter().any(|f| f.from_us == 60_000));
}

#[test]
fn an_order_buys_one_unit_and_an_accepted_one_is_in_the_books() {
    let books = |sales: &[(u32, &str)]| {
        let sample = sold_one_by_one().answered("app-1/1", OrderAnswer::Accepted);
        let sample = sample.answered("app-2/1", OrderAnswer::Indeterminate).at(400);
        judge(&sample.ledger(3, sales).end(), &setting(0))
    };
    assert_eq!(kinds(&books(&[(1, "app-1/1"), (2, "app-2/1")])), [""; 0]);
    assert_eq!(kinds(&books(&[(1, "app-1/1"), (3, "app-1/1")])), ["duplicate-order"]);
    assert_eq!(kinds(&books(&[(2, "app-2/1")])), ["lost-order"]);
    assert_eq!(kinds(&books(&[(1, "app-1/1")])), [""; 0], "no answer promises nothing");
}

#[test]
fn one_lost_and_one_doubled_do_not_even_out() {
    let sample = sold_one_by_one();
    let sample = sample
        .answered("app-1/1", OrderAnswer::Accepted)
        .answered("app-2/1", OrderAnswer::Accepted)
        .at(400)
        .ledger(2, &[(1, "app-1/1"), (1, "app-9/1")])
        .counted(2, 0);
    let judgement = judge(&sample.end(), &setting(0));
    assert_eq!(kinds(&judgement), ["oversell", "lost-order"]);
}

#[test]
fn the_counter_must_agree_with_the_books_or_with_what_buyers_were_told() {
    let counted = |left: i64| {
        let sample = sold_one_by_one().at(400).ledger(5, &[(1, "app-1/1"), (2, "app-2/1")]);
        judge(&sample.counted(5, left).end(), &setting(0))
    };
    assert_eq!(kinds(&counted(3)), [""; 0]);
    assert_eq!(kinds(&counted(4)), ["stock-not-conserved"], "an update was lost");
    // Without books: one accepted, one without an answer.
    let told = |left: i64| {
        let sample = Sample::new().at(1).answered("app-1/1", OrderAnswer::Accepted);
        let sample = sample.answered("app-2/1", OrderAnswer::Indeterminate).at(9);
        judge(&sample.counted(5, left).end(), &setting(0))
    };
    assert_eq!(kinds(&told(5)), ["stock-not-conserved"]);
    assert_eq!(kinds(&told(4)), [""; 0]);
    assert_eq!(kinds(&told(3)), [""; 0]);
    assert_eq!(kinds(&told(2)), ["stock-not-conserved"]);
    // More told than there were.
    let sample = Sample::new().at(1).answered("app-1/1", OrderAnswer::Accepted);
    let sample = sample.answered("app-2/1", OrderAnswer::Accepted).at(9).counted(1, -1);
    assert_eq!(kinds(&judge(&sample.end(), &setting(0))), ["oversell"]);
}
