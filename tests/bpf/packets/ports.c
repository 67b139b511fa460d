/* Bytes and packets by destination port, in a hash. */
#include "packet.h"

struct traffic {
	u64 packets, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u16);
	__type(value, struct traffic);
} ports SEC(".maps");

SEC("xdp") int count(struct xdp_md *ctx)
{
	void *start = START(ctx), *end = END(ctx);
	struct ipv4 *ip = start + sizeof(struct ethernet);
	if ((void *)(ip + 1) > end || ip->version_words != 0x45)
		return XDP_PASS;
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
	u16 *numbers = (void *)(ip + 1);
	if ((void *)(numbers + 2) > end)
		return XDP_DROP;
	u16 port = htons(numbers[1]);
	struct traffic one = { 1, end - start }, *found = bpf_map_lookup_elem(&ports, &port);
	if (!found)
		return bpf_map_update_elem(&ports, &port, &one, BPF_NOEXIST) ? XDP_ABORTED : XDP_PASS;
	__sync_fetch_and_add(&found->packets, 1);
	__sync_fetch_and_add(&found->bytes, end - start);
	return found->packets > 2 ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
