/* A name against 48 others, byte by byte, as a filter on paths does; most share its beginning. */
#define MEMORY_BYTES (49 * 32)
#include "vm.h"

#define NAMES 48
#define NAME_BYTES 32

INLINE u64 run(u8 *memory)
{
	u64 found = 0;
	for (u32 i = 0; i < NAMES; i++) {
		const u8 *name = memory + NAME_BYTES + i * NAME_BYTES;
		s64 difference = 0;
		for (u32 at = 0; at < NAME_BYTES; at++) {
			difference = (s64)memory[at] - name[at];
			if (difference || !memory[at])
				break;
		}
		found = found * 3 + (difference > 0) + 2 * (difference < 0);
	}
	return folded(found);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	static const char wanted[NAME_BYTES] = "/usr/lib/x86_64-linux-gnu/libc";
	random_fill(memory, MEMORY_BYTES, 14);
	for (u32 i = 0; i < NAMES + 1; i++)
		/* Each name but the first differs somewhere from its i-th byte on, or not at all. */
		for (u32 at = 0; at < NAME_BYTES && (i == 0 || at < i); at++)
			memory[i * NAME_BYTES + at] = wanted[at];
}
#endif
