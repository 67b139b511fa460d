/* Calls foo at a given rate, and tells what that cost.
 *
 * overhead RATE SECONDS [CALLS]: RATE calls a second (0: as many as it can), for SECONDS (at most 100) or CALLS calls,
 * whichever ends first. Prints one line:
 *   calls=N wall_ns=N cpu_ns=N busy_ns=N
 * busy_ns is the time inside batches of calls, without the waiting between them: at a rate that is met, wall_ns
 * and cpu_ns do not show what a probe costs, and busy_ns does. A batch is 100 us of calls, or one call; a rate that
 * cannot be met is not made up for at the end: fewer calls are made. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

uint64_t foo_sum;

/* The asm keeps the compiler from knowing what foo does, so that each call is made; it adds no instruction. */
__attribute__((noinline)) void foo(uint64_t n)
{
	foo_sum += n;
	__asm__ volatile("" ::: "memory");
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: overhead RATE SECONDS [CALLS]\n");
		return 2;
	}
	double rate = atof(argv[1]), seconds = atof(argv[2]);
	uint64_t calls_max = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
	if (seconds > 100)
		seconds = 100;
	alarm(600);

	/* Without a rate: batches of 1000, so that reading the clock (20 ns) adds 0.02 ns a call. */
	uint64_t batch = rate == 0 ? 1000 : rate > 20000 ? (uint64_t)(rate / 10000) : 1;
	double batch_ns = rate == 0 ? 0 : 1e9 * (double)batch / rate;
	uint64_t calls = 0, busy = 0;
	uint64_t cpu_start = now(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t start = now(CLOCK_MONOTONIC), end = start + (uint64_t)(seconds * 1e9);
	double due = (double)start;
	uint64_t t = start;
	while (t < end && calls < calls_max) {
		uint64_t n = calls_max - calls < batch ? calls_max - calls : batch;
		uint64_t before = now(CLOCK_MONOTONIC);
		for (uint64_t i = 0; i < n; i++)
			foo(i);
		t = now(CLOCK_MONOTONIC);
		busy += t - before;
		calls += n;
		due += batch_ns;
		/* Behind by more than 10 ms: what was missed is dropped, as an overloaded server does. */
		if (due + 1e7 < (double)t)
			due = (double)t;
		while ((double)t < due && t < end)
			t = now(CLOCK_MONOTONIC);
	}
	uint64_t wall = now(CLOCK_MONOTONIC) - start, cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
	printf("calls=%llu wall_ns=%llu cpu_ns=%llu busy_ns=%llu\n", (unsigned long long)calls,
	       (unsigned long long)wall, (unsigned long long)cpu, (unsigned long long)busy);
	return 0;
}
