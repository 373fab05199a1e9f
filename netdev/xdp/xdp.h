// What the programs need of the kernel's interface (linux/bpf.h), so that no kernel headers are
// needed to build them.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// struct xdp_md: a packet as a program sees it.
struct packet {
    u32 data;
    u32 data_end;
    u32 data_meta;
    u32 ingress_ifindex;
    u32 rx_queue_index;
    u32 egress_ifindex;
};

// enum xdp_action: what becomes of a packet.
enum verdict {
    XDP_PASS = 2,
};

// Helpers of the kernel, by number.
static long (*const redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
static long (*const adjust_meta)(struct packet *packet, int delta) = (void *)54;

// The socket of each receive queue; made when a program is loaded.
extern u8 sockets;
