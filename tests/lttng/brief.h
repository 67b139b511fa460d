/* LTTng-UST's tracepoint for `cargo xtask soak short-lived` and `bursts`; brief.c has weir's of the same fields. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER brief

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./brief.h"

#if !defined(BRIEF_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BRIEF_PROVIDER_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(brief, event, LTTNG_UST_TP_ARGS(int, process, long, n),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, process, process) lttng_ust_field_integer(long, n, n)))

#endif

#include <lttng/tracepoint-event.h>
