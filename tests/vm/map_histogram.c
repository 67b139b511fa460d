/* A histogram by powers of two in a hash map, as tracing programs keep: 64 numbers, counted in place. */
#define MEMORY_BYTES 256
#define VM_NEEDS_MAPS
#include "vm.h"

#ifdef VM_MAP
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} buckets MAP;

INLINE u64 run(u8 *memory)
{
	const u32 *numbers = (const u32 *)memory;
	u64 found = 0;
	for (u32 i = 0; i < MEMORY_BYTES / 4; i++) {
		u32 number = numbers[i] >> (i & 31), key = 0;
		for (u32 shift = 16; shift > 0; shift >>= 1)
			if (number >> shift) {
				number >>= shift;
				key += shift;
			}
		u64 *count = bpf_map_lookup_elem(&buckets, &key);
		if (count) {
			__sync_fetch_and_add(count, 1);
			found += key;
		}
	}
	return found;
}
#endif

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 28);
}
#endif
