//! One end of a patch between two bridges. It has no device and no queues: a packet sent to it
//! goes on in the peer's bridge during translation, which counts it for both ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::ethernet_address::EthernetAddress;
use crate::port::{Port, PortError};
use crate::statistics::Statistics;
use crate::tunnel::TunnelTraffic;

/// A port of type `patch`.
#[derive(Debug)]
pub(crate) struct PatchPort {
    name: String,
    address: EthernetAddress,
    peer: Option<String>,
    traffic: Arc<TunnelTraffic>,
    change_sequence: u64,
}

impl PatchPort {
    /// Opens a patch port with a random address; option `peer` makes it usable.
    pub(crate) fn open(name: &str) -> Result<Self, PortError> {
        let mut address = [0; 6];
        getrandom(&mut address, GetRandomFlags::empty())
            .map_err(|errno| PortError::Open { port: name.to_owned(), errno })?;
        Ok(Self {
            name: name.to_owned(),
            address: EthernetAddress(address).made_local_station(),
            peer: None,
            traffic: Arc::default(),
            change_sequence: 1,
        })
    }

    fn bad_options(&self, problem: &str) -> PortError {
        PortError::Options { port: self.name.clone(), problem: problem.to_owned() }
    }
}

impl Port for PatchPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn port_type(&self) -> &str {
        "patch"
    }

    /// Takes `peer`, the name of the other end, and nothing else.
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), PortError> {
        let peer = options
            .get("peer")
            .ok_or_else(|| self.bad_options("patch type requires valid 'peer' argument"))?;
        if options.len() > 1 {
            return Err(self.bad_options("patch type takes only a 'peer' argument"));
        }
        if *peer == self.name {
            return Err(self.bad_options("patch peer must not be self"));
        }
        if self.peer.as_ref() != Some(peer) {
            self.peer = Some(peer.clone());
            self.change_sequence += 1;
        }
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        self.peer.iter().map(|peer| ("peer".to_owned(), peer.clone())).collect()
    }

    fn ethernet_address(&self) -> Result<EthernetAddress, PortError> {
        Ok(self.address)
    }

    fn set_ethernet_address(&mut self, address: EthernetAddress) -> Result<(), PortError> {
        self.address = address;
        self.change_sequence += 1;
        Ok(())
    }

    fn mtu(&self) -> Result<u32, PortError> {
        Err(self.not_supported("reading the MTU"))
    }

    fn set_mtu(&mut self, _mtu: u32) -> Result<(), PortError> {
        Err(self.not_supported("setting the MTU"))
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        Ok(true)
    }

    fn set_admin_up(&mut self, up: bool) -> Result<(), PortError> {
        if up { Ok(()) } else { Err(self.not_supported("setting the port down")) }
    }

    fn status(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        Ok(self.traffic.statistics())
    }

    fn change_sequence(&self) -> u64 {
        self.change_sequence
    }

    fn patch_traffic(&self) -> Option<Arc<TunnelTraffic>> {
        Some(Arc::clone(&self.traffic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn needs_another_port_as_peer_and_nothing_else() {
        let mut port = PatchPort::open("p0").unwrap();
        for (bad, message) in [
            (options(&[]), "p0: patch type requires valid 'peer' argument"),
            (
                options(&[("peer", "p1"), ("key", "7")]),
                "p0: patch type takes only a 'peer' argument",
            ),
            (options(&[("peer", "p0")]), "p0: patch peer must not be self"),
        ] {
            assert_eq!(port.set_options(&bad).unwrap_err().to_string(), message);
            assert_eq!(port.options(), options(&[]));
        }
        let before = port.change_sequence();
        port.set_options(&options(&[("peer", "p1")])).unwrap();
        port.set_options(&options(&[("peer", "p1")])).unwrap();
        assert_eq!(port.options(), options(&[("peer", "p1")]));
        assert_eq!(port.change_sequence(), before + 1);
    }

    #[test]
    fn has_an_address_but_no_device() {
        let mut port = PatchPort::open("p0").unwrap();
        let random = port.ethernet_address().unwrap();
        assert!(!random.is_multicast());
        let address = EthernetAddress([0x02, 0, 0, 0, 0, 9]);
        port.set_ethernet_address(address).unwrap();
        assert_eq!(port.ethernet_address(), Ok(address));
        assert_eq!((port.ifindex(), port.admin_up(), port.carrier()), (None, Ok(true), true));
        assert_eq!(port.set_admin_up(true), Ok(()));
        assert_eq!(
            port.set_mtu(1500).unwrap_err().to_string(),
            "p0: setting the MTU is not supported by type patch"
        );
        assert_eq!(
            port.set_admin_up(false).unwrap_err().to_string(),
            "p0: setting the port down is not supported by type patch"
        );
        assert_eq!(port.status(), options(&[]));
    }
}
