// As redirect.c, for drivers that tell more of a packet than its bytes: what they tell is put in
// front of the packet, where src/afxdp/metadata.rs reads it.

#include "xdp.h"

#define MAGIC 0x534c4d31
#define HAS_HASH 1
#define HAS_TAG 2
// XDP_RSS_L4 of enum xdp_rss_hash_type: the hash is over addresses and ports.
#define HASH_OF_PORTS (1 << 3)

struct metadata {
    u32 magic;
    u32 flags;
    u32 hash;
    u16 tag_protocol; // as on the wire
    u16 tag_control;
};

// Functions of the kernel that ask the driver.
extern int bpf_xdp_metadata_rx_hash(const struct packet *packet, u32 *hash, u32 *type);
extern int bpf_xdp_metadata_rx_vlan_tag(const struct packet *packet, u16 *protocol, u16 *control);

int metadata(struct packet *packet)
{
    u32 flags = 0, hash = 0, hash_type = 0;
    u16 tag_protocol = 0, tag_control = 0;

    if (!bpf_xdp_metadata_rx_hash(packet, &hash, &hash_type) && (hash_type & HASH_OF_PORTS))
        flags |= HAS_HASH;
    if (!bpf_xdp_metadata_rx_vlan_tag(packet, &tag_protocol, &tag_control))
        flags |= HAS_TAG;

    if (!adjust_meta(packet, -(int)sizeof(struct metadata))) {
        struct metadata *place = (void *)(unsigned long)packet->data_meta;
        if ((void *)(place + 1) <= (void *)(unsigned long)packet->data) {
            place->magic = MAGIC;
            place->flags = flags;
            place->hash = hash;
            place->tag_protocol = tag_protocol;
            place->tag_control = tag_control;
        }
    }
    return redirect_map(&sockets, packet->rx_queue_index, XDP_PASS);
}
