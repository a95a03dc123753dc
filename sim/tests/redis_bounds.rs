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
            "for i = 1, 1e12 do redis.call('ping') end",
            "local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) return t.a",
        ] {
            client.send(&[b"EVAL", script.as_bytes(), b"0"]).await;
            let reply = client.reply().await.unwrap();
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
        client.send(&[b"EVAL", b"while true do end", b"0"]).await;
        assert_eq!(
            error(&client.reply().await.unwrap()),
            "ERR Error running script: it exceeded its budget of instructions"
        );
    });
}

#[test]
fn greedy_scripts_end() {
    on_tokio(async {
        let server = server(Settings::default()).await;
        let mut client = Client::connect(server.port).await;
        for script in [
            "local t = {} while true do t[#t+1] = string.rep('x', 100000) .. #t end",
            "return string.rep('x', 1000000000)",
            "local s = 'x' while true do s = s .. s end",
            "local t = {} pcall(function() while true do t[#t+1] = string.rep('x', 100000) .. #t end end) while true do t[#t+1] = {} end",
            "local function f() return f() + 1 end return f()",
            "local t = {} for i = 1, 1e7 do t = {t} end return t",
        ] {
            client.send(&[b"EVAL", script.as_bytes(), b"0"]).await;
            let reply = client.reply().await.unwrap();
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
