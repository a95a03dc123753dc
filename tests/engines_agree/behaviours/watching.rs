//! Keepalive, user timeouts, and resets on the way.

use std::time::Duration;

use lockstorm::host::{Keepalive, Stream};

use super::data::write_until_full;
use crate::actor::{Actor, echo, give, keepalive, take, told};
use crate::behaviour::Behaviour;
use crate::behaviour::Fault::{CrashMachine, Cut, CutFrom, Heal, Pause, Reset, Resume, Start};
use crate::behaviour::Role::{Client, Server};
use crate::behaviour::Step::{Cue, Hear, Pass, Strike};

pub fn all() -> Vec<Behaviour> {
    vec![
        dead_machine(),
        paused_peer(),
        restarted_machine(),
        given_up(),
        answers_cut_off(),
        keepalive_with_a_user_timeout(),
        foreign_numbers(),
        unacknowledged(),
        acknowledgements_cut_off(),
        no_room(),
        idle(),
        reset(),
    ]
}

/// A server that holds a connection and reads nothing.
fn held(behaviour: Behaviour) -> Behaviour {
    behaviour.server(|me| async move {
        let _stream = me.accept().await;
        std::future::pending::<()>().await;
    })
}

/// A connected stream that probes after a second, each second, and gives up after
/// `count` probes.
async fn probing(me: &Actor, count: u32) -> Stream {
    let mut stream = me.open().await;
    me.say(told(stream.set_keepalive(keepalive(1, 1, count)), "probing"));
    stream
}

/// A connected stream with a user timeout.
async fn limited(me: &Actor, limit_ms: u64) -> Stream {
    let mut stream = me.open().await;
    let limit = Some(Duration::from_millis(limit_ms));
    me.say(told(stream.set_user_timeout(limit), "limited"));
    stream
}

fn dead_machine() -> Behaviour {
    held(Behaviour::new(
        "keepalive_finds_a_dead_machine",
        "keepalive (1 s, 1 s, 2) and a peer whose machine crashed",
        "the reader is timed out after 3 s",
    ))
    .client(|me| async move {
        let mut stream = probing(&me, 2).await;
        me.cue("crashed").await;
        let start = me.host.monotonic();
        let read = take(&mut stream, 1).await;
        let class = me.class(start, &[(1_900, "early"), (7_000, "after some seconds")]);
        me.say(format!("{read} {class}"));
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "probing"),
        Strike(CrashMachine(Server)),
        Cue("crashed"),
        Hear(Client, ""),
        Hear(Client, ""),
    ])
    .expect([
        "client: probing",
        "client: timed out after some seconds",
        "client: end of file",
    ])
}

fn paused_peer() -> Behaviour {
    Behaviour::new(
        "keepalive_is_answered_for_a_paused_program",
        "keepalive and a peer whose program is paused for longer",
        "the kernel answers: the connection lives",
    )
    .server(|me| async move { echo(me.accept().await).await })
    .client(|me| async move {
        let mut stream = probing(&me, 1).await;
        me.cue("resumed").await;
        give(&mut stream, "hi").await;
        me.say(take(&mut stream, 2).await);
    })
    .script([
        Hear(Client, "probing"),
        Strike(Pause(Server)),
        Pass(4_000),
        Strike(Resume(Server)),
        Cue("resumed"),
        Hear(Client, ""),
    ])
    .expect(["client: probing", "client: `hi`"])
}

fn restarted_machine() -> Behaviour {
    held(Behaviour::new(
        "keepalive_finds_a_restarted_machine",
        "keepalive and a peer whose machine was restarted",
        "the probe is answered with a reset",
    ))
    .client(|me| async move {
        let mut stream = probing(&me, 9).await;
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "probing"),
        Strike(CrashMachine(Server)),
        Pass(200),
        Strike(Start(Server)),
        Hear(Client, ""),
    ])
    .expect(["client: probing", "client: connection reset"])
}

fn given_up() -> Behaviour {
    Behaviour::new(
        "who_writes_to_an_end_that_keepalive_gave_up_is_reset",
        "a cut that keepalive gives up, and the peer that writes after the heal",
        "timed out at one end; the other learns nothing until it writes, then it is reset",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.cue("healed").await;
        me.say(me.within_ms(500, take(&mut stream, 1)).await);
        give(&mut stream, "x").await;
        me.say(take(&mut stream, 1).await);
    })
    .client(|me| async move {
        let mut stream = probing(&me, 1).await;
        me.say(take(&mut stream, 1).await);
        std::future::pending::<()>().await;
    })
    .script([
        Hear(Client, "probing"),
        Strike(Cut),
        Hear(Client, ""),
        Strike(Heal),
        Cue("healed"),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: silence",
        "server: connection reset",
        "client: probing",
        "client: timed out",
    ])
}

fn answers_cut_off() -> Behaviour {
    Behaviour::new(
        "an_end_that_keepalive_gave_up_says_so",
        "keepalive where only the answers are cut off",
        "timed out at one end, and the other is reset",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(take(&mut stream, 1).await);
    })
    .client(|me| async move {
        let mut stream = probing(&me, 1).await;
        me.say(take(&mut stream, 1).await);
    })
    .script([Hear(Client, "probing"), Strike(CutFrom(Server)), Hear(Client, ""), Hear(Server, "")])
    .expect(["server: connection reset", "client: probing", "client: timed out"])
}

fn keepalive_with_a_user_timeout() -> Behaviour {
    held(Behaviour::new(
        "a_user_timeout_takes_the_place_of_the_count",
        "keepalive (1 s, 1 s, 100) with a user timeout of 2 s, and a cut",
        "the reader is timed out after some seconds",
    ))
    .client(|me| async move {
        let mut stream = limited(&me, 2_000).await;
        me.say(told(stream.set_keepalive(keepalive(1, 1, 100)), "probing"));
        let start = me.host.monotonic();
        let read = take(&mut stream, 1).await;
        let class = me.class(start, &[(1_900, "early"), (8_000, "after some seconds")]);
        me.say(format!("{read} {class}"));
    })
    .script([Hear(Client, "limited"), Hear(Client, "probing"), Strike(Cut), Hear(Client, "")])
    .expect(["client: limited", "client: probing", "client: timed out after some seconds"])
}

fn foreign_numbers() -> Behaviour {
    held(Behaviour::new(
        "numbers_that_linux_does_not_take_are_refused",
        "keepalive in milliseconds, without probes; a user timeout of nothing",
        "refused by the host, on every machine",
    ))
    .client(|me| async move {
        let mut stream = me.open().await;
        let second = Duration::from_secs(1);
        for keepalive in [
            Keepalive { idle: Duration::from_millis(500), interval: second, count: 3 },
            Keepalive { idle: second, interval: Duration::from_secs(32_768), count: 3 },
            Keepalive { idle: second, interval: second, count: 0 },
        ] {
            me.say(told(stream.set_keepalive(Some(keepalive)), "taken"));
        }
        me.say(told(stream.set_user_timeout(Some(Duration::from_micros(900))), "taken"));
        me.say(told(stream.set_keepalive(None), "off"));
        me.say(told(stream.set_user_timeout(None), "off"));
    })
    .script([Hear(Client, "off"), Hear(Client, "off")])
    .expect([
        "client: invalid input parameter",
        "client: invalid input parameter",
        "client: invalid input parameter",
        "client: invalid input parameter",
        "client: off",
        "client: off",
    ])
}

fn unacknowledged() -> Behaviour {
    held(Behaviour::new(
        "a_user_timeout_ends_what_is_not_acknowledged",
        "a user timeout of 1 s, and bytes sent into a cut",
        "the reader is timed out; a writer then finds a broken pipe",
    ))
    .client(|me| async move {
        let mut stream = limited(&me, 1_000).await;
        me.cue("cut").await;
        let start = me.host.monotonic();
        give(&mut stream, "x").await;
        let read = take(&mut stream, 1).await;
        let class = me.class(start, &[(900, "early"), (2_900, "in time")]);
        me.say(format!("{read} {class}"));
        me.say(give(&mut stream, "x").await);
    })
    .script([Hear(Client, "limited"), Strike(Cut), Cue("cut"), Hear(Client, ""), Hear(Client, "")])
    .expect(["client: limited", "client: timed out in time", "client: broken pipe"])
}

fn acknowledgements_cut_off() -> Behaviour {
    Behaviour::new(
        "a_user_timeout_ends_what_arrived_unacknowledged",
        "the same where the cut is of the other direction alone",
        "the bytes arrive, the sender is timed out all the same, and does not say so",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(take(&mut stream, 1).await);
        me.say(me.within_ms(2_500, take(&mut stream, 1)).await);
    })
    .client(|me| async move {
        let mut stream = limited(&me, 1_000).await;
        me.cue("cut").await;
        give(&mut stream, "x").await;
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "limited"),
        Strike(CutFrom(Server)),
        Cue("cut"),
        Hear(Server, ""),
        Hear(Client, ""),
        Hear(Server, ""),
    ])
    .expect(["server: `x`", "server: silence", "client: limited", "client: timed out"])
}

fn no_room() -> Behaviour {
    held(Behaviour::new(
        "a_user_timeout_ends_a_peer_without_room",
        "a user timeout of 2 s, and a living peer that does not read",
        "the writer that waits for room is timed out",
    ))
    .client(|me| async move {
        let mut stream = limited(&me, 2_000).await;
        let (_, how) = write_until_full(&me, &mut stream).await;
        me.say(how);
        me.say(give(&mut stream, "x").await);
    })
    .script([Hear(Client, "limited"), Hear(Client, "no room"), Hear(Client, "")])
    .expect(["client: limited", "client: no room", "client: timed out"])
}

fn idle() -> Behaviour {
    Behaviour::new(
        "a_user_timeout_leaves_an_idle_connection_alone",
        "a user timeout and a longer cut of an idle connection",
        "the connection lives",
    )
    .server(|me| async move { echo(me.accept().await).await })
    .client(|me| async move {
        let mut stream = limited(&me, 500).await;
        me.cue("healed").await;
        give(&mut stream, "hi").await;
        me.say(take(&mut stream, 2).await);
    })
    .script([
        Hear(Client, "limited"),
        Strike(Cut),
        Pass(1_500),
        Strike(Heal),
        Cue("healed"),
        Hear(Client, ""),
    ])
    .expect(["client: limited", "client: `hi`"])
}

fn reset() -> Behaviour {
    Behaviour::new(
        "a_middlebox_that_resets_is_heard_at_both_ends",
        "a middlebox that answers both ends with resets",
        "both are reset",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        // What makes the real one speak; an engine's needs no occasion.
        let _ = stream.set_keepalive(keepalive(1, 1, 9));
        me.say("accepted");
        me.say(take(&mut stream, 1).await);
        me.say(give(&mut stream, "x").await);
    })
    .client(|me| async move {
        let mut stream = me.open().await;
        let _ = stream.set_keepalive(keepalive(1, 1, 9));
        me.say("connected");
        me.say(take(&mut stream, 1).await);
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "connected"),
        Hear(Server, "accepted"),
        Strike(Reset),
        Hear(Client, ""),
        Hear(Client, ""),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: accepted",
        "server: connection reset",
        "server: broken pipe",
        "client: connected",
        "client: connection reset",
        "client: end of file",
    ])
}
