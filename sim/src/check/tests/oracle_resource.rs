//! Brute force over random histories: sections against the order of grants, tokens,
//! and everything about the stock.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::oracle::cases;
use super::*;
use crate::history::{EventId, Name, OrderAnswer, StockOperation, What};

const WHO: [&str; 5] = ["app-1/1", "app-2/1", "app-3/1", "app-4/1", "app-5/1"];

/// Grants in the order of `WHO`, some shared, with tokens; then their operations in any
/// order.
fn sections() -> impl Strategy<Value = (History, Vec<(u64, bool)>, Vec<usize>)> {
    let grants = prop::collection::vec((1_u64..6, any::<bool>()), 5);
    (grants, prop::collection::vec(0_usize..5, 0..12)).prop_map(|(grants, acts)| {
        let mut sample = Sample::new();
        for (n, (token, shared)) in grants.iter().enumerate() {
            let asked = sample.at(n as u64).ask_for(WHO[n], super::super::sample::KEY, *shared);
            sample = asked.granted_token(WHO[n], *token).let_go(WHO[n]);
        }
        for (n, who) in acts.iter().enumerate() {
            sample = sample.at(10 + n as u64).read(WHO[*who], 1);
        }
        (sample.end(), grants, acts)
    })
}

/// What may happen to a stock of three units.
fn sales() -> impl Strategy<Value = History> {
    let step = (0_usize..9, 0_usize..3, 1_u32..4);
    let books = prop::collection::vec((1_u32..5, 0_usize..3), 0..5);
    let all =
        (prop::collection::vec(step, 0..10), prop::option::of(books), prop::option::of(-1_i64..4));
    all.prop_map(|(steps, books, left)| {
        let mut sample = Sample::new();
        for (n, (what, who, unit)) in steps.into_iter().enumerate() {
            let who = WHO[who];
            let now = sample.at(n as u64);
            sample = match what {
                0 | 1 => now.sell(who, unit),
                2 => now.reserve(who, unit),
                3 => now.cancel(who, unit),
                4 => now.answered(who, OrderAnswer::Accepted),
                5 => now.answered(who, OrderAnswer::Indeterminate),
                6 => now.answered(who, OrderAnswer::Refused),
                7 => now.effect(who, None, StockOperation::Read { left: 0, next_unit: None }, true),
                _ => now.answered(who, OrderAnswer::SoldOut),
            };
        }
        let mut sample = sample.at(100);
        if let Some(books) = books {
            let books: Vec<(u32, &str)> =
                books.iter().map(|(unit, who)| (*unit, WHO[*who])).collect();
            sample = sample.ledger(3, &books);
        }
        if let Some(left) = left {
            sample = sample.counted(3, left);
        }
        sample.end()
    })
}

fn found(judgement: &Judgement, kind: Kind) -> Vec<&Finding> {
    judgement.findings.iter().filter(|finding| finding.kind == kind).collect()
}

/// Every accepted (unit, order), in order, by what the events say.
fn accepted(history: &History) -> Vec<(u32, Name)> {
    let sale = |event: &crate::history::Event| match &event.what {
        What::Effect {
            operation: StockOperation::Sell { unit, order }, accepted: true, ..
        } => Some((*unit, order.clone())),
        _ => None,
    };
    history.iter().filter_map(sale).collect()
}

fn ledger(history: &History) -> Option<Vec<(u32, Name)>> {
    history.iter().find_map(|event| match &event.what {
        What::Ledger { sales, .. } => Some(sales.clone()),
        _ => None,
    })
}

fn counted(history: &History) -> Option<i64> {
    history.iter().find_map(|event| match &event.what {
        What::StockCounted { left, .. } => Some(*left),
        _ => None,
    })
}

fn answers(history: &History, wanted: OrderAnswer) -> BTreeSet<Name> {
    let told = |event: &crate::history::Event| match &event.what {
        What::OrderReturned { order, answer } if *answer == wanted => Some(order.clone()),
        _ => None,
    };
    history.iter().filter_map(told).collect()
}

/// How many may have been sold, by the best that is known.
fn sold(history: &History) -> Option<(usize, usize)> {
    if let Some(books) = ledger(history) {
        // Each unit once at least, each order at most.
        let units = books.iter().map(|(unit, _)| unit).collect::<BTreeSet<_>>().len();
        return Some((units, books.iter().collect::<BTreeSet<_>>().len()));
    }
    let any = history.iter().any(|event| matches!(event.what, What::OrderReturned { .. }));
    if !any {
        let count = accepted(history).into_iter().collect::<BTreeSet<_>>().len();
        return (count > 0).then_some((count, count));
    }
    let yes = answers(history, OrderAnswer::Accepted);
    let maybe = answers(history, OrderAnswer::Indeterminate);
    Some((yes.len(), yes.union(&maybe).count()))
}

/// The refusals that a free unit gives the lie, asked unit by unit and moment by moment.
fn refused_wrongly(history: &History) -> BTreeSet<EventId> {
    let mut wrong = BTreeSet::new();
    for (n, event) in history.iter().enumerate() {
        let refused = matches!(
            event.what,
            What::OrderReturned { answer: OrderAnswer::SoldOut, .. }
                | What::Effect { operation: StockOperation::Read { left: 0, .. }, .. }
        );
        if !refused {
            continue;
        }
        let takes = |event: &crate::history::Event| match &event.what {
            What::Effect { operation, .. } => match operation {
                StockOperation::Sell { unit, .. } => Some((*unit, false)),
                StockOperation::Reserve { unit, .. } => Some((*unit, true)),
                _ => None,
            },
            _ => None,
        };
        let reserved = |unit: u32| {
            history.iter().fold(false, |reserved, event| match &event.what {
                What::Effect { operation: StockOperation::Reserve { unit: u, .. }, .. } => {
                    reserved || *u == unit
                }
                What::Effect { operation: StockOperation::Cancel { unit: u, .. }, .. } => {
                    reserved && *u != unit
                }
                _ => reserved,
            })
        };
        let free = match (ledger(history), counted(history)) {
            (Some(books), _) => (1..=3).any(|unit| {
                let before = history.events[..n].iter().filter_map(takes);
                !before.map(|(unit, _)| unit).any(|taken| taken == unit)
                    && !books.iter().any(|(sold, _)| *sold == unit)
                    && !reserved(unit)
            }),
            (None, Some(left)) => {
                left > 0 && !history.iter().filter_map(takes).any(|(_, reserve)| reserve)
            }
            (None, None) => false,
        };
        if free {
            wrong.insert(event.id);
        }
    }
    wrong
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn sections_against_the_order_of_grants((history, grants, acts) in sections()) {
        let setting = Setting { ordered_tokens: true, ..setting(0) };
        let judgement = judge(&history, &setting);
        prop_assert_eq!(&judgement.failed, &[]);
        // Grant a is older than grant b, and all of a's operations come after all of b's.
        let span = |who: usize| {
            let first = acts.iter().position(|act| *act == who)?;
            Some((first, acts.iter().rposition(|act| *act == who)?))
        };
        let mut older = BTreeSet::new();
        for a in 0..5 {
            for b in a + 1..5 {
                let (Some(one), Some(other)) = (span(a), span(b)) else { continue };
                if other.1 < one.0 && !(grants[a].1 && grants[b].1) {
                    older.insert(WHO[a].to_owned());
                }
            }
        }
        let told: BTreeSet<String> = found(&judgement, Kind::StaleEffect)
            .into_iter().map(|finding| finding.parties[0].owner.clone()).collect();
        prop_assert_eq!(told, older);
        let falls = grants.windows(2).filter(|two| two[1].0 <= two[0].0).count();
        prop_assert_eq!(found(&judgement, Kind::TokenRegression).len(), falls);
        // Without the promise of ordered tokens neither fails anything.
        let loose = judge(&history, &Setting { ordered_tokens: false, ..setting });
        prop_assert!(!loose.found(Kind::StaleEffect) && !loose.has_violation(Kind::TokenRegression));
    }

    #[test]
    fn what_was_sold_and_told(history in sales()) {
        let judgement = judge(&history, &setting(0));
        prop_assert_eq!(&judgement.failed, &[]);
        let books = ledger(&history);

        let oversold: BTreeSet<u32> = found(&judgement, Kind::Oversell).iter()
            .filter_map(|finding| match finding.detail {
                Detail::Oversell { unit, .. } => Some(unit),
                _ => None,
            }).collect();
        let pairs: BTreeSet<(u32, Name)> = books.clone().unwrap_or_default().into_iter().collect();
        let expected: BTreeSet<u32> = pairs.iter().map(|(unit, _)| *unit)
            .filter(|unit| *unit > 3 || pairs.iter().filter(|(u, _)| u == unit).count() > 1)
            .collect();
        prop_assert_eq!(oversold, expected);
        if books.is_none() {
            let over = counted(&history).is_some_and(|left| {
                left < 0 || sold(&history).is_some_and(|(least, _)| least > 3)
            });
            prop_assert_eq!(judgement.found(Kind::Oversell), over);
        }

        let lost: BTreeSet<Name> = found(&judgement, Kind::LostOrder).iter()
            .filter_map(|finding| match &finding.detail {
                Detail::LostOrder { order } => Some(Name::from(&**order)),
                _ => None,
            }).collect();
        let expected: BTreeSet<Name> = match &books {
            Some(books) => answers(&history, OrderAnswer::Accepted).into_iter()
                .filter(|order| !books.iter().any(|(_, has)| has == order)).collect(),
            None => BTreeSet::new(),
        };
        prop_assert_eq!(lost, expected);

        let truth = books.clone().unwrap_or_else(|| accepted(&history));
        let doubled = truth.iter().any(|(unit, order)| {
            truth.iter().any(|(other, same)| same == order && other != unit)
        });
        prop_assert_eq!(judgement.found(Kind::DuplicateOrder), doubled);

        let adds_up = match (counted(&history), sold(&history)) {
            (Some(left), Some((least, most))) => {
                (least as i64..=most as i64).contains(&(3 - left))
            }
            _ => true,
        };
        prop_assert_eq!(judgement.found(Kind::StockNotConserved), !adds_up);

        let refused: BTreeSet<EventId> = found(&judgement, Kind::Undersell).iter()
            .map(|finding| finding.events[0]).collect();
        prop_assert_eq!(refused, refused_wrongly(&history));
    }
}
