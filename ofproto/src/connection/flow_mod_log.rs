//! How the log tells of the flow modifications of a peer: now and then, and when it leaves.

use std::time::Duration;

use crate::openflow::message::FlowModCommand;

/// How long modifications are gathered.
const GATHER: Duration = Duration::from_secs(10);
/// Least time between two lines, for a peer that never stops.
const REST: Duration = Duration::from_secs(60);

/// The modifications that the log has not told of.
#[derive(Debug, Default)]
pub(super) struct FlowModLog {
    adds: u32,
    deletes: u32,
    modifications: u32,
    first: Duration,
    last: Duration,
    report_at: Option<Duration>,
    /// When the log may tell of modifications again.
    rested_at: Duration,
}

impl FlowModLog {
    /// Counts a modification.
    pub(super) fn count(&mut self, command: FlowModCommand, now: Duration) {
        match command {
            FlowModCommand::Add => self.adds += 1,
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => self.modifications += 1,
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => self.deletes += 1,
        }
        if self.report_at.is_none() {
            self.first = now;
            let report_at = (now + GATHER).max(self.rested_at);
            self.report_at = Some(report_at);
            self.rested_at = report_at + REST;
        }
        self.last = now;
    }

    /// When the log is to tell of modifications.
    pub(super) fn due(&self) -> Option<Duration> {
        self.report_at
    }

    /// What the log is to tell, if there was anything, which is forgotten.
    pub(super) fn take(&mut self, now: Duration) -> Option<String> {
        let Self { adds, deletes, modifications, .. } = *self;
        self.report_at.take()?;
        let ago = now.saturating_sub(self.first).as_secs();
        let took = self.last.saturating_sub(self.first).as_secs();
        let when = match took {
            _ if took == ago => format!("in the last {ago} s"),
            0 => format!("{ago} s ago"),
            _ => format!("in the {took} s starting {ago} s ago"),
        };
        let kinds = [(adds, "adds"), (deletes, "deletes"), (modifications, "modifications")];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<_> = kinds.map(|(count, kind)| format!("{count} {kind}")).collect();
        *self = Self { rested_at: self.rested_at, ..Self::default() };
        let all = adds + deletes + modifications;
        Some(format!("{all} flow_mods {when} ({})", kinds.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn modifications_are_gathered() {
        let mut log = FlowModLog::default();
        assert_eq!((log.due(), log.take(at(1))), (None, None));
        log.count(FlowModCommand::Add, at(1));
        log.count(FlowModCommand::Add, at(1));
        log.count(FlowModCommand::DeleteStrict, at(3));
        assert_eq!(log.due(), Some(at(11)));
        assert_eq!(
            log.take(at(11)).as_deref(),
            Some("3 flow_mods in the 2 s starting 10 s ago (2 adds, 1 deletes)")
        );
        // It rests for a minute after that.
        log.count(FlowModCommand::Modify, at(12));
        assert_eq!(log.due(), Some(at(71)));
        assert_eq!(
            log.take(at(12)).as_deref(),
            Some("1 flow_mods in the last 0 s (1 modifications)")
        );
        log.count(FlowModCommand::Modify, at(13));
        assert_eq!(log.take(at(20)).as_deref(), Some("1 flow_mods 7 s ago (1 modifications)"));
    }
}
