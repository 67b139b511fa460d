/* Emits ferry:lands in so many threads (first argument) until a line of input or its end comes, then prints how often. With a second
 * argument so many children emit ferry:leaves a hundred times each instead, one after the other or (third argument) all at once. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ferry.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 64
static volatile int ends;
static unsigned long emitted[THREADS_MAX];

static void *sails(void *thread)
{
    unsigned long *count = thread;
    while (!ends) {
        lttng_ust_tracepoint(ferry, lands, (long)*count);
        if (++*count % 64 == 0)
            usleep(50);
    }
    return NULL;
}

static int fleet(int children, int at_once)
{
    for (int child = 0; child < children; child++) {
        if (fork() == 0) {
            for (long minute = 0; minute < 100; minute++)
                lttng_ust_tracepoint(ferry, leaves, minute);
            _exit(0);
        }
        if (!at_once)
            wait(NULL);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t all[THREADS_MAX];
    unsigned long sum = 0;
    if (argc > 2)
        return fleet(atoi(argv[2]), argc > 3);
    for (int thread = 0; thread < threads && thread < THREADS_MAX; thread++)
        pthread_create(&all[thread], NULL, sails, &emitted[thread]);
    puts("under way");
    fflush(stdout);
    getchar();
    ends = 1;
    for (int thread = 0; thread < threads && thread < THREADS_MAX; thread++) {
        pthread_join(all[thread], NULL);
        sum += emitted[thread];
    }
    printf("%lu\n", sum);
    return 0;
}
