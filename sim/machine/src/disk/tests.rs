use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

/// A host whose timers are tokio's, under a paused clock.
fn with_host<F: Future<Output = ()>>(test: impl FnOnce(Host) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async { test(Host::tokio("zk-1")).await });
}

fn disk(seed: u64) -> Disk {
    Disk::new(Settings::default(), seed, "zk-1")
}

#[test]
fn what_was_synchronised_survives_and_what_was_not_is_a_prefix() {
    let mut kept = BTreeSet::new();
    for seed in 0..64 {
        with_host(|host| async move {
            let disk = disk(seed);
            let files = disk.mount(&host);
            files.append("log", &[1; 700]).unwrap();
            files.sync("log").await.unwrap();
            files.append("log", &[2; 5_000]).unwrap();
            disk.lose_power();
            let bytes = disk.mount(&host).read("log").await.unwrap();
            assert!(bytes.len() >= 700);
            assert!(bytes[..700].iter().all(|byte| *byte == 1));
            assert!(bytes[700..].iter().all(|byte| *byte == 2));
            let is_whole = bytes.len() == 5_700 || bytes.len() == 700;
            assert!(is_whole || bytes.len() % 512 == 0, "a torn sector: {}", bytes.len());
        });
        let disk = disk(seed);
        with_host(|host| {
            let files = disk.mount(&host);
            async move {
                files.append("log", &[2; 5_000]).unwrap();
                files.sync("log").await.unwrap();
                files.append("log", &[3; 5_000]).unwrap();
            }
        });
        disk.lose_power();
        kept.insert(disk.used_bytes());
    }
    assert!(kept.len() > 4, "the tail is cut at drawn places: {kept:?}");
}

#[test]
fn a_process_crash_loses_nothing() {
    with_host(|host| async move {
        let disk = disk(1);
        disk.mount(&host).append("log", b"not synchronised").unwrap();
        // The program is gone; the next one mounts the same disk.
        assert_eq!(disk.mount(&host).read("log").await.unwrap(), b"not synchronised");
    });
}

#[test]
fn a_failed_synchronisation_is_told_once_and_its_bytes_are_gone() {
    with_host(|host| async move {
        let disk = disk(1);
        let files = disk.mount(&host);
        files.append("log", b"kept").unwrap();
        files.sync("log").await.unwrap();
        files.append("log", b" lost").unwrap();
        disk.set_ailment(Ailment { failing: true, ..Ailment::default() });
        assert!(files.sync("log").await.is_err());
        disk.set_ailment(Ailment::default());
        assert!(files.sync("log").await.is_ok(), "the pages count as clean");
        assert_eq!(files.read("log").await.unwrap(), b"kept lost", "the kernel still has them");
        disk.lose_power();
        assert_eq!(disk.mount(&host).read("log").await.unwrap(), b"kept");
    });
}

#[test]
fn a_rename_is_atomic_and_durable_once_the_names_are_synchronised() {
    let mut found = BTreeSet::new();
    for seed in 0..32 {
        let disk = disk(seed);
        with_host(|host| {
            let files = disk.mount(&host);
            async move {
                files.append("old", b"old").unwrap();
                files.sync("old").await.unwrap();
                files.append("new", b"new").unwrap();
                files.sync("new").await.unwrap();
                files.rename("new", "old").unwrap();
                assert_eq!(files.names(), ["old"]);
            }
        });
        disk.lose_power();
        with_host(|host| {
            let files = disk.mount(&host);
            let found = &mut found;
            async move {
                found.insert((files.names(), files.read("old").await.unwrap()));
            }
        });
    }
    let undone = (vec!["new".to_owned(), "old".to_owned()], b"old".to_vec());
    let done = (vec!["old".to_owned()], b"new".to_vec());
    assert_eq!(found, BTreeSet::from([undone, done]));
}

#[test]
fn a_renamed_file_that_goes_back_has_its_newest_synchronised_bytes() {
    for seed in 0..16 {
        let disk = disk(seed);
        with_host(|host| {
            let files = disk.mount(&host);
            async move {
                files.append("log", b"one").unwrap();
                files.sync("log").await.unwrap();
                files.append("log", b"two").unwrap();
                files.sync("log").await.unwrap();
                files.remove("log").unwrap();
            }
        });
        disk.lose_power();
        with_host(|host| {
            let files = disk.mount(&host);
            async move {
                if files.names() == ["log"] {
                    assert_eq!(files.read("log").await.unwrap(), b"onetwo");
                }
            }
        });
    }
}

#[test]
fn what_a_program_still_does_when_its_machine_has_died_fails() {
    with_host(|host| async move {
        let disk = disk(1);
        let files = disk.mount(&host);
        files.append("log", b"kept").unwrap();
        files.sync("log").await.unwrap();
        disk.lose_power();
        assert!(files.append("log", b" of a ghost").is_err());
        assert!(files.truncate("log", 0).is_err() && files.rename("log", "old").is_err());
        assert!(files.remove("log").is_err() && files.sync("log").await.is_err());
        assert!(files.sync_names().await.is_err() && files.read("log").await.is_err());
        assert_eq!(disk.mount(&host).read("log").await.unwrap(), b"kept");
    });
}

#[test]
fn a_stalled_device_completes_nothing_until_it_is_well_and_says_so() {
    with_host(|host| async move {
        let disk = disk(1);
        let signs = Arc::new(AtomicUsize::new(0));
        let heard = signs.clone();
        disk.on_sign(Arc::new(move |sign| {
            assert_eq!(sign, DiskSign::Stalled);
            heard.fetch_add(1, Ordering::Relaxed);
        }));
        let files = disk.mount(&host);
        files.append("log", b"x").unwrap();
        disk.set_ailment(Ailment { stalled: true, ..Ailment::default() });
        let waited = host.timeout(Duration::from_secs(60), files.sync("log")).await;
        assert!(waited.is_err(), "nothing completes");
        assert_eq!(signs.load(Ordering::Relaxed), 1);
        disk.set_ailment(Ailment::default());
        files.sync("log").await.unwrap();
    });
}

#[test]
fn synchronisations_queue_at_the_device() {
    with_host(|host| async move {
        let settings = Settings { sigma_milli: 0, ..Settings::default() };
        let disk = Disk::new(settings, 1, "zk-1");
        let files = disk.mount(&host);
        files.append("a", b"x").unwrap();
        files.append("b", b"x").unwrap();
        let start = tokio::time::Instant::now();
        let (a, b) = tokio::join!(files.sync("a"), files.sync("b"));
        assert!(a.is_ok() && b.is_ok());
        assert!(start.elapsed() >= Duration::from_millis(2));
    });
}

#[test]
fn a_full_disk_takes_nothing() {
    with_host(|host| async move {
        let settings = Settings { capacity_bytes: 10, ..Settings::default() };
        let files = Disk::new(settings, 1, "zk-1").mount(&host);
        files.append("log", b"12345678").unwrap();
        let error = files.append("log", b"901").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(files.read("log").await.unwrap(), b"12345678");
        assert_eq!(files.read("else").await.unwrap_err().kind(), io::ErrorKind::NotFound);
    });
}

/// What a program does to one file.
#[derive(Clone, Debug)]
enum Act {
    Append(u16),
    Sync,
    FailSync,
    Truncate(u16),
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0_u16..2_000).prop_map(Act::Append),
        2 => Just(Act::Sync),
        1 => Just(Act::FailSync),
        1 => (0_u16..4_000).prop_map(Act::Truncate),
        1 => Just(Act::Crash),
    ]
}

proptest! {
    /// Whatever a program does: after a crash a file is a prefix of what it was, and at
    /// least as long as what was synchronised without a failure before it.
    #[test]
    fn a_crash_leaves_a_prefix_that_holds_what_was_promised(
        seed: u64,
        acts in prop::collection::vec(act(), 1..40),
    ) {
        with_host(|host| async move {
            let disk = disk(seed);
            let mut files = disk.mount(&host);
            files.append("log", b"").unwrap();
            files.sync("log").await.unwrap();
            let (mut written, mut promised, mut broken) = (Vec::<u8>::new(), 0_usize, false);
            for (number, act) in acts.into_iter().enumerate() {
                match act {
                    Act::Append(count) => {
                        let bytes = vec![number as u8; usize::from(count)];
                        written.extend_from_slice(&bytes);
                        files.append("log", &bytes).unwrap();
                    }
                    Act::Sync => {
                        files.sync("log").await.unwrap();
                        if !broken {
                            promised = written.len();
                        }
                    }
                    Act::FailSync => {
                        disk.set_ailment(Ailment { failing: true, ..Ailment::default() });
                        assert!(files.sync("log").await.is_err());
                        disk.set_ailment(Ailment::default());
                        broken |= written.len() > promised;
                    }
                    Act::Truncate(length) => {
                        let length = usize::from(length).min(written.len());
                        written.truncate(length);
                        files.truncate("log", length as u64).unwrap();
                        promised = promised.min(length);
                        broken &= length > promised;
                    }
                    Act::Crash => {
                        disk.lose_power();
                        files = disk.mount(&host);
                        let bytes = files.read("log").await.unwrap();
                        assert!(bytes.len() >= promised, "{} of {promised}", bytes.len());
                        assert_eq!(bytes, written[..bytes.len()]);
                        written = bytes;
                        promised = written.len();
                        broken = false;
                    }
                }
            }
        });
    }
}
