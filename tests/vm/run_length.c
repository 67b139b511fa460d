/* Run-length coding of 768 bytes into a buffer whose length stands before it. */
#define MEMORY_BYTES 2048
#include "vm.h"

#define INPUT_BYTES 768
#define USED_AT 1020
#define OUTPUT_AT 1024

INLINE u64 run(u8 *memory)
{
	u8 *output = memory + OUTPUT_AT;
	/* Volatile: whoever appends to a buffer has its length from memory. */
	volatile u32 *used = (volatile u32 *)(memory + USED_AT);
	u8 last = memory[0], count = 1;
	*used = 0;
	for (u32 i = 1; i < INPUT_BYTES; i++) {
		u8 byte = memory[i];
		if (byte == last) {
			count++;
			continue;
		}
		u32 to = *used;
		output[to & 1022] = count;
		output[(to & 1022) + 1] = last;
		*used = to + 2;
		count = 1;
		last = byte;
	}
	u64 sum = *used;
	for (u32 i = 0; i < 64; i++)
		sum = sum * 31 + output[i];
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 20);
	for (u32 i = 1; i < INPUT_BYTES; i++)
		if (memory[i] & 3)
			memory[i] = memory[i - 1];
}
#endif
