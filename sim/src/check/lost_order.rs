//! `lost-order`: a buyer was told "accepted", and the books do not have the order once
//! everything is quiet. An order without an answer may be in the books or not.

use std::collections::BTreeSet;

use super::blame;
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind};
use super::interval::{Interval, Moment};
use crate::history::OrderAnswer;

/// Finds `lost-order`.
pub(super) fn lost_order(case: &Case<'_>) -> Vec<Finding> {
    let books = case.books();
    let Some((read, _, sales)) = books.ledger else { return Vec::new() };
    let has: BTreeSet<&str> = sales.iter().map(|(_, order)| &**order).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (answer, order, given) in &books.answers {
        let is_lost = *given == OrderAnswer::Accepted && !has.contains(order);
        if !is_lost || !seen.insert(*order) {
            continue;
        }
        let sale = case.sales().iter().find(|((_, of), _)| of == order).map(|(_, sale)| sale.event);
        let interval = Interval::new(Moment::of(answer), Moment::of(read));
        let detail = Detail::LostOrder { order: (*order).to_owned() };
        let sold = sale.and_then(|sale| case.history.get(sale)).unwrap_or(answer);
        let since = Interval::new(Moment::of(sold), Moment::of(read));
        let finding = Finding::new(case.history, Kind::LostOrder, &[], interval, detail);
        let finding = finding.blamed(blame::lost_commit(case, since));
        found.push(finding.proved_by([answer.id, read.id].into_iter().chain(sale)));
        if found.len() == MOST_OF_A_KIND {
            break;
        }
    }
    found
}
