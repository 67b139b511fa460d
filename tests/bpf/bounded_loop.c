/* A loop that stays a loop: the digits of a number, from the least on, weighed by their place. */
#include "bpf_helpers.h"

SEC("uprobe/digits") int digits(struct pt_regs *ctx)
{
	u64 n = PARM1(ctx), sum = 0;
#pragma clang loop unroll(disable)
	for (u64 place = 1; place <= 10; place++) {
		sum += place * (n % 10);
		n /= 10;
	}
	return sum;
}

char LICENSE[] SEC("license") = "GPL";
