//! How far a flow is in hardware, and why it is not.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::flow::Field;

/// Why a flow is not in hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `hw-offload` is off, or was when the flow came.
    Off,
    /// Its port has no hardware that takes rules.
    NoHardware,
    /// The device has not answered yet.
    Pending,
    /// Hardware cannot match on a field that the flow looks at.
    Field(Field),
    /// The flow takes packets that do not start with Ethernet.
    NotEthernet,
    /// The flow takes packets of several Ethertypes.
    AnyEthertype,
    /// The flow takes packets with and without a VLAN tag.
    AnyTag,
    /// There may be VLAN tags behind those that the flow looks at.
    HiddenTag,
    /// The flow looks at ports of several protocols.
    AnyProtocol,
    /// The device neither marks packets nor can do what the flow does.
    Actions,
    /// No mark is free.
    NoMark,
    /// More changes were waiting than are let wait.
    Backlog,
    /// The device refuses the rule or failed.
    Device,
    /// The device is gone.
    Removed,
}

impl Reason {
    /// Those without a value, by code; the codes of fields follow.
    const PLAIN: [Self; 13] = [
        Self::Off,
        Self::NoHardware,
        Self::Pending,
        Self::NotEthernet,
        Self::AnyEthertype,
        Self::AnyTag,
        Self::HiddenTag,
        Self::AnyProtocol,
        Self::Actions,
        Self::NoMark,
        Self::Backlog,
        Self::Device,
        Self::Removed,
    ];

    fn code(self) -> u32 {
        let plain = Self::PLAIN.iter().position(|reason| *reason == self);
        let code = plain.unwrap_or_else(|| match self {
            Self::Field(field) => Self::PLAIN.len() + field as usize,
            _ => 0,
        });
        code as u32
    }

    fn of_code(code: u32) -> Self {
        let code = code as usize;
        let field = || Field::ALL.get(code - Self::PLAIN.len()).copied();
        match Self::PLAIN.get(code) {
            Some(reason) => *reason,
            None => field().map_or(Self::Off, Self::Field),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Off => "hw-offload is off",
            Self::NoHardware => "the port takes no rules",
            Self::Pending => "the device has not answered yet",
            Self::Field(field) => return write!(f, "it matches on {}", field.name()),
            Self::NotEthernet => "its packets do not start with Ethernet",
            Self::AnyEthertype => "it takes several Ethertypes",
            Self::AnyTag => "it takes packets with and without VLAN tag",
            Self::HiddenTag => "it does not look behind its VLAN tags",
            Self::AnyProtocol => "it matches on ports of several protocols",
            Self::Actions => "the device cannot do its actions",
            Self::NoMark => "no mark is free",
            Self::Backlog => "too many changes were waiting",
            Self::Device => "the device refuses it",
            Self::Removed => "the device is gone",
        };
        f.write_str(text)
    }
}

/// How far a flow is in hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadState {
    /// Not at all.
    No(Reason),
    /// Hardware finds the flow of its packets, software does its actions.
    Partial,
    /// Hardware does it all.
    Full,
}

/// An [`OffloadState`] that several threads see.
#[derive(Debug)]
pub(crate) struct SharedState(AtomicU32);

impl Default for SharedState {
    fn default() -> Self {
        Self(AtomicU32::new(encode(OffloadState::No(Reason::Off))))
    }
}

fn encode(state: OffloadState) -> u32 {
    match state {
        OffloadState::Full => 0,
        OffloadState::Partial => 1,
        OffloadState::No(reason) => 2 + reason.code(),
    }
}

impl SharedState {
    pub(crate) fn get(&self) -> OffloadState {
        match self.0.load(Ordering::Relaxed) {
            0 => OffloadState::Full,
            1 => OffloadState::Partial,
            code => OffloadState::No(Reason::of_code(code - 2)),
        }
    }

    pub(crate) fn set(&self, state: OffloadState) {
        self.0.store(encode(state), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_being_shared() {
        let shared = SharedState::default();
        assert_eq!(shared.get(), OffloadState::No(Reason::Off));
        let fields = Field::ALL.iter().map(|field| Reason::Field(*field));
        let reasons = Reason::PLAIN.into_iter().chain(fields).map(OffloadState::No);
        for state in [OffloadState::Full, OffloadState::Partial].into_iter().chain(reasons) {
            shared.set(state);
            assert_eq!(shared.get(), state);
        }
    }
}
