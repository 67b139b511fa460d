/* 512 look-ups in an array map, by keys that are data. */
#define MEMORY_BYTES 2048
#define VM_NEEDS_MAPS
#include "vm.h"

#ifdef VM_MAP
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} numbers MAP;

INLINE u64 run(u8 *memory)
{
	const u32 *keys = (const u32 *)memory;
	u64 sum = 0;
	for (u32 i = 0; i < MEMORY_BYTES / 4; i++) {
		u32 key = keys[i] & 1023;
		u64 *number = bpf_map_lookup_elem(&numbers, &key);
		if (number)
			sum += *number;
	}
	return folded(sum);
}
#endif

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 27);
}
#endif
