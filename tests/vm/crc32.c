/* CRC-32 (that of Ethernet) of 512 bytes with a table: each step's load depends on the last. */
#define MEMORY_BYTES (1024 + 512)
#include "vm.h"

#define TEXT_AT 1024
#define TEXT_BYTES 512

INLINE u64 run(u8 *memory)
{
	const u32 *table = (const u32 *)memory;
	u32 crc = 0xffffffff;
	for (u32 i = 0; i < TEXT_BYTES; i++)
		crc = crc >> 8 ^ table[(crc ^ memory[TEXT_AT + i]) & 0xff];
	return (u32)~crc;
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	u32 *table = (u32 *)memory;
	for (u32 i = 0; i < 256; i++) {
		u32 value = i;
		for (u32 bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
		table[i] = value;
	}
	random_fill(memory + TEXT_AT, TEXT_BYTES, 5);
}
#endif
