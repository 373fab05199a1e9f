use super::*;

const ONE_NODE: [Core; 3] =
    [Core { numa: 0, core: 1 }, Core { numa: 0, core: 2 }, Core { numa: 0, core: 3 }];

fn queue(port: u32, queue: usize, cycles: u64) -> Queue {
    Queue { port: PortNumber(port), name: format!("p{port}"), queue, numa: 0, pinned: None, cycles }
}

fn cores(placement: &Placement) -> Vec<Option<u32>> {
    placement.cores.iter().map(|core| core.map(|core| core.core)).collect()
}

fn lines(placement: &Placement) -> Vec<String> {
    placement.notes.iter().map(ToString::to_string).collect()
}

#[test]
fn cycles_goes_up_and_down_from_the_busiest() {
    let queues: Vec<Queue> = (0..7).map(|q| queue(1, q, 100 - q as u64)).collect();
    let placement = assign(&queues, &ONE_NODE, Algorithm::Cycles, true);
    let expected = [1, 2, 3, 3, 2, 1, 1].map(Some);
    assert_eq!(cores(&placement), expected);
    assert_eq!(
        lines(&placement)[..2],
        [
            "Performing pmd to rx queue assignment using cycles algorithm.",
            "Core  1 on numa node 0 assigned port 'p1' rx queue 0 (measured processing cycles 100)."
        ]
    );
}

#[test]
fn round_robin_keeps_the_order_of_the_queues() {
    let queues: Vec<Queue> = (0..5).map(|q| queue(1, q, q as u64)).collect();
    let placement = assign(&queues, &ONE_NODE, Algorithm::RoundRobin, true);
    assert_eq!(cores(&placement), [1, 2, 3, 1, 2].map(Some));
    assert_eq!(lines(&placement)[1], "Core  1 on numa node 0 assigned port 'p1' rx queue 0.");
}

#[test]
fn group_evens_out_the_load() {
    let loads = [50, 40, 30, 30, 20, 0];
    let queues: Vec<Queue> = (0..).zip(loads).map(|(q, load)| queue(1, q, load)).collect();
    let placement = assign(&queues, &ONE_NODE, Algorithm::Group, true);
    // 50 | 40 | 30; then 30 to core 3, 20 to core 2; the idle one to the fewest queues.
    assert_eq!(cores(&placement), [1, 2, 3, 3, 2, 1].map(Some));
}

#[test]
fn a_pinned_queue_has_its_core_to_itself() {
    let mut queues: Vec<Queue> = (0..4).map(|q| queue(1, q, 0)).collect();
    queues[2].pinned = Some(1);
    let placement = assign(&queues, &ONE_NODE, Algorithm::Cycles, true);
    assert_eq!(cores(&placement), [2, 3, 1, 3].map(Some));
    assert_eq!(placement.isolated, BTreeSet::from([ONE_NODE[0]]));
    assert_eq!(
        lines(&placement)[0],
        "Core  1 on numa node 0 is pinned with port 'p1' rx queue 2 (measured processing cycles 0)"
    );
    let placement = assign(&queues, &ONE_NODE, Algorithm::Group, false);
    assert_eq!(cores(&placement), [2, 3, 1, 1].map(Some));
    assert_eq!(placement.isolated, BTreeSet::new());
}

#[test]
fn a_core_without_thread_cannot_be_pinned() {
    let mut queues = [queue(1, 0, 0)];
    queues[0].pinned = Some(7);
    let placement = assign(&queues, &ONE_NODE, Algorithm::Cycles, true);
    assert_eq!(cores(&placement), [Some(1)]);
    assert!(placement.notes[0].is_warning());
    assert_eq!(
        lines(&placement)[0],
        "Core  7 cannot be pinned with port 'p1' rx queue 0. Use pmd-cpu-mask to enable a pmd on \
         core 7. An alternative core will be assigned."
    );
}

#[test]
fn other_nodes_take_turns_when_the_own_one_has_no_core() {
    let two = [Core { numa: 0, core: 0 }, Core { numa: 2, core: 9 }];
    let queues: Vec<Queue> = (0..3).map(|q| Queue { numa: 1, ..queue(4, q, 0) }).collect();
    let placement = assign(&queues, &two, Algorithm::Cycles, true);
    assert_eq!(cores(&placement), [0, 9, 0].map(Some));
    assert_eq!(
        lines(&placement)[1],
        "There's no available (non-isolated) pmd thread on numa node 1. Port 'p4' rx queue 0 will \
         be assigned to a pmd on numa node 0. This may lead to reduced performance."
    );
    let isolated = [Queue { pinned: Some(0), ..queue(1, 0, 0) }, queue(2, 0, 5)];
    let placement = assign(&isolated, &two[..1], Algorithm::Cycles, true);
    assert_eq!(cores(&placement), [Some(0), None]);
    assert_eq!(
        lines(&placement)[2],
        "No non-isolated pmd on any numa available for port 'p2' rx queue 0 (measured processing \
         cycles 5). This rx queue will not be polled."
    );
}
