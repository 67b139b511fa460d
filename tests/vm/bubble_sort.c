/* Bubble sort of 48 numbers, copied first: a branch on data that no predictor knows, in each of 1,128 steps. */
#define MEMORY_BYTES 384
#include "vm.h"

#define COUNT 48

INLINE u64 run(u8 *memory)
{
	const u32 *input = (const u32 *)memory;
	u32 *sorted = (u32 *)(memory + 192);
	for (u32 i = 0; i < COUNT; i++)
		sorted[i] = input[i];
	for (u32 end = COUNT - 1; end > 0; end--) {
		for (u32 i = 0; i < end; i++) {
			u32 a = sorted[i], b = sorted[i + 1];
			if (a > b) {
				sorted[i] = b;
				sorted[i + 1] = a;
			}
		}
	}
	u64 sum = 0;
	for (u32 i = 0; i < COUNT; i++)
		sum = sum * 31 + sorted[i];
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 12);
}
#endif
