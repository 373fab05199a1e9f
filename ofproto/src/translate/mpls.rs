//! The actions that put MPLS labels on and take them off.

use dpif::flow::MAX_MPLS_LABELS;
use netdev::wire::mpls;

use super::context::Context;
use super::{TranslateError, header};

impl Context<'_> {
    /// Does a push_mpls action.
    pub(super) fn push_mpls(&mut self, eth_type: u16) {
        let labels = header::mpls_labels(&self.flow.packet, &mut self.read.packet);
        if labels == 0 {
            self.commit();
        } else if labels >= MAX_MPLS_LABELS {
            return self.too_many_labels("an MPLS push action can't be performed as it would have");
        }
        header::push_mpls(&mut self.flow.packet, labels, eth_type, &mut self.read.packet);
    }

    /// Does a pop_mpls action.
    pub(super) fn pop_mpls(&mut self, eth_type: u16) {
        let labels = header::mpls_labels(&self.flow.packet, &mut self.read.packet);
        if header::pop_mpls(&mut self.flow.packet, labels, eth_type, &mut self.read.packet) {
            self.was_mpls |= !mpls::is_mpls(eth_type) && self.features().recirc;
        } else if labels >= MAX_MPLS_LABELS {
            self.too_many_labels("an MPLS pop action can't be performed as it has");
            self.actions.clear();
        }
    }

    /// Drops the packet because it has more labels than there is room for.
    pub(super) fn too_many_labels(&mut self, what: &str) {
        if self.request.is_packet {
            self.report_error(|_| {
                format!(
                    "dropping packet on which {what} more MPLS LSEs than the {MAX_MPLS_LABELS} \
                     supported."
                )
            });
        }
        self.error = Some(TranslateError::TooManyLabels);
    }
}
