//! How the abilities of a packet's port are found, and what a mark saves.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;

use netdev::flow_api::Capabilities;

use super::path::{PORT, Path};
use super::table::measure;
use crate::datapath::PortNumber;
use crate::pmd::lookup::CachePolicy;
use crate::pmd::pipeline::Pipeline;

const ROUNDS: usize = 11;
const CYCLES: &str = "TSC cycles per packet";

const CLASSIFIER: CachePolicy = CachePolicy { exact_one_in: 0, signature: false };
const SIGNATURE: CachePolicy = CachePolicy { exact_one_in: 0, signature: true };
const EXACT: CachePolicy = CachePolicy { exact_one_in: 1, signature: true };

/// What a packet costs whose mark leads to its flow, beside those that are looked up.
pub(super) fn marks_and_caches() {
    for flows in [1, 1_000, 100_000, 1_000_000] {
        let path = RefCell::new(Path::new(flows));
        let packets = (flows as usize).clamp(100_000, 1_000_000);
        let run = |is_marked, policy| {
            path.borrow_mut().run(packets, is_marked, policy, |_| true, |_| false)
        };
        measure(
            &format!("mark against caches, {flows} flows"),
            CYCLES,
            if flows > 100_000 { 3 } else { ROUNDS },
            vec![
                ("mark", Box::new(|| run(true, SIGNATURE))),
                ("exact-match cache", Box::new(|| run(false, EXACT))),
                ("signature cache", Box::new(|| run(false, SIGNATURE))),
                ("default caches", Box::new(|| run(false, CLASSIFIER))),
                (
                    "making and dropping the packets alone",
                    Box::new(|| path.borrow_mut().run_nothing(packets)),
                ),
            ],
        );
    }
}

/// What it costs to find out what the hardware of a packet's port can do.
pub(super) fn lookups_for_recovery() {
    for ports in [1u32, 8, 1000] {
        let path = RefCell::new(Path::new(1_000));
        let map: HashMap<u32, Capabilities> =
            (1..=ports).map(|port| (port, Capabilities::MARK)).collect();
        let far = PortNumber(70_000);
        for port in 1..=ports {
            path.borrow_mut().pipeline.offload.ports.set(PortNumber(port), Capabilities::MARK);
        }
        path.borrow_mut().pipeline.offload.ports.set(far, Capabilities::MARK);
        let pointer = Box::new(Capabilities::MARK);
        let has = |capabilities: Capabilities| capabilities.contains(Capabilities::MARK);
        let array = |pipeline: &Pipeline, port| has(pipeline.offload.capabilities(black_box(port)));
        let in_map = || map.get(&black_box(PORT.0)).is_some_and(|c| has(*c));
        let of_queue = || has(*black_box(&pointer).as_ref());
        // One place in the program for the packet path of all rows.
        let run = |lookup: &dyn Fn(&Pipeline) -> bool, each: &dyn Fn(&Pipeline) -> bool| {
            path.borrow_mut().run(100_000, true, SIGNATURE, lookup, each)
        };
        let no = |_: &Pipeline| false;
        measure(
            &format!("how the abilities of the port are found, mark path, {ports} ports"),
            CYCLES,
            ROUNDS,
            vec![
                ("none", Box::new(|| run(&|_| true, &no))),
                ("none again (A/A)", Box::new(|| run(&|_| true, &no))),
                ("pointer of the queue, per batch", Box::new(|| run(&|_| of_queue(), &no))),
                ("array, per batch", Box::new(|| run(&|path| array(path, PORT), &no))),
                (
                    "array missed, then map, per batch",
                    Box::new(|| run(&|path| array(path, far), &no)),
                ),
                ("map, per batch", Box::new(|| run(&|_| in_map(), &no))),
                ("pointer of the queue, per packet", Box::new(|| run(&no, &|_| of_queue()))),
                ("array, per packet", Box::new(|| run(&no, &|path| array(path, PORT)))),
                (
                    "array missed, then map, per packet",
                    Box::new(|| run(&no, &|path| array(path, far))),
                ),
                ("map, per packet", Box::new(|| run(&no, &|_| in_map()))),
            ],
        );
    }
}
