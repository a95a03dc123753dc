//! What is to be thought of a sale: a pure function of what happened, what buyers were told and
//! what the books say in the end.
//!
//! | kind | what is wrong |
//! |---|---|
//! | `oversell` | more orders have a unit than there are units |
//! | `undersell` | buyers were told that all is sold, and units are not |
//! | `two-of-one` | a buyer has two units |
//! | `lost-order` | a buyer was told that it is ordered, or paid for, and the books do not say so |
//! | `duplicate-order` | the books have an order twice |
//! | `stock-not-conserved` | free units and units with an order are not what there was |
//! | `shelf-astray` | shelf and books differ in the end, though the one follows the other |

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::sale::orders::State;

use super::facts::{Facts, Told, Truth};
use super::{Part, SaleStorm};
use crate::check::Verdict;
use crate::history::{History, What};

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// More orders have a unit than there are.
    Oversell {
        /// How many more.
        by: u64,
    },
    /// Units are left over, though buyers were told that all is sold.
    Undersell {
        /// How many.
        by: u64,
    },
    /// A buyer has several units.
    TwoOfOne {
        /// Who.
        buyer: String,
        /// How many.
        units: u64,
    },
    /// What a buyer was told of an order is not so.
    LostOrder {
        /// The order.
        order: String,
        /// What its buyer was told.
        told: &'static str,
        /// What the books say; `None`: they do not know it.
        state: Option<State>,
    },
    /// The books have an order more than once.
    DuplicateOrder {
        /// The order.
        order: String,
    },
    /// Free units and units with an order are not what there was.
    NotConserved {
        /// Units at the start.
        units: u32,
        /// Free in the end.
        free: i64,
        /// With an order.
        ordered: u64,
    },
    /// Shelf and books differ in the end.
    ShelfAstray {
        /// In so many things.
        differences: usize,
    },
}

impl Broken {
    /// Its stable name.
    pub fn kind(&self) -> &'static str {
        match self {
            Broken::Oversell { .. } => "oversell",
            Broken::Undersell { .. } => "undersell",
            Broken::TwoOfOne { .. } => "two-of-one",
            Broken::LostOrder { .. } => "lost-order",
            Broken::DuplicateOrder { .. } => "duplicate-order",
            Broken::NotConserved { .. } => "stock-not-conserved",
            Broken::ShelfAstray { .. } => "shelf-astray",
        }
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Oversell { by } => write!(formatter, "{by} more sold than there were"),
            Broken::Undersell { by } => {
                write!(formatter, "{by} not sold, though buyers were told that all is sold")
            }
            Broken::TwoOfOne { buyer, units } => write!(formatter, "{buyer} has {units} units"),
            Broken::LostOrder { order, told, state } => {
                let state = state.map_or("do not know it", State::name);
                write!(
                    formatter,
                    "{order}: its buyer was told that it is {told}; the books: {state}"
                )
            }
            Broken::DuplicateOrder { order } => {
                write!(formatter, "the books have the order {order} more than once")
            }
            Broken::NotConserved { units, free, ordered } => {
                write!(formatter, "of {units} units {free} are free and {ordered} have an order")
            }
            Broken::ShelfAstray { differences } => {
                write!(formatter, "shelf and books differ in {differences} things")
            }
        }
    }
}

/// What is to be thought of a sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// What is wrong.
    pub broken: Vec<Broken>,
    /// Why nothing can be said, if so.
    pub unknown: Option<&'static str>,
    /// How many units are sold and paid for.
    pub sold: u64,
}

impl Judged {
    /// Of a sale that was not run.
    pub fn of_none(verdict: Verdict) -> Judged {
        Judged { verdict, broken: Vec::new(), unknown: None, sold: 0 }
    }

    /// The kinds of what is wrong.
    pub fn kinds(&self) -> BTreeSet<&'static str> {
        self.broken.iter().map(Broken::kind).collect()
    }
}

/// Judges a sale.
pub fn judge(storm: &SaleStorm, history: &History, facts: &Facts) -> Judged {
    let Some(truth) = facts.truth() else {
        let unknown = Some("nobody could read the books");
        return Judged { unknown, ..Judged::of_none(Verdict::Unknown) };
    };
    let mut broken = in_the_books(&truth);
    broken.extend(untrue(facts, &truth));
    let told = facts.told();
    let was_refused = told.iter().any(|(.., told)| *told == Told::SoldOut);
    let sold = truth.in_state(State::Paid);
    let missing = u64::from(truth.units).saturating_sub(sold);
    if was_refused && missing > 0 {
        broken.push(Broken::Undersell { by: missing });
    }
    let is_following = storm.setup.has(Part::Reconciliation);
    let differences = facts.differences();
    if let Some(count) = differences.as_ref().map(Vec::len).filter(|count| *count > 0)
        && is_following
    {
        broken.push(Broken::ShelfAstray { differences: count });
    }
    broken.sort();
    let unknown = match () {
        () if told.iter().all(|(.., told)| *told != Told::Paid) => Some("nobody has bought"),
        () if !was_refused => Some("nobody was turned away: there was no sale to speak of"),
        () if differences.is_none() && is_following => Some("the shelf could not be audited"),
        () => None,
    };
    let touched = |event: &crate::history::Event| matches!(event.what, What::FaultTouched { .. });
    let is_inert = !storm.plan.faults.is_empty() && !history.iter().any(touched);
    let verdict = match () {
        () if !broken.is_empty() => Verdict::Violation,
        () if unknown.is_some() => Verdict::Unknown,
        () if is_inert => Verdict::Inert,
        () => Verdict::Safe,
    };
    Judged { verdict, broken, unknown, sold }
}

/// What is wrong with the books by themselves.
fn in_the_books(truth: &Truth) -> Vec<Broken> {
    let mut broken = Vec::new();
    let ordered = truth.with_unit();
    if let Some(by) = ordered.checked_sub(u64::from(truth.units)).filter(|by| *by > 0) {
        broken.push(Broken::Oversell { by });
    }
    if i128::from(truth.free) + i128::from(ordered) != i128::from(truth.units) {
        let (units, free) = (truth.units, truth.free);
        broken.push(Broken::NotConserved { units, free, ordered });
    }
    let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
    let mut units_of: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &truth.orders {
        *rows.entry(&row.order).or_default() += 1;
        *units_of.entry(&row.buyer).or_default() += u64::from(row.state.has_unit());
    }
    let twice = rows.into_iter().filter(|(_, rows)| *rows > 1);
    broken.extend(twice.map(|(order, _)| Broken::DuplicateOrder { order: order.to_owned() }));
    let several = units_of.into_iter().filter(|(_, units)| *units > 1);
    let of_one = |(buyer, units): (&str, u64)| Broken::TwoOfOne { buyer: buyer.to_owned(), units };
    broken.extend(several.map(of_one));
    broken
}

/// What buyers were told that is not so. Whoever was told that it is ordered had time to pay,
/// and the order may have lapsed since.
fn untrue(facts: &Facts, truth: &Truth) -> Vec<Broken> {
    let states: BTreeMap<&str, State> =
        truth.orders.iter().map(|row| (row.order.as_str(), row.state)).collect();
    let mut broken: BTreeMap<String, Broken> = BTreeMap::new();
    for (_, _, order, told) in facts.told() {
        let state = states.get(order.as_str()).copied();
        let (told, is_so) = match told {
            Told::Ordered => ("ordered", state.is_some_and(|state| state != State::Refused)),
            Told::Paid => ("paid for", state == Some(State::Paid)),
            Told::SoldOut | Told::TooLate => continue,
        };
        if !is_so {
            let order = order.to_string();
            broken.insert(order.clone(), Broken::LostOrder { order, told, state });
        }
    }
    broken.into_values().collect()
}

#[cfg(test)]
mod tests {
    use lockstorm::sale::reconcile::Difference;
    use lockstorm::sale::{Buyer, OrderName};

    use super::*;
    use crate::plan::Seed;
    use crate::sale::Setup;
    use crate::sale::facts::Row;

    /// Two units, ordered by these; and what buyers were told.
    fn judged(free: i64, rows: &[(&str, State)], told: &[(&str, Told)]) -> Judged {
        let facts = Facts::default();
        let row = |(order, state): &(&str, State)| {
            let buyer = order.split('-').next().unwrap_or_default().to_owned();
            Row { order: (*order).to_owned(), buyer, state: *state }
        };
        let orders = rows.iter().map(row).collect();
        facts.conclude(Truth { units: 2, free, orders });
        for (order, told) in told {
            let buyer = Buyer::new("b").unwrap();
            facts.tell(0, &buyer, &OrderName::new(*order).unwrap(), *told);
        }
        facts.audited(Vec::new());
        judge(&SaleStorm::calm(Setup::default(), Seed(0)), &History::default(), &facts)
    }

    fn kinds(judged: &Judged) -> Vec<&'static str> {
        judged.kinds().into_iter().collect()
    }

    const SOLD: [(&str, Told); 3] =
        [("a-1", Told::Paid), ("b-1", Told::Paid), ("c-1", Told::SoldOut)];

    #[test]
    fn a_sale_that_sold_what_there_was_is_safe() {
        let judged = judged(0, &[("a-1", State::Paid), ("b-1", State::Paid)], &SOLD);
        assert_eq!((judged.verdict, judged.sold), (Verdict::Safe, 2), "{judged:?}");
    }

    #[test]
    fn each_kind_of_wrong_is_found_alone() {
        use State::{Lapsed, Paid, Refused, Unpaid};
        let sold = [("a-1", Paid), ("b-1", Paid)];
        let all = |more: &[(&'static str, State)]| [&sold[..], more].concat();
        for (kind, free, rows, told) in [
            ("oversell", -1, all(&[("d-1", Unpaid)]), SOLD.to_vec()),
            ("stock-not-conserved", 1, sold.to_vec(), SOLD.to_vec()),
            ("undersell", 1, vec![("a-1", Paid), ("c-1", Refused)], SOLD[..1].to_vec()),
            ("two-of-one", 0, vec![("a-1", Paid), ("a-2", Paid)], SOLD[..1].to_vec()),
            ("duplicate-order", 0, all(&[("c-1", Refused), ("c-1", Lapsed)]), SOLD.to_vec()),
            (
                "lost-order",
                0,
                all(&[("d-1", Lapsed)]),
                [&SOLD[..], &[("d-1", Told::Paid)]].concat(),
            ),
            ("lost-order", 0, sold.to_vec(), [&SOLD[..], &[("d-1", Told::Ordered)]].concat()),
        ] {
            let told = [&told[..], &[("c-1", Told::SoldOut)]].concat();
            let judged = judged(free, &rows, &told);
            assert_eq!((kinds(&judged), judged.verdict), (vec![kind], Verdict::Violation));
        }
    }

    #[test]
    fn what_may_be_is_not_wrong() {
        use State::{Lapsed, Paid};
        // An order may lapse after its buyer was told that it is ordered.
        let rows = [("a-1", Paid), ("b-1", Paid), ("d-1", Lapsed)];
        let told = [&SOLD[..], &[("d-1", Told::Ordered), ("d-1", Told::TooLate)]].concat();
        assert_eq!(judged(0, &rows, &told).verdict, Verdict::Safe);
        // Units may be left over where nobody was turned away: but then nothing can be said.
        let judged = judged(1, &[("a-1", Paid)], &[("a-1", Told::Paid)]);
        assert_eq!((judged.verdict, kinds(&judged)), (Verdict::Unknown, vec![]));
    }

    #[test]
    fn without_books_or_an_audit_nothing_can_be_said() {
        let storm = SaleStorm::calm(Setup::default(), Seed(0));
        let facts = Facts::default();
        let judge = |facts: &Facts| judge(&storm, &History::default(), facts);
        assert_eq!(judge(&facts).unknown, Some("nobody could read the books"));
        let row = |order: &str| Row {
            order: order.to_owned(),
            buyer: order.to_owned(),
            state: State::Paid,
        };
        facts.conclude(Truth { units: 1, free: 0, orders: vec![row("a")] });
        assert_eq!(judge(&facts).unknown, Some("nobody has bought"));
        let buyer = Buyer::new("a").unwrap();
        for (order, told) in [("a", Told::Paid), ("b", Told::SoldOut)] {
            facts.tell(0, &buyer, &OrderName::new(order).unwrap(), told);
        }
        assert_eq!(judge(&facts).unknown, Some("the shelf could not be audited"));
        facts.audited(vec![Difference::Shelf { left: None, should_be: 0 }]);
        assert_eq!(kinds(&judge(&facts)), ["shelf-astray"]);
    }
}
