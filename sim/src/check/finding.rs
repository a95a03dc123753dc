//! A finding: what is wrong, who is involved, when, the events that prove it, and
//! what is to blame. [`detail`](super::detail) has the facts that depend on the kind,
//! [`sentence`](super::sentence) its sentence.

use serde::{Deserialize, Serialize};

use super::blame::Blame;
use super::detail::Detail;
use super::grants::Grant;
use super::interval::Interval;
use super::words::{self, Language};
use crate::history::{Attempt, EventId, History};

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

/// What can be wrong. DESIGN §5 defines them, `docs/check.md` says how each is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The lock was promised to two at once.
    DoubleGrant,
    /// Two were inside at once, as the resource saw it.
    EffectInterleaved,
    /// Whole sections came against the order of their grants.
    StaleEffect,
    /// A unit was sold twice, or one that never was.
    Oversell,
    /// A buyer was told "sold out" while a unit was free.
    Undersell,
    /// One order bought two units.
    DuplicateOrder,
    /// An order that was told "accepted" is not in the books.
    LostOrder,
    /// The counter and the books do not add up.
    StockNotConserved,
    /// A record was deleted by somebody to whom it did not belong.
    WrongRelease,
    /// A holder asked, or was owed the news, and was not told that its grant was lost.
    LossNotTold,
    /// Nobody holds the lock and nobody gets it.
    LeakedLock,
    /// The lock is free, or its holder waits for ever, and a waiter is not served.
    StuckWaiter,
    /// Holders wait for each other in a circle.
    Deadlock,
    /// A waiter was passed over more often than the lock allows.
    Unfair,
    /// A promised lock's record vanished.
    GrantLost,
    /// A holder believed to hold the lock longer than it was promised.
    Overstay,
    /// A later grant had no larger token.
    TokenRegression,
    /// The fence refused the newest holder of the lock.
    FalseReject,
    /// The servers that keep the lock broke the promise that it stands on.
    BroadcastBroken,
}

impl Kind {
    /// All of them, in the order of DESIGN §5.
    pub const ALL: [Kind; 19] = [
        Kind::DoubleGrant,
        Kind::EffectInterleaved,
        Kind::StaleEffect,
        Kind::Oversell,
        Kind::Undersell,
        Kind::DuplicateOrder,
        Kind::LostOrder,
        Kind::StockNotConserved,
        Kind::WrongRelease,
        Kind::LossNotTold,
        Kind::LeakedLock,
        Kind::StuckWaiter,
        Kind::Deadlock,
        Kind::Unfair,
        Kind::GrantLost,
        Kind::Overstay,
        Kind::TokenRegression,
        Kind::FalseReject,
        Kind::BroadcastBroken,
    ];

    /// All of them, gravest first: what makes everything else worthless, what was done at the resource before what was
    /// promised, then what was answered, then liveness.
    pub const BY_GRAVITY: [Kind; 19] = [
        Kind::BroadcastBroken,
        Kind::Oversell,
        Kind::DuplicateOrder,
        Kind::LostOrder,
        Kind::StockNotConserved,
        Kind::Undersell,
        Kind::EffectInterleaved,
        Kind::StaleEffect,
        Kind::DoubleGrant,
        Kind::WrongRelease,
        Kind::LossNotTold,
        Kind::Deadlock,
        Kind::LeakedLock,
        Kind::StuckWaiter,
        Kind::Unfair,
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
            Kind::StaleEffect => "stale-effect",
            Kind::Oversell => "oversell",
            Kind::Undersell => "undersell",
            Kind::DuplicateOrder => "duplicate-order",
            Kind::LostOrder => "lost-order",
            Kind::StockNotConserved => "stock-not-conserved",
            Kind::WrongRelease => "wrong-release",
            Kind::LossNotTold => "loss-not-told",
            Kind::LeakedLock => "leaked-lock",
            Kind::StuckWaiter => "stuck-waiter",
            Kind::Deadlock => "deadlock",
            Kind::Unfair => "unfair",
            Kind::GrantLost => "grant-lost",
            Kind::Overstay => "overstay",
            Kind::TokenRegression => "token-regression",
            Kind::FalseReject => "false-reject",
            Kind::BroadcastBroken => "broadcast-broken",
        }
    }

    /// How bad it is, unless a full fence has kept its effects apart or the lock
    /// promises ordered tokens.
    pub fn severity(self) -> Severity {
        match self {
            Kind::GrantLost | Kind::Overstay | Kind::TokenRegression | Kind::FalseReject => {
                Severity::Advisory
            }
            _ => Severity::Violation,
        }
    }

    /// Whether it says that the resource was harmed: a fence that let it happen excuses
    /// nothing.
    pub fn is_of_the_resource(self) -> bool {
        use Kind::{
            DuplicateOrder, EffectInterleaved, LostOrder, Oversell, StaleEffect, StockNotConserved,
            Undersell,
        };
        matches!(
            self,
            EffectInterleaved
                | StaleEffect
                | Oversell
                | Undersell
                | DuplicateOrder
                | LostOrder
                | StockNotConserved
        )
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
        Party {
            owner: grant.owner.to_string(),
            attempt: grant.attempt.clone(),
            token: grant.token(),
        }
    }
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
            key: grants.first().map(|grant| grant.key.to_string()).unwrap_or_default(),
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
}
