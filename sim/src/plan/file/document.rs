//! A TOML text whose keys and values know where they stand.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::plan::PlanError;
use crate::plan::complaint::{Complaint, listed, nearest, quoted};
use crate::plan::keys::Raw;

/// A text and its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub key: &'a str,
    pub key_span: Range<usize>,
    pub value: &'a DeValue<'a>,
    pub span: Range<usize>,
}

/// Longer files are not plans.
pub const LARGEST_BYTES: usize = 1 << 20;

/// What is wrong with a longer one.
pub fn too_long() -> Complaint {
    let what = format!("the file is longer than {LARGEST_BYTES} bytes");
    Complaint::new(what, "name a plan; is it another file?")
}

impl<'a> Document<'a> {
    /// The whole document's table.
    pub fn root(&self) -> Result<DeTable<'a>, PlanError> {
        if self.text.len() > LARGEST_BYTES {
            return Err(self.error(0..1, too_long()));
        }
        DeTable::parse(self.text).map(Spanned::into_inner).map_err(|error| {
            let span = error.span().unwrap_or(self.text.len()..self.text.len());
            self.error(span.clone(), self.syntax(error.message(), &span))
        })
    }

    /// What the TOML parser found, as a complaint of ours.
    fn syntax(&self, message: &str, span: &Range<usize>) -> Complaint {
        if self.text.get(span.start..).is_none_or(|rest| rest.trim().is_empty()) {
            return Complaint::new("the file ends too early", "complete it, or restore it");
        }
        let what = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let mend =
            if what.starts_with("duplicate key") { "write it once" } else { "mend the TOML here" };
        Complaint::new(what, mend)
    }

    /// An error at these bytes.
    pub fn error(&self, span: Range<usize>, complaint: Complaint) -> PlanError {
        PlanError::in_text(self.name, self.text, span, complaint)
    }

    /// Whether the table is of this program's `schema`.
    pub fn check_schema(
        &self,
        table: &DeTable<'_>,
        table_span: Range<usize>,
        what: &str,
        schema: u32,
    ) -> Result<(), PlanError> {
        let Some(entry) = find(table, "schema") else {
            let complaint = Complaint::new(
                format!("the {what} does not say its schema"),
                format!("write schema = {schema} at its top"),
            );
            return Err(self.error(table_span, complaint));
        };
        match raw(entry.value) {
            Raw::Integer(Some(version)) if version == i64::from(schema) => Ok(()),
            Raw::Integer(Some(version)) if version > i64::from(schema) => {
                let complaint = Complaint::new(
                    format!("the {what} is of the future schema {version}"),
                    format!("this program reads schema {schema}: take a newer one"),
                );
                Err(self.error(entry.span, complaint))
            }
            _ => {
                let complaint = Complaint::new(
                    format!("the {what} is of an unknown schema"),
                    format!("write schema = {schema}"),
                );
                Err(self.error(entry.span, complaint))
            }
        }
    }

    /// An error at a key that nobody knows.
    pub fn unknown_key(&self, entry: &Entry<'_>, place: &str, known: &[&str]) -> PlanError {
        let what = format!("{place} has no key {}", quoted(entry.key));
        let list = listed(known.iter().copied());
        let mend = match nearest(entry.key, known.iter().copied()) {
            Some(near) => format!("did you mean {}? allowed: {list}", quoted(near)),
            None => format!("allowed: {list}"),
        };
        self.error(entry.key_span.clone(), Complaint::new(what, mend))
    }

    /// The value as a table.
    pub fn table<'t>(&self, entry: &Entry<'t>, mend: &str) -> Result<&'t DeTable<'t>, PlanError> {
        entry.value.as_table().ok_or_else(|| {
            let found = kind(entry.value);
            let complaint =
                Complaint::new(format!("{} is a table, found {found}", quoted(entry.key)), mend);
            self.error(entry.span.clone(), complaint)
        })
    }

    /// The value as a list of tables, with their spans.
    pub fn tables<'t>(
        &self,
        entry: &Entry<'t>,
    ) -> Result<Vec<(&'t DeTable<'t>, Range<usize>)>, PlanError> {
        let wrong = |span: Range<usize>, value: &DeValue<'_>| {
            let what = format!("{} is a list of tables, found {}", quoted(entry.key), kind(value));
            let mend = format!("write [[{}]] above each, with double brackets", entry.key);
            self.error(span, Complaint::new(what, mend))
        };
        let Some(array) = entry.value.as_array() else {
            return Err(wrong(entry.key_span.clone(), entry.value));
        };
        array
            .iter()
            .map(|item| match item.get_ref().as_table() {
                Some(table) => Ok((table, item.span())),
                None => Err(wrong(item.span(), item.get_ref())),
            })
            .collect()
    }
}

/// The entries of a table in the order of the text.
pub(crate) fn entries<'t>(table: &'t DeTable<'t>) -> Vec<Entry<'t>> {
    let mut entries: Vec<Entry<'t>> = table.iter().map(|(key, value)| entry(key, value)).collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    entries
}

/// The entry of this key.
pub(crate) fn find<'t>(table: &'t DeTable<'t>, key: &str) -> Option<Entry<'t>> {
    table.get_key_value(key).map(|(key, value)| entry(key, value))
}

fn entry<'t>(
    key: &'t Spanned<std::borrow::Cow<'t, str>>,
    value: &'t Spanned<DeValue<'t>>,
) -> Entry<'t> {
    Entry { key: key.get_ref(), key_span: key.span(), value: value.get_ref(), span: value.span() }
}

/// A value as settings read it.
pub(crate) fn raw<'t>(value: &'t DeValue<'t>) -> Raw<'t> {
    match value {
        DeValue::String(text) => Raw::Text(text),
        DeValue::Integer(integer) => {
            Raw::Integer(i64::from_str_radix(integer.as_str(), integer.radix()).ok())
        }
        DeValue::Float(real) => Raw::Real(real.as_str()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        other => Raw::Other(kind(other)),
    }
}

/// What a value is, for people.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time of day",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
