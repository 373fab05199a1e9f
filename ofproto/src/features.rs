//! What translation may ask of a datapath. Operators can take features away
//! (`dpif/set-dp-features`), to see what becomes of packets on a datapath that lacks them.

use thiserror::Error;
use tracing::warn;

/// A feature: whether there is something, or how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Whether the datapath can do it.
    Flag(bool),
    /// How far it can go.
    Number(usize),
}

impl From<bool> for Feature {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<usize> for Feature {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

/// Why a feature was not changed. The texts are those that tools print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FeatureError {
    /// There is no such feature.
    #[error("Unexpected support field")]
    Unknown,
    /// The datapath does not have it.
    #[error("Can not enable features not supported by the datapath")]
    NotSupported,
    /// The datapath does not have so much of it.
    #[error("Can not set value beyond the datapath capability")]
    TooMuch,
    /// It is there or not.
    #[error("Boolean value expected")]
    NoFlag,
    /// It is a number.
    #[error("Integer number expected")]
    NoNumber,
    /// It is a number from 0 on.
    #[error("Negative number not expected")]
    Negative,
}

/// A feature by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFeature {
    /// Its name in commands.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What is made use of.
    pub value: Feature,
    /// What the datapath has.
    pub supported: Feature,
}

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident: $kind:ident = $supported:expr, $title:literal;)*) => {
        /// The features that translation makes use of.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Features {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Default for Features {
            /// What the datapath can do.
            fn default() -> Self {
                Self { $($name: $supported,)* }
            }
        }

        impl Features {
            /// All features.
            pub fn all(&self) -> Vec<NamedFeature> {
                vec![$(NamedFeature {
                    name: stringify!($name),
                    title: $title,
                    value: self.$name.into(),
                    supported: Self::default().$name.into(),
                },)*]
            }

            fn put(&mut self, name: &str, value: Feature) {
                $(if let (stringify!($name), features!(@pattern $kind new)) = (name, value) {
                    self.$name = new;
                })*
            }
        }
    };
    (@pattern bool $new:ident) => { Feature::Flag($new) };
    (@pattern usize $new:ident) => { Feature::Number($new) };
}

features! {
    /// Setting some bits of a field.
    masked_set_action: bool = true, "Masked set action";
    /// Pushing and popping tunnel headers by actions of their own.
    tnl_push_pop: bool = true, "Tunnel push pop";
    /// Naming flows.
    ufid: bool = true, "Ufid";
    /// Cutting packets short.
    trunc: bool = true, "Truncate action";
    /// Actions on a copy.
    clone: bool = true, "Clone action";
    /// How deep samples may nest.
    sample_nesting: usize = 10, "Sample nesting";
    /// Choosing events of connections.
    ct_eventmask: bool = true, "Conntrack eventmask";
    /// Forgetting the connection of a packet.
    ct_clear: bool = true, "Conntrack clear";
    /// The highest hash algorithm of OpenFlow.
    max_hash_alg: usize = 1, "Max dp_hash algorithm";
    /// Telling packets by their length.
    check_pkt_len: bool = true, "Check pkt length action";
    /// Timeouts of connections.
    ct_timeout: bool = true, "Conntrack timeout policy";
    /// An action that drops and says why.
    explicit_drop_action: bool = true, "Explicit Drop action";
    /// Balancing over the members of a bond.
    lb_output_action: bool = true, "Optimized Balance TCP mode";
    /// Translation to the address that is all zero.
    ct_zero_snat: bool = true, "Conntrack all-zero IP SNAT";
    /// Adding MPLS labels below Ethernet.
    add_mpls: bool = true, "MPLS Label add";
    /// Handing samples to the kernel's sampling groups.
    psample: bool = false, "psample action";
    /// VLAN tags that a flow can match.
    max_vlan_headers: usize = 1, "Max VLAN headers";
    /// MPLS labels that a flow can match.
    max_mpls_depth: usize = 3, "Max MPLS depth";
    /// Further passes of a packet.
    recirc: bool = true, "Recirc";
    /// Matching the state of connections.
    ct_state: bool = true, "CT state";
    /// Matching their zone.
    ct_zone: bool = true, "CT zone";
    /// Matching their mark.
    ct_mark: bool = true, "CT mark";
    /// Matching their label.
    ct_label: bool = true, "CT label";
    /// Matching how addresses were translated.
    ct_state_nat: bool = true, "CT state NAT";
    /// Matching the first packet's direction, IPv4.
    ct_orig_tuple: bool = true, "CT orig tuple";
    /// The same for IPv6.
    ct_orig_tuple6: bool = true, "CT orig tuple for IPv6";
    /// Matching options of neighbour discovery.
    nd_ext: bool = true, "IPv6 ND Extension";
}

impl Features {
    /// The feature of this name.
    pub fn get(&self, name: &str) -> Option<NamedFeature> {
        self.all().into_iter().find(|feature| feature.name == name)
    }

    /// Gives a feature the value that `text` says. With `force` also what the datapath does not
    /// have.
    ///
    /// # Errors
    /// When the feature does not exist or cannot have the value.
    pub fn set(&mut self, name: &str, text: &str, force: bool) -> Result<(), FeatureError> {
        let NamedFeature { supported, .. } = self.get(name).ok_or(FeatureError::Unknown)?;
        let value = match supported {
            Feature::Flag(supported) => {
                let wanted = match text.to_ascii_lowercase().as_str() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(FeatureError::NoFlag),
                };
                if wanted && !supported && !force {
                    return Err(FeatureError::NotSupported);
                }
                if wanted && force {
                    warn!(
                        target: "ofproto_dpif",
                        "Enabling an unsupported feature is very dangerous"
                    );
                }
                Feature::Flag(wanted)
            }
            Feature::Number(most) => {
                let wanted: i32 = text.parse().map_err(|_| FeatureError::NoNumber)?;
                let wanted = usize::try_from(wanted).map_err(|_| FeatureError::Negative)?;
                if wanted > most {
                    return Err(FeatureError::TooMuch);
                }
                Feature::Number(wanted)
            }
        };
        self.put(name, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_numbers_stay_within_what_there_is() {
        let mut features = Features::default();
        assert_eq!(features.set("trunc", "False", false), Ok(()));
        assert_eq!(features.set("sample_nesting", "2", false), Ok(()));
        let expected = Features { trunc: false, sample_nesting: 2, ..Features::default() };
        assert_eq!(features, expected);
        for (name, value, error) in [
            ("psample", "true", FeatureError::NotSupported),
            ("sample_nesting", "11", FeatureError::TooMuch),
            ("sample_nesting", "-1", FeatureError::Negative),
            ("sample_nesting", "true", FeatureError::NoNumber),
            ("trunc", "1", FeatureError::NoFlag),
            ("other", "1", FeatureError::Unknown),
        ] {
            assert_eq!(features.set(name, value, false), Err(error));
        }
        assert_eq!(features, expected);
        assert_eq!(features.set("psample", "true", true), Ok(()));
        assert_eq!(features.set("trunc", "true", false), Ok(()));
        assert_eq!(features, Features { psample: true, trunc: true, ..expected });
    }

    #[test]
    fn every_feature_starts_as_the_datapath_has_it() {
        let all = Features::default().all();
        assert_eq!(all.len(), 27);
        assert!(all.iter().all(|feature| feature.value == feature.supported));
        assert_eq!(
            Features::default().get("max_mpls_depth"),
            Some(NamedFeature {
                name: "max_mpls_depth",
                title: "Max MPLS depth",
                value: Feature::Number(3),
                supported: Feature::Number(3),
            })
        );
    }
}
