//! GRE, and ERSPAN inside it.

use netdev::checksum::add_range;
use netdev::packet::PacketRef;
use netdev::wire::checksum::Sum;
use netdev::wire::erspan::{self, ErspanHeader, ErspanMetadata};
use netdev::wire::ethernet::{self, ether_type};
use netdev::wire::gre::{self, GreHeader};
use netdev::wire::ip_protocol;
use zerocopy::network_endian::U32;

use super::outer::{Outer, read};
use super::{Inside, PopError};
use crate::flow::tunnel_flag;

pub(super) fn gre(packet: PacketRef<'_>, outer: &mut Outer) -> Result<Inside, PopError> {
    outer.need(ip_protocol::GRE)?;
    let header: GreHeader = read(packet, outer.l4, outer.end, "gre")?;
    let flags = header.flags.get();
    if flags & !(gre::CHECKSUM | gre::KEY | gre::SEQUENCE) != 0 {
        return Err(PopError::Gre { flags });
    }
    let mut start = outer.l4 + size_of::<GreHeader>();
    for flag in [gre::CHECKSUM, gre::KEY, gre::SEQUENCE] {
        if flags & flag == 0 {
            continue;
        }
        let word: U32 = read(packet, start, outer.end, "gre")?;
        start += size_of::<U32>();
        match flag {
            gre::CHECKSUM => {
                if add_range(Sum::default(), packet, outer.l4, outer.end).finish() != 0 {
                    return Err(PopError::GreChecksum);
                }
                outer.add_flag(tunnel_flag::CSUM);
            }
            gre::KEY => {
                outer.tunnel.id.set(word.get().into());
                outer.add_flag(tunnel_flag::KEY);
            }
            _ => {}
        }
    }
    let l3_type = match header.protocol.get() {
        ether_type::TEB => 0,
        l3_type @ ethernet::MIN_TYPE.. => l3_type,
        protocol => return Err(PopError::Payload { protocol }),
    };
    Ok(Inside { start, l3_type })
}

pub(super) fn erspan(packet: PacketRef<'_>, outer: &mut Outer) -> Result<Inside, PopError> {
    outer.need(ip_protocol::GRE)?;
    let header: ErspanHeader = read(packet, outer.l4, outer.end, "erspan")?;
    let (flags, protocol) = (header.gre.flags.get(), header.gre.protocol.get());
    if !matches!(protocol, gre::ERSPAN1 | gre::ERSPAN2) {
        return Err(PopError::Payload { protocol });
    }
    if flags != gre::SEQUENCE {
        return Err(PopError::Gre { flags });
    }
    let version = (header.version_vlan.get() >> 12) as u8;
    let start = outer.l4 + size_of::<ErspanHeader>();
    let metadata = match (version, protocol) {
        (1, gre::ERSPAN1) => {
            let index: U32 = read(packet, start, outer.end, "erspan")?;
            outer.tunnel.erspan_index = index;
            size_of::<U32>()
        }
        (2, gre::ERSPAN2) => {
            let metadata: ErspanMetadata = read(packet, start, outer.end, "erspan")?;
            outer.tunnel.erspan_hwid = metadata.hardware_id();
            outer.tunnel.erspan_dir = metadata.direction();
            size_of::<ErspanMetadata>()
        }
        _ => return Err(PopError::ErspanVersion { version }),
    };
    let session = header.session.get() & erspan::SESSION_MASK;
    outer.tunnel.id.set(session.into());
    outer.tunnel.erspan_version = version;
    outer.add_flag(tunnel_flag::KEY);
    Ok(Inside { start: start + metadata, l3_type: 0 })
}
