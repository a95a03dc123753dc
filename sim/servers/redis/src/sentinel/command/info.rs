//! The text of `INFO`.

use std::fmt::Write as _;

use super::{Call, Outcome};
use crate::VERSION;

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let wanted: Vec<String> =
        (1..call.arguments.len()).map(|index| call.text(index).to_ascii_lowercase()).collect();
    let is_general = |name: &String| matches!(name.as_str(), "all" | "default" | "everything");
    let all = wanted.is_empty() || wanted.iter().any(is_general);
    let wants = |name: &str| all || wanted.iter().any(|wanted| wanted == name);
    let mut sections = Vec::new();
    for (name, section) in [
        ("server", server as fn(&Call<'_>) -> String),
        ("clients", clients),
        ("stats", |_| "# Stats\r\n".to_owned()),
        ("sentinel", sentinel),
    ] {
        if wants(name) {
            sections.push(section(call));
        }
    }
    let text = sections.join("\r\n");
    call.client.reply.bulk(text.as_bytes());
    Ok(())
}

fn server(call: &Call<'_>) -> String {
    let me = &call.state.core.me;
    format!(
        "# Server\r\nredis_version:{VERSION}\r\nredis_git_sha1:00000000\r\nredis_git_dirty:0\r\n\
         redis_build_id:lockstorm\r\nredis_mode:sentinel\r\nos:lockstorm\r\narch_bits:64\r\n\
         process_id:1\r\nrun_id:{}\r\ntcp_port:{}\r\nserver_time_usec:{}\r\n",
        me.id,
        me.address.port,
        call.now.saturating_mul(1_000),
    )
}

fn clients(call: &Call<'_>) -> String {
    // And the one that asks.
    format!("# Clients\r\nconnected_clients:{}\r\n", call.state.clients.all.len() + 1)
}

fn sentinel(call: &Call<'_>) -> String {
    let core = &call.state.core;
    let me = &core.me;
    let tilt_s = if me.tilt { (call.now - me.tilt_since) / 1_000 } else { -1 };
    let mut text = format!(
        "# Sentinel\r\nsentinel_masters:{}\r\nsentinel_tilt:{}\r\nsentinel_tilt_since_seconds:\
         {tilt_s}\r\nsentinel_running_scripts:0\r\nsentinel_scripts_queue_length:0\r\n\
         sentinel_simulate_failure_flags:{}\r\n",
        core.masters.len(),
        u8::from(me.tilt),
        u8::from(me.crash.after_election) + 2 * u8::from(me.crash.after_promotion),
    );
    for (number, master) in core.masters.iter().enumerate() {
        let status = match (master.o_down, master.instance.s_down) {
            (true, _) => "odown",
            (_, true) => "sdown",
            _ => "ok",
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "master{number}:name={},status={status},address={},slaves={},sentinels={}\r\n",
            master.instance.name,
            master.instance.address,
            master.replicas.len(),
            master.sentinels.len() + 1,
        );
    }
    text
}
