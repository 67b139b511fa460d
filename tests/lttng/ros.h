/* A provider in the manner of ROS 2's tracetools: handles, names, identities. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ros

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./ros.h"

#if !defined(ROS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define ROS_H
#include <lttng/tracepoint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(ros, node,
    LTTNG_UST_TP_ARGS(const void *, node, const void *, rmw, const char *, name, const char *, space),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(const void *, node_handle, node)
        lttng_ust_field_integer_hex(const void *, rmw_handle, rmw)
        lttng_ust_field_string(node_name, name)
        lttng_ust_field_string(namespace, space)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(ros, node, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

LTTNG_UST_TRACEPOINT_EVENT(ros, publisher,
    LTTNG_UST_TP_ARGS(const void *, publisher, const uint8_t *, gid, const char *, topic, size_t, depth),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(const void *, publisher_handle, publisher)
        lttng_ust_field_array_hex(uint8_t, gid, gid, 24)
        lttng_ust_field_string(topic_name, topic)
        lttng_ust_field_integer(size_t, queue_depth, depth)))

LTTNG_UST_TRACEPOINT_EVENT(ros, callback,
    LTTNG_UST_TP_ARGS(const void *, callback, bool, intra, int64_t, stamp),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(const void *, callback, callback)
        lttng_ust_field_integer(int, is_intra_process, (intra ? 1 : 0))
        lttng_ust_field_integer(int64_t, timestamp, stamp)))
#endif

#include <lttng/tracepoint-event.h>
