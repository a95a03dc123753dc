//! An explanation as text and as JSON: the story, the walk back, where the run parts from
//! the nearest one that passes, the cliff, and what was tried.

use serde_json::{Value, json};

use crate::check::Language;
use crate::explain::cliff::{MOST_DRAWS, Point, Rest, Rise, Settled};
use crate::explain::measures::Measure;
use crate::explain::pair::{Moment, Pair};
use crate::explain::{Draws, Explained};
use crate::hunt::proportion::Proportion;
use crate::plan::{capsule, file};
use crate::report::layout::{labelled, pad, pad_left, width};
use crate::report::manner::Manner;
use crate::report::shrunk::{nearest_json, nearest_line};
use crate::report::story::Story;
use crate::report::subject::Subject;
use crate::report::why;

/// The text, without a line feed at its end.
pub fn explained(explained: &Explained, manner: &Manner) -> String {
    let mut text = Text { manner, lines: Vec::new() };
    let run = &explained.run;
    let verdict = run.judgement.verdict;
    text.line(&format!(
        "{}  {}",
        manner.style.bad(&verdict.word(Language::English).to_uppercase()),
        explained.signature
    ));
    let subject = Subject::of(&run.history, &run.judgement);
    let story = subject.as_ref().map(|subject| Story::of(&run.history, &run.plan, subject));
    if let (Some(subject), Some(story)) = (&subject, &story) {
        text.paragraph(&subject.finding.sentence());
        text.heading("What happened");
        text.lines.extend(story.lines(manner));
        text.heading("Why");
        text.paragraph(&why::why(&run.history, &run.plan, subject));
    }
    walk(&mut text, explained, story.as_ref());
    pair(&mut text, explained);
    cliff(&mut text, explained);
    tried(&mut text, explained);
    text.lines.join("\n").trim_end().to_owned()
}

struct Text<'m> {
    manner: &'m Manner,
    lines: Vec<String>,
}

impl Text<'_> {
    fn line(&mut self, line: &str) {
        self.lines.push(self.manner.charset.fit(line).trim_end().to_owned());
    }

    fn heading(&mut self, heading: &str) {
        self.lines.push(String::new());
        self.lines.push(format!("  {}", self.manner.style.strong(heading)));
    }

    fn paragraph(&mut self, text: &str) {
        self.labelled("  ", text);
    }

    /// `text` behind `label`, folded below itself.
    fn labelled(&mut self, label: &str, text: &str) {
        let (label, text) = (self.manner.charset.fit(label), self.manner.charset.fit(text));
        self.lines.push(labelled(&label, width(&label), &text, self.manner.width));
    }
}

/// From the harm back, each cause below what it led to.
fn walk(text: &mut Text<'_>, explained: &Explained, story: Option<&Story>) {
    if explained.causes.is_empty() {
        return;
    }
    text.heading("Back from the harm, each cause below what it led to");
    for link in &explained.causes {
        let step = story
            .and_then(|story| story.steps.iter().position(|step| step.event == Some(link.event)));
        let step = step.map(|step| format!("#{}", step + 1)).unwrap_or_default();
        let indent = 2 * usize::try_from(link.depth).unwrap_or(0).min(8);
        let label =
            format!("  {}  {}  {:indent$}", pad(&step, 3), pad_left(&seconds(link.at_us), 9), "");
        text.labelled(&label, &link.name);
    }
}

/// The nearest plan that passes, and where the two runs part.
fn pair(text: &mut Text<'_>, explained: &Explained) {
    text.heading("The nearest plan that passes");
    text.paragraph(&nearest_line(explained.nearest.as_ref()));
    let Some(Pair { failing, passing }) = &explained.pair else { return };
    let told = |moment: &Moment| {
        let later = if moment.in_both { "" } else { ", which the other never has" };
        format!("{} at {}{later}", moment.name, seconds(moment.at_us))
    };
    text.paragraph(
        "It and the last plan on the way to it that fails have the same draws, and part in the \
         order of two events:",
    );
    text.labelled("    the one that fails has first   ", &told(failing));
    text.labelled("    the one that passes has first  ", &told(passing));
}

/// The shares along the story.
fn cliff(text: &mut Text<'_>, explained: &Explained) {
    let draws = explained.draws;
    text.heading(&format!("When it was settled: violations in {draws} runs with other draws"));
    text.line("    from step         the storm goes on          no fault begins any more");
    for point in &explained.cliff.points {
        let step = point.step.map_or_else(|| "start".to_owned(), |step| format!("#{}", step + 1));
        text.line(&format!(
            "    {}  {}  {}  {}",
            pad(&step, 5),
            pad_left(&seconds(point.at_us), 9),
            share(point.stormy, draws),
            share(point.calm, draws),
        ));
    }
    let sentence = match &explained.cliff.settled {
        Settled::By(rise) => decided(rise, draws),
        Settled::Gradually(rise) => gradually(rise, draws),
        Settled::NotDecided(rise) => not_decided(rise, draws),
        Settled::Nowhere => {
            "No single event settles it: the share nowhere rises by a quarter.".to_owned()
        }
    };
    text.paragraph(&sentence);
}

/// `1.307s`.
fn seconds(us: u64) -> String {
    format!("{}.{:03}s", us / 1_000_000, us % 1_000_000 / 1_000)
}

/// `#######...   37 of 50`, always as wide.
fn share(failed: u32, draws: u32) -> String {
    const CELLS: u32 = 10;
    let full = (failed * CELLS).checked_div(draws).unwrap_or(0);
    // Any is more than none.
    let full = if failed > 0 { full.max(1) } else { 0 };
    let bar: String = (0..CELLS).map(|cell| if cell < full { '#' } else { '.' }).collect();
    format!("{bar} {failed:>4} of {draws:<4}  ")
}

fn decided(rise: &Rise, draws: u32) -> String {
    let Rise { to, before, after, rest, .. } = rise;
    format!(
        "Decisive: {}, at {}. {} until just before it {before} of {draws} runs fail {}, from it on \
         {after} of {draws}.",
        to.name,
        seconds(to.at_us),
        drawn(rise, "Drawn anew,", "As they were found,"),
        going_on(*rest),
    )
}

/// `anew` of counts by draws of their own, `same` of those that the rise was found with.
fn drawn(rise: &Rise, anew: &'static str, same: &'static str) -> &'static str {
    match rise.draws {
        Draws::Anew => anew,
        Draws::Same => same,
    }
}

fn going_on(rest: Rest) -> &'static str {
    match rest {
        Rest::Stormy => "with the storm going on",
        Rest::Calm => "with no further faults",
    }
}

/// The two ends of the way on which the share rises: steps of the story, or the start.
fn ends(rise: &Rise) -> [String; 2] {
    let step = |step: usize| format!("#{}", step + 1);
    let from = rise.from_step.map_or_else(|| "the start".to_owned(), step);
    [from, rise.to.step.map_or_else(|| rise.to.name.clone(), step)]
}

/// How many runs fail from either end on.
fn counts(rise: &Rise, draws: u32) -> String {
    let [from, to] = ends(rise);
    let [before, after] = rise.shares(draws).map(Proportion::percent);
    format!(
        "{}{} of {draws} runs fail {} from {from} on, {before}, and {} from {to} on, {after}",
        drawn(rise, "drawn anew, ", ""),
        rise.before,
        going_on(rise.rest),
        rise.after,
    )
}

/// Between which steps the share rises, where no event alone does it.
fn gradually(rise: &Rise, draws: u32) -> String {
    let [from, to] = ends(rise);
    format!(
        "It rises between {from} and {to}, at no single event: {}. Of the events between the two \
         none was found that makes more of it than chance may do.",
        counts(rise, draws)
    )
}

/// Where the share seemed to rise most, and why that says nothing.
fn not_decided(rise: &Rise, draws: u32) -> String {
    let ([from, to], counts) = (ends(rise), counts(rise, draws));
    let place =
        format!("between {from} and {to} ({}, at {})", rise.to.name, seconds(rise.to.at_us));
    if rise.after <= rise.before {
        let not = drawn(rise, "drawn anew it does not", "it does not");
        let counts = counts.trim_start_matches("drawn anew, ");
        return format!("Not decided: the share seemed to rise most {place}, and {not}: {counts}.");
    }
    let more = match rise.least_draws(draws) {
        Some(least) => format!("--reseeds of fewer than about {least} would not tell"),
        None => format!("no --reseeds up to {MOST_DRAWS} would tell"),
    };
    let rises = drawn(rise, "seemed to rise", "rises");
    format!(
        "Not decided: the share {rises} most {place}: {counts}. The two intervals (95 %) overlap, \
         so that may be chance; if the shares stay so, {more}."
    )
}

/// What was tried, and how many runs it changed.
fn tried(text: &mut Text<'_>, explained: &Explained) {
    let Some((as_it_is, measures)) = explained.measures.split_first() else { return };
    let draws = explained.draws;
    // Any violation counts, of whatever kind: another baseline than that of the table above.
    text.heading(&format!("Tried, over the same {draws} draws: runs with any violation"));
    let named = |measure: &Measure| match measure.flags.as_str() {
        "" => "as it is".to_owned(),
        flags => flags.to_owned(),
    };
    let widest = explained.measures.iter().map(|measure| width(&named(measure))).max();
    for measure in [as_it_is].into_iter().chain(measures) {
        let mut line = format!(
            "    {}  {}",
            pad(&named(measure), widest.unwrap_or(0)),
            share(measure.violations, draws)
        );
        let changed = i64::from(measure.violations) - i64::from(as_it_is.violations);
        if !std::ptr::eq(measure, as_it_is) {
            line.push_str(&match changed {
                0 => "no change".to_owned(),
                _ => format!("{changed:+}"),
            });
        }
        if measure.inconclusive > 0 {
            line.push_str(&format!("  ({} say nothing)", measure.inconclusive));
        }
        text.line(&line);
    }
    if as_it_is.violations == 0 {
        text.paragraph(&own_draws(measures));
    }
    text.paragraph(
        "A measure that changes nothing here may help elsewhere; one that helps in each of these \
         runs is not thereby proved. For proof: `lockstorm hunt` with the same flag; to see one run: \
         the flag behind `lockstorm run` or `lockstorm replay` of this plan.",
    );
}

/// What is known of measures where none of the other draws fails as it is.
fn own_draws(measures: &[Measure]) -> String {
    let passing = measures.iter().filter(|measure| measure.own.is_safe());
    let passing: Vec<&str> = passing.map(|measure| measure.flags.as_str()).collect();
    let helps = match passing.as_slice() {
        [] => "with those, each of these fails as well, or says nothing".to_owned(),
        flags => format!("with those, these pass: {}", flags.join(", ")),
    };
    format!(
        "Over these draws the plan does not fail as it is, so that the counts say nothing of what \
         helps: the failure hangs on the plan's own draws; {helps}."
    )
}

/// The same as JSON.
pub fn explained_json(explained: &Explained, reproduce: &str) -> String {
    let run = &explained.run;
    let subject = Subject::of(&run.history, &run.judgement);
    let why = subject.as_ref().map(|subject| why::why(&run.history, &run.plan, subject));
    let [decisive, gradual, not_decided] = settled_json(&explained.cliff.settled, explained.draws);
    let causes = explained.causes.iter().map(|link| {
        json!({ "event": link.event, "at-us": link.at_us, "what": link.name, "depth": link.depth })
    });
    let measures = explained.measures.iter().map(|measure| {
        json!({
            "flags": measure.flags,
            "violations": measure.violations,
            "safe": measure.safe,
            "inconclusive": measure.inconclusive,
            "with-its-own-draws": measure.own.id(),
        })
    });
    let document = json!({
        "schema": 1,
        "lockstorm": env!("CARGO_PKG_VERSION"),
        "signature": explained.signature,
        "why": why,
        "causes": causes.collect::<Vec<_>>(),
        "nearest": nearest_json(explained.nearest.as_ref()),
        "critical-pair": explained.pair.as_ref().map(|pair| {
            json!({ "failing": moment_json(&pair.failing), "passing": moment_json(&pair.passing) })
        }),
        "draws": explained.draws,
        "cliff": explained.cliff.points.iter().map(point_json).collect::<Vec<Value>>(),
        "decisive": decisive,
        "gradual": gradual,
        "not-decided": not_decided,
        "measures": measures.collect::<Vec<_>>(),
        "plan": file::write(&run.plan),
        "capsule": capsule::write(&run.plan),
        "reproduce": reproduce,
    });
    format!("{document:#}")
}

fn point_json(point: &Point) -> Value {
    json!({
        "step": point.step.map(|step| step + 1),
        "event": point.event,
        "at-us": point.at_us,
        "violations": point.stormy,
        "violations-without-further-faults": point.calm,
    })
}

fn moment_json(moment: &Moment) -> Value {
    json!({
        "event": moment.event,
        "at-us": moment.at_us,
        "what": moment.name,
        "in-both": moment.in_both,
    })
}

/// What settled it as `decisive`, `gradual` and `not-decided`: one of them, or none.
fn settled_json(settled: &Settled, draws: u32) -> [Value; 3] {
    let none = Value::Null;
    match settled {
        Settled::By(rise) => [rise_json(rise, draws), none.clone(), none],
        Settled::Gradually(rise) => [none.clone(), way_json(rise, draws), none],
        Settled::NotDecided(rise) => {
            let mut value = way_json(rise, draws);
            value["draws-needed-at-least"] = json!(rise.least_draws(draws));
            [none.clone(), none, value]
        }
        Settled::Nowhere => [none.clone(), none.clone(), none],
    }
}

/// A rise that is counted from one step of the story and from a later one on.
fn way_json(rise: &Rise, draws: u32) -> Value {
    let mut value = rise_json(rise, draws);
    value["from-step"] = json!(rise.from_step.map(|step| step + 1));
    value["to-step"] = json!(rise.to.step.map(|step| step + 1));
    value
}

fn rise_json(rise: &Rise, draws: u32) -> Value {
    let [before, after] = rise.shares(draws).map(Proportion::interval_per_mille);
    json!({
        "event": rise.to.event,
        "at-us": rise.to.at_us,
        "what": rise.to.name,
        "violations-before": rise.before,
        "violations-after": rise.after,
        "interval-per-mille-before": before,
        "interval-per-mille-after": after,
        "drawn-anew": rise.draws == Draws::Anew,
        "without-further-faults": rise.rest == Rest::Calm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;
    use crate::explain::cliff::Place;
    use crate::history::EventId;

    fn rise([before, after]: [u32; 2], rest: Rest, draws: Draws) -> Rise {
        let (event, at_us, name) = (EventId(7), 1_250_000, "redis-3 becomes master".to_owned());
        let to = Place { step: Some(8), event, at_us, name };
        Rise { from_step: Some(4), to, before, after, rest, draws }
    }

    /// What is decided, rises on a way, or may be chance is told in words of its own, and in JSON
    /// under a key of its own.
    #[test]
    fn whatever_settled_it_has_its_own_words() {
        use Draws::{Anew, Same};
        use Rest::{Calm, Stormy};
        let from_the_start = Rise { from_step: None, ..rise([3, 40], Stormy, Anew) };
        let told = [
            decided(&rise([0, 50], Calm, Anew), 50),
            gradually(&rise([3, 40], Stormy, Anew), 50),
            gradually(&from_the_start, 50),
            not_decided(&rise([20, 30], Stormy, Same), 50),
            not_decided(&rise([20, 30], Stormy, Anew), 50),
            not_decided(&rise([30, 30], Calm, Anew), 50),
            not_decided(&rise([5_000, 5_001], Calm, Same), 9_999),
        ];
        insta::assert_snapshot!(told.join("\n"));
        let json = settled_json(&Settled::Gradually(rise([3, 40], Stormy, Anew)), 50);
        assert!(json[0].is_null() && json[2].is_null());
        insta::assert_snapshot!(format!("{:#}", json[1]));
        let not_decided = rise([20, 30], Stormy, Same);
        let json = settled_json(&Settled::NotDecided(not_decided.clone()), 50);
        assert!(json[0].is_null() && json[1].is_null());
        assert_eq!(json[2]["draws-needed-at-least"], not_decided.least_draws(50).unwrap());
        assert_eq!(json[2]["drawn-anew"], false);
        assert_eq!(json[2]["to-step"], 9);
        assert_eq!(settled_json(&Settled::Nowhere, 50), [Value::Null, Value::Null, Value::Null]);
    }

    /// Where no other draw fails there is nothing to count, and that is said.
    #[test]
    fn a_failure_that_hangs_on_its_own_draws_is_told_as_one() {
        let measure = |flags: &str, own| {
            let flags = flags.to_owned();
            Measure { flags, violations: 0, safe: 50, inconclusive: 0, own }
        };
        let (fails, safe) = (Verdict::Violation, Verdict::SafeByFence);
        let told = [
            own_draws(&[measure("--fence write", fails), measure("--fence full", safe)]),
            own_draws(&[measure("--fence write", fails)]),
        ];
        insta::assert_snapshot!(told.join("\n"));
    }

    /// Which draws were counted is said of whatever is told, and only of what was drawn anew.
    #[test]
    fn what_was_drawn_anew_is_told_so_and_nothing_else() {
        let words: [fn(&Rise, u32) -> String; 3] = [decided, gradually, not_decided];
        for told in words {
            for counts in [[3, 40], [20, 30], [30, 30]] {
                for draws in [Draws::Same, Draws::Anew] {
                    let told = told(&rise(counts, Rest::Stormy, draws), 50).to_lowercase();
                    let times = usize::from(draws == Draws::Anew);
                    assert_eq!(told.matches("drawn anew").count(), times, "{told}");
                }
            }
        }
    }
}
