/* Counts in a per-CPU array, by keys that are data: 128 events. */
#define MEMORY_BYTES 512
#define VM_NEEDS_MAPS
#include "vm.h"

#ifdef VM_MAP
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} counts MAP;

INLINE u64 run(u8 *memory)
{
	const u32 *events = (const u32 *)memory;
	u64 sum = 0;
	for (u32 i = 0; i < MEMORY_BYTES / 4; i++) {
		u32 key = events[i] & 63;
		u64 *count = bpf_map_lookup_elem(&counts, &key);
		if (count) {
			__sync_fetch_and_add(count, 1);
			sum += key;
		}
	}
	return sum;
}
#endif

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 29);
}
#endif
