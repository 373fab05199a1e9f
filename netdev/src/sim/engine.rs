//! The part of a device that has rules: carries out requests, matches packets.

use std::collections::VecDeque;
use std::time::Duration;

use super::audit::{Audit, Event};
use super::fault::{Faults, Random};
use super::frame;
use super::options::{Restore, RuleOptions};
use super::table::{Key, Place, Rule, Table, begin_update};
use crate::flow_api::{
    Completion, DeviceId, Edit, Fate, FlowApiError, HeaderFields, Parsed, RestoreInfo, RuleActions,
    RuleCounters, RuleError, TableId, Template,
};

/// How much later than others a result comes that is late.
const LATE: Duration = Duration::from_millis(100);
/// Most tables of a device.
const MAX_TABLES: usize = 4096;
/// How many requests ahead the memory is asked for what a request needs.
const PREFETCH: usize = 16;
/// Most groups that a packet passes.
const MAX_JUMPS: usize = 8;

/// What is to be done to a rule.
#[derive(Debug)]
pub(super) enum Work {
    Insert { table: TableId, key: Key, hash: u64, actions: RuleActions },
    Update { actions: RuleActions },
    Remove,
}

impl Work {
    /// The insertion of a rule.
    pub(super) fn insert(table: TableId, key: Key, actions: RuleActions) -> Self {
        let hash = key.hash();
        Self::Insert { table, key, hash, actions }
    }
}

/// A request as it lies in a queue.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) slot: u32,
    pub(super) generation: u16,
    pub(super) user: u64,
    pub(super) work: Work,
}

#[derive(Debug)]
struct Pending {
    request: Request,
    due: Duration,
}

/// A result, and the slot that may be used again once it has been pulled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) completion: Completion,
    pub(super) frees: Option<u32>,
    /// The slot of a rule whose insertion this completes.
    inserted: Option<u32>,
    due: Duration,
}

/// One queue as the device sees it.
#[derive(Debug, Default)]
struct QueueState {
    rules: Vec<Rule>,
    pending: VecDeque<Pending>,
    done: VecDeque<Done>,
    late: Vec<Done>,
    busy_until: Duration,
}

impl QueueState {
    /// From here on requests about the rule in a slot are in order.
    fn complete(&mut self, slot: Option<u32>) {
        if let Some(rule) = slot.and_then(|slot| self.rules.get_mut(slot as usize)) {
            rule.is_complete = true;
        }
    }
}

/// What becomes of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// It goes to software, on this queue or the one that its hash picks.
    Software(Option<u16>),
    /// It goes nowhere.
    Drop,
    /// It leaves by the wire of this port.
    Port(DeviceId),
}

/// What a device did to a packet.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) exit: Exit,
    pub(super) mark: u32,
    /// The last rule that it matched.
    pub(super) place: Option<Place>,
    /// Its bytes, where they changed.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) restore: Option<RestoreInfo>,
}

impl Outcome {
    fn miss() -> Self {
        Self { exit: Exit::Software(None), mark: 0, place: None, bytes: None, restore: None }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) options: RuleOptions,
    pub(super) faults: Faults,
    pub(super) audit: Audit,
    /// Whether the device is gone.
    pub(super) is_removed: bool,
    random: Random,
    tables: Vec<Table>,
    /// Tables in the order in which they are asked: by group, then priority.
    order: Vec<(u32, u32, TableId)>,
    queues: Vec<Option<QueueState>>,
    rules: usize,
    /// Grows whenever packets may match otherwise than before.
    version: u64,
}

impl Engine {
    pub(super) fn new(options: RuleOptions) -> Self {
        let random = Random::new(options.seed);
        Self {
            options,
            faults: Faults::default(),
            audit: Audit::default(),
            is_removed: false,
            random,
            tables: vec![],
            order: vec![],
            queues: vec![],
            rules: 0,
            version: 0,
        }
    }

    pub(super) fn set_options(&mut self, options: RuleOptions) {
        self.random = Random::new(options.seed);
        self.options = options;
        self.version += 1;
    }

    pub(super) fn rules(&self) -> usize {
        self.rules
    }

    /// A number that stays the same while equal packets are treated alike.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Whether rules are between two states, so that equal packets may be treated differently.
    fn is_settled(&self, rule: &Rule) -> bool {
        rule.extra.as_ref().is_none_or(|extra| extra.previous.is_none() && extra.gap.is_none())
    }

    pub(super) fn create_table(&mut self, template: &Template) -> Result<TableId, FlowApiError> {
        if self.is_removed {
            return Err(FlowApiError::Removed);
        }
        if self.tables.len() >= MAX_TABLES {
            return Err(FlowApiError::TooManyTables(MAX_TABLES));
        }
        let id = TableId(self.tables.len() as u32);
        self.tables.push(Table::new(template));
        self.order.push((template.group, template.priority, id));
        self.order.sort_by_key(|(group, priority, id)| (*group, *priority, id.0));
        Ok(id)
    }

    /// The table, for a queue that wants to put rules into it.
    pub(super) fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.get(id.0 as usize)
    }

    pub(super) fn open_queue(&mut self) -> Result<u16, FlowApiError> {
        if self.is_removed {
            return Err(FlowApiError::Removed);
        }
        let free = self.queues.iter().position(Option::is_none);
        let index = free.unwrap_or(self.queues.len());
        let number = u16::try_from(index).map_err(|_| FlowApiError::Unsupported)?;
        if index == self.queues.len() {
            self.queues.push(None);
        }
        if let Some(place) = self.queues.get_mut(index) {
            *place = Some(QueueState::default());
        }
        Ok(number)
    }

    /// Closes a queue; its rules go.
    pub(super) fn close_queue(&mut self, number: u16) {
        let Some(state) = self.queues.get_mut(usize::from(number)).and_then(Option::take) else {
            return;
        };
        for (slot, rule) in (0..).zip(&state.rules).filter(|(_, rule)| rule.is_installed) {
            let place = Place { queue: number, slot };
            if let Some(table) = self.tables.get_mut(rule.table.0 as usize) {
                table.remove(rule.hash, place);
                self.rules -= 1;
                self.audit.record(Event::Removed { user: rule.user });
            }
        }
        self.version += 1;
    }

    /// Loses every rule, as a port does that stops. Nobody is told.
    pub(super) fn lose_rules(&mut self) {
        self.tables.iter_mut().for_each(Table::clear);
        let queues = self.queues.iter_mut().flatten();
        for rule in queues.flat_map(|queue| &mut queue.rules).filter(|rule| rule.is_installed) {
            rule.is_installed = false;
            self.audit.record(Event::Removed { user: rule.user });
        }
        self.rules = 0;
        self.version += 1;
    }

    fn latency(&mut self, work: &Work) -> Duration {
        let latency = match work {
            Work::Remove => self.options.remove_latency,
            _ => self.options.insert_latency,
        };
        let jitter = u64::from(self.options.jitter);
        if latency.is_zero() || jitter == 0 {
            return latency;
        }
        let per_cent = 100 + self.random.below(jitter + 1) as u32;
        latency * per_cent / 100
    }

    /// Takes the requests that a queue rings the bell for.
    pub(super) fn accept(&mut self, number: u16, requests: &mut Vec<Request>, now: Duration) {
        let is_immediate = self.faults.stuck == 0 && self.options.reorder == 1;
        let bell = self.options.push_latency;
        let Some(queue) = self.queue(number) else { return };
        queue.busy_until = queue.busy_until.max(now) + bell;
        let mut requests = requests.drain(..);
        while let Some(request) = requests.next() {
            if let Some(later) = requests.as_slice().get(PREFETCH) {
                self.prefetch(number, later);
            }
            let latency = self.latency(&request.work);
            if !matches!(request.work, Work::Insert { .. }) && self.is_early(number, &request) {
                self.audit.totals.caller_bugs += 1;
            }
            let Some(queue) = self.queue(number) else { return };
            queue.busy_until += latency;
            let due = queue.busy_until;
            if is_immediate && due <= now && queue.pending.is_empty() {
                self.execute(number, request, now);
            } else {
                queue.pending.push_back(Pending { request, due });
            }
        }
        self.advance(now);
    }

    /// Asks for what a request will need.
    fn prefetch(&self, number: u16, request: &Request) {
        let place = Place { queue: number, slot: request.slot };
        let (table, hash) = match (&request.work, rule_at(&self.queues, place)) {
            (Work::Insert { table, hash, .. }, _) => (*table, *hash),
            (Work::Remove, Some(rule)) => (rule.table, rule.hash),
            _ => return,
        };
        if let Some(table) = self.table(table) {
            table.prefetch(hash);
        }
    }

    /// Whether the insertion of the rule that a request is about has not been completed yet.
    fn is_early(&self, number: u16, request: &Request) -> bool {
        let Some(queue) = self.queues.get(usize::from(number)).and_then(Option::as_ref) else {
            return false;
        };
        let rule = queue.rules.get(request.slot as usize);
        match rule.filter(|rule| rule.generation == request.generation && rule.is_installed) {
            Some(rule) => !rule.is_complete,
            None => queue.pending.iter().any(|pending| {
                let Request { slot, generation, work, .. } = &pending.request;
                matches!(work, Work::Insert { .. })
                    && (*slot, *generation) == (request.slot, request.generation)
            }),
        }
    }

    fn queue(&mut self, number: u16) -> Option<&mut QueueState> {
        self.queues.get_mut(usize::from(number))?.as_mut()
    }

    /// Carries out what is due.
    pub(super) fn advance(&mut self, now: Duration) {
        if self.faults.stuck > 0 {
            return;
        }
        for number in 0..self.queues.len() as u16 {
            while let Some(request) = self.next_due(number, now) {
                self.execute(number, request, now);
            }
        }
    }

    /// The next request of a queue that is due: one of the first few, at random.
    fn next_due(&mut self, number: u16, now: Duration) -> Option<Request> {
        let reorder = self.options.reorder;
        let queue = self.queue(number)?;
        let candidates = queue.pending.iter().take(reorder);
        let due = candidates.take_while(|pending| pending.due <= now).count();
        let picked = match due {
            0 => return None,
            1 => 0,
            _ => self.random.below(due as u64) as usize,
        };
        Some(self.queue(number)?.pending.remove(picked)?.request)
    }

    fn execute(&mut self, number: u16, request: Request, now: Duration) {
        let Request { slot, generation, user, work } = request;
        let place = Place { queue: number, slot };
        let is_insert = matches!(work, Work::Insert { .. });
        let is_removal = matches!(work, Work::Remove);
        let error = match &work {
            Work::Insert { .. } => self.faults.insert_error,
            Work::Update { .. } => self.faults.update_error,
            Work::Remove => self.faults.remove_error,
        };
        let result = if self.is_removed {
            Err(RuleError::Removed)
        } else if self.random.happens(error) {
            Err(RuleError::Hardware)
        } else {
            match work {
                Work::Insert { table, key, hash, actions } => {
                    let is_installed = true;
                    let rule = Rule {
                        key,
                        hash,
                        actions,
                        table,
                        generation,
                        is_installed,
                        user,
                        ..Rule::free()
                    };
                    self.insert(place, rule)
                }
                Work::Update { actions } => self.update(place, generation, actions, now),
                Work::Remove => self.remove(place, generation),
            }
        };
        self.version += 1;
        self.audit.totals.failed += u64::from(result.is_err());
        let is_over =
            (is_removal && result != Err(RuleError::Hardware)) || (is_insert && result.is_err());
        let done = Done {
            completion: Completion { user, result },
            frees: is_over.then_some(slot),
            inserted: (is_insert && result.is_ok()).then_some(slot),
            due: now,
        };
        self.finish(number, done, now);
    }

    /// Gives a result, as far as the device does.
    fn finish(&mut self, number: u16, done: Done, now: Duration) {
        let faults = self.faults;
        if self.random.happens(faults.lost) {
            self.audit.totals.lost += 1;
            if let Some(queue) = self.queue(number) {
                // There is nothing that the caller could wait for.
                queue.complete(done.inserted);
            }
            return;
        }
        let is_late = self.random.happens(faults.late);
        let is_doubled = self.random.happens(faults.duplicate);
        self.audit.totals.duplicated += u64::from(is_doubled);
        let Some(queue) = self.queue(number) else { return };
        if is_doubled {
            queue.done.push_back(Done { frees: None, ..done });
        }
        if is_late {
            queue.late.push(Done { due: now + LATE, ..done });
        } else {
            queue.done.push_back(done);
        }
    }

    fn insert(&mut self, place: Place, rule: Rule) -> Result<(), RuleError> {
        if self.rules >= self.options.capacity {
            return Err(RuleError::TableFull);
        }
        let Self { tables, queues, .. } = self;
        let table = tables.get_mut(rule.table.0 as usize).ok_or(RuleError::NotFound)?;
        let key_of = |place| Some(&rule_at(queues, place)?.key);
        table.insert(&rule.key, rule.hash, place, key_of)?;
        self.audit.record(Event::Inserted { user: rule.user });
        let queue = self.queue(place.queue).ok_or(RuleError::NotFound)?;
        let index = place.slot as usize;
        if index >= queue.rules.len() {
            queue.rules.resize_with(index + 1, Rule::free);
        }
        *queue.rules.get_mut(index).ok_or(RuleError::NotFound)? = rule;
        self.rules += 1;
        self.audit.totals.inserted += 1;
        Ok(())
    }

    /// The rule that a request is about, if it is there and may be asked for.
    fn named(&mut self, place: Place, generation: u16) -> Option<&mut Rule> {
        let rule = self.queue(place.queue)?.rules.get_mut(place.slot as usize);
        let rule = rule.filter(|rule| rule.generation == generation && rule.is_installed)?;
        Some(rule)
    }

    fn update(
        &mut self,
        place: Place,
        generation: u16,
        actions: RuleActions,
        now: Duration,
    ) -> Result<(), RuleError> {
        let (style, latency) = (self.options.modify, self.options.insert_latency);
        let Some(rule) = self.named(place, generation) else {
            return Err(RuleError::NotFound);
        };
        begin_update(rule, actions, style, now, latency);
        self.audit.totals.updated += 1;
        Ok(())
    }

    fn remove(&mut self, place: Place, generation: u16) -> Result<(), RuleError> {
        let Some(rule) = self.named(place, generation) else {
            return Err(RuleError::NotFound);
        };
        rule.is_installed = false;
        let (table, hash, user) = (rule.table, rule.hash, rule.user);
        if let Some(table) = self.tables.get_mut(table.0 as usize) {
            table.remove(hash, place);
        }
        self.rules -= 1;
        self.audit.totals.removed += 1;
        self.audit.record(Event::Removed { user });
        Ok(())
    }

    /// Puts results for a queue into `completions`, and slots that may be used again into `free`.
    /// Returns how many results there were.
    pub(super) fn pull(
        &mut self,
        number: u16,
        now: Duration,
        completions: &mut [Completion],
        mut free: impl FnMut(u32),
    ) -> usize {
        let Some(queue) = self.queue(number) else { return 0 };
        let mut pulled = 0;
        for completion in completions {
            let done = queue.done.pop_front().or_else(|| {
                let late = queue.late.iter().position(|done| done.due <= now)?;
                Some(queue.late.swap_remove(late))
            });
            let Some(done) = done else { break };
            queue.complete(done.inserted);
            done.frees.into_iter().for_each(&mut free);
            *completion = done.completion;
            pulled += 1;
        }
        pulled
    }

    /// What a rule has counted.
    pub(super) fn query(
        &mut self,
        place: Place,
        generation: u16,
        reset: bool,
        now: Duration,
    ) -> Result<RuleCounters, FlowApiError> {
        if self.is_removed {
            return Err(FlowApiError::Removed);
        }
        let lag = self.options.counter_lag;
        let Some(rule) = self.named(place, generation) else {
            return Err(FlowApiError::Rule(RuleError::NotFound));
        };
        let (packets, bytes) = refresh(rule, lag, now).unwrap_or((rule.packets, rule.bytes));
        if reset {
            (rule.packets, rule.bytes) = (0, 0);
            if let Some(extra) = &mut rule.extra {
                extra.visible = (0, 0);
            }
        }
        Ok(RuleCounters { packets, bytes })
    }

    /// Adds the user data of rules that have had no packet for their time.
    pub(super) fn pull_aged(&mut self, aged: &mut Vec<u64>, now: Duration) {
        let rules = self.queues.iter_mut().flatten().flat_map(|queue| &mut queue.rules);
        for rule in rules.filter(|rule| rule.is_installed && rule.actions.age > 0) {
            let limit = Duration::from_secs(rule.actions.age.into());
            let user = rule.user;
            let extra = rule.extra();
            if !extra.is_aged && now.saturating_sub(extra.used) >= limit {
                extra.is_aged = true;
                aged.push(user);
            }
        }
    }

    /// Whether a packet that was treated like this a moment ago, and is treated alike as long as
    /// the version stays, needs no look at its bytes.
    pub(super) fn is_plain(&self, outcome: &Outcome) -> bool {
        let rule = outcome.place.and_then(|place| rule_at(&self.queues, place));
        matches!(outcome.exit, Exit::Software(_))
            && outcome.bytes.is_none()
            && outcome.restore.is_none()
            && rule.is_none_or(|rule| self.is_settled(rule))
    }

    /// Counts a packet again that matched a rule before.
    pub(super) fn count_again(
        &mut self,
        place: Option<Place>,
        mark: u32,
        bytes: usize,
        now: Duration,
    ) {
        let Some(place) = place else {
            self.audit.totals.missed += 1;
            return;
        };
        self.count(place, mark, bytes, now);
    }

    fn count(&mut self, place: Place, mark: u32, bytes: usize, now: Duration) {
        let (lag, bits) = (self.options.counter_lag, self.options.counter_bits);
        self.audit.totals.matched += 1;
        let queue = self.queues.get_mut(usize::from(place.queue)).and_then(Option::as_mut);
        let rule = queue.and_then(|queue| queue.rules.get_mut(place.slot as usize));
        let Some(rule) = rule else { return };
        if rule.actions.count {
            refresh(rule, lag, now);
            let most = u64::MAX >> (64 - bits);
            rule.packets = rule.packets.saturating_add(1).min(most);
            rule.bytes = rule.bytes.saturating_add(bytes as u64).min(most);
        }
        if rule.actions.age > 0 {
            let extra = rule.extra();
            (extra.used, extra.is_aged) = (now, false);
        }
        if mark != 0 {
            let user = rule.user;
            self.audit.record(Event::Marked { mark, user });
        }
    }

    /// Runs one packet through the rules.
    pub(super) fn process(
        &mut self,
        packet: &[u8],
        parsed: Option<&Parsed>,
        now: Duration,
    ) -> Outcome {
        let mut outcome = Outcome::miss();
        let Some(parsed) = parsed.filter(|_| self.rules > 0 && !self.is_removed) else {
            self.audit.totals.missed += 1;
            return outcome;
        };
        let (mut group, mut is_inside) = (0, false);
        for _ in 0..MAX_JUMPS {
            let Some((place, actions)) = self.find(group, &parsed.fields, now) else { break };
            outcome.place = Some(place);
            outcome.mark = actions.mark.map_or(outcome.mark, std::num::NonZeroU32::get);
            self.count(place, outcome.mark, packet.len(), now);
            for edit in actions.edits.iter().flat_map(|edits| edits.iter()) {
                let bytes = outcome.bytes.get_or_insert_with(|| packet.to_vec());
                frame::edit(bytes, edit, parsed.inner_start..parsed.inner_end);
                is_inside |= matches!(edit, Edit::Decapsulate(_));
            }
            match actions.fate {
                Fate::Software | Fate::Queue(_) => {
                    if let Fate::Queue(queue) = actions.fate {
                        outcome.exit = Exit::Software(Some(queue));
                    }
                    if is_inside {
                        self.tell(&mut outcome, parsed);
                    }
                    return outcome;
                }
                Fate::Drop => {
                    self.audit.totals.dropped += 1;
                    outcome.exit = Exit::Drop;
                    return outcome;
                }
                Fate::Port(device) => {
                    self.audit.totals.forwarded += 1;
                    outcome.exit = Exit::Port(device);
                    return outcome;
                }
                Fate::Jump(to) => group = to,
            }
        }
        if outcome.place.is_none() {
            self.audit.totals.missed += 1;
        } else {
            self.tell(&mut outcome, parsed);
        }
        outcome
    }

    /// A packet that some rule has begun to change goes to software: with word of how far the device
    /// got, or as it came.
    fn tell(&mut self, outcome: &mut Outcome, parsed: &Parsed) {
        let is_inside = self.options.restore == Restore::Inner;
        outcome.bytes.take_if(|_| !is_inside);
        if self.options.restore == Restore::None || parsed.inner_start == 0 {
            return;
        }
        self.audit.totals.restored += 1;
        outcome.restore = Some(RestoreInfo {
            outer: parsed.fields.outer,
            tunnel: parsed.fields.tunnel,
            is_encapsulated: !is_inside,
        });
    }

    /// The first rule of a group that the headers match, and what it does at this moment.
    fn find(
        &mut self,
        group: u32,
        fields: &HeaderFields,
        now: Duration,
    ) -> Option<(Place, RuleActions)> {
        let Self { tables, queues, order, random, .. } = self;
        let start = order.partition_point(|(of, ..)| *of < group);
        let tables_of_group = order.get(start..)?.iter().take_while(|(of, ..)| *of == group);
        for (_, _, id) in tables_of_group {
            let Some(table) = tables.get(id.0 as usize).filter(|table| table.len() > 0) else {
                continue;
            };
            let found = table.find(fields, |place| Some(&rule_at(queues, place)?.key));
            let Some(place) = found else { continue };
            let queue = queues.get_mut(usize::from(place.queue)).and_then(Option::as_mut);
            let rule = queue.and_then(|queue| queue.rules.get_mut(place.slot as usize));
            let Some(rule) = rule else { continue };
            if let Some(actions) = actions_now(rule, random, now) {
                return Some((place, actions));
            }
        }
        None
    }
}

fn rule_at(queues: &[Option<QueueState>], place: Place) -> Option<&Rule> {
    queues.get(usize::from(place.queue))?.as_ref()?.rules.get(place.slot as usize)
}

/// What a rule does at this moment; `None` while it is being exchanged.
fn actions_now(rule: &mut Rule, random: &mut Random, now: Duration) -> Option<RuleActions> {
    let Some(extra) = &mut rule.extra else { return Some(rule.actions.clone()) };
    if let Some((start, end)) = extra.gap {
        if (start..end).contains(&now) {
            return None;
        }
        extra.gap = None;
    }
    match &extra.previous {
        Some((old, end)) if now < *end && random.happens(500) => Some(old.clone()),
        Some((_, end)) if now >= *end => {
            extra.previous = None;
            Some(rule.actions.clone())
        }
        _ => Some(rule.actions.clone()),
    }
}

/// Where counters lag: takes them as a query may see them from now on, once per interval.
fn refresh(rule: &mut Rule, lag: Duration, now: Duration) -> Option<(u64, u64)> {
    if lag.is_zero() {
        return None;
    }
    let interval = u64::try_from(now.as_nanos() / lag.as_nanos()).unwrap_or(u64::MAX);
    let counters = (rule.packets, rule.bytes);
    let extra = rule.extra();
    if extra.interval != interval {
        (extra.visible, extra.interval) = (counters, interval);
    }
    Some(extra.visible)
}
