//! How select groups choose a bucket.

use std::sync::Arc;

use tracing::debug;

use super::GroupBucket;
use crate::openflow::message::{GroupType, SelectionMethod};
use crate::openflow::text::{NoNames, hash_fields_text};

/// Most hash values among which buckets are divided.
const MAX_HASH_VALUES: u64 = 256;
/// Hash of addresses, ports and protocol.
const HASH_L4: u32 = 0;
/// The same for both directions of a connection.
const HASH_SYMMETRIC_L4: u32 = 1;

/// How a group chooses among its buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// By a hash of the packet's flow that the switch chooses.
    Default,
    /// By a hash of the fields that a controller named.
    Fields,
    /// By a hash that the datapath computes.
    DpHash(DpHash),
}

/// Which hash the datapath computes, and which bucket each value stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpHash {
    /// Number of the algorithm: 0 for addresses and ports, 1 for the same with both directions
    /// alike.
    pub algorithm: u32,
    /// Where the hash starts from.
    pub basis: u32,
    /// For each value of the hash's low bits, the index of a bucket. The length is a power of 2.
    pub buckets: Vec<u16>,
}

impl DpHash {
    /// The bits of a hash that count.
    pub fn mask(&self) -> u32 {
        self.buckets.len() as u32 - 1
    }
}

impl Select {
    /// How a group chooses that is new.
    pub(super) fn constructed(
        id: u32,
        group_type: GroupType,
        buckets: &[Arc<GroupBucket>],
        selection: &SelectionMethod,
    ) -> Self {
        if group_type != GroupType::Select {
            return Self::Default;
        }
        debug!(target: "ofproto_dpif", "Constructing select group {id}");
        Self::new(buckets, selection)
    }

    /// How a group chooses that replaces another.
    pub(super) fn modified(
        id: u32,
        group_type: GroupType,
        buckets: &[Arc<GroupBucket>],
        selection: &SelectionMethod,
    ) -> Self {
        if group_type != GroupType::Select {
            return Self::Default;
        }
        debug!(target: "ofproto_dpif", "Modifying select group {id}");
        Self::new(buckets, selection)
    }

    fn new(buckets: &[Arc<GroupBucket>], selection: &SelectionMethod) -> Self {
        match selection.method.as_str() {
            "hash" => {
                debug!(target: "ofproto_dpif", "Selection method specified: hash.");
                if selection.fields.is_empty() {
                    debug!(
                        target: "ofproto_dpif",
                        "No hash fields. Falling back to default hash method."
                    );
                    return Self::Default;
                }
                let fields = hash_fields_text(selection, &NoNames);
                debug!(target: "ofproto_dpif", "Hash fields: {fields}");
                Self::Fields
            }
            "dp_hash" => {
                debug!(target: "ofproto_dpif", "Selection method specified: dp_hash.");
                let mut algorithm = (selection.param >> 32) as u32;
                let Some(values) = divide(buckets) else { return Self::fall_back() };
                if algorithm > HASH_SYMMETRIC_L4 {
                    debug!(
                        target: "ofproto_dpif",
                        "Invalid dp_hash algorithm {algorithm}. Defaulting to OVS_HASH_ALG_L4"
                    );
                    algorithm = HASH_L4;
                }
                Self::dp_hash(algorithm, selection.param as u32, values)
            }
            _ => {
                debug!(
                    target: "ofproto_dpif",
                    "No selection method specified. Trying dp_hash."
                );
                match divide(buckets) {
                    Some(values) => Self::dp_hash(HASH_SYMMETRIC_L4, 0, values),
                    None => Self::fall_back(),
                }
            }
        }
    }

    fn fall_back() -> Self {
        debug!(target: "ofproto_dpif", "Falling back to default hash method.");
        Self::Default
    }

    fn dp_hash(algorithm: u32, basis: u32, buckets: Vec<u16>) -> Self {
        debug!(
            target: "ofproto_dpif",
            "Use dp_hash with {} hash values using algorithm {algorithm}.", buckets.len()
        );
        Self::DpHash(DpHash { algorithm, basis, buckets })
    }
}

/// What Webster's method knows of a bucket while it hands out hash values.
struct Share {
    weight: u16,
    divisor: u32,
    hits: u32,
}

impl Share {
    /// Whether this bucket has more right to the next value than `other`. Quotients of numbers
    /// this small are compared exactly by multiplying out.
    fn exceeds(&self, other: &Share) -> bool {
        u64::from(self.weight) * u64::from(other.divisor)
            > u64::from(other.weight) * u64::from(self.divisor)
    }
}

/// Divides hash values among buckets in proportion to their weights by Webster's method, with at
/// least one for each bucket that has weight. Returns the index of a bucket for each value, `None`
/// when there are no such buckets or more values would be needed than there are.
fn divide(buckets: &[Arc<GroupBucket>]) -> Option<Vec<u16>> {
    if buckets.is_empty() {
        debug!(target: "ofproto_dpif", "  Don't apply dp_hash method without buckets.");
        return None;
    }
    let weights = || buckets.iter().map(|bucket| bucket.bucket.weight);
    let total: u64 = weights().map(u64::from).sum();
    let Some(least) = weights().filter(|&weight| weight > 0).min() else {
        debug!(target: "ofproto_dpif", "  Total weight is zero. No active buckets.");
        return None;
    };
    debug!(target: "ofproto_dpif", "  Minimum weight: {least}, total weight: {total}");
    let needed = total.div_ceil(least.into());
    let wanted = (buckets.len() as u64 * 4).min(MAX_HASH_VALUES);
    let values = needed.max(wanted).next_power_of_two().max(16);
    if values > MAX_HASH_VALUES {
        debug!(target: "ofproto_dpif", "  Too many hash values required: {values}");
        return None;
    }
    debug!(target: "ofproto_dpif", "  Using {values} hash values:");

    let mut shares: Vec<Share> =
        weights().map(|weight| Share { weight, divisor: 1, hits: 0 }).collect();
    let mut map = Vec::new();
    for _ in 0..values {
        let places = shares.iter().zip(0u16..);
        let (_, index) =
            places.reduce(|best, next| if next.0.exceeds(best.0) { next } else { best })?;
        let winner = shares.get_mut(usize::from(index))?;
        winner.hits += 1;
        winner.divisor += 2;
        map.push(index);
    }
    for (bucket, share) in buckets.iter().zip(&shares) {
        let (id, weight) = (bucket.bucket.bucket_id, bucket.bucket.weight);
        let target = (values * u64::from(weight)) as f64 / total as f64;
        debug!(
            target: "ofproto_dpif",
            "  Bucket {id}: weight={weight}, target={target:.2} hits={}", share.hits
        );
    }
    Some(map)
}
