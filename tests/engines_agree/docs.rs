//! The table of docs/engines.md, written from the behaviours and deviations.

use std::fmt::Write;
use std::path::Path;

use crate::{ENGINES, behaviours, deviations};

const BEGIN: &str = "<!-- written by tests/engines_agree.rs: begin -->\n";
const END: &str = "<!-- written by tests/engines_agree.rs: end -->";
const UPDATE: &str = "LOCKSTORM_UPDATE_DOCS";

/// The document has this table; with [`UPDATE`] set, it is made so.
pub fn check() -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/engines.md");
    let document = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let (Some(begin), Some(end)) = (document.find(BEGIN), document.find(END)) else {
        return Err(format!("docs/engines.md has no lines `{}` and `{END}`", BEGIN.trim()));
    };
    let table = table();
    if document[begin + BEGIN.len()..end] == table {
        return Ok(());
    }
    if std::env::var_os(UPDATE).is_none() {
        return Err(format!("docs/engines.md differs; write it with {UPDATE}=1"));
    }
    let updated = format!("{}{table}{}", &document[..begin + BEGIN.len()], &document[end..]);
    std::fs::write(&path, updated).map_err(|error| error.to_string())
}

fn table() -> String {
    let behaviours = behaviours::all();
    let mut table = String::new();
    let mut group = "";
    let heads = ENGINES.map(|engine| format!("`{engine}`")).join(" | ");
    for behaviour in &behaviours {
        if behaviour.group != group {
            group = behaviour.group;
            let _ = write!(
                table,
                "\n### {group}\n\n| behaviour | Linux | {heads} |\n|---|---|---|---|---|\n"
            );
        }
        let cell = |engine| match deviations::of(engine, behaviour.name) {
            Some(deviation) => format!("**{}**", deviation.text),
            None => "✓".to_owned(),
        };
        let (question, answer) = (behaviour.question, behaviour.answer);
        let cells = ENGINES.map(cell).join(" | ");
        let _ = writeln!(table, "| {question} | {answer} | {cells} |");
    }
    table.push('\n');
    table
}
