/* A look-up in an array. */
#include "op.h"

#ifdef VM_MAP
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 10240);
	__type(key, u32);
	__type(value, u64);
} numbers MAP;

INLINE u64 operation(u32 key)
{
	u64 *value = bpf_map_lookup_elem(&numbers, &key);
	return value ? *value : 0;
}
#endif
