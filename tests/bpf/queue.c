/* Elements through a queue and a stack: past full, past empty, and over the oldest; every answer in one number. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 3);
	__type(value, u64);
} jobs SEC(".maps");

struct pair {
	u64 first;
	u32 second;
};

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 3);
	__uint(value_size, sizeof(struct pair));
} frames SEC(".maps");

static __always_inline u64 mix(u64 digest, u64 value)
{
	return digest * 31 + value;
}

SEC("uprobe/work") int fifo(struct pt_regs *ctx)
{
	u64 digest = 0, value;

	for (value = 1; value <= 4; value++)
		digest = mix(digest, bpf_map_push_elem(&jobs, &value, BPF_ANY));
	value = 5;
	digest = mix(digest, bpf_map_push_elem(&jobs, &value, BPF_EXIST));
	digest = mix(digest, bpf_map_push_elem(&jobs, &value, BPF_NOEXIST));
	for (int i = 0; i < 5; i++) {
		digest = mix(digest, bpf_map_peek_elem(&jobs, &value));
		digest = mix(digest, value);
		digest = mix(digest, bpf_map_pop_elem(&jobs, &value));
		digest = mix(digest, value);
	}
	return digest;
}

SEC("uprobe/work") int lifo(struct pt_regs *ctx)
{
	u64 digest = 0;
	/* Its padding is part of the value. */
	struct pair pair;

	__builtin_memset(&pair, 0, sizeof(pair));
	for (pair.first = 1; pair.first <= 4; pair.first++) {
		pair.second = pair.first * 7;
		digest = mix(digest, bpf_map_push_elem(&frames, &pair, BPF_ANY));
	}
	digest = mix(digest, bpf_map_push_elem(&frames, &pair, BPF_EXIST));
	for (int i = 0; i < 5; i++) {
		struct pair taken;

		digest = mix(digest, bpf_map_peek_elem(&frames, &taken));
		digest = mix(digest, taken.first + taken.second);
		digest = mix(digest, bpf_map_pop_elem(&frames, &taken));
		digest = mix(digest, taken.first + taken.second);
	}
	return digest;
}

char LICENSE[] SEC("license") = "GPL";
