/* Emits the events of ros.h: the library that does (-DLIBRARY), as ROS 2's tracetools, and the program that calls it. */
#ifdef LIBRARY
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ros.h"

void ros_emit(long round)
{
    const uint8_t gid[24] = { (uint8_t)round, 1, 0xf, 2 };
    const char *const topics[] = { "/chatter", "/rosout", "" };
    lttng_ust_tracepoint(ros, node, (void *)(0x1000 + round), NULL, "talker", "/");
    lttng_ust_tracepoint(ros, publisher, (void *)round, gid, topics[round % 3], (size_t)round * 10);
    lttng_ust_tracepoint(ros, callback, (void *)(round << 40), round % 2 == 0, -round);
}
#else
#include <stdlib.h>

void ros_emit(long round);

int main(int argc, char **argv)
{
    for (long round = 0; round < (argc > 1 ? atol(argv[1]) : 1); round++)
        ros_emit(round);
    return 0;
}
#endif
