//! The port types that exist, and how a port of each is opened.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::afxdp::{AfxdpPort, AfxdpPorts};
use crate::dummy::DummyPorts;
use crate::linux::links::Links;
use crate::linux::port::KernelPort;
use crate::patch::PatchPort;
use crate::port::{Port, PortError};
use crate::replay::ReplayPort;
use crate::sim::SimPorts;
use crate::tunnel::{TunnelKind, TunnelPort, Tunnels};

/// Which ports are dummies (option `--enable-dummy` of the daemon).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DummyMode {
    /// None; the dummy types do not exist.
    Disabled,
    /// Those of the dummy types.
    Enabled,
    /// Also those of type `system`.
    OverrideSystem,
    /// All but patches.
    OverrideAll,
}

/// Types that exist always beside those of tunnels, sorted.
const TYPES: [&str; 9] =
    ["afxdp", "afxdp-nonpmd", "internal", "null", "patch", "pcap", "sim", "system", "tap"];
/// Types that exist where dummies are enabled, sorted.
const DUMMY_TYPES: [&str; 3] = ["dummy", "dummy-internal", "dummy-pmd"];

/// Opens ports by name and type.
#[derive(Debug)]
pub struct Registry {
    mode: DummyMode,
    dummies: DummyPorts,
    sims: Arc<SimPorts>,
    afxdp: Arc<AfxdpPorts>,
    links: Arc<Links>,
    tunnels: Arc<Tunnels>,
}

impl Registry {
    /// A registry with the port types that `mode` calls for. Relative paths of sockets start from
    /// `run_directory`.
    pub fn new(mode: DummyMode, run_directory: &Path) -> Self {
        let dummies = DummyPorts::new(run_directory);
        let links = Arc::<Links>::default();
        let afxdp = Arc::new(AfxdpPorts::new(&links));
        let (sims, tunnels) = (Arc::default(), Arc::default());
        Self { mode, dummies, sims, afxdp, links, tunnels }
    }

    /// Which ports are dummies.
    pub fn mode(&self) -> DummyMode {
        self.mode
    }

    /// The names of the port types, sorted (column `iface_types` of table `Open_vSwitch`).
    pub fn types(&self) -> Vec<&'static str> {
        let mut types = TYPES.to_vec();
        types.extend(TunnelKind::ALL.map(TunnelKind::name));
        if self.mode != DummyMode::Disabled {
            types.extend(DUMMY_TYPES);
        }
        types.sort_unstable();
        types
    }

    /// The open dummy ports.
    pub fn dummies(&self) -> &DummyPorts {
        &self.dummies
    }

    /// The open software NICs.
    pub fn sims(&self) -> &SimPorts {
        &self.sims
    }

    /// The open AF_XDP ports, which the daemon is to [watch](AfxdpPorts::watch).
    pub fn afxdp(&self) -> &Arc<AfxdpPorts> {
        &self.afxdp
    }

    /// The kernel's links, which the daemon is to [watch](Links::watch).
    pub fn links(&self) -> &Arc<Links> {
        &self.links
    }

    /// Opens port `name` of type `port_type`, where an empty type means `system`. Dropping the
    /// port closes it.
    ///
    /// # Errors
    /// When the type does not exist, or the device cannot be opened or created.
    pub fn open(&self, name: &str, port_type: &str) -> Result<Box<dyn Port>, PortError> {
        if name.is_empty() {
            return Err(PortError::Open { port: name.to_owned(), errno: Errno::INVAL });
        }
        let port_type = if port_type.is_empty() { "system" } else { port_type };
        if self.is_dummy(port_type) {
            return Ok(Box::new(self.dummies.open(name, port_type)));
        }
        if let Some(kind) = TunnelKind::of_name(port_type) {
            return Ok(Box::new(TunnelPort::open(name, kind, &self.tunnels)?));
        }
        match port_type {
            "afxdp" => Ok(Box::new(AfxdpPort::open(&self.afxdp, name, true)?)),
            "afxdp-nonpmd" => Ok(Box::new(AfxdpPort::open(&self.afxdp, name, false)?)),
            "internal" => Ok(Box::new(KernelPort::open_internal(&self.links, name)?)),
            "system" => Ok(Box::new(KernelPort::open_system(&self.links, name)?)),
            "tap" => Ok(Box::new(KernelPort::open_tap(&self.links, name)?)),
            "null" => Ok(Box::new(ReplayPort::open_null(name)?)),
            "pcap" => Ok(Box::new(ReplayPort::open_pcap(name)?)),
            "sim" => Ok(Box::new(self.sims.open(name)?)),
            "patch" => Ok(Box::new(PatchPort::open(name)?)),
            _ => {
                tracing::warn!(
                    target: "netdev",
                    "could not create netdev {name} of unknown type {port_type}"
                );
                Err(PortError::UnknownType {
                    port: name.to_owned(),
                    port_type: port_type.to_owned(),
                })
            }
        }
    }

    /// Whether ports of type `port_type` are dummies.
    fn is_dummy(&self, port_type: &str) -> bool {
        let is_overridden = match self.mode {
            DummyMode::Disabled => return false,
            DummyMode::Enabled => false,
            DummyMode::OverrideSystem => port_type == "system",
            DummyMode::OverrideAll => port_type != "patch" && TYPES.contains(&port_type),
        };
        is_overridden || DUMMY_TYPES.contains(&port_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_types_sorted() {
        assert_eq!(
            Registry::new(DummyMode::Disabled, Path::new("/run")).types(),
            [
                "afxdp",
                "afxdp-nonpmd",
                "bareudp",
                "erspan",
                "geneve",
                "gre",
                "gtpu",
                "internal",
                "ip6erspan",
                "ip6gre",
                "null",
                "patch",
                "pcap",
                "sim",
                "srv6",
                "system",
                "tap",
                "vxlan"
            ]
        );
        assert_eq!(
            Registry::new(DummyMode::Enabled, Path::new("/run")).types(),
            [
                "afxdp",
                "afxdp-nonpmd",
                "bareudp",
                "dummy",
                "dummy-internal",
                "dummy-pmd",
                "erspan",
                "geneve",
                "gre",
                "gtpu",
                "internal",
                "ip6erspan",
                "ip6gre",
                "null",
                "patch",
                "pcap",
                "sim",
                "srv6",
                "system",
                "tap",
                "vxlan"
            ]
        );
    }

    #[test]
    fn knows_dummies_only_where_enabled() {
        let error = Registry::new(DummyMode::Disabled, Path::new("/run"))
            .open("p1", "dummy")
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "could not open network device p1 (unknown type \"dummy\")");
        let registry = Registry::new(DummyMode::Enabled, Path::new("/run"));
        let port = registry.open("p1", "dummy-pmd").unwrap();
        assert_eq!((port.name(), port.port_type()), ("p1", "dummy-pmd"));
        assert_eq!(registry.dummies().get("p1").unwrap().name(), "p1");
        drop(port);
        assert!(registry.dummies().get("p1").is_none());
    }

    #[test]
    fn overrides_types_by_dummies() {
        let types = ["", "system", "internal", "tap", "patch", "dummy"];
        for (mode, dummies) in [
            (DummyMode::Enabled, vec!["dummy"]),
            (DummyMode::OverrideSystem, vec!["system", "dummy"]),
            (DummyMode::OverrideAll, vec!["system", "internal", "tap", "dummy"]),
        ] {
            let registry = Registry::new(mode, Path::new("/run"));
            let found: Vec<_> =
                types.into_iter().filter(|port_type| registry.is_dummy(port_type)).collect();
            assert_eq!(found, dummies);
        }
        let registry = Registry::new(DummyMode::OverrideSystem, Path::new("/run"));
        let port = registry.open("eth0", "").unwrap();
        assert_eq!((port.port_type(), port.mtu()), ("system", Ok(1500)));
        assert!(registry.dummies().get("eth0").is_some());
    }

    #[test]
    fn refuses_an_empty_name() {
        let error =
            Registry::new(DummyMode::Enabled, Path::new("/run")).open("", "dummy").err().unwrap();
        assert_eq!(error.to_string(), "could not open network device  (Invalid argument)");
    }
}
