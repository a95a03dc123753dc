//! Links that are cut.

use lockstorm_sim::engine::Kernel;

use crate::actor::{echo, give, take};
use crate::behaviour::Behaviour;
use crate::behaviour::Fault::{Cut, CutFrom, Heal};
use crate::behaviour::Role::{Client, Server};
use crate::behaviour::Step::{Cue, Hear, Pass, Strike};

pub fn all() -> Vec<Behaviour> {
    vec![data(), idle(), requests(), answers(), close(), reset(), long_cut(), peer_of_a_long_cut()]
}

fn data() -> Behaviour {
    Behaviour::new(
        "what_was_sent_into_a_cut_arrives_after_the_heal",
        "writing into a cut",
        "succeeds; the bytes arrive after the heal, in order",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.cue("sent").await;
        let mut bytes = std::pin::pin!(take(&mut stream, 3));
        me.say(me.within_ms(700, bytes.as_mut()).await);
        me.say(bytes.await);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("cut").await;
        for byte in ["a", "b", "c"] {
            me.say(give(&mut stream, byte).await);
            me.sleep_ms(20).await;
        }
        me.say("sent");
        std::future::pending::<()>().await;
    })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, "sent"),
        Cue("sent"),
        Hear(Server, "silence"),
        Strike(Heal),
        Hear(Server, "`"),
    ])
    .expect([
        "server: silence",
        "server: `abc`",
        "client: connected",
        "client: written",
        "client: written",
        "client: written",
        "client: sent",
    ])
}

fn idle() -> Behaviour {
    Behaviour::new(
        "an_idle_connection_does_not_notice_a_cut",
        "a cut and heal of an idle connection",
        "is noticed by nobody",
    )
    .server(|me| async move { echo(me.accept().await).await })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("healed").await;
        give(&mut stream, "hi").await;
        me.say(take(&mut stream, 2).await);
    })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Pass(1_000),
        Strike(Heal),
        Cue("healed"),
        Hear(Client, ""),
    ])
    .expect(["client: connected", "client: `hi`"])
}

/// Both write into a cut; each says what it reads in a second, and after the heal.
fn one_way(behaviour: Behaviour) -> Behaviour {
    behaviour
        .server(|me| async move {
            let mut stream = me.accept().await;
            me.cue("cut").await;
            give(&mut stream, "answer").await;
            let mut bytes = std::pin::pin!(take(&mut stream, 3));
            let first = me.within_ms(1_000, bytes.as_mut()).await;
            me.say(&first);
            if first == "silence" {
                me.say(bytes.await);
            }
        })
        .client(|me| async move {
            let mut stream = me.connected().await;
            me.cue("cut").await;
            give(&mut stream, "ask").await;
            let mut bytes = std::pin::pin!(take(&mut stream, 6));
            let first = me.within_ms(1_000, bytes.as_mut()).await;
            me.say(&first);
            if first == "silence" {
                me.say(bytes.await);
            }
            std::future::pending::<()>().await;
        })
}

fn requests() -> Behaviour {
    one_way(Behaviour::new(
        "a_cut_of_requests_lets_answers_through",
        "a cut of the client's direction alone",
        "the server's bytes arrive, the client's after the heal",
    ))
    .script([
        Hear(Client, "connected"),
        Strike(CutFrom(Client)),
        Cue("cut"),
        Hear(Server, "silence"),
        Hear(Client, "`"),
        Strike(Heal),
        Hear(Server, "`"),
    ])
    .expect(["server: silence", "server: `ask`", "client: connected", "client: `answer`"])
}

fn answers() -> Behaviour {
    one_way(Behaviour::new(
        "a_cut_of_answers_lets_requests_through",
        "a cut of the server's direction alone",
        "the client's bytes arrive, the server's after the heal",
    ))
    .script([
        Hear(Client, "connected"),
        Strike(CutFrom(Server)),
        Cue("cut"),
        Hear(Client, "silence"),
        Hear(Server, "`"),
        Strike(Heal),
        Hear(Client, "`"),
    ])
    .expect(["server: `ask`", "client: connected", "client: silence", "client: `answer`"])
}

fn close() -> Behaviour {
    Behaviour::new(
        "a_close_into_a_cut_arrives_after_the_heal",
        "closing into a cut",
        "bytes and FIN arrive after the heal",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.cue("closed").await;
        let mut bytes = std::pin::pin!(take(&mut stream, 9));
        me.say(me.within_ms(700, bytes.as_mut()).await);
        me.say(bytes.await);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("cut").await;
        give(&mut stream, "last").await;
        drop(stream);
        me.say("closed");
    })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, "closed"),
        Cue("closed"),
        Hear(Server, "silence"),
        Strike(Heal),
        Hear(Server, ""),
    ])
    .expect([
        "server: silence",
        "server: `last`, end of file",
        "client: connected",
        "client: closed",
    ])
}

fn reset() -> Behaviour {
    Behaviour::new(
        "a_reset_into_a_cut_is_lost",
        "writing and closing abortively into a cut",
        "the bytes are dropped and the reset never repeated: the peer learns when it next sends",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.cue("healed").await;
        me.say(me.within_ms(1_500, take(&mut stream, 9)).await);
        give(&mut stream, "x").await;
        me.say(take(&mut stream, 1).await);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("cut").await;
        give(&mut stream, "lost").await;
        stream.abort();
        me.say("aborted");
    })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, "aborted"),
        Pass(300),
        Strike(Heal),
        Cue("healed"),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: silence",
        "server: connection reset",
        "client: connected",
        "client: aborted",
    ])
}

/// Undelivered data is given up after three seconds, not after a quarter of an hour.
fn short_tries() -> Kernel {
    Kernel { retries2: 2, ..Kernel::default() }
}

fn long_cut() -> Behaviour {
    Behaviour::new(
        "a_long_cut_ends_a_connection_that_has_something_to_send",
        "a cut that outlasts tcp_retries2 (here 2: 3 s; by default 15: a quarter of an hour)",
        "the reader is timed out, a writer then finds a broken pipe",
    )
    .kernel(short_tries())
    .server(|me| async move {
        let _stream = me.accept().await;
        std::future::pending::<()>().await;
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("cut").await;
        let start = me.host.monotonic();
        give(&mut stream, "x").await;
        let read = take(&mut stream, 1).await;
        let class = me.class(start, &[(1_200, "early"), (8_000, "after some seconds")]);
        me.say(format!("{read} {class}"));
        me.say(give(&mut stream, "x").await);
    })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, ""),
        Hear(Client, ""),
    ])
    .expect([
        "client: connected",
        "client: timed out after some seconds",
        "client: broken pipe",
    ])
}

fn peer_of_a_long_cut() -> Behaviour {
    Behaviour::new(
        "who_writes_to_a_kernel_that_has_given_up_is_reset",
        "after the heal, writing to an end that has given up",
        "is answered with a reset",
    )
    .kernel(short_tries())
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.cue("healed").await;
        me.say(me.within_ms(500, take(&mut stream, 1)).await);
        me.say(give(&mut stream, "x").await);
        me.say(take(&mut stream, 1).await);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("cut").await;
        give(&mut stream, "x").await;
        me.say(take(&mut stream, 1).await);
        // Held, so that it is not the close that is heard.
        std::future::pending::<()>().await;
    })
    .script([
        Hear(Client, "connected"),
        Strike(Cut),
        Cue("cut"),
        Hear(Client, ""),
        Strike(Heal),
        Cue("healed"),
        Hear(Server, "silence"),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: silence",
        "server: written",
        "server: connection reset",
        "client: connected",
        "client: timed out",
    ])
}
