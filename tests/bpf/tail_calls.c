/* Tail calls: an array of programs that is filled in its definition; a chain, a program that calls itself, and a slot
   that is empty. */
#include "bpf_helpers.h"

u64 trace;
u64 rounds;

int add(struct pt_regs *ctx);
int times(struct pt_regs *ctx);
int again(struct pt_regs *ctx);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 8);
	__uint(key_size, sizeof(u32));
	__array(values, int (void *));
} steps SEC(".maps") = {
	.values = {
		[1] = (void *)&add,
		[2] = (void *)&times,
		[5] = (void *)&again,
	},
};

static __always_inline void mark(u64 digit)
{
	trace = trace * 10 + digit;
}

SEC("uprobe/start") int start(struct pt_regs *ctx)
{
	trace = 0;
	rounds = 0;
	mark(1);
	bpf_tail_call(ctx, &steps, PARM1(ctx));
	mark(9);
	return trace;
}

SEC("uprobe/add") int add(struct pt_regs *ctx)
{
	mark(2);
	bpf_tail_call(ctx, &steps, 2);
	return 0;
}

SEC("uprobe/times") int times(struct pt_regs *ctx)
{
	mark(3);
	bpf_tail_call(ctx, &steps, 7);
	mark(4);
	return trace;
}

SEC("uprobe/again") int again(struct pt_regs *ctx)
{
	rounds++;
	bpf_tail_call(ctx, &steps, 5);
	return rounds;
}

char LICENSE[] SEC("license") = "GPL";
