/* A scanner of C-like text by a switch over six states: words, numbers, strings, comments. 512 bytes. */
#define MEMORY_BYTES 512
#include "vm.h"

enum { SPACE, WORD, NUMBER, STRING, ESCAPE, COMMENT };

INLINE u64 run(u8 *memory)
{
	u32 state = SPACE;
	u64 words = 0, numbers = 0, strings = 0, comments = 0;
	for (u32 i = 0; i < MEMORY_BYTES; i++) {
		u32 byte = memory[i];
		switch (state) {
		case STRING:
			if (byte == '\\')
				state = ESCAPE;
			else if (byte == '"')
				state = SPACE;
			continue;
		case ESCAPE:
			state = STRING;
			continue;
		case COMMENT:
			if (byte == '\n')
				state = SPACE;
			continue;
		case WORD:
			if ((byte | 32) - 'a' < 26 || byte - '0' < 10 || byte == '_')
				continue;
			break;
		case NUMBER:
			if (byte - '0' < 10)
				continue;
			break;
		}
		if ((byte | 32) - 'a' < 26 || byte == '_') {
			state = WORD;
			words++;
		} else if (byte - '0' < 10) {
			state = NUMBER;
			numbers++;
		} else if (byte == '"') {
			state = STRING;
			strings++;
		} else if (byte == '#') {
			state = COMMENT;
			comments++;
		} else {
			state = SPACE;
		}
	}
	return folded(words | numbers << 10 | strings << 20 | comments << 30);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	static const char text[] = "let _x1 = 4711 + y(\"a \\\"b\\\" c\", 07); # and so on\n\tif z < 12 then \"\" end\n";
	for (u32 i = 0; i < MEMORY_BYTES; i++)
		memory[i] = text[i % (sizeof text - 1)];
}
#endif
