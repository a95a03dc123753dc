//! A door before a server for one app, and the connections that come through it: bytes between
//! a real socket and one of the simulated network.
//!
//! The simulated end is on the app's node, so every fault of a link between that node and the
//! server strikes here: cuts hold bytes back, resets become resets, delays delays. What only a
//! real network's door could do is not done: a client is accepted before its server was asked,
//! and sees a refused connection as one that is closed at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lockstorm::Host;
use lockstorm::host::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::Served;
use super::doors::Door;
use super::roll::Roll;
use super::translate::Translator;
use crate::history::Name;

/// How long a door waits after it could not accept: the program has no file left, mostly.
const AGAIN: Duration = Duration::from_millis(50);

/// How much is on its way in one direction at most, bytes.
const ROOM_BYTES: usize = 64 * 1024;

/// What a connection needs to know.
struct Through {
    app: Name,
    server: Name,
    roll: Arc<Roll>,
}

/// Lets clients through a door until the run is over.
pub(super) async fn attend(host: Host, door: Door, served: Arc<Served>, roll: Arc<Roll>) {
    let Ok(listener) = TcpListener::from_std(door.listener) else { return };
    let address = format!("{}:{}", door.server, door.port);
    loop {
        let Ok((outside, _)) = listener.accept().await else {
            host.sleep(AGAIN).await;
            continue;
        };
        served.begin();
        let through =
            Through { app: door.app.clone(), server: door.server.clone(), roll: roll.clone() };
        let translator = served.translator(&door.app, &door.server);
        let (address, inner) = (address.clone(), host.clone());
        host.spawn(
            "door",
            async move { pass(inner, &address, outside, through, translator).await },
        );
    }
}

/// Carries one connection to its end.
async fn pass(
    host: Host,
    address: &str,
    outside: TcpStream,
    through: Through,
    translator: Option<Translator>,
) {
    // Replies of locks are small and waited for.
    let _ = outside.set_nodelay(true);
    let Ok(inside) = host.connect(address).await else {
        let _ = outside.set_zero_linger();
        return;
    };
    let mut carried = Carried {
        inside: Some(inside),
        outside,
        inward: Way::default(),
        outward: Way { translator, ..Way::default() },
        through,
    };
    std::future::poll_fn(|context| carried.poll(context)).await;
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
        let mut room = [0; ROOM_BYTES / 8];
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
    through: Through,
}

impl Carried {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(inside) = &mut self.inside else { return Poll::Ready(()) };
        let Through { app, server, roll } = &self.through;
        let mut went_out = false;
        let outward = {
            let (source, target) = (Pin::new(&mut *inside), Pin::new(&mut self.outside));
            self.outward.poll(context, source, target, &mut went_out)
        };
        if went_out {
            roll.told(app, server);
        }
        if self.outward.is_over {
            roll.cut_off(app, server);
        }
        let inward = {
            let (source, target) = (Pin::new(&mut self.outside), Pin::new(&mut *inside));
            self.inward.poll(context, source, target, &mut false)
        };
        match (outward, inward) {
            // The server's side was reset.
            (Poll::Ready(Err(Failed::Source)), _) | (_, Poll::Ready(Err(Failed::Target))) => {
                roll.cut_off(app, server);
                roll.reset(app, server);
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
