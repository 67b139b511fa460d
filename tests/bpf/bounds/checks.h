/* Programs that are safe because of what they check, in the ways that ordinary C does and compilers turn it into. With -DUNCHECKED the
 * checks are not there, and none of the programs is safe. */
#ifndef WEIR_CHECKS_H
#define WEIR_CHECKS_H

#include "bpf_helpers.h"

#ifdef UNCHECKED
#define UNLESS(condition)
#define BOUND(value, most) (value)
#else
#define UNLESS(condition)                                                                                              \
	if (!(condition))                                                                                              \
	return 0
#define BOUND(value, most) ((value) > (most) ? (most) : (value))
#endif

/* The compiler must not know what it knows of a variable, or must keep two copies apart. */
#define HIDDEN(variable) asm volatile("" : "+r"(variable))
/* All other registers are in use: what lives across is in r6 to r9, or in the stack. */
#define CROWDED() asm volatile("" ::: "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "memory")

struct entry {
	u64 length;
	u32 count;
	s32 place;
	u16 kind;
	u8 small;
	s64 wide;
	u8 bytes[64];
	u32 words[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct entry);
} entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} out SEC(".maps");

static __always_inline struct entry *entry(u32 key)
{
	return bpf_map_lookup_elem(&entries, &key);
}

#endif
