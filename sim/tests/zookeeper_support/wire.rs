//! A client that shows each frame: it knows the protocol and hides nothing of it.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use lockstorm::Host;
use lockstorm::host::Stream;
use lockstorm_sim::server::zookeeper::code::kind;
use lockstorm_sim::server::zookeeper::codec::{Frames, Reader, Writer};
use lockstorm_sim::server::zookeeper::records::Access;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The longest frame that is taken, bytes: a list of a hundred thousand children is shorter.
const FRAME_LIMIT_BYTES: usize = 64 << 20;

/// The first frame of a connection.
#[derive(Clone, Debug, Default)]
pub struct Hello {
    pub last_zxid_seen: i64,
    pub timeout_ms: i32,
    pub session: i64,
    pub password: Vec<u8>,
    pub read_only: Option<bool>,
}

impl Hello {
    pub fn new(timeout_ms: i32) -> Hello {
        Hello { timeout_ms, password: vec![0; 16], read_only: Some(false), ..Hello::default() }
    }

    pub fn frame(&self) -> Vec<u8> {
        let mut body = Writer::new();
        body.int(0).long(self.last_zxid_seen).int(self.timeout_ms).long(self.session);
        body.buffer(Some(&self.password));
        if let Some(read_only) = self.read_only {
            body.boolean(read_only);
        }
        framed(body.bytes())
    }
}

/// The server's answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub timeout_ms: i32,
    pub session: i64,
    pub password: Vec<u8>,
    /// What follows: one byte, or nothing for an old client.
    pub rest: Vec<u8>,
}

/// A reply, its header taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub xid: i32,
    pub zxid: i64,
    pub code: i32,
    pub body: Vec<u8>,
}

/// What a watch told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: i32,
    pub path: String,
}

/// A frame behind its length.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = Writer::new();
    frame.buffer(Some(body));
    frame.into_bytes()
}

/// A request as a frame.
pub fn request(xid: i32, kind: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Writer::new();
    frame.int(xid).int(kind).raw(body);
    framed(frame.bytes())
}

pub struct Wire {
    host: Host,
    stream: Stream,
    frames: Frames,
    next_xid: i32,
    pub session: i64,
    pub password: Vec<u8>,
    pub timeout_ms: i32,
    /// Events that came while a reply was waited for.
    pub events: Vec<Event>,
}

impl Wire {
    /// A connection that has said nothing.
    pub async fn connect(host: &Host, address: &str) -> io::Result<Wire> {
        let stream = host.connect(address).await?;
        Ok(Wire {
            host: host.clone(),
            stream,
            frames: Frames::default(),
            next_xid: 1,
            session: 0,
            password: Vec::new(),
            timeout_ms: 0,
            events: Vec::new(),
        })
    }

    /// A connection with a session; an error if it is not let in.
    pub async fn open(host: &Host, address: &str, hello: &Hello) -> io::Result<Wire> {
        let mut wire = Wire::connect(host, address).await?;
        match wire.hello(hello).await? {
            Some(welcome) if welcome.session != 0 => Ok(wire),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    /// Says who it is; `None` when the server closes instead of answering.
    pub async fn hello(&mut self, hello: &Hello) -> io::Result<Option<Welcome>> {
        self.write(&hello.frame()).await?;
        let Some(frame) = self.frame().await? else { return Ok(None) };
        let mut reader = Reader::new(&frame);
        let mut read = || {
            reader.int().ok()?;
            Some(Welcome {
                timeout_ms: reader.int().ok()?,
                session: reader.long().ok()?,
                password: reader.buffer().ok()??.to_vec(),
                rest: reader.rest().to_vec(),
            })
        };
        let welcome = read().ok_or_else(|| io::Error::other("no connect response"))?;
        self.session = welcome.session;
        self.password = welcome.password.clone();
        self.timeout_ms = welcome.timeout_ms;
        Ok(Some(welcome))
    }

    /// What goes on with this one's session elsewhere.
    pub fn resumption(&self) -> Hello {
        Hello {
            session: self.session,
            password: self.password.clone(),
            ..Hello::new(self.timeout_ms)
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next frame; `None` at the end of the connection, however it ended.
    pub async fn frame(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(frame) = self.frames.next(FRAME_LIMIT_BYTES).map_err(io::Error::other)? {
                return Ok(Some(frame));
            }
            match self.stream.read_buf(self.frames.buffer_mut()).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    }

    /// The next frame, unless none comes for `limit`.
    pub async fn frame_within(&mut self, limit: Duration) -> Option<Option<Bytes>> {
        let host = self.host.clone();
        host.timeout(limit, self.frame()).await.ok().and_then(Result::ok)
    }

    pub fn draw_xid(&mut self) -> i32 {
        let xid = self.next_xid;
        self.next_xid += 1;
        xid
    }

    /// Sends a request without waiting for its reply.
    pub async fn send(&mut self, kind: i32, body: &[u8]) -> io::Result<i32> {
        let xid = self.draw_xid();
        self.write(&request(xid, kind, body)).await?;
        Ok(xid)
    }

    /// The next reply; events before it are kept.
    pub async fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let Some(frame) = self.frame().await? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let reply = reply_of(&frame).ok_or_else(|| io::Error::other("no reply"))?;
            match event_of(&reply) {
                Some(event) => self.events.push(event),
                None => return Ok(reply),
            }
        }
    }

    /// One request, one reply.
    pub async fn call(&mut self, kind: i32, body: &[u8]) -> io::Result<Reply> {
        let xid = self.send(kind, body).await?;
        let reply = self.reply().await?;
        assert_eq!(reply.xid, xid, "replies come in order");
        Ok(reply)
    }

    /// Creates a znode that everybody may change.
    pub async fn create(&mut self, path: &str, data: &[u8], flags: i32) -> io::Result<Reply> {
        self.call(kind::CREATE, &create(path, Some(data), &[Access::open()], flags)).await
    }

    pub async fn delete(&mut self, path: &str) -> io::Result<Reply> {
        let mut body = Writer::new();
        body.text(path).int(-1);
        self.call(kind::DELETE, body.bytes()).await
    }

    pub async fn set(&mut self, path: &str, data: &[u8]) -> io::Result<Reply> {
        let mut body = Writer::new();
        body.text(path).buffer(Some(data)).int(-1);
        self.call(kind::SET_DATA, body.bytes()).await
    }

    /// `exists`, `getData`, `getChildren`.
    pub async fn look(&mut self, kind: i32, path: &str, watch: bool) -> io::Result<Reply> {
        let mut body = Writer::new();
        body.text(path).boolean(watch);
        self.call(kind, body.bytes()).await
    }

    pub async fn sync(&mut self) -> io::Result<Reply> {
        let mut body = Writer::new();
        body.text("/");
        self.call(kind::SYNC, body.bytes()).await
    }

    pub async fn close_session(&mut self) -> io::Result<Reply> {
        self.call(kind::CLOSE_SESSION, &[]).await
    }

    /// Sends a ping; its reply, xid −2, is awaited.
    pub async fn ping(&mut self) -> io::Result<Reply> {
        self.write(&request(-2, kind::PING, &[])).await?;
        self.reply().await
    }
}

/// The body of a `create`.
pub fn create(path: &str, data: Option<&[u8]>, access: &[Access], flags: i32) -> Vec<u8> {
    let mut body = Writer::new();
    body.text(path).buffer(data);
    Access::write_list(access, &mut body);
    body.int(flags);
    body.into_bytes()
}

pub fn reply_of(frame: &[u8]) -> Option<Reply> {
    let mut reader = Reader::new(frame);
    Some(Reply {
        xid: reader.int().ok()?,
        zxid: reader.long().ok()?,
        code: reader.int().ok()?,
        body: reader.rest().to_vec(),
    })
}

/// The event that a frame is.
pub fn event_of(reply: &Reply) -> Option<Event> {
    if reply.xid != -1 {
        return None;
    }
    let mut reader = Reader::new(&reply.body);
    let (kind, _state) = (reader.int().ok()?, reader.int().ok()?);
    Some(Event { kind, path: reader.text().ok()? })
}
