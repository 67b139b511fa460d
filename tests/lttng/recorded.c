/*
 * Events that are recorded, in batches that a ring holds, with a pause behind each in which whoever reads may follow: nothing need be
 * lost. Prints what an event takes: nanoseconds of CPU time of the threads that emit.
 *
 * recorded KIND THREADS BATCHES   (KIND: ints, strings or blob)
 *
 * With -DWEIR the tracepoints are weir's, without they are LTTng-UST's.
 */
#define _GNU_SOURCE
#ifdef WEIR
#include "weir/tracepoint.h"
#else
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "recorded.h"
#endif

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 1000, PAUSE_US = 4000, THREADS_MAX = 64 };

/* Read anew for each event. */
static const char *volatile field[9] = {"str0", "str1", "str2", "str3", "str4", "str5", "str6", "str7", "str8"};
static uint8_t bytes[64];
static const char *kind;
static long batches;

static void ints(long n)
{
#ifdef WEIR
    WEIR_TRACEPOINT(recorded, ints, (int, a, (int)n), (long, n, n));
#else
    lttng_ust_tracepoint(recorded, ints, (int)n, n);
#endif
}

static void strings(void)
{
#ifdef WEIR
    WEIR_TRACEPOINT(recorded, strings, (string, var0, field[0]), (string, var1, field[1]), (string, var2, field[2]),
                    (string, var3, field[3]), (string, var4, field[4]), (string, var5, field[5]),
                    (string, var6, field[6]), (string, var7, field[7]), (string, var8, field[8]));
#else
    lttng_ust_tracepoint(recorded, strings, field[0], field[1], field[2], field[3], field[4], field[5], field[6],
                         field[7], field[8]);
#endif
}

static void blob(long n)
{
#ifdef WEIR
    WEIR_TRACEPOINT(recorded, blob, (long, n, n), (array(uint8_t, 64), bytes, bytes));
#else
    lttng_ust_tracepoint(recorded, blob, n, bytes);
#endif
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *run(void *took)
{
    double sum = 0;
    for (long batch = 0; batch < batches; batch++) {
        double start = now();
        if (kind[0] == 'i')
            for (long n = 0; n < BATCH; n++)
                ints(n);
        else if (kind[0] == 's')
            for (long n = 0; n < BATCH; n++)
                strings();
        else
            for (long n = 0; n < BATCH; n++)
                blob(n);
        sum += now() - start;
        usleep(PAUSE_US);
    }
    *(double *)took = sum;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    double took[THREADS_MAX], sum = 0;
    if (argc != 4)
        return 2;
    kind = argv[1];
    int count = atoi(argv[2]);
    batches = atol(argv[3]);
    if (count < 1 || count > THREADS_MAX || batches < 1)
        return 2;
    memset(bytes, 7, sizeof bytes);
    /* LTTng's rules come to the process in a thread of its own. */
    usleep(300000);
    for (int thread = 0; thread < count; thread++)
        pthread_create(&threads[thread], NULL, run, &took[thread]);
    for (int thread = 0; thread < count; thread++) {
        pthread_join(threads[thread], NULL);
        sum += took[thread];
    }
    printf("%.3f\n", sum / (double)(count * batches * BATCH));
    return 0;
}
