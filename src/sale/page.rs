//! The buyer's side: a page that is served without the application, a button that is
//! locked after a tap, and retries that do not come all at once.
//!
//! A page knows one wish. However often its buyer taps, and however often it asks again,
//! the order has one name, so whatever arrives twice is recognised as one.
//!
//! It sends nothing: its user takes what [`Page::tap`] and [`Page::answered`] say and does it.

use std::time::Duration;

use super::Wish;
use super::funnel::{Funnel, Step};
use crate::host::Host;

/// How a page behaves.
#[derive(Clone, Copy, Debug)]
pub struct PageOptions {
    /// Of a thousand visits so many are served by what is kept at the edge.
    pub static_per_mille: u16,
    /// Whether the button is locked until there is an answer.
    pub locks_button: bool,
    /// How often it asks again by itself.
    pub retries: u32,
    /// After how long at most it asks again for the first time; each further time may take
    /// twice as long. The time is drawn, from nothing up to that.
    pub backoff: Duration,
}

impl Default for PageOptions {
    fn default() -> Self {
        PageOptions {
            static_per_mille: 950,
            locks_button: true,
            retries: 3,
            backoff: Duration::from_millis(200),
        }
    }
}

/// What an answer means to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Bought, sold out, or refused for good: there is nothing to ask any more.
    Final,
    /// It may go better the next time.
    NotNow,
}

/// What a page does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It asks again by itself after so long.
    AskAfter(Duration),
    /// Nothing; the button can be tapped again.
    Unlocked,
    /// Nothing, for good.
    Over,
}

/// One buyer's page.
#[derive(Debug)]
pub struct Page {
    host: Host,
    options: PageOptions,
    funnel: Funnel,
    wish: Wish,
    waits: bool,
    over: bool,
    retries: u32,
}

impl Page {
    /// Opens it.
    pub fn open(host: Host, options: PageOptions, funnel: Funnel, wish: Wish) -> Self {
        funnel.count(Step::Visited);
        if host.random("page-static") % 1_000 < u64::from(options.static_per_mille) {
            funnel.count(Step::Static);
        }
        Page { host, options, funnel, wish, waits: false, over: false, retries: 0 }
    }

    /// What it wants.
    pub fn wish(&self) -> &Wish {
        &self.wish
    }

    /// The buyer taps the button. What is to be sent, if anything.
    pub fn tap(&mut self) -> Option<Wish> {
        self.funnel.count(Step::Tapped);
        if self.options.locks_button && (self.waits || self.over) {
            self.funnel.count(Step::Locked);
            return None;
        }
        self.waits = true;
        self.retries = 0;
        Some(self.wish.clone())
    }

    /// An answer came, or none in time ([`Answer::NotNow`]).
    pub fn answered(&mut self, answer: Answer) -> Next {
        if answer == Answer::Final {
            (self.waits, self.over) = (false, true);
            return Next::Over;
        }
        if self.retries >= self.options.retries {
            self.waits = false;
            return Next::Unlocked;
        }
        let longest = self.options.backoff.saturating_mul(1 << self.retries.min(16));
        self.retries += 1;
        Next::AskAfter(self.host.random_duration("page-retry", Duration::ZERO, longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::{Buyer, OrderName, Sku};

    fn page(options: PageOptions) -> (Page, Funnel) {
        let wish = Wish {
            order: OrderName::new("o").unwrap(),
            buyer: Buyer::new("b").unwrap(),
            sku: Sku::new("s").unwrap(),
        };
        let funnel = Funnel::default();
        (Page::open(Host::tokio("buyer-1"), options, funnel.clone(), wish), funnel)
    }

    #[test]
    fn a_second_tap_sends_nothing_until_there_is_an_answer() {
        let (mut page, funnel) = page(PageOptions { retries: 0, ..PageOptions::default() });
        assert!(page.tap().is_some());
        assert!(page.tap().is_none());
        assert_eq!(page.answered(Answer::NotNow), Next::Unlocked);
        assert!(page.tap().is_some());
        assert_eq!(page.answered(Answer::Final), Next::Over);
        assert!(page.tap().is_none());
        assert_eq!((funnel.of(Step::Tapped), funnel.of(Step::Locked)), (4, 2));
    }

    #[test]
    fn without_the_lock_every_tap_is_a_request_of_the_same_order() {
        let (mut page, _) = page(PageOptions { locks_button: false, ..PageOptions::default() });
        let sent: Vec<_> = (0..3).filter_map(|_| page.tap()).map(|wish| wish.order).collect();
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|order| *order == sent[0]));
    }

    #[test]
    fn it_asks_again_so_often_and_each_time_later_at_most() {
        let options = PageOptions { retries: 3, ..PageOptions::default() };
        let (mut page, _) = page(options);
        page.tap();
        for n in 0..3 {
            match page.answered(Answer::NotNow) {
                Next::AskAfter(after) => assert!(after <= options.backoff * (1 << n), "{n}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(page.answered(Answer::NotNow), Next::Unlocked);
    }
}
