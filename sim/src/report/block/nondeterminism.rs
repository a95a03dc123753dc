//! The block of a run that did not repeat.
//!
//! Its story is not told: one of the two traces is as good as the other, and neither
//! is a replay.

use super::{Block, Failure, headline};
use crate::check::{Judgement, Verdict};
use crate::report::layout::{grouped, shorten};
use crate::storm::repeat::Difference;

pub(super) fn tell(block: &mut Block<'_>, failure: &Failure<'_>, first: Option<&Difference>) {
    let run = failure.run;
    // The kinds of a run that cannot be trusted are no headline.
    let nothing = Judgement { findings: Vec::new(), ..run.judgement.clone() };
    block.line(&headline(Verdict::Nondeterminism, &nothing, &run.plan, block.manner));
    let where_ =
        first.map_or_else(String::new, |first| format!(" at event {}", grouped(first.event)));
    let said = match run.judgement.verdict {
        // Found by running it twice, before it was judged.
        Verdict::Nondeterminism => String::new(),
        verdict => format!(" The first run said \"{verdict}\"; neither is told as a finding."),
    };
    block.paragraph(&format!(
        "Nondeterminism{where_}: the same plan was run twice, and the two traces differ.{said}"
    ));
    block.blank();
    block.facts(failure, None);
    block.blank();
    match first {
        Some(first) => {
            let line = |label: &str, event: Option<&String>| {
                let event = event.map_or("the run was over", String::as_str);
                format!("  {label:12}{}", shorten(event, 2 * block.manner.width))
            };
            for (label, event) in [("first run", &first.was), ("second run", &first.is)] {
                let line = line(label, event.as_ref());
                let line = block.manner.charset.fit(&line);
                block.line(&line);
            }
        }
        None => block.paragraph(
            "All recorded events are the same: what differs are the engine's own steps \
             (deliveries, timers, polls) between them.",
        ),
    }
    block.blank();
    block.labelled(
        "Why",
        &["Something in the run is decided outside the seed: a clock, entropy, the order of a hash \
           map, a thread, or state that an earlier run left behind."],
    );
    block.labelled(
        "Try",
        &["Look in the lock under test for std::time, HashMap, random numbers that are not Host's, \
           spawn_blocking and statics that keep state."],
    );
}
