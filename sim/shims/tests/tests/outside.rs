//! Does the same client talk to a real server, by the real clock, where there is no run: on
//! tokio, and on an executor that knows nothing of it?

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_io::Timer;
use async_net::TcpStream;
use futures_lite::{StreamExt, future};
use lockstorm_shims_tests::{Listener, chat, say, within};

#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl Listener for Ear {
    fn hear(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }
}

/// A real echo on loopback, for one connection; joins when that is closed. Gives the bytes
/// that it echoed.
fn echo() -> (u16, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut echoed) = ([0; 64], 0);
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => return echoed,
                count => stream.write_all(&buffer[..count]).unwrap(),
            }
            echoed += 4;
        }
    });
    (port, thread)
}

/// A port on which nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn on_tokio_it_talks_to_a_real_echo() {
    let ((port, server), ear) = (echo(), Ear::default());
    let talk = chat(("127.0.0.1", port), Duration::from_millis(5), 3, ear.clone()).await.unwrap();
    assert_eq!(talk.await.unwrap(), 3);
    assert_eq!(*ear.0.lock().unwrap(), ["connected", "echoed", "echoed", "echoed"]);
    assert_eq!(server.join().unwrap(), 12);
}

#[test]
fn on_any_executor_it_talks_to_a_real_echo() {
    let (port, server) = echo();
    future::block_on(async {
        // A name, so that one is looked up.
        let mut stream = TcpStream::connect(("localhost", port)).await.unwrap();
        say(&mut stream, "word", Duration::from_secs(10)).await.unwrap();
    });
    assert_eq!(server.join().unwrap(), 4);
}

#[test]
fn a_closed_port_refuses() {
    let connecting = TcpStream::connect(("127.0.0.1", closed_port()));
    assert_eq!(future::block_on(connecting).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the real clock is what is tested")]
fn timers_are_real() {
    let (start, wait) = (Instant::now(), Duration::from_millis(20));
    future::block_on(async {
        let due = Timer::after(wait).await;
        assert!(due >= start + wait);
        assert!(start.elapsed() >= wait);
        assert!(within(wait, future::pending::<()>()).await.is_none());
        assert!(start.elapsed() >= 2 * wait);
        let mut ticks = Timer::interval(wait);
        let (first, second) = (ticks.next().await.unwrap(), ticks.next().await.unwrap());
        assert_eq!(second - first, wait, "an interval keeps its beat");
        Timer::at(start).await;
    });
}
