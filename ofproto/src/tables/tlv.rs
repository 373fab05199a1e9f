//! The tunnel options that are mapped to fields, on which the keys of rules depend.

use std::sync::{Arc, PoisonError};

use super::{Criteria, Tables};
use crate::openflow::error::OfError;
use crate::openflow::field::Field;
use crate::openflow::message::{TlvCommand, TlvTableMod};
use crate::openflow::slot::Slot;
use crate::openflow::tlv_map::TlvMap;
use crate::rule::Rule;

impl Rule {
    /// Whether it matches or changes a field for a tunnel option.
    fn uses_option(&self, index: u8) -> bool {
        let field = Field::tun_metadata(index);
        self.flow_match.entry(Slot::tun_metadata(index)).is_some()
            || self.actions.iter().any(|action| action.uses_field(field))
    }
}

impl Tables {
    /// The tunnel options that are mapped to fields.
    pub(super) fn tlv(&self) -> Arc<TlvMap> {
        Arc::clone(&self.tlv.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes which tunnel options are mapped to fields. Returns those that are now.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with; nothing has changed then.
    pub(crate) fn modify_tlv(&self, table_mod: &TlvTableMod) -> Result<Arc<TlvMap>, OfError> {
        // Whatever a rule is added to waits until the options are those that it is to have.
        let mut own = self.tlv.write().unwrap_or_else(PoisonError::into_inner);
        let mut tlv = TlvMap::clone(&own);
        let mut removed = Vec::new();
        match table_mod.command {
            TlvCommand::Add => {
                table_mod.mappings.iter().try_for_each(|mapping| tlv.add(mapping))?;
            }
            TlvCommand::Delete => {
                let indices = table_mod.mappings.iter().map(|mapping| mapping.index as u8);
                removed.extend(indices.filter(|index| tlv.get(*index).is_some()));
            }
            TlvCommand::Clear => removed.extend(tlv.iter().map(|(index, _)| index)),
        }
        if !removed.is_empty() {
            let everything = Criteria { include_hidden: true, ..Criteria::all() };
            let rules = self.select_with(&everything, self.pin().number(), &tlv);
            if rules.iter().any(|rule| removed.iter().any(|index| rule.uses_option(*index))) {
                return Err(OfError::TlvTableModInvalidTlvDel);
            }
            removed.iter().for_each(|index| tlv.remove(*index));
        }
        let tlv = Arc::new(tlv);
        *own = Arc::clone(&tlv);
        self.epoch.advance();
        Ok(tlv)
    }
}
