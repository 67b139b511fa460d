/* Emits the events of ferry.h, as often as its argument says. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ferry.h"
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    const uint16_t seats[] = { 12, 13, 14, 15 };
    for (int round = 0; round < rounds; round++) {
        lttng_ust_tracepoint(ferry, boarded, round, "Ada", 61.5, seats, round % 5);
        lttng_ust_tracepoint(ferry, lands, (long)round);
        lttng_ust_tracepoint(ferry, leaves, (long)round + 1);
        lttng_ust_tracepoint(ferry, horn);
    }
    return 0;
}
