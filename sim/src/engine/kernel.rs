//! What the nodes' kernels are set to: how long TCP tries before it gives up.
//!
//! The numbers and their names are Linux's (ip-sysctl, tcp(7)); the conformance suite
//! sets the same ones in the network namespaces of its real arm.

/// The first wait of a retransmission timer, and of its doublings, µs. A kernel adds
/// the round trip to it.
pub(crate) const RTO_MIN_US: u64 = 200_000;
/// The longest wait of a retransmission timer, µs.
pub(crate) const RTO_MAX_US: u64 = 120_000_000;
/// The first wait for an answer to a SYN, µs.
pub(crate) const SYN_RTO_US: u64 = 1_000_000;

/// TCP settings of every node's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// How often a SYN is repeated with waits that double from 1 s (tcp_syn_retries).
    pub syn_retries: u32,
    /// How often a SYN is repeated after a second each before the waits double
    /// (tcp_syn_linear_timeouts): 4 since Linux 6.5, before that 0.
    pub syn_linear_timeouts: u32,
    /// How often undelivered data is sent again before the connection is over, told as a
    /// time: that of so many doublings of 200 ms (tcp_retries2).
    pub retries2: u32,
    /// The same for connections that no program holds any more (tcp_orphan_retries); 0
    /// counts as 8, as it does in Linux.
    pub orphan_retries: u32,
    /// How many connections wait at most for a program to accept them, less one
    /// (net.core.somaxconn, which cuts off what programs ask for): 4,096 since Linux 5.4,
    /// before that 128.
    pub somaxconn: u32,
}

impl Default for Kernel {
    /// Linux's own, with the SYNs of kernels up to 6.4 and the backlog of those up to 5.3.
    fn default() -> Self {
        Kernel {
            syn_retries: 6,
            syn_linear_timeouts: 0,
            retries2: 15,
            orphan_retries: 0,
            somaxconn: 128,
        }
    }
}

impl Kernel {
    /// How often a SYN is repeated in all.
    pub fn syn_repeats(&self) -> u32 {
        self.syn_retries.saturating_add(self.syn_linear_timeouts)
    }

    /// How long an answer to a SYN is awaited that was repeated `repeats` times, µs.
    pub fn syn_wait_us(&self, repeats: u32) -> u64 {
        let doublings = repeats.saturating_sub(self.syn_linear_timeouts).min(7);
        (SYN_RTO_US << doublings).min(RTO_MAX_US)
    }

    /// Whether a backlog of so many connections takes no more.
    pub fn is_full(&self, backlog: usize) -> bool {
        // sk_acceptq_is_full: one more than was asked for.
        backlog > self.somaxconn as usize
    }

    /// How long undelivered data is sent again, after it was sent again for the first
    /// time, before the connection is over, µs.
    pub fn retransmit_for_us(&self, is_orphan: bool) -> u64 {
        let retries = match (is_orphan, self.orphan_retries) {
            (false, _) => self.retries2,
            (true, 0) => 8,
            (true, retries) => retries,
        };
        // tcp_model_timeout: ten waits from 200 ms to 102.4 s, then the longest.
        let doubling = retries.min(9);
        let longest = u64::from(retries - doubling);
        ((2 << doubling) - 1) * RTO_MIN_US + longest * RTO_MAX_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syns_s(kernel: Kernel) -> Vec<u64> {
        let mut at_us = 0;
        let waits = (0..=kernel.syn_repeats()).map(|repeats| kernel.syn_wait_us(repeats));
        waits
            .map(|wait_us| {
                at_us += wait_us;
                at_us / 1_000_000
            })
            .collect()
    }

    #[test]
    fn syns_are_repeated_as_old_and_new_kernels_do() {
        assert_eq!(syns_s(Kernel::default()), [1, 3, 7, 15, 31, 63, 127]);
        let new = Kernel { syn_linear_timeouts: 4, ..Kernel::default() };
        assert_eq!(syns_s(new), [1, 2, 3, 4, 5, 7, 11, 19, 35, 67, 131]);
    }

    #[test]
    fn data_is_sent_again_for_a_quarter_of_an_hour_and_for_orphans_shorter() {
        let kernel = Kernel::default();
        assert_eq!(kernel.retransmit_for_us(false), 924_600_000);
        assert_eq!(kernel.retransmit_for_us(true), 102_200_000);
        let short = Kernel { retries2: 3, orphan_retries: 1, ..kernel };
        assert_eq!(short.retransmit_for_us(false), 3_000_000);
        assert_eq!(short.retransmit_for_us(true), 600_000);
    }
}
