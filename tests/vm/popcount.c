/* Bit counting without the instruction: the parallel sums of SWAR, over 512 words. */
#define MEMORY_BYTES 4096
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	const u64 *words = (const u64 *)memory;
	u64 bits = 0;
	for (u32 i = 0; i < MEMORY_BYTES / 8; i++) {
		u64 x = words[i];
		x -= x >> 1 & 0x5555555555555555ULL;
		x = (x & 0x3333333333333333ULL) + (x >> 2 & 0x3333333333333333ULL);
		x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
		bits += x * 0x0101010101010101ULL >> 56;
	}
	return bits;
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 1);
}
#endif
