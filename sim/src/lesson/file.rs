//! The format of a lesson's file.

use serde::Deserialize;

use super::change;
use super::curve::{Claim, RUNS};
use crate::check::Language;
use crate::plan::{Complaint, Plan, PlanError, file};
use crate::seeds::{self, Expectation, Turmoil};

/// Version of the format.
const SCHEMA: u32 = 1;

/// A text in both languages. Blank lines part its paragraphs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// English.
    pub en: String,
    /// Chinese.
    pub zh: String,
}

impl Text {
    /// In one language.
    pub fn of(&self, language: Language) -> &str {
        match language {
            Language::English => self.en.trim(),
            Language::Chinese => self.zh.trim(),
        }
    }

    /// In one language, by paragraphs.
    pub fn paragraphs(&self, language: Language) -> Vec<String> {
        let paragraphs = self.of(language).split("\n\n");
        paragraphs
            .map(|text| text.split('\n').map(str::trim).collect::<Vec<_>>().join(" "))
            .collect()
    }
}

/// A lesson.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// Its name, which is the file's.
    pub id: String,
    /// What it is called.
    pub title: Text,
    /// What is there and what is done, before anything goes wrong.
    pub scene: Text,
    /// What is asked before the run.
    pub question: Text,
    /// The answers; one is right.
    pub choices: Vec<Choice>,
    /// The storm.
    pub plan: Plan,
    /// What must come of it.
    pub expect: Expectation,
    /// What the reference engine says of it.
    pub turmoil: Turmoil,
    /// What it shows, told after the run.
    pub story: Text,
    /// What can be turned.
    pub knobs: Vec<Knob>,
    /// What is to be mended.
    pub exercise: Text,
    /// What one may try, with what comes of it.
    pub fixes: Vec<Fix>,
    /// What would have to be true for this to be safe.
    pub safe_if: Text,
}

/// An answer to the question.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The answer.
    pub text: Text,
    /// Whether it is the right one.
    #[serde(default)]
    pub right: bool,
    /// Why it is right, or wrong.
    pub because: Text,
}

/// Something to turn, and how often the storm then fails.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// What it is called.
    pub title: Text,
    /// What the curve shows.
    pub text: Text,
    /// What is turned: a setting, or of the n-th fault a field, `fault.1.for`.
    pub set: String,
    /// What is changed besides, `key=value`.
    #[serde(default)]
    pub with: Vec<String>,
    /// Faults in place of the plan's, inline tables of TOML.
    #[serde(default)]
    pub faults: Vec<String>,
    /// How many runs each position has: fewer where a storm takes long.
    #[serde(default = "usual_runs")]
    pub runs: u32,
    /// The positions, in order.
    pub points: Vec<Position>,
}

fn usual_runs() -> u32 {
    RUNS
}

/// A position of a knob.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The value.
    pub value: String,
    /// How often the storm fails there.
    pub fails: Claim,
}

/// A change that somebody would make, and what comes of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// What it is called.
    pub title: Text,
    /// The change, `key=value`.
    pub set: Vec<String>,
    /// The verdict under it.
    pub verdict: String,
    /// Why.
    pub because: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Document {
    schema: u32,
    title: Text,
    scene: Text,
    question: Text,
    choice: Vec<Choice>,
    expect: Expected,
    turmoil: String,
    story: Text,
    #[serde(default)]
    knob: Vec<Knob>,
    exercise: Text,
    fix: Vec<Fix>,
    safe_if: Text,
    plan: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    verdict: String,
    kinds: Vec<String>,
}

impl Lesson {
    /// Reads a lesson from `text`; `id` is its name.
    ///
    /// # Errors
    /// The first thing that is wrong, such as a text without its translation.
    pub fn parse(id: &str, text: &str) -> Result<Lesson, PlanError> {
        let name = format!("the lesson {id}");
        let wrong = |what: String, mend: &str| PlanError::named(&name, Complaint::new(what, mend));
        let document: Document = toml::from_str(text)
            .map_err(|error| wrong(error.to_string(), "see sim/src/lesson/file.rs"))?;
        if document.schema != SCHEMA {
            let what = format!("schema {} is not {SCHEMA}", document.schema);
            return Err(wrong(what, "write schema = 1"));
        }
        let turmoil: Turmoil = document
            .turmoil
            .parse()
            .map_err(|complaint: Complaint| PlanError::named(&name, complaint))?;
        let plan = file::parse(&name, &document.plan.to_string())?;
        let lesson = Lesson {
            id: id.to_owned(),
            title: document.title,
            scene: document.scene,
            question: document.question,
            choices: document.choice,
            plan,
            expect: Expectation { verdict: document.expect.verdict, kinds: document.expect.kinds },
            turmoil,
            story: document.story,
            knobs: document.knob,
            exercise: document.exercise,
            fixes: document.fix,
            safe_if: document.safe_if,
        };
        lesson.checked(&wrong)
    }

    /// What the types do not say.
    fn checked(self, wrong: &impl Fn(String, &str) -> PlanError) -> Result<Lesson, PlanError> {
        if self.choices.iter().filter(|choice| choice.right).count() != 1 {
            return Err(wrong("not one choice is right".to_owned(), "write right = true at one"));
        }
        let verdicts =
            [&self.expect.verdict].into_iter().chain(self.fixes.iter().map(|f| &f.verdict));
        for verdict in verdicts {
            if !seeds::VERDICTS.contains(&verdict.as_str()) {
                let what = format!("there is no verdict {verdict:?}");
                return Err(wrong(what, "write one of those that seed files have"));
            }
        }
        if let Some(kind) = self.expect.kinds.iter().find(|k| !seeds::KINDS.contains(&k.as_str())) {
            return Err(wrong(format!("there is no kind {kind:?}"), "see docs/checkers.md"));
        }
        for fix in &self.fixes {
            change::changed(&self.plan, &change::split_all(&fix.set)?)?;
        }
        if let Some(knob) = self.knobs.iter().find(|knob| knob.runs == 0) {
            return Err(wrong(format!("the knob {:?} has no runs", knob.set), "leave runs out"));
        }
        for knob in &self.knobs {
            for point in &knob.points {
                knob.plan(&self.plan, &point.value)?;
            }
        }
        Ok(self)
    }

    /// The letter and the text of the answer that is right.
    pub fn right(&self) -> usize {
        self.choices.iter().position(|choice| choice.right).unwrap_or(0)
    }
}

impl Knob {
    /// `plan` with the knob at `value`.
    ///
    /// # Errors
    /// A plan that is not possible.
    pub fn plan(&self, plan: &Plan, value: &str) -> Result<Plan, PlanError> {
        let mut plan = plan.clone();
        if !self.faults.is_empty() {
            plan.faults.clear();
            plan = file::with_faults("faults", &plan, &self.faults)?;
        }
        let mut changes = change::split_all(&self.with)?;
        changes.push((self.set.clone(), value.to_owned()));
        change::changed(&plan, &changes)
    }
}
