//! Ports whose devices have a flow API: megaflows become rules of tables by their masks.

use std::collections::HashMap;
use std::sync::Arc;

use netdev::flow_api::{
    ActionKinds, Capabilities, Completion, Edit, Fate, FlowApiError, FlowDevice, FlowQueue,
    HeaderFields, ModifyStyle, RuleActions, RuleCounters, RuleId, TableId, Template,
};
use netdev::wire::vlan;

use super::pattern::{Pattern, pattern};
use super::provider::{Devices, Extent, Offer, ProviderPort};
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
    /// Tables by the words of their mask.
    tables: HashMap<HeaderWords, TableId>,
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
    fn table(&mut self, mask: &HeaderFields) -> Result<TableId, FlowApiError> {
        if let Some(table) = self.tables.get(mask.words()) {
            return Ok(*table);
        }
        let all = self.device.actions();
        let used = ActionKinds::MARK
            | ActionKinds::COUNT
            | ActionKinds::DROP
            | ActionKinds::PORT
            | ActionKinds::EDIT;
        let template = Template {
            group: 0,
            priority: 0,
            mask: *mask,
            actions: used & all,
            capacity: TABLE_CAPACITY,
        };
        let table = self.device.create_table(&template)?;
        self.tables.insert(*mask.words(), table);
        Ok(table)
    }
}

/// The fate and the changes that stand for actions, where hardware can do them all.
fn full(
    actions: &[Action],
    in_port: PortNumber,
    devices: &Devices,
) -> Option<(Fate, Option<Arc<[Edit]>>)> {
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
    match (offer.extent, full(offer.actions, in_port, offer.devices)) {
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
    ) -> Result<Extent, Reason> {
        pattern(flow.key(), flow.mask())?;
        let in_port = PortNumber(flow.key().in_port.get());
        if self.capabilities.contains(Capabilities::FULL)
            && full(actions, in_port, devices).is_some()
        {
            Ok(Extent::Full)
        } else if self.capabilities.contains(Capabilities::MARK) {
            Ok(Extent::Partial)
        } else {
            Err(Reason::Actions)
        }
    }

    fn insert(&mut self, offer: Offer<'_>, user: u64) -> Result<RuleId, FlowApiError> {
        let Pattern { values, mask } =
            pattern(offer.flow.key(), offer.flow.mask()).map_err(|_| FlowApiError::Unsupported)?;
        let table = self.table(&mask)?;
        self.queue.insert(table, &values, rule_actions(offer), user)
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
