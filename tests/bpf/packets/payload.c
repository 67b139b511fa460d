/* Hashes the payload byte by byte, as far as 64 bytes, in a function that is called. */
#include "packet.h"

static __noinline u32 hash(u8 *at, u8 *end, u32 from)
{
	u32 hash = from;
	for (int i = 0; i < 64; i++) {
		if (at + 1 > end)
			break;
		hash = (hash ^ *at++) * 0x01000193;
	}
	return hash;
}

SEC("xdp") int payload(struct xdp_md *ctx)
{
	u8 *start = START(ctx), *end = END(ctx);
	if (start + 34 > end)
		return 0;
	return hash(start + 34, end, 0x811c9dc5 + ctx->rx_queue_index);
}

char LICENSE[] SEC("license") = "GPL";
