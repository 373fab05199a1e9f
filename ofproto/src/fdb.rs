//! MAC tables as operators see them (`fdb/show`, `fdb/stats-show`).

use std::fmt::{self, Write as _};

use crate::mac_table::{MacEntry, MacTable};
use crate::port::PortNumber;

/// Text of `fdb/show` for the bridges with these names. With several of them there is a column
/// for the name, which the first entry of each has.
pub fn show(bridges: &[(&str, &MacTable)]) -> String {
    let several = bridges.len() > 1;
    let longest = bridges.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let width = longest.max("Bridge".len()) + 1;
    let column = |name: &str| if several { format!(" {name:width$}") } else { String::new() };
    let mut text = column("Bridge") + " Port  VLAN  MAC                Age\n";
    for (name, table) in bridges {
        let entries = table.entries();
        if several && entries.is_empty() {
            text += &format!(" {name}\n");
        }
        for (index, entry) in entries.into_iter().enumerate() {
            text += &column(if index == 0 { name } else { "" });
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}", Row(entry));
        }
    }
    text
}

/// An entry in the columns below the heading.
struct Row(MacEntry);

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MacEntry { vlan, address, port, age } = self.0;
        match port {
            PortNumber::LOCAL => write!(f, "{:>5}", "LOCAL")?,
            PortNumber(number) => write!(f, "{number:>5}")?,
        }
        write!(f, "  {vlan:>4}  {address}  ")?;
        match age {
            Some(age) => write!(f, "{age:>3}"),
            None => f.write_str("static"),
        }
    }
}

/// Text of `fdb/stats-show` for the bridge `name`.
pub fn show_statistics(name: &str, table: &MacTable) -> String {
    let (occupancy, statistics) = (table.occupancy(), table.statistics());
    let mut text = format!(
        "Statistics for bridge \"{name}\":\n  Current/maximum MAC entries in the table: {}/{}\n",
        occupancy.entries, occupancy.size
    );
    let counts = [
        ("Current static MAC entries in the table", occupancy.static_entries as u64),
        ("Total number of learned MAC entries", statistics.learned),
        ("Total number of expired MAC entries", statistics.expired),
        ("Total number of evicted MAC entries", statistics.evicted),
        ("Total number of port moved MAC entries", statistics.moved),
    ];
    for (what, count) in counts {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {what:<40}: {count}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use netdev::ethernet_address::EthernetAddress;

    use super::*;

    fn table(stations: &[(u16, u8, u16, bool)]) -> MacTable {
        let table = MacTable::new(Arc::default());
        for &(vlan, last, port, is_static) in stations {
            let address = EthernetAddress([0x50, 0x54, 0, 0, 0, last]);
            let port = PortNumber(port);
            let is_new = match is_static {
                true => table.add_static(vlan, address, port),
                false => table.learn(vlan, address, port),
            };
            assert!(is_new);
        }
        table
    }

    #[test]
    fn shows_one_bridge_without_its_name() {
        let table = table(&[(0, 1, 1, false), (10, 2, 0xfffe, true), (4095, 3, 40000, false)]);
        assert_eq!(
            show(&[("br0", &table)]),
            " Port  VLAN  MAC                Age\n\
             \x20   1     0  50:54:00:00:00:01    0\n\
             LOCAL    10  50:54:00:00:00:02  static\n\
             40000  4095  50:54:00:00:00:03    0\n"
        );
        assert_eq!(
            show_statistics("br0", &table),
            "Statistics for bridge \"br0\":\n\
             \x20 Current/maximum MAC entries in the table: 3/8192\n\
             \x20 Current static MAC entries in the table : 1\n\
             \x20 Total number of learned MAC entries     : 2\n\
             \x20 Total number of expired MAC entries     : 0\n\
             \x20 Total number of evicted MAC entries     : 0\n\
             \x20 Total number of port moved MAC entries  : 0\n"
        );
    }

    #[test]
    fn shows_several_bridges_in_a_column() {
        let (some, none) = (table(&[(0, 5, 1, true), (0, 6, 3, true)]), table(&[]));
        assert_eq!(
            show(&[("br0", &some), ("br-nexthop", &none)]),
            [
                " Bridge      Port  VLAN  MAC                Age\n",
                " br0            1     0  50:54:00:00:00:05  static\n",
                "                3     0  50:54:00:00:00:06  static\n",
                " br-nexthop\n",
            ]
            .concat()
        );
    }
}
