//! A run as one page of HTML that needs nothing else: no network, no other file.
//!
//! Order of things: [`source`] is what a page is made of; [`causes`] looks up what led to
//! what, [`choose`] keeps what fits, [`tracks`] has the lanes, the bars, the faults and the
//! clocks, [`chinese`] says every English text of a report in Chinese, [`document`] puts
//! that together, [`pages`] are files that the environment asks for, and [`page`] writes it into the page that `sim/page` is the source of.
//!
//! What a history holds is data here, never markup: it goes in as JSON in which `<`, `>`,
//! `&` and the two line ends that only Unicode has are escaped, the script writes it out as
//! text alone, and the page's own policy lets nothing run but that script, by its hash.

pub mod causes;
pub mod chinese;
pub mod choose;
pub mod document;
pub mod pages;
pub mod source;
#[cfg(test)]
mod tests;
pub mod tracks;

pub use source::Source;

use document::Document;

/// The page without data, as `sim/page` builds it.
const PAGE: &str = include_str!("../../page/dist/page.html");
/// Where the title goes.
const TITLE: &str = "%TITLE%";
/// Where the sentence goes that is read without scripts.
const SUMMARY: &str = "%SUMMARY%";
/// Where the data go.
const DATA: &str = "%DATA%";

/// A page carries no more events than this, unless all would fit.
pub const MOST_EVENTS: usize = 10_000;
/// A page is no larger than this, bytes.
pub const MOST_BYTES: usize = 5_000_000;

/// The page of `source`, at most [`MOST_BYTES`] long.
pub fn page(source: &Source<'_>) -> String {
    let mut most_events = MOST_EVENTS;
    loop {
        let document = Document::of(source, most_events);
        let page = filled(&document);
        // With no events left there is nothing more to leave out.
        if page.len() <= MOST_BYTES || most_events == 0 {
            return page;
        }
        most_events /= 2;
    }
}

fn filled(document: &Document) -> String {
    // No map with foreign keys, no I/O: it cannot fail.
    let data = inert(&serde_json::to_string(document).unwrap_or_default());
    let verdict = &document.verdict_word.en;
    let title = match &document.sentence {
        Some(sentence) => format!("{verdict}: {}", sentence.en),
        None => verdict.clone(),
    };
    let title = escaped(&title);
    let summary = match &document.effect {
        Some(effect) => format!("{title} {}", escaped(&effect.en)),
        None => title.clone(),
    };
    // In one pass: what is put in may itself look like a place.
    let mut page = String::with_capacity(PAGE.len() + data.len() + title.len() + summary.len());
    let mut rest = PAGE;
    for (place, text) in [(TITLE, &title), (SUMMARY, &summary), (DATA, &data)] {
        if let Some((before, after)) = rest.split_once(place) {
            page.push_str(before);
            page.push_str(text);
            rest = after;
        }
    }
    page.push_str(rest);
    page
}

/// JSON that no reader of HTML takes for anything else.
fn inert(json: &str) -> String {
    let mut inert = String::with_capacity(json.len() + json.len() / 16);
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                inert.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => inert.push(character),
        }
    }
    inert
}

/// Text for markup.
pub(in crate::report) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // A title has one line, and no parser is asked what it makes of the rest.
            '\u{2028}' | '\u{2029}' => escaped.push(' '),
            control if control.is_control() => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}
