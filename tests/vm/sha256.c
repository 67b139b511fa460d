/* SHA-256 of two blocks: words in network order put together of bytes, a schedule in memory, rotations as shifts. */
#define MEMORY_BYTES (512 + 256 + 256)
#include "vm.h"

#define BLOCKS 2

#ifndef LOOP
#define LOOP
#define FENCE(x)
#endif
#define CONSTANTS_AT 512
#define SCHEDULE_AT 768

INLINE u32 rotated(u32 x, u32 bits)
{
	return x >> bits | x << (32 - bits);
}

INLINE u64 run(u8 *memory)
{
	const u32 *constants = (const u32 *)(memory + CONSTANTS_AT);
	u32 *schedule = (u32 *)(memory + SCHEDULE_AT);
	u32 s0 = 0x6a09e667, s1 = 0xbb67ae85, s2 = 0x3c6ef372, s3 = 0xa54ff53a;
	u32 s4 = 0x510e527f, s5 = 0x9b05688c, s6 = 0x1f83d9ab, s7 = 0x5be0cd19;
	for (u32 block = 0; block < BLOCKS; block++) {
		LOOP for (u32 i = 0; i < 16; i++) {
			const u8 *bytes = memory + block * 64 + i * 4;
			u32 word = (u32)bytes[0] << 24 | (u32)bytes[1] << 16 | (u32)bytes[2] << 8 | bytes[3];
			schedule[i] = word;
			FENCE(word);
		}
		LOOP for (u32 i = 16; i < 64; i++) {
			u32 x = schedule[i - 15], y = schedule[i - 2];
			u32 low = rotated(x, 7) ^ rotated(x, 18) ^ x >> 3;
			u32 high = rotated(y, 17) ^ rotated(y, 19) ^ y >> 10;
			u32 word = schedule[i - 16] + low + schedule[i - 7] + high;
			schedule[i] = word;
			FENCE(word);
		}
		u32 a = s0, b = s1, c = s2, d = s3, e = s4, f = s5, g = s6, h = s7;
		LOOP for (u32 i = 0; i < 64; i++) {
			u32 high = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
			u32 one = h + high + ((e & f) ^ (~e & g)) + constants[i] + schedule[i];
			u32 low = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
			u32 two = low + ((a & b) ^ (a & c) ^ (b & c));
			h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
			FENCE(a);
		}
		s0 += a, s1 += b, s2 += c, s3 += d, s4 += e, s5 += f, s6 += g, s7 += h;
	}
	return (u32)(s0 ^ s1 ^ s2 ^ s3 ^ s4 ^ s5 ^ s6 ^ s7);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	/* The standard's constants are fractions of cube roots; numbers of the same kind cost as much. */
	random_fill(memory, MEMORY_BYTES, 10);
}
#endif
