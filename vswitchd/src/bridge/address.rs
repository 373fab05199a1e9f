//! Choice of a bridge's Ethernet address and datapath id.

use netdev::ethernet_address::EthernetAddress;
use ofproto::port::PortNumber;
use ofproto::switch::Switch;
use uuid::Uuid;

use crate::config::diff::AppliedBridge;
use crate::config::model::PortConfig;

/// Bit of the first byte that marks an address as made up locally (IEEE 802, 8.2.2).
const LOCAL_BIT: u8 = 2;
const GROUP_BIT: u8 = 1;

/// The address that a bridge without eligible ports gets: made from its row's id, so that it is
/// unique and survives restarts.
fn default_address(uuid: Uuid) -> EthernetAddress {
    let [first, b, c, d, e, f, ..] = *uuid.as_bytes();
    EthernetAddress([(first & !GROUP_BIT) | LOCAL_BIT, b, c, d, e, f])
}

fn is_eligible(address: EthernetAddress) -> bool {
    let [first, ..] = address.0;
    address != EthernetAddress([0; 6]) && first & (GROUP_BIT | LOCAL_BIT) == 0
}

/// The address of the bridge: what its `other_config:hwaddr` says, otherwise the smallest
/// globally unique one among its ports.
pub(super) fn bridge_address(applied: &AppliedBridge, switch: &Switch) -> EthernetAddress {
    applied.config.ethernet_address.unwrap_or_else(|| port_address(applied, switch, None))
}

/// The address of the local interface of `fake_bridge`: as for the bridge, but only ports of the
/// same VLAN count. With `None` all ports do.
pub(super) fn port_address(
    applied: &AppliedBridge,
    switch: &Switch,
    fake_bridge: Option<&PortConfig>,
) -> EthernetAddress {
    let vlan = fake_bridge.and_then(|port| port.tag);
    let ports = applied.config.ports.values();
    let addresses = ports.filter_map(|port| {
        if let Some(address) = port.ethernet_address {
            return Some(address);
        }
        // A bond is represented by its first member in alphabetical order.
        let (name, _) = port.interfaces.first_key_value()?;
        let number = applied.interfaces.get(name)?.number?;
        let other_vlan = vlan.is_some() && port.tag != vlan;
        if number == PortNumber::LOCAL || other_vlan {
            return None;
        }
        switch.port(number)?.port.ethernet_address().ok()
    });
    addresses
        .filter(|&address| is_eligible(address))
        .min()
        .unwrap_or_else(|| default_address(applied.config.uuid))
}

/// The datapath id of a bridge: what is configured, otherwise its Ethernet address.
pub(super) fn datapath_id(configured: Option<u64>, address: EthernetAddress) -> u64 {
    configured.unwrap_or_else(|| address.0.iter().fold(0, |id, &byte| id << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_address_is_local_and_of_one_station() {
        let uuid = Uuid::from_bytes([0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(default_address(uuid), EthernetAddress([0xfe, 1, 2, 3, 4, 5]));
    }

    #[test]
    fn only_unique_station_addresses_are_eligible() {
        assert!(is_eligible(EthernetAddress([0x00, 0x11, 0x22, 0x33, 0x44, 0x55])));
        assert!(!is_eligible(EthernetAddress([0xaa, 0x55, 0xaa, 0x55, 0, 1])));
        assert!(!is_eligible(EthernetAddress([0x01, 0, 0x5e, 0, 0, 1])));
        assert!(!is_eligible(EthernetAddress([0; 6])));
    }

    #[test]
    fn datapath_id_is_the_address_unless_configured() {
        let address = EthernetAddress([0, 0x11, 0x22, 0x33, 0x44, 0x55]);
        assert_eq!(datapath_id(None, address), 0x0000_0011_2233_4455);
        assert_eq!(datapath_id(Some(7), address), 7);
    }
}
