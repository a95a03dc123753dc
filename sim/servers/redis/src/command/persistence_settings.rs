//! What `CONFIG GET` and `CONFIG SET` know of what is kept on the disk. What is set holds
//! until the server starts again.

use super::super::codec::number::parse_integer;
use super::super::persistence::append::Phase;
use super::super::persistence::{AppendFsync, SaveRule, rewrite};
use super::super::state::State;
use super::{Call, Failure, Outcome, word};

/// All of it: names and values.
pub(super) fn all(state: &State) -> [(&'static str, String); 5] {
    let (append, snapshots) = (&state.kept.append, &state.kept.snapshots);
    let yes_or_no = |value| if value { "yes".to_owned() } else { "no".to_owned() };
    let rules = snapshots.rules.iter().map(|rule| format!("{} {}", rule.after_s, rule.changes));
    [
        ("aof-load-truncated", yes_or_no(append.load_truncated)),
        ("appendfsync", append.policy.name().to_owned()),
        ("appendonly", yes_or_no(append.is_on())),
        ("save", rules.collect::<Vec<_>>().join(" ")),
        ("stop-writes-on-bgsave-error", yes_or_no(snapshots.stop_writes)),
    ]
}

/// A change that was asked for.
pub(super) enum Change {
    AppendOnly(bool),
    AppendFsync(AppendFsync),
    Save(Vec<SaveRule>),
    StopWrites(bool),
}

impl Change {
    /// The change, if it is one of these settings.
    pub(super) fn parse(name: &[u8], value: &[u8]) -> Result<Option<Change>, Failure> {
        let change = match name.to_ascii_lowercase().as_slice() {
            b"appendonly" => Change::AppendOnly(flag("appendonly", value)?),
            b"appendfsync" => {
                let policy = AppendFsync::find(value).ok_or_else(|| {
                    refusal(
                        "appendfsync",
                        "argument(s) must be one of the following: \
                                            everysec, always, no",
                    )
                })?;
                Change::AppendFsync(policy)
            }
            b"save" => Change::Save(
                rules(value).ok_or_else(|| refusal("save", "Invalid save parameters"))?,
            ),
            b"stop-writes-on-bgsave-error" => {
                Change::StopWrites(flag("stop-writes-on-bgsave-error", value)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(change))
    }

    /// Makes it.
    pub(super) fn make(self, call: &mut Call<'_>) -> Outcome {
        let kept = &mut call.state.kept;
        match self {
            Change::AppendFsync(policy) => kept.append.policy = policy,
            Change::Save(rules) => kept.snapshots.rules = rules,
            Change::StopWrites(stop) => kept.snapshots.stop_writes = stop,
            Change::AppendOnly(true) if kept.append.phase == Phase::Off => {
                if !rewrite::turn_on(call.shared, call.state) {
                    return Err(refusal("appendonly", "this server has no disk"));
                }
            }
            Change::AppendOnly(false) if kept.append.phase != Phase::Off => {
                rewrite::turn_off(call.shared, call.state);
            }
            Change::AppendOnly(_) => {}
        }
        Ok(())
    }
}

fn refusal(name: &str, why: &str) -> Failure {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}").into()
}

fn flag(name: &str, value: &[u8]) -> Result<bool, Failure> {
    match word(value).as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(refusal(name, "argument must be 'yes' or 'no'")),
    }
}

/// Pairs of seconds and changes, or nothing.
fn rules(value: &[u8]) -> Option<Vec<SaveRule>> {
    let words: Vec<&[u8]> =
        value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let pairs = words.chunks(2).map(|pair| {
        let [after_s, changes] = pair else { return None };
        let after_s = parse_integer(after_s).filter(|after_s| *after_s >= 1)?;
        let changes = u64::try_from(parse_integer(changes)?).ok()?;
        Some(SaveRule { after_s, changes })
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_pairs() {
        let one = SaveRule { after_s: 60, changes: 1_000 };
        assert_eq!(rules(b" 60  1000"), Some(vec![one]));
        assert_eq!(rules(b""), Some(Vec::new()));
        for bad in ["60", "0 1", "60 x", "60 -1", "60 1 2"] {
            assert_eq!(rules(bad.as_bytes()), None, "{bad}");
        }
    }
}
