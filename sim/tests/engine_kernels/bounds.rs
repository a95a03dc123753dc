//! What a kernel keeps has a bound, whatever the peer does.

use std::sync::Mutex;

use super::*;

#[test]
fn one_byte_at_a_time_fills_a_window_too() {
    let log = Scene::new(&["server", "client"])
        .node(|host, _| async move {
            let listener = host.listen(7).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            host.sleep(ms(997)).await;
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
        })
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            let mut written = 0;
            while host.timeout(ms(10), stream.write_all(b"x")).await.is_ok() {
                written += 1;
            }
            note(&log, &host, &format!("{written} written"));
            stream.write_all(&[b'x'; 10_000]).await.unwrap();
            note(&log, &host, "written on");
        })
        .run(&EventEngine, |_| {});
    assert_eq!(log, ["client 12000 4096 written", "client 1000000 written on"]);
}

#[test]
fn a_backlog_has_a_bound_and_loses_nobody() {
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let counted = accepted.clone();
    Scene::new(&["server", "client"])
        .node(move |host, _| {
            let accepted = accepted.clone();
            async move {
                let listener = host.listen(7).await.unwrap();
                host.sleep(ms(600)).await;
                let mut streams = Vec::new();
                loop {
                    streams.push(listener.accept().await.unwrap());
                    accepted.lock().unwrap().push(host.monotonic());
                }
            }
        })
        .node(|host, _| async move {
            // All of them at once: each SYN finds the backlog empty.
            for _ in 0..300 {
                let connecting = host.clone();
                host.spawn("client", async move {
                    let _stream = connecting.connect("server:7").await.unwrap();
                    std::future::pending::<()>().await;
                });
            }
        })
        .ends_at(ms(60_000))
        .run(&EventEngine, |_| {});
    let accepted = counted.lock().unwrap();
    let at_once = accepted.iter().filter(|at| **at == ms(600)).count();
    assert_eq!((at_once, accepted.len()), (129, 300));
}

#[test]
fn a_task_past_the_host_gets_nothing_once_its_program_is_dead() {
    let log = Scene::new(&["server", "client"])
        .node(echo())
        .node(|host, log| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            note(&log, &host, "connected");
            tokio::spawn(async move {
                let mut byte = [0];
                let read = stream.read(&mut byte).await;
                note(&log, &host, &format!("a ghost read {read:?}"));
            });
            std::future::pending::<()>().await;
        })
        .run(&EventEngine, |control| {
            at(&control, 100, |control| control.crash_process(CLIENT));
            at(&control, 200, |control| control.crash_process(SERVER));
        });
    assert_eq!(log, ["client 2000 connected"]);
}

#[test]
fn failed_connects_let_time_pass() {
    // Who tries again at once, for ever, keeps nobody from anything.
    let log = Scene::new(&["server", "client"])
        .node(|_, _| std::future::pending())
        .node(|host, log| async move {
            let mut refused = 0;
            while host.monotonic() < ms(1_000) {
                let error = host.connect("server:7").await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
                refused += 1;
            }
            note(&log, &host, &format!("{refused} refused"));
        })
        .run(&EventEngine, |_| {});
    assert_eq!(log, ["client 1000000 500 refused"]);
}
