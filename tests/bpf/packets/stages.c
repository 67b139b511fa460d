/* Tail calls: a parser whose stages are programs, chosen by what the packet says. */
#include "packet.h"

u64 path;
u64 depth;

int link(struct xdp_md *ctx);
int network(struct xdp_md *ctx);
int tags(struct xdp_md *ctx);
int last(struct xdp_md *ctx);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 16);
	__uint(key_size, sizeof(u32));
	__array(values, int (void *));
} stages SEC(".maps") = {
	.values = {
		[0] = (void *)&link,
		[4] = (void *)&network,
		[6] = (void *)&network,
		[8] = (void *)&tags,
		[9] = (void *)&last,
	},
};

static __always_inline int stage(struct xdp_md *ctx, u32 next, u32 digit)
{
	path = path * 16 + digit;
	bpf_tail_call(ctx, &stages, next);
	path = path * 16 + 15;
	return path;
}

SEC("xdp") int begin(struct xdp_md *ctx)
{
	path = 0;
	depth = 0;
	return stage(ctx, 0, 1);
}

SEC("xdp") int link(struct xdp_md *ctx)
{
	struct ethernet *header = START(ctx);

	if ((void *)(header + 1) > END(ctx))
		return stage(ctx, 20, 2);
	switch (header->protocol) {
	case htons(ETH_P_IP):
		return stage(ctx, 4, 3);
	case htons(ETH_P_IPV6):
		return stage(ctx, 6, 4);
	case htons(ETH_P_VLAN):
	case htons(ETH_P_QINQ):
		return stage(ctx, 8, 5);
	}
	return stage(ctx, header->from[5], 6);
}

SEC("xdp") int network(struct xdp_md *ctx)
{
	u8 *header = START(ctx) + sizeof(struct ethernet);

	if (header + 1 > (u8 *)END(ctx))
		return -1;
	return stage(ctx, *header & 1 ? 9 : 3, *header >> 4);
}

/* Calls itself until no more calls are left. */
SEC("xdp") int tags(struct xdp_md *ctx)
{
	depth++;
	bpf_tail_call(ctx, &stages, 8);
	return depth;
}

SEC("xdp") int last(struct xdp_md *ctx)
{
	path = path * 16 + 7;
	return path;
}

char LICENSE[] SEC("license") = "GPL";
