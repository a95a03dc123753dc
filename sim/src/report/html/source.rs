//! What a page, a trace or a diagram is made of: a history, what is to be thought of it, and
//! which run it was.

use crate::check::{Judgement, Setting, Verdict};
use crate::explain::Explained;
use crate::history::file::Recorded;
use crate::history::{Event, EventId, History};
use crate::plan::{Fence, Plan, file, scenario};
use crate::report::block::Failure;
use crate::storm::confirm::Confirmation;
use crate::storm::repeat::Repetition;

/// A judged history, with what is known of where it comes from.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// What happened.
    pub history: &'a History,
    /// What is to be thought of it.
    pub judgement: &'a Judgement,
    /// What the judge had to know.
    pub setting: Setting,
    /// The plan; of a history that is not ours one that stands in for it, so that the story
    /// can be told: it has no faults and its lock has no name.
    pub plan: Plan,
    /// Whether `plan` is the one that ran.
    pub is_ours: bool,
    /// On which engine, with its version; empty when nothing tells.
    pub engine: String,
    /// The trace hash; empty when nothing tells.
    pub trace: String,
    /// Why the run came to no end, if it did not.
    pub stuck: Option<String>,
    /// The file that it was read from.
    pub file: Option<&'a str>,
    /// The command that runs it again.
    pub reproduce: Option<&'a str>,
    /// Whether it came back the same.
    pub repetition: Option<&'a Repetition>,
    /// What the reference engine says of it.
    pub confirmation: Option<&'a Confirmation>,
    /// What decided it.
    pub explained: Option<&'a Explained>,
}

impl<'a> Source<'a> {
    /// Of a run.
    pub fn of_run(failure: &Failure<'a>) -> Source<'a> {
        let run = failure.run;
        Source {
            history: &run.history,
            judgement: &run.judgement,
            setting: run.setting,
            plan: run.plan.clone(),
            is_ours: true,
            engine: run.engine.to_owned(),
            trace: run.trace_hash.to_string(),
            stuck: run.ending.told(),
            file: None,
            reproduce: Some(failure.reproduce),
            repetition: failure.repetition,
            confirmation: failure.confirmation,
            explained: None,
        }
    }

    /// Of a history that was read from a file.
    pub fn of_file(
        name: &'a str,
        recorded: &'a Recorded,
        setting: Setting,
        judgement: &'a Judgement,
    ) -> Source<'a> {
        let origin = recorded.header.run.as_ref();
        let plan = origin.and_then(|origin| file::parse("the plan of the file", &origin.plan).ok());
        Source {
            history: &recorded.history,
            judgement,
            setting,
            is_ours: plan.is_some(),
            plan: plan.unwrap_or_else(|| stand_in(&recorded.history, &setting)),
            engine: origin.map(|origin| origin.engine.clone()).unwrap_or_default(),
            trace: origin.map(|origin| origin.trace.clone()).unwrap_or_default(),
            stuck: origin.and_then(|origin| origin.stuck.clone()),
            file: Some(name),
            reproduce: None,
            repetition: None,
            confirmation: None,
            explained: None,
        }
    }

    /// What the history here calls the event that the plain run calls `id`: asides stand
    /// between the events of a run that was made to be shown.
    pub fn renumbered(&self, id: EventId) -> EventId {
        let is_plain = |event: &&Event| !event.what.is_aside();
        let position = usize::try_from(id.0).unwrap_or(usize::MAX);
        self.history.iter().filter(is_plain).nth(position).map_or(id, |event| event.id)
    }

    /// The verdict: two traces override whatever the run seemed to say.
    pub fn verdict(&self) -> Verdict {
        match self.repetition {
            Some(Repetition::Differs { .. }) => Verdict::Nondeterminism,
            _ => self.judgement.verdict,
        }
    }
}

/// A plan for a history that has none.
fn stand_in(history: &History, setting: &Setting) -> Plan {
    // The scenario is in the table and its lock fits it: a test holds that.
    let plan = scenario::default_plan("redis-single", "redis", Fence::Off);
    let mut plan = plan.unwrap_or_else(|error| unreachable!("{error}"));
    let servers: std::collections::BTreeSet<&str> = history
        .iter()
        .filter(|event| matches!(event.what, crate::history::What::RecordSet { .. }))
        .map(|event| &*event.node)
        .collect();
    plan.scenario = String::new();
    plan.lock.name = String::new();
    plan.fence = setting.fence;
    plan.topology.redis = u16::try_from(servers.len()).unwrap_or(u16::MAX);
    plan
}
