//! What happens to a batch of packets: keys, flows, upcalls, counters, actions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use netdev::cpu;
use netdev::flow_api::{self, RestoreInfo};
use netdev::packet::{BATCH_SIZE, Batch, Packet, PacketMut, PacketRef};
use netdev::queue::RxQueue;
use netdev::wire::{ip_protocol, vlan};

use super::log;
use super::lookup::{CachePolicy, Keys, Lookup};
use super::metrics::Metrics;
use super::statistics::{Counters, Statistics};
use super::transmit::Transmit;
use crate::action::Action;
use crate::cache::simple_match::SimpleKey;
use crate::classifier::bits;
use crate::datapath::PortNumber;
use crate::drop::{DropReason, Drops};
use crate::execute::{Executor, Random};
use crate::flow::{
    FlowKey, FlowMask, Metadata, MetadataTable, PacketKey, Ufid, extract, five_tuple_hash,
};
use crate::flow_table::{End, FlowRecord, Plan, WorkerId};
use crate::meter::Meter;
use crate::offload::RECOVERED;
use crate::offload::recover::recover;
use crate::offload::stage::{Association, OffloadStage};
use crate::tunnel::{TunnelKind, TunnelPort, Tunnels};
use crate::upcall::UpcallHandler;

/// Bytes of the shortest frame that is one.
const ETHERNET_HEADER: usize = 14;

/// The flows of all threads of a datapath, for those who look at them from outside.
pub(crate) type FlowIndex = DashMap<(WorkerId, Ufid), Arc<FlowRecord>>;

/// Everything that a thread looks at for a packet.
pub(crate) struct Pipeline {
    datapath: Arc<str>,
    id: WorkerId,
    pub(crate) lookup: Lookup,
    pub(crate) transmit: Transmit,
    pub(crate) meters: HashMap<u32, Arc<Meter>>,
    pub(crate) tunnels: Tunnels,
    pub(crate) vlan_limit: usize,
    statistics: Arc<Statistics>,
    /// What is known of each round, where that is wanted.
    pub(crate) metrics: Option<Box<Metrics>>,
    pub(crate) drops: Drops,
    pub(crate) offload: OffloadStage,
    handler: Arc<dyn UpcallHandler>,
    index: Arc<FlowIndex>,
    keys: Keys,
    /// What to do with packets of a batch that have no flow.
    answers: [Option<Arc<[Action]>>; BATCH_SIZE],
    recirculated: Vec<Batch>,
    metadata: MetadataTable,
    scratch: PacketKey,
    random: Random,
    seed: u64,
    /// Milliseconds of the switch's clock.
    now: u64,
}

/// Parts of a [`Pipeline`] that others share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Name of the datapath.
    pub(crate) name: Arc<str>,
    pub(crate) handler: Arc<dyn UpcallHandler>,
    pub(crate) index: Arc<FlowIndex>,
    /// Seed of all hashes.
    pub(crate) seed: u64,
}

impl Pipeline {
    pub(crate) fn new(id: WorkerId, shared: Shared, statistics: Arc<Statistics>) -> Self {
        let Shared { name, handler, index, seed } = shared;
        Self {
            datapath: name,
            id,
            lookup: Lookup::new(seed),
            transmit: Transmit::default(),
            meters: HashMap::new(),
            tunnels: Tunnels::default(),
            metadata: MetadataTable::default(),
            vlan_limit: 1,
            statistics,
            metrics: None,
            drops: Drops::new(),
            offload: OffloadStage::default(),
            handler,
            index,
            keys: Keys::new(),
            answers: [const { None }; BATCH_SIZE],
            recirculated: vec![],
            scratch: PacketKey::default(),
            random: Random::new(seed ^ 0x5bd1_e995),
            seed,
            now: 0,
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.statistics.counters()
    }

    /// Takes the time for what follows.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.now = now.as_millis() as u64;
        self.transmit.now = now;
    }

    /// Runs received packets through the datapath until they have left it, and leaves `batch`
    /// empty.
    pub(crate) fn process(&mut self, batch: &mut Batch, policy: CachePolicy) {
        drop_short_frames(batch, &mut self.drops);
        self.pass(batch, 0, policy, 0);
        self.finish_recirculated(policy);
    }

    /// The same for packets of a port whose hardware may have marked them. Those with a mark that
    /// leads to a flow are looked up no more. `depth` is 1 of packets that come through a tunnel.
    pub(crate) fn process_marked(&mut self, batch: &mut Batch, policy: CachePolicy, depth: u32) {
        drop_short_frames(batch, &mut self.drops);
        if cfg!(feature = "broken-order")
            && let Some(first) = batch.remove(0)
        {
            let _ = batch.push(first);
        }
        let marked = self.offload.find_marked(batch, &mut self.keys.flows);
        self.counters().mark_hits.add(u64::from(marked.count_ones()));
        if marked == 0 || marked.count_ones() as usize != batch.len() {
            self.pass(batch, marked, policy, depth);
        } else {
            self.finish_marked(batch);
        }
        self.finish_recirculated(policy);
    }

    /// The same for packets with which the device of the port may have begun: those of tunnels go on
    /// behind the tunnel's headers, as if their flow on the port had taken them off. Packets keep
    /// their order.
    pub(crate) fn process_restored(
        &mut self,
        queue: &mut dyn RxQueue,
        batch: &mut Batch,
        policy: CachePolicy,
    ) {
        let mut infos = [None; BATCH_SIZE];
        let mut is_any = false;
        for (place, info) in infos.iter_mut().enumerate().take(batch.len()) {
            *info = queue.restore_info(place);
            is_any |= info.is_some();
        }
        if !is_any {
            self.process_marked(batch, policy, 0);
            return;
        }
        let mut left = infos.get(..batch.len()).unwrap_or(&[]);
        let mut run = Batch::new(batch.pool());
        while let Some(first) = left.first() {
            let tunnel = self.tunnel_of(first.as_ref());
            let count =
                left.iter().take_while(|info| self.tunnel_of(info.as_ref()) == tunnel).count();
            let (now, later) = left.split_at(count);
            batch.move_front(count, &mut run);
            self.recover(&mut run, now, tunnel);
            self.process_marked(&mut run, policy, u32::from(tunnel.is_some()));
            left = later;
        }
    }

    /// The tunnel port through which a packet comes with which a device has begun.
    fn tunnel_of(&self, info: Option<&RestoreInfo>) -> Option<(PortNumber, TunnelPort)> {
        let info = info?;
        let kind = match info.tunnel.kind {
            kind if kind == flow_api::TunnelKind::Vxlan as u8 => TunnelKind::Vxlan,
            kind if kind == flow_api::TunnelKind::Geneve as u8 => TunnelKind::Geneve,
            _ => return None,
        };
        self.tunnels.find(kind, info.outer.tp_dst.get())
    }

    /// Puts packets right with which a device has begun. Those of no tunnel port go on as they came,
    /// if their headers are still there.
    fn recover(
        &mut self,
        batch: &mut Batch,
        infos: &[Option<RestoreInfo>],
        tunnel: Option<(PortNumber, TunnelPort)>,
    ) {
        let mut place = 0;
        for info in infos {
            let (Some(info), Some(mut packet)) = (info, batch.get_mut(place)) else {
                place += 1;
                continue;
            };
            RECOVERED.add(1);
            let problem = match tunnel {
                Some((number, port)) => {
                    match recover(&mut packet, info, port, &mut self.tunnels.events) {
                        Ok(tunnel) => {
                            let record = Metadata { tunnel, ..Metadata::default() };
                            let descriptor = packet.descriptor_mut();
                            descriptor.metadata = self.metadata.add(record);
                            descriptor.in_port = number.0;
                            None
                        }
                        Err(error) => {
                            self.tunnels.events.add(error.event());
                            Some(DropReason::TunnelPopError)
                        }
                    }
                }
                None if info.is_encapsulated => {
                    // It was that of a rule for what is inside.
                    packet.descriptor_mut().mark = 0;
                    None
                }
                None => Some(DropReason::HardwareMiss),
            };
            match problem {
                Some(reason) => {
                    batch.remove(place);
                    self.drops.add(reason, 1);
                }
                None => place += 1,
            }
        }
    }

    /// Hears what marks flows have.
    #[inline]
    pub(crate) fn hear_of_marks(&mut self) {
        for Association { flow, mark } in self.offload.news(&self.lookup.flows) {
            if !flow.is_dead() {
                self.offload.associate(&flow, mark);
            }
        }
    }

    /// Does `actions` to one packet that came in on no queue.
    pub(crate) fn execute(&mut self, packet: Packet, actions: &[Action], policy: CachePolicy) {
        self.executor(0).run(packet, actions);
        self.finish_recirculated(policy);
    }

    /// Sends what has waited long enough, or everything when `all` is set.
    pub(crate) fn flush(&mut self, all: bool) {
        self.transmit.flush(all, self.statistics.counters(), &mut self.drops);
    }

    fn finish_recirculated(&mut self, policy: CachePolicy) {
        let mut depth = 1;
        while !self.recirculated.is_empty() {
            for mut batch in std::mem::take(&mut self.recirculated) {
                self.counters().recirculated.add(batch.len() as u64);
                self.pass(&mut batch, 0, policy, depth);
            }
            depth += 1;
        }
        self.metadata.clear();
    }

    /// One pass of a batch, which is left empty. The flows of packets in `marked` are known.
    fn pass(&mut self, batch: &mut Batch, marked: u32, policy: CachePolicy, depth: u32) {
        let all = match batch.len() {
            0 => return,
            count => u32::MAX >> (BATCH_SIZE - count),
        };
        if depth == 0 && marked == 0 && self.forward_simple(batch) {
            return;
        }
        self.extract(batch, marked, policy, depth);
        let missing = self.find(all & !marked, policy, depth);
        if missing == 0 && self.forward_together(batch) {
            return;
        }
        self.answer(batch, missing, policy);
        match self.count(batch) {
            Some(end) => self.end(batch, end),
            None => self.act(batch, depth),
        }
    }

    /// Lets a whole batch come to one end.
    #[inline]
    fn end(&mut self, batch: &mut Batch, end: End) {
        match end {
            End::Output(port) => {
                let counters = self.statistics.counters();
                self.transmit.push_all(port, batch, counters, &mut self.drops);
            }
            End::Drop(reason) => {
                self.drops.add(reason, batch.len() as u64);
                batch.clear();
            }
        }
    }

    /// Forwards received packets by simple match, without extracting keys; false, and nothing
    /// happens, unless each of them is ordinary and has a flow that lets it come to one end.
    fn forward_simple(&mut self, batch: &mut Batch) -> bool {
        let Some(first) = batch.get(0) else { return false };
        let port = PortNumber(first.descriptor().in_port);
        let Some(simple) = self.lookup.simple(port) else { return false };
        let mut seen = [(0, 0); BATCH_SIZE];
        let (mut last, mut same_end) = (None::<(SimpleKey, u32)>, None);
        for (place, packet) in batch.iter().enumerate() {
            let Some((key, tcp_flags)) = SimpleKey::of_packet(&packet) else { return false };
            // It is in one frame.
            seen[place % BATCH_SIZE] = (packet.data().len() as u64, tcp_flags);
            let known = last.filter(|(other, _)| *other == key).map(|(_, flow)| flow);
            let Some(flow) = known.or_else(|| simple.find(key)) else { return false };
            if known.is_none() {
                let Some((Plan::End(end), _)) = self.lookup.flows.hit(flow) else {
                    return false;
                };
                if same_end.is_some_and(|other| other != *end) {
                    return false;
                }
                same_end = Some(*end);
                last = Some((key, flow));
            }
            self.keys.flows[place % BATCH_SIZE] = flow;
        }
        let Some(end) = same_end else { return false };
        let (mut run, mut packets, mut bytes, mut flags) = (self.keys.flows[0], 0, 0, 0);
        let count = |flow, packets, bytes, flags| {
            if let Some((_, record)) = self.lookup.flows.hit(flow) {
                record.count(packets, bytes, flags, self.now);
            }
        };
        for (&flow, (more, other_flags)) in self.keys.flows.iter().zip(seen).take(batch.len()) {
            if flow != run {
                count(run, packets, bytes, flags);
                (run, packets, bytes, flags) = (flow, 0, 0, 0);
            }
            (packets, bytes, flags) = (packets + 1, bytes + more, flags | other_flags);
        }
        count(run, packets, bytes, flags);
        let counters = self.statistics.counters();
        counters.simple_hits.add(batch.len() as u64);
        self.end(batch, end);
        true
    }

    /// Extracts the keys of a batch, and their hashes if need be; of packets in `marked` no more
    /// than their flows count.
    fn extract(&mut self, batch: &mut Batch, marked: u32, policy: CachePolicy, depth: u32) {
        let packets = batch.iter_mut().zip(self.keys.keys.iter_mut());
        for (place, (mut packet, key)) in packets.enumerate() {
            if marked == 0 || marked >> place & 1 == 0 {
                let metadata = self.metadata.get(packet.view().descriptor().metadata);
                extract(&mut packet, metadata, self.vlan_limit, key);
                continue;
            }
            let record =
                self.keys.flows.get(place).and_then(|flow| self.lookup.flows.record(*flow));
            let flags = tcp_flags(&mut packet, record, self.vlan_limit, &mut self.scratch);
            key.set_bare(packet.view().descriptor().in_port, flags);
        }
        let port = PortNumber(self.keys.keys[0].key().in_port.get());
        self.keys.is_hashed = depth > 0 || self.lookup.is_cached(port, policy);
        if self.keys.is_hashed {
            self.hash(batch, marked, depth);
        }
    }

    /// Computes the hashes of a batch, as far as devices have not, but for packets in `marked`.
    fn hash(&mut self, batch: &mut Batch, marked: u32, depth: u32) {
        let Keys { keys, hashes, .. } = &mut self.keys;
        let packets = batch.iter_mut().zip(keys.iter()).zip(hashes).enumerate();
        for (_, ((mut packet, key), hash)) in packets.filter(|(place, _)| marked >> place & 1 == 0)
        {
            let descriptor = packet.descriptor_mut();
            *hash = descriptor.rss_hash().unwrap_or_else(|| {
                let hash = five_tuple_hash(key.key(), self.seed);
                descriptor.set_rss_hash(Some(hash));
                hash
            });
            if depth > 0 {
                // A pass must not take the flow of another for its own.
                *hash ^= descriptor.recirc_id.wrapping_mul(0x9e37_79b1);
            }
            self.lookup.prefetch(*hash);
        }
    }

    /// Finds the flows of a batch; returns the bits of packets that have none.
    fn find(&mut self, all: u32, policy: CachePolicy, depth: u32) -> u32 {
        let (mut left, mut missing) = (all, 0);
        while let Some(first) = bits(left).next() {
            let port = self.keys.keys[first].key().in_port;
            let same = match depth {
                // Received packets came in on one port.
                0 => left,
                _ => {
                    let is_same = |packet: &usize| self.keys.keys[*packet].key().in_port == port;
                    bits(left).filter(is_same).fold(0, |set, packet| set | 1 << packet)
                }
            };
            left &= !same;
            missing |= self.lookup.find(
                PortNumber(port.get()),
                &mut self.keys,
                same,
                policy,
                depth == 0,
                self.statistics.counters(),
            );
        }
        missing
    }

    /// Counts and ends a batch whose packets are all of one flow that lets them come to one end;
    /// false, and nothing happens, when it is not so.
    #[inline]
    fn forward_together(&mut self, batch: &mut Batch) -> bool {
        let flows = self.keys.flows.get(..batch.len()).unwrap_or(&[]);
        let Some(&first) = flows.first() else { return false };
        if flows.iter().fold(0, |different, flow| different | flow ^ first) != 0 {
            return false;
        }
        let Some((Plan::End(end), record)) = self.lookup.flows.hit(first) else { return false };
        let end = *end;
        let (mut bytes, mut flags) = (0, 0);
        for (packet, key) in batch.iter().zip(self.keys.keys.iter()) {
            bytes += packet.len() as u64;
            flags |= key.key().tcp_flags.get();
        }
        record.count(batch.len() as u64, bytes, flags, self.now);
        self.end(batch, end);
        true
    }

    /// Counts packets whose flows are known by mark, and does what these say.
    fn finish_marked(&mut self, batch: &mut Batch) {
        let flows = &self.keys.flows;
        flows.iter().take(batch.len()).for_each(|flow| self.lookup.flows.prefetch_plan(*flow));
        flows.iter().take(batch.len()).for_each(|flow| self.lookup.flows.prefetch_counters(*flow));
        let (mut end, mut is_same) = (None, true);
        for (mut packet, &flow) in batch.iter_mut().zip(flows) {
            let Some((plan, record)) = self.lookup.flows.hit(flow) else {
                is_same = false;
                continue;
            };
            let flags = tcp_flags(&mut packet, Some(record), self.vlan_limit, &mut self.scratch);
            record.count(1, packet.view().len() as u64, flags, self.now);
            match plan {
                Plan::End(next) => is_same &= *end.get_or_insert(*next) == *next,
                Plan::Actions(_) => is_same = false,
            }
        }
        match end.filter(|_| is_same) {
            Some(end) => self.end(batch, end),
            None => self.act(batch, 0),
        }
    }

    /// Asks what to do with packets that have no flow.
    fn answer(&mut self, batch: &Batch, missing: u32, policy: CachePolicy) {
        let mut is_changed = false;
        for packet in bits(missing) {
            let key = &self.keys.keys[packet];
            let port = PortNumber(key.key().in_port.get());
            // An earlier packet of the batch may have brought the flow.
            if is_changed && let Some(flow) = self.lookup.find_one(port, key) {
                self.keys.flows[packet] = flow;
                self.counters().megaflow_hits.add(1);
                self.counters().subtables_visited.add(1);
                self.remember(packet, flow, policy);
                continue;
            }
            self.keys.flows[packet] = 0;
            if let Some(view) = batch.get(packet) {
                is_changed |= self.upcall(view, packet, policy);
            }
        }
    }

    /// Asks what to do with one packet; says whether a flow was installed.
    fn upcall(&mut self, view: PacketRef<'_>, packet: usize, policy: CachePolicy) -> bool {
        let start = cpu::cycles();
        let key = self.keys.keys[packet].key().clone();
        log::miss(&self.datapath, &key, self.vlan_limit);
        let answer = self.handler.miss(view, &key);
        let installed = match answer {
            Ok(answer) => {
                self.answers[packet] = Some(answer.actions);
                self.counters().upcalls.add(1);
                answer.install.map(|flow| self.install(key, flow.mask, flow.actions))
            }
            Err(_) => {
                self.counters().lost_upcalls.add(1);
                None
            }
        };
        if let Some(flow) = installed {
            self.remember(packet, flow, policy);
        }
        let spent = cpu::cycles().wrapping_sub(start);
        self.counters().upcall_cycles.add(spent);
        if let Some(metrics) = &mut self.metrics {
            metrics.upcall(spent);
        }
        installed.is_some()
    }

    /// Lets the caches know the flow of a packet for which there was none.
    fn remember(&mut self, packet: usize, flow: u32, policy: CachePolicy) {
        if self.keys.is_hashed {
            self.lookup.remember(self.keys.hashes[packet], flow, policy);
        }
    }

    /// Installs a flow, or gives the one that is there other actions; returns its number.
    fn install(&mut self, key: FlowKey, mask: FlowMask, actions: Arc<[Action]>) -> u32 {
        let mask = with_required(mask, &key);
        if let Some(number) = self.lookup.find_with(&key, &mask) {
            self.set_actions(number, actions);
            return number;
        }
        let ufid = flow_id(&key, &mask);
        self.insert(FlowRecord::new(ufid, self.id, key, mask, actions))
    }

    /// The record of a flow.
    pub(crate) fn record(&self, ufid: Ufid) -> Option<Arc<FlowRecord>> {
        Some(Arc::clone(self.index.get(&(self.id, ufid))?.value()))
    }

    /// Finds the flow that takes packets with this key.
    pub(crate) fn find_flow(&self, key: &FlowKey) -> Option<u32> {
        let port = PortNumber(key.in_port.get());
        self.lookup.find_one(port, &PacketKey::from(key.clone()))
    }

    /// Adds a flow and returns its number.
    pub(crate) fn insert(&mut self, record: FlowRecord) -> u32 {
        log::flow(&record, None);
        let record = Arc::new(record);
        self.index.insert((self.id, record.ufid()), Arc::clone(&record));
        let number = self.lookup.insert(Arc::clone(&record));
        record.set_number_on_thread(number);
        self.offload.added(&record);
        number
    }

    /// Gives a flow other actions.
    pub(crate) fn set_actions(&mut self, number: u32, actions: Arc<[Action]>) {
        if let Some(record) = self.lookup.flows.record(number) {
            let (record, old) = (Arc::clone(record), record.actions());
            self.lookup.set_actions(number, actions);
            log::flow(&record, Some(&old));
            self.offload.changed(&record);
        }
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(record) = self.lookup.remove(number) {
            self.index.remove(&(self.id, record.ufid()));
            self.offload.removed(&record);
        }
    }

    /// Removes every flow.
    pub(crate) fn remove_all(&mut self) {
        for record in self.lookup.clear() {
            self.index.remove(&(self.id, record.ufid()));
            self.offload.removed(&record);
        }
    }

    /// Forgets every packet and flow, after something went wrong in the middle of it.
    pub(crate) fn reset(&mut self) {
        self.recirculated.clear();
        self.metadata.clear();
        self.answers = [const { None }; BATCH_SIZE];
        self.remove_all();
    }

    /// Counts the packets of a batch in their flows. If these let all of them come to the same
    /// end, returns it.
    fn count(&self, batch: &Batch) -> Option<End> {
        let Keys { keys, flows, .. } = &self.keys;
        let (mut end, mut is_same) = (None, true);
        for ((packet, key), &flow) in batch.iter().zip(keys.iter()).zip(flows) {
            let Some((plan, record)) = self.lookup.flows.hit(flow) else {
                is_same = false;
                continue;
            };
            record.count(1, packet.len() as u64, key.key().tcp_flags.get(), self.now);
            match plan {
                Plan::End(next) => is_same &= *end.get_or_insert(*next) == *next,
                Plan::Actions(_) => is_same = false,
            }
        }
        end.filter(|_| is_same)
    }

    /// Does to the packets of a batch, in order, what their flows or the answers say.
    fn act(&mut self, batch: &mut Batch, depth: u32) {
        let count = batch.len();
        let mut drain = batch.drain();
        for place in 0..count.min(BATCH_SIZE) {
            let flow = self.keys.flows[place];
            let plan = self.lookup.flows.hit(flow).map(|(plan, _)| plan);
            let actions = match (plan, self.answers[place].take()) {
                (Some(Plan::End(End::Drop(reason))), None) => {
                    self.drops.add(*reason, 1);
                    drain.skip();
                    continue;
                }
                (Some(Plan::End(End::Output(port))), None) => {
                    let (port, counters) = (*port, self.statistics.counters());
                    self.transmit.push_next(port, &mut drain, counters, &mut self.drops);
                    continue;
                }
                (Some(Plan::Actions(actions)), None) => Arc::clone(actions),
                (_, Some(actions)) => actions,
                (None, None) => {
                    self.drops.add(DropReason::UpcallError, 1);
                    drain.skip();
                    continue;
                }
            };
            if let Some(packet) = drain.next_packet() {
                self.executor(depth).run(packet, &actions);
            }
        }
    }

    fn executor(&mut self, depth: u32) -> Executor<'_> {
        Executor {
            transmit: &mut self.transmit,
            counters: self.statistics.counters(),
            drops: &mut self.drops,
            meters: &self.meters,
            tunnels: &mut self.tunnels,
            metadata: &mut self.metadata,
            handler: &*self.handler,
            recirculated: &mut self.recirculated,
            scratch: &mut self.scratch,
            random: &mut self.random,
            vlan_limit: self.vlan_limit,
            seed: self.seed,
            now: self.now,
            depth,
            nesting: 0,
        }
    }
}

/// The TCP flags of a packet of a flow, as its key would have them. Packets that the flow says are
/// not TCP are not looked at.
#[inline]
fn tcp_flags(
    packet: &mut PacketMut<'_>,
    record: Option<&Arc<FlowRecord>>,
    vlan_limit: usize,
    scratch: &mut PacketKey,
) -> u16 {
    let is_known_other = record.is_some_and(|record| {
        record.mask().bits().ip_proto == u8::MAX && record.key().ip_proto != ip_protocol::TCP
    });
    if is_known_other {
        return 0;
    }
    if let Some((_, flags)) = SimpleKey::of_packet(&packet.view()) {
        return flags;
    }
    extract(packet, None, vlan_limit, scratch);
    scratch.key().tcp_flags.get()
}

/// Drops frames that are too short to be one.
fn drop_short_frames(batch: &mut Batch, drops: &mut Drops) {
    let is_short =
        |packet: &PacketRef<'_>| packet.len() < ETHERNET_HEADER && packet.descriptor().l3_type == 0;
    if !batch.iter().any(|packet| is_short(&packet)) {
        return;
    }
    for place in (0..batch.len()).rev() {
        if batch.get(place).is_some_and(|packet| is_short(&packet)) {
            batch.remove(place);
            drops.add(DropReason::InvalidPacket, 1);
        }
    }
}

/// `mask` with what every flow looks at: the port, the recirculation, and whether there is a VLAN
/// tag.
pub(crate) fn with_required(mask: FlowMask, key: &FlowKey) -> FlowMask {
    let bits = mask.bits();
    let lacks_tag = key.is_ethernet() && bits.vlans[0].tci.get() == 0;
    if bits.in_port.get() == u32::MAX && bits.recirc_id.get() == u32::MAX && !lacks_tag {
        return mask;
    }
    let mut bits = bits.clone();
    bits.in_port.set(u32::MAX);
    bits.recirc_id.set(u32::MAX);
    if lacks_tag {
        bits.vlans[0].tci.set(vlan::CFI | vlan::VID_MASK);
    }
    FlowMask::new(bits)
}

/// The name of a flow for which nobody chose one: a hash over what it takes.
pub(crate) fn flow_id(key: &FlowKey, mask: &FlowMask) -> Ufid {
    let whole = FlowMask::new(mask.bits().clone());
    let part = |seed: u64| {
        let (of_key, of_mask) = (mask.hash(key, seed), whole.hash(mask.bits(), !seed));
        u128::from(of_key ^ of_mask.rotate_left(16))
    };
    Ufid(part(1) << 96 | part(2) << 64 | part(3) << 32 | part(4))
}

#[cfg(test)]
mod bench;
#[cfg(test)]
mod traffic;
