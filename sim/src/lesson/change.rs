//! Changes a plan by `key=value`: every setting that `--set` knows, the lock's name, and of the
//! n-th fault (from 1) a field, `fault.2.for=3s` (`none` leaves it out), or the fault itself,
//! `fault.2=none`.

use crate::plan::file::{self, inline_fault, setting};
use crate::plan::{Complaint, Plan, PlanError};

/// Each of `changes` in its two halves.
///
/// # Errors
/// One has no `=`.
pub fn split_all(changes: &[String]) -> Result<Vec<(String, String)>, PlanError> {
    let split = |change: &String| {
        setting::split(change).map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    changes.iter().map(split).collect()
}

/// `plan` after all of `changes`; it must be possible then, not in between.
///
/// # Errors
/// Unknown keys, values that cannot be, a plan that becomes impossible.
pub fn changed(plan: &Plan, changes: &[(String, String)]) -> Result<Plan, PlanError> {
    let mut plan = plan.clone();
    let mut faults: Vec<Option<String>> = plan.faults.iter().map(inline_fault).map(Some).collect();
    let mut settings: Vec<(&str, &str)> = Vec::new();
    for (key, value) in changes {
        match key.split('.').collect::<Vec<_>>()[..] {
            ["fault", number] => *nth(&mut faults, key, number)? = removed(key, value)?,
            ["fault", number, field] => {
                let fault = nth(&mut faults, key, number)?;
                *fault =
                    fault.as_deref().map(|text| with_field(key, text, field, value)).transpose()?;
            }
            ["lock", "name"] => value.clone_into(&mut plan.lock.name),
            _ => settings.push((key.as_str(), value.as_str())),
        }
    }
    plan.faults.clear();
    let plan = plan.with_settings(&settings)?;
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    file::with_faults("--set", &plan, &faults)
}

fn nth<'f>(
    faults: &'f mut [Option<String>],
    key: &str,
    number: &str,
) -> Result<&'f mut Option<String>, PlanError> {
    let count = faults.len();
    let position = number.parse().ok().and_then(|number: usize| number.checked_sub(1));
    match position.filter(|position| *position < count) {
        Some(position) => Ok(&mut faults[position]),
        None => {
            let mend = match count {
                0 => "this plan has no fault".to_owned(),
                _ => format!("faults are numbered from 1 to {count}"),
            };
            let what = format!("there is no fault {number}");
            Err(PlanError::named(format!("--set {key}"), Complaint::new(what, mend)))
        }
    }
}

fn removed(key: &str, value: &str) -> Result<Option<String>, PlanError> {
    match value {
        "none" => Ok(None),
        _ => {
            let mend = "write a field, such as fault.1.for=3s, or none to leave the fault out";
            let what = format!("a fault is not {value:?}");
            Err(PlanError::named(format!("--set {key}"), Complaint::new(what, mend)))
        }
    }
}

/// The inline table `fault` with `field` set.
fn with_field(key: &str, fault: &str, field: &str, value: &str) -> Result<String, PlanError> {
    let wrong = |error: toml::de::Error| {
        let complaint = Complaint::new(error.message().to_owned(), "see docs/ for the faults");
        PlanError::named(format!("--set {key}"), complaint)
    };
    let document: toml::Table = format!("fault = {fault}").parse().map_err(wrong)?;
    let mut fields =
        document.get("fault").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let value = match (value, value.parse::<i64>()) {
        ("none", _) => None,
        ("true" | "false", _) => Some(toml::Value::Boolean(value == "true")),
        (_, Ok(number)) => Some(toml::Value::Integer(number)),
        _ => Some(toml::Value::String(value.to_owned())),
    };
    match value {
        Some(value) => fields.insert(field.to_owned(), value),
        None => fields.remove(field),
    };
    Ok(toml::Value::Table(fields).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Fence, Micros, scenario};

    fn plan() -> Plan {
        let plan = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
        let faults = [
            "{ kind = \"pause\", node = \"app-1\", at = \"1s\", for = \"2s\" }".to_owned(),
            "{ kind = \"machine-crash\", node = \"redis-1\", at = \"2s\" }".to_owned(),
        ];
        file::with_faults("test", &plan, &faults).unwrap()
    }

    fn set(changes: &[&str]) -> Result<Plan, String> {
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        let changes = split_all(&changes).map_err(|error| error.to_string())?;
        changed(&plan(), &changes).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_and_faults_are_changed() {
        let plan = set(&["lock.lease=2s", "fault.1.for=3s", "fault.2=none"]).unwrap();
        assert_eq!(plan.lock.lease, Micros::from_secs(2));
        assert_eq!(plan.faults.len(), 1);
        assert_eq!(plan.faults[0].lasts, Some(Micros::from_secs(3)));
        let plan = set(&["lock.name=redis-wait", "fence=full"]).unwrap();
        assert_eq!((plan.lock.name.as_str(), plan.fence), ("redis-wait", Fence::Full));
    }

    #[test]
    fn what_cannot_be_is_one_error_with_its_place() {
        for bad in ["fault.3.for=1s", "fault.1=pause", "fault.1.for=soon", "lock.lese=2s", "fence"]
        {
            let error = set(&[bad]).unwrap_err();
            assert!(error.contains("--set"), "{error}");
            assert!(!error.contains("panicked"), "{error}");
        }
    }
}
