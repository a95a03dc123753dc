//! How a connection ends, and how that is told.

use tokio::io::AsyncWriteExt;

use super::data::write_until_full;
use crate::actor::{echo, give, peer_closed, take, told};
use crate::behaviour::Behaviour;
use crate::behaviour::Role::{Client, Server};
use crate::behaviour::Step::{Cue, Hear, Pass};

pub fn all() -> Vec<Behaviour> {
    vec![
        abort(),
        unread(),
        unread_by_a_writer_without_room(),
        data_before_a_reset(),
        told_once_to_a_reader(),
        told_once_to_a_writer(),
        closed_peer(),
        close_seen_without_reading(),
        reset_seen_without_reading(),
        close_behind_bytes(),
        shutdown_after_a_reset(),
        closed_listener(),
        outlived_listener(),
        came_and_went(),
        came_and_was_reset(),
    ]
}

/// A server that is reset by its client, abortively.
fn reset_by_client(behaviour: Behaviour) -> Behaviour {
    behaviour.client(|me| async move {
        let stream = me.connected().await;
        me.cue("abort").await;
        stream.abort();
        me.say("aborted");
    })
}

fn abort() -> Behaviour {
    reset_by_client(Behaviour::new(
        "an_abortive_close_is_a_reset",
        "an abortive close",
        "the peer is reset",
    ))
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(take(&mut stream, 1).await);
    })
    .script([Hear(Client, "connected"), Cue("abort"), Hear(Client, "aborted"), Hear(Server, "")])
    .expect(["server: connection reset", "client: connected", "client: aborted"])
}

fn unread() -> Behaviour {
    Behaviour::new(
        "a_close_with_unread_bytes_is_a_reset",
        "closing with bytes that were not read",
        "the peer is reset",
    )
    .server(|me| async move {
        let stream = me.accept().await;
        me.cue("close").await;
        drop(stream);
        me.say("closed");
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.say(give(&mut stream, "unread").await);
        me.say(take(&mut stream, 1).await);
    })
    .script([Hear(Client, "written"), Pass(200), Cue("close"), Hear(Client, "")])
    .expect([
        "server: closed",
        "client: connected",
        "client: written",
        "client: connection reset",
    ])
}

fn unread_by_a_writer_without_room() -> Behaviour {
    Behaviour::new(
        "a_writer_that_waits_for_room_is_woken_by_a_close",
        "a close with unread bytes while the peer waits for room",
        "the writer is reset",
    )
    .server(|me| async move {
        let stream = me.accept().await;
        me.cue("close").await;
        drop(stream);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        let (_, how) = write_until_full(&me, &mut stream).await;
        me.say(how);
        me.say(give(&mut stream, "x").await);
    })
    .script([Hear(Client, "no room"), Pass(200), Cue("close"), Hear(Client, "")])
    .expect(["client: connected", "client: no room", "client: connection reset"])
}

fn data_before_a_reset() -> Behaviour {
    Behaviour::new(
        "what_arrived_before_a_reset_can_still_be_read",
        "bytes that arrived before a reset",
        "can still be read",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.cue("aborted").await;
        me.say(take(&mut stream, 9).await);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        give(&mut stream, "last").await;
        me.sleep_ms(300).await;
        stream.abort();
        me.say("aborted");
    })
    .script([Hear(Client, "aborted"), Pass(300), Cue("aborted"), Hear(Server, "")])
    .expect(["server: `last`, connection reset", "client: connected", "client: aborted"])
}

fn told_once_to_a_reader() -> Behaviour {
    reset_by_client(Behaviour::new(
        "a_reset_is_told_once_to_a_reader",
        "reading on after a reset, and writing",
        "reset once, then the end; broken pipe",
    ))
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(take(&mut stream, 1).await);
        me.say(take(&mut stream, 1).await);
        me.say(give(&mut stream, "x").await);
    })
    .script([
        Hear(Client, "connected"),
        Cue("abort"),
        Hear(Client, "aborted"),
        Hear(Server, ""),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: connection reset",
        "server: end of file",
        "server: broken pipe",
        "client: connected",
        "client: aborted",
    ])
}

fn told_once_to_a_writer() -> Behaviour {
    reset_by_client(Behaviour::new(
        "a_reset_is_told_once_to_a_writer",
        "writing after a reset that nobody has read",
        "reset once, then broken pipe; a reader finds the end",
    ))
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.cue("aborted").await;
        me.say(give(&mut stream, "x").await);
        me.say(give(&mut stream, "x").await);
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "connected"),
        Cue("abort"),
        Hear(Client, "aborted"),
        Pass(300),
        Cue("aborted"),
        Hear(Server, ""),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: connection reset",
        "server: broken pipe",
        "server: end of file",
        "client: connected",
        "client: aborted",
    ])
}

fn closed_peer() -> Behaviour {
    Behaviour::new(
        "writing_to_a_peer_that_has_closed",
        "writing to a program that has closed",
        "succeeds once, is answered with a reset; then broken pipe, and the end for a reader",
    )
    .server(|me| async move {
        drop(me.accept().await);
        me.say("closed");
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.say(take(&mut stream, 1).await);
        me.say(give(&mut stream, "x").await);
        me.sleep_ms(300).await;
        me.say(give(&mut stream, "x").await);
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "end of file"),
        Hear(Client, ""),
        Hear(Client, ""),
        Hear(Client, "end of file"),
    ])
    .expect([
        "server: closed",
        "client: connected",
        "client: end of file",
        "client: written",
        "client: broken pipe",
        "client: end of file",
    ])
}

fn close_seen_without_reading() -> Behaviour {
    Behaviour::new(
        "a_close_is_seen_without_reading",
        "waiting for the peer's close without reading",
        "it is seen, and the end is read afterwards",
    )
    .server(|me| async move {
        let stream = me.accept().await;
        me.cue("close").await;
        drop(stream);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.say(me.within_ms(300, peer_closed(&mut stream)).await);
        me.say(peer_closed(&mut stream).await);
        me.say(take(&mut stream, 1).await);
    })
    .script([Hear(Client, "silence"), Cue("close"), Hear(Client, "the"), Hear(Client, "")])
    .expect([
        "client: connected",
        "client: silence",
        "client: the peer has closed",
        "client: end of file",
    ])
}

fn reset_seen_without_reading() -> Behaviour {
    reset_by_client(Behaviour::new(
        "a_reset_is_seen_without_reading",
        "waiting for the peer's reset without reading",
        "it is seen, and told to whoever reads afterwards",
    ))
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(peer_closed(&mut stream).await);
        me.say(take(&mut stream, 1).await);
    })
    .script([
        Hear(Client, "connected"),
        Cue("abort"),
        Hear(Client, "aborted"),
        Hear(Server, "the"),
        Hear(Server, ""),
    ])
    .expect([
        "server: the peer has closed",
        "server: connection reset",
        "client: connected",
        "client: aborted",
    ])
}

fn shutdown_after_a_reset() -> Behaviour {
    reset_by_client(Behaviour::new(
        "shutting_down_after_a_reset_is_no_error",
        "closing the sending direction after a reset",
        "is no error",
    ))
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(take(&mut stream, 1).await);
        me.say(told(stream.shutdown().await, "shut down"));
    })
    .script([
        Hear(Client, "connected"),
        Cue("abort"),
        Hear(Client, "aborted"),
        Hear(Server, ""),
        Hear(Server, ""),
    ])
    .expect([
        "server: connection reset",
        "server: shut down",
        "client: connected",
        "client: aborted",
    ])
}

fn closed_listener() -> Behaviour {
    Behaviour::new(
        "a_listener_that_is_closed_resets_what_waits",
        "a listener closed before it accepted",
        "what waits is reset",
    )
    .server(|me| async move {
        let listener = me.listen().await;
        me.cue("close").await;
        drop(listener);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.say(take(&mut stream, 1).await);
    })
    .script([Hear(Client, "connected"), Pass(200), Cue("close"), Hear(Client, "")])
    .expect(["client: connected", "client: connection reset"])
}

fn close_behind_bytes() -> Behaviour {
    Behaviour::new(
        "a_close_behind_unread_bytes_is_seen_once_they_are_read",
        "waiting for the peer's close with bytes to be read before it",
        "it is seen once they are read",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        give(&mut stream, "last").await;
        drop(stream);
        me.say("closed");
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("closed").await;
        me.say(me.within_ms(300, peer_closed(&mut stream)).await);
        me.say(take(&mut stream, 4).await);
        me.say(peer_closed(&mut stream).await);
    })
    .script([
        Hear(Server, "closed"),
        Hear(Client, "connected"),
        Pass(200),
        Cue("closed"),
        Hear(Client, ""),
        Hear(Client, ""),
        Hear(Client, ""),
    ])
    .expect([
        "server: closed",
        "client: connected",
        "client: silence",
        "client: `last`",
        "client: the peer has closed",
    ])
}

fn outlived_listener() -> Behaviour {
    Behaviour::new(
        "a_connection_outlives_its_listener",
        "a listener closed after it accepted",
        "the connection lives; new connects are refused",
    )
    .server(|me| async move {
        let listener = me.listen().await;
        let stream = listener.accept().await.unwrap();
        drop(listener);
        me.say("closed");
        echo(stream).await;
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        me.cue("closed").await;
        me.say(told(me.connect().await, "connected again"));
        give(&mut stream, "hi").await;
        me.say(take(&mut stream, 2).await);
    })
    .script([
        Hear(Client, "connected"),
        Hear(Server, "closed"),
        Cue("closed"),
        Hear(Client, ""),
        Hear(Client, ""),
    ])
    .expect([
        "server: closed",
        "client: connected",
        "client: connection refused",
        "client: `hi`",
    ])
}

/// A server that accepts only when it is told to.
fn accepts_late(behaviour: Behaviour) -> Behaviour {
    behaviour.server(|me| async move {
        let listener = me.listen().await;
        me.cue("accept").await;
        match listener.accept().await {
            Ok(mut stream) => me.say(take(&mut stream, 9).await),
            Err(error) => me.say(format!("accept: {}", error.kind())),
        }
    })
}

fn came_and_went() -> Behaviour {
    accepts_late(Behaviour::new(
        "who_came_and_went_before_it_was_accepted_is_heard",
        "a client that connects, writes and closes before the program accepts",
        "is accepted, and read to its end",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        give(&mut stream, "hello").await;
        drop(stream);
        me.say("closed");
    })
    .script([Hear(Client, "closed"), Pass(200), Cue("accept"), Hear(Server, "")])
    .expect(["server: `hello`, end of file", "client: connected", "client: closed"])
}

fn came_and_was_reset() -> Behaviour {
    accepts_late(Behaviour::new(
        "who_was_reset_before_it_was_accepted_is_accepted",
        "a client that connects, writes and closes abortively before the program accepts",
        "is accepted; its bytes are read, then the reset",
    ))
    .client(|me| async move {
        let mut stream = me.connected().await;
        give(&mut stream, "hello").await;
        me.sleep_ms(200).await;
        stream.abort();
        me.say("aborted");
    })
    .script([Hear(Client, "aborted"), Pass(200), Cue("accept"), Hear(Server, "")])
    .expect(["server: `hello`, connection reset", "client: connected", "client: aborted"])
}
