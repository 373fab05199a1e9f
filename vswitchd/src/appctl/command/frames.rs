//! `dpif-netdev/frames-show`: where the frames for packets are.

use netdev::packet::FrameCounts;
use serde_json::{Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::{command, find_datapath};

pub(super) const COMMANDS: &[Command] =
    &[command("dpif-netdev/frames-show", "[dp]", (0, 1), Handler::Now(show))];

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let datapath = find_datapath(daemon, call.argument(0))
        .ok_or_else(|| "please specify an existing datapath".to_owned())?;
    let pools = datapath.pools().map(|(numa, pool)| (numa, pool.pages().name(), pool.counts()));
    Ok(match call.format {
        Format::Text => {
            Output::Text(pools.map(|(numa, pages, counts)| line(numa, pages, counts)).collect())
        }
        Format::Json => Output::Json(
            pools
                .map(|(numa, pages, FrameCounts { total, shared, cached, held })| {
                    let counts = json!({
                        "pages": pages,
                        "total": total,
                        "free": shared,
                        "free-with-threads": cached,
                        "in-use": held,
                    });
                    (numa.to_string(), counts)
                })
                .collect::<serde_json::Map<String, Value>>()
                .into(),
        ),
    })
}

fn line(numa: u32, pages: &str, counts: FrameCounts) -> String {
    let FrameCounts { total, shared, cached, held } = counts;
    format!(
        "numa {numa}: {total} frames in {pages} pages: {shared} free, {cached} free with threads, \
         {held} in use\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_all_places() {
        let counts = FrameCounts { total: 100, shared: 60, cached: 30, held: 10 };
        assert_eq!(
            line(1, "huge", counts),
            "numa 1: 100 frames in huge pages: 60 free, 30 free with threads, 10 in use\n"
        );
    }
}
