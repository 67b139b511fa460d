/* Integer square roots of 32 numbers, bit by bit, without branches. */
#define MEMORY_BYTES 128
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	const u32 *numbers = (const u32 *)memory;
	u64 sum = 0;
	for (u32 i = 0; i < MEMORY_BYTES / 4; i++) {
		u64 rest = numbers[i], root = 0;
		for (u64 bit = 1u << 30; bit; bit >>= 2) {
			u64 next = root + bit;
			/* All ones where the bit is one of the root's. */
			u64 taken = ~((s64)(rest - next) >> 63);
			OPAQUE(taken);
			rest -= next & taken;
			root = (root >> 1) + (bit & taken);
		}
		sum = sum * 31 + root;
	}
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 23);
}
#endif
