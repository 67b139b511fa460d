/* Tracepoints with more fields than there are registers, and with fields of every type that has another form in memory, in C and in
 * C++. Takes the number of rounds. */
#include <stdlib.h>

#include "weir/tracepoint.h"

enum color { RED, GREEN = 5 };
struct point {
	short x;
	double y;
};
struct box {
	int id;
	struct {
		struct point low, high;
	} corner;
	char kind;
};

WEIR_LABELS(color_labels, WEIR_LABEL(RED), WEIR_LABEL(GREEN));
WEIR_MEMBERS(box_members, WEIR_MEMBER(struct box, id), WEIR_MEMBER(struct box, corner.low.x),
	     WEIR_MEMBER(struct box, corner.low.y), WEIR_MEMBER(struct box, corner.high.x),
	     WEIR_MEMBER(struct box, kind));

#define CAST(T, value) WEIR_TP_CAST(T, value)

/* Thirteen arguments of twelve fields. */
__attribute__((noinline)) static void thirteen(long n, const char *text)
{
	WEIR_TRACEPOINT(wide, thirteen, (long, a, n), (long, b, n * 2), (long, c, n * 3), (long, d, n * 4), (long, e, n * 5),
			(long, f, n * 6), (long, g, n * 7), (long, h, n * 8), (long, i, n * 9), (long, j, n * 10),
			(long, k, n * 11), (text, l, text, CAST(unsigned long, n)));
}

__attribute__((noinline)) static void kinds(int n, const char *text, const struct box *box, const unsigned char *bytes)
{
	unsigned long count = CAST(unsigned long, n);
	WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_INFO, wide, kinds, (signed char, a, -n), (unsigned short, b, 40000 + n), (int, c, -n),
			      (hex(unsigned), d, 0xfffffff0u + CAST(unsigned, n)), (long, e, -CAST(long, n) << 40),
			      (network(unsigned short), f, __builtin_bswap16(CAST(unsigned short, 80 + n))),
			      (network(int), g, CAST(int, __builtin_bswap32(CAST(unsigned, -n)))), (double, h, n * 0.5),
			      (float, i, CAST(float, n) * 0.25f), (pointer, j, CAST(void *, 0)), (string, k, text),
			      (string, none, CAST(const char *, 0)), (text, l, text, count), (text_array(4), m, text),
			      (blob, o, bytes, count), (array(hex(unsigned char), 2), p, bytes),
			      (sequence(hex(unsigned char)), q, bytes, count), (array(unsigned char, 3), r, bytes),
			      (enumeration(int, color_labels), s, n % 2 ? GREEN : RED), (structure(box_members), t, box),
			      (unsigned long, last, count));
}

/* The same kinds, in registers. */
__attribute__((noinline)) static void few(int n, const char *text, const struct box *box, const unsigned char *bytes)
{
	WEIR_TRACEPOINT(wide, few, (network(unsigned short), f, __builtin_bswap16(CAST(unsigned short, 80 + n))),
			(text_array(4), m, text), (blob, o, bytes, CAST(unsigned long, n)), (array(hex(unsigned char), 2), p, bytes),
			(structure(box_members), t, box));
}

__attribute__((noinline)) static void all(long n)
{
	WEIR_TRACEPOINT(wide, all, (long, a0, n), (long, a1, n + 1), (long, a2, n + 2), (long, a3, n + 3), (long, a4, n + 4),
			(long, a5, n + 5), (long, a6, n + 6), (long, a7, n + 7), (long, b0, n + 8), (long, b1, n + 9),
			(long, b2, n + 10), (long, b3, n + 11), (long, b4, n + 12), (long, b5, n + 13), (long, b6, n + 14),
			(long, b7, n + 15), (long, c0, n + 16), (long, c1, n + 17), (long, c2, n + 18), (long, c3, n + 19),
			(long, c4, n + 20), (long, c5, n + 21), (long, c6, n + 22), (long, c7, n + 23), (long, d0, n + 24),
			(long, d1, n + 25), (long, d2, n + 26), (long, d3, n + 27), (long, d4, n + 28), (long, d5, n + 29),
			(long, d6, n + 30), (long, d7, n + 31));
}

int main(int argc, char **argv)
{
	static const unsigned char bytes[] = {0xde, 0xad, 0xbe, 0xef, 0};
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	for (int n = 1; n <= rounds; n++) {
		struct box box = {n, {{CAST(short, n + 1), 0.5}, {CAST(short, -n), 1.5}}, 'k'};
		thirteen(n, "letters");
		kinds(n, "letters", &box, bytes);
		few(n, "letters", &box, bytes);
		all(n);
	}
	return 0;
}
