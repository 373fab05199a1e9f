//! Groups.

use std::sync::Arc;

use dpif::action::HashAlgorithm;

use super::action_set::in_order;
use super::context::Context;
use super::hash::{hash_bytes, hash_pair, hash_u64, note_hash_fields, symmetric_l4};
use super::{Effect, TraceKind};
use crate::group::{DpHash, Group, GroupBucket, Select};
use crate::openflow::action::HashFields;
use crate::openflow::message::{Bucket, GROUP_ANY, GroupType, SelectionMethod};
use crate::openflow::port::PortNo;

/// Most groups that may watch one another in a row.
const MAX_WATCH_DEPTH: u32 = 128;

impl Context<'_> {
    /// Does a group action; returns whether there is such a group.
    pub(super) fn do_group(&mut self, id: u32, is_last: bool) -> bool {
        if !self.may_go_on() {
            return true;
        }
        let Some(group) = self.switch.groups.get_in(id, self.version.number()) else {
            self.report(TraceKind::Warning, |_| format!("output to nonexistent group {id}"));
            return false;
        };
        match group.group_type {
            GroupType::All | GroupType::Indirect => {
                let mut buckets = group.buckets.iter().peekable();
                while let Some(bucket) = buckets.next() {
                    self.do_bucket(&bucket.bucket, is_last && buckets.peek().is_none());
                }
                self.effects.push(Effect::Group { group, bucket: None });
            }
            GroupType::Select => {
                let bucket = self.select(&group);
                self.do_chosen(group, bucket, is_last);
            }
            GroupType::FastFailover => {
                let bucket = self.first_live_bucket(&group, 0);
                self.do_chosen(group, bucket, is_last);
            }
        }
        true
    }

    fn do_chosen(&mut self, group: Arc<Group>, bucket: Option<Arc<GroupBucket>>, is_last: bool) {
        match bucket {
            Some(bucket) => {
                let id = bucket.bucket.bucket_id;
                self.report(TraceKind::Detail, |_| format!("using bucket {id}"));
                self.do_bucket(&bucket.bucket, is_last);
                self.effects.push(Effect::Group { group, bucket: Some(bucket) });
            }
            None if self.freezing => {}
            None => self.report(TraceKind::Detail, |_| "no live bucket".to_owned()),
        }
    }

    /// Executes a bucket, on a copy of the packet.
    fn do_bucket(&mut self, bucket: &Bucket, is_last: bool) {
        let trace_depth = self.trace_depth;
        self.enter(TraceKind::Bucket, |_| format!("bucket {}", bucket.bucket_id));
        let (flow, was_mpls) = (self.flow.clone(), self.was_mpls);
        self.depth += 1;
        self.do_actions(&in_order(&bucket.actions), is_last, true);
        self.depth -= 1;
        if self.freezing {
            self.finish_freezing();
        }
        (self.flow, self.was_mpls) = (flow, was_mpls);
        // What the bucket makes of its copy does not concern what follows, but limits do.
        self.exit = false;
        self.error = self.error.filter(|error| error.is_limit());
        self.trace_depth = trace_depth;
    }

    fn select(&mut self, group: &Group) -> Option<Arc<GroupBucket>> {
        if self.was_mpls {
            // What is behind the labels may decide.
            self.freeze();
            return None;
        }
        let hash = match &group.select {
            Select::Default => {
                let (flow, read) = (&self.flow.packet, &mut self.read.packet);
                note_hash_fields(read, flow, HashFields::SymmetricL4);
                symmetric_l4(flow, 0)
            }
            Select::Fields => self.hash_of_fields(&group.selection),
            Select::DpHash(dp_hash) => return self.select_by_dp_hash(group, dp_hash),
        };
        self.best_live_bucket(group, hash)
    }

    /// The bucket that a hash of the datapath stands for, or the next live one behind it.
    fn select_by_dp_hash(&mut self, group: &Group, dp_hash: &DpHash) -> Option<Arc<GroupBucket>> {
        let hash = self.flow.packet.dp_hash.get();
        if hash == 0 {
            // It has not been computed.
            let is_symmetric = dp_hash.algorithm != 0 && self.features().max_hash_alg > 0;
            let algorithm = match is_symmetric {
                true => HashAlgorithm::SymmetricL4,
                false => HashAlgorithm::L4,
            };
            self.freeze_for_hash(algorithm, dp_hash.basis);
            self.report(TraceKind::Detail, |_| {
                "selection method in use: dp_hash, recirculating".to_owned()
            });
            return None;
        }
        let mask = dp_hash.mask();
        self.read.packet.dp_hash.set(self.read.packet.dp_hash.get() | mask);
        let values = (0..=mask).map(|step| hash.wrapping_add(step) & mask);
        let mut buckets = values.filter_map(|value| {
            let index = dp_hash.buckets.get(value as usize)?;
            group.buckets.get(usize::from(*index))
        });
        buckets.find(|bucket| self.is_bucket_live(group, &bucket.bucket, 0)).cloned()
    }

    /// Hash over the fields that a group names, as far as the packet has them.
    fn hash_of_fields(&mut self, selection: &SelectionMethod) -> u32 {
        let mut hash = hash_u64(selection.param);
        for (field, mask) in &selection.fields {
            if self.has_field(*field) {
                let value = self.flow.value(*field, &self.switch.tlv).and(mask);
                hash = hash_bytes(&value.to_bytes(field.bytes()), hash);
                self.note_bits(*field, mask);
            }
        }
        hash
    }

    /// The live bucket with the highest weight, which a hash and its configured weight make up.
    fn best_live_bucket(&mut self, group: &Group, basis: u32) -> Option<Arc<GroupBucket>> {
        let mut best: Option<(u32, &Arc<GroupBucket>)> = None;
        for candidate in &group.buckets {
            let Bucket { bucket_id, weight, .. } = candidate.bucket;
            if !self.is_bucket_live(group, &candidate.bucket, 0) {
                self.report_dead_bucket(&candidate.bucket);
                continue;
            }
            let score = (hash_pair(bucket_id, basis) & 0xffff).wrapping_mul(weight.into());
            if best.is_none_or(|(other, _)| score >= other) {
                best = Some((score, candidate));
            }
            self.report(TraceKind::Detail, |_| format!("bucket {bucket_id}: score {score}"));
        }
        best.map(|(_, bucket)| Arc::clone(bucket))
    }

    fn first_live_bucket(&mut self, group: &Group, depth: u32) -> Option<Arc<GroupBucket>> {
        for bucket in &group.buckets {
            if self.is_bucket_live(group, &bucket.bucket, depth) {
                return Some(Arc::clone(bucket));
            }
            self.report_dead_bucket(&bucket.bucket);
        }
        None
    }

    fn is_bucket_live(&mut self, group: &Group, bucket: &Bucket, depth: u32) -> bool {
        if depth >= MAX_WATCH_DEPTH {
            self.report_error(|_| format!("bucket chaining exceeded {MAX_WATCH_DEPTH} links"));
            return false;
        }
        if group.group_type == GroupType::Select && bucket.weight == 0 {
            return false;
        }
        let (port, watched) = (bucket.watch_port, bucket.watch_group);
        let watches_group = watched != GROUP_ANY;
        let is_port_live = match port {
            PortNo::NONE => !watches_group,
            PortNo::CONTROLLER => self.switch.has_controller,
            port => self.is_live(port),
        };
        is_port_live || watches_group && self.is_group_live(watched, depth + 1)
    }

    fn is_group_live(&mut self, id: u32, depth: u32) -> bool {
        let group = self.switch.groups.get_in(id, self.version.number());
        group.is_some_and(|group| self.first_live_bucket(&group, depth).is_some())
    }

    fn report_dead_bucket(&mut self, bucket: &Bucket) {
        self.report(TraceKind::Detail, |_| {
            let mut watched = Vec::new();
            if bucket.watch_port != PortNo::NONE {
                watched.push(format!("port {}", bucket.watch_port));
            }
            if bucket.watch_group != GROUP_ANY {
                watched.push(format!("port {}", bucket.watch_group));
            }
            format!("bucket {}: not live due to {}", bucket.bucket_id, watched.join(" and "))
        });
    }
}
