/* A histogram of sizes by packet type, in two maps, of a socket filter. */
#include "packet.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 32);
	__type(key, u32);
	__type(value, u32);
} sizes SEC(".maps");

u64 total;

SEC("socket") int size(struct __sk_buff *ctx)
{
	u32 slot = 0, len = ctx->len;
	total += len;
#pragma unroll
	for (int i = 0; i < 5; i++)
		slot += len >= (16u << i);
	slot = slot * 4 + (ctx->pkt_type & 3);
	u32 *count = bpf_map_lookup_elem(&sizes, &slot);
	return count ? ++*count : 0;
}

char LICENSE[] SEC("license") = "GPL";
