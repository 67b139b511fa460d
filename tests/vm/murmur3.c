/* MurmurHash3 (32 bits) of 1,024 bytes: a multiplication, a rotation and another multiplication for each word. */
#define MEMORY_BYTES 1024
#include "vm.h"

#ifndef LOOP
#define LOOP
#define FENCE(x)
#endif

INLINE u32 rotated(u32 x, u32 bits)
{
	return x << bits | x >> (32 - bits);
}

INLINE u64 run(u8 *memory)
{
	const u32 *words = (const u32 *)memory;
	u32 hash = 0x9747b28c;
	LOOP for (u32 i = 0; i < MEMORY_BYTES / 4; i++) {
		u32 word = words[i] * 0xcc9e2d51;
		hash ^= rotated(word, 15) * 0x1b873593;
		hash = rotated(hash, 13) * 5 + 0xe6546b64;
		FENCE(hash);
	}
	hash ^= MEMORY_BYTES;
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	return hash ^ hash >> 16;
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 11);
}
#endif
