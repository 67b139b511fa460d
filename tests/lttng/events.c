/*
 * Calls LTTng-UST's tracepoint so many times, and prints what one call takes: nanoseconds of this thread's CPU time.
 *
 * events COUNT
 */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Read anew for each event. */
static const char *volatile field[9] = {"str0", "str1", "str2", "str3", "str4", "str5", "str6", "str7", "str8"};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void call(unsigned long events)
{
    while (events--)
        lttng_ust_tracepoint(bench, ev, field[0], field[1], field[2], field[3], field[4], field[5], field[6], field[7],
                             field[8]);
}

int main(int argc, char **argv)
{
    unsigned long events = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(sched_getcpu(), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    /* The session's rules come to the process in a thread of LTTng's. */
    usleep(300000);
    call(events / 20 + 1);
    double start = now();
    call(events);
    printf("%.3f\n", (now() - start) / events);
    return 0;
}
