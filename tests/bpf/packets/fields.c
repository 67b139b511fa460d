/* Fields of a socket filter's context, wide and narrow, and its five words. */
#include "packet.h"

SEC("socket/fields") int fields(struct __sk_buff *ctx)
{
	volatile u32 *cb = ctx->cb;
	cb[0] = ctx->len;
	cb[1] = cb[0] + ctx->pkt_type;
	*(volatile u16 *)&cb[2] = ctx->protocol;
	*(volatile u64 *)&cb[2] += (u64)cb[1] << 33;
	*(volatile u8 *)&cb[4] = ctx->ifindex;
	u32 mark = ctx->mark | ctx->priority | ctx->queue_mapping | ctx->vlan_present | ctx->tc_index;
	return cb[0] + cb[1] * 3 + cb[2] * 5 + cb[3] * 7 + *(volatile u8 *)&cb[4] * 11 + mark;
}

char LICENSE[] SEC("license") = "GPL";
