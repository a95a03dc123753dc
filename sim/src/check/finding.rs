//! A finding: what is wrong, who is involved, when, the events that prove it, and
//! what is to blame.

use serde::{Deserialize, Serialize};

use super::blame::Blame;
use super::grants::Grant;
use super::interval::Interval;
use super::words::{self, Language};
use crate::history::{Attempt, EventId, History, Name};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It fails the run.
    Violation,
    /// It is told, and fails nothing.
    Advisory,
}

impl Severity {
    /// Its stable name.
    pub fn id(self) -> &'static str {
        match self {
            Severity::Violation => "violation",
            Severity::Advisory => "advisory",
        }
    }
}

/// What can be wrong. DESIGN §5 defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The lock was promised to two at once.
    DoubleGrant,
    /// Two were inside at once, as the resource saw it.
    EffectInterleaved,
    /// A unit was sold twice, or one that never was.
    Oversell,
    /// A record was deleted by somebody to whom it did not belong.
    WrongRelease,
    /// Nobody holds the lock and nobody gets it.
    LeakedLock,
    /// A promised lock's record vanished.
    GrantLost,
    /// A holder believed to hold the lock longer than it was promised.
    Overstay,
    /// A later grant had no larger token.
    TokenRegression,
    /// The fence refused the newest holder of the lock.
    FalseReject,
}

impl Kind {
    /// All of them, gravest first.
    pub const ALL: [Kind; 9] = [
        Kind::DoubleGrant,
        Kind::EffectInterleaved,
        Kind::Oversell,
        Kind::WrongRelease,
        Kind::LeakedLock,
        Kind::GrantLost,
        Kind::Overstay,
        Kind::TokenRegression,
        Kind::FalseReject,
    ];

    /// Its stable name, as in files and JSON.
    pub fn id(self) -> &'static str {
        match self {
            Kind::DoubleGrant => "double-grant",
            Kind::EffectInterleaved => "effect-interleaved",
            Kind::Oversell => "oversell",
            Kind::WrongRelease => "wrong-release",
            Kind::LeakedLock => "leaked-lock",
            Kind::GrantLost => "grant-lost",
            Kind::Overstay => "overstay",
            Kind::TokenRegression => "token-regression",
            Kind::FalseReject => "false-reject",
        }
    }

    /// How bad it is, unless a full fence has kept its effects apart.
    pub fn severity(self) -> Severity {
        match self {
            Kind::DoubleGrant
            | Kind::EffectInterleaved
            | Kind::Oversell
            | Kind::WrongRelease
            | Kind::LeakedLock => Severity::Violation,
            Kind::GrantLost | Kind::Overstay | Kind::TokenRegression | Kind::FalseReject => {
                Severity::Advisory
            }
        }
    }

    /// What people call it.
    pub fn word(self, language: Language) -> &'static str {
        words::word(self.id(), language)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.word(Language::English))
    }
}

/// Somebody involved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Party {
    /// The owner, as the record and the resource know it.
    pub owner: String,
    /// The attempt, for our own clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// The token granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
}

impl From<&Grant> for Party {
    fn from(grant: &Grant) -> Party {
        Party { owner: grant.owner.clone(), attempt: grant.attempt.clone(), token: grant.token() }
    }
}

/// How a record vanished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vanished {
    /// A server without it became master.
    Failover,
    /// A full resynchronisation replaced it.
    Resync,
    /// Its server lost its memory.
    Crash,
    /// Somebody else deleted it.
    Deleted,
    /// Somebody else overwrote it.
    Overwritten,
    /// Its server's clock ended it before its time.
    ExpiredEarly,
}

/// The facts of a finding that depend on its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Detail {
    /// Of a double grant: the interval is the overlap.
    DoubleGrant,
    /// Of an interleaving: the interval runs from the first foreign operation to the
    /// operation after it.
    EffectInterleaved {
        /// Which resource.
        resource: Name,
    },
    /// Of an oversold unit: the interval runs from its first sale to its last.
    Oversell {
        /// Which unit.
        unit: u32,
        /// How many units there were.
        units: u32,
        /// The orders under which it was sold.
        orders: Vec<String>,
    },
    /// Of a wrong release: the interval is what was left of the promise.
    WrongRelease {
        /// Where.
        node: Name,
    },
    /// Of a leak: the interval is the time for which the lock was closed.
    LeakedLock {
        /// The bound that the lock itself declares, µs.
        bound_us: u64,
        /// Whose record is in the way, where that is known.
        held_by: Option<String>,
        /// Whether that record never expires.
        never_expires: bool,
    },
    /// Of a lost grant: the interval is what was left of the promise.
    GrantLost {
        /// Where.
        node: Name,
        /// How.
        how: Vanished,
    },
    /// Of an overstay: the interval is the belief beyond the promise.
    Overstay,
    /// Of a regression: the interval runs from grant to grant.
    TokenRegression {
        /// The earlier grant's token.
        earlier: u64,
        /// The later grant's.
        later: u64,
    },
    /// Of a false reject: the interval runs from the registration to the refusal.
    FalseReject {
        /// The token shown.
        shown: Option<u64>,
        /// The token that the resource had registered.
        registered: u64,
    },
}

/// Something that a checker found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// How bad.
    pub severity: Severity,
    /// Which lock; empty when nothing tells.
    pub key: String,
    /// Who is involved; of two grants, the earlier first.
    pub parties: Vec<Party>,
    /// From when, µs; see [`Detail`] for what the interval means.
    pub from_us: u64,
    /// To when, µs, at most the end of the run.
    pub to_us: u64,
    /// The events that prove it, in their order.
    pub events: Vec<EventId>,
    /// What is to blame.
    pub blame: Blame,
    /// The rest of the facts.
    pub detail: Detail,
}

impl Finding {
    /// A finding of this kind in `interval`, with the severity of the kind.
    pub fn new(
        history: &History,
        kind: Kind,
        grants: &[&Grant],
        interval: Interval,
        detail: Detail,
    ) -> Finding {
        let ended_us = history.ended_us.max(interval.from.at_us);
        Finding {
            kind,
            severity: kind.severity(),
            key: grants.first().map(|grant| grant.key.clone()).unwrap_or_default(),
            parties: grants.iter().map(|grant| Party::from(*grant)).collect(),
            from_us: interval.from.at_us,
            to_us: interval.to.at_us.min(ended_us),
            events: grants.iter().flat_map(|grant| grant.evidence()).collect(),
            blame: Blame::default(),
            detail,
        }
    }

    /// With these events as further proof.
    #[must_use]
    pub fn proved_by(mut self, events: impl IntoIterator<Item = EventId>) -> Finding {
        self.events.extend(events);
        self.events.sort_unstable();
        self.events.dedup();
        self
    }

    /// With this blame, whose faults are part of the proof.
    #[must_use]
    pub fn blamed(mut self, blame: Blame) -> Finding {
        let events: Vec<EventId> = blame.events().collect();
        self.blame = blame;
        self.proved_by(events)
    }

    /// Whether it fails the run.
    pub fn is_violation(&self) -> bool {
        self.severity == Severity::Violation
    }

    /// The finding as one English sentence.
    pub fn sentence(&self) -> String {
        let who = |n: usize| self.parties.get(n).map_or("somebody", |party| &party.owner);
        let key = if self.key.is_empty() { "the lock" } else { &self.key };
        let (from, to) = (Time(self.from_us), Time(self.to_us));
        let long = Time(self.to_us.saturating_sub(self.from_us));
        match &self.detail {
            Detail::DoubleGrant => format!(
                "{} and {} were both promised {key} for {long} ({from} … {to}).",
                who(0),
                who(1),
            ),
            Detail::EffectInterleaved { resource } => format!(
                "{resource} accepted operations of {} and {} in turns ({from} … {to}): two were \
                 inside.",
                who(0),
                who(1),
            ),
            Detail::Oversell { unit, units, orders } => sold(*unit, *units, orders),
            Detail::WrongRelease { node } => format!(
                "The record of {} for {key} was deleted at {node} by somebody else, {long} before \
                 its promise ended.",
                who(0),
            ),
            Detail::LeakedLock { bound_us, held_by, never_expires } => {
                let record = match (held_by, never_expires) {
                    (Some(owner), true) => format!(", behind a record of {owner} without expiry"),
                    (Some(owner), false) => format!(", behind a record of {owner}"),
                    (None, _) => String::new(),
                };
                format!(
                    "Nobody held {key} and nobody got it for {long} ({from} … {to}), against a \
                     bound of {}{record}.",
                    Time(*bound_us),
                )
            }
            Detail::GrantLost { node, how } => {
                let lost = vanished(*how, node);
                format!(
                    "The record of {} for {key} {lost}, {long} before its promise ended.",
                    who(0)
                )
            }
            Detail::Overstay => format!(
                "{} believed to hold {key} for {long} beyond its promise ({from} … {to}).",
                who(0),
            ),
            Detail::TokenRegression { earlier, later } => format!(
                "{} was granted {key} with token {later}, after {} with token {earlier}.",
                who(1),
                who(0),
            ),
            Detail::FalseReject { shown, registered } => {
                let shown = shown.map_or("no token".to_owned(), |token| format!("token {token}"));
                format!(
                    "The fence refused {} with {shown}, the newest holder of {key}: token \
                     {registered} was registered.",
                    who(0),
                )
            }
        }
    }
}

fn sold(unit: u32, units: u32, orders: &[String]) -> String {
    let names = orders.join(", ");
    let times = match orders.len() {
        ..2 => return format!("Unit {unit} was sold under order {names}, of only {units} units."),
        2 => "twice".to_owned(),
        many => format!("{many} times"),
    };
    if units == 1 && unit == 1 {
        format!("The only unit, {unit}, was sold {times}: orders {names}.")
    } else {
        format!("Unit {unit} was sold {times}: orders {names}.")
    }
}

fn vanished(how: Vanished, node: &Name) -> String {
    match how {
        Vanished::Failover => format!("was missing when {node} became master"),
        Vanished::Resync => format!("was erased when {node} resynchronised"),
        Vanished::Crash => format!("was lost when {node} crashed"),
        Vanished::Deleted => format!("was deleted at {node} by somebody else"),
        Vanished::Overwritten => format!("was overwritten at {node} by somebody else"),
        Vanished::ExpiredEarly => format!("expired at {node}"),
    }
}

/// A time or duration for people.
pub(crate) struct Time(pub u64);

impl std::fmt::Display for Time {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Time(us) = *self;
        if us == u64::MAX {
            formatter.write_str("ever")
        } else if us > 0 && us < 1_000 {
            write!(formatter, "{us} µs")
        } else {
            write!(formatter, "{}.{:03} s", us / 1_000_000, us / 1_000 % 1_000)
        }
    }
}
