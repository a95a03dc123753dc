//! What an engine does otherwise than Linux: the one table of it.

use crate::{ENGINES, behaviours};

/// A deviation of engines from a behaviour.
pub struct Deviation {
    pub engines: &'static [&'static str],
    pub behaviour: &'static str,
    /// What they do instead, for people.
    pub text: &'static str,
    /// What the programs see instead.
    pub outcome: &'static [&'static str],
}

/// The engines without kernels that count and give up.
const BOTH: &[&str] = &["turmoil", "madsim"];

const ALL: &[Deviation] = &[
    Deviation {
        engines: &["turmoil"],
        behaviour: "a_cut_of_requests_lets_answers_through",
        text: "not expressible (`hold` is two-way): changes nothing",
        outcome: &[
            "server: `ask`",
            "client: connected",
            "client: `answer`",
            "script: waited in vain for server: silence",
        ],
    },
    Deviation {
        engines: &["turmoil"],
        behaviour: "a_cut_of_answers_lets_requests_through",
        text: "not expressible: changes nothing",
        outcome: &[
            "server: `ask`",
            "client: connected",
            "client: `answer`",
            "script: waited in vain for client: silence",
        ],
    },
    Deviation {
        engines: &["turmoil"],
        behaviour: "a_reset_into_a_cut_is_lost",
        text: "is an ordinary close there, and nothing is dropped",
        outcome: &[
            "server: `lost`, end of file",
            "server: end of file",
            "client: connected",
            "client: aborted",
        ],
    },
    Deviation {
        engines: BOTH,
        behaviour: "a_long_cut_ends_a_connection_that_has_something_to_send",
        text: "never ends",
        outcome: &["client: connected", "script: waited in vain for client: "],
    },
    Deviation {
        engines: BOTH,
        behaviour: "who_writes_to_a_kernel_that_has_given_up_is_reset",
        text: "no kernel gives up",
        outcome: &["client: connected", "script: waited in vain for client: "],
    },
    Deviation {
        engines: BOTH,
        behaviour: "a_kernel_gives_up_the_bytes_of_a_crashed_process_earlier",
        text: "no kernel gives up: the bytes arrive",
        outcome: &[
            "server: `last`, end of file",
            "server: end of file",
            "client: connected",
            "client: written",
        ],
    },
    Deviation {
        engines: BOTH,
        behaviour: "keepalive_finds_a_dead_machine",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engines: BOTH,
        behaviour: "keepalive_is_answered_for_a_paused_program",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engines: BOTH,
        behaviour: "keepalive_finds_a_restarted_machine",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engines: BOTH,
        behaviour: "who_writes_to_an_end_that_keepalive_gave_up_is_reset",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engines: BOTH,
        behaviour: "an_end_that_keepalive_gave_up_says_so",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engines: BOTH,
        behaviour: "a_user_timeout_takes_the_place_of_the_count",
        text: "refused: no user timeout",
        outcome: &[
            "client: unsupported",
            "client: unsupported",
            "script: waited in vain for client: limited",
        ],
    },
    Deviation {
        engines: BOTH,
        behaviour: "a_user_timeout_ends_what_is_not_acknowledged",
        text: "refused: no user timeout",
        outcome: &["client: unsupported", "script: waited in vain for client: limited"],
    },
    Deviation {
        engines: BOTH,
        behaviour: "a_user_timeout_ends_what_arrived_unacknowledged",
        text: "refused: no user timeout",
        outcome: &["client: unsupported", "script: waited in vain for client: limited"],
    },
    Deviation {
        engines: BOTH,
        behaviour: "a_user_timeout_leaves_an_idle_connection_alone",
        text: "refused: no user timeout",
        outcome: &["client: unsupported", "script: waited in vain for client: limited"],
    },
    Deviation {
        engines: BOTH,
        behaviour: "a_user_timeout_ends_a_peer_without_room",
        text: "refused: no user timeout",
        outcome: &[
            "client: unsupported",
            "client: no room",
            "script: waited in vain for client: limited",
        ],
    },
];

/// The deviation of `engine` from `behaviour`, if it has one.
pub fn of(engine: &str, behaviour: &str) -> Option<&'static Deviation> {
    ALL.iter().find(|it| it.engines.contains(&engine) && it.behaviour == behaviour)
}

/// Every line of the table is of an engine and a behaviour, once, and says something.
pub fn check() -> Result<(), String> {
    let behaviours = behaviours::all();
    for (index, deviation) in ALL.iter().enumerate() {
        let Deviation { engines, behaviour, text, outcome } = deviation;
        let place = format!("{} × {behaviour}", engines.join(", "));
        let Some(known) = behaviours.iter().find(|it| it.name == *behaviour) else {
            return Err(format!("{place}: there is no such behaviour"));
        };
        let are_known = engines.iter().all(|engine| ENGINES.contains(engine));
        if engines.is_empty() || !are_known || text.is_empty() {
            return Err(format!("{place}: name engines and say what they do"));
        }
        if known.expected == *outcome {
            return Err(format!("{place}: that is what Linux does"));
        }
        let is_same = |it: &Deviation| {
            it.behaviour == *behaviour && it.engines.iter().any(|engine| engines.contains(engine))
        };
        if ALL[..index].iter().any(is_same) {
            return Err(format!("{place}: it stands there twice"));
        }
    }
    Ok(())
}
