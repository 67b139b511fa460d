/* Every width of load and store into a packet, with and without sign, at odd places. */
#include "packet.h"

SEC("xdp.frags") int scramble(struct xdp_md *ctx)
{
	u8 *p = START(ctx);
	u32 interface = *(volatile u32 *)&ctx->ingress_ifindex;
	if (p + 40 >= (u8 *)END(ctx))
		return interface;
	*(u64 *)(p + 1) = *(u64 *)(p + 9) + *(volatile s32 *)(p + 18);
	*(u32 *)(p + 23) ^= *(volatile signed char *)(p + 40);
	*(u16 *)(p + 31) -= *(volatile short *)(p + 5);
	p[37] = p[3] * p[4];
	return *(u32 *)(p + 35);
}

char LICENSE[] SEC("license") = "GPL";
