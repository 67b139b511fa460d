/* Ethernet, up to two VLAN tags, IPv4 or IPv6, TCP or UDP: which layers a packet has, counted. */
#include "packet.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u64);
} layers SEC(".maps");

static __always_inline int found(u32 layer, int answer)
{
	u64 *count = bpf_map_lookup_elem(&layers, &layer);
	if (count)
		*count += 1;
	return answer;
}

static __always_inline int transport(u8 protocol, void *at, void *end)
{
	if (protocol == IPPROTO_TCP) {
		struct tcp *tcp = at;
		if ((void *)(tcp + 1) > end)
			return found(10, XDP_DROP);
		return found(6, tcp->flags & htons(0x12) ? XDP_PASS : XDP_TX);
	}
	if (protocol == IPPROTO_UDP) {
		struct udp *udp = at;
		if ((void *)(udp + 1) > end)
			return found(11, XDP_DROP);
		return found(7, htons(udp->bytes) < sizeof(*udp) ? XDP_DROP : XDP_PASS);
	}
	return found(8, XDP_PASS);
}

SEC("xdp") int parse(struct xdp_md *ctx)
{
	void *end = END(ctx);
	struct ethernet *ethernet = START(ctx);
	void *at = ethernet + 1;
	if (at > end)
		return found(0, XDP_ABORTED);
	u16 protocol = ethernet->protocol;
#pragma unroll
	for (int tags = 0; tags < 2; tags++) {
		if (protocol != htons(ETH_P_VLAN) && protocol != htons(ETH_P_QINQ))
			break;
		struct vlan *vlan = at;
		if ((void *)(vlan + 1) > end)
			return found(1, XDP_DROP);
		protocol = vlan->protocol;
		at = vlan + 1;
		found(2, 0);
	}
	if (protocol == htons(ETH_P_IP)) {
		struct ipv4 *ip = at;
		if ((void *)(ip + 1) > end)
			return found(3, XDP_DROP);
		u32 bytes = (ip->version_words & 15) * 4;
		if (bytes < sizeof(*ip) || at + bytes > end)
			return found(4, XDP_DROP);
		return transport(ip->protocol, at + bytes, end);
	}
	if (protocol == htons(ETH_P_IPV6)) {
		struct ipv6 *ip = at;
		if ((void *)(ip + 1) > end)
			return found(5, XDP_DROP);
		return transport(ip->next, ip + 1, end);
	}
	return found(9, XDP_PASS);
}

char LICENSE[] SEC("license") = "GPL";
