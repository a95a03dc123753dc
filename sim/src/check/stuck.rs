//! `stuck-waiter`: after the healing somebody waits for longer than the bound, though
//! nothing is in the way (nobody holds the lock, no record is there: it was not woken),
//! or its holder is caught in a circle of waiters (who waits for whom is told).
//!
//! Waiting for a holder that works is no fault of the lock, and waiting while others
//! are served is `unfair`, where the lock declares a bound.

use super::blame::{Blame, Parted};
use super::case::{Case, MOST_OF_A_KIND};
use super::deadlock::{chains, told};
use super::detail::{Detail, Waiting};
use super::finding::{Finding, Kind};
use super::leak::closed;
use super::unfair::party;
use super::waits::Wait;

/// Finds `stuck-waiter`.
pub(super) fn stuck(case: &Case<'_>) -> Vec<Finding> {
    let Some(bound_us) = case.setting.takeover_bound_us else { return Vec::new() };
    let mut found = Vec::new();
    for closed in closed(case).into_iter().filter(|closed| closed.is_stuck()) {
        let Some(wait) = closed.wait.map(|n| &case.waits[n]) else { continue };
        let owner = wait.who.to_string();
        let chain = vec![Waiting { owner, key: closed.key.to_owned(), held_by: None }];
        let blame = Blame { parted: Parted::NotWoken, ..Blame::default() };
        let detail = Detail::StuckWaiter { bound_us, chain };
        found.push(tell(case, wait, detail, blame).proved_by(closed.events));
    }
    for chain in chains(case).into_iter().filter(|chain| chain.circle > 0) {
        let wait = &case.waits[chain.links[0].wait];
        let rows = case.grants.rows();
        let holders = chain.links.iter().flat_map(|link| rows[link.holder].evidence());
        let owners = chain.links.iter().map(|link| rows[link.holder].owner.to_string()).collect();
        let blame = Blame { parted: Parted::CircularWait, owners, ..Blame::default() };
        let detail = Detail::StuckWaiter { bound_us, chain: told(case, &chain.links) };
        found.push(tell(case, wait, detail, blame).proved_by(holders));
        if found.len() == MOST_OF_A_KIND {
            break;
        }
    }
    found.sort_by_key(|finding| finding.from_us);
    found.truncate(MOST_OF_A_KIND);
    found
}

fn tell(case: &Case<'_>, wait: &Wait<'_>, detail: Detail, blame: Blame) -> Finding {
    let mut finding = Finding::new(case.history, Kind::StuckWaiter, &[], wait.span, detail)
        .proved_by([wait.event])
        .blamed(blame);
    finding.parties = vec![party(wait)];
    wait.key.clone_into(&mut finding.key);
    finding
}
