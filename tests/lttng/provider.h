/* LTTng-UST's tracepoint with nine strings, as many as it takes, for `cargo xtask bench filter`; and one with a number, for
 * `cargo xtask bench tracepoint`. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"

#if !defined(BENCH_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_PROVIDER_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    bench, ev,
    LTTNG_UST_TP_ARGS(const char *, a0, const char *, a1, const char *, a2, const char *, a3, const char *, a4,
                      const char *, a5, const char *, a6, const char *, a7, const char *, a8),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(var0, a0) lttng_ust_field_string(var1, a1) lttng_ust_field_string(var2, a2)
        lttng_ust_field_string(var3, a3) lttng_ust_field_string(var4, a4) lttng_ust_field_string(var5, a5)
        lttng_ust_field_string(var6, a6) lttng_ust_field_string(var7, a7) lttng_ust_field_string(var8, a8)))

LTTNG_UST_TRACEPOINT_EVENT(bench, tick, LTTNG_UST_TP_ARGS(unsigned long, n),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(unsigned long, n, n)))

#endif

#include <lttng/tracepoint-event.h>
