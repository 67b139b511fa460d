/* Routes by the longest prefix of an address: added, found, replaced, deleted, and more than fit. */
#include "bpf_helpers.h"

struct route {
	u32 length;
	u8 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4);
	__type(key, struct route);
	__type(value, u64);
} routes SEC(".maps");

static __noinline int add(u32 length, u32 address, u64 hop)
{
	struct route route = { length, { address >> 24, address >> 16, address >> 8, address } };

	return bpf_map_update_elem(&routes, &route, &hop, BPF_ANY);
}

static __noinline u64 hop(u32 length, u32 address)
{
	struct route route = { length, { address >> 24, address >> 16, address >> 8, address } };
	u64 *found = bpf_map_lookup_elem(&routes, &route);

	return found ? *found : 9;
}

static __noinline int drop(u32 length, u32 address)
{
	struct route route = { length, { address >> 24, address >> 16, address >> 8, address } };

	return bpf_map_delete_elem(&routes, &route);
}

static __noinline u64 find_all(u64 digest)
{
	digest = digest * 10 + hop(32, 0x0a010203);
	digest = digest * 10 + hop(32, 0x0a010300);
	digest = digest * 10 + hop(32, 0x0aff0000);
	digest = digest * 10 + hop(16, 0x0a010203);
	return digest * 10 + hop(32, 0xc0a80001);
}

SEC("uprobe/route") int route(struct pt_regs *ctx)
{
	u64 digest = 0;

	digest = add(8, 0x0affffff, 1);
	digest += add(16, 0x0a010000, 2);
	digest += add(24, 0x0a010200, 3);
	digest += add(33, 0, 8) == -22;
	digest = find_all(digest);
	digest += drop(16, 0x0a01ffff);
	digest = find_all(digest);
	digest += add(0, 0, 4) + add(24, 0x0a010200, 5) + add(32, 0x0a010203, 6);
	digest = find_all(digest);
	return digest * 100 - add(1, 0, 7) + drop(16, 0x0a010000);
}

char LICENSE[] SEC("license") = "GPL";
