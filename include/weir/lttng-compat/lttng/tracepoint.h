/*
 * <lttng/tracepoint.h> without LTTng-UST (weir/lttng-compat.h): tracepoints are declared, and defined where LTTNG_UST_TRACEPOINT_DEFINE
 * says so.
 */
#pragma GCC system_header
#include "weir/lttng-compat.h"

#ifndef WEIR_LTTNG_PROVIDES
#undef LTTNG_UST_TRACEPOINT_EVENT
#undef LTTNG_UST_TRACEPOINT_EVENT_CLASS
#undef LTTNG_UST_TRACEPOINT_EVENT_INSTANCE
#undef LTTNG_UST_TRACEPOINT_LOGLEVEL
#undef LTTNG_UST_TRACEPOINT_MODEL_EMF_URI
#undef LTTNG_UST_TRACEPOINT_ENUM
#define LTTNG_UST_TRACEPOINT_EVENT(provider, event, pairs, fields) \
	WEIR_LTTNG_CALL(provider, event, pairs) WEIR_LTTNG_PLACE(provider, event, pairs)
#define LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, of_class, pairs, fields)
#define LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(template_provider, of_class, provider, event, pairs) \
	WEIR_LTTNG_CALL(provider, event, pairs) WEIR_LTTNG_PLACE(provider, event, pairs)
#define LTTNG_UST_TRACEPOINT_LOGLEVEL(provider, event, level)
#define LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(provider, event, uri)
#define LTTNG_UST_TRACEPOINT_ENUM(provider, enumeration, values)
#endif
