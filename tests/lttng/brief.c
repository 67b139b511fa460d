/*
 * Short processes, and a burst: what emits as soon as it runs, and ends then; or as fast as it can.
 *
 * brief fork PROCESSES EVENTS    forks PROCESSES children, one after the other, which emit EVENTS events each
 * brief spawn PROCESSES EVENTS   the same by posix_spawn of itself
 * brief emit EVENTS              emits EVENTS events, back to back; prints the seconds that this took
 *
 * The event is recorded.c's of an int and a long: which process it is, and a number. With -DWEIR the tracepoint is weir's, without it is
 * LTTng-UST's.
 */
#define _GNU_SOURCE
#ifdef WEIR
#include "weir/tracepoint.h"
#else
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "recorded.h"
#endif

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static __attribute__((noinline)) void emit(int process, long events)
{
    for (long n = 0; n < events; n++) {
#ifdef WEIR
        WEIR_TRACEPOINT(recorded, ints, (int, a, process), (long, n, n));
#else
        lttng_ust_tracepoint(recorded, ints, process, n);
#endif
    }
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int count, char **arguments)
{
    alarm(600);
    if (count == 3 && !strcmp(arguments[1], "emit")) {
        double start = seconds();
        emit(0, atol(arguments[2]));
        printf("%.6f\n", seconds() - start);
        return 0;
    }
    if (count != 4)
        return 2;
    char *own[] = {arguments[0], "emit", arguments[3], NULL};
    for (long left = atol(arguments[2]); left > 0; left--) {
        pid_t child = 0;
        if (!strcmp(arguments[1], "spawn")) {
            if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, own, environ))
                return 3;
        } else if ((child = fork()) == 0) {
            emit((int)left, atol(arguments[3]));
            _exit(0);
        }
        if (child < 0 || waitpid(child, NULL, 0) < 0)
            return 3;
    }
    return 0;
}
