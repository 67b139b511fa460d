/* A thread that checks alignment (EFLAGS.AC) half of the time, and hands over data at odd addresses: `odd ROUNDS`. Two tracepoints, of which
 * one has nothing but what is declared, and a function for probes. Whoever is called meanwhile must not fault on words at such
 * addresses, nor leave the flag otherwise than it was. Says how often it was, and how many rounds it came through. */
#include <stdio.h>
#include <stdlib.h>

#include "weir/tracepoint.h"

#define CHECK_ALIGNMENT 0x40000ul

static unsigned long flags(void)
{
	unsigned long flags;
	__asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n pop %0\n lea 128(%%rsp), %%rsp" : "=r"(flags) : : "memory");
	return flags;
}

static void set_flags(unsigned long flags)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp\n push %0\n popfq\n lea 128(%%rsp), %%rsp" : : "r"(flags) : "memory", "cc");
}

/* At odd addresses, by what is put before them. */
static struct {
	char before;
	char text[32];
	char other[27];
	unsigned char bytes[13];
} __attribute__((packed, aligned(16))) odd = {0, "a text at an odd address", "another, longer than a word", "bytes of odd"};

__attribute__((noinline)) static void emit(long n)
{
	WEIR_TRACEPOINT(odd, mixed, (signed char, tiny, (signed char)n), (long, n, n), (short, small, (short)n), (string, text, odd.text),
			(unsigned char, last, (unsigned char)n), (string, other, odd.other),
			(array(unsigned char, 13), bytes, odd.bytes));
}

__attribute__((noinline)) static void emit_numbers(long n)
{
	WEIR_TRACEPOINT(odd, numbers, (signed char, tiny, (signed char)n), (long, n, n), (short, small, (short)n),
			(unsigned char, last, (unsigned char)n), (int, whole, (int)n));
}

__attribute__((noinline)) long odd_function(const char *text, long n, const unsigned char *bytes)
{
	__asm__ volatile("" : : "r"(text), "r"(n), "r"(bytes) : "memory");
	return n;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1, changed = 0;
	for (long n = 0; n < rounds; n++) {
		unsigned long before = flags(), given = n % 2 ? before | CHECK_ALIGNMENT : before;
		unsigned long after;
		set_flags(given);
		emit(n);
		emit_numbers(n);
		odd_function(odd.text, n, odd.bytes);
		after = flags();
		set_flags(before);
		changed += (after & CHECK_ALIGNMENT) != (given & CHECK_ALIGNMENT);
	}
	printf("changed %ld\nrounds %ld\n", changed, rounds);
	return changed != 0;
}
