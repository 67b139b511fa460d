/* Does one thing again and again: `kernel_events WHAT N`, with WHAT of rename (prctl(PR_SET_NAME): the tracepoint task:task_rename), getppid
 * (a system call), foo and bar (calls of functions; a jump fits into bar). Prints `ns=N`, what one took, and `ticks=N`, the same by
 * the time stamp counter. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) long foo(long x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

__attribute__((noinline)) long bar(long x)
{
	__asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop" : "+r"(x));
	return x + 1;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	long n = atol(argv[2]);
	uint64_t begin = now(), ticks = __builtin_ia32_rdtsc();
	alarm(60);
	if (!strcmp(argv[1], "rename"))
		for (long i = 0; i < n; i++)
			prctl(PR_SET_NAME, "kernel_events");
	else if (!strcmp(argv[1], "getppid"))
		for (long i = 0; i < n; i++)
			syscall(SYS_getppid);
	else if (!strcmp(argv[1], "foo"))
		for (long i = 0; i < n; i++)
			foo(i);
	else if (!strcmp(argv[1], "bar"))
		for (long i = 0; i < n; i++)
			bar(i);
	else
		return 2;
	ticks = __builtin_ia32_rdtsc() - ticks;
	printf("ns=%.3f\nticks=%.3f\n", (double)(now() - begin) / (double)n, (double)ticks / (double)n);
	return 0;
}
