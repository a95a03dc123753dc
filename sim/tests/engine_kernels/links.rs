//! How long messages take.

use std::sync::Mutex;

use super::*;

/// One-way latencies of 4,000 messages, sorted, µs.
fn latencies_us(median_us: u64, sigma_milli: u64) -> Vec<u64> {
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let noted = arrivals.clone();
    Scene::new(&["server", "client"])
        .latency_us(median_us)
        .sigma_milli(sigma_milli)
        .node(move |host, _| {
            let arrivals = arrivals.clone();
            async move {
                let listener = host.listen(7).await.unwrap();
                let mut stream = listener.accept().await.unwrap();
                while stream.read_exact(&mut [0; 1]).await.is_ok() {
                    arrivals.lock().unwrap().push(host.monotonic().as_micros() as u64);
                }
            }
        })
        .node(|host, _| async move {
            let mut stream = host.connect("server:7").await.unwrap();
            for round in 1..=4_000 {
                host.sleep(ms(100 * round) - host.monotonic()).await;
                stream.write_all(b"x").await.unwrap();
            }
            std::future::pending::<()>().await;
        })
        .ends_at(ms(401_000))
        .run(&EventEngine, |_| {});
    let mut latencies: Vec<u64> =
        noted.lock().unwrap().iter().map(|at_us| at_us % 100_000).collect();
    latencies.sort_unstable();
    assert_eq!(latencies.len(), 4_000);
    latencies
}

#[test]
fn latencies_are_lognormal() {
    for (median_us, sigma_milli) in [(250, 400), (5_000, 100), (2_000, 800)] {
        let latencies = latencies_us(median_us, sigma_milli);
        // Percentiles of a normal, in sigmas: one below the mean, the mean, one above,
        // and the 99th percentile.
        for (rank, sigmas) in [(0.1587, -1.0), (0.5, 0.0), (0.8413, 1.0), (0.99, 2.326)] {
            let found = latencies[(rank * 4_000.0) as usize] as f64;
            let expected = median_us as f64 * f64::exp(sigmas * sigma_milli as f64 / 1_000.0);
            let ratio = found / expected;
            // 4,000 draws of a fixed seed: what is seen is always the same.
            let case = format!("{median_us} µs, sigma {sigma_milli}, rank {rank}");
            assert!((0.92..1.08).contains(&ratio), "{case}: {found} against {expected}");
        }
    }
}

#[test]
fn a_link_without_a_spread_is_exact() {
    assert_eq!(latencies_us(700, 0), vec![700; 4_000]);
}

#[test]
fn this_ends_address_is_what_the_other_end_has_for_its_peer() {
    let log = Scene::new(&["server", "client"])
        .node(|host, log| async move {
            let stream = host.listen(7).await.unwrap().accept().await.unwrap();
            note(&log, &host, &format!("{} {}", stream.local_addr().unwrap(), stream.peer_addr()));
            std::future::pending::<()>().await;
        })
        .node(|host, log| async move {
            host.sleep(ms(1)).await;
            let stream = host.connect("server:7").await.unwrap();
            note(&log, &host, &format!("{} {}", stream.peer_addr(), stream.local_addr().unwrap()));
            std::future::pending::<()>().await;
        })
        .run(&EventEngine, |_| {});
    let seen: Vec<&str> = log.iter().filter_map(|line| line.splitn(3, ' ').nth(2)).collect();
    assert_eq!(seen.len(), 2, "{log:?}");
    assert_eq!(seen[0], seen[1]);
}
