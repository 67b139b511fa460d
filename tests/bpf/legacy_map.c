/* A map in the form before BTF: a struct bpf_map_def in the section maps. */
#include "bpf_helpers.h"

struct bpf_map_def {
	u32 type, key_size, value_size, max_entries, map_flags;
};

struct bpf_map_def SEC("maps") unused = {
	.type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1,
};

struct bpf_map_def SEC("maps") counts = {
	.type = BPF_MAP_TYPE_HASH, .key_size = 8, .value_size = 8, .max_entries = 16,
};

SEC("uprobe/count") int count(struct pt_regs *ctx)
{
	u64 key = 5, value = PARM1(ctx);
	if (bpf_map_update_elem(&counts, &key, &value, BPF_ANY))
		return -1;
	u64 *found = bpf_map_lookup_elem(&counts, &key);
	return found ? *found : -2;
}

char LICENSE[] SEC("license") = "GPL";
