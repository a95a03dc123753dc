//! A door before a server for one app, and the connections that come through it: bytes between
//! a real socket and one of the simulated network.
//!
//! The simulated end is on the app's node, so every fault of a link between that node and the
//! server strikes here: cuts hold bytes back, resets become resets, delays delays. What only a
//! real network's door could do is not done: a client is accepted before its server was asked,
//! and sees a refused connection as one that is closed at once.
//!
//! What goes out to a client tells it of its grants, unless the client has hung up: then its
//! kernel throws away what still comes. TCP does not say whether who has closed its own direction
//! still reads; it is taken for one that does not, so that nobody is taken to know what it does
//! not.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Stream;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::Served;
use super::doors::Door;
use super::roll::{Line, Roll};
use super::translate::Translator;

/// How long a door waits after it could not accept: the program has no file left, mostly.
const AGAIN: Duration = Duration::from_millis(50);

/// How much is read at once in one direction, bytes; no more is read before it has gone on.
const ROOM_BYTES: usize = 8 * 1024;

/// Lets clients through a door until the run is over. A door that cannot be attended ends the
/// run: clients would wait before it, and nothing would say why.
pub(super) async fn attend(host: Host, door: Door, served: Arc<Served>, roll: Arc<Roll>) {
    let Door { app, server, port, address: outer, listener } = door;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            served.fail(format!("{app}'s port of {server}, {outer}: {error}"));
            return;
        }
    };
    let address = format!("{server}:{port}");
    loop {
        let Ok((outside, _)) = listener.accept().await else {
            host.sleep(AGAIN).await;
            continue;
        };
        served.begin();
        let outward = Way { translator: served.translator(&app, &server), ..Way::default() };
        let (address, server) = (address.clone(), server.clone());
        let (inner, roll) = (host.clone(), roll.clone());
        host.spawn("door", async move {
            // Replies of locks are small and waited for.
            let _ = outside.set_nodelay(true);
            let inside = inner.connect(&address).await;
            let Ok((peer, inside)) = inside.and_then(|inside| Ok((inside.local_addr()?, inside)))
            else {
                let _ = outside.set_zero_linger();
                return;
            };
            let line = Line { server, peer };
            let inside = Some(inside);
            Carried { inside, outside, inward: Way::default(), outward, line, roll }.pass().await;
        });
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Way {
    held: Vec<u8>,
    /// How much of `held` has gone on.
    gone: usize,
    /// Its source has said all.
    is_over: bool,
    /// Its target knows that.
    is_closed: bool,
    translator: Option<Translator>,
}

/// Which end of a connection failed.
enum Failed {
    Source,
    Target,
}

impl Way {
    /// Carries what there is; ready when the whole direction is over. Tells whether anything
    /// went out, too.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        mut source: Pin<&mut (impl AsyncRead + ?Sized)>,
        mut target: Pin<&mut (impl AsyncWrite + ?Sized)>,
        went_out: &mut bool,
    ) -> Poll<Result<(), Failed>> {
        loop {
            while let Some(rest) = self.held.get(self.gone..).filter(|rest| !rest.is_empty()) {
                let written = ready!(target.as_mut().poll_write(context, rest));
                match written {
                    Ok(0) | Err(_) => return Poll::Ready(Err(Failed::Target)),
                    Ok(bytes) => self.gone += bytes,
                }
                *went_out = true;
            }
            self.gone = 0;
            self.held.clear();
            if self.is_over {
                if !self.is_closed {
                    let closed = ready!(target.as_mut().poll_shutdown(context));
                    self.is_closed = true;
                    if closed.is_err() {
                        return Poll::Ready(Err(Failed::Target));
                    }
                }
                return Poll::Ready(Ok(()));
            }
            match ready!(self.poll_fill(context, source.as_mut())) {
                Ok(0) => self.is_over = true,
                Ok(_) => {}
                Err(_) => return Poll::Ready(Err(Failed::Source)),
            }
        }
    }

    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        source: Pin<&mut (impl AsyncRead + ?Sized)>,
    ) -> Poll<io::Result<usize>> {
        let mut room = [0; ROOM_BYTES];
        let mut buffer = ReadBuf::new(&mut room);
        ready!(source.poll_read(context, &mut buffer))?;
        let bytes = buffer.filled();
        match &mut self.translator {
            Some(translator) => self.held.extend(translator.translate(bytes)),
            None => self.held.extend_from_slice(bytes),
        }
        Poll::Ready(Ok(bytes.len()))
    }
}

/// A connection that is carried.
struct Carried {
    /// The simulated end; gone when it was reset.
    inside: Option<Stream>,
    outside: TcpStream,
    inward: Way,
    outward: Way,
    line: Line,
    roll: Arc<Roll>,
}

impl Carried {
    /// Carries it to its end.
    async fn pass(mut self) {
        self.roll.opened(&self.line);
        std::future::poll_fn(|context| self.poll(context)).await;
        self.roll.closed(&self.line);
    }

    /// Whether the client has closed its direction, or reset the connection.
    fn has_hung_up(&self, context: &mut Context<'_>) -> bool {
        let ready = pin!(self.outside.ready(Interest::READABLE));
        matches!(ready.poll(context), Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let has_hung_up = self.has_hung_up(context);
        let Some(inside) = &mut self.inside else { return Poll::Ready(()) };
        let (line, roll) = (&self.line, &self.roll);
        let mut went_out = false;
        let outward = {
            let (source, target) = (Pin::new(&mut *inside), Pin::new(&mut self.outside));
            self.outward.poll(context, source, target, &mut went_out)
        };
        if went_out && !has_hung_up {
            roll.told(line);
        }
        if self.outward.is_over {
            roll.cut_off(line);
        }
        let inward = {
            let (source, target) = (Pin::new(&mut self.outside), Pin::new(&mut *inside));
            self.inward.poll(context, source, target, &mut false)
        };
        match (outward, inward) {
            // The server's side was reset.
            (Poll::Ready(Err(Failed::Source)), _) | (_, Poll::Ready(Err(Failed::Target))) => {
                roll.cut_off(line);
                let _ = self.outside.set_zero_linger();
                Poll::Ready(())
            }
            // The client's was.
            (Poll::Ready(Err(Failed::Target)), _) | (_, Poll::Ready(Err(Failed::Source))) => {
                if let Some(inside) = self.inside.take() {
                    inside.abort();
                }
                Poll::Ready(())
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::plan::{Fence, scenario};
    use crate::storm::served::{Serving, serve};

    #[test]
    fn a_door_that_cannot_be_attended_ends_the_sitting_and_is_told() {
        let plan = scenario::default_plan("redis-single", "redis", Fence::Off).unwrap();
        // No runtime can wait for a plain file.
        let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let listener = std::net::TcpListener::from(OwnedFd::from(file));
        listener.set_nonblocking(true).unwrap();
        let address = ([127, 0, 0, 1], 7).into();
        let (app, server) = ("app-1".into(), "redis-1".into());
        let doors = vec![Door { app, server, port: 6_379, address, listener }];
        let (until, news) = (Box::pin(std::future::pending()), Arc::new(|_: &_| {}));
        let run = serve(&plan, Serving { doors, locks: "lock:".to_owned(), until, news });
        let told = run.ending.told().unwrap();
        assert!(told.contains("app-1's port of redis-1, 127.0.0.1:7: "), "{told}");
    }
}
