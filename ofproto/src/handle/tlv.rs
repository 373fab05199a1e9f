//! Which tunnel options are mapped to fields.

use super::Reply;
use crate::openflow::error::OfError;
use crate::openflow::kind::Raw;
use crate::openflow::message::{TlvTable, TlvTableMod};
use crate::openflow::slot::N_TUN_METADATA;
use crate::openflow::tlv_map::SPACE;
use crate::openflow::version::Version;
use crate::switch::Switch;

/// Changes it.
pub(super) fn table_mod(switch: &mut Switch, raw: &Raw<'_>) -> Result<Reply, OfError> {
    switch.modify_tlv(&TlvTableMod::decode(raw)?)?;
    Ok(Reply::none())
}

/// Tells it.
pub(super) fn table(switch: &Switch, raw: &Raw<'_>, version: Version) -> Reply {
    let table = TlvTable {
        max_option_space: SPACE as u32,
        max_fields: N_TUN_METADATA.into(),
        mappings: switch.tlv().mappings(),
    };
    Reply::Messages(vec![table.encode(version, raw.header.xid)])
}
