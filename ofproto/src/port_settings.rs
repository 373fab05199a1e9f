//! How a port takes part in switching by `NORMAL`: VLANs, tags and protection (`Port` table of the
//! configuration database).

use std::fmt;

use netdev::wire::ethernet::ether_type;

/// Number of VLANs that can be told apart (IEEE 802.1Q, 12 bits).
const VLANS: usize = 4096;

/// A set of VLANs.
#[derive(Clone, PartialEq, Eq)]
pub struct VlanSet([u64; VLANS / 64]);

impl VlanSet {
    /// Whether `vlan` is in the set.
    pub fn contains(&self, vlan: u16) -> bool {
        self.0.get(usize::from(vlan) / 64).is_some_and(|word| word >> (vlan % 64) & 1 != 0)
    }
}

impl FromIterator<u16> for VlanSet {
    /// Numbers that are not VLANs are left out.
    fn from_iter<I: IntoIterator<Item = u16>>(vlans: I) -> Self {
        let mut set = Self([0; VLANS / 64]);
        for vlan in vlans {
            if let Some(word) = set.0.get_mut(usize::from(vlan) / 64) {
                *word |= 1 << (vlan % 64);
            }
        }
        set
    }
}

impl fmt::Debug for VlanSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..VLANS as u16).filter(|&vlan| self.contains(vlan))).finish()
    }
}

/// Which tags a port expects and gives (`Port.vlan_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanMode {
    /// One VLAN, without a tag.
    Access,
    /// Several VLANs, with tags; packets without one are in VLAN 0.
    Trunk,
    /// As a trunk; packets without a tag are in the native VLAN, whose packets leave with a tag.
    NativeTagged,
    /// As a trunk; packets without a tag are in the native VLAN, whose packets leave without one.
    NativeUntagged,
    /// One VLAN, whose tag is in front of those that the packet has outside.
    Dot1qTunnel,
}

/// When a packet in VLAN 0 leaves with a tag that holds its priority alone
/// (`Port.other_config:priority-tags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityTags {
    /// Never on access ports.
    Never,
    /// When its priority is not 0.
    IfNonzero,
    /// When it came with a tag.
    Always,
}

/// Settings of a port; those of one about which nothing is said by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Which tags it expects and gives.
    pub vlan_mode: VlanMode,
    /// Its VLAN; the native one of a trunk. Has no meaning in mode [`VlanMode::Trunk`].
    pub tag: u16,
    /// The VLANs of a trunk; all when `None`.
    pub trunks: Option<VlanSet>,
    /// The customer VLANs that a tunnel port takes; all when `None`.
    pub customer_vlans: Option<VlanSet>,
    /// When packets leave with a tag for their priority alone.
    pub priority_tags: PriorityTags,
    /// Tag protocol that a tunnel port puts in front.
    pub qinq_ethertype: u16,
    /// Whether packets of other protected ports do not leave by it.
    pub is_protected: bool,
}

impl Default for PortSettings {
    fn default() -> Self {
        Self {
            vlan_mode: VlanMode::Trunk,
            tag: 0,
            trunks: None,
            customer_vlans: None,
            priority_tags: PriorityTags::Never,
            qinq_ethertype: ether_type::SERVICE_VLAN,
            is_protected: false,
        }
    }
}

impl PortSettings {
    /// Whether a trunk port carries `vlan`. One with a native VLAN always carries that, and then
    /// VLAN 0 is no other.
    pub fn trunks(&self, vlan: u16) -> bool {
        let is_listed = self.trunks.as_ref().is_none_or(|trunks| trunks.contains(vlan));
        match self.vlan_mode {
            VlanMode::Trunk => is_listed,
            VlanMode::NativeTagged | VlanMode::NativeUntagged if self.tag == 0 => is_listed,
            VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                vlan == self.tag || vlan != 0 && is_listed
            }
            VlanMode::Access | VlanMode::Dot1qTunnel => false,
        }
    }

    /// Whether a tunnel port takes packets whose outermost tag is of `vlan`, 0 for none.
    pub fn takes_customer_vlan(&self, vlan: u16) -> bool {
        self.customer_vlans.as_ref().is_none_or(|vlans| vlans.contains(vlan))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The VLANs of some that a port trunks.
    fn trunked(vlan_mode: VlanMode, tag: u16, trunks: Option<&[u16]>) -> Vec<u16> {
        let trunks = trunks.map(|vlans| vlans.iter().copied().collect());
        let settings = PortSettings { vlan_mode, tag, trunks, ..PortSettings::default() };
        [0, 1, 5, 63, 64, 4095].into_iter().filter(|&vlan| settings.trunks(vlan)).collect()
    }

    #[test]
    fn the_mode_decides_what_is_trunked() {
        use VlanMode::*;
        let all = [0, 1, 5, 63, 64, 4095];
        assert_eq!(trunked(Trunk, 0, None), all);
        assert_eq!(trunked(Trunk, 0, Some(&[])), []);
        assert_eq!(trunked(Trunk, 0, Some(&[0, 63, 4095])), [0, 63, 4095]);
        for mode in [NativeTagged, NativeUntagged] {
            assert_eq!(trunked(mode, 5, None), [1, 5, 63, 64, 4095]);
            assert_eq!(trunked(mode, 5, Some(&[0, 64])), [5, 64]);
            assert_eq!(trunked(mode, 5, Some(&[5, 64])), [5, 64]);
            assert_eq!(trunked(mode, 0, None), all);
            assert_eq!(trunked(mode, 0, Some(&[1])), [1]);
        }
        assert_eq!(trunked(Access, 5, None), []);
        assert_eq!(trunked(Dot1qTunnel, 5, None), []);
    }

    #[test]
    fn sets_hold_vlans_alone() {
        let set: VlanSet = [4095, 4096, 65535, 0, 64].into_iter().collect();
        assert_eq!(format!("{set:?}"), "{0, 64, 4095}");
        assert!(!set.contains(4096));
    }
}
