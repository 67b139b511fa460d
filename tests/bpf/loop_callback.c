/* bpf_loop: a callback with a context in the caller's stack, one inside the other, and one that stops. */
#include "bpf_helpers.h"

struct search {
	u64 wanted;
	u64 found;
	u64 seen;
};

u64 table[16];

static int fill(u32 index, void *unused)
{
	if (index < 16)
		table[index] = index * index;
	return 0;
}

static int look(u32 index, struct search *search)
{
	search->seen++;
	if (index >= 16)
		return 1;
	if (table[index] != search->wanted)
		return 0;
	search->found = index;
	return 1;
}

static int inner(u32 index, u64 *sum)
{
	*sum += index;
	return 0;
}

static int outer(u32 index, u64 *sum)
{
	bpf_loop(index, inner, sum, 0);
	return 0;
}

SEC("uprobe/find") int find(struct pt_regs *ctx)
{
	struct search search = { .wanted = PARM1(ctx), .found = 99 };

	bpf_loop(16, fill, 0, 0);
	bpf_loop(1 << 20, look, &search, 0);
	return search.seen << 16 | search.found;
}

SEC("uprobe/triangles") int triangles(struct pt_regs *ctx)
{
	u64 sum = 0;
	long rounds = bpf_loop(PARM1(ctx), outer, &sum, 0);

	return rounds < 0 ? rounds : sum;
}

char LICENSE[] SEC("license") = "GPL";
