/* Emits the events of ferry.h, as often as its argument says; with a second one it waits for a line of input first. Without a provider of its
 * own (-DDYNAMIC) that is another file's. */
#ifdef DYNAMIC
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#else
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#endif
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ferry.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    const uint16_t seats[] = { 12, 13, 14, 15 };
    if (argc > 2)
        getchar();
    for (int round = 0; round < rounds; round++) {
        const long two[] = { round, -round };
        lttng_ust_tracepoint(ferry, boarded, round, "Ada", 61.5, seats, round % 5, two);
        lttng_ust_tracepoint(ferry, lands, (long)round);
        lttng_ust_tracepoint(ferry, leaves, (long)round + 1);
        lttng_ust_tracepoint(ferry, horn);
    }
    return 0;
}
