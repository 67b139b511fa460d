/* Bit counting by a table of bytes: 1,280 loads that depend on loads. */
#define MEMORY_BYTES (256 + 1280)
#include "vm.h"

#define INPUT_AT 256

INLINE u64 run(u8 *memory)
{
	u32 bits = 0;
	for (u32 i = INPUT_AT; i < MEMORY_BYTES; i++)
		bits += memory[memory[i]];
	return bits;
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 2);
	for (u32 i = 0; i < 256; i++)
		memory[i] = __builtin_popcount(i);
}
#endif
