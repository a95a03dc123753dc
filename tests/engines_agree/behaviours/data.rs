//! Bytes on their way.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::actor::{Actor, give, take};
use crate::behaviour::Behaviour;
use crate::behaviour::Role::{Client, Server};
use crate::behaviour::Step::{Cue, Hear};
use lockstorm::host::Stream;

pub fn all() -> Vec<Behaviour> {
    vec![order(), backpressure(), half_close()]
}

/// The byte at a position of the stream.
fn pattern(position: usize) -> u8 {
    (position % 251) as u8
}

/// Reads to the end and checks every byte.
async fn read_pattern(stream: &mut Stream) -> String {
    let mut buffer = vec![0; 64 * 1024];
    let mut position = 0;
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return "all of it, in order".to_owned(),
            Ok(count) => {
                let are_right = buffer[..count].iter().enumerate();
                let mut are_right = are_right.map(|(at, byte)| *byte == pattern(position + at));
                if !are_right.all(|is_right| is_right) {
                    return format!("something else after {position} bytes");
                }
                position += count;
            }
            Err(error) => return format!("{} after {position} bytes", error.kind()),
        }
    }
}

fn order() -> Behaviour {
    Behaviour::new(
        "bytes_arrive_once_and_in_order",
        "300,000 bytes to a reader that reads on",
        "arrive once and in order",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(read_pattern(&mut stream).await);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        let bytes: Vec<u8> = (0..300_000).map(pattern).collect();
        stream.write_all(&bytes).await.unwrap();
        me.say("written");
        drop(stream);
    })
    .script([Hear(Client, "written"), Hear(Server, "")])
    .expect(["server: all of it, in order", "client: connected", "client: written"])
}

/// Writes until there has been no room for half a second, or 256 MiB.
pub async fn write_until_full(me: &Actor, stream: &mut Stream) -> (usize, &'static str) {
    let chunk: Vec<u8> = (0..251 * 256).map(pattern).collect();
    let mut position = 0;
    while position < 256 << 20 {
        let writing = stream.write(&chunk[position % 251..]);
        match me.host.timeout(std::time::Duration::from_millis(500), writing).await {
            Ok(Ok(count)) => position += count,
            Ok(Err(_)) => return (position, "broken"),
            Err(_) => return (position, "no room"),
        }
    }
    (position, "there is no bound")
}

fn backpressure() -> Behaviour {
    Behaviour::new(
        "a_writer_waits_for_a_reader_that_does_not_read",
        "writing to a program that does not read",
        "waits once the kernels' buffers are full; goes on when it reads; nothing is lost",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.cue("read").await;
        me.say(read_pattern(&mut stream).await);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        let (position, how) = write_until_full(&me, &mut stream).await;
        me.say(how);
        let rest: Vec<u8> = (position..position + 10_000).map(pattern).collect();
        stream.write_all(&rest).await.unwrap();
        me.say("written");
        drop(stream);
    })
    .script([Hear(Client, "no room"), Cue("read"), Hear(Client, "written"), Hear(Server, "")])
    .expect([
        "server: all of it, in order",
        "client: connected",
        "client: no room",
        "client: written",
    ])
}

fn half_close() -> Behaviour {
    Behaviour::new(
        "a_half_closed_connection_still_brings_the_answer",
        "a client that closes its sending direction",
        "the server reads the end and can still answer",
    )
    .server(|me| async move {
        let mut stream = me.accept().await;
        me.say(take(&mut stream, 8).await);
        me.say(give(&mut stream, "answer").await);
    })
    .client(|me| async move {
        let mut stream = me.connected().await;
        give(&mut stream, "ask").await;
        stream.shutdown().await.unwrap();
        me.say(take(&mut stream, 6).await);
        me.say(give(&mut stream, "more").await);
    })
    .script([Hear(Client, "`"), Hear(Client, "")])
    .expect([
        "server: `ask`, end of file",
        "server: written",
        "client: connected",
        "client: `answer`",
        "client: broken pipe",
    ])
}
