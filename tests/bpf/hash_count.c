/* Counts by the first argument in a hash, as most tracing programs do. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u64);
} counts SEC(".maps");

SEC("uprobe/count") int count(struct pt_regs *ctx)
{
	u64 key = PARM1(ctx), one = 1;
	u64 *value = bpf_map_lookup_elem(&counts, &key);
	if (value)
		__sync_fetch_and_add(value, 1);
	else
		bpf_map_update_elem(&counts, &key, &one, BPF_NOEXIST);
	value = bpf_map_lookup_elem(&counts, &key);
	return value ? *value : -1;
}

char LICENSE[] SEC("license") = "GPL";
