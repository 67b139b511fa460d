/* bpf_for_each_map_elem over a hash and an array: sums, a search that stops, and a callback that deletes. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64);
} sizes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u64);
} slots SEC(".maps");

struct total {
	u64 keys;
	u64 values;
};

static u64 add(void *map, u64 *key, u64 *value, struct total *total)
{
	total->keys += *key;
	total->values += *value;
	return 0;
}

static u64 drop(void *map, u64 *key, u64 *value, u64 *limit)
{
	if (*value < *limit)
		bpf_map_delete_elem(map, key);
	return 0;
}

static u64 find(void *map, u32 *index, u64 *value, u64 *wanted)
{
	if (*value == *wanted)
		return 1;
	*value = *index * 10;
	return 0;
}

SEC("uprobe/insert") int insert(struct pt_regs *ctx)
{
	u64 key = PARM1(ctx), value = PARM2(ctx);

	return bpf_map_update_elem(&sizes, &key, &value, 0);
}

SEC("uprobe/sum") int sum(struct pt_regs *ctx)
{
	struct total total = {};
	long count = bpf_for_each_map_elem(&sizes, add, &total, 0);

	return count << 24 | total.keys << 12 | total.values;
}

SEC("uprobe/prune") int prune(struct pt_regs *ctx)
{
	u64 limit = PARM1(ctx);

	return bpf_for_each_map_elem(&sizes, drop, &limit, 0);
}

SEC("uprobe/search") int search(struct pt_regs *ctx)
{
	u64 wanted = PARM1(ctx);

	return bpf_for_each_map_elem(&slots, find, &wanted, PARM2(ctx));
}

char LICENSE[] SEC("license") = "GPL";
