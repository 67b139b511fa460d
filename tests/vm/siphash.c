/* SipHash-2-4 of 1,024 bytes, words put together of bytes as a portable program does. */
#define MEMORY_BYTES (1024 + 16)
#include "vm.h"

#define KEY_AT 1024

INLINE u64 word_at(const u8 *bytes)
{
	return (u64)bytes[0] | (u64)bytes[1] << 8 | (u64)bytes[2] << 16 | (u64)bytes[3] << 24 | (u64)bytes[4] << 32 |
	       (u64)bytes[5] << 40 | (u64)bytes[6] << 48 | (u64)bytes[7] << 56;
}

INLINE u64 rotated(u64 x, u32 bits)
{
	return x << bits | x >> (64 - bits);
}

#define ROUND                                                                                                          \
	do {                                                                                                           \
		v0 += v1, v1 = rotated(v1, 13), v1 ^= v0, v0 = rotated(v0, 32);                                        \
		v2 += v3, v3 = rotated(v3, 16), v3 ^= v2;                                                              \
		v0 += v3, v3 = rotated(v3, 21), v3 ^= v0;                                                              \
		v2 += v1, v1 = rotated(v1, 17), v1 ^= v2, v2 = rotated(v2, 32);                                        \
	} while (0)

INLINE u64 run(u8 *memory)
{
	u64 k0 = word_at(memory + KEY_AT), k1 = word_at(memory + KEY_AT + 8);
	u64 v0 = 0x736f6d6570736575ULL ^ k0, v1 = 0x646f72616e646f6dULL ^ k1;
	u64 v2 = 0x6c7967656e657261ULL ^ k0, v3 = 0x7465646279746573ULL ^ k1;
	for (u32 at = 0; at < KEY_AT; at += 8) {
		u64 word = word_at(memory + at);
		v3 ^= word;
		ROUND;
		ROUND;
		v0 ^= word;
	}
	/* No bytes are left over; the top byte is the length's lowest. */
	u64 last = (u64)(KEY_AT & 0xff) << 56;
	v3 ^= last;
	ROUND;
	ROUND;
	v0 ^= last;
	v2 ^= 0xff;
	ROUND;
	ROUND;
	ROUND;
	ROUND;
	return folded(v0 ^ v1 ^ v2 ^ v3);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 4);
}
#endif
