/* Greatest common divisors of 16 pairs by division: loops whose length is data. */
#define MEMORY_BYTES 128
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	const u32 *numbers = (const u32 *)memory;
	u64 sum = 0;
	for (u32 i = 0; i < MEMORY_BYTES / 4; i += 2) {
		u32 a = numbers[i], b = numbers[i + 1];
		/* Fibonacci's numbers take longest: 47 steps for 32 bits. */
		for (u32 step = 0; step < 48 && b; step++) {
			u32 rest = a % b;
			a = b;
			b = rest;
		}
		sum = sum * 31 + a;
	}
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	u32 *numbers = (u32 *)memory;
	random_fill(memory, MEMORY_BYTES, 22);
	for (u32 i = 0; i < MEMORY_BYTES / 4; i++)
		numbers[i] = (numbers[i] >> 8) * 60;
}
#endif
