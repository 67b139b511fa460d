/* Calls foo from pinned threads at three rates, and tells the CPU time that each took.
 *
 * hits THREADS MS: says `ready pid=N`, waits for a line, or the end, of standard input, and then calls foo at 2,000,000,
 * 8,000,000 and 30,000,000 calls a second and thread, for MS milliseconds each. Prints for each rate
 *   calls=N cpu_ns=N
 * (of all threads together) and `done`, and ends when standard input does.
 *
 * Calls are made in batches, one a millisecond. cpu_ns is the CPU time of the batches: what other programs take meanwhile
 * is not in it, and what reading the clock costs is the same at each rate, so that a slope over the rates does not
 * have it. A rate that cannot be met is not made up for: fewer calls are made, at least one batch. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64, RATES = 3, KEYS = 256 };
static const uint64_t batches[RATES] = { 2000, 8000, 30000 };
static uint64_t run_ms;
static unsigned threads;
static pthread_barrier_t barrier;
static uint64_t calls[THREADS_MAX][RATES], cpu_ns[THREADS_MAX][RATES];

/* An ordinary small function: an argument in memory, a result. The asm keeps the compiler from knowing what it does. */
__attribute__((noinline)) uint64_t foo(uint64_t n, uint64_t *sum)
{
	*sum += n;
	__asm__ volatile("" ::: "memory");
	return *sum ^ n;
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run_rate(uint64_t thread, int rate)
{
	uint64_t sum = 0, made = 0, cpu = 0;
	uint64_t start = now(CLOCK_MONOTONIC), end = start + run_ms * 1000000, due = start;
	do {
		uint64_t before = now(CLOCK_THREAD_CPUTIME_ID);
		for (uint64_t i = 0; i < batches[rate]; i++)
			foo(i % KEYS, &sum);
		cpu += now(CLOCK_THREAD_CPUTIME_ID) - before;
		made += batches[rate];
		due += 1000000;
		while (now(CLOCK_MONOTONIC) < due)
			;
	} while (now(CLOCK_MONOTONIC) < end);
	calls[thread][rate] = made;
	cpu_ns[thread][rate] = cpu;
}

static void *run(void *argument)
{
	uint64_t thread = (uint64_t)(uintptr_t)argument;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(thread % (uint64_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof set, &set);
	for (int rate = 0; rate < RATES; rate++) {
		pthread_barrier_wait(&barrier);
		run_rate(thread, rate);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	threads = argc > 2 ? (unsigned)atoi(argv[1]) : 0;
	if (threads == 0 || threads > THREADS_MAX) {
		fprintf(stderr, "usage: hits THREADS MS\n");
		return 2;
	}
	run_ms = strtoull(argv[2], NULL, 10);
	alarm(600);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready pid=%d\n", (int)getpid());
	for (int c = getchar(); c != EOF && c != '\n'; c = getchar())
		;
	pthread_t ids[THREADS_MAX];
	pthread_barrier_init(&barrier, NULL, threads);
	for (unsigned n = 0; n < threads; n++)
		pthread_create(&ids[n], NULL, run, (void *)(uintptr_t)n);
	for (unsigned n = 0; n < threads; n++)
		pthread_join(ids[n], NULL);
	for (int rate = 0; rate < RATES; rate++) {
		uint64_t all = 0, cpu = 0;
		for (unsigned n = 0; n < threads; n++) {
			all += calls[n][rate];
			cpu += cpu_ns[n][rate];
		}
		printf("calls=%llu cpu_ns=%llu\n", (unsigned long long)all, (unsigned long long)cpu);
	}
	puts("done");
	while (getchar() != EOF)
		;
	return 0;
}
