//! The fast side of a port's flow API: one thread's way to put rules in and take them out.

use thiserror::Error;

use super::{FlowApiError, HeaderFields, RuleActions, TableId};

/// A rule, from the moment its insertion is enqueued until its removal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(pub u64);

/// What has become of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's user data.
    pub user: u64,
    /// Whether it was done. A rule whose insertion failed is gone.
    pub result: Result<(), RuleError>,
}

/// Why a device did not do what was enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum RuleError {
    /// There is no room for the rule.
    #[error("the table is full")]
    TableFull,
    /// A rule of the table has the same values.
    #[error("a rule with the same values exists")]
    Exists,
    /// There is no such rule.
    #[error("there is no such rule")]
    NotFound,
    /// The hardware failed.
    #[error("the hardware failed")]
    Hardware,
    /// The device went away.
    #[error("the device was removed")]
    Removed,
}

/// What a rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounters {
    /// Packets that matched.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// The operations of a device on one of its queues. What a device does not implement, it does not
/// support.
pub trait RuleQueue: Send {
    /// Enqueues the insertion of a rule. See [`FlowQueue::insert`].
    ///
    /// # Errors
    /// See [`FlowApiError`].
    fn insert(
        &mut self,
        table: TableId,
        values: &HeaderFields,
        actions: RuleActions,
        user: u64,
    ) -> Result<RuleId, FlowApiError> {
        let _ = (table, values, actions, user);
        Err(FlowApiError::Unsupported)
    }

    /// Enqueues new actions for a rule. See [`FlowQueue::update`].
    ///
    /// # Errors
    /// See [`FlowApiError`].
    fn update(
        &mut self,
        rule: RuleId,
        actions: RuleActions,
        user: u64,
    ) -> Result<(), FlowApiError> {
        let _ = (rule, actions, user);
        Err(FlowApiError::Unsupported)
    }

    /// Enqueues the removal of a rule. See [`FlowQueue::remove`].
    ///
    /// # Errors
    /// See [`FlowApiError`].
    fn remove(&mut self, rule: RuleId, user: u64) -> Result<(), FlowApiError> {
        let _ = (rule, user);
        Err(FlowApiError::Unsupported)
    }

    /// Rings the bell.
    fn push(&mut self) {}

    /// Fetches results. See [`FlowQueue::pull`].
    fn pull(&mut self, completions: &mut [Completion]) -> usize {
        let _ = completions;
        0
    }

    /// What a rule has counted, and with `reset` lets it start from 0.
    ///
    /// # Errors
    /// See [`FlowApiError`].
    fn query(&mut self, rule: RuleId, reset: bool) -> Result<RuleCounters, FlowApiError> {
        let _ = (rule, reset);
        Err(FlowApiError::Unsupported)
    }
}

/// A queue of a device, opened by [`FlowDevice::open_queue`](super::FlowDevice::open_queue).
///
/// A correct caller waits for the completion of a rule's insertion before it asks for anything
/// else about the rule, and for that of an update likewise. Debug builds check what they can.
#[repr(align(64))]
pub struct FlowQueue {
    operations: Box<dyn RuleQueue>,
    in_flight: usize,
    depth: usize,
}

impl std::fmt::Debug for FlowQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { in_flight, depth, .. } = self;
        write!(f, "FlowQueue {{ in_flight: {in_flight}, depth: {depth}, .. }}")
    }
}

impl FlowQueue {
    /// A queue for up to `depth` requests in flight, served by `operations`.
    pub fn new(operations: Box<dyn RuleQueue>, depth: usize) -> Self {
        Self { operations, in_flight: 0, depth }
    }

    /// Requests whose results have not been pulled.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Requests that may be in flight.
    pub fn depth(&self) -> usize {
        self.depth
    }

    fn admit(&self) -> Result<(), FlowApiError> {
        if self.in_flight < self.depth { Ok(()) } else { Err(FlowApiError::QueueFull) }
    }

    /// Enqueues the insertion of a rule into a table, with values under its template's mask. The
    /// rule is named at once; its completion, which carries `user`, tells whether it works.
    ///
    /// # Errors
    /// See [`FlowApiError`]; nothing was enqueued.
    #[inline]
    pub fn insert(
        &mut self,
        table: TableId,
        values: &HeaderFields,
        actions: RuleActions,
        user: u64,
    ) -> Result<RuleId, FlowApiError> {
        self.admit()?;
        debug_assert!(actions.age < 1 << 24, "age {} has more than 24 bits", actions.age);
        let rule = self.operations.insert(table, values, actions, user)?;
        self.in_flight += 1;
        Ok(rule)
    }

    /// Enqueues new actions for a rule.
    ///
    /// # Errors
    /// See [`FlowApiError`]; nothing was enqueued.
    #[inline]
    pub fn update(
        &mut self,
        rule: RuleId,
        actions: RuleActions,
        user: u64,
    ) -> Result<(), FlowApiError> {
        self.admit()?;
        debug_assert!(actions.age < 1 << 24, "age {} has more than 24 bits", actions.age);
        self.operations.update(rule, actions, user)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Enqueues the removal of a rule, which has no name from here on.
    ///
    /// # Errors
    /// See [`FlowApiError`]; nothing was enqueued.
    #[inline]
    pub fn remove(&mut self, rule: RuleId, user: u64) -> Result<(), FlowApiError> {
        self.admit()?;
        self.operations.remove(rule, user)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Rings the bell: the device begins with what was enqueued.
    #[inline]
    pub fn push(&mut self) {
        self.operations.push();
    }

    /// Fetches results into the front of `completions` and returns how many. They need not come
    /// in the order of the requests.
    #[inline]
    pub fn pull(&mut self, completions: &mut [Completion]) -> usize {
        let count = self.operations.pull(completions);
        // A device that answers twice must not make the queue look empty.
        self.in_flight = self.in_flight.saturating_sub(count);
        count
    }

    /// Gives up waiting for `count` results that never came.
    pub fn forget(&mut self, count: usize) {
        self.in_flight = self.in_flight.saturating_sub(count);
    }

    /// What a rule has counted, and with `reset` lets it start from 0.
    ///
    /// # Errors
    /// See [`FlowApiError`].
    #[inline]
    pub fn query(&mut self, rule: RuleId, reset: bool) -> Result<RuleCounters, FlowApiError> {
        self.operations.query(rule, reset)
    }
}

const _: () = assert!(size_of::<FlowQueue>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl RuleQueue for Nothing {}

    #[test]
    fn what_a_device_lacks_is_answered_so() {
        let mut queue = FlowQueue::new(Box::new(Nothing), 4);
        let (values, actions) = (HeaderFields::default(), RuleActions::default());
        let unsupported = Err(FlowApiError::Unsupported);
        assert_eq!(
            queue.insert(TableId(0), &values, actions.clone(), 1),
            Err(FlowApiError::Unsupported)
        );
        assert_eq!(queue.update(RuleId(0), actions, 1), unsupported);
        assert_eq!(queue.remove(RuleId(0), 1), unsupported);
        assert_eq!(queue.query(RuleId(0), false), Err(FlowApiError::Unsupported));
        queue.push();
        let mut completions = [Completion { user: 0, result: Ok(()) }; 4];
        assert_eq!((queue.pull(&mut completions), queue.in_flight()), (0, 0));
    }
}
