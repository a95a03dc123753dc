//! `DEBUG PROTOCOL`: one reply of each kind, for tests of clients.

use super::super::codec::Protocol;
use super::{Call, Outcome, word};

/// What Redis answers, rounded as it is there.
#[expect(clippy::approx_constant, reason = "it is Redis' own text")]
const DOUBLE: f64 = 3.141;

pub(super) fn protocol(call: &mut Call<'_>) -> Outcome {
    let arguments = call.arguments;
    let reply = &mut *call.reply;
    match word(&arguments[2]).as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(DOUBLE),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            reply.attribute(1);
            if reply.protocol() == Protocol::Resp3 {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol() == Protocol::Resp2 {
                return Err("ERR RESP2 is not supported by this command".into());
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        _ => {
            return Err("ERR Wrong protocol type name. Please use one of the following: \
                        string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
                .into());
        }
    }
    Ok(())
}
