/* Base64 (RFC 4648) of 768 bytes: three bytes to four letters of a table. */
#define MEMORY_BYTES (64 + 768 + 1024)
#include "vm.h"

#define INPUT_AT 64
#define INPUT_BYTES 768
#define OUTPUT_AT (64 + 768)

INLINE u64 run(u8 *memory)
{
	const u8 *input = memory + INPUT_AT;
	u8 *output = memory + OUTPUT_AT;
	u32 to = 0;
	for (u32 from = 0; from < INPUT_BYTES; from += 3) {
		u32 bits = (u32)input[from] << 16 | (u32)input[from + 1] << 8 | input[from + 2];
		output[to++] = memory[bits >> 18 & 63];
		output[to++] = memory[bits >> 12 & 63];
		output[to++] = memory[bits >> 6 & 63];
		output[to++] = memory[bits & 63];
	}
	u64 sum = 0;
	const u64 *words = (const u64 *)output;
	for (u32 i = 0; i < INPUT_BYTES / 6; i++)
		sum = sum * 31 + words[i];
	return folded(sum);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	random_fill(memory, MEMORY_BYTES, 18);
	for (u32 i = 0; i < 64; i++)
		memory[i] = letters[i];
}
#endif
