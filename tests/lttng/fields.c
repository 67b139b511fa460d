/*
 * Calls LTTng-UST's tracepoints with fields of every kind, from two threads, with values that are the same each time.
 *
 * fields ROUNDS
 */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "fields.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* No text is empty: babeltrace2 2.0.4 shows what an earlier event had in its place. */
static const char *const texts[] = {"x", "plain", "quoted \"'\\?", "control \a\b\f\n\r\t\v\x01\x1b\x7f", "h\xc3\xa9 \xff"};

static void *call(void *rounds)
{
    uint64_t state = 88172645463325252u;
    for (long round = 0; round < *(long *)rounds; round++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        int16_t numbers[7];
        for (int i = 0; i < 7; i++)
            numbers[i] = (int16_t)(state >> (i * 8));
        const char *text = texts[state % 5];
        char held[16] = {0};
        snprintf(held, sizeof held, "%s", text);
        double real = round % 7 ? (double)(int64_t)state / (1 << (round % 30)) : round % 2 ? 0.1 : -1e300 * 1e10;
        lttng_ust_tracepoint(weir_fields, numbers, (int64_t)state >> (round % 64), real);
        lttng_ust_tracepoint(weir_fields, texts, held, numbers, state % 8, 1 + state % 9,
                             (int)(state % 12) - 1);
        lttng_ust_tracepoint(weir_fields, empty);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    pthread_t other;
    pthread_create(&other, NULL, call, &rounds);
    call(&rounds);
    pthread_join(other, NULL);
    return 0;
}
