/* Two events of libcamera's provider, which its library has: here are only the places that emit them. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER libcamera

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./camera.h"

#if !defined(CAMERA_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define CAMERA_H
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(libcamera, ipa_call_begin,
    LTTNG_UST_TP_ARGS(const char *, pipe, const char *, func),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(pipeline_name, pipe) lttng_ust_field_string(function_name, func)))

LTTNG_UST_TRACEPOINT_EVENT(libcamera, ipa_call_end,
    LTTNG_UST_TP_ARGS(const char *, pipe, const char *, func),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(pipeline_name, pipe) lttng_ust_field_string(function_name, func)))
#endif

#include <lttng/tracepoint-event.h>
