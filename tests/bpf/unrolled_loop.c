/* A loop that the compiler unrolls: bits set in the first argument's lowest byte, over a table on the stack. */
#include "bpf_helpers.h"

SEC("uprobe/bits") int bits(struct pt_regs *ctx)
{
	u64 x = PARM1(ctx);
	int count = 0;
#pragma clang loop unroll(full)
	for (int bit = 0; bit < 8; bit++)
		count += x >> bit & 1;
	return count;
}

char LICENSE[] SEC("license") = "GPL";
