/* What the programs of this folder need of the kernel's headers: contexts and the headers of packets. */
#ifndef WEIR_PACKET_H
#define WEIR_PACKET_H

#include "bpf_helpers.h"

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id;
	u32 addresses[12], data_meta;
	u64 flow_keys, tstamp;
	u32 wire_len, gso_segs;
	u64 sk;
	u32 gso_size;
	u8 tstamp_type;
};

enum { BPF_HDR_START_MAC, BPF_HDR_START_NET };

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX };

#define ETH_P_IP 0x0800
#define ETH_P_VLAN 0x8100
#define ETH_P_QINQ 0x88a8
#define ETH_P_IPV6 0x86dd
#define IPPROTO_ICMP 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

#define htons(x) __builtin_bswap16(x)
#define htonl(x) __builtin_bswap32(x)

struct ethernet {
	u8 to[6], from[6];
	u16 protocol;
} __attribute__((packed));

struct vlan {
	u16 tag, protocol;
};

struct ipv4 {
	u8 version_words, service;
	u16 bytes, id, fragment;
	u8 ttl, protocol;
	u16 checksum;
	u32 from, to;
};

struct ipv6 {
	u32 version;
	u16 bytes;
	u8 next, hops;
	u8 from[16], to[16];
};

struct tcp {
	u16 from, to;
	u32 sequence, acknowledged;
	u16 flags, window, checksum, urgent;
};

struct udp {
	u16 from, to, bytes, checksum;
};

#define START(ctx) ((void *)(long)(ctx)->data)
#define END(ctx) ((void *)(long)(ctx)->data_end)

#endif
