/* A server to attach to: calls work() every millisecond.
 *
 * loop [SECONDS]: prints `pid=N`, then runs until standard input ends, SIGTERM comes, or SECONDS (default and most:
 * 100) are over. Prints one line:
 *   calls=N */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

uint64_t work_sum;
static volatile sig_atomic_t stopping;

__attribute__((noinline)) uint64_t work(uint64_t n)
{
	work_sum += n;
	__asm__ volatile("" ::: "memory");
	return work_sum;
}

static void on_term(int signal)
{
	(void)signal;
	stopping = 1;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 100;
	if (seconds > 100)
		seconds = 100;
	alarm(600);
	signal(SIGTERM, on_term);
	printf("pid=%d\n", getpid());
	fflush(stdout);
	uint64_t calls = 0, end = now() + (uint64_t)(seconds * 1e9);
	while (!stopping && now() < end) {
		struct pollfd input = { .fd = 0, .events = POLLIN };
		char bytes[256];
		work(calls++);
		/* The poll is the millisecond of sleep; what is typed is thrown away. */
		if (poll(&input, 1, 1) > 0 && read(0, bytes, sizeof bytes) <= 0)
			break;
	}
	printf("calls=%llu\n", (unsigned long long)calls);
	return 0;
}
