/* Fibonacci's numbers modulo 2^64 through a function for each sum, 128 steps. */
#define MEMORY_BYTES 16
#include "vm.h"

NOINLINE u64 sum_of(u64 a, u64 b)
{
	return a + b;
}

INLINE u64 run(u8 *memory)
{
	const u64 *start = (const u64 *)memory;
	u64 a = start[0], b = start[1];
	for (u32 i = 0; i < 128; i++) {
		u64 next = sum_of(a, b);
		a = b;
		b = next;
	}
	return folded(a);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	u64 *start = (u64 *)memory;
	start[0] = 0;
	start[1] = 1;
}
#endif
