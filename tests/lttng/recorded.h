/* LTTng-UST's tracepoints for `cargo xtask bench record`; recorded.c has weir's of the same fields. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER recorded

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./recorded.h"

#if !defined(RECORDED_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define RECORDED_PROVIDER_H

#include <stdint.h>
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(recorded, ints, LTTNG_UST_TP_ARGS(int, a, long, n),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, a, a) lttng_ust_field_integer(long, n, n)))

LTTNG_UST_TRACEPOINT_EVENT(
    recorded, strings,
    LTTNG_UST_TP_ARGS(const char *, a0, const char *, a1, const char *, a2, const char *, a3, const char *, a4,
                      const char *, a5, const char *, a6, const char *, a7, const char *, a8),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(var0, a0) lttng_ust_field_string(var1, a1) lttng_ust_field_string(var2, a2)
        lttng_ust_field_string(var3, a3) lttng_ust_field_string(var4, a4) lttng_ust_field_string(var5, a5)
        lttng_ust_field_string(var6, a6) lttng_ust_field_string(var7, a7) lttng_ust_field_string(var8, a8)))

LTTNG_UST_TRACEPOINT_EVENT(recorded, blob, LTTNG_UST_TP_ARGS(long, n, const uint8_t *, bytes),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(long, n, n)
                                                   lttng_ust_field_array(uint8_t, bytes, bytes, 64)))

#endif

#include <lttng/tracepoint-event.h>
