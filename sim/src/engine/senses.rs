//! What third-party code on a simulated node senses of time and chance when it asks the
//! C library instead of the host: the node's clocks, and draws keyed by the node.
//!
//! This crate does not replace the C library's functions. A program that wants them
//! replaced links the crate `lockstorm-interpose` and hands it the three functions here
//! ([`monotonic_ns`], [`wall_ns`], [`entropy`]). They answer on the thread of a run only;
//! everywhere else the real clock and real entropy go on, so watchdogs, benchmarks and
//! real sockets of the same program keep working.
//!
//! They never wait for a lock: third-party code may ask while one of ours is held. Then
//! the clock answers with true simulated time, which is the same in every run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::WALL_ORIGIN_US;
use super::world::{NodeId, World};
use crate::draw::Draw;
use crate::history::Name;

/// Where monotonic clocks begin, ns: not at zero, because programs subtract from them.
const MONOTONIC_ORIGIN_NS: u64 = 1_000_000_000_000;

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
    /// Packed: it is set at every poll, and one word is quicker than its parts.
    static PROGRAM: Cell<u64> = const { Cell::new(NOBODY) };
}

/// A node and the incarnation of its program.
pub type Program = (NodeId, u32);

const NOBODY: u64 = 0;

fn pack(program: Option<Program>) -> u64 {
    program.map_or(NOBODY, |(node, incarnation)| {
        (u64::from(node.0) + 1) << 32 | u64::from(incarnation)
    })
}

fn unpack(packed: u64) -> Option<Program> {
    let node = (packed >> 32).checked_sub(1)?;
    Some((NodeId(node as u16), packed as u32))
}

/// The run of this thread.
struct Run {
    world: Arc<World>,
    names: Vec<Name>,
    draws: BTreeMap<Option<NodeId>, Draw>,
    /// Whether its engine answers by itself what libraries ask the C library.
    is_answered: bool,
}

/// Ends the run of this thread when dropped, if it began it.
#[derive(Debug)]
pub struct Entered {
    /// If it began the run: the state of fastrand's generator before.
    began: Option<u64>,
}

/// A run begins on this thread, unless it has begun already. Do this before anything else
/// on the thread: the standard library draws the keys of a thread's hash maps once, and
/// tokio's clock begins with a reading of the C library's when its runtime is built.
pub fn enter(world: &Arc<World>) -> Entered {
    let is_known =
        RUN.with(|place| place.borrow().as_ref().is_some_and(|run| Arc::ptr_eq(&run.world, world)));
    if is_known {
        return Entered { began: None };
    }
    let names = (0..world.len()).map(|index| world.name(NodeId(index as u16))).collect();
    // fastrand's generator of a thread begins with the thread's number, which is another in
    // each run of a process and asks nobody. It is one for all nodes of the run.
    let before = fastrand::get_seed();
    fastrand::seed(Draw::new(world.seed(), "fastrand", "").bits());
    let run = Run { world: world.clone(), names, draws: BTreeMap::new(), is_answered: false };
    RUN.with(|place| *place.borrow_mut() = Some(run));
    Entered { began: Some(before) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(before) = self.began else { return };
        fastrand::seed(before);
        // On a thread that is being torn down there is nothing to end.
        let _ = RUN.try_with(|place| place.borrow_mut().take());
        let _ = PROGRAM.try_with(|program| program.set(NOBODY));
    }
}

/// The engine of this thread's run answers by itself what libraries ask the C library; for
/// such engines, after [`enter`].
pub fn answered_by_engine() {
    RUN.with(|place| {
        if let Some(run) = place.borrow_mut().as_mut() {
            run.is_answered = true;
        }
    });
}

/// Whether the engine of this thread's run answers by itself what libraries ask the C library.
pub fn are_answered() -> bool {
    RUN.with(|place| place.borrow().as_ref().is_some_and(|run| run.is_answered))
}

/// Does `work` as a part of this program.
pub fn of_program<R>(program: Program, work: impl FnOnce() -> R) -> R {
    let before = PROGRAM.with(|place| place.replace(pack(Some(program))));
    let _restore = Restore(before);
    work()
}

/// Does `work` as nobody's program.
pub(super) fn of_nobody<R>(work: impl FnOnce() -> R) -> R {
    let before = PROGRAM.with(|place| place.replace(NOBODY));
    let _restore = Restore(before);
    work()
}

/// The program that runs on this thread now.
pub(super) fn program() -> Option<Program> {
    unpack(PROGRAM.try_with(Cell::get).unwrap_or(NOBODY))
}

/// Names the program that runs on this thread from now on.
#[cfg(tokio_unstable)]
pub(super) fn set_program(program: Option<Program>) {
    PROGRAM.with(|place| place.set(pack(program)));
}

/// The node whose program runs on this thread now.
fn node() -> Option<NodeId> {
    program().map(|(node, _)| node)
}

/// Names the program of before when dropped, packed.
struct Restore(u64);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = PROGRAM.try_with(|place| place.set(self.0));
    }
}

/// The run of this thread and the node whose program runs; `None` where there is none.
/// Nothing stays borrowed: what is asked of the world may come back here.
fn run() -> Option<(Arc<World>, Option<NodeId>)> {
    let world = RUN.try_with(|place| Some(place.try_borrow().ok()?.as_ref()?.world.clone()));
    Some((world.ok().flatten()?, node()))
}

/// The monotonic clock of whoever runs on this thread, ns; `None` outside a run.
pub fn monotonic_ns() -> Option<u64> {
    let (world, node) = run()?;
    let reading = node.and_then(|node| world.try_monotonic_us(node));
    let us = reading.unwrap_or_else(|| world.now_us());
    Some(MONOTONIC_ORIGIN_NS + us * 1_000)
}

/// The wall clock of whoever runs on this thread, ns since the Unix epoch; `None` outside
/// a run. A wall clock before the epoch reads as the epoch.
pub fn wall_ns() -> Option<u64> {
    let (world, node) = run()?;
    let reading = node.and_then(|node| world.try_wall_us(node));
    let us = reading.unwrap_or_else(|| WALL_ORIGIN_US.saturating_add_unsigned(world.now_us()));
    Some(u64::try_from(us).unwrap_or(0).saturating_mul(1_000))
}

/// Fills `bytes` with draws of whoever runs on this thread; false outside a run.
pub fn entropy(bytes: &mut [u8]) -> bool {
    let filled = RUN.try_with(|place| {
        let mut place = place.try_borrow_mut().ok()?;
        let run = place.as_mut()?;
        let node = node();
        let name: &str = node.and_then(|node| run.names.get(node.index())).map_or("", |name| name);
        let seed = run.world.seed();
        let draw = run.draws.entry(node).or_insert_with(|| Draw::new(seed, "entropy", name));
        for chunk in bytes.chunks_mut(8) {
            let drawn = draw.bits().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        Some(())
    });
    filled.ok().flatten().is_some()
}

/// Whether third-party code of this process is given them: it is where an interposer is
/// installed. Asked on a thread of its own, which is a run's for that moment.
pub fn reach_libraries() -> bool {
    #[expect(clippy::disallowed_methods, reason = "whose answer it is, is the question")]
    let ask = || {
        let _entered = enter(&World::new(0, []));
        let told = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        told.is_ok_and(|told| Some(told.as_nanos()) == wall_ns().map(u128::from))
    };
    std::thread::spawn(ask).join().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::clock::ClockChange;

    fn world() -> Arc<World> {
        World::new(7, ["app-1", "app-2"].map(Into::into))
    }

    #[test]
    fn outside_a_run_there_is_nothing_to_sense() {
        assert_eq!((monotonic_ns(), wall_ns()), (None, None));
        assert!(!entropy(&mut [0; 8]));
        let _entered = enter(&world());
        assert!(monotonic_ns().is_some());
        let elsewhere = std::thread::spawn(monotonic_ns).join().unwrap();
        assert_eq!(elsewhere, None, "another thread is no part of the run");
    }

    #[test]
    fn a_node_senses_its_own_clocks() {
        let world = world();
        let _entered = enter(&world);
        world.set_now_us(5_000_000);
        world.change_clock(NodeId(1), ClockChange::Step { by_us: 250_000 });
        let wall_us = |node| of_program((node, 1), wall_ns).unwrap() / 1_000;
        let origin_us = WALL_ORIGIN_US.unsigned_abs();
        assert_eq!(wall_us(NodeId(0)), origin_us + 5_000_000);
        assert_eq!(wall_us(NodeId(1)), origin_us + 5_250_000);
        assert_eq!(
            of_program((NodeId(1), 1), monotonic_ns).unwrap(),
            MONOTONIC_ORIGIN_NS + 5_000_000_000
        );
        assert_eq!(node(), None);
    }

    #[test]
    fn draws_of_one_node_do_not_move_those_of_another() {
        let drawn = |before: usize| {
            let _entered = enter(&world());
            let mut bytes = [0; 12];
            for _ in 0..before {
                assert!(of_program((NodeId(0), 1), || entropy(&mut [0; 3])));
            }
            assert!(of_program((NodeId(1), 1), || entropy(&mut bytes)));
            bytes
        };
        assert_eq!(drawn(0), drawn(5));
        assert_ne!(drawn(0), [0; 12]);
    }

    #[test]
    fn the_generator_of_a_thread_is_seeded_by_the_run() {
        let drawn = || {
            let _entered = enter(&world());
            fastrand::u64(..)
        };
        let (here, there) = (drawn(), std::thread::spawn(drawn).join().unwrap());
        assert_eq!(here, there);
        assert_ne!(fastrand::u64(..), drawn(), "after a run it goes on as before");
    }

    #[test]
    fn programs_are_what_they_were_after_packing() {
        for program in [(NodeId(0), 0), (NodeId(0), 1), (NodeId(u16::MAX), u32::MAX)] {
            assert_eq!(unpack(pack(Some(program))), Some(program));
        }
        assert_eq!(unpack(pack(None)), None);
    }
}
