//! A queue of a software NIC as its owner uses it: requests collect here until the bell rings.

use std::sync::Arc;

use super::engine::{Request, Work};
use super::nic::Nic;
use super::table::{Key, Place};
use crate::clock;
use crate::flow_api::{
    Completion, FlowApiError, HeaderFields, KeyWords, RuleActions, RuleCounters, RuleError, RuleId,
    RuleQueue, TableId,
};

/// A slot for a rule, and how often it was used.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u32,
    generation: u16,
}

impl Slot {
    fn id(self, queue: u16) -> RuleId {
        let (queue, generation) = (u64::from(queue), u64::from(self.generation));
        RuleId(queue << 48 | generation << 32 | u64::from(self.number))
    }

    fn of(rule: RuleId) -> Self {
        Self { number: rule.0 as u32, generation: (rule.0 >> 32) as u16 }
    }
}

/// What is known of a table.
#[derive(Debug)]
struct KnownTable {
    words: KeyWords,
    actions: crate::flow_api::ActionKinds,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SimRuleQueue {
    nic: Arc<Nic>,
    number: u16,
    staged: Vec<Request>,
    free: Vec<u32>,
    /// How often each slot was used before.
    generations: Vec<u16>,
    tables: Vec<Option<KnownTable>>,
}

impl SimRuleQueue {
    pub(super) fn open(nic: &Arc<Nic>) -> Result<Self, FlowApiError> {
        let number = nic.engine().open_queue()?;
        Ok(Self {
            nic: Arc::clone(nic),
            number,
            staged: vec![],
            free: vec![],
            generations: vec![],
            tables: vec![],
        })
    }

    /// Takes a slot for a new rule.
    fn take_slot(&mut self) -> Slot {
        let number = self.free.pop().unwrap_or_else(|| {
            self.generations.push(0);
            self.generations.len() as u32 - 1
        });
        let generation = self.generations.get(number as usize).copied().unwrap_or(0);
        Slot { number, generation }
    }

    fn give_back(&mut self, number: u32) {
        if let Some(generation) = self.generations.get_mut(number as usize) {
            *generation = generation.wrapping_add(1);
            self.free.push(number);
        }
    }

    /// Looks up a table the first time that it is used.
    fn learn_table(&mut self, table: TableId) -> Result<(), FlowApiError> {
        let index = table.0 as usize;
        if self.tables.get(index).is_some_and(Option::is_some) {
            return Ok(());
        }
        let engine = self.nic.engine();
        let known = engine.table(table).ok_or(FlowApiError::NoTable(table))?;
        let (words, actions) = (known.words.clone(), known.template.actions);
        drop(engine);
        if index >= self.tables.len() {
            self.tables.resize_with(index + 1, || None);
        }
        if let Some(place) = self.tables.get_mut(index) {
            *place = Some(KnownTable { words, actions });
        }
        Ok(())
    }

    fn stage(&mut self, rule: RuleId, user: u64, work: Work) {
        let Slot { number, generation } = Slot::of(rule);
        self.staged.push(Request { slot: number, generation, user, work });
    }
}

impl RuleQueue for SimRuleQueue {
    fn insert(
        &mut self,
        table: TableId,
        values: &HeaderFields,
        actions: RuleActions,
        user: u64,
    ) -> Result<RuleId, FlowApiError> {
        self.learn_table(table)?;
        let known = self.tables.get(table.0 as usize).and_then(Option::as_ref);
        let known = known.ok_or(FlowApiError::NoTable(table))?;
        let kinds = actions.kinds();
        if !known.actions.contains(kinds) {
            return Err(FlowApiError::Actions { actions: kinds, allowed: known.actions });
        }
        let key = Key::new(&known.words, values);
        if self.nic.is_full(self.staged.len()) {
            return Err(FlowApiError::Rule(RuleError::TableFull));
        }
        let slot = self.take_slot();
        let rule = slot.id(self.number);
        self.stage(rule, user, Work::insert(table, key, actions));
        Ok(rule)
    }

    fn update(
        &mut self,
        rule: RuleId,
        actions: RuleActions,
        user: u64,
    ) -> Result<(), FlowApiError> {
        self.stage(rule, user, Work::Update { actions });
        Ok(())
    }

    fn remove(&mut self, rule: RuleId, user: u64) -> Result<(), FlowApiError> {
        self.stage(rule, user, Work::Remove);
        Ok(())
    }

    fn push(&mut self) {
        let mut engine = self.nic.engine();
        engine.accept(self.number, &mut self.staged, clock::now());
    }

    fn pull(&mut self, completions: &mut [Completion]) -> usize {
        let now = clock::now();
        let nic = Arc::clone(&self.nic);
        let mut engine = nic.engine();
        engine.advance(now);
        engine.pull(self.number, now, completions, |slot| self.give_back(slot))
    }

    fn query(&mut self, rule: RuleId, reset: bool) -> Result<RuleCounters, FlowApiError> {
        let Slot { number, generation } = Slot::of(rule);
        let place = Place { queue: self.number, slot: number };
        self.nic.engine().query(place, generation, reset, clock::now())
    }
}

impl Drop for SimRuleQueue {
    fn drop(&mut self) {
        self.nic.engine().close_queue(self.number);
    }
}
