//! What an engine does otherwise than Linux: the one table of it.

use crate::behaviours;

/// A deviation of an engine from a behaviour.
pub struct Deviation {
    pub engine: &'static str,
    pub behaviour: &'static str,
    /// What it does instead, for people.
    pub text: &'static str,
    /// What the programs see instead.
    pub outcome: &'static [&'static str],
}

const ALL: &[Deviation] = &[
    Deviation {
        engine: "turmoil",
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
        engine: "turmoil",
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
        engine: "turmoil",
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
        engine: "turmoil",
        behaviour: "a_long_cut_ends_a_connection_that_has_something_to_send",
        text: "never ends",
        outcome: &["client: connected", "script: waited in vain for client: "],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "who_writes_to_a_kernel_that_has_given_up_is_reset",
        text: "no kernel gives up",
        outcome: &["client: connected", "script: waited in vain for client: "],
    },
    Deviation {
        engine: "turmoil",
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
        engine: "turmoil",
        behaviour: "keepalive_finds_a_dead_machine",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "keepalive_is_answered_for_a_paused_program",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "keepalive_finds_a_restarted_machine",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "who_writes_to_an_end_that_keepalive_gave_up_is_reset",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "an_end_that_keepalive_gave_up_says_so",
        text: "refused: no probes",
        outcome: &["client: unsupported", "script: waited in vain for client: probing"],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "a_user_timeout_takes_the_place_of_the_count",
        text: "refused: no user timeout",
        outcome: &[
            "client: unsupported",
            "client: unsupported",
            "script: waited in vain for client: limited",
        ],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "a_user_timeout_ends_what_is_not_acknowledged",
        text: "refused: no user timeout",
        outcome: &["client: unsupported", "script: waited in vain for client: limited"],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "a_user_timeout_ends_what_arrived_unacknowledged",
        text: "refused: no user timeout",
        outcome: &["client: unsupported", "script: waited in vain for client: limited"],
    },
    Deviation {
        engine: "turmoil",
        behaviour: "a_user_timeout_leaves_an_idle_connection_alone",
        text: "refused: no user timeout",
        outcome: &["client: unsupported", "script: waited in vain for client: limited"],
    },
    Deviation {
        engine: "turmoil",
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
    ALL.iter().find(|it| it.engine == engine && it.behaviour == behaviour)
}

/// Every line of the table is of an engine and a behaviour, once, and says something.
pub fn check() -> Result<(), String> {
    let behaviours = behaviours::all();
    for (index, deviation) in ALL.iter().enumerate() {
        let Deviation { engine, behaviour, text, outcome } = deviation;
        let place = format!("{engine} × {behaviour}");
        let Some(known) = behaviours.iter().find(|it| it.name == *behaviour) else {
            return Err(format!("{place}: there is no such behaviour"));
        };
        if !["event", "turmoil"].contains(engine) || text.is_empty() {
            return Err(format!("{place}: name an engine and say what it does"));
        }
        if known.expected == *outcome {
            return Err(format!("{place}: that is what Linux does"));
        }
        if ALL[..index].iter().any(|it| it.engine == *engine && it.behaviour == *behaviour) {
            return Err(format!("{place}: it stands there twice"));
        }
    }
    Ok(())
}
