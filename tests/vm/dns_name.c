/* Names of DNS messages, walked label by label and hashed without regard to case: sixteen names of 64 bytes. */
#define MEMORY_BYTES 1024
#include "vm.h"

#define NAMES 16
#define NAME_BYTES 64

INLINE u64 run(u8 *memory)
{
	u32 hash = 0x811c9dc5;
	for (u32 i = 0; i < NAMES; i++) {
		const u8 *name = memory + i * NAME_BYTES;
		/* Bytes that the label still has; the length byte of the next comes when there are none. */
		u32 left = 0;
		for (u32 at = 0; at < NAME_BYTES; at++) {
			u32 byte = name[at];
			if (left == 0) {
				if (byte == 0 || byte > 63)
					break;
				left = byte;
				hash += byte;
				continue;
			}
			left--;
			if (byte - 'A' < 26)
				byte += 'a' - 'A';
			hash = (hash ^ byte) * 0x01000193;
		}
	}
	return hash;
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	static const char name[] = "\3www\12Some-Thing\7EXAMPLE\3com\0";
	for (u32 i = 0; i < NAMES; i++) {
		for (u32 at = 0; at < sizeof name; at++)
			memory[i * NAME_BYTES + at] = name[at];
		memory[i * NAME_BYTES + 5] = 'a' + i;
	}
}
#endif
