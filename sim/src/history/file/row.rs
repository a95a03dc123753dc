//! One line: every field that an event can have, and the event made of them.
//!
//! A flat row is read many times faster than tagged enumerations, and says of a
//! missing field which event it is that needs it. Fields that nobody knows are refused
//! (a misspelt optional field would be silence); a known field that the event does not
//! use is allowed.

use std::borrow::Cow;

use lockstorm::lock::Release;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;

use super::error::Complaint;
use crate::history::names::Names;
use crate::history::{
    AcquireOutcome, Attempt, FaultFamily, NO_END, Name, Renewal, StockOperation, What,
};

/// A line as it stands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct Row<'a> {
    pub id: Option<u64>,
    pub at_us: i64,
    pub node: Text<'a>,
    pub cause: Option<u64>,
    what: Tag,
    attempt: Option<AttemptText<'a>>,
    key: Option<Text<'a>>,
    owner: Option<Text<'a>>,
    held_by: Option<Text<'a>>,
    shared: Option<bool>,
    outcome: Option<Text<'a>>,
    token: Option<u64>,
    lease_us: Option<u64>,
    margin_us: Option<u64>,
    reason: Option<Text<'a>>,
    release: Option<Release>,
    how: Option<Text<'a>>,
    session: Option<Text<'a>>,
    records: Option<Vec<(Name, Name)>>,
    offset: Option<u64>,
    master: Option<Text<'a>>,
    from: Option<Text<'a>>,
    to: Option<Text<'a>>,
    epoch: Option<u64>,
    voters: Option<Vec<String>>,
    operation: Option<Text<'a>>,
    left: Option<i64>,
    next_unit: Option<u32>,
    unit: Option<u32>,
    order: Option<Text<'a>>,
    name: Option<Text<'a>>,
    accepted: Option<bool>,
    refusal: Option<Text<'a>>,
    units: Option<u32>,
    sales: Option<Vec<(u32, Name)>>,
    reserved: Option<u32>,
    answer: Option<Text<'a>>,
    message: Option<Text<'a>>,
    incarnation: Option<u32>,
    machine: Option<bool>,
    offset_us: Option<i64>,
    rate_ppm: Option<i64>,
    fault: Option<usize>,
    family: Option<Text<'a>>,
    targets: Option<Vec<String>>,
    description: Option<Text<'a>>,
}

/// Text that is borrowed from the line where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent, bound(deserialize = "'de: 'a"))]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// An attempt as text (`app-1/3`) or as the object that we write.
#[derive(Deserialize)]
#[serde(untagged, bound(deserialize = "'de: 'a"))]
#[serde(expecting = "expected an attempt, such as \"app-1/3\"")]
enum AttemptText<'a> {
    Text(Text<'a>),
    Object { client: Text<'a>, ordinal: u32 },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Tag {
    AcquireInvoked,
    AcquireReturned,
    BeliefEnded,
    ReleaseInvoked,
    ReleaseReturned,
    RenewInvoked,
    RenewReturned,
    RecordSet,
    LeaseBegan,
    WaitBegan,
    WaitEnded,
    RecordRefused,
    RecordExtended,
    RecordReleased,
    RecordExpired,
    RecordReplicated,
    RecordLoaded,
    RecordUnreplicated,
    RecordLost,
    SessionExpired,
    Promoted,
    Demoted,
    Resynchronised,
    MasterDown,
    LeaderElected,
    MasterSwitched,
    Leading,
    SteppedDown,
    BroadcastBroken,
    ReplicationPosition,
    Effect,
    Ledger,
    StockCounted,
    OrderReturned,
    MessageSent,
    MessageDelivered,
    MessageLost,
    NodeStarted,
    NodeCrashed,
    ProgramEnded,
    ClockChanged,
    FaultBegan,
    FaultEnded,
    FaultTouched,
    Healed,
}

type Made<T> = Result<T, Complaint>;

fn need<T>(value: Option<T>, field: &str) -> Made<T> {
    value.ok_or_else(|| {
        Complaint::new(format!("this event needs `{field}`"), "add it; see docs/history.md")
    })
}

fn name(value: Option<Text<'_>>, field: &str, names: &mut Names) -> Made<Name> {
    need(value, field).map(|text| names.of(&text))
}

fn text(value: Option<Text<'_>>, field: &str) -> Made<String> {
    need(value, field).map(|text| text.0.into_owned())
}

/// One of the values of an enumeration.
fn one_of<'de, T: Deserialize<'de>>(value: Option<Text<'_>>, field: &str) -> Made<T> {
    let value = need(value, field)?;
    let value: &str = &value;
    let result =
        T::deserialize(IntoDeserializer::<ValueError>::into_deserializer(value.to_owned()));
    result.map_err(|error| Complaint::new(format!("`{field}`: {error}"), "see docs/history.md"))
}

impl Row<'_> {
    /// The event's kind and facts.
    ///
    /// # Errors
    /// When a field that it needs is missing, or a value is none that there is.
    pub fn what(self, names: &mut Names) -> Made<What> {
        match self.what {
            Tag::AcquireInvoked
            | Tag::AcquireReturned
            | Tag::BeliefEnded
            | Tag::ReleaseInvoked
            | Tag::ReleaseReturned
            | Tag::RenewInvoked
            | Tag::RenewReturned => self.of_client(names),
            Tag::RecordSet
            | Tag::LeaseBegan
            | Tag::WaitBegan
            | Tag::WaitEnded
            | Tag::RecordRefused
            | Tag::RecordExtended
            | Tag::RecordReleased
            | Tag::RecordExpired
            | Tag::RecordReplicated
            | Tag::RecordLoaded
            | Tag::RecordUnreplicated
            | Tag::RecordLost => self.of_record(names),
            Tag::Effect | Tag::Ledger | Tag::StockCounted | Tag::OrderReturned => {
                self.of_resource(names)
            }
            Tag::SessionExpired
            | Tag::Promoted
            | Tag::Demoted
            | Tag::Resynchronised
            | Tag::MasterDown
            | Tag::LeaderElected
            | Tag::MasterSwitched
            | Tag::Leading
            | Tag::SteppedDown
            | Tag::BroadcastBroken
            | Tag::ReplicationPosition => self.of_cluster(),
            _ => self.of_storm(names),
        }
    }

    fn of_client(self, names: &mut Names) -> Made<What> {
        let attempt = attempt(need(self.attempt, "attempt")?, names)?;
        Ok(match self.what {
            Tag::AcquireInvoked => What::AcquireInvoked {
                attempt,
                key: name(self.key, "key", names)?,
                shared: self.shared.unwrap_or(false),
            },
            Tag::AcquireReturned => {
                let key = name(self.key, "key", names)?;
                let outcome = match &*need(self.outcome, "outcome")? {
                    "granted" => AcquireOutcome::Granted {
                        token: self.token,
                        lease_us: self.lease_us.unwrap_or(NO_END),
                        margin_us: self.margin_us.unwrap_or(0),
                    },
                    "busy" => AcquireOutcome::Busy,
                    "timed-out" => AcquireOutcome::TimedOut,
                    "indeterminate" => {
                        AcquireOutcome::Indeterminate { reason: reason(self.reason) }
                    }
                    "failed" => AcquireOutcome::Failed { reason: reason(self.reason) },
                    other => return Err(no_such("outcome", other, ACQUIRE_OUTCOMES)),
                };
                What::AcquireReturned { attempt, key, outcome }
            }
            Tag::BeliefEnded => {
                What::BeliefEnded { attempt, reason: one_of(self.reason, "reason")? }
            }
            Tag::ReleaseInvoked => What::ReleaseInvoked { attempt },
            Tag::ReleaseReturned => {
                What::ReleaseReturned { attempt, release: need(self.release, "release")? }
            }
            Tag::RenewInvoked => What::RenewInvoked { attempt },
            _ => {
                let renewal = match &*need(self.outcome, "outcome")? {
                    "renewed" => Renewal::Renewed,
                    "not-held" => Renewal::NotHeld,
                    "indeterminate" => Renewal::Indeterminate { reason: reason(self.reason) },
                    other => return Err(no_such("outcome", other, RENEWALS)),
                };
                What::RenewReturned { attempt, renewal }
            }
        })
    }

    fn of_record(self, names: &mut Names) -> Made<What> {
        let key = name(self.key, "key", names)?;
        let owner = name(self.owner, "owner", names)?;
        Ok(match self.what {
            Tag::RecordSet => What::RecordSet {
                key,
                owner,
                lease_us: self.lease_us,
                shared: self.shared.unwrap_or(false),
            },
            Tag::LeaseBegan => What::LeaseBegan { key, owner },
            Tag::WaitBegan => What::WaitBegan { key, owner },
            Tag::WaitEnded => What::WaitEnded { key, owner },
            Tag::RecordRefused => {
                What::RecordRefused { key, owner, held_by: name(self.held_by, "held_by", names)? }
            }
            Tag::RecordExtended => {
                What::RecordExtended { key, owner, lease_us: need(self.lease_us, "lease_us")? }
            }
            Tag::RecordReleased => What::RecordReleased { key, owner },
            Tag::RecordExpired => What::RecordExpired { key, owner },
            Tag::RecordReplicated => What::RecordReplicated { key, owner },
            Tag::RecordLoaded => What::RecordLoaded { key, owner },
            Tag::RecordUnreplicated => What::RecordUnreplicated { key, owner },
            _ => What::RecordLost { key, owner, how: one_of(self.how, "how")? },
        })
    }

    fn of_cluster(self) -> Made<What> {
        Ok(match self.what {
            Tag::SessionExpired => What::SessionExpired {
                session: text(self.session, "session")?,
                records: need(self.records, "records")?,
            },
            Tag::Promoted => What::Promoted {
                offset: self.offset.unwrap_or(0),
                records: need(self.records, "records")?,
            },
            Tag::Demoted => What::Demoted { master: text(self.master, "master")? },
            Tag::Resynchronised => What::Resynchronised {
                master: text(self.master, "master")?,
                offset: self.offset.unwrap_or(0),
            },
            Tag::MasterDown => What::MasterDown { master: text(self.master, "master")? },
            Tag::LeaderElected => What::LeaderElected {
                epoch: need(self.epoch, "epoch")?,
                voters: self.voters.unwrap_or_default(),
            },
            Tag::MasterSwitched => {
                What::MasterSwitched { from: text(self.from, "from")?, to: text(self.to, "to")? }
            }
            Tag::Leading => What::Leading { epoch: need(self.epoch, "epoch")? },
            Tag::SteppedDown => {
                What::SteppedDown { epoch: need(self.epoch, "epoch")?, how: text(self.how, "how")? }
            }
            Tag::BroadcastBroken => What::BroadcastBroken { how: text(self.how, "how")? },
            _ => What::ReplicationPosition { offset: need(self.offset, "offset")? },
        })
    }

    fn of_resource(self, names: &mut Names) -> Made<What> {
        match self.what {
            Tag::Effect => self.effect(names),
            Tag::Ledger => Ok(What::Ledger {
                units: need(self.units, "units")?,
                sales: need(self.sales, "sales")?,
            }),
            Tag::StockCounted => Ok(What::StockCounted {
                units: need(self.units, "units")?,
                left: need(self.left, "left")?,
                reserved: self.reserved.unwrap_or(0),
            }),
            _ => Ok(What::OrderReturned {
                order: name(self.order, "order", names)?,
                answer: one_of(self.answer, "answer")?,
            }),
        }
    }

    fn effect(self, names: &mut Names) -> Made<What> {
        let operation = match &*need(self.operation, "operation")? {
            "read" => {
                let left = need(self.left, "left")?;
                let left = u32::try_from(left).map_err(|_| {
                    Complaint::new(format!("`left` is {left}"), "a read finds 0 units or more")
                })?;
                StockOperation::Read { left, next_unit: self.next_unit }
            }
            "act" => StockOperation::Act { name: name(self.name, "name", names)? },
            change => {
                let unit = need(self.unit, "unit")?;
                let order = name(self.order, "order", names)?;
                match change {
                    "sell" => StockOperation::Sell { unit, order },
                    "reserve" => StockOperation::Reserve { unit, order },
                    "cancel" => StockOperation::Cancel { unit, order },
                    other => return Err(no_such("operation", other, OPERATIONS)),
                }
            }
        };
        Ok(What::Effect {
            owner: name(self.owner, "owner", names)?,
            token: self.token,
            operation,
            accepted: need(self.accepted, "accepted")?,
            refusal: self.refusal.map(|refusal| refusal.0.into_owned().into()),
        })
    }

    fn of_storm(self, names: &mut Names) -> Made<What> {
        let or_empty = |value: Option<Text<'_>>| reason(value);
        Ok(match self.what {
            Tag::MessageSent => What::MessageSent {
                to: names.of(&need(self.to, "to")?),
                message: or_empty(self.message),
            },
            Tag::MessageDelivered => {
                What::MessageDelivered { from: names.of(&need(self.from, "from")?) }
            }
            Tag::MessageLost => What::MessageLost { how: or_empty(self.how) },
            Tag::NodeStarted => {
                What::NodeStarted { incarnation: need(self.incarnation, "incarnation")? }
            }
            Tag::NodeCrashed => What::NodeCrashed { machine: self.machine.unwrap_or(false) },
            Tag::ProgramEnded => What::ProgramEnded { how: or_empty(self.how) },
            Tag::ClockChanged => What::ClockChanged {
                offset_us: need(self.offset_us, "offset_us")?,
                rate_ppm: need(self.rate_ppm, "rate_ppm")?,
            },
            Tag::FaultBegan => What::FaultBegan {
                fault: need(self.fault, "fault")?,
                family: one_of::<FaultFamily>(self.family, "family")?,
                targets: self.targets.unwrap_or_default().iter().map(|t| names.of(t)).collect(),
                description: or_empty(self.description),
            },
            Tag::FaultEnded => What::FaultEnded { fault: need(self.fault, "fault")? },
            Tag::FaultTouched => {
                What::FaultTouched { fault: need(self.fault, "fault")?, how: or_empty(self.how) }
            }
            _ => What::Healed,
        })
    }
}

const ACQUIRE_OUTCOMES: &str = "granted, busy, timed-out, indeterminate, failed";
const RENEWALS: &str = "renewed, not-held, indeterminate";
const OPERATIONS: &str = "read, sell, reserve, cancel, act";

fn no_such(field: &str, value: &str, allowed: &str) -> Complaint {
    Complaint::new(format!("`{field}` is \"{value}\""), format!("allowed: {allowed}"))
}

fn reason(value: Option<Text<'_>>) -> String {
    value.map(|text| text.0.into_owned()).unwrap_or_default()
}

fn attempt(value: AttemptText<'_>, names: &mut Names) -> Made<Attempt> {
    let (client, ordinal) = match &value {
        AttemptText::Object { client, ordinal } => (&**client, Some(*ordinal)),
        AttemptText::Text(text) => match text.rsplit_once('/') {
            Some((client, ordinal)) => (client, ordinal.parse().ok()),
            None => (&**text, None),
        },
    };
    match ordinal.filter(|ordinal| *ordinal > 0 && !client.is_empty()) {
        Some(ordinal) => Ok(Attempt { client: names.of(client), ordinal }),
        None => Err(Complaint::new(
            format!("`attempt` names \"{client}\" without a number from 1"),
            "write the client and its how-manieth acquire it is, such as \"app-1/3\"",
        )),
    }
}
