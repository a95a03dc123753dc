//! Engines: what carries a storm.
//!
//! An engine supplies a network, timers, crash and restart of nodes. Everything
//! that must be the same on all of them lives once, beside them: pauses, node
//! clocks, incarnations and keyed draws in [`world`], the [`Host`] of a
//! simulated node in [`machine`], clocks in [`clock`], the kernels' settings in
//! [`Kernel`], what faults did in [`touch`], whose turn it is in [`turns`], where tasks run in [`tasks`], what third-party
//! code senses in [`senses`], what messages say to people in [`messages`], whether its I/O crates are ours in [`shims`],
//! where a run stands still to be looked at in [`standstill`].
//!
//! A fault that an engine cannot express is declared ([`Engine::cannot_express`]),
//! never silently left out.

pub mod clock;
pub mod current;
pub mod event;
mod kernel;
pub mod machine;
pub mod messages;
pub mod scoped;
pub mod senses;
pub mod shims;
pub mod standstill;
pub mod tasks;
pub mod touch;
pub mod turmoil;
pub mod turns;
pub mod world;

pub use kernel::Kernel;

use std::sync::Arc;

use lockstorm::Host;
use lockstorm::host::BoxFuture;

use crate::history::Recorder;
use crate::plan::Plan;
use clock::ClockChange;
use world::{NodeId, World};

/// Starts a node's program on its machine. Called at the start and again at each
/// restart, each time with a new incarnation's host.
pub type Factory = Arc<dyn Fn(Host) -> BoxFuture<'static, ()> + Send + Sync>;

/// How long messages take between nodes: lognormal, drawn per message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Median one-way latency, µs.
    pub median_us: u64,
    /// Sigma of the underlying normal, in thousandths.
    pub sigma_milli: u64,
}

/// A scene set for an engine.
pub struct Stage {
    /// The nodes, in the order of their ids.
    pub world: Arc<World>,
    /// The nodes' programs, in the same order.
    pub factories: Vec<Factory>,
    /// The network's latency.
    pub links: Links,
    /// The settings of the nodes' kernels.
    pub kernel: Kernel,
    /// When the run ends at the latest, µs.
    pub ends_at_us: u64,
    /// Where engines mix their steps into the trace hash.
    pub recorder: Recorder,
    /// Called once before the nodes start, with the engine's controls: this is
    /// where faults are scheduled.
    pub opening: Box<dyn FnOnce(Arc<dyn Control>) + Send>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Stage")
            .field("links", &self.links)
            .field("ends_at_us", &self.ends_at_us)
            .finish_non_exhaustive()
    }
}

/// How an engine's run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Engine steps: events delivered, or ticks.
    pub steps: u64,
    /// Messages that nodes sent to each other.
    pub messages: u64,
    /// Why the run stopped before its time, if not because the storm was over.
    pub stuck: Option<String>,
    /// Whether that is something that the engine has no means for: `stuck` is then a
    /// clause that says what.
    pub not_expressible: bool,
    /// What can be done about it, where another engine would not help.
    pub mend: Option<String>,
}

impl Ending {
    /// Why the run stopped before its time, with the mend where one is known, on one line.
    pub fn told(&self) -> Option<String> {
        let stuck = self.stuck.as_ref()?;
        Some(match &self.mend {
            Some(mend) => format!("{stuck}; {mend}"),
            None => stuck.clone(),
        })
    }
}

/// Something that can run a stage.
pub trait Engine: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Its name and version in reports, such as `turmoil 0.7`.
    fn title(&self) -> &'static str;

    /// Which part of `plan` this engine has no means for, as a clause for people
    /// (`"a one-way cut that delivers after the heal"`).
    fn cannot_express(&self, plan: &Plan) -> Option<String>;

    /// Whether third-party code in its runs senses simulated time and keyed draws (where an
    /// interposer asks [`senses`]).
    fn gives_senses(&self) -> bool {
        true
    }

    /// Whether it notes messages where the recorder keeps asides.
    fn tells_messages(&self) -> bool {
        false
    }

    /// Whether it answers by itself what third-party code asks the C library, so that no
    /// interposer is needed.
    fn answers_libraries(&self) -> bool {
        false
    }

    /// The same engine, which draws other latencies and another order for the same plan; 0 is
    /// the plan's own. `None` where the plan's seed decides all of that.
    fn reseeded(&self, _reseed: u64) -> Option<Arc<dyn Engine>> {
        None
    }

    /// Runs the stage to its end, on the calling thread. Give each run a fresh one.
    fn run(&self, stage: Stage) -> Ending;
}

/// What faults may do to a running stage. All of it takes effect at once, also when
/// called from inside a node's task; a call about the calling task's own node takes
/// effect for the rest of the node at once and for the task at its next suspension.
pub trait Control: Send + Sync {
    /// The program dies; its kernel lives: sockets close (FIN, or RST with unread
    /// data), bytes already handed to the kernel still leave, new connections are refused.
    fn crash_process(&self, node: NodeId);

    /// The machine dies, and its program if that still lives: silence, and all bytes
    /// in its kernel are lost.
    fn crash_machine(&self, node: NodeId);

    /// Starts a crashed node again. Nothing if it is up.
    fn start(&self, node: NodeId);

    /// Freezes the living program's tasks, or those of one group. Its kernel goes on
    /// accepting and buffering. The pause ends with the program; nothing if it is down.
    fn pause(&self, node: NodeId, group: Option<&str>);

    /// Ends [`Control::pause`] with the same arguments.
    fn resume(&self, node: NodeId, group: Option<&str>);

    /// Stops messages from `from` to `to`, this direction only. What is sent into a
    /// cut is retransmitted after the heal.
    fn cut(&self, from: NodeId, to: NodeId);

    /// Ends one [`Control::cut`] of the same direction; cuts nest.
    fn heal(&self, from: NodeId, to: NodeId);

    /// Adds `extra_us` to the latency from `from` to `to`; 0 takes it away again.
    fn slow(&self, from: NodeId, to: NodeId, extra_us: u64);

    /// Resets every established connection between `a` and `b` at both ends, as a
    /// middlebox does that has lost its memory: no cut keeps that from happening.
    fn reset(&self, a: NodeId, b: NodeId);

    /// Changes a node's clock.
    fn change_clock(&self, node: NodeId, change: ClockChange);

    /// Runs `action` after `delay_us` of true time; 0 means after the current step.
    fn after(&self, delay_us: u64, action: Box<dyn FnOnce() + Send>);

    /// Ends the run after the current step.
    fn finish(&self);
}
