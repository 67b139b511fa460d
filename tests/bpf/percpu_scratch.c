/* Per-CPU values as compilers use them: read and stored, as scratch memory, as a helper's argument, and set by key. */
#include "bpf_helpers.h"

struct scratch {
	u64 calls;
	u32 sizes[4];
	u64 largest;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64);
} by_size SEC(".maps");

/* How often the size came, in the lower 16 bits; above it the calls. */
SEC("uprobe/alloc") int seen(struct pt_regs *ctx)
{
	u32 zero = 0;
	u64 size = PARM1(ctx), one = 1;
	struct scratch *mine = bpf_map_lookup_elem(&scratch, &zero);
	if (!mine)
		return -1;
	mine->calls++;
	mine->sizes[mine->calls & 3] = size;
	if (size > mine->largest)
		mine->largest = size;
	u64 *times = bpf_map_lookup_elem(&by_size, &mine->largest);
	if (times) {
		(*times)++;
		return mine->calls << 16 | *times;
	}
	bpf_map_update_elem(&by_size, &mine->largest, &one, BPF_ANY);
	return mine->calls << 16 | 1;
}

char LICENSE[] SEC("license") = "GPL";
