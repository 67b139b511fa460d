/* Prints CLOCK_MONOTONIC in ns, read first thing in main: the time a start took is this minus the time before spawn. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	alarm(600);
	printf("%llu\n", (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec);
	return 0;
}
