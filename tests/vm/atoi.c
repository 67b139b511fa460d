/* Decimal numbers between commas, summed: 1,024 bytes of text. */
#define MEMORY_BYTES 1024
#include "vm.h"

INLINE u64 run(u8 *memory)
{
	u64 sum = 0, number = 0;
	u32 negative = 0;
	for (u32 i = 0; i < MEMORY_BYTES; i++) {
		u32 byte = memory[i];
		if (byte - '0' < 10) {
			number = number * 10 + (byte - '0');
		} else if (byte == '-') {
			negative = 1;
		} else {
			sum += negative ? -number : number;
			number = 0;
			negative = 0;
		}
	}
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	random_fill(memory, MEMORY_BYTES, 16);
	u32 left = 0;
	for (u32 i = 0; i < MEMORY_BYTES; i++) {
		u32 random = memory[i];
		if (left == 0) {
			memory[i] = ',';
			left = 1 + random % 7;
		} else {
			memory[i] = left-- > 1 && memory[i - 1] == ',' && random & 1 ? '-' : '0' + random % 10;
		}
	}
}
#endif
