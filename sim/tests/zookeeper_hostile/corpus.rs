//! Inputs by hand, and that a real server answers each as ours.

use lockstorm::Host;
use lockstorm_sim::server::zookeeper::code::kind;
use lockstorm_sim::server::zookeeper::codec::Writer;
use lockstorm_sim::server::zookeeper::records::write_multi_header;

use super::zookeeper_support::on_tokio;
use super::zookeeper_support::servers::{Ours, Real};
use super::zookeeper_support::wire::{Hello, Wire, framed, request};
use super::{answer, hello, serves};

/// An input by hand.
pub struct Input {
    name: &'static str,
    bytes: Vec<u8>,
    /// Whether it comes on a connection with a session. It is sent when that was welcomed: with
    /// the welcome a server races that closes on what follows.
    in_session: bool,
    /// How many answers there are to wait for, the end of the connection among them.
    answers: usize,
    /// What two threads of a real server race for may come, of it, before it closes.
    raced: Option<&'static str>,
}

impl Input {
    /// What a server answers.
    async fn answer(&self, address: &str) -> Vec<String> {
        let host = Host::tokio("client");
        let wire = match self.in_session {
            true => Wire::open(&host, address, &Hello::new(10_000)).await.unwrap(),
            false => Wire::connect(&host, address).await.unwrap(),
        };
        answer(wire, &self.bytes, 1, self.answers).await
    }
}

fn corpus() -> Vec<Input> {
    let cut = |bytes: Vec<u8>, length: usize| bytes[..length].to_vec();
    let ping = || request(-2, kind::PING, &[]);
    let mut path = Writer::new();
    path.text("/").boolean(false);
    let look = |xid| request(xid, kind::EXISTS, path.bytes());
    let mut long_path = Writer::new();
    long_path.int(i32::MAX).raw(b"/a");
    let mut negative_path = Writer::new();
    negative_path.int(-5).raw(b"/a");
    let mut many_watches = Writer::new();
    many_watches.long(0).int(i32::MAX);
    let mut few_watches = Writer::new();
    few_watches.long(0).int(-2);
    let mut endless_multi = Writer::new();
    write_multi_header(&mut endless_multi, kind::CHECK, false, -1);
    let mut nested_multi = Writer::new();
    write_multi_header(&mut nested_multi, kind::MULTI, false, -1);
    write_multi_header(&mut nested_multi, -1, true, -1);
    write_multi_header(&mut nested_multi, -1, true, -1);
    let fresh =
        |name, answers, bytes| Input { name, bytes, in_session: false, answers, raced: None };
    let session =
        |name, answers, bytes| Input { name, bytes, in_session: true, answers, raced: None };
    vec![
        fresh("nothing but a length", 0, 44_i32.to_be_bytes().to_vec()),
        fresh("a huge length", 1, i32::MAX.to_be_bytes().to_vec()),
        fresh("a negative length", 1, (-2_i32).to_be_bytes().to_vec()),
        fresh("an empty frame", 1, framed(b"")),
        fresh("half a hello", 0, cut(hello(), 20)),
        fresh("a short hello", 1, framed(&[0; 10])),
        fresh("a hello that is a request", 1, look(1)),
        fresh("a ping before hello", 1, ping()),
        session("another hello", 2, hello()),
        session("a huge frame", 1, 0x7fff_0000_i32.to_be_bytes().to_vec()),
        session("a negative frame", 1, (-1_i32).to_be_bytes().to_vec()),
        session("an empty frame after hello", 1, framed(b"")),
        session("half a header", 1, framed(&[0, 0, 0, 1])),
        session("a word after hello", 1, b"ruok".to_vec()),
        session("a path longer than the frame", 1, request(1, kind::EXISTS, long_path.bytes())),
        session("a negative path", 1, request(1, kind::EXISTS, negative_path.bytes())),
        session("a write that is cut", 1, request(1, kind::CREATE, long_path.bytes())),
        session("too many watches", 1, request(-8, kind::SET_WATCHES, many_watches.bytes())),
        session("less than no watches", 1, request(-8, kind::SET_WATCHES, few_watches.bytes())),
        session("a multi without an end", 1, request(1, kind::MULTI, endless_multi.bytes())),
        session("a multi in a multi", 1, request(1, kind::MULTI, nested_multi.bytes())),
        session("an unknown kind", 2, request(1, 77, &[])),
        session("a session by hand", 1, request(1, kind::CREATE_SESSION, &[0, 0, 39, 16])),
        session("an error by hand", 2, request(1, kind::ERROR, &[0, 0, 0, 0])),
        session("the same number twice", 2, [look(1), look(1)].concat()),
        session("numbers that go down", 2, [look(5), look(3)].concat()),
        session("a negative number", 1, look(-77)),
        Input {
            name: "what comes after the end",
            bytes: [request(1, kind::CLOSE_SESSION, &[]), look(2)].concat(),
            in_session: true,
            answers: 2,
            raced: Some("2 -112"),
        },
    ]
}

#[test]
fn a_corpus_of_hostile_bytes_is_answered_as_by_a_real_server() {
    on_tokio(async {
        let ours = Ours::start(1).await;
        let real = tokio::task::spawn_blocking(|| Real::start(1)).await.unwrap();
        let mut different = Vec::new();
        for input in corpus() {
            let found = input.answer(&ours.addresses[0]).await;
            serves(&ours.addresses[0]).await;
            let Some(real) = &real else { continue };
            let mut expected = input.answer(&real.addresses[0]).await;
            expected.retain(|told| input.raced != Some(told.as_str()));
            if expected != found {
                different.push(format!("{}: real {expected:?}; ours {found:?}", input.name));
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n"));
    });
}
