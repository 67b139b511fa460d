/* A switch with many branches, and a wide constant. */
#include "bpf_helpers.h"

SEC("uprobe/op") int op(struct pt_regs *ctx)
{
	u64 x = PARM2(ctx), y = PARM3(ctx);
	switch (PARM1(ctx)) {
	case 0: return x + y;
	case 1: return x - y;
	case 2: return x * y;
	case 3: return y ? x / y : 0;
	case 4: return x ^ y;
	case 5: return x << (y & 63);
	case 6: return (x * 0x9e3779b97f4a7c15ULL) >> 40;
	case 7: return __builtin_bswap32(x);
	default: return -1;
	}
}

char LICENSE[] SEC("license") = "GPL";
