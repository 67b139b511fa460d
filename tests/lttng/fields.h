/* LTTng-UST's tracepoints with fields of every kind that it has, for the tests of `weir view`. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER weir_fields

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./fields.h"

#if !defined(FIELDS_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define FIELDS_PROVIDER_H

#include <stdint.h>
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_ENUM(
    weir_fields, state,
    LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_value("IDLE", 0) lttng_ust_field_enum_value("BUSY \"now\"", 1)
                                 lttng_ust_field_enum_range("SOME", 2, 5) lttng_ust_field_enum_range("MORE", 4, 9)))

LTTNG_UST_TRACEPOINT_EVENT(
    weir_fields, numbers, LTTNG_UST_TP_ARGS(int64_t, value, double, real),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int8_t, i8, value) lttng_ust_field_integer(uint8_t, u8, value)
        lttng_ust_field_integer(int16_t, i16, value) lttng_ust_field_integer(uint16_t, u16, value)
        lttng_ust_field_integer(int32_t, i32, value) lttng_ust_field_integer(uint32_t, u32, value)
        lttng_ust_field_integer(int64_t, i64, value) lttng_ust_field_integer(uint64_t, u64, value)
        lttng_ust_field_integer_hex(int16_t, hex16, value) lttng_ust_field_integer_hex(uint64_t, hex64, value)
        lttng_ust_field_integer_network(uint32_t, network, value)
        lttng_ust_field_integer_network_hex(uint16_t, network_hex, value)
        lttng_ust_field_float(float, single, real) lttng_ust_field_float(double, twice, real)))

LTTNG_UST_TRACEPOINT_EVENT(
    weir_fields, texts,
    LTTNG_UST_TP_ARGS(const char *, text, const int16_t *, numbers, size_t, count, size_t, characters, int, chosen),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(text, text) lttng_ust_field_array(int16_t, array, numbers, 3)
        lttng_ust_field_array_text(char, characters, text, 5)
        lttng_ust_field_sequence(int16_t, sequence, numbers, size_t, count)
        lttng_ust_field_sequence_hex(uint8_t, bytes, text, unsigned char, count)
        lttng_ust_field_sequence_text(char, cut, text, size_t, characters)
        lttng_ust_field_enum(weir_fields, state, int, chosen, chosen)))

LTTNG_UST_TRACEPOINT_EVENT(weir_fields, empty, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
