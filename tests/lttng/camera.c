/* Emits events that libcamera describes, so often as its argument says; linked with that library. */
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "camera.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    for (int call = 0; call < (argc > 1 ? atoi(argv[1]) : 1); call++) {
        char name[32];
        snprintf(name, sizeof(name), "configure%d", call);
        lttng_ust_tracepoint(libcamera, ipa_call_begin, "simple", name);
        lttng_ust_tracepoint(libcamera, ipa_call_end, "simple", name);
    }
    return 0;
}
