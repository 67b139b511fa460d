/* Rows with fields of every kind, for what filters decide of them: one event for each row of corpus.c. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER corpus

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./corpus.h"

#if !defined(CORPUS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define CORPUS_H
#include <lttng/tracepoint.h>
#include <stdint.h>

#ifndef CORPUS_ROW
#define CORPUS_ROW
struct row {
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f;
    double d;
    const char *s, *t;
    char tag[8];
    int16_t arr[3];
    int32_t seq[4];
    unsigned int count;
    int state;
};
#endif

LTTNG_UST_TRACEPOINT_ENUM(corpus, state,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("idle", 0)
        lttng_ust_field_enum_value("busy", 1)
        lttng_ust_field_enum_range("late", 2, 5)))

LTTNG_UST_TRACEPOINT_EVENT(corpus, row,
    LTTNG_UST_TP_ARGS(int, id, const struct row *, r),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int, id, id)
        lttng_ust_field_integer(int8_t, i8, r->i8)
        lttng_ust_field_integer(uint8_t, u8, r->u8)
        lttng_ust_field_integer(int16_t, i16, r->i16)
        lttng_ust_field_integer_hex(uint16_t, u16, r->u16)
        lttng_ust_field_integer(int32_t, i32, r->i32)
        lttng_ust_field_integer(uint32_t, u32, r->u32)
        lttng_ust_field_integer(int64_t, i64, r->i64)
        lttng_ust_field_integer(uint64_t, u64, r->u64)
        lttng_ust_field_integer_network(uint32_t, net, r->u32)
        lttng_ust_field_float(float, f, r->f)
        lttng_ust_field_float(double, d, r->d)
        lttng_ust_field_string(s, r->s)
        lttng_ust_field_string(t, r->t)
        lttng_ust_field_array_text(char, tag, r->tag, 8)
        lttng_ust_field_array(int16_t, arr, r->arr, 3)
        lttng_ust_field_sequence(int32_t, seq, r->seq, unsigned int, r->count)
        lttng_ust_field_enum(corpus, state, int, state, r->state)))
#endif

#include <lttng/tracepoint-event.h>
