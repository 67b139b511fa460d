/*
 * <lttng/tracepoint-event.h> without LTTng-UST (weir/lttng-compat.h): reads the provider's header once more where
 * LTTNG_UST_TRACEPOINT_CREATE_PROBES says so, for what describes its events.
 */
#pragma GCC system_header
#if defined(LTTNG_UST_TRACEPOINT_CREATE_PROBES) || defined(TRACEPOINT_CREATE_PROBES)
#undef LTTNG_UST_TRACEPOINT_CREATE_PROBES
#undef TRACEPOINT_CREATE_PROBES
#if !defined(LTTNG_UST_TRACEPOINT_INCLUDE) && defined(TRACEPOINT_INCLUDE)
#define LTTNG_UST_TRACEPOINT_INCLUDE TRACEPOINT_INCLUDE
#define WEIR_LTTNG_INCLUDES
#endif
#ifndef LTTNG_UST_TRACEPOINT_INCLUDE
#error "weir/lttng-compat.h: LTTNG_UST_TRACEPOINT_INCLUDE is to be the provider's header, with its quotes"
#endif

#undef LTTNG_UST_TRACEPOINT_EVENT
#undef LTTNG_UST_TRACEPOINT_EVENT_CLASS
#undef LTTNG_UST_TRACEPOINT_EVENT_INSTANCE
#undef LTTNG_UST_TRACEPOINT_LOGLEVEL
#undef LTTNG_UST_TRACEPOINT_ENUM
#define LTTNG_UST_TRACEPOINT_EVENT(provider, event, pairs, fields) \
	WEIR_LTTNG_CLASS(provider, event, pairs, fields) WEIR_LTTNG_EVENT(provider, event, provider, event)
#define LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, of_class, pairs, fields) WEIR_LTTNG_CLASS(provider, of_class, pairs, fields)
#define LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(template_provider, of_class, provider, event, pairs) \
	WEIR_LTTNG_EVENT(template_provider, of_class, provider, event)
#define LTTNG_UST_TRACEPOINT_LOGLEVEL(provider, event, level) WEIR_LTTNG_LEVEL(provider, event, level)
#define LTTNG_UST_TRACEPOINT_ENUM(provider, enumeration, values) WEIR_LTTNG_ENUM(provider, enumeration, values)

#define WEIR_LTTNG_PROVIDES
#define LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#define TRACEPOINT_HEADER_MULTI_READ
#include LTTNG_UST_TRACEPOINT_INCLUDE
#undef TRACEPOINT_HEADER_MULTI_READ
#undef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#undef WEIR_LTTNG_PROVIDES

/* A provider's header that is read after this one is declared as ever. */
#include <lttng/tracepoint.h>
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#ifdef WEIR_LTTNG_INCLUDES
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#undef WEIR_LTTNG_INCLUDES
#endif
#endif
