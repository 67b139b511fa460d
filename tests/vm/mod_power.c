/* Four powers modulo 31-bit numbers, by squaring: a multiplication and a division of 64 bits for each bit. */
#define MEMORY_BYTES 48
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	const u32 *numbers = (const u32 *)memory;
	u64 sum = 0;
	for (u32 i = 0; i < 4; i++) {
		u64 modulus = (numbers[i * 3] >> 1) | 1;
		u64 base = numbers[i * 3 + 1] % modulus, power = 1;
		u32 exponent = numbers[i * 3 + 2];
		for (u32 bit = 0; bit < 32; bit++) {
			if (exponent >> bit & 1)
				power = power * base % modulus;
			base = base * base % modulus;
		}
		sum = sum * 31 + power;
	}
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 25);
}
#endif
