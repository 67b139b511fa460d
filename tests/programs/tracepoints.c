/* Tracepoints with fields of every type, in C and in C++; tracepoints.rs is the same in Rust. Takes the number of rounds. Prints
 * a line for each event, with the values that it passes: a script that is attached to all of them can print the same. The
 * last line tells how often a value was evaluated that only a tracer asks for. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/tracepoint.h"

enum color { RED, GREEN = 5, BLUE };
struct point {
	short x;
	unsigned long y;
	double z;
};

WEIR_LABELS(color_labels, WEIR_LABEL(RED), WEIR_LABEL(GREEN), WEIR_RANGE("other", BLUE, 255));
WEIR_MEMBERS(point_members, WEIR_MEMBER(struct point, x), WEIR_MEMBER(struct point, y), WEIR_MEMBER(struct point, z));

static int evaluated;

static int evaluate(int value)
{
	evaluated++;
	return value;
}

#define CAST(T, value) WEIR_TP_CAST(T, value)

__attribute__((noinline)) static void integers(int n)
{
	signed char a = CAST(signed char, -n);
	unsigned char b = CAST(unsigned char, n);
	short c = CAST(short, -300 * n);
	unsigned short d = CAST(unsigned short, 40000 + n);
	unsigned f = 4000000000u + CAST(unsigned, n);
	long g = -CAST(long, n) << 40;
	unsigned long h = ~CAST(unsigned long, n);
	bool i = (n & 1) != 0;
	printf("integers %d %d %d %d %d %u %ld %lu %d %x\n", a, b, c, d, -n, f, g, h, i, f);
	WEIR_TRACEPOINT(tp, integers, (signed char, a, a), (unsigned char, b, b), (short, c, c), (unsigned short, d, d),
			(int, e, -n), (unsigned, f, f), (long, g, g), (unsigned long, h, h), (bool, i, i), (hex(uint32_t), j, f));
}

__attribute__((noinline)) static void floats(int n)
{
	double a = n * 1e100 / 7;
	float b = CAST(float, n) / -3;
	printf("floats %.17g %.17g %g %g\n", a, CAST(double, b), 0.5, -0.25);
	WEIR_TRACEPOINT(tp, floats, (double, a, a), (float, b, b), (double, half, 0.5), (float, quarter, -0.25f));
}

__attribute__((noinline)) static void texts(int n)
{
	static const char *const names[] = {"one", "two words", ""};
	static const char text[] = "cut here";
	char written[24];
	unsigned count = CAST(unsigned, n) % 8 + 1;
	snprintf(written, sizeof written, "round %d", n);
	printf("texts %s %.*s %s %s\n", names[n % 3], CAST(int, count), text, "literal", written);
	WEIR_TRACEPOINT(tp, texts, (string, a, names[n % 3]), (text, b, text, count), (string, c, "literal"),
			(string, d, written));
	/* What a tracer sees is what was written before, and not what is written now. */
	memset(written, 'x', sizeof written - 1);
	__asm__ volatile("" : : "r"(written) : "memory");
}

__attribute__((noinline)) static void memory(int n)
{
	static const unsigned char bytes[] = "bytes";
	static const double numbers[3] = {1, 2, 3};
	char letters[4] = {'a', 'b', 'c', CAST(char, 'd' + n % 3)};
	struct point at = {1, 2, 3};
	unsigned long count = CAST(unsigned long, n) % 5 + 1;
	printf("memory %.4s %.*s %lu %p %p %p\n", letters, CAST(int, count), CAST(const char *, CAST(const void *, bytes)), count,
	       CAST(const void *, numbers), CAST(void *, &at), CAST(void *, &letters[1]));
	WEIR_TRACEPOINT(tp, memory, (array(char, 4), a, letters), (sequence(unsigned char), b, bytes, count),
			(array(double, 3), c, numbers), (structure(point_members), d, &at), (pointer, e, &letters[1]));
}

__attribute__((noinline)) static void colors(int n)
{
	enum color color = n % 2 ? GREEN : BLUE;
	printf("colors %d %d\n", color, n % 7);
	WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_INFO, tp, colors, (enumeration(int, color_labels), a, color),
			      (enumeration(uint8_t, color_labels), b, n % 7));
}

__attribute__((noinline)) static void twelve(long n)
{
	printf("twelve %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld\n", n, n * 2, n * 3, n * 4, n * 5, n * 6, n * 7, n * 8,
	       n * 9, n * 10, n * 11, n * 12);
	WEIR_TRACEPOINT_LEVEL(0, tp, twelve, (long, a, n), (long, b, n * 2), (long, c, n * 3), (long, d, n * 4), (long, e, n * 5),
			      (long, f, n * 6), (long, g, n * 7), (long, h, n * 8), (long, i, n * 9), (long, j, n * 10),
			      (long, k, n * 11), (long, l, n * 12));
}

__attribute__((noinline)) static void nothing(void)
{
	printf("nothing\n");
	WEIR_TRACEPOINT(tp, nothing);
}

__attribute__((noinline)) static void counted(int n)
{
	printf("counted %d\n", n);
	WEIR_TRACEPOINT(tp, counted, (int, n, evaluate(n)));
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	for (int n = 1; n <= rounds; n++) {
		integers(n);
		floats(n);
		texts(n);
		memory(n);
		colors(n);
		twelve(n);
		nothing();
		counted(n);
	}
	printf("evaluated %d\n", evaluated);
	return 0;
}
