/*
 * weir/lttng-compat.h: the providers and tracepoints of LTTng-UST, compiled without LTTng-UST.
 *
 * A program that is instrumented with <lttng/tracepoint.h> is compiled unchanged, and linked without liblttng-ust:
 *
 *     cc -I PREFIX/include/weir/lttng-compat -I PREFIX/include -I. app.c hello-tp.c -o app
 *     weir record -e 'hello_world:*' -o trace -- ./app
 *
 * Its folder lttng-compat has <lttng/tracepoint.h> and <lttng/tracepoint-event.h>, which include this file. The macros are those of
 * LTTng-UST 2.13, and those that it had before (TRACEPOINT_EVENT, TP_ARGS, ctf_integer, tracepoint). An event has the descriptors of
 * LTTng-UST, by which weir lists, traces and records it: `lttng:./app:hello_world:*`. Nothing is registered and no thread is started.
 * While nobody traces an event it costs a comparison of a word in memory with 0 and a branch.
 *
 * docs/tracepoints.md says what differs.
 */
#pragma GCC system_header
#ifndef WEIR_LTTNG_COMPAT_H
#define WEIR_LTTNG_COMPAT_H

#include <stddef.h>
#include <stdint.h>

#include "weir/tracepoint.h"

/* What nothing in the program refers to, and readers of the file want: kept by compilers and, where they know how to say so, by linkers. */
#if defined(__has_attribute)
#if __has_attribute(retain)
#define WEIR_LTTNG_KEPT used, retain
#endif
#endif
#ifndef WEIR_LTTNG_KEPT
#define WEIR_LTTNG_KEPT used
#endif

#ifdef __cplusplus
#define WEIR_LTTNG_EXTERN extern "C"
#else
#define WEIR_LTTNG_EXTERN extern
#endif

/* The descriptors of LTTng-UST 2.13, for machines of 64 bits (include/lttng/ust-events.h there). */
struct weir_lttng_call {
	void (*function)(void);
	void *data;
};
struct weir_lttng_place {
	uint32_t size;
	const char *provider, *name;
	int state;
	struct weir_lttng_call *calls;
	int *reference;
	const char *signature;
};
struct weir_lttng_integer {
	uint32_t kind, size, bits;
	uint16_t alignment, is_signed : 1, is_reversed : 1;
	uint32_t base;
};
struct weir_lttng_float {
	uint32_t kind, size, exponent_bits, mantissa_bits, is_reversed;
};
struct weir_lttng_string {
	uint32_t kind, size, encoding;
};
struct weir_lttng_bound {
	uint64_t value;
	uint32_t is_signed;
};
struct weir_lttng_label {
	uint32_t size;
	struct weir_lttng_bound first, last;
	const char *name;
	uint32_t is_next;
};
struct weir_lttng_labels {
	uint32_t size;
	const char *name;
	const struct weir_lttng_label *const *labels;
	uint32_t count;
};
struct weir_lttng_enumeration {
	uint32_t kind, size;
	const struct weir_lttng_labels *labels;
	const struct weir_lttng_integer *integer;
};
struct weir_lttng_array {
	uint32_t kind, size;
	const struct weir_lttng_integer *element;
	uint32_t length, alignment, encoding;
};
struct weir_lttng_sequence {
	uint32_t kind, size;
	const char *length_name;
	const struct weir_lttng_integer *element;
	uint32_t alignment, encoding;
};
struct weir_lttng_field {
	uint32_t size;
	const char *name;
	const void *type;
	uint32_t is_hidden;
};
struct weir_lttng_provider;
struct weir_lttng_class {
	uint32_t size;
	const struct weir_lttng_field *const *fields;
	size_t count;
	void (*function)(void);
	const char *signature;
	struct weir_lttng_provider *provider;
};
struct weir_lttng_event {
	uint32_t size;
	const char *name;
	struct weir_lttng_provider *provider;
	const struct weir_lttng_class *of_class;
	const int *const *level;
	const char *const *model;
};
struct weir_lttng_provider {
	uint32_t size;
	const char *name;
	const struct weir_lttng_event *const *events;
	uint32_t count, major, minor;
};

/* What a tracer has called: its function `ask` is given the event's fields, a word for a number, a text's address, two for elements. */
struct weir_lttng_tracer {
	size_t size;
	void *own;
	int type;
	void *child;
	int is_enabled, asks;
	int (*ask)(struct weir_lttng_tracer *tracer, const char *row, void *context, void *other);
};
struct weir_lttng_context {
	uint32_t size;
	void *ip;
};

/* Levels are those of LTTng-UST. */
enum lttng_ust_tracepoint_loglevel {
	LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG = WEIR_LEVEL_EMERG,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT = WEIR_LEVEL_ALERT,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT = WEIR_LEVEL_CRIT,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR = WEIR_LEVEL_ERR,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING = WEIR_LEVEL_WARNING,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE = WEIR_LEVEL_NOTICE,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO = WEIR_LEVEL_INFO,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM = WEIR_LEVEL_DEBUG_SYSTEM,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM = WEIR_LEVEL_DEBUG_PROGRAM,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS = WEIR_LEVEL_DEBUG_PROCESS,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE = WEIR_LEVEL_DEBUG_MODULE,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT = WEIR_LEVEL_DEBUG_UNIT,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION = WEIR_LEVEL_DEBUG_FUNCTION,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE = WEIR_LEVEL_DEBUG_LINE,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG = WEIR_LEVEL_DEBUG,
};

/* Where the program says that an event happened. */
#define lttng_ust_tracepoint_enabled(provider, name)									\
	__builtin_expect(__atomic_load_n(&lttng_ust_tracepoint_##provider##___##name.state, __ATOMIC_RELAXED), 0)
#define lttng_ust_do_tracepoint(provider, name, ...) weir_lttng_call_##provider##___##name(__VA_ARGS__)
#define lttng_ust_tracepoint(provider, name, ...)				\
	do {									\
		if (lttng_ust_tracepoint_enabled(provider, name))		\
			lttng_ust_do_tracepoint(provider, name, __VA_ARGS__);	\
	} while (0)

/* ---- What follows is not for use by itself. ---- */

/* Arguments are pairs of a type and a name. */
#define LTTNG_UST_TP_ARGS(...) (__VA_ARGS__)
#define WEIR_LTTNG_PAIRS(...) WEIR_LTTNG_FIND_PAIRS(__VA_ARGS__, WEIR_LTTNG_12, WEIR_LTTNG_12, WEIR_LTTNG_11, \
	WEIR_LTTNG_11, WEIR_LTTNG_10, WEIR_LTTNG_10, WEIR_LTTNG_9, WEIR_LTTNG_9, WEIR_LTTNG_8, WEIR_LTTNG_8, \
	WEIR_LTTNG_7, WEIR_LTTNG_7, WEIR_LTTNG_6, WEIR_LTTNG_6, WEIR_LTTNG_5, WEIR_LTTNG_5, WEIR_LTTNG_4, \
	WEIR_LTTNG_4, WEIR_LTTNG_3, WEIR_LTTNG_3, WEIR_LTTNG_2, WEIR_LTTNG_2, WEIR_LTTNG_1, WEIR_LTTNG_1, \
	WEIR_LTTNG_0, ~)
#define WEIR_LTTNG_FIND_PAIRS(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, \
	a20, a21, a22, a23, a24, a25, found, ...) found
#define WEIR_LTTNG_TYPED(pairs) WEIR_TP_JOIN(WEIR_LTTNG_PAIRS pairs, _TYPED) pairs
#define WEIR_LTTNG_PASSED(pairs) WEIR_TP_JOIN(WEIR_LTTNG_PAIRS pairs, _PASSED) pairs
#define WEIR_LTTNG_VOID(pairs) WEIR_TP_JOIN(WEIR_LTTNG_PAIRS pairs, _VOID) pairs
#define WEIR_LTTNG_AFTER(pairs) WEIR_TP_JOIN(WEIR_LTTNG_PAIRS pairs, _AFTER) pairs
#define WEIR_LTTNG_0_TYPED(...) void
#define WEIR_LTTNG_0_PASSED(...)
#define WEIR_LTTNG_0_VOID(...)
#define WEIR_LTTNG_0_AFTER(...)
#define WEIR_LTTNG_1_TYPED(t1, n1) t1 n1
#define WEIR_LTTNG_1_PASSED(t1, n1) , n1
#define WEIR_LTTNG_1_VOID(t1, n1) (void)n1;
#define WEIR_LTTNG_1_AFTER(...) , WEIR_LTTNG_1_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_2_TYPED(t1, n1, t2, n2) t1 n1, t2 n2
#define WEIR_LTTNG_2_PASSED(t1, n1, t2, n2) , n1, n2
#define WEIR_LTTNG_2_VOID(t1, n1, t2, n2) (void)n1; (void)n2;
#define WEIR_LTTNG_2_AFTER(...) , WEIR_LTTNG_2_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_3_TYPED(t1, n1, t2, n2, t3, n3) t1 n1, t2 n2, t3 n3
#define WEIR_LTTNG_3_PASSED(t1, n1, t2, n2, t3, n3) , n1, n2, n3
#define WEIR_LTTNG_3_VOID(t1, n1, t2, n2, t3, n3) (void)n1; (void)n2; (void)n3;
#define WEIR_LTTNG_3_AFTER(...) , WEIR_LTTNG_3_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_4_TYPED(t1, n1, t2, n2, t3, n3, t4, n4) t1 n1, t2 n2, t3 n3, t4 n4
#define WEIR_LTTNG_4_PASSED(t1, n1, t2, n2, t3, n3, t4, n4) , n1, n2, n3, n4
#define WEIR_LTTNG_4_VOID(t1, n1, t2, n2, t3, n3, t4, n4) (void)n1; (void)n2; (void)n3; (void)n4;
#define WEIR_LTTNG_4_AFTER(...) , WEIR_LTTNG_4_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_5_TYPED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5) t1 n1, t2 n2, t3 n3, t4 n4, t5 n5
#define WEIR_LTTNG_5_PASSED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5) , n1, n2, n3, n4, n5
#define WEIR_LTTNG_5_VOID(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5) (void)n1; (void)n2; (void)n3; (void)n4; (void)n5;
#define WEIR_LTTNG_5_AFTER(...) , WEIR_LTTNG_5_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_6_TYPED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6) t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6
#define WEIR_LTTNG_6_PASSED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6) , n1, n2, n3, n4, n5, n6
#define WEIR_LTTNG_6_VOID(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, \
	n6) (void)n1; (void)n2; (void)n3; (void)n4; (void)n5; (void)n6;
#define WEIR_LTTNG_6_AFTER(...) , WEIR_LTTNG_6_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_7_TYPED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, \
	n7) t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7
#define WEIR_LTTNG_7_PASSED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7) , n1, n2, n3, n4, n5, n6, n7
#define WEIR_LTTNG_7_VOID(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, \
	n7) (void)n1; (void)n2; (void)n3; (void)n4; (void)n5; (void)n6; (void)n7;
#define WEIR_LTTNG_7_AFTER(...) , WEIR_LTTNG_7_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_8_TYPED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, \
	n8) t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8
#define WEIR_LTTNG_8_PASSED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, \
	n8) , n1, n2, n3, n4, n5, n6, n7, n8
#define WEIR_LTTNG_8_VOID(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, \
	n8) (void)n1; (void)n2; (void)n3; (void)n4; (void)n5; (void)n6; (void)n7; (void)n8;
#define WEIR_LTTNG_8_AFTER(...) , WEIR_LTTNG_8_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_9_TYPED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, \
	n9) t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9
#define WEIR_LTTNG_9_PASSED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, \
	n9) , n1, n2, n3, n4, n5, n6, n7, n8, n9
#define WEIR_LTTNG_9_VOID(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, \
	n9) (void)n1; (void)n2; (void)n3; (void)n4; (void)n5; (void)n6; (void)n7; (void)n8; (void)n9;
#define WEIR_LTTNG_9_AFTER(...) , WEIR_LTTNG_9_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_10_TYPED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, \
	n10) t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10
#define WEIR_LTTNG_10_PASSED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, \
	n10) , n1, n2, n3, n4, n5, n6, n7, n8, n9, n10
#define WEIR_LTTNG_10_VOID(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, \
	n10) (void)n1; (void)n2; (void)n3; (void)n4; (void)n5; (void)n6; (void)n7; (void)n8; (void)n9; (void)n10;
#define WEIR_LTTNG_10_AFTER(...) , WEIR_LTTNG_10_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_11_TYPED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, \
	n11) t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10, t11 n11
#define WEIR_LTTNG_11_PASSED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, \
	n11) , n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11
#define WEIR_LTTNG_11_VOID(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, \
	n11) (void)n1; (void)n2; (void)n3; (void)n4; (void)n5; (void)n6; (void)n7; (void)n8; (void)n9; (void)n10; (void)n11;
#define WEIR_LTTNG_11_AFTER(...) , WEIR_LTTNG_11_TYPED(__VA_ARGS__)
#define WEIR_LTTNG_12_TYPED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, \
	n11, t12, n12) t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10, t11 n11, t12 n12
#define WEIR_LTTNG_12_PASSED(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, \
	n11, t12, n12) , n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12
#define WEIR_LTTNG_12_VOID(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, \
	n11, t12, \
	n12) (void)n1; (void)n2; (void)n3; (void)n4; (void)n5; (void)n6; (void)n7; (void)n8; (void)n9; (void)n10; (void)n11; (void)n12;
#define WEIR_LTTNG_12_AFTER(...) , WEIR_LTTNG_12_TYPED(__VA_ARGS__)

/* Fields follow each other without commas: each begins with one, so that they are a list. */
#define LTTNG_UST_TP_FIELDS(...) __VA_ARGS__
#define lttng_ust_field_integer(T, name, value) , (WEIR_LTTNG_INTEGER, 0, name, T, value, 10, 0)
#define lttng_ust_field_integer_nowrite(T, name, value) , (WEIR_LTTNG_INTEGER, 1, name, T, value, 10, 0)
#define lttng_ust_field_integer_hex(T, name, value) , (WEIR_LTTNG_INTEGER, 0, name, T, value, 16, 0)
#define lttng_ust_field_integer_network(T, name, value) , (WEIR_LTTNG_NETWORK, 0, name, T, value, 10, 1)
#define lttng_ust_field_integer_network_hex(T, name, value) , (WEIR_LTTNG_NETWORK, 0, name, T, value, 16, 1)
#define lttng_ust_field_float(T, name, value) , (WEIR_LTTNG_FLOAT, 0, name, T, value)
#define lttng_ust_field_float_nowrite(T, name, value) , (WEIR_LTTNG_FLOAT, 1, name, T, value)
#define lttng_ust_field_string(name, value) , (WEIR_LTTNG_STRING, 0, name, value)
#define lttng_ust_field_string_nowrite(name, value) , (WEIR_LTTNG_STRING, 1, name, value)
#define lttng_ust_field_enum(provider, labels, T, name, value) , (WEIR_LTTNG_ENUM, 0, name, T, value, weir_lttng_labels_##provider##___##labels)
#define lttng_ust_field_enum_nowrite(provider, labels, T, name, value) , (WEIR_LTTNG_ENUM, 1, name, T, value, weir_lttng_labels_##provider##___##labels)
#define lttng_ust_field_array(T, name, first, length) , (WEIR_LTTNG_ARRAY, 0, name, T, first, length, 10, 0, 0)
#define lttng_ust_field_array_nowrite(T, name, first, length) , (WEIR_LTTNG_ARRAY, 1, name, T, first, length, 10, 0, 0)
#define lttng_ust_field_sequence(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 0, name, T, first, length, 10, 0, 0)
#define lttng_ust_field_sequence_nowrite(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 1, name, T, first, length, 10, 0, 0)
#define lttng_ust_field_array_hex(T, name, first, length) , (WEIR_LTTNG_ARRAY, 0, name, T, first, length, 16, 0, 0)
#define lttng_ust_field_array_nowrite_hex(T, name, first, length) , (WEIR_LTTNG_ARRAY, 1, name, T, first, length, 16, 0, 0)
#define lttng_ust_field_sequence_hex(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 0, name, T, first, length, 16, 0, 0)
#define lttng_ust_field_sequence_nowrite_hex(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 1, name, T, first, length, 16, 0, 0)
#define lttng_ust_field_array_network(T, name, first, length) , (WEIR_LTTNG_ARRAY, 0, name, T, first, length, 10, 1, 0)
#define lttng_ust_field_array_network_nowrite(T, name, first, length) , (WEIR_LTTNG_ARRAY, 1, name, T, first, length, 10, 1, 0)
#define lttng_ust_field_sequence_network(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 0, name, T, first, length, 10, 1, 0)
#define lttng_ust_field_sequence_network_nowrite(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 1, name, T, first, length, 10, 1, 0)
#define lttng_ust_field_array_network_hex(T, name, first, length) , (WEIR_LTTNG_ARRAY, 0, name, T, first, length, 16, 1, 0)
#define lttng_ust_field_array_network_nowrite_hex(T, name, first, length) , (WEIR_LTTNG_ARRAY, 1, name, T, first, length, 16, 1, 0)
#define lttng_ust_field_sequence_network_hex(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 0, name, T, first, length, 16, 1, 0)
#define lttng_ust_field_sequence_network_nowrite_hex(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 1, name, T, first, length, 16, 1, 0)
#define lttng_ust_field_array_text(T, name, first, length) , (WEIR_LTTNG_ARRAY, 0, name, T, first, length, 10, 0, 1)
#define lttng_ust_field_array_text_nowrite(T, name, first, length) , (WEIR_LTTNG_ARRAY, 1, name, T, first, length, 10, 0, 1)
#define lttng_ust_field_sequence_text(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 0, name, T, first, length, 10, 0, 1)
#define lttng_ust_field_sequence_text_nowrite(T, name, first, L, length) , (WEIR_LTTNG_SEQUENCE, 1, name, T, first, length, 10, 0, 1)
#define lttng_ust_field_unused(value)
#define lttng_ust_field_unused_nowrite(value)
/* A value of an enumeration, or a range; one without a number follows the one before. */
#define LTTNG_UST_TP_ENUM_VALUES(...) __VA_ARGS__
#define lttng_ust_field_enum_value(name, value) WEIR_LTTNG_LABEL(name, value, value, 0)
#define lttng_ust_field_enum_range(name, first, last) WEIR_LTTNG_LABEL(name, first, last, 0)
#define lttng_ust_field_enum_auto(name) WEIR_LTTNG_LABEL(name, 0, 0, 1)

/* What each kind comes to, n being the number of the field: its type, and its words in a row. */
#define WEIR_LTTNG_INTEGER_TYPE(c, n, hidden, name, T, value, base, reversed)						\
	static const struct weir_lttng_integer weir_lttng_type_##c##_##n = WEIR_LTTNG_NUMBER(T, base, reversed);	\
	WEIR_LTTNG_FIELD(c, n, hidden, name)
#define WEIR_LTTNG_INTEGER_WORD(c, n, hidden, name, T, value, base, reversed) (unsigned long)(T)(value),

#define WEIR_LTTNG_NETWORK_TYPE WEIR_LTTNG_INTEGER_TYPE
#define WEIR_LTTNG_NETWORK_WORD(c, n, hidden, name, T, value, base, reversed)	\
	(unsigned long)WEIR_TP_REVERSED(T, value),

#define WEIR_LTTNG_FLOAT_TYPE(c, n, hidden, name, T, value)							\
	static const struct weir_lttng_float weir_lttng_type_##c##_##n = {					\
		2, sizeof(struct weir_lttng_float), sizeof(T) == 4 ? 8 : 11, sizeof(T) == 4 ? 24 : 53, 0};	\
	WEIR_LTTNG_FIELD(c, n, hidden, name)
#define WEIR_LTTNG_FLOAT_WORD(c, n, hidden, name, T, value) WEIR_TP_BITS(unsigned long, double, (T)(value)),

#define WEIR_LTTNG_STRING_TYPE(c, n, hidden, name, value)								\
	static const struct weir_lttng_string weir_lttng_type_##c##_##n = {1, sizeof(struct weir_lttng_string), 1};	\
	WEIR_LTTNG_FIELD(c, n, hidden, name)
#define WEIR_LTTNG_STRING_WORD(c, n, hidden, name, value) (unsigned long)(const char *)(value),

#define WEIR_LTTNG_ENUM_TYPE(c, n, hidden, name, T, value, of)							\
	static const struct weir_lttng_integer weir_lttng_element_##c##_##n = WEIR_LTTNG_NUMBER(T, 10, 0);	\
	static const struct weir_lttng_enumeration weir_lttng_type_##c##_##n = {				\
		4, sizeof(struct weir_lttng_enumeration), &of, &weir_lttng_element_##c##_##n};			\
	WEIR_LTTNG_FIELD(c, n, hidden, name)
#define WEIR_LTTNG_ENUM_WORD(c, n, hidden, name, T, value, of) (unsigned long)(T)(value),

#define WEIR_LTTNG_ARRAY_TYPE(c, n, hidden, name, T, first, count, base, reversed, encoding)				\
	static const struct weir_lttng_integer weir_lttng_element_##c##_##n = WEIR_LTTNG_NUMBER(T, base, reversed);	\
	static const struct weir_lttng_array weir_lttng_type_##c##_##n = {						\
		5, sizeof(struct weir_lttng_array), &weir_lttng_element_##c##_##n, (count), 0, encoding};		\
	WEIR_LTTNG_FIELD(c, n, hidden, name)
#define WEIR_LTTNG_ARRAY_WORD(c, n, hidden, name, T, first, count, base, reversed, encoding)	\
	(unsigned long)(count), (unsigned long)(const T *)(first),

#define WEIR_LTTNG_SEQUENCE_TYPE(c, n, hidden, name, T, first, count, base, reversed, encoding)				\
	static const struct weir_lttng_integer weir_lttng_element_##c##_##n = WEIR_LTTNG_NUMBER(T, base, reversed);	\
	static const struct weir_lttng_sequence weir_lttng_type_##c##_##n = {						\
		6, sizeof(struct weir_lttng_sequence), 0, &weir_lttng_element_##c##_##n, 0, encoding};			\
	WEIR_LTTNG_FIELD(c, n, hidden, name)
#define WEIR_LTTNG_SEQUENCE_WORD WEIR_LTTNG_ARRAY_WORD

#define WEIR_LTTNG_NUMBER(T, base, reversed)								\
	{0, sizeof(struct weir_lttng_integer), 8 * sizeof(T), 8, WEIR_LTTNG_SIGNED(T), reversed, base}
#define WEIR_LTTNG_FIELD(c, n, hidden, name)							\
	static const struct weir_lttng_field weir_lttng_field_##c##_##n = {			\
		sizeof(struct weir_lttng_field), #name, &weir_lttng_type_##c##_##n, hidden};
#define WEIR_LTTNG_TYPE(c, n, field) WEIR_LTTNG_PART(_TYPE, c, n, WEIR_TP_OPEN field)
#define WEIR_LTTNG_WORD(c, n, field) WEIR_LTTNG_PART(_WORD, c, n, WEIR_TP_OPEN field)
#define WEIR_LTTNG_LISTED(c, n, field) &weir_lttng_field_##c##_##n,
#define WEIR_LTTNG_PART(...) WEIR_LTTNG_PART_(__VA_ARGS__)
#define WEIR_LTTNG_PART_(part, c, n, kind, ...) WEIR_TP_JOIN(kind, part)(c, n, __VA_ARGS__)

/* The macro below for each of so many fields, with a name. */
#define WEIR_LTTNG_EACH(...) WEIR_LTTNG_EACH_(__VA_ARGS__, ~)
#define WEIR_LTTNG_FIND(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
	f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, found, ...) found
#define WEIR_LTTNG_EACH_(part, c, ...) WEIR_LTTNG_FIND(__VA_ARGS__, WEIR_LTTNG_AT_MOST_32_FIELDS, WEIR_LTTNG_AT_MOST_32_FIELDS, \
	WEIR_LTTNG_AT_MOST_32_FIELDS, WEIR_LTTNG_AT_MOST_32_FIELDS, WEIR_LTTNG_EACH_32, WEIR_LTTNG_EACH_31, \
	WEIR_LTTNG_EACH_30, WEIR_LTTNG_EACH_29, WEIR_LTTNG_EACH_28, WEIR_LTTNG_EACH_27, WEIR_LTTNG_EACH_26, \
	WEIR_LTTNG_EACH_25, WEIR_LTTNG_EACH_24, WEIR_LTTNG_EACH_23, WEIR_LTTNG_EACH_22, WEIR_LTTNG_EACH_21, \
	WEIR_LTTNG_EACH_20, WEIR_LTTNG_EACH_19, WEIR_LTTNG_EACH_18, WEIR_LTTNG_EACH_17, WEIR_LTTNG_EACH_16, \
	WEIR_LTTNG_EACH_15, WEIR_LTTNG_EACH_14, WEIR_LTTNG_EACH_13, WEIR_LTTNG_EACH_12, WEIR_LTTNG_EACH_11, \
	WEIR_LTTNG_EACH_10, WEIR_LTTNG_EACH_9, WEIR_LTTNG_EACH_8, WEIR_LTTNG_EACH_7, WEIR_LTTNG_EACH_6, \
	WEIR_LTTNG_EACH_5, WEIR_LTTNG_EACH_4, WEIR_LTTNG_EACH_3, WEIR_LTTNG_EACH_2, WEIR_LTTNG_EACH_1, \
	WEIR_LTTNG_EACH_0, ~)(part, c, __VA_ARGS__)
#define WEIR_LTTNG_EACH_0(part, c, ...)
#define WEIR_LTTNG_EACH_1(part, c, f0, f1, ...) part(c, 1, f1)
#define WEIR_LTTNG_EACH_2(part, c, f0, f1, f2, ...) WEIR_LTTNG_EACH_1(part, c, f0, f1, ~) part(c, 2, f2)
#define WEIR_LTTNG_EACH_3(part, c, f0, f1, f2, f3, ...) WEIR_LTTNG_EACH_2(part, c, f0, f1, f2, ~) part(c, 3, f3)
#define WEIR_LTTNG_EACH_4(part, c, f0, f1, f2, f3, f4, ...) WEIR_LTTNG_EACH_3(part, c, f0, f1, f2, f3, ~) part(c, 4, \
	f4)
#define WEIR_LTTNG_EACH_5(part, c, f0, f1, f2, f3, f4, f5, ...) WEIR_LTTNG_EACH_4(part, c, f0, f1, f2, f3, f4, \
	~) part(c, 5, f5)
#define WEIR_LTTNG_EACH_6(part, c, f0, f1, f2, f3, f4, f5, f6, ...) WEIR_LTTNG_EACH_5(part, c, f0, f1, f2, f3, f4, \
	f5, ~) part(c, 6, f6)
#define WEIR_LTTNG_EACH_7(part, c, f0, f1, f2, f3, f4, f5, f6, f7, ...) WEIR_LTTNG_EACH_6(part, c, f0, f1, f2, f3, \
	f4, f5, f6, ~) part(c, 7, f7)
#define WEIR_LTTNG_EACH_8(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, ...) WEIR_LTTNG_EACH_7(part, c, f0, f1, f2, \
	f3, f4, f5, f6, f7, ~) part(c, 8, f8)
#define WEIR_LTTNG_EACH_9(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, ...) WEIR_LTTNG_EACH_8(part, c, f0, f1, \
	f2, f3, f4, f5, f6, f7, f8, ~) part(c, 9, f9)
#define WEIR_LTTNG_EACH_10(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, ...) WEIR_LTTNG_EACH_9(part, c, f0, \
	f1, f2, f3, f4, f5, f6, f7, f8, f9, ~) part(c, 10, f10)
#define WEIR_LTTNG_EACH_11(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, ...) WEIR_LTTNG_EACH_10(part, \
	c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, ~) part(c, 11, f11)
#define WEIR_LTTNG_EACH_12(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, \
	...) WEIR_LTTNG_EACH_11(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, ~) part(c, 12, f12)
#define WEIR_LTTNG_EACH_13(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, \
	...) WEIR_LTTNG_EACH_12(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ~) part(c, 13, f13)
#define WEIR_LTTNG_EACH_14(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, \
	...) WEIR_LTTNG_EACH_13(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, ~) part(c, 14, \
	f14)
#define WEIR_LTTNG_EACH_15(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, \
	...) WEIR_LTTNG_EACH_14(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, ~) part(c, \
	15, f15)
#define WEIR_LTTNG_EACH_16(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, \
	...) WEIR_LTTNG_EACH_15(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, \
	~) part(c, 16, f16)
#define WEIR_LTTNG_EACH_17(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	...) WEIR_LTTNG_EACH_16(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, \
	~) part(c, 17, f17)
#define WEIR_LTTNG_EACH_18(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, ...) WEIR_LTTNG_EACH_17(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, \
	f16, f17, ~) part(c, 18, f18)
#define WEIR_LTTNG_EACH_19(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, ...) WEIR_LTTNG_EACH_18(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, \
	f15, f16, f17, f18, ~) part(c, 19, f19)
#define WEIR_LTTNG_EACH_20(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, ...) WEIR_LTTNG_EACH_19(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, \
	f14, f15, f16, f17, f18, f19, ~) part(c, 20, f20)
#define WEIR_LTTNG_EACH_21(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, ...) WEIR_LTTNG_EACH_20(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, \
	f13, f14, f15, f16, f17, f18, f19, f20, ~) part(c, 21, f21)
#define WEIR_LTTNG_EACH_22(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, ...) WEIR_LTTNG_EACH_21(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, \
	f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, ~) part(c, 22, f22)
#define WEIR_LTTNG_EACH_23(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, ...) WEIR_LTTNG_EACH_22(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, \
	f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, ~) part(c, 23, f23)
#define WEIR_LTTNG_EACH_24(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, ...) WEIR_LTTNG_EACH_23(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, \
	f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, ~) part(c, 24, f24)
#define WEIR_LTTNG_EACH_25(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, f25, ...) WEIR_LTTNG_EACH_24(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, \
	f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, ~) part(c, 25, f25)
#define WEIR_LTTNG_EACH_26(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, f25, f26, ...) WEIR_LTTNG_EACH_25(part, c, f0, f1, f2, f3, f4, f5, f6, f7, \
	f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, ~) part(c, 26, f26)
#define WEIR_LTTNG_EACH_27(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, ...) WEIR_LTTNG_EACH_26(part, c, f0, f1, f2, f3, f4, f5, \
	f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, \
	~) part(c, 27, f27)
#define WEIR_LTTNG_EACH_28(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, ...) WEIR_LTTNG_EACH_27(part, c, f0, f1, f2, f3, f4, \
	f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, \
	~) part(c, 28, f28)
#define WEIR_LTTNG_EACH_29(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, ...) WEIR_LTTNG_EACH_28(part, c, f0, f1, f2, f3, \
	f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, \
	f27, f28, ~) part(c, 29, f29)
#define WEIR_LTTNG_EACH_30(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, ...) WEIR_LTTNG_EACH_29(part, c, f0, f1, f2, \
	f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, \
	f26, f27, f28, f29, ~) part(c, 30, f30)
#define WEIR_LTTNG_EACH_31(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, ...) WEIR_LTTNG_EACH_30(part, c, f0, \
	f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, \
	f24, f25, f26, f27, f28, f29, f30, ~) part(c, 31, f31)
#define WEIR_LTTNG_EACH_32(part, c, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
	f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, ...) WEIR_LTTNG_EACH_31(part, c, \
	f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, \
	f24, f25, f26, f27, f28, f29, f30, f31, ~) part(c, 32, f32)

/* Types of fields, and values of a row. */
#ifdef __cplusplus
extern "C++" {
template <typename T> struct weir_lttng_signed {
	static constexpr bool value = T(-1) < T(1);
};
template <typename T> struct weir_lttng_signed<T *> {
	static constexpr bool value = false;
};
template <> struct weir_lttng_signed<bool> {
	static constexpr bool value = false;
};
template <unsigned... I> struct weir_lttng_numbers {};
template <unsigned N, unsigned... I> struct weir_lttng_up_to : weir_lttng_up_to<N - 1, N - 1, I...> {};
template <unsigned... I> struct weir_lttng_up_to<0, I...> {
	typedef weir_lttng_numbers<I...> numbers;
};
template <unsigned N> struct weir_lttng_pointers {
	const struct weir_lttng_label *to[N];
};
template <unsigned... I>
constexpr weir_lttng_pointers<sizeof...(I)> weir_lttng_point(const struct weir_lttng_label *first, weir_lttng_numbers<I...>)
{
	return {{(first + I)...}};
}
}
#define WEIR_LTTNG_SIGNED(T) weir_lttng_signed<T>::value
#else
#define WEIR_LTTNG_SIGNED(T) ((T)-1 < (T)1)
#endif

#endif

/* An event's place, and what calls those who want it. The file that includes this says what else it makes of an event. */
#undef WEIR_LTTNG_PLACE
#if defined(LTTNG_UST_TRACEPOINT_DEFINE) || defined(TRACEPOINT_DEFINE)
#define WEIR_LTTNG_PLACE(provider, event, pairs)									\
	struct weir_lttng_place lttng_ust_tracepoint_##provider##___##event						\
		__attribute__((section("lttng_ust_tracepoints"), visibility("hidden"))) = {				\
			sizeof(struct weir_lttng_place), #provider, #event, 0, 0, 0, WEIR_LTTNG_SIGNATURE(pairs)};	\
	static struct weir_lttng_place *weir_lttng_listed_##provider##___##event					\
		__attribute__((section("lttng_ust_tracepoints_ptrs"), WEIR_LTTNG_KEPT)) =				\
			&lttng_ust_tracepoint_##provider##___##event;							\
	WEIR_LTTNG_NEEDS(provider, event)
#else
#define WEIR_LTTNG_PLACE(provider, event, pairs)
#endif
/* The program needs what describes the event, unless that is in a library that comes by itself: it is taken out of an archive. */
#undef WEIR_LTTNG_NEEDS
#if defined(LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE) || defined(TRACEPOINT_PROBE_DYNAMIC_LINKAGE)
#define WEIR_LTTNG_NEEDS(provider, event)
#else
#define WEIR_LTTNG_NEEDS(provider, event)									\
	WEIR_LTTNG_EXTERN const char weir_lttng_provides_##provider##___##event;				\
	static const char *const weir_lttng_needs_##provider##___##event __attribute__((WEIR_LTTNG_KEPT)) =	\
		&weir_lttng_provides_##provider##___##event;
#endif

#ifndef WEIR_LTTNG_MACROS
#define WEIR_LTTNG_MACROS
#define WEIR_LTTNG_SIGNATURE(pairs) WEIR_LTTNG_SIGNATURE_(pairs)
#define WEIR_LTTNG_SIGNATURE_(pairs) #pairs
#define WEIR_LTTNG_CALL(provider, event, pairs)										\
	WEIR_LTTNG_EXTERN struct weir_lttng_place lttng_ust_tracepoint_##provider##___##event				\
		__attribute__((visibility("hidden")));									\
	static inline __attribute__((always_inline, unused)) void weir_lttng_call_##provider##___##event(		\
		WEIR_LTTNG_TYPED(pairs))										\
	{														\
		const struct weir_lttng_call *weir_call =								\
			__atomic_load_n(&lttng_ust_tracepoint_##provider##___##event.calls, __ATOMIC_ACQUIRE);		\
		for (; weir_call && weir_call->function; weir_call++)							\
			((WEIR_LTTNG_FUNCTION(pairs))weir_call->function)(weir_call->data WEIR_LTTNG_PASSED(pairs));	\
	}
#define WEIR_LTTNG_FUNCTION(pairs) void (*)(void *WEIR_LTTNG_AFTER(pairs))

/* What describes a class of events, and the function that a tracer has called for those of it. */
#define WEIR_LTTNG_CLASS(provider, of_class, pairs, ...)			\
	WEIR_LTTNG_CLASS_(provider##___##of_class, pairs, ~ __VA_ARGS__)
#define WEIR_LTTNG_CLASS_(c, pairs, ...)										\
	static void weir_lttng_function_##c(void *weir_tracer WEIR_LTTNG_AFTER(pairs));					\
	WEIR_LTTNG_EACH(WEIR_LTTNG_TYPE, c, __VA_ARGS__)								\
	static const struct weir_lttng_field *const weir_lttng_fields_##c[] = {						\
		WEIR_LTTNG_EACH(WEIR_LTTNG_LISTED, c, __VA_ARGS__) 0};							\
	static const struct weir_lttng_class weir_lttng_class_##c = {							\
		sizeof(struct weir_lttng_class), weir_lttng_fields_##c,							\
		sizeof weir_lttng_fields_##c / sizeof *weir_lttng_fields_##c - 1,					\
		(void (*)(void))weir_lttng_function_##c, WEIR_LTTNG_SIGNATURE(pairs), 0};				\
	static __attribute__((noinline)) void weir_lttng_function_##c(void *weir_tracer WEIR_LTTNG_AFTER(pairs))	\
	{														\
		struct weir_lttng_tracer *weir_asks = (struct weir_lttng_tracer *)weir_tracer;				\
		WEIR_LTTNG_VOID(pairs)											\
		if (weir_asks->is_enabled && weir_asks->asks) {								\
			struct weir_lttng_context weir_context = {sizeof weir_context, __builtin_return_address(0)};	\
			const unsigned long weir_row[] = {WEIR_LTTNG_EACH(WEIR_LTTNG_WORD, c, __VA_ARGS__) 0};		\
			weir_asks->ask(weir_asks, (const char *)weir_row, &weir_context, 0);				\
		}													\
	}

/* An event of a class. */
#define WEIR_LTTNG_EVENT(template_provider, of_class, provider, event)								\
	WEIR_LTTNG_EXTERN const int *const weir_lttng_level_##provider##___##event						\
		__attribute__((weak, visibility("hidden")));									\
	WEIR_LTTNG_EXTERN struct weir_lttng_provider weir_lttng_provider_##provider##___##event					\
		__attribute__((visibility("hidden")));										\
	static const struct weir_lttng_event weir_lttng_event_##provider##___##event = {					\
		sizeof(struct weir_lttng_event), #event, &weir_lttng_provider_##provider##___##event,				\
		&weir_lttng_class_##template_provider##___##of_class, &weir_lttng_level_##provider##___##event, 0};		\
	static const struct weir_lttng_event *const weir_lttng_events_##provider##___##event[] = {				\
		&weir_lttng_event_##provider##___##event};									\
	struct weir_lttng_provider weir_lttng_provider_##provider##___##event							\
		__attribute__((section("weir_lttng_providers"), visibility("hidden"), WEIR_LTTNG_KEPT)) = {			\
			sizeof(struct weir_lttng_provider), #provider, weir_lttng_events_##provider##___##event, 1, 3, 0};	\
	WEIR_LTTNG_EXTERN const char weir_lttng_provides_##provider##___##event;						\
	const char weir_lttng_provides_##provider##___##event = 0;
#define WEIR_LTTNG_LEVEL(provider, event, level)								\
	static const int weir_lttng_number_##provider##___##event = level;					\
	WEIR_LTTNG_EXTERN const int *const weir_lttng_level_##provider##___##event;				\
	const int *const weir_lttng_level_##provider##___##event __attribute__((visibility("hidden"))) =	\
		&weir_lttng_number_##provider##___##event;

/* The names of an enumeration's values. */
#define WEIR_LTTNG_LABEL(name, first, last, is_next)										\
	WEIR_LTTNG_ENTRY({sizeof(struct weir_lttng_label), {(uint64_t)(first), (first) < 0}, {(uint64_t)(last), (last) < 0},	\
			  name, is_next})
#ifdef __cplusplus
#define WEIR_LTTNG_ENTRY(...) __VA_ARGS__,
#define WEIR_LTTNG_ENUM(provider, enumeration, ...)										\
	static constexpr struct weir_lttng_label weir_lttng_values_##provider##___##enumeration[] = {__VA_ARGS__};		\
	static constexpr unsigned weir_lttng_count_##provider##___##enumeration =						\
		sizeof weir_lttng_values_##provider##___##enumeration / sizeof(struct weir_lttng_label);			\
	static constexpr weir_lttng_pointers<weir_lttng_count_##provider##___##enumeration>					\
		weir_lttng_pointers_##provider##___##enumeration =								\
			weir_lttng_point(weir_lttng_values_##provider##___##enumeration,					\
					 weir_lttng_up_to<weir_lttng_count_##provider##___##enumeration>::numbers());		\
	static const struct weir_lttng_labels weir_lttng_labels_##provider##___##enumeration __attribute__((unused)) = {	\
		sizeof(struct weir_lttng_labels), #enumeration, weir_lttng_pointers_##provider##___##enumeration.to,		\
		weir_lttng_count_##provider##___##enumeration};
#else
#define WEIR_LTTNG_ENTRY(...) &(const struct weir_lttng_label)__VA_ARGS__,
#define WEIR_LTTNG_ENUM(provider, enumeration, ...)										\
	static const struct weir_lttng_label *const weir_lttng_values_##provider##___##enumeration[] = {__VA_ARGS__};		\
	static const struct weir_lttng_labels weir_lttng_labels_##provider##___##enumeration __attribute__((unused)) = {	\
		sizeof(struct weir_lttng_labels), #enumeration, weir_lttng_values_##provider##___##enumeration,			\
		sizeof weir_lttng_values_##provider##___##enumeration /								\
			sizeof *weir_lttng_values_##provider##___##enumeration};
#endif

/* The names that LTTng-UST had before 2.13. */
#define tracepoint lttng_ust_tracepoint
#define do_tracepoint lttng_ust_do_tracepoint
#define tracepoint_enabled lttng_ust_tracepoint_enabled
#define TP_ARGS LTTNG_UST_TP_ARGS
#define TP_FIELDS LTTNG_UST_TP_FIELDS
#define TP_ENUM_VALUES LTTNG_UST_TP_ENUM_VALUES
#define TRACEPOINT_ENUM LTTNG_UST_TRACEPOINT_ENUM
#define TRACEPOINT_EVENT LTTNG_UST_TRACEPOINT_EVENT
#define TRACEPOINT_EVENT_CLASS LTTNG_UST_TRACEPOINT_EVENT_CLASS
#define TRACEPOINT_LOGLEVEL LTTNG_UST_TRACEPOINT_LOGLEVEL
#define TRACEPOINT_MODEL_EMF_URI LTTNG_UST_TRACEPOINT_MODEL_EMF_URI
#define TRACEPOINT_EVENT_INSTANCE(provider, of_class, event, pairs) \
	LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(provider, of_class, provider, event, pairs)
#define TRACE_EMERG LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG
#define TRACE_ALERT LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT
#define TRACE_CRIT LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT
#define TRACE_ERR LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR
#define TRACE_WARNING LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING
#define TRACE_NOTICE LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE
#define TRACE_INFO LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO
#define TRACE_DEBUG_SYSTEM LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM
#define TRACE_DEBUG_PROGRAM LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM
#define TRACE_DEBUG_PROCESS LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS
#define TRACE_DEBUG_MODULE LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE
#define TRACE_DEBUG_UNIT LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT
#define TRACE_DEBUG_FUNCTION LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION
#define TRACE_DEBUG_LINE LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE
#define TRACE_DEBUG LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG
#define ctf_integer lttng_ust_field_integer
#define ctf_integer_hex lttng_ust_field_integer_hex
#define ctf_integer_network lttng_ust_field_integer_network
#define ctf_integer_network_hex lttng_ust_field_integer_network_hex
#define ctf_integer_nowrite lttng_ust_field_integer_nowrite
#define ctf_float lttng_ust_field_float
#define ctf_float_nowrite lttng_ust_field_float_nowrite
#define ctf_array lttng_ust_field_array
#define ctf_array_hex lttng_ust_field_array_hex
#define ctf_array_network lttng_ust_field_array_network
#define ctf_array_network_hex lttng_ust_field_array_network_hex
#define ctf_array_text lttng_ust_field_array_text
#define ctf_array_nowrite lttng_ust_field_array_nowrite
#define ctf_array_nowrite_hex lttng_ust_field_array_nowrite_hex
#define ctf_array_network_nowrite lttng_ust_field_array_network_nowrite
#define ctf_array_network_nowrite_hex lttng_ust_field_array_network_nowrite_hex
#define ctf_array_text_nowrite lttng_ust_field_array_text_nowrite
#define ctf_sequence lttng_ust_field_sequence
#define ctf_sequence_hex lttng_ust_field_sequence_hex
#define ctf_sequence_network lttng_ust_field_sequence_network
#define ctf_sequence_network_hex lttng_ust_field_sequence_network_hex
#define ctf_sequence_text lttng_ust_field_sequence_text
#define ctf_sequence_nowrite lttng_ust_field_sequence_nowrite
#define ctf_sequence_nowrite_hex lttng_ust_field_sequence_nowrite_hex
#define ctf_sequence_network_nowrite lttng_ust_field_sequence_network_nowrite
#define ctf_sequence_network_nowrite_hex lttng_ust_field_sequence_network_nowrite_hex
#define ctf_sequence_text_nowrite lttng_ust_field_sequence_text_nowrite
#define ctf_string lttng_ust_field_string
#define ctf_string_nowrite lttng_ust_field_string_nowrite
#define ctf_unused lttng_ust_field_unused
#define ctf_unused_nowrite lttng_ust_field_unused_nowrite
#define ctf_enum lttng_ust_field_enum
#define ctf_enum_nowrite lttng_ust_field_enum_nowrite
#define ctf_enum_value lttng_ust_field_enum_value
#define ctf_enum_range lttng_ust_field_enum_range
#define ctf_enum_auto lttng_ust_field_enum_auto
#endif
