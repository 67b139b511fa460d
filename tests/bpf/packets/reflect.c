/* Sends a packet back: addresses exchanged, time to live one less, the checksum adapted. Writes into the packet. */
#include "packet.h"

SEC("xdp") int reflect(struct xdp_md *ctx)
{
	struct ethernet *ethernet = START(ctx);
	struct ipv4 *ip = (void *)(ethernet + 1);
	if ((void *)(ip + 1) > END(ctx))
		return XDP_PASS;
	if (ethernet->protocol != htons(ETH_P_IP) || ip->ttl <= 1)
		return XDP_DROP;
	u8 to[6];
	__builtin_memcpy(to, ethernet->to, 6);
	__builtin_memcpy(ethernet->to, ethernet->from, 6);
	__builtin_memcpy(ethernet->from, to, 6);
	u32 from = ip->from;
	ip->from = ip->to;
	ip->to = from;
	ip->ttl--;
	u32 sum = ip->checksum + htons(0x0100);
	ip->checksum = sum + (sum >= 0xffff);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "GPL";
