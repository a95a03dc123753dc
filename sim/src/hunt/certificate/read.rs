//! Reads a certificate's file. What it does not understand it names with its line.

use std::collections::BTreeMap;

use super::{BROKE, Certificate, Head, Outcome, UNTRIED};
use crate::check::{Kind, Language, Verdict};

/// The names of a head that two certificates must share.
const SUBJECT: [&str; 5] = ["scenario", "lock", "fence", "engine", "set"];

#[derive(Clone, Copy)]
enum Part {
    Head,
    Moments,
    Pairs,
}

impl Certificate {
    /// Reads what [`Certificate::text`] wrote.
    ///
    /// # Errors
    /// One sentence with the line and the mend.
    pub fn parse(text: &str) -> Result<Certificate, String> {
        let mut certificate = Certificate {
            head: Head { subject: Vec::new(), notes: Vec::new() },
            moments: Vec::new(),
            outcomes: BTreeMap::new(),
        };
        let mut part = Part::Head;
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            part = match line {
                "[moments]" => Part::Moments,
                "[pairs]" => Part::Pairs,
                _ => {
                    certificate.line(part, line).map_err(|why| {
                        let number = index + 1;
                        format!("line {number}: {why}; write the certificate anew with --out")
                    })?;
                    part
                }
            };
        }
        if certificate.head.subject.len() < SUBJECT.len() - 1 {
            return Err("this is no certificate: its head does not say of what; write one with \
                        `lockstorm hunt --strategy certify --out FOLDER`"
                .to_owned());
        }
        Ok(certificate)
    }

    fn line(&mut self, part: Part, line: &str) -> Result<(), String> {
        match part {
            Part::Head => {
                let (name, value) = match SUBJECT.iter().find(|name| is_named(line, name)) {
                    Some(name) => (*name, &line[name.len()..]),
                    None => line.split_at(line.char_indices().nth(10).map_or(line.len(), |c| c.0)),
                };
                let entry = (name.trim_end().to_owned(), value.trim().to_owned());
                let is_subject = SUBJECT.contains(&entry.0.as_str());
                let list = match is_subject {
                    true => &mut self.head.subject,
                    false => &mut self.head.notes,
                };
                list.push(entry);
            }
            Part::Moments => {
                let (moment, anchor) =
                    line.split_once(": ").ok_or("expected `moment: anchor`".to_owned())?;
                self.moments.push((moment.to_owned(), anchor.to_owned()));
            }
            Part::Pairs => {
                let parts: Vec<&str> = line.split(" | ").collect();
                let [moment, fault @ .., outcome] = parts.as_slice() else {
                    return Err("expected `moment | fault | outcome`".to_owned());
                };
                if fault.is_empty() {
                    return Err("expected `moment | fault | outcome`".to_owned());
                }
                let key = ((*moment).to_owned(), fault.join(" | "));
                let outcome = outcome_of(outcome)?;
                if self.outcomes.insert(key, outcome).is_some() {
                    return Err("this pair is there twice".to_owned());
                }
            }
        }
        Ok(())
    }
}

fn is_named(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '))
}

fn outcome_of(text: &str) -> Result<Outcome, String> {
    if let Some(kinds) = text.strip_prefix(BROKE) {
        let kind = |name: &str| {
            let found = Kind::ALL.into_iter().find(|kind| kind.id() == name);
            found.ok_or_else(|| format!("no kind of violation is called \"{name}\""))
        };
        let violations = kinds.trim_start().split(", ").map(kind).collect::<Result<_, _>>()?;
        return Ok(Outcome { verdict: Verdict::Violation, violations, untried: false });
    }
    if text == UNTRIED {
        return Ok(Outcome { verdict: Verdict::Unknown, violations: Vec::new(), untried: true });
    }
    let word = |verdict: &Verdict| verdict.word(Language::English) == text;
    let verdict = Verdict::BY_PRECEDENCE.into_iter().find(word);
    let verdict = verdict.ok_or_else(|| format!("\"{text}\" is no outcome"))?;
    Ok(Outcome { verdict, violations: Vec::new(), untried: false })
}
