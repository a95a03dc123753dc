//! Lessons as a static site: a page for each in either language, the page of its run, its
//! plan. No script, nothing that is fetched: it opens from a folder, without a network.

use std::fmt::Write as _;

use super::words::{Words, words};
use super::{Shown, letter, nothing_wrong};
use crate::check::{Language, Verdict};
use crate::lesson::{Fix, Knob, Lesson, Point, Text};
use crate::plan::file;
use crate::report::block::{self, Failure};
use crate::report::html::chinese::Both;
use crate::report::html::{Source, escaped, page};
use crate::report::story::{Mark, Story};
use crate::report::subject::Subject;
use crate::report::why;

const STYLE: &str = include_str!("site.css");
const LANGUAGES: [Language; 2] = [Language::English, Language::Chinese];

/// A lesson with everything that was run for it.
#[derive(Clone, Copy, Debug)]
pub struct Taught<'a> {
    /// The lesson.
    pub lesson: &'a Lesson,
    /// Its storm.
    pub shown: Shown<'a>,
    /// What its knobs did, in their order.
    pub curves: &'a [Vec<Point>],
    /// What came of its fixes, in their order.
    pub fixes: &'a [Verdict],
}

/// The files of the site: their paths, with `/` between folders, and their texts.
pub fn site(taught: &[Taught<'_>]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for language in LANGUAGES {
        files.push((file_of("index", language), index(taught, language)));
        for (n, one) in taught.iter().enumerate() {
            files.push((file_of(&one.lesson.id, language), lesson_page(taught, n, language)));
        }
    }
    for taught in taught {
        let reproduce = format!("lockstorm lesson run {}", taught.lesson.id);
        let failure = Failure {
            run: taught.shown.run,
            position: None,
            repetition: None,
            confirmation: taught.shown.confirmation,
            reproduce: &reproduce,
        };
        let id = &taught.lesson.id;
        files.push((format!("runs/{id}.html"), page(&Source::of_run(&failure))));
        files.push((format!("plans/{id}.toml"), file::write(&taught.lesson.plan)));
    }
    files
}

/// `pause.html`, `pause.zh.html`.
fn file_of(stem: &str, language: Language) -> String {
    match language {
        Language::English => format!("{stem}.html"),
        Language::Chinese => format!("{stem}.zh.html"),
    }
}

fn other(language: Language) -> Language {
    match language {
        Language::English => Language::Chinese,
        Language::Chinese => Language::English,
    }
}

/// A whole document around `body`, which is markup.
fn document(title: &str, stem: &str, language: Language, body: &str) -> String {
    let words = words(language);
    let (code, other_code) = match language {
        Language::English => ("en", "zh-CN"),
        Language::Chinese => ("zh-CN", "en"),
    };
    format!(
        "<!doctype html>\n<html lang=\"{code}\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\">\n<title>{} · lockstorm</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<nav><a href=\"{}\">lockstorm · {}</a> <a class=\"language\" lang=\"{other_code}\" \
         hreflang=\"{other_code}\" href=\"{}\">{}</a></nav>\n<main>\n{body}</main>\n</body>\n\
         </html>\n",
        escaped(title),
        file_of("index", language),
        words.lessons,
        file_of(stem, other(language)),
        words.language,
    )
}

fn index(taught: &[Taught<'_>], language: Language) -> String {
    let words = words(language);
    let mut body =
        format!("<h1>{}</h1>\n<p>{}</p>\n<ol class=\"lessons\">\n", words.lessons, words.intro);
    for taught in taught {
        let lesson = taught.lesson;
        // Writing to a string does not fail.
        let _ = writeln!(
            body,
            "<li><a href=\"{}\">{}</a></li>",
            file_of(&lesson.id, language),
            escaped(lesson.title.of(language)),
        );
    }
    body.push_str("</ol>\n");
    document(words.lessons, "index", language, &body)
}

fn lesson_page(all: &[Taught<'_>], n: usize, language: Language) -> String {
    let taught = &all[n];
    let (lesson, words) = (taught.lesson, words(language));
    let place = match language {
        Language::English => format!("Lesson {} of {}", n + 1, all.len()),
        Language::Chinese => format!("第 {} 课，共 {} 课", n + 1, all.len()),
    };
    let title = escaped(lesson.title.of(language));
    let mut body = format!("<p class=\"place\">{place}</p>\n<h1>{title}</h1>\n");
    paragraphs(&mut body, &lesson.scene, language);
    question(&mut body, lesson, language);
    storm(&mut body, taught, language);
    let _ = writeln!(body, "<h2>{}</h2>", words.what_it_shows);
    paragraphs(&mut body, &lesson.story, language);
    for (knob, points) in lesson.knobs.iter().zip(taught.curves) {
        curve(&mut body, knob, points, language);
    }
    exercise(&mut body, taught, language);
    let _ = writeln!(body, "<h2>{}</h2>", words.safe_if);
    paragraphs(&mut body, &lesson.safe_if, language);
    let link = |at: Option<&Taught<'_>>, word: &str| {
        at.map_or_else(String::new, |taught| {
            let (href, title) =
                (file_of(&taught.lesson.id, language), taught.lesson.title.of(language));
            format!("<a href=\"{href}\">{word}: {}</a>", escaped(title))
        })
    };
    let before = link(n.checked_sub(1).and_then(|n| all.get(n)), words.previous);
    let after = link(all.get(n + 1), words.next);
    let _ = writeln!(body, "<p class=\"ways\">{before} {after}</p>");
    document(lesson.title.of(language), &lesson.id, language, &body)
}

fn paragraphs(body: &mut String, text: &Text, language: Language) {
    for paragraph in text.paragraphs(language) {
        let _ = writeln!(body, "<p>{}</p>", marked(&paragraph));
    }
}

fn question(body: &mut String, lesson: &Lesson, language: Language) {
    let words = words(language);
    let _ = writeln!(body, "<h2>{}</h2>", words.before);
    paragraphs(body, &lesson.question, language);
    for (n, choice) in lesson.choices.iter().enumerate() {
        let (class, word) =
            if choice.right { ("right", words.right) } else { ("wrong", words.wrong) };
        let _ = writeln!(
            body,
            "<details class=\"choice\"><summary>{}. {}</summary><p class=\"{class}\"><b>{word}</b> \
             {}</p></details>",
            letter(n),
            marked(choice.text.of(language)),
            marked(choice.because.of(language)),
        );
    }
}

fn said(english: &str, language: Language) -> String {
    let both = Both::of(english);
    escaped(&match language {
        Language::English => both.en,
        Language::Chinese => both.zh.unwrap_or(both.en),
    })
}

fn storm(body: &mut String, taught: &Taught<'_>, language: Language) {
    let (run, words) = (taught.shown.run, words(language));
    let subject = Subject::of(&run.history, &run.judgement);
    let _ = writeln!(
        body,
        "<h2>{}</h2>\n<details class=\"reveal\"><summary>{}</summary>",
        words.what_happened, words.show
    );
    if let Some(subject) = &subject {
        let story = Story::of(&run.history, &run.plan, subject);
        body.push_str("<ol class=\"story\">\n");
        for step in &story.steps {
            let class = match step.mark {
                Mark::None => "",
                Mark::Fault => "fault",
                Mark::Wrong => "bad",
                Mark::Held => "held",
            };
            let _ = write!(
                body,
                "<li class=\"{class}\"><span class=\"time\">{}.{:03} s</span> <b>{}</b> {}",
                step.at_us / 1_000_000,
                step.at_us / 1_000 % 1_000,
                said(&step.who, language),
                said(&step.what, language),
            );
            if !step.outcome.is_empty() {
                let _ = write!(
                    body,
                    " <span class=\"outcome\">{}</span>",
                    said(&step.outcome, language)
                );
            }
            if !step.remark.is_empty() {
                let _ = write!(body, " <strong>← {}</strong>", said(&step.remark, language));
            }
            body.push_str("</li>\n");
        }
        body.push_str("</ol>\n");
    } else {
        let _ = writeln!(body, "<p>{}</p>", nothing_wrong(run, language));
    }
    verdict(body, taught, subject.as_ref(), language);
    let code = if language == Language::Chinese { "zh" } else { "en" };
    let id = &taught.lesson.id;
    let _ = writeln!(
        body,
        "<p><a href=\"runs/{id}.html#lang={code}\">{}</a><br><a href=\"plans/{id}.toml\">{}</a></p>\n\
         </details>",
        words.in_the_page, words.the_plan
    );
}

fn verdict(
    body: &mut String,
    taught: &Taught<'_>,
    subject: Option<&Subject<'_>>,
    language: Language,
) {
    let (run, words) = (taught.shown.run, words(language));
    let verdict = run.judgement.verdict;
    let _ = writeln!(body, "<dl>\n<dt>{}</dt><dd>{}</dd>", words.verdict, badge(verdict, language));
    if let Some(subject) = subject {
        let _ = writeln!(body, "<dt></dt><dd>{}</dd>", said(&subject.finding.sentence(), language));
        if let Some(effect) = block::effect(&run.history, subject) {
            let _ = writeln!(body, "<dt>{}</dt><dd>{}</dd>", words.effect, said(&effect, language));
        }
        if !verdict.is_safe() {
            let why = why::why(&run.history, &run.plan, subject);
            let _ = writeln!(body, "<dt>{}</dt><dd>{}</dd>", words.why, said(&why, language));
        }
    }
    if let Some(confirmation) = taught.shown.confirmation {
        let told = said(&confirmation.to_string(), language);
        let _ = writeln!(body, "<dt>{}</dt><dd>{told}</dd>", words.reference);
    }
    body.push_str("</dl>\n");
}

fn badge(verdict: Verdict, language: Language) -> String {
    let class = if verdict.is_safe() { "safe" } else { "violation" };
    format!("<span class=\"badge {class}\">{}</span>", escaped(verdict.word(language)))
}

/// The curve as a table whose bars are drawn: it is read aloud as it is seen.
fn curve(body: &mut String, knob: &Knob, points: &[Point], language: Language) {
    let words: &Words = words(language);
    let runs = points.first().map_or(0, |point| point.runs);
    let title = marked(knob.title.of(language));
    let _ = writeln!(
        body,
        "<h2>{}: {title}</h2>\n<p class=\"small\">{}: {runs} {}</p>\n<table>\n<thead><tr><th \
         scope=\"col\"><code>{}</code></th><th scope=\"col\">{}</th></tr></thead>\n<tbody>",
        words.knob,
        words.measured,
        words.each_other_draws,
        escaped(&knob.set),
        words.failed,
    );
    for point in points {
        let width = f64::from(point.failed) * 240.0 / f64::from(point.runs.max(1));
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\"><code>{}</code></th><td><svg width=\"244\" height=\"14\" \
             aria-hidden=\"true\"><rect class=\"whole\" x=\"1\" y=\"1\" width=\"241\" \
             height=\"12\"/><rect class=\"share\" x=\"1\" y=\"1\" width=\"{width:.0}\" \
             height=\"12\"/></svg> {} / {}</td></tr>",
            escaped(&point.value),
            point.failed,
            point.runs,
        );
    }
    body.push_str("</tbody>\n</table>\n");
    paragraphs(body, &knob.text, language);
}

fn exercise(body: &mut String, taught: &Taught<'_>, language: Language) {
    let (lesson, words) = (taught.lesson, words(language));
    let _ = writeln!(body, "<h2>{}</h2>", words.exercise);
    paragraphs(body, &lesson.exercise, language);
    let _ = writeln!(body, "<pre>lockstorm lesson run {} --set KEY=VALUE</pre>", lesson.id);
    for (fix, verdict) in lesson.fixes.iter().zip(taught.fixes) {
        let Fix { title, set, because, .. } = fix;
        let flags: Vec<String> = set.iter().map(|set| format!("--set {set}")).collect();
        let _ = writeln!(
            body,
            "<details class=\"choice\"><summary>{}</summary><p><code>{}</code> {}</p><p>{}</p>\
             </details>",
            marked(title.of(language)),
            escaped(&flags.join(" ")),
            badge(*verdict, language),
            marked(because.of(language)),
        );
    }
}

/// A text of a lesson: what stands between backticks is code, between stars it is stressed. A
/// sign without its other is itself.
fn marked(text: &str) -> String {
    let code = paired(&escaped(text), '`', "code");
    // No star within code is a sign.
    let parts =
        code.split("<code>").enumerate().map(|(n, part)| match part.split_once("</code>") {
            Some((code, rest)) if n > 0 => {
                format!("<code>{code}</code>{}", paired(rest, '*', "em"))
            }
            _ => paired(part, '*', "em"),
        });
    parts.collect()
}

fn paired(text: &str, sign: char, element: &str) -> String {
    let parts: Vec<&str> = text.split(sign).collect();
    let mut marked = String::with_capacity(text.len());
    for (n, part) in parts.iter().enumerate() {
        match (n % 2 == 1, n + 1 < parts.len()) {
            (true, true) => {
                let _ = write!(marked, "<{element}>{part}</{element}>");
            }
            (true, false) => marked.extend([sign.to_string().as_str(), *part]),
            (false, _) => marked.push_str(part),
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_marks_only_in_pairs_and_never_in_code() {
        insta::assert_snapshot!(
            marked("`SELECT *` is *not* `a < b`, 3 * 4, a lone ` too"),
            @"<code>SELECT *</code> is <em>not</em> <code>a &lt; b</code>, 3 * 4, a lone ` too"
        );
    }
}
