//! The state machine alone: what it does with the time, with replies and with questions.

use bytes::Bytes;

use super::bounds::{LAST_EPOCH, LONGEST_MS, MOST_MASTERS, MOST_OF_ONE_MASTER};
use super::command::execute;
use super::core::{Core, Place};
use super::instance::{Address, Ms, Role, Stage};
use super::link::Expected;
use super::service::{Client, Clients};
use super::*;
use crate::codec::{OwnedArguments, Reply};

const T0: Ms = 1_000_000;
const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const C: &str = "cccccccccccccccccccccccccccccccccccccccc";

fn settings() -> Settings {
    let mut master = MasterSettings::new("mymaster", "redis-1:6379", 2);
    master.down_after = Duration::from_secs(1);
    master.failover_timeout = Duration::from_secs(10);
    master.replicas = vec!["redis-2:6379".to_owned(), "redis-3:6379".to_owned()];
    let known = |id: &str, name: &str| KnownSentinel {
        id: id.to_owned(),
        address: format!("{name}:26379"),
    };
    master.sentinels = vec![known(B, "sentinel-2"), known(C, "sentinel-3")];
    let mut settings = Settings::new("sentinel-1");
    settings.masters = vec![master];
    settings
}

/// A sentinel whose draws are all zero: nothing is desynchronised.
fn core() -> Core {
    Core::new(&settings(), A.to_owned(), T0, Box::new(|_| 0))
}

/// The names of what it told since the last look.
fn told(core: &mut Core) -> Vec<&'static str> {
    core.me.events.drain(..).map(|event| event.name).collect()
}

const ALL: [Place; 5] = [
    Place::Master(0),
    Place::Replica(0, 0),
    Place::Replica(0, 1),
    Place::Sentinel(0, 0),
    Place::Sentinel(0, 1),
];

fn info(role: &str, master: &str, offset: u64, run_id: char) -> Reply {
    let id: String = std::iter::repeat_n(run_id, 40).collect();
    let text = format!(
        "# Server\r\nrun_id:{id}\r\n\r\n# Replication\r\nrole:{role}\r\nmaster_host:{master}\r\n\
         master_port:6379\r\nmaster_link_status:up\r\nslave_repl_offset:{offset}\r\n\
         slave_priority:100\r\n"
    );
    Reply::Bulk(Bytes::from(text))
}

/// Answers all that was asked of an instance, as `reply` has it; others are mute.
fn answer(core: &mut Core, place: Place, now: Ms, mut reply: impl FnMut(Expected) -> Reply) {
    while let Some(expected) = core.instance(place).link.expected.front().copied() {
        let number = core.instance(place).link.commands.as_ref().map(|c| c.number);
        core.received(number.expect("a connection"), &reply(expected), now);
    }
}

fn healthy(place: Place) -> impl FnMut(Expected) -> Reply {
    move |expected| match (expected, place) {
        (Expected::Ping, _) => Reply::Simple(Bytes::from_static(b"PONG")),
        (Expected::Info, Place::Master(_)) => info("master", "", 10, '1'),
        (Expected::Info, Place::Replica(_, 0)) => info("slave", "redis-1", 10, '2'),
        (Expected::Info, _) => info("slave", "redis-1", 20, '3'),
        (Expected::MasterDown, _) => {
            let star = Reply::Bulk(Bytes::from_static(b"*"));
            Reply::Array(vec![Reply::Integer(0), star, Reply::Integer(0)])
        }
        _ => Reply::Integer(1),
    }
}

/// Everybody but `mute` answers at once, for so long.
fn run(core: &mut Core, from: Ms, ms: Ms, mute: &[Place]) -> Ms {
    let mut now = from;
    while now < from + ms {
        now += 100;
        core.tick(now);
        for place in ALL.into_iter().filter(|place| !mute.contains(place)) {
            answer(core, place, now, healthy(place));
        }
    }
    now
}

fn vote(down: i64, leader: &str, epoch: i64) -> Reply {
    let leader = Reply::Bulk(Bytes::copy_from_slice(leader.as_bytes()));
    Reply::Array(vec![Reply::Integer(down), leader, Reply::Integer(epoch)])
}

/// The answer of a sentinel to what it is asked about the master.
fn voting(down: i64, leader: &'static str, epoch: i64) -> impl FnMut(Expected) -> Reply {
    move |expected| match expected {
        Expected::MasterDown => vote(down, leader, epoch),
        Expected::Ping => Reply::Simple(Bytes::from_static(b"PONG")),
        _ => Reply::Integer(1),
    }
}

#[test]
fn silence_is_counted_from_the_first_ping_without_a_reply() {
    let mut core = core();
    let now = run(&mut core, T0, 5_000, &[]);
    assert_eq!(told(&mut core), [""; 0]);
    // The last PING was answered; the next is due within a second, then silence lasts one.
    let start = now;
    let mut now = now;
    while told(&mut core).is_empty() {
        now = run(&mut core, now, 100, &[Place::Master(0)]);
    }
    assert!((1_100..=2_300).contains(&(now - start)), "{}", now - start);
    assert!(core.masters[0].instance.s_down && !core.masters[0].o_down);
    // It answers again.
    answer(&mut core, Place::Master(0), now, healthy(Place::Master(0)));
    run(&mut core, now, 100, &[]);
    assert_eq!(told(&mut core), ["-sdown"]);
}

#[test]
fn a_server_that_is_loading_lives_and_one_that_refuses_does_not() {
    for (reply, is_down) in [("LOADING x", false), ("MASTERDOWN x", false), ("ERR x", true)] {
        let mut core = core();
        let mut now = run(&mut core, T0, 1_000, &[]);
        while now < T0 + 5_000 {
            now = run(&mut core, now, 100, &[Place::Replica(0, 0)]);
            let text = Reply::Error(Bytes::copy_from_slice(reply.as_bytes()));
            answer(&mut core, Place::Replica(0, 0), now, |_| text.clone());
        }
        assert_eq!(core.masters[0].replicas[0].instance.s_down, is_down, "{reply}");
    }
}

#[test]
fn a_master_is_failed_over_step_by_step() {
    let mut core = core();
    let mut now = run(&mut core, T0, 5_000, &[]);
    let voters = [Place::Sentinel(0, 0), Place::Sentinel(0, 1)];
    let mute = [Place::Master(0), voters[0], voters[1]];
    let mut all = Vec::new();
    let mut promoted = false;
    while !all.contains(&"+switch-master") && now < T0 + 20_000 {
        now += 100;
        core.tick(now);
        // One agrees and votes for us, the other is mute.
        answer(&mut core, voters[0], now, voting(1, A, 1));
        for place in ALL.into_iter().filter(|place| !mute.contains(place)) {
            // REPLICAOF is what has no reply of interest.
            answer(&mut core, place, now, |expected| {
                promoted |= expected == Expected::Nothing && place == Place::Replica(0, 1);
                match (expected, place) {
                    (Expected::Info, Place::Replica(_, 1)) if promoted => {
                        info("master", "", 21, '3')
                    }
                    (Expected::Info, Place::Replica(_, 0)) if promoted => {
                        info("slave", "redis-3", 21, '2')
                    }
                    _ => healthy(place)(expected),
                }
            });
        }
        all.extend(told(&mut core));
    }
    let others = ["+sdown"];
    let own: Vec<_> = all.iter().filter(|name| !others.contains(name)).copied().collect();
    assert_eq!(
        own,
        [
            "+odown",
            "+new-epoch",
            "+try-failover",
            "+vote-for-leader",
            "+elected-leader",
            "+failover-state-select-slave",
            "+selected-slave",
            "+failover-state-send-slaveof-noone",
            "+failover-state-wait-promotion",
            "-role-change",
            "+promoted-slave",
            "+failover-state-reconf-slaves",
            "+slave-reconf-sent",
            "+slave-reconf-inprog",
            "+slave-reconf-done",
            "+failover-end",
            "+switch-master",
            "+slave",
            "+slave",
        ]
    );
    let master = &core.masters[0];
    assert_eq!(master.instance.address.to_string(), "redis-3:6379");
    assert_eq!((master.config_epoch, master.stage), (1, Stage::None));
}

#[test]
fn an_election_needs_a_majority_of_all_who_are_known_and_the_quorum() {
    let mut core = core();
    let now = T0;
    let (me, master) = (&mut core.me, &mut core.masters[0]);
    master.start_failover(me, now);
    assert_eq!(master.elected(me, 1, now), None, "one of three");
    master.sentinels[0].answered(&vote(1, B, 1), now);
    assert_eq!(master.elected(me, 1, now), None, "the vote is given already, each has one");
    master.sentinels[0].answered(&vote(1, A, 1), now);
    let won = master.elected(me, 1, now).expect("two of three");
    assert_eq!(won.voters, ["sentinel-2", "sentinel-1"]);
    master.quorum = 3;
    assert_eq!(master.elected(me, 1, now), None, "two are less than the quorum");
    master.sentinels[1].answered(&vote(1, A, 0), now);
    assert_eq!(master.elected(me, 1, now), None, "a vote of another epoch");
}

#[test]
fn a_sentinel_votes_once_in_an_epoch_and_then_waits() {
    let mut core = core();
    let (me, master) = (&mut core.me, &mut core.masters[0]);
    assert_eq!(master.vote(me, 5, B, T0), (Some(B.to_owned()), 5));
    assert_eq!(master.vote(me, 5, C, T0), (Some(B.to_owned()), 5), "first come, first served");
    assert_eq!(master.vote(me, 4, C, T0), (Some(B.to_owned()), 5), "an epoch that is over");
    assert_eq!(me.current_epoch, 5);
    master.o_down = true;
    assert!(!master.must_fail_over(T0 + 19_999), "whoever was voted for has time");
    assert!(master.must_fail_over(T0 + 20_000));
    assert_eq!(told(&mut core), ["+new-epoch", "+vote-for-leader"]);
}

#[test]
fn a_vote_outlives_a_restart() {
    let mut core = core();
    let (me, master) = (&mut core.me, &mut core.masters[0]);
    master.vote(me, 7, B, T0);
    master.config_epoch = 3;
    let text = core.configuration();
    insta::assert_snapshot!(text);
    let mut again = Core::new(&Settings::new("sentinel-1"), C.to_owned(), T0, Box::new(|_| 0));
    again.restore(&text, T0);
    assert_eq!(again.configuration(), text);
    assert_eq!(again.me.id, A);
    let (me, master) = (&mut again.me, &mut again.masters[0]);
    assert_eq!(master.vote(me, 7, C, T0), (None, 7), "for whom is forgotten, that is not");
    assert_eq!(master.vote(me, 8, C, T0), (Some(C.to_owned()), 8));
}

#[test]
fn the_best_replica_has_the_least_priority_then_most_data_then_the_least_id() {
    let mut core = core();
    let now = run(&mut core, T0, 3_000, &[]);
    let best = |core: &Core| core.masters[0].best_replica(&core.me, now);
    assert_eq!(best(&core), Some(1), "most data");
    core.masters[0].replicas[0].offset = 20;
    assert_eq!(best(&core), Some(0), "the least run id");
    core.masters[0].replicas[1].priority = 99;
    assert_eq!(best(&core), Some(1), "the least priority");
    core.masters[0].replicas[1].priority = 0;
    assert_eq!(best(&core), Some(0), "priority 0 is never promoted");
    core.masters[0].replicas[0].link_down = 10_000;
    assert_eq!(best(&core), Some(0));
    core.masters[0].replicas[0].link_down = 10_001;
    assert_eq!(best(&core), None, "without its master for too long");
    core.masters[0].replicas[0].link_down = 0;
    core.masters[0].replicas[0].instance.link.close();
    assert_eq!(best(&core), None, "not connected");
}

#[test]
fn without_a_replica_to_promote_the_failover_is_given_up_and_tried_again_later() {
    let mut core = core();
    let mut now = run(&mut core, T0, 3_000, &[]);
    let mut tries = Vec::new();
    while now < T0 + 60_000 {
        now += 100;
        core.tick(now);
        for place in [Place::Sentinel(0, 0), Place::Sentinel(0, 1)] {
            let epoch = i64::try_from(core.me.current_epoch).unwrap();
            answer(&mut core, place, now, voting(1, A, epoch));
        }
        let news = told(&mut core);
        if news.contains(&"+try-failover") {
            tries.push(now - T0);
        }
        if news.contains(&"-failover-abort-no-good-slave") {
            assert!(!core.masters[0].failover_in_progress);
        }
    }
    assert_eq!(tries.len(), 3, "{tries:?}");
    assert!(tries.windows(2).all(|pair| pair[1] - pair[0] >= 20_000), "{tries:?}");
}

#[test]
fn a_clock_that_jumps_or_a_timer_that_is_late_is_tilt() {
    for (jump, tilts) in [(100, false), (2_000, false), (2_001, true), (-1, true)] {
        let mut core = core();
        let now = run(&mut core, T0, 1_000, &[]);
        core.tick(now + jump);
        assert_eq!(core.me.tilt, tilts, "{jump}");
    }
    // Nobody is down while it lasts, and the others are told nothing.
    let mut core = core();
    let now = run(&mut core, T0, 3_000, &[]);
    let now = run(&mut core, now + 60_000, 29_000, &[Place::Master(0)]);
    assert_eq!(told(&mut core), ["+tilt"]);
    core.masters[0].instance.s_down = true;
    let asked =
        ask(&mut core, &["SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "redis-1", "6379", "0", "*"]);
    assert_eq!(asked, "*3 :0 $1 * :0 ");
    core.masters[0].instance.s_down = false;
    run(&mut core, now, 2_000, &[Place::Master(0)]);
    assert_eq!(told(&mut core), ["-tilt", "+sdown"]);
}

#[test]
fn the_newer_configuration_wins() {
    let mut core = core();
    let hello = |epoch: u64, master: &str| {
        format!("sentinel-2,26379,{B},{epoch},mymaster,{master},6379,{epoch}")
    };
    core.hello(hello(0, "redis-2").as_bytes(), T0);
    assert_eq!(core.masters[0].instance.address.host, "redis-1", "no newer than ours");
    core.hello(hello(2, "redis-2").as_bytes(), T0);
    assert_eq!(core.masters[0].instance.address.host, "redis-2");
    assert_eq!((core.me.current_epoch, core.masters[0].config_epoch), (2, 2));
    core.hello(hello(1, "redis-3").as_bytes(), T0);
    assert_eq!(core.masters[0].instance.address.host, "redis-2", "older");
    assert_eq!(
        told(&mut core),
        ["+new-epoch", "+config-update-from", "+switch-master", "+slave", "+slave"]
    );
    for junk in ["", "a,b", "a,x,c,d,e,f,g,h", &hello(9, "redis-9").replace("mymaster", "other")] {
        core.hello(junk.as_bytes(), T0);
    }
    assert_eq!(told(&mut core), [""; 0]);
}

#[test]
fn sentinels_are_met_by_their_hellos_and_may_move() {
    let mut core = core();
    let d = A.replace('a', "d");
    let from = |name: &str, id: &str| format!("{name},26379,{id},0,mymaster,redis-1,6379,0");
    core.hello(from("sentinel-4", &d).as_bytes(), T0);
    core.hello(from("sentinel-1", A).as_bytes(), T0);
    assert_eq!(core.masters[0].sentinels.len(), 3, "oneself is nobody new");
    core.hello(from("sentinel-5", &d).as_bytes(), T0);
    core.hello(from("sentinel-2", &d).as_bytes(), T0);
    assert_eq!(
        told(&mut core),
        ["+sentinel", "+sentinel-address-switch", "+sentinel-address-switch"]
    );
    core.hello(from("sentinel-3", &A.replace('a', "e")).as_bytes(), T0);
    assert_eq!(told(&mut core), ["+sentinel-invalid-addr", "+sentinel"]);
}

#[test]
fn what_strangers_say_is_bounded() {
    let mut core = core();
    let from = |host: &str, id: &str, epoch: u64| {
        format!("{host},26379,{id},{epoch},mymaster,redis-1,6379,0")
    };
    // What would count over, or write lines of its own into the file that is kept.
    for hello in [
        from("sentinel-9", "d", u64::MAX),
        from("sentinel-9", "d\nsentinel myid x", 0),
        from("sentinel 9", "d", 0),
    ] {
        core.hello(hello.as_bytes(), T0);
    }
    assert_eq!((core.masters[0].sentinels.len(), core.me.current_epoch), (2, 0));
    for number in 0..2 * MOST_OF_ONE_MASTER {
        core.hello(from(&format!("host-{number}"), &format!("id-{number}"), 0).as_bytes(), T0);
    }
    assert_eq!(core.masters[0].sentinels.len(), MOST_OF_ONE_MASTER);
    let longest = LONGEST_MS.to_string();
    for (value, answer) in [(&*longest, "+OK "), ("9223372036854775807", "-ERR Invalid argument")] {
        let set = ask(&mut core, &["SENTINEL", "SET", "mymaster", "failover-timeout", value]);
        assert!(set.starts_with(answer), "{set}");
        let debug = ask(&mut core, &["SENTINEL", "DEBUG", "PUBLISH-PERIOD", value]);
        assert!(debug.starts_with(answer), "{debug}");
    }
    for name in ["two words", "", "a\nb"] {
        let monitor = ask(&mut core, &["SENTINEL", "MONITOR", name, "redis-1", "6379", "2"]);
        assert!(monitor.starts_with("-ERR"), "{monitor}");
    }
    for number in 0..MOST_MASTERS {
        ask(&mut core, &["SENTINEL", "MONITOR", &format!("m{number}"), "redis-1", "6379", "2"]);
    }
    assert_eq!(core.masters.len(), MOST_MASTERS);
    // The longest intervals and the last epoch add up.
    core.hello(from("host-0", "id-0", LAST_EPOCH).as_bytes(), T0);
    run(&mut core, T0, 3_000, &[]);
}

#[test]
fn a_former_master_is_made_a_replica_when_it_has_been_one_for_eight_seconds() {
    let mut core = core();
    let mut now = run(&mut core, T0, 3_000, &[]);
    let mut converted_at = None;
    let since = now;
    while now < since + 40_000 && converted_at.is_none() {
        now += 100;
        core.tick(now);
        for place in ALL {
            answer(&mut core, place, now, |expected| match (expected, place) {
                (Expected::Info, Place::Replica(_, 0)) => info("master", "", 9, '2'),
                _ => healthy(place)(expected),
            });
        }
        let news = told(&mut core);
        if news.contains(&"+convert-to-slave") {
            converted_at = Some(now - since);
        }
    }
    // The first INFO that shows it comes within ten seconds, the next ten later.
    let after = converted_at.expect("it is converted");
    assert!((10_000..=20_500).contains(&after), "{after}");
    assert_eq!(core.masters[0].replicas[0].instance.role, Role::Master);
}

#[test]
fn replicaof_goes_with_what_sends_clients_away() {
    let mut core = core();
    run(&mut core, T0, 100, &[]);
    let instance = core.instance(Place::Replica(0, 0));
    let connection = instance.link.commands.as_mut().unwrap();
    connection.outgoing.clear();
    instance.send_replicaof(Some(&Address::new("redis-3", 6379)));
    let sent = String::from_utf8(instance.link.commands.as_ref().unwrap().outgoing.clone());
    insta::assert_snapshot!(sent.unwrap().replace("\r\n", " "));
}

/// What a client is answered, line breaks as spaces.
fn ask(core: &mut Core, words: &[&str]) -> String {
    let now = core.masters.first().map_or(T0, |master| master.instance.link.ponged_at);
    let mut arguments = OwnedArguments::new();
    words.iter().for_each(|word| arguments.push(word.as_bytes()));
    let taken = std::mem::replace(core, self::core());
    let mut state = State { core: taken, clients: Clients::default(), saved: 0 };
    let mut client = Client::new(1, "127.0.0.1:1".parse().unwrap());
    execute(&mut state, &mut client, arguments.borrow(), now);
    *core = state.core;
    String::from_utf8_lossy(client.reply.bytes()).replace("\r\n", " ")
}

#[test]
fn clients_are_answered_as_by_a_real_sentinel() {
    let mut core = core();
    run(&mut core, T0, 500, &[]);
    for (command, answer) in [
        ("PING", "+PONG "),
        ("ROLE", "*2 $8 sentinel *1 $8 mymaster "),
        ("sentinel get-master-addr-by-name mymaster", "*2 $7 redis-1 $4 6379 "),
        ("SENTINEL GET-MASTER-ADDR-BY-NAME yours", "*-1 "),
        ("SENTINEL MASTER yours", "-ERR No such master with that name "),
        ("SENTINEL MASTER", "-ERR wrong number of arguments for 'sentinel|master' command "),
        ("SENTINEL NONE", "-ERR unknown subcommand 'NONE'. Try SENTINEL HELP. "),
        ("SENTINEL", "-ERR wrong number of arguments for 'sentinel' command "),
        (
            "SENTINEL CKQUORUM mymaster",
            "+OK 3 usable Sentinels. Quorum and failover authorization can be reached ",
        ),
        ("SENTINEL MONITOR mymaster redis-1 6379 1", "-ERR Duplicate master name. "),
        ("SENTINEL MONITOR other redis-9 6379 0", "-ERR Quorum must be 1 or greater. "),
        ("SENTINEL MONITOR other redis-9 6379 1", "+OK "),
        ("SENTINEL REMOVE other", "+OK "),
        ("SENTINEL SET mymaster quorum 3", "+OK "),
        ("SENTINEL SET mymaster quorum x", "-ERR Invalid argument 'x' for SENTINEL SET 'quorum' "),
        ("SENTINEL RESET my*", ":1 "),
        (
            "SENTINEL CKQUORUM mymaster",
            "-NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the specified \
             quorum for this master ",
        ),
        ("SENTINEL FAILOVER mymaster", "-NOGOODSLAVE No suitable replica to promote "),
        ("SENTINEL PENDING-SCRIPTS", "*0 "),
        ("PUBLISH news x", "-ERR Only HELLO messages are accepted by Sentinel instances. "),
        ("CLIENT SETNAME x", "+OK "),
        ("SET a b", "-ERR unknown command 'SET', with args beginning with: 'a' 'b'  "),
        ("HELLO 4", "-NOPROTO unsupported protocol version "),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(ask(&mut core, &words), answer, "{command}");
    }
}
