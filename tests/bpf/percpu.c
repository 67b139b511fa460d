/* Both per-CPU kinds, changed by atomic additions whose result is not used. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} total SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} by_size SEC(".maps");

SEC("uprobe/alloc") int alloc(struct pt_regs *ctx)
{
	u32 zero = 0, size = PARM1(ctx) & 63;
	u64 none = 0;
	u64 *value = bpf_map_lookup_elem(&total, &zero);
	if (value)
		__sync_fetch_and_add(value, PARM1(ctx));
	value = bpf_map_lookup_elem(&by_size, &size);
	if (!value) {
		bpf_map_update_elem(&by_size, &size, &none, BPF_NOEXIST);
		value = bpf_map_lookup_elem(&by_size, &size);
	}
	if (!value)
		return -1;
	__sync_fetch_and_add(value, 1);
	return size;
}

char LICENSE[] SEC("license") = "GPL";
