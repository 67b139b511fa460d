/* Calls foo a known number of times, then dies in a known way.
 *
 * crash CALLS exit [CODE] | segv | abort | kill | _exit [CODE]: prints `calls=N` first, and flushes it. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t foo_sum;
/* Read at run time, so that no compiler warns of it or turns the store into ud2. */
static int *volatile nowhere = (int *)8;

__attribute__((noinline)) void foo(uint64_t n)
{
	foo_sum += n;
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: crash CALLS exit|segv|abort|kill|_exit [CODE]\n");
		return 2;
	}
	uint64_t calls = strtoull(argv[1], NULL, 10);
	int code = argc > 3 ? atoi(argv[3]) : 0;
	alarm(600);
	for (uint64_t i = 0; i < calls; i++)
		foo(i);
	printf("calls=%llu\n", (unsigned long long)calls);
	fflush(stdout);
	if (strcmp(argv[2], "segv") == 0)
		*nowhere = 0;
	else if (strcmp(argv[2], "abort") == 0)
		abort();
	else if (strcmp(argv[2], "kill") == 0)
		raise(SIGKILL);
	else if (strcmp(argv[2], "_exit") == 0)
		_exit(code);
	exit(code);
}
