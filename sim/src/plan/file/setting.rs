//! Settings from the command line, `--set lock.lease=2s`, held to the same table and
//! rules as files; errors name the flag as their place.

use crate::plan::complaint::{Complaint, listed, nearest, quoted};
use crate::plan::keys::{KEYS, Key, Raw};
use crate::plan::rules::first_problem;
use crate::plan::{Plan, PlanError};

/// Settings that have flags of their own, because they choose what all the others
/// default to.
const OWN_FLAGS: [(&str, &str); 2] = [("scenario", "--scenario"), ("lock.name", "--lock")];

/// Splits `lock.lease=2s`.
///
/// # Errors
/// There is no `=`.
pub fn split(setting: &str) -> Result<(&str, &str), PlanError> {
    setting.split_once('=').map(|(key, value)| (key.trim(), value.trim())).ok_or_else(|| {
        let what = format!("{} has no =", quoted(setting));
        PlanError::named("--set", Complaint::new(what, "write key=value, such as lock.lease=2s"))
    })
}

/// What `--set` can set, in the order of files.
pub fn settable() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| OWN_FLAGS.iter().all(|(own, _)| *own != key.path()))
}

/// Puts one value into the plan, without judging the whole.
pub(crate) fn apply(plan: &mut Plan, name: &str, value: &str) -> Result<(), PlanError> {
    if let Some((_, flag)) = OWN_FLAGS.iter().find(|(own, _)| *own == name) {
        let what = format!("{name} decides what the other settings default to");
        return Err(PlanError::named("--set", Complaint::new(what, format!("use {flag}"))));
    }
    let Some(key) = settable().find(|key| key.path() == name) else {
        return Err(PlanError::named("--set", unknown(name)));
    };
    key.put(plan, Raw::Bare(value))
        .map_err(|complaint| PlanError::named(format!("--set {name}"), complaint))
}

fn unknown(name: &str) -> Complaint {
    if name == "topology.sentinel" {
        return Complaint::new(
            "there is no setting \"topology.sentinel\" any more: sentinels are counted",
            "use topology.sentinels=1 for true, 0 for false (3 is what the scenarios have)",
        );
    }
    let paths: Vec<String> = settable().map(Key::path).collect();
    // `lease` alone means `lock.lease`.
    let full = KEYS.iter().find(|key| key.name == name).map(Key::path);
    let near = full
        .as_deref()
        .or_else(|| nearest(name, paths.iter().map(String::as_str)))
        .map(|near| format!("did you mean {near}? "))
        .unwrap_or_default();
    Complaint::new(
        format!("there is no setting {}", quoted(name)),
        format!("{near}allowed: {}", listed(paths.iter().map(String::as_str))),
    )
}

/// Judges the plan after `settings`; the place is the setting at fault, as far as one
/// of them is.
pub(crate) fn judge(plan: &Plan, settings: &[(&str, &str)]) -> Result<(), PlanError> {
    first_problem(plan).map_err(|problem| {
        let blamed = settings
            .iter()
            .map(|(name, _)| *name)
            .find(|name| problem.at.iter().any(|at| at == name))
            .or_else(|| settings.first().map(|(name, _)| *name).filter(|_| settings.len() == 1));
        let place = blamed.map_or_else(|| "--set".to_owned(), |name| format!("--set {name}"));
        let complaint = match problem.at.first() {
            Some(at) if !problem.at.iter().any(|at| Some(at.as_str()) == blamed) => {
                let what = format!("{at}: {}", problem.complaint.what);
                Complaint::new(what, problem.complaint.mend)
            }
            _ => problem.complaint,
        };
        PlanError::named(place, complaint)
    })
}
