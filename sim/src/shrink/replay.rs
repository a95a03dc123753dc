//! Runs candidates, remembers them, counts them, and keeps the best.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Progress, Signature, Stopped};
use crate::check::Verdict;
use crate::engine::event::EventEngine;
use crate::plan::{Plan, file};
use crate::storm::locks::LockFactory;
use crate::storm::{Run, run_with};

/// What came of a plan.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub verdict: Verdict,
    pub signature: Option<Signature>,
}

impl Seen {
    fn of(run: &Run) -> Seen {
        Seen { verdict: run.judgement.verdict, signature: Signature::of(run) }
    }
}

/// The plans that were run.
pub(super) struct Replays<'a> {
    factory: &'a LockFactory,
    /// By canonical text.
    seen: BTreeMap<String, Seen>,
    most: u32,
    pub run: u32,
    pub remembered: u32,
    /// Called after each run.
    made: &'a dyn Fn(),
}

impl<'a> Replays<'a> {
    /// `first` has been run.
    pub fn new(factory: &'a LockFactory, most: u32, first: &Run) -> Self {
        let seen = BTreeMap::from([(file::write(&first.plan), Seen::of(first))]);
        Replays { factory, seen, most, run: 1, remembered: 0, made: &nobody }
    }

    /// The same, and `made` is called after each run.
    pub fn told(self, made: &'a dyn Fn()) -> Self {
        Replays { made, ..self }
    }

    fn left(&self) -> u32 {
        self.most.saturating_sub(self.run)
    }
}

/// Nobody is told.
fn nobody() {}

/// A search for a smaller plan.
pub(super) struct Search<'a> {
    /// The run of the smallest plan so far.
    pub best: Arc<Run>,
    pub target: Signature,
    pub replays: Replays<'a>,
    kept: u32,
    tell: &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
    stopped: Option<Stopped>,
}

impl<'a> Search<'a> {
    /// `kept` replays are left for the time after [`Search::open_what_was_kept`].
    pub fn new(
        run: Run,
        target: Signature,
        replays: Replays<'a>,
        kept: u32,
        tell: &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
    ) -> Self {
        Search { best: Arc::new(run), target, replays, kept, tell, stopped: None }
    }

    /// The smallest plan so far.
    pub fn plan(&self) -> &Plan {
        &self.best.plan
    }

    /// Whether no more plans can be run.
    pub fn is_over(&self) -> bool {
        self.stopped == Some(Stopped::Caller) || self.replays.left() <= self.kept
    }

    /// Whether no more plans can be run, with something left to try: that is noted.
    pub fn gives_up(&mut self) -> bool {
        let is_over = self.is_over();
        if is_over {
            self.stopped.get_or_insert(Stopped::Limit);
        }
        is_over
    }

    /// Why not everything was tried.
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// From here on the kept replays may be used.
    pub fn open_what_was_kept(&mut self) {
        self.kept = 0;
    }

    /// Takes `candidate` if it fails in the same way. A plan that breaks a rule does not.
    pub fn accept(&mut self, candidate: Plan) -> bool {
        if candidate == *self.plan() || candidate.check().is_err() {
            return false;
        }
        let Some((seen, run)) = self.look(&candidate) else { return false };
        if seen.signature.as_ref() != Some(&self.target) {
            return false;
        }
        // One that was run before was not kept: it is the same again.
        let run = run.unwrap_or_else(|| {
            let run = run_with(&candidate, &EventEngine, self.replays.factory);
            (self.replays.made)();
            run
        });
        self.best = Arc::new(run);
        let progress = Progress { plan: &self.best.plan, replays: self.replays.run };
        if (self.tell)(&progress).is_break() {
            self.stopped = Some(Stopped::Caller);
        }
        true
    }

    /// Takes a change of the best plan.
    pub fn accept_with(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut candidate = self.plan().clone();
        change(&mut candidate);
        self.accept(candidate)
    }

    /// What comes of a plan; `None` where no more may be run, or it breaks a rule.
    pub fn see(&mut self, plan: &Plan) -> Option<Seen> {
        if plan.check().is_err() {
            return None;
        }
        self.look(plan).map(|(seen, _)| seen)
    }

    fn look(&mut self, plan: &Plan) -> Option<(Seen, Option<Run>)> {
        let text = file::write(plan);
        if let Some(seen) = self.replays.seen.get(&text) {
            self.replays.remembered += 1;
            return Some((seen.clone(), None));
        }
        if self.gives_up() {
            return None;
        }
        self.replays.run += 1;
        let run = run_with(plan, &EventEngine, self.replays.factory);
        (self.replays.made)();
        let seen = Seen::of(&run);
        self.replays.seen.insert(text, seen.clone());
        Some((seen, Some(run)))
    }
}
