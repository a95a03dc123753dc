//! `stock-not-conserved`: what is left, what is reserved and what was sold are not what
//! there was. Judged where the stock keeps a counter beside the books; without books
//! the answers that buyers got bound what was sold.

use super::blame;
use super::case::Case;
use super::detail::Detail;
use super::finding::{Finding, Kind};
use super::interval::{Interval, Moment};

/// Finds `stock-not-conserved`.
pub(super) fn not_conserved(case: &Case<'_>) -> Vec<Finding> {
    let books = case.books();
    let Some((count, units, left, reserved)) = books.count else { return Vec::new() };
    if !books.tell_of_sales(case) {
        return Vec::new();
    }
    let (sold_at_least, sold_at_most) = books.sold(case);
    let gone = i128::from(units) - i128::from(left) - i128::from(reserved);
    if (i128::from(sold_at_least)..=i128::from(sold_at_most)).contains(&gone) {
        return Vec::new();
    }
    let read = books.ledger.map(|(event, ..)| event.id);
    let at = Moment::of(count);
    let detail = Detail::StockNotConserved { units, left, reserved, sold_at_least, sold_at_most };
    let interval = Interval::new(at, at);
    let finding = Finding::new(case.history, Kind::StockNotConserved, &[], interval, detail)
        .proved_by([count.id].into_iter().chain(read))
        .blamed(blame::first_together(case, at));
    vec![finding]
}
