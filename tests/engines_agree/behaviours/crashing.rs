//! Programs and machines that crash, restart and pause.

use lockstorm_sim::engine::Kernel;

use super::data::write_until_full;
use crate::actor::{echo, give, take, told};
use crate::behaviour::Behaviour;
use crate::behaviour::Fault::{CrashMachine, CrashProcess, Cut, Heal, Pause, Resume, Start};
use crate::behaviour::Role::{Client, Server};
use crate::behaviour::Step::{Cue, Hear, Pass, Strike};

pub fn all() -> Vec<Behaviour> {
    vec![
        process(),
        process_with_unread_bytes(),
        process_that_did_not_accept(),
        process_behind_a_cut(),
        bytes_of_a_process(),
        orphaned_bytes(),
        restarted_process(),
        blocked_writer(),
        machine(),
        restarted_machine(),
        restarted_machine_behind_a_cut(),
        half_open(),
        connect_over_a_restart(),
        bytes_of_a_machine(),
        bytes_of_a_dead_process_of_a_machine(),
        pause(),
        crash_in_a_pause(),
    ]
}

/// A server that holds a connection and reads nothing.
fn held(behaviour: Behaviour) -> Behaviour {
    behaviour.server(|me| async move {
        let _stream = me.accept().await;
        std::future::pending::<()>().await;
    })
}

fn process() -> Behaviour {
    held(Behaviour::new(
        "a_crash_of_a_process_is_an_end",
        "a crash of the peer's process",
        "its kernel closes: the end of the stream",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.say(take(&mut stream, 1).await);
    })
    .script([Hear(Client, "connected"), Pass(100), Strike(CrashProcess(Server)), Hear(Client, "")])
    .expect(["client: connected", "client: end of file"])
}

fn process_with_unread_bytes() -> Behaviour {
    held(Behaviour::new(
        "a_crash_of_a_process_with_unread_bytes_is_a_reset",
        "a crash of the peer's process that had bytes to read",
        "its kernel resets",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.say(give(&mut stream, "unread").await);
        me.say(take(&mut stream, 1).await);
    })
    .script([Hear(Client, "written"), Pass(200), Strike(CrashProcess(Server)), Hear(Client, "")])
    .expect(["client: connected", "client: written", "client: connection reset"])
}

fn process_that_did_not_accept() -> Behaviour {
    Behaviour::new(
        "a_crash_of_a_process_resets_what_it_did_not_accept",
        "a crash of a process with a connection that it had not accepted",
        "its kernel resets",
    )
    .server(|me| async move {
        let _listener = me.listen().await;
        std::future::pending::<()>().await;
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.say(take(&mut stream, 1).await);
    })
    .script([Hear(Client, "connected"), Pass(100), Strike(CrashProcess(Server)), Hear(Client, "")])
    .expect(["client: connected", "client: connection reset"])
}

fn process_behind_a_cut() -> Behaviour {
    held(Behaviour::new(
        "a_crash_of_a_process_behind_a_cut_is_heard_after_the_heal",
        "a crash of the peer's process behind a cut",
        "silence; the end of the stream after the heal",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("crashed").await;
        let mut reading = std::pin::pin!(take(&mut stream, 1));
        me.say(me.within_ms(700, reading.as_mut()).await);
        me.say(reading.await);
    })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Strike(CrashProcess(Server)),
        Cue("crashed"),
        Hear(Client, "silence"),
        Strike(Heal),
        Hear(Client, ""),
    ])
    .expect(["client: connected", "client: silence", "client: end of file"])
}

/// A client that writes into a cut, and a server that says what comes after the heal.
fn last_words(behaviour: Behaviour) -> Behaviour {
    behaviour
        .server(|me| async move {
            let mut stream = me.accept().await;
            me.cue("healed").await;
            me.say(me.within_ms(2_000, take(&mut stream, 9)).await);
            give(&mut stream, "x").await;
            me.say(me.within_ms(500, take(&mut stream, 1)).await);
        })
        .client(|me| async move {
            let mut stream = me.connected().await;
            me.cue("cut").await;
            me.say(give(&mut stream, "last").await);
            std::future::pending::<()>().await;
        })
}

fn bytes_of_a_process() -> Behaviour {
    last_words(Behaviour::new(
        "bytes_in_the_kernel_of_a_crashed_process_still_leave",
        "bytes that a process gave to its kernel, into a cut, before it crashed",
        "arrive after the heal, and the end of the stream",
    ))
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, "written"),
        Strike(CrashProcess(Client)),
        Pass(300),
        Strike(Heal),
        Cue("healed"),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: `last`, end of file",
        "server: end of file",
        "client: connected",
        "client: written",
    ])
}

fn orphaned_bytes() -> Behaviour {
    last_words(Behaviour::new(
        "a_kernel_gives_up_the_bytes_of_a_crashed_process_earlier",
        "the same where the cut outlasts tcp_orphan_retries (here 1; by default 100 s)",
        "the bytes are lost; who then writes is reset",
    ))
    .kernel(Kernel { orphan_retries: 1, ..Kernel::default() })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, "written"),
        Strike(CrashProcess(Client)),
        Pass(2_700),
        Strike(Heal),
        Cue("healed"),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: silence",
        "server: connection reset",
        "client: connected",
        "client: written",
    ])
}

fn restarted_process() -> Behaviour {
    Behaviour::new(
        "a_crashed_process_refuses_until_it_is_restarted",
        "connecting to a crashed process, and after its restart",
        "refused; connected",
    )
    .server(|me| async move {
        let listener = me.listen().await;
        me.say(format!("life {}", me.life));
        loop {
            let stream = listener.accept().await.unwrap();
            me.host.spawn("echo", echo(stream));
        }
    })
    .client(|me| async move {
        let _first = me.connected().await;
        me.cue("crashed").await;
        me.say(told(me.connect().await, "connected"));
        me.cue("restarted").await;
        let mut stream = me.connected().await;
        give(&mut stream, "hi").await;
        me.say(take(&mut stream, 2).await);
    })
    .script([
        Hear(Server, "life 1"),
        Hear(Client, "connected"),
        Strike(CrashProcess(Server)),
        Pass(50),
        Cue("crashed"),
        Hear(Client, "connection refused"),
        Strike(Start(Server)),
        Hear(Server, "life 2"),
        Cue("restarted"),
        Hear(Client, "`"),
    ])
    .expect([
        "server: life 1",
        "server: life 2",
        "client: connected",
        "client: connection refused",
        "client: connected",
        "client: `hi`",
    ])
}

fn blocked_writer() -> Behaviour {
    held(Behaviour::new(
        "a_writer_that_waits_for_room_is_woken_by_a_reset",
        "a crash of a process whose peer waits for room",
        "the writer is reset",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        let (_, how) = write_until_full(&me, &mut stream).await;
        me.say(how);
        me.say(give(&mut stream, "x").await);
    })
    .script([Hear(Client, "no room"), Strike(CrashProcess(Server)), Hear(Client, "")])
    .expect(["client: connected", "client: no room", "client: connection reset"])
}

fn machine() -> Behaviour {
    held(Behaviour::new(
        "a_crash_of_a_machine_is_silence",
        "a crash of the peer's machine",
        "silence; writing succeeds",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("crashed").await;
        me.say(give(&mut stream, "x").await);
        me.say(me.within_ms(1_500, take(&mut stream, 1)).await);
    })
    .script([
        Hear(Client, "connected"),
        Strike(CrashMachine(Server)),
        Cue("crashed"),
        Hear(Client, "written"),
        Hear(Client, ""),
    ])
    .expect(["client: connected", "client: written", "client: silence"])
}

fn restarted_machine() -> Behaviour {
    held(Behaviour::new(
        "a_restarted_machine_resets_what_arrives",
        "a restart of the machine while the peer sends",
        "the peer is reset when its kernel sends again",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("crashed").await;
        me.say(give(&mut stream, "x").await);
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "connected"),
        Strike(CrashMachine(Server)),
        Cue("crashed"),
        Hear(Client, "written"),
        Pass(300),
        Strike(Start(Server)),
        Hear(Client, ""),
    ])
    .expect(["client: connected", "client: written", "client: connection reset"])
}

fn restarted_machine_behind_a_cut() -> Behaviour {
    held(Behaviour::new(
        "a_machine_that_was_restarted_behind_a_cut_resets_after_the_heal",
        "writing into a cut behind which the machine is restarted",
        "the peer is reset after the heal",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("cut").await;
        me.say(give(&mut stream, "x").await);
        let mut reading = std::pin::pin!(take(&mut stream, 1));
        me.say(me.within_ms(700, reading.as_mut()).await);
        me.say(reading.await);
    })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, "written"),
        Strike(CrashMachine(Server)),
        Strike(Start(Server)),
        Hear(Client, "silence"),
        Strike(Heal),
        Hear(Client, ""),
    ])
    .expect([
        "client: connected",
        "client: written",
        "client: silence",
        "client: connection reset",
    ])
}

fn connect_over_a_restart() -> Behaviour {
    held(Behaviour::new(
        "a_connect_outlasts_a_restart_of_the_machine",
        "a connect to a machine that comes back after 1.1 s",
        "succeeds with a repeated SYN",
    ))
    .client(|me| async move {
        me.say("up");
        me.cue("crashed").await;
        me.say(told(me.connect().await, "connected"));
    })
    .script([
        Hear(Client, "up"),
        Strike(CrashMachine(Server)),
        Cue("crashed"),
        Pass(1_100),
        Strike(Start(Server)),
        Hear(Client, ""),
    ])
    .expect(["client: up", "client: connected"])
}

fn half_open() -> Behaviour {
    held(Behaviour::new(
        "an_idle_peer_does_not_notice_a_restart",
        "a restart of the machine while the peer only reads",
        "is not noticed: the connection is half open, until the peer writes",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("restarted").await;
        me.say(me.within_ms(1_500, take(&mut stream, 1)).await);
        me.say(give(&mut stream, "x").await);
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "connected"),
        Strike(CrashMachine(Server)),
        Pass(200),
        Strike(Start(Server)),
        Cue("restarted"),
        Hear(Client, "silence"),
        Hear(Client, "written"),
        Hear(Client, ""),
    ])
    .expect([
        "client: connected",
        "client: silence",
        "client: written",
        "client: connection reset",
    ])
}

fn bytes_of_a_machine() -> Behaviour {
    last_words(Behaviour::new(
        "bytes_of_a_crashed_machine_are_lost",
        "bytes that were held by a cut when their machine crashed",
        "are lost; nobody answers",
    ))
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, "written"),
        Strike(CrashMachine(Client)),
        Pass(300),
        Strike(Heal),
        Cue("healed"),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect(["server: silence", "server: silence", "client: connected", "client: written"])
}

fn bytes_of_a_dead_process_of_a_machine() -> Behaviour {
    last_words(Behaviour::new(
        "a_crash_of_the_machine_after_its_process_loses_the_bytes",
        "the same where the process had crashed before its machine did",
        "are lost; nobody answers",
    ))
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, "written"),
        Strike(CrashProcess(Client)),
        Pass(200),
        Strike(CrashMachine(Client)),
        Strike(Heal),
        Cue("healed"),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect(["server: silence", "server: silence", "client: connected", "client: written"])
}

fn pause() -> Behaviour {
    Behaviour::new(
        "timers_of_a_paused_program_are_late_and_not_lost",
        "a timer that is due in a pause",
        "ends after the pause",
    )
    .server(|me| async move {
        me.ready();
        me.cue("sleep").await;
        let start = me.host.monotonic();
        me.say("sleeping");
        me.sleep_ms(300).await;
        me.say(format!("slept, {}", me.class(start, &[(900, "in time"), (9_000, "late")])));
    })
    .client(|me| async move { me.say("up") })
    .script([
        Hear(Client, "up"),
        Cue("sleep"),
        Hear(Server, "sleeping"),
        Strike(Pause(Server)),
        Pass(1_000),
        Strike(Resume(Server)),
        Hear(Server, "slept"),
    ])
    .expect(["server: sleeping", "server: slept, late", "client: up"])
}

fn crash_in_a_pause() -> Behaviour {
    Behaviour::new(
        "a_paused_program_can_be_killed",
        "a crash of a paused process with a request in its kernel",
        "its kernel resets",
    )
    .server(|me| async move { echo(me.accept().await).await })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("paused").await;
        me.say(give(&mut stream, "hi").await);
        me.say(take(&mut stream, 2).await);
    })
    .script([
        Hear(Client, "connected"),
        Pass(100),
        Strike(Pause(Server)),
        Cue("paused"),
        Hear(Client, "written"),
        Pass(200),
        Strike(CrashProcess(Server)),
        Hear(Client, ""),
    ])
    .expect(["client: connected", "client: written", "client: connection reset"])
}
