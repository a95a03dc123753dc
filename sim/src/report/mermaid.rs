//! The story of a run as a sequence diagram of Mermaid, which GitHub draws in issues.
//!
//! A step from one node to another is a message, any other a note over its node; what must
//! not happen is in a coloured box. Names from a history are text: what Mermaid would read
//! as its own is written as an entity.

use std::fmt::Write as _;

use crate::plan::groups::{self, SORTS};
use crate::report::html::Source;
use crate::report::html::chinese::bounded;
use crate::report::story::{Mark, Step, Story};
use crate::report::subject::Subject;

/// The diagram; without a finding it says so.
pub fn diagram(source: &Source<'_>) -> String {
    let mut text = "sequenceDiagram\n".to_owned();
    let Some(subject) = Subject::of(source.history, source.judgement) else {
        text.push_str("    participant run\n");
        let _ = writeln!(text, "    Note over run: {}", plain(source.verdict().id()));
        return text;
    };
    let story = Story::of(source.history, &source.plan, &subject);
    let mut nodes: Vec<&str> = Vec::new();
    for step in &story.steps {
        let (from, to) = sides(step);
        for node in std::iter::once(from).chain(to) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
    }
    // Clients to the left, the resource to the right, as they stand on the page.
    nodes
        .sort_by_key(|node| (groups::sort_of(node).map_or(SORTS.len(), |(place, _)| place), *node));
    let alias = |node: &str| format!("n{}", nodes.iter().position(|n| *n == node).unwrap_or(0));
    for node in &nodes {
        let _ = writeln!(text, "    participant {} as {}", alias(node), plain(node));
    }
    for (n, step) in story.steps.iter().enumerate() {
        let what = plain(&step.what);
        let at = format!("{} · ", n + 1)
            + &format!("{}.{:03} s", step.at_us / 1_000_000, step.at_us / 1_000 % 1_000);
        let mut line = match sides(step) {
            (from, Some(to)) => format!("    {}->>{}: {at} {what}\n", alias(from), alias(to)),
            (node, None) => format!("    Note over {}: {at} {what}", alias(node)),
        };
        let mut more = String::new();
        if !step.outcome.is_empty() {
            more.push_str(&plain(&step.outcome));
        }
        if !step.remark.is_empty() {
            let _ = write!(more, " ← {}", plain(&step.remark));
        }
        match sides(step) {
            (from, Some(to)) if !more.is_empty() => {
                let _ = writeln!(line, "    {}-->>{}: {}", alias(to), alias(from), more.trim());
            }
            (_, Some(_)) => {}
            (_, None) if more.is_empty() => line.push('\n'),
            (_, None) => {
                let _ = writeln!(line, "<br/>{}", more.trim());
            }
        }
        match step.mark {
            Mark::Wrong => boxed(&mut text, "rgba(213, 94, 0, 0.25)", &line),
            Mark::Fault => boxed(&mut text, "rgba(230, 159, 0, 0.20)", &line),
            Mark::Held => boxed(&mut text, "rgba(0, 158, 115, 0.20)", &line),
            Mark::None => text.push_str(&line),
        }
    }
    text
}

fn boxed(text: &mut String, colour: &str, lines: &str) {
    let _ = write!(text, "    rect {colour}\n{lines}    end\n");
}

/// Who, and to whom if that is another.
fn sides(step: &Step) -> (&str, Option<&str>) {
    match step.who.split_once(" → ") {
        Some((from, to)) => (from, Some(to)),
        None => (&step.who, None),
    }
}

/// Text in which Mermaid finds nothing of its own.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for character in bounded(text).chars() {
        match character {
            '#' | ';' | '<' | '>' | '"' | '&' | '{' | '}' | '%' | '\\' | '`' | '$' => {
                let _ = write!(plain, "#{};", u32::from(character));
            }
            // `bounded` has left none.
            control if control.is_control() => plain.push(' '),
            other => plain.push(other),
        }
    }
    // A word of Mermaid's own would end the diagram's part.
    if plain.trim().eq_ignore_ascii_case("end") { format!("({plain})") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text() {
        assert_eq!(plain("a;b"), "a#59;b");
        assert_eq!(plain("<script>\nx"), "#60;script#62;#92;nx");
        assert_eq!(plain("END"), "(END)");
    }
}
