/* Variables of all three sections: constants, with a first value, and zero at first. */
#include "bpf_helpers.h"

const volatile u32 factor = 7;
const volatile u8 table[8] = { 1, 1, 2, 3, 5, 8, 13, 21 };
u64 calls = 40;
u64 sum;
static u64 last[2];

SEC("uprobe/work") int work(struct pt_regs *ctx)
{
	u64 x = PARM1(ctx);
	last[1] = last[0];
	last[0] = x;
	calls++;
	sum += x * factor + table[x & 7];
	return sum * 1000 + calls + last[1];
}

char LICENSE[] SEC("license") = "GPL";
