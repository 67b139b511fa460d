/* A process that emits at a steady rate while children of its come one after the other, wait, and are ended with it: `brood MILLISECONDS
 * EVENTS CHILDREN`, with EVENTS in each millisecond. Children emit nothing. Says how many events were emitted. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weir/tracepoint.h"

#define CHILDREN_MAX 100

__attribute__((noinline)) static void emit(long n)
{
	WEIR_TRACEPOINT(brood, tick, (long, n, n), (long, twice, 2 * n));
}

int main(int argc, char **argv)
{
	long lasts = argc > 3 ? atol(argv[1]) : 0, events = argc > 3 ? atol(argv[2]) : 0, children = argc > 3 ? atol(argv[3]) : 0;
	long emitted = 0;
	pid_t all[CHILDREN_MAX];
	if (lasts < 1 || events < 1 || children < 0 || children > CHILDREN_MAX)
		return 2;
	long born = 0;
	for (long now = 0; now < lasts; now++) {
		struct timespec pause = {0, 1000000};
		for (long i = 0; i < events; i++)
			emit(emitted++);
		if (born < children && now * (children + 1) >= lasts * (born + 1)) {
			pid_t child = fork();
			if (child == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				for (;;)
					/* No verdict depends on how long: it is ended. */
					pause.tv_sec = 10, nanosleep(&pause, NULL);
			}
			if (child < 0)
				return 3;
			all[born++] = child;
		}
		/* The rate alone: the verdict is of counts. */
		nanosleep(&pause, NULL);
	}
	for (long i = 0; i < born; i++) {
		kill(all[i], SIGKILL);
		waitpid(all[i], NULL, 0);
	}
	printf("emitted %ld\n", emitted);
	return 0;
}
