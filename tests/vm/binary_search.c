/* 256 searches in a table of 32 sorted numbers, five steps each. */
#define MEMORY_BYTES (128 + 1024)
#include "vm.h"

#define COUNT 32
#define WANTED 256

INLINE u64 run(u8 *memory)
{
	const u32 *table = (const u32 *)memory, *wanted = table + COUNT;
	u64 sum = 0;
	for (u32 i = 0; i < WANTED; i++) {
		u32 value = wanted[i], at = 0;
		for (u32 step = COUNT / 2; step > 0; step /= 2)
			if (table[(at + step) & (COUNT - 1)] <= value)
				at += step;
		sum = sum * 31 + at;
	}
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	u32 *table = (u32 *)memory, value = 0;
	random_fill(memory, MEMORY_BYTES, 21);
	for (u32 i = 0; i < COUNT; i++) {
		value += 1 + table[i] % 1000;
		table[i] = value;
	}
	for (u32 i = 0; i < WANTED; i++)
		table[COUNT + i] %= value;
}
#endif
