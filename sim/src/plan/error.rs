//! The one error that bad input gives: a place, what is wrong, the mend.
//!
//! [`Display`](std::fmt::Display) is one line, `FILE:LINE:COL: what; mend`. With
//! miette's report handler the program shows the lines of the file as well.

use std::fmt;
use std::ops::Range;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use super::complaint::Complaint;

/// Why a plan, a seed file or a setting is refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{place}: {complaint}")]
pub struct PlanError {
    // Boxed: this error travels in many results and is rare.
    place: Box<Place>,
    complaint: Complaint,
}

/// Where the bad input stands.
#[derive(Clone, Debug)]
enum Place {
    /// In a text.
    Text { source: NamedSource<String>, span: Range<usize>, line: usize, column: usize },
    /// Somewhere that a name is enough for: a flag, a file that could not be read.
    Named(String),
}

impl PlanError {
    /// An error at the bytes `span` of `text`, which is called `name`.
    pub fn in_text(name: &str, text: &str, span: Range<usize>, complaint: Complaint) -> Self {
        let start = floor_char_boundary(text, span.start);
        let end = floor_char_boundary(text, span.end).max(start);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let place = Place::Text {
            source: NamedSource::new(name, text.to_owned()).with_language("TOML"),
            span: start..end,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        };
        PlanError { place: Box::new(place), complaint }
    }

    /// An error at a place that a name is enough for, such as `--set lock.lease`.
    pub fn named(place: impl Into<String>, complaint: Complaint) -> Self {
        let place = place.into();
        let mend = match place.starts_with("--") {
            true => by_flags(&complaint.mend),
            false => complaint.mend,
        };
        let complaint = Complaint { mend, ..complaint };
        PlanError { place: Box::new(Place::Named(place)), complaint }
    }

    /// What is wrong and the mend, without the place.
    pub fn complaint(&self) -> &Complaint {
        &self.complaint
    }

    /// Line and column, from 1, columns in characters; `None` outside of texts.
    pub fn position(&self) -> Option<(usize, usize)> {
        match &*self.place {
            Place::Text { line, column, .. } => Some((*line, *column)),
            Place::Named(_) => None,
        }
    }
}

/// How mends write a key of a plan, and the flag that sets it.
const FLAGS: [(&str, &str); 8] = [
    ("fence = ", "--fence "),
    ("redis-mode = ", "--set topology.redis-mode="),
    ("sentinels = ", "--set topology.sentinels="),
    ("redis = ", "--set topology.redis="),
    ("zookeeper = ", "--set topology.zookeeper="),
    ("postgres = ", "--set topology.postgres="),
    ("the lock \"", "--lock \""),
    ("the scenario ", "--scenario "),
];

/// A mend for somebody who wrote flags and no file.
fn by_flags(mend: &str) -> String {
    FLAGS.iter().fold(mend.to_owned(), |mend, (key, flag)| {
        let parts = mend.split(key).enumerate().map(|(position, part)| {
            // A value in quotation marks needs none behind a flag.
            let value = part.strip_prefix('"').or(key.ends_with('"').then_some(part));
            match value.and_then(|value| value.split_once('"')).filter(|_| position > 0) {
                Some((value, rest)) => format!("{value}{rest}"),
                None => part.to_owned(),
            }
        });
        parts.collect::<Vec<_>>().join(flag.trim_end_matches('"'))
    })
}

/// The last boundary of a character at or before `index`.
fn floor_char_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Text { source, line, column, .. } => {
                write!(formatter, "{}:{line}:{column}", source.name())
            }
            Place::Named(name) => formatter.write_str(name),
        }
    }
}

impl Diagnostic for PlanError {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        match &*self.place {
            Place::Text { source, .. } => Some(source),
            Place::Named(_) => None,
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        match &*self.place {
            Place::Text { span, .. } => {
                let label = LabeledSpan::new_with_span(Some("here".to_owned()), span.clone());
                Some(Box::new(std::iter::once(label)))
            }
            Place::Named(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_counted_in_lines_and_characters() {
        let complaint = Complaint::new("no", "yes");
        let text = "a = 1\n名 = 长x\n";
        let at = text.find('x').unwrap();
        let error = PlanError::in_text("plan.toml", text, at..at + 1, complaint.clone());
        assert_eq!(error.to_string(), "plan.toml:2:6: no; yes");
        assert_eq!(error.position(), Some((2, 6)));
        // Spans of others may point anywhere.
        for (start, end) in [(8, 7), (7, 900), (900, 901)] {
            let _ = PlanError::in_text("plan.toml", text, start..end, complaint.clone());
        }
        let flag = PlanError::named("--set lock.lease", complaint);
        assert_eq!(flag.to_string(), "--set lock.lease: no; yes");
    }

    #[test]
    fn whoever_wrote_flags_is_told_flags() {
        for (mend, flags) in [
            ("write fence = \"off\", or take a lock", "write --fence off, or take a lock"),
            (
                "take the lock \"redlock\", or redis-mode = \"replicated\"",
                "take --lock redlock, or --set topology.redis-mode=replicated",
            ),
            (
                "take the scenario redlock-five, or redis-mode = \"independent\"",
                "take --scenario redlock-five, or --set topology.redis-mode=independent",
            ),
            (
                "write sentinels = 0, or redis = 2 or more",
                "write --set topology.sentinels=0, or --set topology.redis=2 or more",
            ),
            ("allowed: \"a\", \"b\"", "allowed: \"a\", \"b\""),
        ] {
            assert_eq!(by_flags(mend), flags);
        }
    }
}
