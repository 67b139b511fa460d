/* An array, its look-ups by constant index, and a program of the older style: sizes instead of types. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 16);
	__uint(max_entries, 4);
} sums SEC(".maps");

SEC("uprobe") int sum(struct pt_regs *ctx)
{
	u32 index = 2;
	u64 *value = bpf_map_lookup_elem(&sums, &index);
	if (!value)
		return -1;
	value[0] += PARM1(ctx) + PARM2(ctx);
	value[1] += 1;
	return value[0] * 10 + value[1];
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
