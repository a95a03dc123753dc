//! Finding circles of sessions that wait for each other.
//!
//! After PostgreSQL's detector: a session that has waited for long enough looks from
//! itself along the edges. A holder is a hard edge; one who waits before another in a
//! queue is a soft edge, which another order of the queue takes away. If no order helps,
//! whoever looks is the victim.

use std::collections::BTreeMap;

use super::{Locks, Mode, Tag, Waiter, conflicts};
use crate::transaction::Pid;

/// One step of a circle: who waits, for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) pid: Pid,
    pub(crate) tag: Tag,
    pub(crate) mode: Mode,
    pub(crate) blocker: Pid,
}

/// `waiter` is to stand before `blocker` in the queue of `tag`, and does not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Soft {
    waiter: Pid,
    blocker: Pid,
    tag: Tag,
}

/// What looking at an order of the queues gave.
enum Found {
    Nothing,
    Hard,
    Soft(Vec<Soft>),
}

/// More constraints than these are not tried: each doubles the work.
const MOST_CONSTRAINTS: usize = 16;

struct Search<'a> {
    locks: &'a Locks,
    constraints: Vec<Soft>,
    orders: BTreeMap<Tag, Vec<Pid>>,
    circle: Vec<Step>,
    tries: usize,
}

impl Locks {
    /// The circle that `pid` waits in, if it cannot be opened by another order of the
    /// queues; one that can is opened.
    pub(crate) fn deadlock(&mut self, pid: Pid) -> Option<Vec<Step>> {
        let mut search = Search {
            locks: self,
            constraints: Vec::new(),
            orders: BTreeMap::new(),
            circle: Vec::new(),
            tries: 0,
        };
        if search.is_deadlock(pid) {
            return Some(search.circle);
        }
        let orders = std::mem::take(&mut search.orders);
        for (tag, order) in orders {
            if let Some(lock) = self.locks.get_mut(&tag) {
                let place = |waiter: &Waiter| order.iter().position(|pid| *pid == waiter.pid);
                lock.queue.sort_by_key(place);
            }
            self.wake(tag);
        }
        None
    }
}

impl Search<'_> {
    fn is_deadlock(&mut self, pid: Pid) -> bool {
        self.tries += 1;
        match self.test(pid) {
            Found::Hard => true,
            Found::Nothing => false,
            Found::Soft(_) if self.constraints.len() >= MOST_CONSTRAINTS || self.tries > 1_000 => {
                true
            }
            Found::Soft(edges) => {
                for edge in edges {
                    self.constraints.push(edge);
                    if !self.is_deadlock(pid) {
                        return false;
                    }
                    self.constraints.pop();
                }
                true
            }
        }
    }

    /// Whether the queues, in the order that the constraints ask for, have a circle.
    fn test(&mut self, pid: Pid) -> Found {
        let Some(orders) = self.expand() else { return Found::Hard };
        self.orders = orders;
        let mut soft_edges = Vec::new();
        let mut starts: Vec<Pid> =
            self.constraints.iter().flat_map(|one| [one.waiter, one.blocker]).collect();
        starts.push(pid);
        for start in starts {
            let (mut visited, mut path, mut soft) = (Vec::new(), Vec::new(), Vec::new());
            if self.walk(start, &mut visited, &mut path, &mut soft) {
                self.circle = path;
                if soft.is_empty() {
                    return Found::Hard;
                }
                soft_edges = soft;
            }
        }
        if soft_edges.is_empty() { Found::Nothing } else { Found::Soft(soft_edges) }
    }

    /// The queues with the constraints kept; `None` if they contradict each other.
    fn expand(&self) -> Option<BTreeMap<Tag, Vec<Pid>>> {
        let mut orders = BTreeMap::new();
        for constraint in &self.constraints {
            if orders.contains_key(&constraint.tag) {
                continue;
            }
            let queue = &self.locks.locks.get(&constraint.tag)?.queue;
            let mut left: Vec<Pid> = queue.iter().map(|waiter| waiter.pid).collect();
            let mut order = Vec::new();
            // From the back: the last one that need stand before nobody who is left.
            while !left.is_empty() {
                let last = left.iter().rposition(|pid| {
                    !self.constraints.iter().any(|one| {
                        one.tag == constraint.tag
                            && one.waiter == *pid
                            && left.contains(&one.blocker)
                    })
                })?;
                order.push(left.remove(last));
            }
            order.reverse();
            orders.insert(constraint.tag, order);
        }
        Some(orders)
    }

    /// True: a circle leads back to where the walk began; `path` is it.
    fn walk(
        &self,
        pid: Pid,
        visited: &mut Vec<Pid>,
        path: &mut Vec<Step>,
        soft: &mut Vec<Soft>,
    ) -> bool {
        if let Some(at) = visited.iter().position(|known| *known == pid) {
            return at == 0;
        }
        visited.push(pid);
        let Some((tag, mode)) = self.locks.waiting_for(pid) else { return false };
        let Some(lock) = self.locks.locks.get(&tag) else { return false };
        let excluded = conflicts(mode);
        for (holder, mask) in &lock.granted {
            if *holder != pid && excluded & mask != 0 && self.walk(*holder, visited, path, soft) {
                path.insert(0, Step { pid, tag, mode, blocker: *holder });
                return true;
            }
        }
        let modes: BTreeMap<Pid, Mode> =
            lock.queue.iter().map(|waiter| (waiter.pid, waiter.mode)).collect();
        let natural: Vec<Pid> = lock.queue.iter().map(|waiter| waiter.pid).collect();
        let order = self.orders.get(&tag).unwrap_or(&natural);
        for before in order.iter().take_while(|other| **other != pid) {
            let is_in_way = modes.get(before).is_some_and(|other| excluded & (1 << other) != 0);
            if is_in_way && self.walk(*before, visited, path, soft) {
                path.insert(0, Step { pid, tag, mode, blocker: *before });
                soft.push(Soft { waiter: pid, blocker: *before, tag });
                return true;
            }
        }
        false
    }
}
