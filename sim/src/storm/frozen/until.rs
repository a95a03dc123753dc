//! Names of the events at which a run can stand still.

use std::str::FromStr;

use super::Watched;
use crate::check::{Finding, Kind, Verdict};
use crate::history::{Event, EventId};
use crate::plan::Micros;
use crate::report::story::{Story, wrong_event};
use crate::report::subject::Subject;

/// Where a run is to stand still, as people say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// `violation`: before the event that broke the run, as its report tells it: the harm, if it
    /// came to harm.
    Violation,
    /// `double-grant`, `oversell`…: before the event that made the first such finding.
    Kind(Kind),
    /// `834`: behind the event of this number; with `before-` before it.
    Event {
        /// The number, as JSON and files of histories have it.
        event: u64,
        /// Whether it stands before it.
        before: bool,
    },
    /// `#9` or `step-9`: behind this step of the story; with `before-` before it.
    Step {
        /// The number, as the block prints it.
        step: usize,
        /// Whether it stands before it.
        before: bool,
    },
    /// `end`: where the run ends.
    End,
}

/// What can be written.
const MEND: &str = "write `violation` for the instant before what went wrong, `#9` (quoted, or \
    `step-9`) for behind step 9 of the story, `before-#9`, an event's number as in JSON such as \
    `834` or `before-834`, a finding such as `double-grant`, or `end`";

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Until, String> {
        let (place, before) = match text.strip_prefix("before-") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let step = place.strip_prefix('#').or_else(|| place.strip_prefix("step-"));
        if let Some(step) = step {
            let step = step.parse().map_err(|_| format!("`{text}` is no step; {MEND}"))?;
            return Ok(Until::Step { step, before });
        }
        if let Ok(event) = place.parse() {
            return Ok(Until::Event { event, before });
        }
        // The instant before is what these words mean already.
        let kind = || Kind::BY_GRAVITY.into_iter().find(|kind| kind.id() == place);
        match place {
            "violation" => Ok(Until::Violation),
            "end" if !before => Ok(Until::End),
            _ => kind().map(Until::Kind).ok_or_else(|| format!("`{text}` is no event; {MEND}")),
        }
    }
}

/// Where a run stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// At this rest of the engine; `None`: where it ends.
    pub(super) rest: Option<u64>,
    /// At this time, µs, where the rest itself is earlier: nothing happens in between.
    pub(super) at_us: Option<u64>,
    /// At which event, if not at the end.
    pub event: Option<EventId>,
    /// Whether it stands before it and not behind it.
    pub before: bool,
}

impl Place {
    /// Where it is, as a clause for people.
    pub fn instant(&self) -> String {
        match (self.event, self.before) {
            (None, _) => "at the end of the run".to_owned(),
            (Some(event), true) => format!("before event {}", event.0),
            (Some(event), false) => format!("behind event {}", event.0),
        }
    }
}

impl Watched {
    /// Finds where `until` is.
    ///
    /// # Errors
    /// When the run has no such event, in one sentence with the mend.
    pub fn place(&self, until: Until) -> Result<Place, String> {
        let run = &self.run;
        if let Some(why) = run.ending.told() {
            return Err(format!("the run got stuck and stands nowhere: {why}"));
        }
        let (event, before) = match until {
            Until::End => {
                return Ok(Place { rest: None, at_us: None, event: None, before: false });
            }
            Until::Event { event, before } => (event, before),
            Until::Step { step, before } => (self.step(step)?, before),
            Until::Violation => (self.violation()?, true),
            Until::Kind(kind) => {
                let mut found = run.judgement.findings.iter().filter(|found| found.kind == kind);
                let told = Subject::of(&run.history, &run.judgement);
                let told = told.iter().flat_map(|told| told.harm.into_iter().chain([told.finding]));
                let chosen = told.into_iter().find(|told| told.kind == kind).or(found.next());
                let chosen = chosen.ok_or_else(|| self.has_no(kind))?;
                (self.wrong(chosen)?, true)
            }
        };
        self.at(event, before)
    }

    /// Before or behind the event of this number.
    fn at(&self, event: u64, before: bool) -> Result<Place, String> {
        let found = self.run.history.get(EventId(event)).zip(self.rest_of(event));
        let Some((found, rests)) = found else {
            let last = self.run.history.events.len().saturating_sub(1);
            return Err(format!("there is no event {event}; write one from 0 to {last}"));
        };
        let at_us = before.then_some(found.at_us);
        let rest = match before {
            false => rests,
            true => rests.checked_sub(1).ok_or_else(|| {
                format!("event {event} is of the beginning, and nothing is before it")
            })?,
        };
        Ok(Place { rest: Some(rest), at_us, event: Some(found.id), before })
    }

    /// The event of a step of the story.
    fn step(&self, step: usize) -> Result<u64, String> {
        let Some(subject) = Subject::of(&self.run.history, &self.run.judgement) else {
            return Err(
                "nothing was found in this run, and so there is no story; write an event's \
                        number, as in JSON, or `end`"
                    .to_owned(),
            );
        };
        let story = Story::of(&self.run.history, &self.run.plan, &subject);
        let found = step.checked_sub(1).and_then(|step| story.steps.get(step));
        let event = found.and_then(|step| step.event);
        let steps = story.steps.len();
        let missing = || format!("the story has no step {step}; write one from #1 to #{steps}");
        event.map(|event| event.0).ok_or_else(missing)
    }

    /// The event that broke the run, as its report tells it.
    fn violation(&self) -> Result<u64, String> {
        let (history, judgement) = (&self.run.history, &self.run.judgement);
        let subject = Subject::of(history, judgement);
        let subject = subject.filter(|_| judgement.verdict == Verdict::Violation);
        let Some(subject) = subject else {
            let verdict = judgement.verdict;
            return Err(format!(
                "the run is {verdict}, and there is no violation to stand before; write an \
                 event's number, as in JSON, or `end`"
            ));
        };
        self.wrong(subject.harm.unwrap_or(subject.finding))
    }

    fn wrong(&self, finding: &Finding) -> Result<u64, String> {
        let event = wrong_event(&self.run.history, finding);
        // What is judged by the clock alone has no event: the first that proves it from then on.
        let is_then = |event: &&Event| event.at_us >= finding.from_us;
        let proof = || finding.events.iter().filter_map(|id| self.run.history.get(*id));
        let event = event.or_else(|| proof().find(is_then).map(|event| event.id));
        event.map(|event| event.0).ok_or_else(|| {
            let (kind, from) = (finding.kind.id(), Micros(finding.from_us));
            format!("no event made the {kind} that began at {from}; write an event's number")
        })
    }

    fn has_no(&self, kind: Kind) -> String {
        let kinds = self.run.judgement.kinds();
        let found: Vec<&str> = kinds.into_iter().map(Kind::id).collect();
        match found.is_empty() {
            true => format!("nothing was found in this run, and no {}", kind.id()),
            false => format!("no {} was found; there are: {}", kind.id(), found.join(", ")),
        }
    }
}
