//! `SENTINEL SET`, `SENTINEL CONFIG` and `SENTINEL DEBUG`: settings that are changed while
//! it runs.

use super::{Call, Outcome};
use crate::codec::number::parse_integer;
use crate::glob;
use crate::sentinel::bounds::{LONGEST_MS, is_word};
use crate::sentinel::core::Timing;
use crate::sentinel::instance::Ms;

/// `SENTINEL SET master option value [option value …]`.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let name = call.arguments[2].to_vec();
    let mut index = 3;
    while index < call.arguments.len() {
        let option = call.text(index).to_ascii_lowercase();
        let value = call.arguments.get(index + 1).map(<[u8]>::to_vec);
        let master = call.state.core.master(&name).ok_or("ERR No such master with that name")?;
        let Some(value) = value else { return Err(unknown_option(&call.text(index))) };
        let number = positive(&value);
        let bad = || {
            format!(
                "ERR Invalid argument '{}' for SENTINEL SET '{option}'",
                String::from_utf8_lossy(&value)
            )
        };
        match option.as_str() {
            "down-after-milliseconds" => master.set_down_after(number.ok_or_else(bad)?),
            "failover-timeout" => master.failover_timeout = number.ok_or_else(bad)?,
            "parallel-syncs" => master.parallel_syncs = small(number).ok_or_else(bad)?,
            "quorum" => master.quorum = small(number).ok_or_else(bad)?,
            _ => return Err(unknown_option(&call.text(index))),
        }
        let value = String::from_utf8_lossy(&value);
        let text = format!("{} {} {value}", master.shown(), call.text(index));
        call.state.core.me.tell("+set", text);
        call.state.core.me.must_save();
        index += 2;
    }
    call.client.reply.ok();
    Ok(())
}

fn positive(value: &[u8]) -> Option<i64> {
    parse_integer(value).filter(|number| (1..=LONGEST_MS).contains(number))
}

fn small(number: Option<i64>) -> Option<u32> {
    u32::try_from(number?).ok()
}

fn unknown_option(option: &str) -> String {
    format!("ERR Unknown option or number of arguments for SENTINEL SET '{option}'")
}

/// The options of `SENTINEL CONFIG` that mean something here.
const OPTIONS: [&str; 6] = [
    "resolve-hostnames",
    "announce-hostnames",
    "announce-ip",
    "announce-port",
    "sentinel-user",
    "sentinel-pass",
];

/// `SENTINEL CONFIG GET pattern` and `SET option value`.
pub(super) fn config(call: &mut Call<'_>) -> Outcome {
    if call.is(2, "set") && call.arguments.len() == 5 {
        let option = call.text(3).to_ascii_lowercase();
        let value = call.text(4);
        let me = &mut call.state.core.me;
        match option.as_str() {
            "announce-ip" if is_word(&value) => me.address.host = value,
            "announce-ip" => {
                return Err(format!(
                    "ERR Invalid value '{value}' to SENTINEL CONFIG SET '{option}'"
                ));
            }
            "announce-port" => {
                let port = value.parse().ok();
                me.announced_port = port.ok_or_else(|| {
                    format!("ERR Invalid value '{value}' to SENTINEL CONFIG SET '{option}'")
                })?;
                let is_own = me.announced_port == 0;
                me.address.port = if is_own { me.own_port } else { me.announced_port };
            }
            option if OPTIONS.contains(&option) => {}
            option => {
                return Err(format!("ERR Invalid argument '{option}' to SENTINEL CONFIG SET"));
            }
        }
        me.must_save();
        call.client.reply.ok();
        return Ok(());
    }
    if call.is(2, "get") && call.arguments.len() == 4 {
        let pattern = call.arguments[3].to_vec();
        let me = &call.state.core.me;
        let (host, port) = (me.address.host.clone(), me.announced_port);
        let matching =
            OPTIONS.into_iter().filter(|name| glob::matches(&pattern, name.as_bytes(), true));
        let matching: Vec<&str> = matching.collect();
        let reply = &mut call.client.reply;
        reply.map(matching.len());
        for name in matching {
            reply.bulk(name.as_bytes());
            match name {
                // Names are what instances are reached by.
                "resolve-hostnames" | "announce-hostnames" => reply.bulk(b"yes"),
                "announce-ip" => reply.bulk(host.as_bytes()),
                "announce-port" => reply.bulk_integer(i64::from(port)),
                _ => reply.bulk(b""),
            }
        }
        return Ok(());
    }
    Err("ERR Only SENTINEL CONFIG GET <option> / SET <option> <value> are supported.".to_owned())
}

/// An interval that `SENTINEL DEBUG` shows, and its place.
type Interval = (&'static str, fn(&mut Timing) -> &mut Ms);

const INTERVALS: [Interval; 11] = [
    ("INFO-PERIOD", |timing| &mut timing.info_period),
    ("PING-PERIOD", |timing| &mut timing.ping_period),
    ("ASK-PERIOD", |timing| &mut timing.ask_period),
    ("PUBLISH-PERIOD", |timing| &mut timing.publish_period),
    ("DEFAULT-DOWN-AFTER", |timing| &mut timing.default_down_after),
    ("DEFAULT-FAILOVER-TIMEOUT", |timing| &mut timing.default_failover_timeout),
    ("TILT-TRIGGER", |timing| &mut timing.tilt_trigger),
    ("TILT-PERIOD", |timing| &mut timing.tilt_period),
    ("SLAVE-RECONF-TIMEOUT", |timing| &mut timing.reconfiguration_timeout),
    ("MIN-LINK-RECONNECT-PERIOD", |timing| &mut timing.min_link_reconnect_period),
    ("ELECTION-TIMEOUT", |timing| &mut timing.election_timeout),
];

/// `SENTINEL DEBUG [interval ms …]`.
pub(super) fn debug(call: &mut Call<'_>) -> Outcome {
    let timing = &mut call.state.core.me.timing;
    if call.arguments.len() == 2 {
        let reply = &mut call.client.reply;
        reply.map(INTERVALS.len());
        for (name, place) in INTERVALS {
            reply.bulk(name.as_bytes());
            reply.bulk(place(timing).to_string().as_bytes());
        }
        return Ok(());
    }
    let mut index = 2;
    while index < call.arguments.len() {
        let option = call.text(index);
        let known = INTERVALS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&option));
        let (Some((_, place)), Some(value)) = (known, call.arguments.get(index + 1)) else {
            return Err(format!(
                "ERR Unknown option or number of arguments for SENTINEL DEBUG '{option}'"
            ));
        };
        let number = positive(value);
        let number = number.ok_or_else(|| {
            let value = String::from_utf8_lossy(value);
            format!("ERR Invalid argument '{value}' for SENTINEL DEBUG '{option}'")
        })?;
        *place(&mut call.state.core.me.timing) = number;
        index += 2;
    }
    call.client.reply.ok();
    Ok(())
}
