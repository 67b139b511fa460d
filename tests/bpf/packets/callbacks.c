/* Callbacks: the bytes of a packet's beginning counted in a hash by bpf_loop, the hash gone over and pruned by
   bpf_for_each_map_elem, and a loop inside a callback. */
#include "packet.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} sums SEC(".maps");

u8 bytes[16];

struct search {
	u32 wanted;
	u32 seen;
};

static long count(u64 index, struct search *search)
{
	u32 key;
	u64 *value, one = 1;

	if (index >= sizeof(bytes))
		return 1;
	key = bytes[index] & 31;
	search->seen++;
	value = bpf_map_lookup_elem(&counts, &key);
	if (value)
		*value += index;
	else
		bpf_map_update_elem(&counts, &key, &one, 0);
	return bytes[index] == search->wanted;
}

static long prune(void *map, u32 *key, u64 *value, u64 *sum)
{
	*sum += *key * *value;
	if (*value > 1000)
		bpf_map_delete_elem(map, key);
	return 0;
}

static long column(u64 index, u64 *product)
{
	*product = *product * 31 + index;
	return index == 5;
}

static long row(void *map, u32 *key, u64 *value, u64 *sum)
{
	u64 product = *value;

	bpf_loop(*key + 4, column, &product, 0);
	*value = product;
	*sum ^= product;
	return *key == 2 && (product & 3) == 0;
}

SEC("xdp") int calls(struct xdp_md *ctx)
{
	struct search search = {};
	u8 *start = START(ctx), *end = END(ctx);
	u64 sum = 0;
	long rounds, elements, rows;

	if (start + sizeof(bytes) > end)
		return 0;
	__builtin_memcpy(bytes, start, sizeof(bytes));
	search.wanted = bytes[13];
	rounds = bpf_loop(bytes[12], count, &search, 0);
	elements = bpf_for_each_map_elem(&counts, prune, &sum, 0);
	rows = bpf_for_each_map_elem(&sums, row, &sum, bytes[15] & 1);
	return (u32)(sum ^ sum >> 32) * 31 + rounds * 10000 + elements * 100 + rows * 10 + search.seen;
}

char LICENSE[] SEC("license") = "GPL";
