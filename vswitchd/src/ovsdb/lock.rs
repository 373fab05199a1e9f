//! Named locks of clients (RFC 7047 sections 4.1.8 to 4.1.10).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Names a session of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// How a session asked for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By `lock`: it waits for its turn.
    Wait,
    /// By `steal`: it takes the lock from its owner.
    Steal,
}

#[derive(Debug, Default)]
struct Lock {
    /// The owner, then those who wait.
    queue: VecDeque<(SessionId, Mode)>,
    /// Sessions that stole the lock and lost it to another thief; they do not get it back, but
    /// cannot ask for it again before they unlock it.
    robbed: BTreeSet<SessionId>,
}

impl Lock {
    fn owner(&self) -> Option<SessionId> {
        self.queue.front().map(|(session, _)| *session)
    }

    fn has(&self, session: SessionId) -> bool {
        self.robbed.contains(&session) || self.queue.iter().any(|(found, _)| *found == session)
    }

    /// Takes a session out, and gives the new owner if there is one because of that.
    fn remove(&mut self, session: SessionId) -> Option<SessionId> {
        self.robbed.remove(&session);
        let owner = self.owner();
        self.queue.retain(|(found, _)| *found != session);
        self.owner().filter(|new| owner != Some(*new))
    }
}

/// The locks that a session asked for and did not unlock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockNames {
    /// Those that it owns.
    pub held: Vec<String>,
    /// Those that it waits for.
    pub waiting: Vec<String>,
    /// Those that it stole and that were stolen from it.
    pub lost: Vec<String>,
}

/// The locks of a server.
#[derive(Debug, Default)]
pub struct Locks(BTreeMap<String, Lock>);

impl Locks {
    /// Whether a session owns a lock.
    pub fn is_owner(&self, session: SessionId, name: &str) -> bool {
        self.0.get(name).and_then(Lock::owner) == Some(session)
    }

    /// Whether a session asked for a lock and did not unlock it since.
    pub fn has(&self, session: SessionId, name: &str) -> bool {
        self.0.get(name).is_some_and(|lock| lock.has(session))
    }

    /// The locks that a session asked for.
    pub fn names(&self, session: SessionId) -> LockNames {
        let mut names = LockNames::default();
        for (name, lock) in self.0.iter().filter(|(_, lock)| lock.has(session)) {
            let list = if lock.owner() == Some(session) {
                &mut names.held
            } else if lock.robbed.contains(&session) {
                &mut names.lost
            } else {
                &mut names.waiting
            };
            list.push(name.clone());
        }
        names
    }

    /// Asks for a lock that the session does not [have](Self::has). Gives the session that the
    /// lock was stolen from, if it was.
    pub fn lock(&mut self, session: SessionId, name: &str, mode: Mode) -> Option<SessionId> {
        let lock = self.0.entry(name.to_owned()).or_default();
        if mode == Mode::Wait {
            lock.queue.push_back((session, mode));
            return None;
        }
        let victim = lock.queue.front().copied();
        if let Some((victim, Mode::Steal)) = victim {
            lock.queue.pop_front();
            lock.robbed.insert(victim);
        }
        lock.queue.push_front((session, mode));
        victim.map(|(victim, _)| victim)
    }

    /// Gives a lock back, or stops waiting for it. Gives the session that owns it now because of
    /// that, if there is one.
    pub fn unlock(&mut self, session: SessionId, name: &str) -> Option<SessionId> {
        let lock = self.0.get_mut(name)?;
        let owner = lock.remove(session);
        if lock.queue.is_empty() && lock.robbed.is_empty() {
            self.0.remove(name);
        }
        owner
    }

    /// Gives back all locks of a session that ends. Gives the locks that have new owners because
    /// of that, with these.
    pub fn unlock_all(&mut self, session: SessionId) -> Vec<(String, SessionId)> {
        let mut owners = Vec::new();
        self.0.retain(|name, lock| {
            owners.extend(lock.remove(session).map(|owner| (name.clone(), owner)));
            !lock.queue.is_empty() || !lock.robbed.is_empty()
        });
        owners
    }
}
