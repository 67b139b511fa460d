/* Checks 1,024 bytes of UTF-8 (RFC 3629) and counts characters: a state machine of branches. */
#define MEMORY_BYTES 1024
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	u32 characters = 0, left = 0, low = 0x80, high = 0xbf, wrong = 0;
	for (u32 i = 0; i < MEMORY_BYTES; i++) {
		u32 byte = memory[i];
		if (left > 0) {
			if (byte < low || byte > high)
				wrong++;
			low = 0x80, high = 0xbf;
			left--;
			continue;
		}
		characters++;
		if (byte < 0x80)
			continue;
		if (byte >= 0xc2 && byte <= 0xdf) {
			left = 1;
		} else if (byte >= 0xe0 && byte <= 0xef) {
			left = 2;
			if (byte == 0xe0)
				low = 0xa0;
			else if (byte == 0xed)
				high = 0x9f;
		} else if (byte >= 0xf0 && byte <= 0xf4) {
			left = 3;
			if (byte == 0xf0)
				low = 0x90;
			else if (byte == 0xf4)
				high = 0x8f;
		} else {
			wrong++;
		}
	}
	return characters | wrong << 16;
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	static const char *const texts[] = { "plain ", "\xc3\xa9t\xc3\xa9 ", "\xe2\x82\xac ", "\xf0\x9f\x90\x8c ", "\xed\xa0\x80" };
	u64 state = 17;
	u32 at = 0;
	while (at < MEMORY_BYTES)
		for (const char *text = texts[random_next(&state) % 5]; *text && at < MEMORY_BYTES; text++)
			memory[at++] = *text;
}
#endif
