/* The Internet checksum (RFC 1071) of 2,048 bytes, as network-order words put together of bytes. */
#define MEMORY_BYTES 2048
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	u32 sum = 0;
	for (u32 at = 0; at < MEMORY_BYTES; at += 2)
		sum += (u32)memory[at] << 8 | memory[at + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 7);
}
#endif
