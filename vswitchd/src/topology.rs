//! The processor cores of the machine and the NUMA nodes that they are on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dpif::datapath::Topology;
use dpif::pmd::assign::Core;
use tracing::info;

/// Where the kernel shows them (Documentation/ABI/stable/sysfs-devices-node).
const SYSFS: &str = "/sys/devices/system";

/// The cores to run poll threads on: those of this machine, or those that `dummy_numa` makes up
/// by giving the NUMA node of each core from 0 on.
pub fn discover(dummy_numa: Option<&[u16]>) -> Topology {
    let topology = match dummy_numa {
        Some(nodes) => {
            let core = |(core, &numa)| Core { numa: u32::from(numa), core };
            Topology { cores: (0..).zip(nodes).map(core).collect(), is_real: false }
        }
        None => Topology { cores: read(Path::new(SYSFS)), is_real: true },
    };
    let mut per_node: BTreeMap<u32, usize> = BTreeMap::new();
    topology.cores.iter().for_each(|core| *per_node.entry(core.numa).or_default() += 1);
    for (numa, count) in &per_node {
        info!(target: "ovs_numa", "Discovered {count} CPU cores on NUMA node {numa}");
    }
    info!(
        target: "ovs_numa",
        "Discovered {} NUMA nodes and {} CPU cores", per_node.len(), topology.cores.len()
    );
    topology
}

/// The online cores under `sysfs`. Where it tells nothing of NUMA nodes, all are on node 0.
fn read(sysfs: &Path) -> Vec<Core> {
    let list = |path: &str| parse_list(&fs::read_to_string(sysfs.join(path)).unwrap_or_default());
    let online = list("cpu/online");
    let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
    for node in list("node/online") {
        let cores = list(&format!("node/node{node}/cpulist"));
        nodes.extend(cores.into_iter().map(|core| (core, node)));
    }
    let numa = |core: u32| nodes.get(&core).copied().unwrap_or(0);
    online.into_iter().map(|core| Core { numa: numa(core), core }).collect()
}

/// A list of numbers and ranges, such as `0-3,8`. What is no number is left out.
fn parse_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_numbers_and_ranges() {
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list(""), [0; 0]);
        assert_eq!(parse_list("x,2-1,5"), [5]);
    }

    #[test]
    fn sysfs_tells_cores_and_nodes() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpu/online", "0-2,4\n");
        assert_eq!(read(directory.path()).iter().map(|core| core.numa).sum::<u32>(), 0);
        write("node/online", "0-1\n");
        write("node/node0/cpulist", "0-1\n");
        write("node/node1/cpulist", "2-4\n");
        let core = |core, numa| Core { numa, core };
        assert_eq!(read(directory.path()), [core(0, 0), core(1, 0), core(2, 1), core(4, 1)]);
    }

    #[test]
    fn tests_make_cores_up() {
        let topology = discover(Some(&[0, 0, 1]));
        let core = |core, numa| Core { numa, core };
        let cores = vec![core(0, 0), core(1, 0), core(2, 1)];
        assert_eq!(topology, Topology { cores, is_real: false });
    }
}
