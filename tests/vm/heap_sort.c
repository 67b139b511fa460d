/* Heap sort of 64 numbers, copied first: where a step goes is data. */
#define MEMORY_BYTES 512
#include "vm.h"

#define COUNT 64
#define DEPTH 6

/* Lets the number at `at` sink, in a heap of `count`. */
INLINE void sink(u32 *heap, u32 at, u32 count)
{
	for (u32 step = 0; step < DEPTH; step++) {
		u32 child = 2 * at + 1;
		if (child >= count)
			return;
		if (child + 1 < count && heap[(child + 1) & (COUNT - 1)] > heap[child & (COUNT - 1)])
			child++;
		u32 parent_value = heap[at & (COUNT - 1)], child_value = heap[child & (COUNT - 1)];
		if (parent_value >= child_value)
			return;
		heap[at & (COUNT - 1)] = child_value;
		heap[child & (COUNT - 1)] = parent_value;
		at = child;
	}
}

INLINE u64 run(u8 *memory)
{
	const u32 *input = (const u32 *)memory;
	u32 *heap = (u32 *)(memory + 256);
	for (u32 i = 0; i < COUNT; i++)
		heap[i] = input[i];
	for (u32 i = COUNT / 2; i > 0; i--)
		sink(heap, i - 1, COUNT);
	u64 sum = 0;
	for (u32 count = COUNT; count > 1; count--) {
		u32 largest = heap[0];
		heap[0] = heap[count - 1];
		sum = sum * 31 + largest;
		sink(heap, 0, count - 1);
	}
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 13);
}
#endif
