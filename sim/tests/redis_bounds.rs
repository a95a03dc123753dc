//! What hostile or clumsy clients cannot do to our server.

mod redis_support;

use std::sync::Arc;
use std::time::Duration;

use lockstorm_sim::server::redis::codec::{Reply, RequestLimits};
use lockstorm_sim::server::redis::observe::Unobserved;
use lockstorm_sim::server::redis::{ConfigFile, Settings};
use redis_support::{Client, Ours, on_tokio};
use tokio::io::AsyncWriteExt;

async fn server(settings: Settings) -> Ours {
    Ours::start_with(settings, ConfigFile::new(), Arc::new(Unobserved)).await
}

fn error(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.as_error().unwrap_or_default()).into_owned()
}

#[test]
fn endless_scripts_end() {
    on_tokio(async {
        let server = server(Settings { script_instructions: 500_000, ..Settings::default() }).await;
        let mut client = Client::connect(server.port).await;
        let mut other = Client::connect(server.port).await;
        other.line("CONFIG SET busy-reply-threshold 0").await;
        for script in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do xpcall(function() while true do end end, function() while true do end end) end",
            "local co = coroutine.wrap(function() while true do end end) while true do pcall(co) end",
            "while true do local co = coroutine.create(function() while true do end end) coroutine.resume(co) end",
            "while true do redis.pcall('nosuch') end",
            "error(setmetatable({err='x'}, {__newindex=function() while true do end end, __index=function() while true do end end}))",
            "error(setmetatable({}, {__tostring=function() while true do end end}))",
            "local function h() while true do end end while true do xpcall(xpcall, h, nil, h) end",
            "xpcall(error, function() while true do end end)",
            "xpcall(error, function() while true do pcall(error) end end)",
            "local function h() xpcall(error, h) while true do end end xpcall(error, h)",
            "while true do pcall(error) end",
            "local function f() pcall(f) while true do end end f()",
            "return table.concat({}, string.rep('', 2^31 - 1)) .. string.rep('', 2^31 - 1) .. string.rep('', 2^31 - 1)  .. nil",
            "table.sort({1, 2, 3, 4}, function() while true do end end)",
            "string.gsub('aaa', 'a', function() while true do end end)",
            "return setmetatable({}, {__index = function() while true do end end}).x",
            "for _ in function() return 1 end do end",
            "load(function() return ' ' end)",
            // The budget is spent in a coroutine, and caught outside of it.
            "local co = coroutine.create(function() while true do end end) coroutine.resume(co) local function f() for i = 1, 20 do end error() end while true do pcall(f) end",
            "for i = 1, 1e12 do redis.call('ping') end",
            "local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) return t.a",
        ] {
            let reply = client.script(&mut other, script).await;
            assert!(reply.as_error().is_some(), "{script}: {reply:?}");
            // The next one has the whole budget again.
            assert_eq!(
                client
                    .line("EVAL \"local n = 0 for i = 1, 1000 do n = n + i end return n\" 0")
                    .await,
                Reply::Integer(500_500),
                "after {script}"
            );
        }
        // A transaction cannot wait for a killer: there it ends at once.
        client.line("MULTI").await;
        client.line("EVAL \"while true do end\" 0").await;
        client.line("PING").await;
        client.send(&[b"EXEC"]).await;
        let Reply::Array(replies) = client.reply().await.unwrap() else { panic!("an array") };
        assert_eq!(
            error(&replies[0]),
            "ERR Error running script: it exceeded its budget of instructions"
        );
        assert_eq!(replies.len(), 2);
    });
}

/// As Redis: others hear that it is busy, a script that has written cannot be killed, and
/// what it wrote reaches no replica. Only the end of the process ends it.
#[test]
fn an_endless_script_that_has_written_ends_with_the_server() {
    on_tokio(async {
        let server = server(Settings { script_instructions: 500_000, ..Settings::default() }).await;
        let mut client = Client::connect(server.port).await;
        let mut other = Client::connect(server.port).await;
        other.line("CONFIG SET busy-reply-threshold 0").await;
        let mut replica = Client::connect(server.port).await;
        replica.send(&[b"SYNC"]).await;
        replica.read_raw().await;
        client.send(&[b"EVAL", b"redis.call('set', 'k', 'v') while true do end", b"0"]).await;
        let busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
        redis_support::until("the script", async || {
            let reply = other.line("PING").await;
            (error(&reply) == busy).then_some(())
        })
        .await;
        let refusal = error(&other.line("SCRIPT KILL").await);
        assert!(refusal.starts_with("UNKILLABLE "), "{refusal}");
        assert_eq!(error(&other.line("GET k").await), busy);
        assert_eq!(error(&other.line("SHUTDOWN").await), busy);
        assert!(replica.is_quiet().await, "what it wrote goes nowhere");
        other.send(&[b"SHUTDOWN", b"NOSAVE"]).await;
        assert!(other.reply().await.is_none());
        assert!(client.reply().await.is_none());
        server.ended().await.unwrap();
    });
}

#[test]
fn greedy_scripts_end() {
    on_tokio(async {
        let server = server(Settings::default()).await;
        let mut client = Client::connect(server.port).await;
        let mut other = Client::connect(server.port).await;
        other.line("CONFIG SET busy-reply-threshold 0").await;
        for script in [
            "local t = {} while true do t[#t+1] = string.rep('x', 100000) .. #t end",
            "return string.rep('x', 1000000000)",
            "local s = 'x' while true do s = s .. s end",
            "local t = {} pcall(function() while true do t[#t+1] = string.rep('x', 100000) .. #t end end) while true do t[#t+1] = {} end",
            "local function f() return f() + 1 end return f()",
            "local t = {} for i = 1, 1e7 do t = {t} end return t",
            "local t = {} pcall(function() while true do t[#t+1] = string.rep('x', 1000) .. #t end end) t = nil return string.rep('x', 2^31 - 1)",
            // Deep, in every way in which depth costs the C stack.
            "local function f() return coroutine.wrap(f)() end return f()",
            "local function f() local co = coroutine.create(f) return select(2, coroutine.resume(co)) .. 1 end error(f())",
            "local function f(...) local a = f(1, ...) return a end return f()",
            "local function f() local ok, e = pcall(f) error(e) end f()",
            "local function f() return (string.gsub('a', 'a', f)) end return f()",
            "local t = {} setmetatable(t, {__index = function(t, k) return t[k + 1] end}) return t[1]",
            "local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) return tostring(t)",
            "local s = string.rep('(', 100000) return loadstring('return ' .. s)()",
            "local s = string.rep('{', 100000) return loadstring('return ' .. s)()",
            "local s = string.rep('a.', 100000) return loadstring('return ' .. s)()",
            "local s = string.rep('function() ', 10000) return loadstring('return ' .. s)()",
            "local s = string.rep('do ', 10000) return loadstring(s)()",
            "return unpack({}, 1, 1e8)",
            "return string.rep('x', 4000000):gsub('x', 'yyyyyyyy')",
            "return ('x'):rep(1000):rep(1000):rep(1000)",
        ] {
            let reply = client.script(&mut other, script).await;
            assert!(reply.as_error().is_some(), "{script}: {reply:?}");
            assert_eq!(client.line("EVAL \"return 1\" 0").await, Reply::Integer(1), "{script}");
        }
        // Deep and self-referential results are cut off.
        for script in [
            "local t = {} t[1] = t return t",
            "local t = {} for i = 1, 200 do t = {t} end return t",
        ] {
            client.send(&[b"EVAL", script.as_bytes(), b"0"]).await;
            client.send(&[b"PING"]).await;
            let mut stream = Vec::new();
            // Our own decoder refuses the depth; the bytes are what counts.
            while !stream.ends_with(b"+PONG\r\n") {
                stream.extend_from_slice(&client.read_raw().await);
            }
            assert!(stream.windows(8).any(|w| w == b"reached "), "{}", stream.escape_ascii());
        }
    });
}

/// A script may leave Lua's memory full to the last byte; the next one has all of it.
#[test]
fn a_full_memory_is_the_script_s_own() {
    on_tokio(async {
        let server = server(Settings::default()).await;
        let mut client = Client::connect(server.port).await;
        let mut other = Client::connect(server.port).await;
        other.line("CONFIG SET busy-reply-threshold 0").await;
        for size in [16, 100, 4_000, 100_000, 1_000_000] {
            let fill = format!(
                "local t = {{}} pcall(function() while true do t[#t+1] = string.rep('x', {size}) .. #t end end) \
                 pcall(function() while true do t[#t+1] = {{}} end end) return 1"
            );
            // What is left may be too little to return.
            client.script(&mut other, &fill).await;
            for _ in 0..3 {
                let next = "local t = {} for i = 1, 1000 do t[i] = string.rep('y', 1000) .. i end return #t";
                client.send(&[b"EVAL", next.as_bytes(), b"0"]).await;
                assert_eq!(client.reply().await.unwrap(), Reply::Integer(1_000), "after {size}");
            }
            // Never seen before: it must be compiled.
            let fresh = format!("return 7 -- {size}");
            client.send(&[b"EVAL", fresh.as_bytes(), b"0"]).await;
            assert_eq!(client.reply().await.unwrap(), Reply::Integer(7), "after {size}");
        }
    });
}

/// Small results that are large replies: shared, nested, referring to themselves.
#[test]
fn results_of_scripts_are_limited() {
    on_tokio(async {
        let server = server(Settings::default()).await;
        for script in [
            "local t = {} t[1] = t t[2] = t return t",
            "local t = {} for i = 1, 64 do t = {t, t} end return t",
            "local t = {} for i = 1, 64 do t = {t, t, t, t} end return {map={a=t}}",
            "local m = {} local t = {map=m} m[t] = t return t",
            "local s = string.rep('x', 1000000) local t = {} for i = 1, 100000 do t[i] = s end return t",
        ] {
            let mut client = Client::connect(server.port).await;
            client.send(&[b"EVAL", script.as_bytes(), b"0"]).await;
            let mut received = 0;
            // An error, or the end of the connection: but an end.
            loop {
                let piece = client.read_some().await;
                received += piece.len();
                if piece.is_empty() || (received == piece.len() && piece.starts_with(b"-")) {
                    break;
                }
                assert!(received < 100 << 20, "{script}");
            }
            let mut other = Client::connect(server.port).await;
            assert_eq!(other.line("PING").await, Reply::Simple("PONG".into()));
        }
    });
}

/// One command, one batch, one transaction, one script: none answers without limit.
#[test]
fn replies_are_limited() {
    on_tokio(async {
        let settings = Settings { output_limit_bytes: 4 << 20, ..Settings::default() };
        let server = server(settings).await;
        let mut client = Client::connect(server.port).await;
        client.send(&[b"SET", b"big", &vec![b'x'; 1 << 20]]).await;
        client.reply().await.unwrap();
        let mget = [&[&b"MGET"[..]][..], &[&b"big"[..]; 100_000]].concat();
        let mut client = Client::connect(server.port).await;
        client.send(&mget).await;
        assert_eq!(client.read_to_end(16 << 20).await, None, "closed, and little of it sent");
        let mut client = Client::connect(server.port).await;
        let script = "return redis.call('mget', unpack(KEYS))";
        let keys = [&b"big"[..]; 5_000];
        client.send(&[&[&b"EVAL"[..], script.as_bytes(), b"5000"][..], &keys].concat()).await;
        assert!(error(&client.reply().await.unwrap()).contains("limit"), "scripts get an error");
        client.line("MULTI").await;
        for _ in 0..10 {
            client.send(&mget).await;
            client.reply().await.unwrap();
        }
        client.send(&[b"SET", b"done", b"yes"]).await;
        client.reply().await.unwrap();
        client.send(&[b"EXEC"]).await;
        assert_eq!(client.read_to_end(16 << 20).await, None);
        let mut other = Client::connect(server.port).await;
        assert_eq!(other.line("GET done").await.text(), Some(&b"yes"[..]), "it was executed");
    });
}

#[test]
fn the_data_set_is_limited() {
    on_tokio(async {
        let settings = Settings { memory_bytes: 1 << 20, ..Settings::default() };
        let server = server(settings).await;
        let mut client = Client::connect(server.port).await;
        const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
        let value = "x".repeat(10_000);
        let mut stored = 0;
        let refused = loop {
            let reply = client.line(&format!("SET key{stored} {value}")).await;
            if reply.as_error().is_some() {
                break reply;
            }
            stored += 1;
            assert!(stored < 1_000, "nothing stops it");
        };
        assert_eq!(error(&refused), OOM);
        assert!((90..=110).contains(&stored), "{stored} values of 10 kB in 1 MiB");
        assert_eq!(client.line("DEL key0 key1 key2").await, Reply::Integer(3));
        assert_eq!(client.line("SET small x").await, Reply::Simple("OK".into()), "room again");
        // Many small keys cost more than their bytes.
        client.line("FLUSHALL").await;
        let script = "for i = 1, 1e6 do redis.call('set', i, '') end";
        client.send(&[b"EVAL", script.as_bytes(), b"0"]).await;
        assert!(error(&client.reply().await.unwrap()).starts_with("OOM "));
        let Reply::Integer(keys) = client.line("DBSIZE").await else { panic!() };
        assert!((1_000..=20_000).contains(&keys), "{keys}");
        assert_eq!(error(&client.line("SET more x").await), OOM);
        assert_eq!(client.line("FLUSHALL").await, Reply::Simple("OK".into()));
        // One key that grows.
        let script =
            "local s = string.rep('x', 1e5) while true do redis.call('append', 'k', s) end";
        client.send(&[b"EVAL", script.as_bytes(), b"0"]).await;
        assert!(error(&client.reply().await.unwrap()).starts_with("OOM "));
        assert_eq!(
            client.line("GETDEL k").await.text().map(|text| text.len() < 1_300_000),
            Some(true)
        );
        assert_eq!(client.line("SET more x").await, Reply::Simple("OK".into()));
    });
}

#[test]
fn nothing_of_a_script_remains() {
    on_tokio(async {
        let server = server(Settings::default()).await;
        let mut client = Client::connect(server.port).await;
        for script in [
            "rawset(string, 'x', 1)",
            "rawset(redis, 'x', 1)",
            "string.rep = nil",
            "getmetatable('').__index.rep = nil",
            "local m = getmetatable('') m.__index = nil",
            "local f = loadstring('redis = nil y = 1') pcall(f)",
            "loadstring('_G.y = 1')()",
            "rawset(_G, 'y', 1)",
            "local g = getmetatable(_G) if g then g.__newindex = nil g.__index = nil end y = 1",
            "table.insert(_G, 1)",
            "table.sort(redis)",
            "math.random = nil",
            "for k in pairs(_G) do pcall(rawset, _G, k, nil) end",
            "xpcall(function() y = 1 end, function() y = 2 end)",
            "coroutine.wrap(function() y = 1 end)()",
            "error(string)",
        ] {
            client.send(&[b"EVAL", script.as_bytes(), b"0"]).await;
            client.reply().await.unwrap();
            let probe = "return {tostring(rawget(_G, 'y')), ('a'):rep(2), redis.sha1hex('') ~= nil and 1, \
                         math.random() < 1 and 1, tostring(rawget(string, 'x')), tostring(rawget(redis, 'x')), tostring(rawget(_G, 1))}";
            client.send(&[b"EVAL", probe.as_bytes(), b"0"]).await;
            let reply = client.reply().await.unwrap();
            let expected = Reply::Array(vec![
                Reply::Bulk("nil".into()),
                Reply::Bulk("aa".into()),
                Reply::Integer(1),
                Reply::Integer(1),
                Reply::Bulk("nil".into()),
                Reply::Bulk("nil".into()),
                Reply::Bulk("nil".into()),
            ]);
            assert_eq!(reply, expected, "after {script}");
        }
    });
}

#[test]
fn names_of_tables_are_not_addresses() {
    on_tokio(async {
        let server = server(Settings::default()).await;
        let mut client = Client::connect(server.port).await;
        let script = "local a, b = {}, {} return tostring(a) .. ' ' .. tostring(b) .. ' ' .. tostring(a) .. ' ' .. tostring(print == nil) ";
        client.send(&[b"EVAL", b"return tostring({}) .. ' ' .. tostring(tostring)", b"0"]).await;
        let first = client.reply().await.unwrap();
        assert_eq!(first.text(), Some(&b"table: 0x000000000001 function: 0x000000000002"[..]));
        client
            .send(&[
                b"EVAL",
                script.replace(".. ' ' .. tostring(print == nil)", "").as_bytes(),
                b"0",
            ])
            .await;
        let second = client.reply().await.unwrap();
        assert_eq!(
            second.text(),
            Some(&b"table: 0x000000000001 table: 0x000000000002 table: 0x000000000001"[..])
        );
    });
}

#[test]
fn a_reader_that_does_not_read_is_closed() {
    on_tokio(async {
        let server =
            server(Settings { output_limit_bytes: 256 * 1024, ..Settings::default() }).await;
        let mut client = Client::connect(server.port).await;
        client.line(&format!("SET big {}", "x".repeat(60_000))).await;
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let mut sent = 0;
        let closed = loop {
            let writing = stream.write_all(b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n");
            match tokio::time::timeout(Duration::from_secs(5), writing).await {
                Ok(Ok(())) if sent < 10_000 => sent += 1,
                Ok(Ok(())) => break false,
                _ => break true,
            }
            tokio::task::yield_now().await;
        };
        assert!(closed, "{sent} replies of 60 kB wait somewhere");
    });
}

#[test]
fn a_subscriber_that_does_not_read_is_closed() {
    on_tokio(async {
        let settings = Settings { subscriber_output_limit_bytes: 1 << 20, ..Settings::default() };
        let server = server(settings).await;
        let mut subscriber = Client::connect(server.port).await;
        subscriber.line("SUBSCRIBE channel").await;
        let mut publisher = Client::connect(server.port).await;
        let message = format!("PUBLISH channel {}", "x".repeat(60_000));
        redis_support::until("the subscriber to be closed", async || {
            (publisher.line(&message).await == Reply::Integer(0)).then_some(())
        })
        .await;
        let received = subscriber.read_to_end(usize::MAX).await;
        assert_eq!(received, None, "what was written before, and then the end");
    });
}

#[test]
fn what_comes_while_a_client_waits_is_limited() {
    on_tokio(async {
        let requests = RequestLimits { buffered_bytes: 100_000, ..RequestLimits::default() };
        let server = server(Settings { requests, ..Settings::default() }).await;
        let mut client = Client::connect(server.port).await;
        client.send(&[b"BLPOP", b"nobody", b"0"]).await;
        let piece = b"PING\r\n".repeat(10_000);
        for _ in 0..20 {
            // The server may close before it has read everything.
            client.try_send_raw(&piece).await;
        }
        assert_eq!(client.reply().await, None);
    });
}

#[test]
fn too_many_clients_are_refused() {
    on_tokio(async {
        let server = server(Settings { max_clients: 2, ..Settings::default() }).await;
        let (mut first, mut second) =
            (Client::connect(server.port).await, Client::connect(server.port).await);
        first.line("PING").await;
        second.line("PING").await;
        let mut third = Client::connect(server.port).await;
        assert_eq!(error(&third.reply().await.unwrap()), "ERR max number of clients reached");
        drop(first);
        redis_support::until("room for another", async || {
            let mut client = Client::connect(server.port).await;
            client.send(&[b"PING"]).await;
            (client.reply().await? == Reply::Simple("PONG".into())).then_some(())
        })
        .await;
    });
}

#[test]
fn the_query_buffer_is_limited() {
    on_tokio(async {
        let requests = RequestLimits { buffered_bytes: 100_000, ..RequestLimits::default() };
        let server = server(Settings { requests, ..Settings::default() }).await;
        let mut client = Client::connect(server.port).await;
        let mut bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000\r\n".to_vec();
        bytes.resize(300_000, b'x');
        client.send_raw(&bytes).await;
        assert_eq!(client.reply().await, None, "closed without an answer, as Redis does");
        let mut client = Client::connect(server.port).await;
        client.line("MULTI").await;
        let value = "x".repeat(40_000);
        client.line(&format!("SET a {value}")).await;
        client.line(&format!("SET b {value}")).await;
        let refused = client.line(&format!("SET c {value}")).await;
        assert!(error(&refused).contains("limit"), "{refused:?}");
        assert!(error(&client.line("EXEC").await).starts_with("EXECABORT"));
    });
}

#[test]
fn killed_connections_close() {
    on_tokio(async {
        let server = server(Settings::default()).await;
        let (mut first, mut second) =
            (Client::connect(server.port).await, Client::connect(server.port).await);
        let Reply::Integer(id) = second.line("CLIENT ID").await else { panic!() };
        assert_eq!(first.line(&format!("CLIENT KILL ID {id}")).await, Reply::Integer(1));
        assert_eq!(second.reply().await, None);
        assert_eq!(first.line("CLIENT KILL TYPE normal").await, Reply::Integer(0));
        assert_eq!(first.line("CLIENT KILL TYPE normal SKIPME no").await, Reply::Integer(1));
        assert_eq!(first.reply().await, None);
    });
}
