//! `token-regression` and `false-reject`: violations of a lock that promises ordered
//! tokens, otherwise advisories.
//!
//! The fence is run again here from what the resource was asked, so that a refusal by
//! the fence can be told from one for want of stock.

use std::collections::BTreeMap;

use super::blame;
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind};
use super::interval::{Interval, Moment};
use crate::history::{EventId, Name, StockOperation, What};
use crate::plan::Fence;

/// Finds `token-regression`: a grant whose token is not larger than that of the grant
/// before it. (One that is not larger than some earlier token follows such a one.)
pub(super) fn regression(case: &Case<'_>) -> Vec<Finding> {
    let rows = case.grants.rows();
    let mut found = Vec::new();
    for of_key in case.grants.by_key().values() {
        let mut newest: Option<(u64, usize)> = None;
        for row in of_key {
            let Some(token) = rows[*row].token() else { continue };
            if let Some((earlier, of)) = newest.filter(|(earlier, _)| token <= *earlier) {
                let grants = [&rows[of], &rows[*row]];
                let interval = Interval::new(grants[0].start(), grants[1].start());
                let detail = Detail::TokenRegression { earlier, later: token };
                let blame = blame::tokens(case, grants[0], grants[1]);
                let kind = Kind::TokenRegression;
                let finding = Finding::new(case.history, kind, &grants, interval, detail);
                found.push(finding.blamed(blame));
            }
            newest = Some((token, *row));
        }
    }
    found.sort_by_key(|finding| finding.to_us);
    found.truncate(MOST_OF_A_KIND);
    found
}

/// What a resource's fence has registered.
struct Registered<'a> {
    token: u64,
    owner: &'a str,
    event: EventId,
    moment: Moment,
    row: usize,
}

/// Finds `false-reject`: the fence refused an operation of the newest holder while
/// its promise lived. (An older holder, promised or not, is rightly refused.)
pub(super) fn false_reject(case: &Case<'_>) -> Vec<Finding> {
    let rows = case.grants.rows();
    let newest = newest_told(case);
    let mut fences: BTreeMap<&Name, Registered<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in case.history.iter() {
        let What::Effect { owner, token, operation, accepted, .. } = &event.what else { continue };
        let is_fenced = match (case.setting.fence, operation) {
            (Fence::Off, _) | (Fence::Write, StockOperation::Read { .. }) => false,
            (Fence::Write, _) | (Fence::Full, _) => true,
        };
        if !is_fenced {
            continue;
        }
        let moment = Moment::of(event);
        let registered = fences.get(&event.node);
        let passes = token.is_some_and(|token| {
            registered.is_none_or(|registered| {
                token > registered.token
                    || (token == registered.token && **owner == *registered.owner)
            })
        });
        let Some(row) = case.grants.of_act(event.id) else { continue };
        if let (Some(token), true) = (*token, passes) {
            fences.insert(&event.node, Registered { token, owner, event: event.id, moment, row });
            continue;
        }
        let Some(registered) = registered else { continue };
        let grant = &rows[row];
        let is_newest = newest(&grant.key, moment).is_some_and(|newest| newest == row);
        if *accepted || !is_newest || !grant.is_promised(moment) {
            continue;
        }
        let interval = Interval::new(registered.moment, moment);
        let detail = Detail::FalseReject { shown: *token, registered: registered.token };
        let blame = blame::tokens(case, &rows[registered.row], grant);
        let finding = Finding::new(case.history, Kind::FalseReject, &[grant], interval, detail);
        found.push(finding.proved_by([registered.event, event.id]).blamed(blame));
        if found.len() == MOST_OF_A_KIND {
            break;
        }
    }
    found
}

/// The newest grant of a lock, that anybody was told of, begun by a moment.
fn newest_told<'a>(case: &'a Case<'_>) -> impl Fn(&str, Moment) -> Option<usize> + use<'a> {
    let rows = case.grants.rows();
    let mut told = case.grants.by_key();
    told.values_mut().for_each(|of_key| of_key.retain(|row| rows[*row].is_told()));
    move |key, moment| {
        let of_key = told.get(key)?;
        let begun = of_key.partition_point(|row| rows[*row].start() <= moment);
        of_key.get(begun.checked_sub(1)?).copied()
    }
}
