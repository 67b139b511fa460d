/* Nothing but what every program here has around its body: subtracted from each of the others. */
#define MEMORY_BYTES 64
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	return memory[0];
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	memory[0] = 7;
}
#endif
