//! Connecting and listening.

use std::time::Duration;

use lockstorm_sim::engine::Kernel;

use crate::actor::{echo, give, take, told};
use crate::behaviour::Fault::{CrashMachine, CrashProcess, Cut, Heal, Pause, Resume, Start};
use crate::behaviour::Role::{Client, Server};
use crate::behaviour::Step::{Cue, Hear, Pass, Strike};
use crate::behaviour::{Behaviour, Step};

pub fn all() -> Vec<Behaviour> {
    vec![
        connection(),
        refusal(),
        dead_machine(),
        repeated_syn(),
        repeated_syn_of_new_kernels(),
        given_up_by_the_kernel(),
        given_up_by_the_program(),
        paused_program(),
        full_backlog(),
        taken_port(),
    ]
}

fn connection() -> Behaviour {
    Behaviour::new(
        "a_connection_carries_bytes_both_ways",
        "a connect to a listening program",
        "succeeds; bytes go both ways",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(take(&mut stream, 5).await);
        give(&mut stream, "world").await;
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        give(&mut stream, "hello").await;
        me.say(take(&mut stream, 5).await);
    })
    .script([Hear(Client, "`")])
    .expect(["server: `hello`", "client: connected", "client: `world`"])
}

fn refusal() -> Behaviour {
    Behaviour::new(
        "a_port_without_a_listener_refuses",
        "a connect to a port that nobody listens on",
        "is refused",
    )
    .client(|me| async move { me.say(told(me.connect().await, "connected")) })
    .script([Hear(Client, "conn")])
    .expect(["client: connection refused"])
}

fn dead_machine() -> Behaviour {
    Behaviour::new(
        "a_dead_machine_answers_no_connect",
        "a connect to a dead machine",
        "meets silence",
    )
    .server(|me| async move { me.accept().await.abort() })
    .client(|me| async move {
        me.say("up");
        me.cue("dead").await;
        let connecting = async { told(me.connect().await, "connected") };
        me.say(me.within_ms(1_500, connecting).await);
    })
    .script([Hear(Client, "up"), Strike(CrashMachine(Server)), Cue("dead"), Hear(Client, "")])
    .expect(["client: up", "client: silence"])
}

/// Connects into a cut that is healed after 1.4 s; says when that succeeded.
fn connect_over_a_cut(behaviour: Behaviour) -> Behaviour {
    let script: [Step; 6] = [
        Hear(Client, "up"),
        Strike(Cut),
        Cue("cut"),
        Pass(1_400),
        Strike(Heal),
        Hear(Client, "connected"),
    ];
    behaviour
        .server(|me| async move {
            let _stream = me.accept().await;
            std::future::pending::<()>().await;
        })
        .client(|me| async move {
            me.say("up");
            me.cue("cut").await;
            let start = me.host.monotonic();
            let result = me.connect().await;
            let classes =
                [(1_390, "during the cut"), (2_700, "after 2 s"), (10_000, "after 3 s or more")];
            me.say(format!("{} {}", told(result, "connected"), me.class(start, &classes)));
        })
        .script(script)
}

fn repeated_syn() -> Behaviour {
    connect_over_a_cut(Behaviour::new(
        "a_syn_is_repeated_after_1_and_3_seconds",
        "a connect into a cut that heals after 1.4 s",
        "succeeds with the SYN that is repeated after 3 s (kernels up to 6.4)",
    ))
    .expect(["client: up", "client: connected after 3 s or more"])
}

fn repeated_syn_of_new_kernels() -> Behaviour {
    connect_over_a_cut(Behaviour::new(
        "new_kernels_repeat_a_syn_every_second",
        "the same with tcp_syn_linear_timeouts = 4 (kernels from 6.5)",
        "succeeds with the SYN that is repeated after 2 s",
    ))
    .kernel(Kernel { syn_linear_timeouts: 4, ..Kernel::default() })
    .expect(["client: up", "client: connected after 2 s"])
}

fn given_up_by_the_kernel() -> Behaviour {
    Behaviour::new(
        "a_kernel_gives_up_connecting",
        "a connect into silence, tcp_syn_retries = 1",
        "is timed out after 3 s (with the default of 6, after 127 s)",
    )
    .kernel(Kernel { syn_retries: 1, ..Kernel::default() })
    .server(|me| async move {
        let _stream = me.accept().await;
        std::future::pending::<()>().await;
    })
    .client(|me| async move {
        me.say("up");
        me.cue("cut").await;
        let start = me.host.monotonic();
        let result = told(me.connect().await, "connected");
        let classes = [(2_900, "early"), (6_900, "after 3 s")];
        me.say(format!("{result} {}", me.class(start, &classes)));
    })
    .script([Hear(Client, "up"), Strike(Cut), Cue("cut"), Hear(Client, "")])
    .expect(["client: up", "client: timed out after 3 s"])
}

fn given_up_by_the_program() -> Behaviour {
    Behaviour::new(
        "a_connect_that_was_given_up_never_arrives",
        "a connect into a cut that the program gives up before the heal",
        "never reaches the listener",
    )
    .server(|me| async move {
        let listener = me.listen().await;
        me.cue("healed").await;
        let accepting = async { told(listener.accept().await, "accepted") };
        me.say(me.within_ms(1_500, accepting).await);
    })
    .client(|me| async move {
        me.say("up");
        me.cue("cut").await;
        let connecting = async { told(me.connect().await, "connected") };
        me.say(me.within_ms(300, connecting).await);
    })
    .script([
        Hear(Client, "up"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, ""),
        Strike(Heal),
        Cue("healed"),
        Hear(Server, ""),
    ])
    .expect(["server: silence", "client: up", "client: silence"])
}

fn paused_program() -> Behaviour {
    Behaviour::new(
        "the_kernel_of_a_paused_program_accepts_and_buffers",
        "a connect and a request to a paused program",
        "the kernel accepts and buffers; the answer comes after the pause",
    )
    .server(|me| async move { echo(me.accept().await).await })
    .client(|me| async move {
        me.say("up");
        me.cue("paused").await;
        let mut stream = me.connected().await;
        give(&mut stream, "hi").await;
        let mut answer = std::pin::pin!(take(&mut stream, 2));
        me.say(me.within_ms(500, answer.as_mut()).await);
        me.say(answer.await);
    })
    .script([
        Hear(Client, "up"),
        Strike(Pause(Server)),
        Cue("paused"),
        Hear(Client, "silence"),
        Strike(Resume(Server)),
        Hear(Client, "`"),
    ])
    .expect(["client: up", "client: connected", "client: silence", "client: `hi`"])
}

fn full_backlog() -> Behaviour {
    Behaviour::new(
        "a_full_backlog_drops_syns",
        "connecting to a program that does not accept, net.core.somaxconn = 4",
        "succeeds five times, then meets silence; goes on when the program accepts",
    )
    .kernel(Kernel { somaxconn: 4, ..Kernel::default() })
    .server(|me| async move {
        let listener = me.listen().await;
        me.cue("accept").await;
        let mut streams = Vec::new();
        loop {
            streams.push(listener.accept().await.unwrap());
        }
    })
    .client(|me| async move {
        let mut streams = Vec::new();
        loop {
            let connecting = me.host.timeout(Duration::from_millis(500), me.connect());
            match connecting.await {
                Ok(stream) => streams.push(stream.unwrap()),
                Err(_) => break,
            }
        }
        me.say(format!("{} connected, then silence", streams.len()));
        me.say(told(me.connect().await, "connected"));
    })
    .script([Hear(Client, ""), Pass(500), Cue("accept"), Hear(Client, "")])
    .expect(["client: 5 connected, then silence", "client: connected"])
}

fn taken_port() -> Behaviour {
    Behaviour::new(
        "a_port_is_taken_while_its_program_lives",
        "a second listener on a port; the same port after a crash of the process",
        "address in use; free",
    )
    .server(|me| async move {
        let listener = me.host.listen(crate::actor::PORT).await;
        me.say(told(listener.as_ref().map_err(|error| error.kind().into()), "listening"));
        let again = me.host.listen(crate::actor::PORT).await;
        me.say(told(again, "listening"));
        me.ready();
        let _listener = listener;
        std::future::pending::<()>().await;
    })
    .client(|me| async move {
        let _stream = me.connected().await;
        std::future::pending::<()>().await;
    })
    .script([
        Hear(Client, "connected"),
        Strike(CrashProcess(Server)),
        Pass(100),
        Strike(Start(Server)),
        Hear(Server, "address"),
        Hear(Server, "address"),
    ])
    .expect([
        "server: listening",
        "server: address in use",
        "server: listening",
        "server: address in use",
        "client: connected",
    ])
}
