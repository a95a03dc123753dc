//! A finding as one English sentence.

use super::detail::{Detail, Untold, Vanished, Waiting};
use super::finding::Finding;
use crate::history::Name;

impl Finding {
    /// The finding as one English sentence.
    pub fn sentence(&self) -> String {
        let who = |n: usize| self.parties.get(n).map_or("somebody", |party| &party.owner);
        let key = if self.key.is_empty() { "the lock" } else { &self.key };
        let (from, to) = (Time(self.from_us), Time(self.to_us));
        let long = Length { from_us: self.from_us, to_us: self.to_us };
        // Where the ends would look the same, they are told to the microsecond.
        let is_fine = long.is_fine();
        let (from, to) = (End { time: from, is_fine }, End { time: to, is_fine });
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
            Detail::OversellCounted { units, left, sold } => format!(
                "Of {units} units at least {sold} were sold, and the counter says {left} left.",
            ),
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
            Detail::StaleEffect { resource } => format!(
                "{resource} accepted operations of {} after those of {}, who was granted {key} \
                 later.",
                who(0),
                who(1),
            ),
            Detail::Undersell { unit: Some(unit), units, .. } => format!(
                "A buyer was told at {from} that nothing is left, and unit {unit} of {units} was \
                 free all the time.",
            ),
            Detail::Undersell { unit: None, units, free } => format!(
                "A buyer was told at {from} that nothing is left, and {free} of {units} units \
                 were free in the end.",
            ),
            Detail::DuplicateOrder { order, units } => {
                let units: Vec<String> = units.iter().map(u32::to_string).collect();
                format!("Order {order} bought {} units: {}.", units.len(), units.join(", "))
            }
            Detail::LostOrder { order } => format!(
                "The buyer of order {order} was told at {from} that it is accepted, and it is not \
                 in the books.",
            ),
            Detail::StockNotConserved { units, left, reserved, sold_at_least, sold_at_most } => {
                let sold = match sold_at_least == sold_at_most {
                    true => format!("{sold_at_least} sold"),
                    false => format!("{sold_at_least} to {sold_at_most} sold"),
                };
                format!(
                    "Of {units} units the counter says {left} left, with {reserved} reserved and \
                     {sold}: that does not add up.",
                )
            }
            Detail::LossNotTold { how } => untold(*how, who(0), key, from, to),
            Detail::StuckWaiter { bound_us, chain } => format!(
                "{} waited for {long} ({from} … {to}), against a bound of {}: {}.",
                who(0),
                Time(*bound_us),
                links(chain),
            ),
            Detail::Deadlock { bound_us, cycle } => format!(
                "For {long} ({from} … {to}), against a bound of {}, they waited in a circle: {}.",
                Time(*bound_us),
                links(cycle),
            ),
            Detail::Unfair { bypasses, bound } => format!(
                "{} was passed over {bypasses} times while it waited for {key} ({from} … {to}); \
                 the lock allows {bound}.",
                who(0),
            ),
            Detail::GrantLost { node, how } => {
                let lost = vanished(*how, node);
                format!(
                    "The record of {} for {key} {lost}, {long} before its promise ended.",
                    who(0)
                )
            }
            Detail::BroadcastBroken { node, how } => {
                format!("The servers broke their broadcast, as {node} shows at {from}: {how}.")
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

fn untold(how: Untold, who: &str, key: &str, from: End, to: End) -> String {
    match how {
        Untold::ToldReleased => format!(
            "{who} was told at {to} that {key} is released, though its record was gone since \
             {from} and no server had anything to release.",
        ),
        Untold::ToldRenewed => format!(
            "{who} was told at {to} that {key} is renewed, though its record was gone since \
             {from} and no server renewed anything.",
        ),
        Untold::NotTold => {
            format!("{who} lost {key} at {from} and was told nothing of it until {to}.")
        }
    }
}

/// `app-1/1 waits for a, which app-2/1 holds; …`.
fn links(chain: &[Waiting]) -> String {
    let link = |link: &Waiting| match &link.held_by {
        Some(holder) => format!("{} waits for {}, which {holder} holds", link.owner, link.key),
        None => format!("{} waits for {}, which nobody holds", link.owner, link.key),
    };
    chain.iter().map(link).collect::<Vec<_>>().join("; ")
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

/// An end of an interval: a moment.
#[derive(Clone, Copy)]
struct End {
    time: Time,
    is_fine: bool,
}

impl std::fmt::Display for End {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = self.time.0;
        match self.is_fine && us != u64::MAX {
            true => write!(formatter, "{}.{:06} s", us / 1_000_000, us % 1_000_000),
            false => self.time.fmt(formatter),
        }
    }
}

/// The length of an interval as its shown ends have it.
struct Length {
    from_us: u64,
    to_us: u64,
}

impl Length {
    /// Whether the ends differ by less than milliseconds show.
    fn is_fine(&self) -> bool {
        self.from_us != self.to_us && self.from_us / 1_000 == self.to_us / 1_000
    }
}

impl std::fmt::Display for Length {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Length { from_us, to_us } = *self;
        match self.is_fine() || to_us == u64::MAX {
            true => Time(to_us.saturating_sub(from_us)).fmt(formatter),
            false => Time((to_us / 1_000).saturating_sub(from_us / 1_000) * 1_000).fmt(formatter),
        }
    }
}

/// A time or duration for people.
#[derive(Clone, Copy)]
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
