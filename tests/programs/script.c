/* Calls handle with what scripts read: a number, a text, a list and an array.
 *
 * script CALLS [PER-SECOND]: prints one line, calls=N busy_ns=N, the time inside the calls; with a rate, calls are spread over that time. */
/* A stack has frames where each function keeps its frame pointer. */
#pragma GCC optimize("no-omit-frame-pointer")

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct node {
	long value;
	struct node *next;
};

/* The asm keeps the compiler from knowing what handle does, so that each call is made. */
__attribute__((noinline)) void handle(long size, const char *text, struct node *list, const int *numbers)
{
	__asm__ volatile("" : : "r"(size), "r"(text), "r"(list), "r"(numbers) : "memory");
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Three calls deep, so that a stack has frames. */
__attribute__((noinline)) static void inner(uint64_t calls, uint64_t rate, struct node *list, const int *numbers)
{
	static const char *const texts[] = { "GET /index.html", "GET /style.css", "POST /form", "GET /picture.png" };
	/* They are in memory before a tracer reads them: the kernel's do not wait for a page. */
	for (int i = 0; i < 4; i++)
		__asm__ volatile("" : : "r"(*(const volatile char *)texts[i]));
	uint64_t start = now();
	for (uint64_t i = 0; i < calls; i++) {
		while (rate && i % 64 == 0 && (now() - start) * rate / 1000000000u < i)
			__asm__ volatile("pause");
		handle((long)(i & 4095), texts[i & 3], list, numbers);
	}
	__asm__ volatile("");
}

__attribute__((noinline)) static void outer(uint64_t calls, uint64_t rate, struct node *list, const int *numbers)
{
	inner(calls, rate, list, numbers);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: script CALLS [PER-SECOND]\n");
		return 2;
	}
	uint64_t calls = strtoull(argv[1], NULL, 10);
	uint64_t rate = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	alarm(600);
	struct node nodes[4] = { { 1, &nodes[1] }, { 2, &nodes[2] }, { 3, &nodes[3] }, { 4, NULL } };
	int numbers[10];
	for (int i = 0; i < 10; i++)
		numbers[i] = i;
	uint64_t start = now();
	outer(calls, rate, nodes, numbers);
	printf("calls=%llu busy_ns=%llu\n", (unsigned long long)calls, (unsigned long long)(now() - start));
	return 0;
}
