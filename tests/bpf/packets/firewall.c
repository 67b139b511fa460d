/* A list of addresses whose key is read from the packet itself, and a port from read-only data. */
#include "packet.h"

const volatile u16 blocked_port = 23;
const volatile u32 verdicts[4] = { XDP_PASS, XDP_DROP, XDP_TX, XDP_ABORTED };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__uint(key_size, 16);
	__uint(value_size, 4);
} seen SEC(".maps");

SEC("xdp") int filter(struct xdp_md *ctx)
{
	void *end = END(ctx);
	struct ethernet *ethernet = START(ctx);
	struct ipv6 *ip = (void *)(ethernet + 1);
	if ((void *)(ip + 1) > end || ethernet->protocol != htons(ETH_P_IPV6))
		return XDP_PASS;
	struct udp *udp = (void *)(ip + 1);
	if ((void *)(udp + 1) > end)
		return XDP_DROP;
	u32 one = 1, *times = bpf_map_lookup_elem(&seen, ip->from);
	if (times)
		__sync_fetch_and_add(times, 1);
	else
		bpf_map_update_elem(&seen, ip->from, &one, BPF_ANY);
	if (udp->to == htons(blocked_port))
		return XDP_DROP;
	return times ? verdicts[*times & 3] : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
