//! The numbers of a fault: how each is called, read, and set.

use crate::plan::{Fault, FaultKind, Micros, Ppm, SignedMicros, When};

/// A number of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dial {
    /// How long it lasts.
    Lasts,
    /// How long after its anchor it begins.
    Delay,
    /// When it begins.
    At,
    /// By how much it slows.
    Extra,
    /// How fast a clock runs wrong.
    Rate,
    /// By how much a clock is moved.
    By,
    /// How long after a suspension it cancels.
    CancelDelay,
}

impl Dial {
    pub const ALL: [Dial; 7] =
        [Dial::Lasts, Dial::Delay, Dial::At, Dial::Extra, Dial::Rate, Dial::By, Dial::CancelDelay];

    /// As plans call it.
    pub fn name(self) -> &'static str {
        match self {
            Dial::Lasts => "for",
            Dial::Delay | Dial::CancelDelay => "delay",
            Dial::At => "at",
            Dial::Extra => "extra",
            Dial::Rate => "rate",
            Dial::By => "by",
        }
    }

    /// Its value, if the fault has it: µs, or ppm.
    pub fn get(self, fault: &Fault) -> Option<i64> {
        let of = |us: u64| i64::try_from(us).ok();
        match (self, &fault.kind) {
            (Dial::Lasts, _) => fault.lasts.and_then(|lasts| of(lasts.0)),
            (Dial::Delay, kind) => match &fault.when {
                When::After { delay, .. } if kind.own_begin().is_none() => of(delay.0),
                _ => None,
            },
            (Dial::At, _) => match &fault.when {
                When::At(at) => of(at.0),
                When::After { .. } => None,
            },
            (
                Dial::Extra,
                FaultKind::SlowLink { extra, .. } | FaultKind::DiskSlow { extra, .. },
            ) => of(extra.0),
            (Dial::Rate, FaultKind::ClockRate { ppm, .. }) => Some(*ppm),
            (Dial::By, FaultKind::ClockStep { by_us, .. } | FaultKind::ClockSlew { by_us, .. }) => {
                Some(*by_us)
            }
            (Dial::CancelDelay, FaultKind::Cancel { delay, .. }) => of(delay.0),
            _ => None,
        }
    }

    /// Sets it. Nothing if the fault does not have it, or it cannot be that.
    pub fn set(self, fault: &mut Fault, value: i64) {
        let time = u64::try_from(value).map(Micros);
        match (self, &mut fault.kind, &mut fault.when, time) {
            (Dial::Lasts, _, _, Ok(time)) => fault.lasts = Some(time),
            (Dial::Delay, _, When::After { delay, .. }, Ok(time))
            | (Dial::At, _, When::At(delay), Ok(time))
            | (
                Dial::Extra,
                FaultKind::SlowLink { extra: delay, .. } | FaultKind::DiskSlow { extra: delay, .. },
                _,
                Ok(time),
            )
            | (Dial::CancelDelay, FaultKind::Cancel { delay, .. }, _, Ok(time)) => *delay = time,
            (Dial::Rate, FaultKind::ClockRate { ppm, .. }, ..) => *ppm = value,
            (
                Dial::By,
                FaultKind::ClockStep { by_us, .. } | FaultKind::ClockSlew { by_us, .. },
                ..,
            ) => *by_us = value,
            _ => {}
        }
    }

    /// A value as plans write it.
    pub fn show(self, value: i64) -> String {
        match self {
            Dial::Rate => Ppm(value).to_string(),
            Dial::By => SignedMicros(value).to_string(),
            _ => Micros(value.unsigned_abs()).to_string(),
        }
    }

    /// Whether it is a time.
    pub fn is_time(self) -> bool {
        !matches!(self, Dial::Rate | Dial::By)
    }
}

/// `value` with so many digits that are not zero, rounded to the nearest; away from zero
/// with `up`.
pub(super) fn rounded(value: i64, digits: u32, up: bool) -> i64 {
    let size = value.unsigned_abs();
    let written = size.checked_ilog10().unwrap_or(0) + 1;
    let grain = 10_u64.pow(written.saturating_sub(digits));
    let added = if up { grain - 1 } else { grain / 2 };
    let size = size.saturating_add(added) / grain * grain;
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    if value < 0 { -size } else { size }
}

/// `value` rounder, the roundest first.
pub(super) fn rounder(value: i64) -> Vec<i64> {
    let mut values = vec![rounded(value, 1, false), rounded(value, 2, false)];
    values.dedup();
    values.retain(|rounder| *rounder != value && *rounder != 0);
    values
}
