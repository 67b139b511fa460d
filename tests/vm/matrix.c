/* A product of 8 × 8 matrices, a function call for each element. */
#define MEMORY_BYTES 768
#include "vm.h"

#define N 8

NOINLINE u64 dot(const u32 *row, const u32 *column)
{
	u64 sum = 0;
	for (u32 i = 0; i < N; i++)
		sum += (u64)row[i] * column[i * N];
	return sum;
}

INLINE u64 run(u8 *memory)
{
	const u32 *a = (const u32 *)memory, *b = a + N * N;
	u32 *c = (u32 *)b + N * N;
	for (u32 row = 0; row < N; row++)
		for (u32 column = 0; column < N; column++)
			c[row * N + column] = dot(a + row * N, b + column);
	u64 trace = 0;
	for (u32 i = 0; i < N; i++)
		trace = trace * 7 + c[i * N + i] + c[i * N + N - 1 - i];
	return folded(trace);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 9);
}
#endif
