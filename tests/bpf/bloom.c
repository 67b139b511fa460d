/* Asks a Bloom filter before a hash, as programs do to be spared most look-ups. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
	__uint(max_entries, 1000);
	__uint(map_extra, 3);
	__type(value, u64);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u64);
	__type(value, u64);
} counts SEC(".maps");

static __noinline u64 *find(u64 key)
{
	if (bpf_map_peek_elem(&seen, &key))
		return 0;
	return bpf_map_lookup_elem(&counts, &key);
}

/* Keys that are pushed are found, whatever the hash function; a flag that is not allowed is refused. */
SEC("uprobe/filter") int filter(struct pt_regs *ctx)
{
	u64 one = 1, found = 0;

	for (u64 key = 0; key < 8; key++) {
		bpf_map_push_elem(&seen, &key, BPF_ANY);
		bpf_map_update_elem(&counts, &key, &one, BPF_ANY);
	}
	for (u64 key = 0; key < 16; key++) {
		u64 *count = find(key);

		if (count)
			found += *count;
	}
	return found * 1000 - bpf_map_push_elem(&seen, &one, BPF_EXIST);
}

char LICENSE[] SEC("license") = "GPL";
