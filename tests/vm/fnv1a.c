/* FNV-1a over 512 bytes: a load, an exclusive or and a multiplication, each waiting for the last. */
#define MEMORY_BYTES 512
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	u64 hash = 0xcbf29ce484222325ULL;
	for (u32 i = 0; i < MEMORY_BYTES; i++)
		hash = (hash ^ memory[i]) * 0x100000001b3ULL;
	return folded(hash);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 3);
}
#endif
