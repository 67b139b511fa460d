/* Subprograms: static and global ones in .text, one that calls another, and two programs that share them. */
#include "bpf_helpers.h"

u64 steps;

static __noinline u64 square(u64 x)
{
	steps++;
	return x * x;
}

__noinline int twice(int x)
{
	return square(x) + square(x + 1);
}

SEC("uprobe/first") int first(struct pt_regs *ctx)
{
	return square(PARM1(ctx));
}

SEC("uprobe/second") int second(struct pt_regs *ctx)
{
	return twice(PARM1(ctx)) + square(3);
}

char LICENSE[] SEC("license") = "GPL";
