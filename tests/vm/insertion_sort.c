/* Insertion sort of 48 numbers, copied first; the answer depends on the order. */
#define MEMORY_BYTES 512
#include "vm.h"

#define COUNT 48

INLINE u64 run(u8 *memory)
{
	const u32 *input = (const u32 *)memory;
	u32 *sorted = (u32 *)(memory + 256);
	for (u32 i = 0; i < COUNT; i++) {
		u32 value = input[i], at = i;
		for (; at > 0; at--) {
			if (sorted[at - 1] <= value)
				break;
			sorted[at] = sorted[at - 1];
		}
		sorted[at] = value;
	}
	u64 sum = 0;
	for (u32 i = 0; i < COUNT; i++)
		sum = sum * 31 + sorted[i];
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 6);
}
#endif
