/* A provider with every kind of field that LTTng-UST has. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ferry

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./ferry.h"

#if !defined(FERRY_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define FERRY_H
#include <lttng/tracepoint.h>
#include <stddef.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(ferry, deck,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("car", 1)
        lttng_ust_field_enum_range("sun", 5, 9)
        lttng_ust_field_enum_auto("crew")
        lttng_ust_field_enum_value("below", -3)))

LTTNG_UST_TRACEPOINT_EVENT(ferry, boarded,
    LTTNG_UST_TP_ARGS(int, ticket, const char *, name, double, weight, const uint16_t *, seats, unsigned int, count, const long *, two),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int, ticket, ticket)
        lttng_ust_field_integer_hex(unsigned char, colour, ticket & 0xff)
        lttng_ust_field_integer_network(uint16_t, port, ticket)
        lttng_ust_field_integer_network_hex(uint32_t, address, ticket)
        lttng_ust_field_float(float, height, weight / 2)
        lttng_ust_field_float(double, weight, weight)
        lttng_ust_field_string(name, ticket % 7 ? name : NULL)
        lttng_ust_field_array(long, two, two, 2)
        lttng_ust_field_array_text(char, code, name, 3)
        lttng_ust_field_sequence(uint16_t, seats, seats, unsigned int, count)
        lttng_ust_field_sequence_text(char, letters, name, unsigned int, count)
        lttng_ust_field_enum(ferry, deck, int, deck, ticket % 10)
        lttng_ust_field_integer_nowrite(int, hidden, ticket + 1)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(ferry, boarded, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)

LTTNG_UST_TRACEPOINT_EVENT_CLASS(ferry, stop,
    LTTNG_UST_TP_ARGS(long, minutes),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(long, minutes, minutes)))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(ferry, stop, ferry, lands, LTTNG_UST_TP_ARGS(long, minutes))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(ferry, stop, ferry, leaves, LTTNG_UST_TP_ARGS(long, minutes))

LTTNG_UST_TRACEPOINT_EVENT(ferry, horn, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_LOGLEVEL(ferry, horn, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)
#endif

#include <lttng/tracepoint-event.h>
