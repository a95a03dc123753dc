//! The parts of a sale that can be left out.

use std::fmt;
use std::str::FromStr;

use crate::plan::Complaint;

/// A layer or a protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The button is locked after a tap.
    Page,
    /// The sale can be degraded by its switch.
    Switch,
    /// Token buckets, and the filter of repeats.
    Admission,
    /// So many at once.
    Gate,
    /// The unit and its order are taken in one step.
    OneStep,
    /// A buyer is told of an order only once the books have it.
    Confirmation,
    /// An entry of the queue is acknowledged only once the books have it.
    LateAcknowledgement,
    /// The shelf follows the books.
    Reconciliation,
    /// The books take no more orders than there are units.
    StockGuard,
    /// The books take an order once, and one of each buyer.
    UniqueOrders,
    /// A payment, and the end of its time, ask for the order's state as they change it.
    PaymentGuard,
}

impl Part {
    /// All of them, in the order in which a request meets them.
    pub const ALL: [Part; 11] = [
        Part::Page,
        Part::Switch,
        Part::Admission,
        Part::Gate,
        Part::OneStep,
        Part::Confirmation,
        Part::LateAcknowledgement,
        Part::Reconciliation,
        Part::StockGuard,
        Part::UniqueOrders,
        Part::PaymentGuard,
    ];

    /// As flags write it.
    pub fn name(self) -> &'static str {
        match self {
            Part::Page => "page",
            Part::Switch => "switch",
            Part::Admission => "admission",
            Part::Gate => "gate",
            Part::OneStep => "one-step",
            Part::Confirmation => "confirmation",
            Part::LateAcknowledgement => "late-acknowledgement",
            Part::Reconciliation => "reconciliation",
            Part::StockGuard => "stock-guard",
            Part::UniqueOrders => "unique-orders",
            Part::PaymentGuard => "payment-guard",
        }
    }

    /// Whether the naive sale has it: it writes what it has worked out from what it read, and
    /// has nothing that would notice.
    pub(super) fn is_of_the_naive(self) -> bool {
        !matches!(
            self,
            Part::OneStep | Part::Confirmation | Part::Reconciliation | Part::StockGuard
        )
    }

    /// Whether a sale in the database alone has it: there is no shelf and no queue.
    pub(super) fn is_of_the_pessimistic(self) -> bool {
        matches!(self, Part::Page | Part::Switch | Part::Admission | Part::Gate)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        Part::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| {
            Complaint::unknown("part of a sale", text, Part::ALL.iter().map(|part| part.name()))
        })
    }
}
