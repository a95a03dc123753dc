//! The kept plans: files under `seeds/` and what is expected of them.
//!
//! A seed file is a plan with its story: what it is called, which verdict it must
//! have, what it was found with, and whether turmoil confirmed it. The plan is whole,
//! so a file keeps its meaning when the generator changes; its seed decides draws
//! only. Errors are those of plans: file, line, what is wrong, the mend.
//!
//! Order of things: the format here, [`folder`] reads whole folders and writes new
//! files, never over old ones, [`check`](mod@check) runs them, [`duplicates`] finds those
//! that show the same failure.

pub mod check;
pub mod duplicates;
pub mod folder;

use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use toml::de::DeTable;

use crate::plan::complaint::{listed, quoted};
use crate::plan::file::document::{Document, Entry, entries, find, raw};
use crate::plan::file::{load_text, name_of, read, write};
use crate::plan::keys::toml_text;
use crate::plan::{Complaint, Plan, PlanError};

pub use folder::{Shelf, list, load_shelf, save};

/// Version of the seed file schema. Files of other versions are refused.
pub const SCHEMA: u32 = 1;

/// Verdicts that a file can expect; DESIGN §5 defines them.
pub const VERDICTS: [&str; 6] =
    ["safe", "safe-by-fence", "violation", "unknown", "inert", "not-expressible"];

/// Kinds of findings that a file can expect; DESIGN §5 defines them.
pub const KINDS: [&str; 18] = [
    "double-grant",
    "effect-interleaved",
    "stale-effect",
    "oversell",
    "undersell",
    "duplicate-order",
    "lost-order",
    "stock-not-conserved",
    "leaked-lock",
    "stuck-waiter",
    "deadlock",
    "unfair",
    "wrong-release",
    "loss-not-told",
    "token-regression",
    "false-reject",
    "grant-lost",
    "overstay",
];

/// One file under `seeds/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedFile {
    /// Its name: the file's, without `.toml`.
    pub id: String,
    /// What it shows, in one line.
    pub title: Title,
    /// What running it must give.
    pub expect: Expectation,
    /// What it was found with.
    pub found: Found,
    /// What the reference engine says of it.
    pub turmoil: Turmoil,
    /// The whole plan.
    pub plan: Plan,
}

/// A line in both languages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// English.
    pub en: String,
    /// Chinese.
    pub zh: String,
}

/// What running a plan must give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// One of [`VERDICTS`].
    pub verdict: String,
    /// Kinds of findings that must be among those found; of [`KINDS`].
    pub kinds: Vec<String>,
}

/// What a plan was found with. The trace may change with the program; the verdict
/// must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The program's version.
    pub version: String,
    /// The trace hash, as the program prints it.
    pub trace_hash: String,
    /// Where it is discussed.
    pub issue: Option<String>,
}

/// What turmoil says of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turmoil {
    /// The same verdict and kinds.
    Confirmed,
    /// It has no means for a part of the plan: this one.
    NotExpressible(String),
}

impl Expectation {
    /// Whether a run met it.
    ///
    /// # Errors
    /// What differs, for people.
    pub fn met_by(&self, verdict: &str, kinds: &[&str]) -> Result<(), String> {
        if self.verdict != verdict {
            return Err(format!("expected the verdict {}, got {verdict}", self.verdict));
        }
        match self.kinds.iter().find(|kind| !kinds.contains(&kind.as_str())) {
            Some(missing) => Err(format!("expected {missing} among the findings, got {}", {
                if kinds.is_empty() { "none".to_owned() } else { listed(kinds.iter().copied()) }
            })),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Turmoil {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Turmoil::Confirmed => formatter.write_str("confirmed"),
            Turmoil::NotExpressible(part) => write!(formatter, "not expressible: {part}"),
        }
    }
}

impl FromStr for Turmoil {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        match text.strip_prefix("not expressible: ").map(str::trim) {
            Some(part) if !part.is_empty() => Ok(Turmoil::NotExpressible(part.to_owned())),
            None if text == "confirmed" => Ok(Turmoil::Confirmed),
            _ => Err(Complaint::new(
                format!("turmoil cannot have said {}", quoted(text)),
                "write \"confirmed\", or \"not expressible: \" and what",
            )),
        }
    }
}

/// Whether `id` can name a file everywhere: lower-case letters, digits, dashes.
pub fn check_id(id: &str) -> Result<(), Complaint> {
    const LONGEST: usize = 80;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !id.is_empty() && id.len() <= LONGEST && id.bytes().all(fits) && !id.starts_with('-') {
        return Ok(());
    }
    Err(Complaint::new(
        format!("{} is no id", quoted(id)),
        "write lower-case letters, digits and dashes, such as \"redis-failover-oversell-001\"",
    ))
}

/// Whether the file at `path` is a seed file: one with a plan inside, where a plan file
/// is one itself.
///
/// # Errors
/// A file that cannot be read, or is not TOML.
pub fn is_seed_file(path: &Path) -> Result<bool, PlanError> {
    let text = load_text(path)?;
    let name = name_of(path);
    let root = Document { name: &name, text: &text }.root()?;
    Ok(find(&root, "plan").is_some())
}

impl SeedFile {
    /// Reads a seed file from `text`; `name` is what errors call it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(name: &str, text: &str) -> Result<SeedFile, PlanError> {
        let document = Document { name, text };
        let root = document.root()?;
        Reader { document: &document, table: &root, span: 0..text.len().min(1) }.seed_file()
    }

    /// Reads the seed file at `path`, whose name must be its id.
    ///
    /// # Errors
    /// Those of [`SeedFile::parse`], and files that cannot be read.
    pub fn load(path: &Path) -> Result<SeedFile, PlanError> {
        let name = path.display().to_string();
        let text = load_text(path)?;
        let file = SeedFile::parse(&name, &text)?;
        if path.file_stem().is_some_and(|stem| stem != file.id.as_str()) {
            let document = Document { name: &name, text: &text };
            let root = document.root()?;
            let span = find(&root, "id").map_or(0..1, |entry| entry.span);
            let complaint = Complaint::new(
                format!("the id {} is not the file's name", quoted(&file.id)),
                format!("rename the file to {}.toml, or mend the id", file.id),
            );
            return Err(document.error(span, complaint));
        }
        Ok(file)
    }

    /// The file's canonical text; [`SeedFile::parse`] gives the same back.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let kinds: Vec<String> = self.expect.kinds.iter().map(|kind| toml_text(kind)).collect();
        let issue = self.found.issue.as_deref().map(toml_text);
        let issue = issue.map(|issue| format!(", issue = {issue}")).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "schema = {SCHEMA}\nid = {}\ntitle = {{ en = {}, zh = {} }}\nexpect = {{ verdict = {}, \
             kinds = [{}] }}\nfound = {{ version = {}, trace-hash = {}{issue} }}\nturmoil = \
             {}\n\n",
            toml_text(&self.id),
            toml_text(&self.title.en),
            toml_text(&self.title.zh),
            toml_text(&self.expect.verdict),
            kinds.join(", "),
            toml_text(&self.found.version),
            toml_text(&self.found.trace_hash),
            toml_text(&self.turmoil.to_string()),
        );
        write::write_at(&mut out, "plan", &self.plan);
        out
    }
}

/// A table of a seed file, being read.
struct Reader<'a, 't> {
    document: &'a Document<'a>,
    table: &'t DeTable<'t>,
    span: Range<usize>,
}

impl<'a, 't> Reader<'a, 't> {
    fn seed_file(&self) -> Result<SeedFile, PlanError> {
        self.document.check_schema(self.table, self.span.clone(), "seed file", SCHEMA)?;
        let keys = ["schema", "id", "title", "expect", "found", "turmoil", "plan"];
        self.only("a seed file", &keys)?;
        let id = self.read("id", |text| check_id(text).map(|()| text.to_owned()))?;
        let title = self.part("title", &["en", "zh"])?;
        let title = Title { en: title.line("en")?, zh: title.line("zh")? };
        let expect = self.part("expect", &["verdict", "kinds"])?.expectation()?;
        let found = self.part("found", &["version", "trace-hash", "issue"])?;
        let issue = match find(found.table, "issue") {
            Some(_) => Some(found.line("issue")?),
            None => None,
        };
        let found =
            Found { version: found.line("version")?, trace_hash: found.line("trace-hash")?, issue };
        let turmoil = self.read("turmoil", str::parse)?;
        let plan = self.entry("plan")?;
        let table = self.document.table(&plan, how_to_write("plan"))?;
        let plan = read::plan(self.document, table, plan.span)?;
        Ok(SeedFile { id, title, expect, found, turmoil, plan })
    }

    fn only(&self, place: &str, keys: &[&str]) -> Result<(), PlanError> {
        match entries(self.table).iter().find(|entry| !keys.contains(&entry.key)) {
            Some(entry) => Err(self.document.unknown_key(entry, place, keys)),
            None => Ok(()),
        }
    }

    fn entry(&self, key: &str) -> Result<Entry<'t>, PlanError> {
        find(self.table, key).ok_or_else(|| {
            let complaint = Complaint::new(format!("there is no {key}"), how_to_write(key));
            self.document.error(self.span.clone(), complaint)
        })
    }

    /// The table under `key`, which has no keys but these.
    fn part(&self, key: &str, keys: &[&str]) -> Result<Reader<'a, 't>, PlanError> {
        let entry = self.entry(key)?;
        let table = self.document.table(&entry, how_to_write(key))?;
        let part = Reader { document: self.document, table, span: entry.span };
        part.only(key, keys)?;
        Ok(part)
    }

    fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, Complaint>,
    ) -> Result<T, PlanError> {
        let entry = self.entry(key)?;
        raw(entry.value)
            .text()
            .and_then(read)
            .map_err(|complaint| self.document.error(entry.span, complaint))
    }

    /// A text that says something, on one line.
    fn line(&self, key: &str) -> Result<String, PlanError> {
        self.read(key, |text| {
            if text.trim().is_empty() || text.contains(char::is_control) {
                return Err(Complaint::new(
                    format!("{key} is not a line"),
                    "write one line of text",
                ));
            }
            Ok(text.to_owned())
        })
    }

    fn expectation(&self) -> Result<Expectation, PlanError> {
        let verdict = self.read("verdict", |text| known("verdict", text, &VERDICTS))?;
        let entry = self.entry("kinds")?;
        let wrong = |span: Range<usize>, complaint| self.document.error(span, complaint);
        let Some(array) = entry.value.as_array() else {
            let complaint = Complaint::new("kinds is a list", "write kinds = [\"double-grant\"]");
            return Err(wrong(entry.span, complaint));
        };
        let mut kinds: Vec<String> = Vec::new();
        for item in array.iter() {
            let kind = raw(item.get_ref())
                .text()
                .and_then(|text| known("kind of finding", text, &KINDS))
                .map_err(|complaint| wrong(item.span(), complaint))?;
            kinds.push(kind);
        }
        if verdict == "violation" && kinds.is_empty() {
            let complaint =
                Complaint::new("a violation of no kind", "name the kinds that must be found");
            return Err(wrong(entry.span, complaint));
        }
        Ok(Expectation { verdict, kinds })
    }
}

/// How each key is written.
fn how_to_write(key: &str) -> &'static str {
    match key {
        "id" => "write id = \"…\", the file's name without .toml",
        "title" | "en" | "zh" => "write title = { en = \"…\", zh = \"…\" }",
        "expect" | "verdict" | "kinds" => {
            "write expect = { verdict = \"violation\", kinds = [\"double-grant\"] }"
        }
        "turmoil" => "write turmoil = \"confirmed\", or \"not expressible: \" and what",
        "plan" => "write [plan], and the whole plan below it",
        _ => "write found = { version = \"…\", trace-hash = \"…\" }",
    }
}

fn known(noun: &str, text: &str, known: &[&str]) -> Result<String, Complaint> {
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(Complaint::unknown(noun, text, known.iter().copied()))
}

#[cfg(test)]
mod tests;
