/* A loop with a tracepoint that nobody traces, for `cargo xtask bench tracepoint`; or without, to be subtracted.
 *
 * off TURNS: prints what a turn takes, in nanoseconds of this thread's CPU time. Compiled once for each of WEIR, LTTNG, SDT
 * and SDT_GUARDED, and for none of them, with SITES tracepoints in a row, 1 or 8. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(WEIR)
#include "../../include/weir/tracepoint.h"
#define EVENT(n) WEIR_TRACEPOINT(bench, tick, (unsigned long, n, n))
#elif defined(LTTNG)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "../lttng/provider.h"
#define EVENT(n) lttng_ust_tracepoint(bench, tick, n)
#elif defined(SDT)
#include <sys/sdt.h>
#define EVENT(n) DTRACE_PROBE1(bench, tick, n)
#elif defined(SDT_GUARDED)
/* As `dtrace -h` writes it. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
__extension__ unsigned short bench_tick_semaphore __attribute__((unused)) __attribute__((section(".probes")));
#define EVENT(n)                                             \
	do {                                                 \
		if (__builtin_expect(bench_tick_semaphore, 0)) \
			DTRACE_PROBE1(bench, tick, n);       \
	} while (0)
#else
#define EVENT(n)
#endif

/* Stands for the program around: nothing is known of memory behind it, so that each tracepoint looks for itself. */
#define SITE(n)                                         \
	__asm__ volatile("" : "+r"(n) : : "memory");    \
	EVENT(n)

/* What callgrind counts: the name is the bench's. */
__attribute__((noinline, aligned(64))) void turns(unsigned long count)
{
	for (unsigned long n = 0; n < count; n++) {
		SITE(n);
#if SITES == 8
		SITE(n);
		SITE(n);
		SITE(n);
		SITE(n);
		SITE(n);
		SITE(n);
		SITE(n);
#endif
	}
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
	double start = now();
	turns(count);
	printf("%.4f\n", (now() - start) / count);
	return 0;
}
