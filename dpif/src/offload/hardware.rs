//! Ports whose devices have a flow API: megaflows become rules of tables by their masks.

use std::collections::HashMap;
use std::sync::Arc;

use netdev::flow_api::{
    ActionKinds, Capabilities, Completion, Edit, Fate, FlowApiError, FlowDevice, FlowQueue,
    HeaderFields, ModifyStyle, RuleActions, RuleCounters, RuleId, TableId, Template,
};
use netdev::wire::vlan;

use super::pattern::{Pattern, pattern, pattern_inside};
use super::provider::{Devices, Extent, Offer, ProviderPort, TunnelEnd, TunnelEnds};
use super::reason::Reason;
use crate::action::Action;
use crate::datapath::PortNumber;
use crate::flow_table::FlowRecord;

/// Most rules of a table.
const TABLE_CAPACITY: u32 = 1 << 22;

/// See the [module](self).
pub(crate) struct HardwarePort {
    device: Arc<dyn FlowDevice>,
    queue: FlowQueue,
    capabilities: Capabilities,
    /// Tables by group and the words of their mask.
    tables: HashMap<(u32, HeaderWords), TableId>,
}

/// The group whose rules packets out of tunnels are matched against.
const INSIDE: u32 = 1;

/// What a rule for a flow takes, and where.
struct Place {
    group: u32,
    pattern: Pattern,
}

type HeaderWords = [u64; netdev::flow_api::HEADER_WORDS];

impl HardwarePort {
    /// Opens a queue of a device.
    ///
    /// # Errors
    /// When it has none left.
    pub(crate) fn open(device: Arc<dyn FlowDevice>, depth: usize) -> Result<Self, FlowApiError> {
        let queue = device.open_queue(depth)?;
        let capabilities = device.capabilities();
        Ok(Self { device, queue, capabilities, tables: HashMap::new() })
    }

    /// The table for rules with this mask.
    fn table(&mut self, group: u32, mask: &HeaderFields) -> Result<TableId, FlowApiError> {
        if let Some(table) = self.tables.get(&(group, *mask.words())) {
            return Ok(*table);
        }
        let all = self.device.actions();
        let used = ActionKinds::MARK
            | ActionKinds::COUNT
            | ActionKinds::DROP
            | ActionKinds::PORT
            | ActionKinds::EDIT
            | ActionKinds::DECAPSULATE
            | ActionKinds::JUMP;
        let template = Template {
            group,
            priority: 0,
            mask: *mask,
            actions: used & all,
            capacity: TABLE_CAPACITY,
        };
        let table = self.device.create_table(&template)?;
        self.tables.insert((group, *mask.words()), table);
        Ok(table)
    }
}

/// The tunnel that packets come through, if the flow is one of a tunnel port.
fn tunnel_of(flow: &FlowRecord, tunnels: &TunnelEnds) -> Option<TunnelEnd> {
    tunnels.get(&PortNumber(flow.key().in_port.get())).copied()
}

/// The tunnel that actions take packets out of, if that is all that they do.
fn popped(actions: &[Action], tunnels: &TunnelEnds) -> Option<TunnelEnd> {
    match actions {
        [Action::TunnelPop(port)] => tunnels.get(&PortNumber(*port)).copied(),
        _ => None,
    }
}

/// Where the rule of a flow goes.
fn place(flow: &FlowRecord, actions: &[Action], tunnels: &TunnelEnds) -> Result<Place, Reason> {
    if let Some(end) = tunnel_of(flow, tunnels) {
        return Ok(Place { group: INSIDE, pattern: pattern_inside(flow.key(), flow.mask(), end)? });
    }
    let mut pattern = pattern(flow.key(), flow.mask())?;
    if let Some(end) = popped(actions, tunnels) {
        // Software drops what is no packet of the tunnel.
        pattern.mask.tunnel.kind = u8::MAX;
        pattern.values.tunnel.kind = end.kind as u8;
    }
    Ok(Place { group: 0, pattern })
}

/// The fate and the changes that stand for actions, where hardware can do them all.
fn full(
    actions: &[Action],
    in_port: PortNumber,
    devices: &Devices,
    tunnels: &TunnelEnds,
) -> Option<(Fate, Option<Arc<[Edit]>>)> {
    if let Some(end) = popped(actions, tunnels) {
        return Some((Fate::Jump(INSIDE), Some([Edit::Decapsulate(end.kind)].into())));
    }
    let Some((last, before)) = actions.split_last() else { return Some((Fate::Drop, None)) };
    let fate = match last {
        Action::Output(port) if PortNumber(*port) != in_port => {
            Fate::Port(*devices.get(&PortNumber(*port))?)
        }
        _ => return None,
    };
    let edits = before.iter().map(|action| match action {
        Action::PushVlan { tpid, tci } => {
            Some(Edit::PushVlan { tpid: *tpid, tci: tci & !vlan::CFI })
        }
        Action::PopVlan => Some(Edit::PopVlan),
        _ => None,
    });
    let edits = edits.collect::<Option<Vec<_>>>()?;
    Some((fate, (!edits.is_empty()).then(|| edits.into())))
}

fn rule_actions(offer: Offer<'_>) -> RuleActions {
    let in_port = PortNumber(offer.flow.key().in_port.get());
    match (offer.extent, full(offer.actions, in_port, offer.devices, offer.tunnels)) {
        (Extent::Full, Some((fate, edits))) => {
            RuleActions { edits, count: true, fate, ..RuleActions::default() }
        }
        // Software counts what it gets.
        _ => RuleActions { mark: Some(offer.mark), ..RuleActions::default() },
    }
}

impl ProviderPort for HardwarePort {
    fn extent(
        &self,
        flow: &FlowRecord,
        actions: &[Action],
        devices: &Devices,
        tunnels: &TunnelEnds,
    ) -> Result<Extent, Reason> {
        place(flow, actions, tunnels)?;
        let in_port = PortNumber(flow.key().in_port.get());
        let can = match (tunnel_of(flow, tunnels), popped(actions, tunnels)) {
            // What is inside a tunnel leaves by software, which has to know the tunnel.
            (Some(_), _) => false,
            (None, Some(_)) => self.restores(),
            (None, None) => self.capabilities.contains(Capabilities::FULL),
        };
        if can && full(actions, in_port, devices, tunnels).is_some() {
            Ok(Extent::Full)
        } else if self.capabilities.contains(Capabilities::MARK) {
            Ok(Extent::Partial)
        } else {
            Err(Reason::Actions)
        }
    }

    fn restores(&self) -> bool {
        self.capabilities.contains(Capabilities::RESTORE)
    }

    fn insert(&mut self, offer: Offer<'_>, user: u64) -> Result<RuleId, FlowApiError> {
        let place = place(offer.flow, offer.actions, offer.tunnels);
        let Place { group, pattern } = place.map_err(|_| FlowApiError::Unsupported)?;
        let table = self.table(group, &pattern.mask)?;
        self.queue.insert(table, &pattern.values, rule_actions(offer), user)
    }

    fn update(&mut self, rule: RuleId, offer: Offer<'_>, user: u64) -> Result<(), FlowApiError> {
        self.queue.update(rule, rule_actions(offer), user)
    }

    fn update_resets(&self) -> bool {
        self.device.modify_style() == ModifyStyle::BreakBeforeMake
    }

    fn remove(&mut self, rule: RuleId, user: u64) -> Result<(), FlowApiError> {
        self.queue.remove(rule, user)
    }

    fn push(&mut self) {
        self.queue.push();
    }

    fn pull(&mut self, completions: &mut [Completion]) -> usize {
        self.queue.pull(completions)
    }

    fn forget_one(&mut self) {
        self.queue.forget(1);
    }

    fn query(&mut self, rule: RuleId) -> Result<RuleCounters, FlowApiError> {
        self.queue.query(rule, false)
    }
}
