/* Forty keys through an LRU map with room for sixteen: each is there right after its update, whoever had to go. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u64);
} recent SEC(".maps");

SEC("uprobe/work") int pass(struct pt_regs *ctx)
{
	u64 sum = 0;

	for (u32 n = 0; n < 40; n++) {
		u32 key = 39 - n;
		u64 value = n, *found;

		if (bpf_map_update_elem(&recent, &key, &value, BPF_NOEXIST))
			return -1;
		found = bpf_map_lookup_elem(&recent, &key);
		if (!found)
			return -2;
		sum += *found;
		__sync_fetch_and_add(found, 1);
	}
	return sum;
}

char LICENSE[] SEC("license") = "GPL";
