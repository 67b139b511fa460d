/*
 * A thousand operations, one a round, by keys below 10,240 in an order that looks like none. An operation's answer is
 * summed, so that nothing can leave it out.
 */
#define MEMORY_BYTES 64
#define VM_NEEDS_MAPS
#include "vm.h"

#define ROUNDS 1000
#define ENTRIES 10240

#ifdef VM_MAP
INLINE u64 operation(u32 key);

INLINE u64 run(u8 *memory)
{
	/* A linear congruential generator (Numerical Recipes); the upper half is the better one. */
	u32 state = *(u32 *)memory;
	u64 sum = 0;
	for (u32 i = 0; i < ROUNDS; i++) {
		state = state * 1664525 + 1013904223;
		sum += operation((u64)(state >> 16) * ENTRIES >> 16);
	}
	return folded(sum);
}
#endif

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	*(u32 *)memory = 2026;
}
#endif
