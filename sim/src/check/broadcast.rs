//! `broadcast-broken`: the servers of an ensemble broke what their broadcast promises. It is
//! noticed while they run, where the bytes of their transactions are, and told here.

use super::blame::{Blame, Parted};
use super::case::{Case, MOST_OF_A_KIND};
use super::detail::Detail;
use super::finding::{Finding, Kind};
use super::interval::{Interval, Moment};
use crate::history::What;

/// Finds each break that was noticed.
pub(super) fn broken(case: &Case<'_>) -> Vec<Finding> {
    let breaks = case.history.iter().filter_map(|event| match &event.what {
        What::BroadcastBroken { how } => Some((event, how)),
        _ => None,
    });
    let found = breaks.take(MOST_OF_A_KIND).map(|(event, how)| {
        let moment = Moment::of(event);
        let detail = Detail::BroadcastBroken { node: event.node.clone(), how: how.clone() };
        let interval = Interval::new(moment, moment);
        let finding = Finding::new(case.history, Kind::BroadcastBroken, &[], interval, detail);
        let blame = Blame { parted: Parted::ServersDisagree, ..Blame::default() };
        finding.blamed(blame).proved_by([event.id])
    });
    found.collect()
}
