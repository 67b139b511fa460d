/* Classifiers: headers by address, as far as the packet goes, with packet loads, copies and fields beside; and one that
   writes, to the packet and to what it may of its context. */
#include "packet.h"

u64 load_half(void *ctx, u64 offset) asm("llvm.bpf.load.half");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u64);
} bytes SEC(".maps");

SEC("tc") int ports(struct __sk_buff *ctx)
{
	u32 key;
	struct ethernet *ethernet = START(ctx);
	struct ipv4 *ip = (void *)(ethernet + 1);

	if ((void *)(ip + 1) > END(ctx) || ctx->protocol != htons(ETH_P_IP))
		return load_half(ctx, 12) + ctx->pkt_type;
	key = ip->protocol;
	u64 *count = bpf_map_lookup_elem(&bytes, &key);
	if (count)
		*count += ctx->wire_len;
	struct udp *udp = (void *)ip + (ip->version_words & 15) * 4;
	if ((void *)(udp + 1) > END(ctx))
		return ctx->len;
	return udp->to + load_half(ctx, -0x100000 + 2);
}

SEC("tcx/ingress") int marks(struct __sk_buff *ctx)
{
	u8 link[14] = {};
	u8 *at = START(ctx), *end = END(ctx);
	long size = end - at;
	u32 sum = bpf_skb_load_bytes_relative(ctx, 0, link, 14, BPF_HDR_START_MAC);

	/* Addresses in a packet have no lower halves. */
	asm volatile("" : "+r"(size));
	ctx->mark = ctx->len;
	ctx->priority = link[13] + size;
	ctx->tc_index = 0x12340 + link[3];
	ctx->tc_classid = link[12] << 15;
	ctx->queue_mapping = 3;
	ctx->tstamp = 1ull << 40 | link[0];
	ctx->cb[1] = ctx->tc_index ^ ctx->tc_classid;
	ctx->cb[3] = (ctx->tstamp >> 38) + ctx->queue_mapping;
	for (int i = 0; i < 32 && at + 2 <= end; i++, at += 2) {
		u8 first = at[0];
		at[0] = at[1];
		at[1] = first + i;
		sum = sum * 31 + first;
	}
	return sum;
}

char LICENSE[] SEC("license") = "GPL";
