/* A new value of this CPU's for a key that is there, in a per-CPU hash. */
#include "op.h"

#ifdef VM_MAP
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 10240);
	__type(key, u32);
	__type(value, u64);
} numbers MAP;

INLINE u64 operation(u32 key)
{
	u64 value = key;
	return bpf_map_update_elem(&numbers, &key, &value, BPF_ANY);
}
#endif
