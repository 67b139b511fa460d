/* Small functions that call one another, 64 times: four calls a round, none of them worth inlining away. */
#define MEMORY_BYTES 256
#include "vm.h"

NOINLINE u64 mixed(u64 a, u64 b)
{
	return (a ^ b >> 7) * 0x9e3779b97f4a7c15ULL;
}

NOINLINE u64 pair(u64 a, u64 b)
{
	return mixed(a + b, a) + mixed(b, a ^ b);
}

NOINLINE u64 step(const u32 *words, u32 at, u64 state)
{
	return pair(state, words[at & 63]) ^ at;
}

INLINE u64 run(u8 *memory)
{
	u64 state = 1;
	for (u32 i = 0; i < 64; i++)
		state = step((const u32 *)memory, i, state);
	return folded(state);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 26);
}
#endif
