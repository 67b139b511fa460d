/* Eight bytes looked for in 1,024, at every place until the last byte decides. */
#define MEMORY_BYTES (1024 + 8)
#include "vm.h"

#define TEXT_BYTES 1024
#define WORD_BYTES 8

INLINE u64 run(u8 *memory)
{
	const u8 *word = memory + TEXT_BYTES;
	u64 found = 0;
	for (u32 at = 0; at + WORD_BYTES <= TEXT_BYTES; at++) {
		u32 same = 0;
		for (; same < WORD_BYTES; same++)
			if (memory[at + same] != word[same])
				break;
		if (same == WORD_BYTES)
			found = found * 31 + at + 1;
	}
	return folded(found);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	/* Two letters, so that many places begin well; the word stands at the end of the text. */
	random_fill(memory, MEMORY_BYTES, 15);
	for (u32 i = 0; i < TEXT_BYTES; i++)
		memory[i] = 'a' + (memory[i] & 1);
	for (u32 i = 0; i < WORD_BYTES; i++)
		memory[TEXT_BYTES + i] = memory[TEXT_BYTES - WORD_BYTES + i];
}
#endif
