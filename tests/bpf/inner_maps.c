/* Maps that hold maps: named before they are loaded, or like a map that nobody names; what is held is used as any map. */
#include "bpf_helpers.h"

struct counts {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u64);
};

struct counts even SEC(".maps"), odd SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 4);
	__type(key, u32);
	__array(values, struct counts);
} by_parity SEC(".maps") = {
	.values = { [0] = &even, [1] = &odd },
};

struct slots {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} some_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 8);
	__type(key, u32);
	__array(values, struct slots);
} by_number SEC(".maps") = {
	.values = { [0] = (void *)0, [1] = (void *)0, [2] = &some_slots },
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 1);
		__type(key, u32);
		__type(value, u32);
	});
} empty SEC(".maps");

/* Each number of 0 to 3 is counted in the map of its parity, and is in no other. */
SEC("uprobe/work") int parity(struct pt_regs *ctx)
{
	u64 digest = 0;

	for (u32 i = 0; i < 4; i++) {
		u32 n = i, which = i & 1;
		u64 one = i + 1;
		void *map = bpf_map_lookup_elem(&by_parity, &which);

		if (!map)
			return -1;
		digest = digest * 3 - bpf_map_update_elem(map, &n, &one, BPF_NOEXIST);
		u64 *value = bpf_map_lookup_elem(map, &n);

		if (value)
			digest += __sync_fetch_and_add(value, 2);
	}
	u32 none = 2, absent = 4, one = 1;

	digest = digest * 8 + !!bpf_map_lookup_elem(&odd, &one) + 2 * !!bpf_map_lookup_elem(&even, &one);

	return digest + 1000 * !bpf_map_lookup_elem(&by_parity, &none) + 2000 * !bpf_map_lookup_elem(&by_parity, &absent);
}

SEC("uprobe/work") int numbered(struct pt_regs *ctx)
{
	u32 number = 2, none = 3, third = 3;
	void *map = bpf_map_lookup_elem(&by_number, &number);

	if (!map || bpf_map_lookup_elem(&by_number, &none) || bpf_map_lookup_elem(&empty, &number))
		return -1;
	u64 value = 40;

	bpf_map_update_elem(map, &third, &value, BPF_ANY);
	u64 *found = bpf_map_lookup_elem(&some_slots, &third);

	if (!found)
		return -2;
	*found += 2;
	u64 *again = bpf_map_lookup_elem(map, &third);

	return again ? *again : -3;
}

char LICENSE[] SEC("license") = "GPL";
