//! What `dpif-netdev/pmd-stats-show` says of a poll thread, in the layout of Open vSwitch 3.x.

/// The figures of one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PmdStatistics {
    /// Packets received from ports.
    pub received: u64,
    /// Where packets found their flows: name of the class and packets.
    pub hits: Vec<(String, u64)>,
    /// Subtables looked at for a packet that found its flow in the classifier.
    pub subtables_per_hit: f64,
    /// Packets that had no flow and were translated.
    pub misses: u64,
    /// Cycles between two packets, those in which there was nothing to do included.
    pub cycles_per_packet: Option<f64>,
}

impl PmdStatistics {
    /// Reads the figures of the thread on processor `core`; `None` if there is no such thread or a
    /// figure is missing.
    pub fn of_core(text: &str, core: u32) -> Option<Self> {
        let head = format!(" core_id {core}:");
        let lines = text.lines().skip_while(|line| !line.ends_with(&head)).skip(1);
        let lines = lines.take_while(|line| line.starts_with(' '));
        let mut statistics = Self::default();
        let mut is_complete = false;
        for line in lines {
            let (name, value) = line.trim().split_once(": ")?;
            let first = value.split_whitespace().next()?;
            match name {
                "packets received" => statistics.received = first.parse().ok()?,
                "miss with success upcall" => {
                    statistics.misses = first.parse().ok()?;
                    is_complete = true;
                }
                "avg. subtable lookups per megaflow hit" => {
                    statistics.subtables_per_hit = first.parse().ok()?;
                }
                "avg cycles per packet" => statistics.cycles_per_packet = first.parse().ok(),
                // Not a class of flows.
                "mfex opt hits" => {}
                _ => {
                    if let Some(class) = name.strip_suffix(" hits") {
                        statistics.hits.push((class.into(), first.parse().ok()?));
                    }
                }
            }
        }
        is_complete.then_some(statistics)
    }

    /// The classes that took at least one packet in a hundred, with their share.
    pub fn path(&self) -> String {
        let share = |count: u64| (100 * count).checked_div(self.received).unwrap_or(0);
        let upcalls = ("upcall".to_owned(), self.misses);
        let classes = self.hits.iter().chain([&upcalls]).filter(|(_, count)| share(*count) > 0);
        let texts = classes.map(|(name, count)| match name.as_str() {
            "megaflow" => {
                format!("{} % megaflow ({:.1} subtables)", share(*count), self.subtables_per_hit)
            }
            _ => format!("{} % {name}", share(*count)),
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pmd thread numa_id 0 core_id 1:
  packets received: 1000
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 0
  emc hits: 180
  smc hits: 0
  megaflow hits: 820
  avg. subtable lookups per megaflow hit: 2.85
  miss with success upcall: 0
  miss with failed upcall: 0
  avg. packets per output batch: 32.00
  idle cycles: 0 (0.00%)
  processing cycles: 332170 (100.00%)
  avg cycles per packet: 332.17 (332170/1000)
  avg processing cycles per packet: 332.17 (332170/1000)
main thread:
  packets received: 7
";

    #[test]
    fn reads_one_thread() {
        let statistics = PmdStatistics::of_core(TEXT, 1).expect("figures");
        let hits = [("phwol", 0), ("simple match", 0), ("emc", 180), ("smc", 0), ("megaflow", 820)];
        assert_eq!(
            statistics,
            PmdStatistics {
                received: 1000,
                hits: hits.map(|(name, count)| (name.into(), count)).into(),
                subtables_per_hit: 2.85,
                misses: 0,
                cycles_per_packet: Some(332.17),
            }
        );
        assert_eq!(statistics.path(), "18 % emc, 82 % megaflow (2.9 subtables)");
        assert_eq!(PmdStatistics::of_core(TEXT, 0), None);
    }
}
