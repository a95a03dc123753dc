//! The matrix as one page: no script, nothing that is fetched, both languages.

use super::words::words;
use super::{described, families, head, of_family, rows, sign};
use crate::check::{Language, Verdict};
use crate::matrix::{Cell, Matrix};
use crate::report::html::escaped;

const STYLE: &str = include_str!("page.css");

/// Both languages of a text; the page shows the one that is chosen.
fn both(english: &str, chinese: &str) -> String {
    format!(
        "<span class=\"en\" lang=\"en\">{}</span><span class=\"zh\" lang=\"zh-CN\">{}</span>",
        escaped(english),
        escaped(chinese)
    )
}

fn in_both(text: impl Fn(Language) -> String) -> String {
    both(&text(Language::English), &text(Language::Chinese))
}

/// The page.
pub fn page(matrix: &Matrix) -> String {
    let word = |name: fn(&super::Words) -> &'static str| in_both(|l| name(words(l)).to_owned());
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <input type=\"checkbox\" id=\"zh\"><label for=\"zh\">中文 / English</label>\n<h1>{}</h1>\n\
         <p>{}</p>\n<p>{}</p>\n",
        words(Language::English).title,
        word(|w| w.title),
        in_both(|language| head(words(language), matrix)),
        word(|w| w.legend),
    );
    out.push_str(&table(matrix));
    for row in rows(matrix) {
        let (lock, fence) = (escaped(row.lock), row.fence.name());
        out.push_str(&format!(
            "<h2>{lock} · {} {fence} · {}</h2>\n<dl>\n",
            word(|w| w.fence),
            row.scenario
        ));
        for cell in row.cells {
            out.push_str(&details(matrix, cell));
        }
        out.push_str("</dl>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// Where a cell's details are on the page.
fn anchor(cell: &Cell) -> String {
    let place = &cell.place;
    format!("{}.{}.{}", place.lock.replace('/', "-"), place.fence.name(), place.family)
}

fn class(cell: &Cell) -> &'static str {
    match cell.verdict() {
        Verdict::Violation => "bad",
        Verdict::Safe | Verdict::SafeByFence => "good",
        Verdict::Inert => "inert",
        Verdict::Unknown => "unknown",
        Verdict::NotExpressible | Verdict::Internal | Verdict::Nondeterminism => "ours",
    }
}

fn table(matrix: &Matrix) -> String {
    let families = families(matrix);
    let mut out = String::from("<table>\n<thead><tr><th></th><th></th>");
    for family in &families {
        let title = format!("{} / {}", family.english, family.chinese);
        let (title, name) = (escaped(&title), escaped(family.name));
        out.push_str(&format!("<th scope=\"col\"><span title=\"{title}\">{name}</span></th>"));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows(matrix) {
        let (lock, fence) = (escaped(row.lock), row.fence.name());
        out.push_str(&format!("<tr><th scope=\"row\">{lock}</th><th>{fence}</th>"));
        for family in &families {
            let cell = of_family(&row, family);
            let text = escaped(&sign(cell));
            out.push_str(&match cell {
                Some(cell) => {
                    format!(
                        "<td class=\"{}\"><a href=\"#{}\">{text}</a></td>",
                        class(cell),
                        anchor(cell)
                    )
                }
                None => format!("<td>{text}</td>"),
            });
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
    out
}

fn details(matrix: &Matrix, cell: &Cell) -> String {
    let family = families(matrix).into_iter().find(|family| family.name == cell.place.family);
    let what = family.map_or(String::new(), |family| in_both(|l| described(family, l).to_owned()));
    let verdict = in_both(|language| cell.verdict().word(language).to_owned());
    let said = in_both(|language| words(language).said(cell, matrix.unfenced(cell)));
    let witness = cell.witness.as_ref().map_or(String::new(), |witness| {
        format!("<br><code>lockstorm replay {}</code>", escaped(&witness.capsule))
    });
    format!(
        "<dt id=\"{}\">{}: {what}</dt>\n<dd><b class=\"{}\">{verdict}</b> {said}{witness}</dd>\n",
        anchor(cell),
        escaped(&cell.place.family),
        class(cell),
    )
}
