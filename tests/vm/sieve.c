/* Primes below 512 by Eratosthenes' sieve, in bytes. */
#define MEMORY_BYTES 512
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	for (u32 i = 0; i < MEMORY_BYTES; i++)
		memory[i] = 1;
	for (u32 i = 2; i < 23; i++)
		if (memory[i])
			for (u32 multiple = i * i; multiple < MEMORY_BYTES; multiple += i)
				memory[multiple] = 0;
	u64 primes = 0;
	for (u32 i = 2; i < MEMORY_BYTES; i++)
		primes += memory[i] * (i + 1);
	return primes;
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 24);
}
#endif
