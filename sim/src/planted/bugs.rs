//! The table of all planted bugs, and the storms in which they can be found.

use std::sync::Arc;

use lockstorm::Host;
use lockstorm::lock::Lock;

use super::Purpose::{HeldOut, Tuning};
use super::desk::Desk;
use super::{
    Bug, Build, Checkout, Half, Purpose, answers, checkout, clocks, counted, identity, lease, line,
    open, order, queue, quorum, release, table, taking, tokens, wakeups, watchdog,
};
use crate::plan::{Fence, Plan};

/// Sections around as long as the lease, and a client that asks for its own deadline.
const AROUND_THE_LEASE: &[(&str, &str)] = &[
    ("lock.lease", "1s"),
    ("workload.slow-work", "800ms"),
    ("workload.slow-per-mille", "200"),
    ("workload.deadline-check", "true"),
];

/// Sections longer than the lease: whoever works so long must renew.
const BEYOND_THE_LEASE: &[(&str, &str)] = &[
    ("lock.lease", "1s"),
    ("workload.slow-work", "2s"),
    ("workload.slow-per-mille", "200"),
    ("workload.deadline-check", "true"),
];

/// Sections near to the lease, and clients who wait for longer than anybody may hold it.
const WAITED_FOR: &[(&str, &str)] = &[
    ("lock.lease", "1s"),
    ("workload.slow-work", "600ms"),
    ("workload.patience", "8s"),
    ("workload.deadline-check", "true"),
];

/// Patience that outlasts the storm: who is not served is seen to wait.
const PATIENT: &[(&str, &str)] = &[("workload.patience", "30s"), DEADLINE];

/// Likewise, and nobody but these two.
const TWO_WHO_WAIT: &[(&str, &str)] = &[
    ("topology.apps", "2"),
    ("lock.lease", "1s"),
    ("workload.slow-work", "600ms"),
    ("workload.patience", "8s"),
    DEADLINE,
];

/// The scenario as it stands, and a client that asks for its own deadline.
const PLAIN: &[(&str, &str)] = &[("workload.deadline-check", "true")];

/// A plain bug: one Redis, no fence, its own deadline asked for.
const fn bug(
    name: &'static str,
    report_kinds: &'static [&'static str],
    shows: &'static [&'static str],
    purpose: Purpose,
    build: fn(Desk, Half) -> Arc<dyn Lock>,
) -> Bug {
    Bug {
        name,
        report_kinds,
        shows,
        scenario: "redis-single",
        fence: Fence::Off,
        settings: PLAIN,
        purpose,
        ordered_tokens: false,
        build: Build::AtTheMaster(build),
    }
}

/// A bug of a lock that is elsewhere than at one master.
const fn bug_at(
    scenario: &'static str,
    name: &'static str,
    report_kinds: &'static [&'static str],
    shows: &'static [&'static str],
    purpose: Purpose,
    build: fn(&Host, &Plan, Half) -> Arc<dyn Lock>,
) -> Bug {
    Bug {
        name,
        report_kinds,
        shows,
        scenario,
        fence: Fence::Off,
        settings: PLAIN,
        purpose,
        ordered_tokens: false,
        build: Build::Anywhere(build),
    }
}

/// A bug of how a sale in the database stands to its lock, which is the product's.
const fn sale(
    name: &'static str,
    report_kinds: &'static [&'static str],
    purpose: Purpose,
    lock: &'static str,
    checkout: fn(&Host, &Plan, Half) -> Checkout,
) -> Bug {
    Bug {
        name,
        report_kinds,
        shows: INSIDE,
        scenario: "postgres-single",
        fence: Fence::Off,
        settings: PLAIN,
        purpose,
        ordered_tokens: false,
        build: Build::Sale { lock, checkout },
    }
}

impl Bug {
    /// With other settings of the scenario's plan.
    const fn in_storm(self, settings: &'static [(&'static str, &'static str)]) -> Bug {
        Bug { settings, ..self }
    }
}

/// Two were inside at once.
const INSIDE: &[&str] = &["effect-interleaved", "oversell"];
/// Two were promised the lock, or inside at once.
const TWICE: &[&str] = &["double-grant", "effect-interleaved", "oversell"];
/// The lock stays closed.
const CLOSED: &[&str] = &["stuck-waiter", "leaked-lock"];
/// Tokens went back.
const TOKENS: &[&str] = &["token-regression", "false-reject"];

/// All bugs, by the kinds of their reports.
pub const BUGS: &[Bug] = &[
    bug("no-deadline", &["K01"], INSIDE, Tuning, lease::no_deadline),
    bug("bare-del", &["K02"], &["wrong-release"], Tuning, release::bare_del),
    Bug {
        settings: AROUND_THE_LEASE,
        ..bug("get-then-del", &["K02"], &["wrong-release"], HeldOut, release::get_then_del)
    },
    bug("setnx-then-expire", &["K03"], &["leaked-lock"], Tuning, taking::setnx_then_expire),
    bug("waiters-renew", &["K03"], &["leaked-lock"], HeldOut, taking::waiters_renew),
    bug("lease-cut-to-seconds", &["K03"], TWICE, Tuning, taking::lease_cut_to_seconds).in_storm(&[
        ("lock.lease", "1500ms"),
        ("workload.slow-work", "1200ms"),
        ("workload.slow-per-mille", "60"),
        ("workload.deadline-check", "true"),
    ]),
    bug("expire-in-seconds", &["K03"], &["leaked-lock"], HeldOut, watchdog::expire_in_seconds)
        .in_storm(BEYOND_THE_LEASE),
    bug("loss-not-noticed", &["K04"], INSIDE, Tuning, watchdog::loss_not_noticed)
        .in_storm(BEYOND_THE_LEASE),
    bug("renewal-not-retried", &["K04"], INSIDE, HeldOut, watchdog::renewal_not_retried)
        .in_storm(BEYOND_THE_LEASE),
    bug("stale-renewal-entry", &["K04"], INSIDE, HeldOut, watchdog::stale_renewal_entry)
        .in_storm(BEYOND_THE_LEASE),
    bug(
        "renewal-outlives-hold",
        &["K05"],
        &["leaked-lock"],
        HeldOut,
        watchdog::renewal_outlives_hold,
    )
    .in_storm(BEYOND_THE_LEASE),
    bug("armed-by-callback", &["K05"], &["leaked-lock"], Tuning, watchdog::armed_by_callback)
        .in_storm(BEYOND_THE_LEASE),
    bug("renew-without-owner", &["K06"], INSIDE, HeldOut, watchdog::renew_without_owner)
        .in_storm(BEYOND_THE_LEASE),
    bug("renew-by-set", &["K06"], INSIDE, Tuning, watchdog::renew_by_set)
        .in_storm(BEYOND_THE_LEASE),
    bug("resent-del", &["K07"], &["wrong-release"], HeldOut, release::resent_del),
    bug("own-record-as-new", &["K07"], INSIDE, Tuning, lease::own_record_as_new)
        .in_storm(AROUND_THE_LEASE),
    bug("counted-again", &["K07"], &["leaked-lock"], HeldOut, counted::counted_again)
        .in_storm(BEYOND_THE_LEASE),
    bug(
        "ghost-in-queue",
        &["K09"],
        &["stuck-waiter", "leaked-lock"],
        HeldOut,
        queue::ghost_in_queue,
    )
    .in_storm(WAITED_FOR),
    bug("lease-from-reply", &["K11"], INSIDE, HeldOut, lease::lease_from_reply)
        .in_storm(AROUND_THE_LEASE),
    bug("client-clock-expiry", &["K12"], TWICE, HeldOut, clocks::client_clock_expiry).in_storm(&[
        ("lock.lease", "1500ms"),
        ("workload.slow-work", "900ms"),
        DEADLINE,
    ]),
    Bug {
        fence: Fence::Full,
        ordered_tokens: true,
        ..bug("token-from-clock", &["K12"], TOKENS, Tuning, tokens::from_the_clock)
    },
    bug(
        "local-lock-kept",
        &["K14"],
        &["stuck-waiter", "leaked-lock"],
        HeldOut,
        answers::local_lock_kept,
    )
    .in_storm(TWO_WHO_WAIT),
    bug("released-regardless", &["K14"], &["loss-not-told"], Tuning, answers::released_regardless),
    bug("released-at-once", &["K16"], TWICE, HeldOut, identity::released_at_once),
    bug("get-then-set", &["K17"], TWICE, Tuning, taking::get_then_set),
    bug("one-owner-a-process", &["K20"], TWICE, HeldOut, identity::one_owner_a_process),
    bug("open-on-timeout", &["K21"], TWICE, Tuning, open::on_timeout),
    bug("open-on-error", &["K21"], TWICE, HeldOut, open::on_error),
    Bug {
        fence: Fence::Full,
        ordered_tokens: true,
        ..bug("token-before-lock", &[], TOKENS, HeldOut, tokens::before_the_lock)
    },
    Bug {
        fence: Fence::Full,
        ordered_tokens: true,
        ..bug("token-expires", &[], TOKENS, Tuning, tokens::that_expire)
    },
    bug("woken-by-message-alone", &["K08"], CLOSED, HeldOut, wakeups::by_message_alone).in_storm(
        &[
            ("topology.apps", "2"),
            ("lock.lease", "1s"),
            ("workload.slow-work", "600ms"),
            ("workload.patience", "30s"),
            DEADLINE,
        ],
    ),
    bug_at(
        "redlock-five",
        "lease-from-last-vote",
        &["K11"],
        INSIDE,
        HeldOut,
        quorum::from_the_last_vote,
    )
    .in_storm(&[
        ("lock.lease", "1s"),
        ("lock.command-timeout", "150ms"),
        ("workload.slow-work", "800ms"),
        ("workload.slow-per-mille", "200"),
        DEADLINE,
    ]),
    bug_at("redlock-five", "half-is-enough", &[], TWICE, Tuning, quorum::half_is_enough),
    bug_at(
        "zookeeper-single",
        "session-ignored",
        &["K01", "K13"],
        INSIDE,
        Tuning,
        line::session_ignored,
    ),
    bug_at(
        "zookeeper-three",
        "stands-behind-itself",
        &["K07"],
        CLOSED,
        HeldOut,
        line::stands_behind_itself,
    )
    .in_storm(PATIENT),
    bug_at(
        "zookeeper-single",
        "place-left-behind",
        &["K07", "K09"],
        CLOSED,
        HeldOut,
        line::place_left_behind,
    )
    .in_storm(PATIENT),
    bug_at("zookeeper-single", "gone-means-ours", &["K13"], INSIDE, HeldOut, line::gone_means_ours)
        .in_storm(&[("workload.slow-work", "900ms"), ("workload.slow-per-mille", "500"), DEADLINE]),
    bug_at(
        "zookeeper-single",
        "searched-unsorted",
        &["K13"],
        CLOSED,
        Tuning,
        line::searched_unsorted,
    )
    .in_storm(PATIENT),
    bug_at(
        "postgres-single",
        "row-deleted-by-key",
        &["K02"],
        &["wrong-release"],
        HeldOut,
        table::deleted_by_key,
    ),
    bug_at(
        "postgres-single",
        "expiry-of-clients",
        &["K12"],
        TWICE,
        HeldOut,
        table::expiry_of_clients,
    ),
    bug_at(
        "postgres-single",
        "row-without-expiry",
        &["K03"],
        CLOSED,
        Tuning,
        table::without_expiry,
    )
    .in_storm(PATIENT),
    bug_at(
        "postgres-single",
        "connection-not-watched",
        &["K15"],
        INSIDE,
        HeldOut,
        table::connection_not_watched,
    ),
    bug_at(
        "postgres-single",
        "vanished-client-kept",
        &["K15"],
        CLOSED,
        Tuning,
        table::vanished_client_kept,
    )
    .in_storm(PATIENT),
    sale("released-before-commit", &["K16"], Tuning, "redis", checkout::released_before_commit),
    sale("unlocked-one-by-one", &["K16"], HeldOut, "redis", checkout::unlocked_one_by_one),
    sale("version-read-late", &["K17"], HeldOut, "none", checkout::version_read_late),
    sale("state-goes-round", &["K17"], HeldOut, "none", checkout::state_goes_round),
];

/// Locks that break nothing and cost too much: no hunt finds them, a test counts.
pub const WASTES: &[Bug] =
    &[bug_at("zookeeper-single", "parent-watched", &[], &[], Tuning, line::parent_watched)];

/// Bugs that no fault and no delay shows: two tasks of one node must be swapped. They are not
/// among those that strategies are measured on, for the engine `event` runs ready tasks as
/// they were woken; `event-shuffled` and `madsim` find them.
pub const OF_ORDER: &[Bug] =
    &[bug("lost-hand-over", &["K08"], CLOSED, Tuning, order::lost_hand_over)
        .in_storm(BEYOND_THE_LEASE)];

const DEADLINE: (&str, &str) = ("workload.deadline-check", "true");
