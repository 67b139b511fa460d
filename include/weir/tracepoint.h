/*
 * weir/tracepoint.h: static tracepoints for C and C++.
 *
 *     WEIR_TRACEPOINT(shop, sale, (unsigned, customer, id), (double, total, sum), (string, article, name));
 *
 * is a statement. While nobody traces the event it costs two instructions, a comparison of a word in memory with 0 and
 * a branch that is not taken, and evaluates none of the values. Nothing is linked, started or registered. Each place is
 * a note in the file, by which bpftrace, perf, SystemTap and weir find it; weir also finds names and types:
 *
 *     weir list -v 'usdt:./shop:*'
 *     weir trace -e 'usdt:./shop:sale { @[str(arg2)] = sum(arg1); }' -p "$(pidof shop)"
 *
 * A field has a type, a name and a value. Values are evaluated once, in any order, while somebody traces the event.
 *
 *     (T, name, value)                        any integer type of C, with its width and its sign
 *     (hex(T), name, value)                   the same, shown in hexadecimal
 *     (pointer, name, address)                an address that nobody follows
 *     (float, name, value), (double, …)       a floating-point number
 *     (string, name, text)                    characters up to a NUL; may be a null pointer
 *     (array(T, count), name, first)          so many numbers; T may be float or double too
 *     (sequence(T), name, first, count)       the same, as many as `count` says each time
 *     (text, name, first, count)              so many characters, without a NUL
 *     (enumeration(T, labels), name, value)   an integer whose values have names, by WEIR_LABELS
 *     (structure(members), name, address)     numbers in a struct, by WEIR_MEMBERS
 *
 * There are at most 12 arguments: a sequence and a text take two, every other field one. All are in registers or
 * constants.
 * docs/tracepoints.md is the guide, docs/tracepoint-format.md the format of the notes.
 */
#ifndef WEIR_TRACEPOINT_H
#define WEIR_TRACEPOINT_H

#if !defined(__GNUC__) || !defined(__ELF__) || !defined(__x86_64__) || defined(__ILP32__)
#error "weir/tracepoint.h: tracepoints are for gcc or clang, ELF files and x86-64 with 64-bit pointers"
#endif

/* Provider and event are names of C, and so are fields. The level is that of WEIR_LEVEL_DEBUG_LINE. */
#define WEIR_TRACEPOINT(...) WEIR_TRACEPOINT_LEVEL(WEIR_LEVEL_DEBUG_LINE, __VA_ARGS__)

/* WEIR_TRACEPOINT_LEVEL(level, provider, event, fields...): the same with a level, a constant. */
#define WEIR_TRACEPOINT_LEVEL(...) WEIR_TP_STATEMENT(WEIR_TP_EACH(__VA_ARGS__), __VA_ARGS__, ~)

/* Levels: names and numbers are LTTng's. */
#define WEIR_LEVEL_EMERG 0
#define WEIR_LEVEL_ALERT 1
#define WEIR_LEVEL_CRIT 2
#define WEIR_LEVEL_ERR 3
#define WEIR_LEVEL_WARNING 4
#define WEIR_LEVEL_NOTICE 5
#define WEIR_LEVEL_INFO 6
#define WEIR_LEVEL_DEBUG_SYSTEM 7
#define WEIR_LEVEL_DEBUG_PROGRAM 8
#define WEIR_LEVEL_DEBUG_PROCESS 9
#define WEIR_LEVEL_DEBUG_MODULE 10
#define WEIR_LEVEL_DEBUG_UNIT 11
#define WEIR_LEVEL_DEBUG_FUNCTION 12
#define WEIR_LEVEL_DEBUG_LINE 13
#define WEIR_LEVEL_DEBUG 14

/*
 * Names of values, and members of a struct, are tables outside of functions:
 *
 *     WEIR_LABELS(color_labels, WEIR_LABEL(RED), WEIR_LABEL(GREEN), WEIR_RANGE("custom", 16, 255));
 *     WEIR_MEMBERS(point_members, WEIR_MEMBER(struct point, x), WEIR_MEMBER(struct point, y));
 *
 * A name has at most 47 bytes. A member is a number.
 */
#define WEIR_LABELS(name, ...) WEIR_TP_TABLE(name, __VA_ARGS__)
#define WEIR_LABEL(constant) WEIR_RANGE(#constant, constant, constant)
#define WEIR_RANGE(label, first, last) {WEIR_TP_CAST(long long, first), WEIR_TP_CAST(long long, last), label}
#define WEIR_MEMBERS(name, ...) WEIR_TP_TABLE(name, __VA_ARGS__)
#define WEIR_MEMBER(T, member) \
	{__builtin_offsetof(T, member), WEIR_TP_NUMBER(__typeof__(WEIR_TP_CAST(T *, 0)->member)), #member}

/* ---- What follows is not for use by itself. ---- */

/* A row of a table: first and last value of a label, or offset and number of a member. An empty name ends it. */
struct weir_tracepoint_row {
	long long first, last;
	char name[48];
};
#define WEIR_TP_TABLE(name, ...) \
	static const struct weir_tracepoint_row name[] __attribute__((__unused__)) = {__VA_ARGS__, {0, 0, ""}}

/* The test, and the place. The comparison is written here, since gcc makes three instructions of a volatile load. */
#define WEIR_TP_STATEMENT(each, level, provider, event, ...)                                                         \
	do {                                                                                                         \
		int weir_##provider##_##event##_is_on;                                                               \
		__asm__ __volatile__("cmpw $0, " WEIR_TP_SEMAPHORE(provider, event) "(%%rip)"                        \
				     : "=@ccne"(weir_##provider##_##event##_is_on));                                 \
		if (__builtin_expect(weir_##provider##_##event##_is_on, 0)) {                                        \
			WEIR_TP_ASSERT(WEIR_TP_CAST(unsigned, level) <= WEIR_LEVEL_DEBUG,                            \
				       "weir: a level is one of WEIR_LEVEL_EMERG to WEIR_LEVEL_DEBUG");              \
			WEIR_TP_ASSERT((0 each(WEIR_TP_TAKES, __VA_ARGS__)) < WEIR_TP_NO_NUMBER,                     \
				       "weir: a type is an integer type of 1, 2, 4 or 8 bytes, hex(T), pointer, "    \
				       "float, double, string, text, array(T, count), sequence(T), "                 \
				       "enumeration(T, labels) or structure(members)");                              \
			WEIR_TP_ASSERT((0 each(WEIR_TP_TAKES, __VA_ARGS__)) % WEIR_TP_NO_NUMBER <= 12,               \
				       "weir: an event has at most 12 arguments; a sequence and a text take two");   \
			__asm__ __volatile__ __inline__(                                                             \
				WEIR_TP_SITE(WEIR_TP_SEMAPHORE(provider, event), #provider, #event,                  \
					     each(WEIR_TP_ARGUMENT, __VA_ARGS__), each(WEIR_TP_RECORD, __VA_ARGS__)) \
				: : [weir] "n"(level) each(WEIR_TP_OPERAND, __VA_ARGS__)                             \
				: "cc" each(WEIR_TP_CLOBBER, __VA_ARGS__));                                          \
		}                                                                                                    \
	} while (0)

/* One for an event of a program or library, whatever number of places it has: the first of all definitions. */
#define WEIR_TP_SEMAPHORE(provider, event) "weir.semaphore." #provider "." #event

/*
 * The nop is what tracers replace: one instruction of five bytes in one aligned word. Notes are in the group of the code
 * that they are about ("?"), and are left out of the file with it; they are not loaded, so that nothing is relocated.
 */
#define WEIR_TP_SITE(semaphore, provider, event, arguments, records)         \
	".p2align 3\n"                                                       \
	"770: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"                          \
	".ifndef " semaphore "\n"                                            \
	".pushsection .probes,\"awG\",@progbits," semaphore ",comdat\n"      \
	".balign 2; .weak " semaphore "; .hidden " semaphore "\n"            \
	".type " semaphore ",@object; .size " semaphore ",2\n"               \
	semaphore ": .2byte 0\n"                                             \
	".popsection; .endif\n"                                              \
	".ifndef _.stapsdt.base\n"                                           \
	".pushsection .stapsdt.base,\"aG\",@progbits,.stapsdt.base,comdat\n" \
	".weak _.stapsdt.base; .hidden _.stapsdt.base\n"                     \
	"_.stapsdt.base: .space 1; .size _.stapsdt.base,1\n"                 \
	".popsection; .endif\n"                                              \
	".pushsection .note.stapsdt,\"?\",@note\n"                           \
	".balign 4; .4byte 772f-771f, 774f-773f, 3\n"                        \
	"771: .asciz \"stapsdt\"\n"                                          \
	"772: .balign 4\n"                                                   \
	"773: .8byte 770b, _.stapsdt.base, " semaphore "\n"                  \
	".asciz \"" provider "\", \"" event "\", \"" arguments "\"\n"        \
	"774: .balign 4\n"                                                   \
	".popsection\n"                                                      \
	".pushsection .note.weir,\"?\",@note\n"                              \
	".balign 4; .4byte 772f-771f, 774f-773f, 1\n"                        \
	"771: .asciz \"weir\"\n"                                             \
	"772: .balign 4\n"                                                   \
	"773: .8byte 770b, %c[weir]\n"                                       \
	records                                                              \
	"774: .balign 4\n"                                                   \
	".popsection\n"

/* A field's record: kind, form and bytes of a number, how many, the address of a table, the name. */
#define WEIR_TP_FIELD(kind, form, bytes, count, table, name) \
	".byte " kind ", " form ", " bytes ", 0; .4byte " count "; .8byte " table "; .asciz \"" name "\"\n"

/* A record with a table. The relocation changes nothing: it ties the table to the code, with which the linker keeps it. */
#define WEIR_TP_FIELD_WITH_TABLE(kind, bytes, table, name)                                          \
	".popsection; .reloc 770b, R_X86_64_NONE, " table "; .pushsection .note.weir,\"?\",@note\n" \
	WEIR_TP_FIELD(kind, "0", bytes, "0", table, name)

/*
 * What each type comes to:
 *   TAKES      how many arguments
 *   ARGUMENT   text of the stapsdt note
 *   RECORD     text of the weir note
 *   OPERAND    what the compiler fills in there: v_NAME is the value, n_NAME a number's size and sign
 *   CLOBBER    memory, where somebody may follow the address: what was written there has to be there
 */
#define WEIR_INTEGER_TAKES(_, T, name, value) +WEIR_TP_IF_INTEGER(T)
#define WEIR_INTEGER_ARGUMENT(gap, T, name, value) gap "%c[n_" #name "]@%[v_" #name "]"
#define WEIR_INTEGER_RECORD(_, T, name, value) WEIR_TP_FIELD("1", "0", "%c[n_" #name "]", "0", "0", #name)
#define WEIR_INTEGER_OPERAND(_, T, name, value) \
	, [n_##name] "n"(WEIR_TP_BYTES(T)), [v_##name] "nr"(WEIR_TP_CAST(T, value))
#define WEIR_INTEGER_CLOBBER(_, T, name, value)

#define WEIR_HEX_TAKES(_, type, name, value) +WEIR_TP_IF_INTEGER(WEIR_TP_T_##type)
#define WEIR_HEX_ARGUMENT WEIR_INTEGER_ARGUMENT
#define WEIR_HEX_RECORD(_, type, name, value) WEIR_TP_FIELD("1", "1", "%c[n_" #name "]", "0", "0", #name)
#define WEIR_HEX_OPERAND(_, type, name, value) WEIR_INTEGER_OPERAND(_, WEIR_TP_T_##type, name, value)
#define WEIR_HEX_CLOBBER WEIR_INTEGER_CLOBBER

#define WEIR_ENUMERATION_TAKES(_, type, name, value) +WEIR_TP_IF_INTEGER(WEIR_TP_T_##type)
#define WEIR_ENUMERATION_ARGUMENT WEIR_INTEGER_ARGUMENT
#define WEIR_ENUMERATION_RECORD(_, type, name, value) \
	WEIR_TP_FIELD_WITH_TABLE("5", "%c[n_" #name "]", "%c[t_" #name "]", #name)
#define WEIR_ENUMERATION_OPERAND(_, type, name, value) \
	WEIR_INTEGER_OPERAND(_, WEIR_TP_T_##type, name, value), [t_##name] "i"(WEIR_TP_TABLE_##type)
#define WEIR_ENUMERATION_CLOBBER WEIR_INTEGER_CLOBBER

/* Bits of floating-point numbers are passed as integers, which every tracer takes. */
#define WEIR_FLOAT_TAKES(_, type, name, value) +1
#define WEIR_FLOAT_ARGUMENT(gap, type, name, value) gap "4@%[v_" #name "]"
#define WEIR_FLOAT_RECORD(_, type, name, value) WEIR_TP_FIELD("1", "2", "4", "0", "0", #name)
#define WEIR_FLOAT_OPERAND(_, type, name, value) , [v_##name] "nr"(WEIR_TP_BITS(unsigned, float, value))
#define WEIR_FLOAT_CLOBBER(_, type, name, value)

#define WEIR_DOUBLE_TAKES(_, type, name, value) +1
#define WEIR_DOUBLE_ARGUMENT(gap, type, name, value) gap "8@%[v_" #name "]"
#define WEIR_DOUBLE_RECORD(_, type, name, value) WEIR_TP_FIELD("1", "2", "8", "0", "0", #name)
#define WEIR_DOUBLE_OPERAND(_, type, name, value) , [v_##name] "nr"(WEIR_TP_BITS(unsigned long, double, value))
#define WEIR_DOUBLE_CLOBBER(_, type, name, value)

#define WEIR_POINTER_TAKES(_, type, name, value) +1
#define WEIR_POINTER_ARGUMENT(gap, type, name, value) gap "8@%[v_" #name "]"
#define WEIR_POINTER_RECORD(_, type, name, value) WEIR_TP_FIELD("1", "1", "8", "0", "0", #name)
#define WEIR_POINTER_OPERAND(_, type, name, value) , [v_##name] "nr"(WEIR_TP_POINTER(volatile void, value))
#define WEIR_POINTER_CLOBBER(_, type, name, value)

#define WEIR_STRING_TAKES WEIR_POINTER_TAKES
#define WEIR_STRING_ARGUMENT WEIR_POINTER_ARGUMENT
#define WEIR_STRING_RECORD(_, type, name, value) WEIR_TP_FIELD("2", "0", "1", "0", "0", #name)
#define WEIR_STRING_OPERAND(_, type, name, value) , [v_##name] "nr"(WEIR_TP_POINTER(char, value))
#define WEIR_STRING_CLOBBER(_, type, name, value) , "memory"

#define WEIR_ARRAY_TAKES(_, type, name, first) +WEIR_TP_IF_NUMBER(WEIR_TP_T_##type)
#define WEIR_ARRAY_ARGUMENT WEIR_POINTER_ARGUMENT
#define WEIR_ARRAY_RECORD(_, type, name, first) \
	WEIR_TP_FIELD("3", "(%c[n_" #name "] >> 8) & 255", "%c[n_" #name "] & 255", "%c[n_" #name "] >> 16", "0", #name)
#define WEIR_ARRAY_OPERAND(_, type, name, first)                                                                    \
	, [n_##name] "n"(WEIR_TP_NUMBER(WEIR_TP_T_##type) + (WEIR_TP_CAST(long long, WEIR_TP_COUNT_##type) << 16)), \
		[v_##name] "nr"(WEIR_TP_POINTER(WEIR_TP_T_##type, first))
#define WEIR_ARRAY_CLOBBER WEIR_STRING_CLOBBER

#define WEIR_SEQUENCE_TAKES(_, type, name, first, count) +1 + WEIR_TP_IF_NUMBER(WEIR_TP_T_##type)
#define WEIR_SEQUENCE_ARGUMENT(gap, type, name, first, count) gap "8@%[v_" #name "] 8@%[c_" #name "]"
#define WEIR_SEQUENCE_RECORD(_, type, name, first, count) \
	WEIR_TP_FIELD("4", "%c[n_" #name "] >> 8", "%c[n_" #name "] & 255", "0", "0", #name)
#define WEIR_SEQUENCE_OPERAND(_, type, name, first, count)                 \
	, [n_##name] "n"(WEIR_TP_NUMBER(WEIR_TP_T_##type)),                \
		[v_##name] "nr"(WEIR_TP_POINTER(WEIR_TP_T_##type, first)), \
		[c_##name] "nr"(WEIR_TP_CAST(unsigned long, count))
#define WEIR_SEQUENCE_CLOBBER(_, type, name, first, count) , "memory"

#define WEIR_TEXT_TAKES(_, type, name, first, count) +2
#define WEIR_TEXT_ARGUMENT WEIR_SEQUENCE_ARGUMENT
#define WEIR_TEXT_RECORD(_, type, name, first, count) WEIR_TP_FIELD("4", "3", "1", "0", "0", #name)
#define WEIR_TEXT_OPERAND(_, type, name, first, count) \
	, [v_##name] "nr"(WEIR_TP_POINTER(char, first)), [c_##name] "nr"(WEIR_TP_CAST(unsigned long, count))
#define WEIR_TEXT_CLOBBER WEIR_SEQUENCE_CLOBBER

#define WEIR_STRUCTURE_TAKES WEIR_POINTER_TAKES
#define WEIR_STRUCTURE_ARGUMENT WEIR_POINTER_ARGUMENT
#define WEIR_STRUCTURE_RECORD(_, type, name, value) WEIR_TP_FIELD_WITH_TABLE("6", "0", "%c[t_" #name "]", #name)
#define WEIR_STRUCTURE_OPERAND(_, type, name, value) \
	, [t_##name] "i"(WEIR_TP_TABLE_##type), [v_##name] "nr"(WEIR_TP_POINTER(void, value))
#define WEIR_STRUCTURE_CLOBBER WEIR_STRING_CLOBBER

/* Which of them a type is: what is none of these words is an integer type. */
#define WEIR_TP_IS_hex(T) ~, WEIR_HEX
#define WEIR_TP_IS_enumeration(T, labels) ~, WEIR_ENUMERATION
#define WEIR_TP_IS_float ~, WEIR_FLOAT
#define WEIR_TP_IS_double ~, WEIR_DOUBLE
#define WEIR_TP_IS_pointer ~, WEIR_POINTER
#define WEIR_TP_IS_string ~, WEIR_STRING
#define WEIR_TP_IS_array(T, count) ~, WEIR_ARRAY
#define WEIR_TP_IS_sequence(T) ~, WEIR_SEQUENCE
#define WEIR_TP_IS_text ~, WEIR_TEXT
#define WEIR_TP_IS_structure(members) ~, WEIR_STRUCTURE
#define WEIR_TP_KIND(type) WEIR_TP_SECOND(WEIR_TP_IS_##type, WEIR_INTEGER, ~)
#define WEIR_TP_SECOND(...) WEIR_TP_SECOND_(__VA_ARGS__)
#define WEIR_TP_SECOND_(first, second, ...) second

/* What stands in a type's parentheses. */
#define WEIR_TP_T_hex(T) T
#define WEIR_TP_T_enumeration(T, labels) T
#define WEIR_TP_TABLE_enumeration(T, labels) labels
#define WEIR_TP_T_array(T, count) T
#define WEIR_TP_COUNT_array(T, count) (count)
#define WEIR_TP_T_sequence(T) T
#define WEIR_TP_TABLE_structure(members) members

/* Size of an integer type, negative for signed ones, as the notes have it; and of any number, with its form behind it. */
#define WEIR_TP_BYTES(T) \
	(WEIR_TP_CAST(int, sizeof(T)) * (WEIR_TP_CAST(T, -1) < WEIR_TP_CAST(T, 1) ? -1 : 1))
#define WEIR_TP_NUMBER(T) (WEIR_TP_BYTES(T) & 255) + (WEIR_TP_IS_FLOATING(T) ? 512 : 0)
#define WEIR_TP_IS_OF_SIZE(T) (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8)
#define WEIR_TP_IF_NUMBER(T) (WEIR_TP_IS_OF_SIZE(T) ? 1 : WEIR_TP_NO_NUMBER)
#define WEIR_TP_IF_INTEGER(T) (WEIR_TP_IS_OF_SIZE(T) && !WEIR_TP_IS_FLOATING(T) ? 1 : WEIR_TP_NO_NUMBER)
#define WEIR_TP_NO_NUMBER 1000

/* Without the assembly gcc may fetch the bits before the test. */
#define WEIR_TP_BITS(integer, floating, value)                               \
	__extension__({                                                      \
		floating weir_value = WEIR_TP_CAST(floating, value);         \
		integer weir_bits;                                           \
		if (!__builtin_constant_p(weir_value))                       \
			__asm__ __volatile__("" : "+x"(weir_value));         \
		__builtin_memcpy(&weir_bits, &weir_value, sizeof weir_bits); \
		weir_bits;                                                   \
	})

#ifdef __cplusplus
#define WEIR_TP_CAST(T, value) static_cast<T>(value)
#define WEIR_TP_POINTER(T, value) static_cast<const T *>(value)
#define WEIR_TP_ASSERT(condition, message) static_assert(condition, message)
/* A half is 0 as an integer, and 1 as a bool. */
#define WEIR_TP_IS_FLOATING(T) \
	(WEIR_TP_CAST(T, 0.5) != WEIR_TP_CAST(T, 0) && WEIR_TP_CAST(T, 0.5) != WEIR_TP_CAST(T, 1))
#else
#define WEIR_TP_CAST(T, value) ((T)(value))
#define WEIR_TP_POINTER(T, value) ((const T *){value})
/* glibc's headers make _Static_assert a macro for C99, which drops the message: not where this follows. */
#define WEIR_TP_ASSERT(condition, message) __extension__ _Static_assert WEIR_TP_OPEN()(condition, message)
/* 8 is real_type_class. */
#define WEIR_TP_IS_FLOATING(T) (__builtin_classify_type((T)0) == 8)
#endif

/* A part of a field, by its kind. `gap` separates arguments. */
#define WEIR_TP_TAKES(gap, field) WEIR_TP_PART(_TAKES, ~, WEIR_TP_OPEN field)
#define WEIR_TP_ARGUMENT(gap, field) WEIR_TP_PART(_ARGUMENT, gap, WEIR_TP_OPEN field)
#define WEIR_TP_RECORD(gap, field) WEIR_TP_PART(_RECORD, ~, WEIR_TP_OPEN field)
#define WEIR_TP_OPERAND(gap, field) WEIR_TP_PART(_OPERAND, ~, WEIR_TP_OPEN field)
#define WEIR_TP_CLOBBER(gap, field) WEIR_TP_PART(_CLOBBER, ~, WEIR_TP_OPEN field)
#define WEIR_TP_PART(...) WEIR_TP_PART_(__VA_ARGS__)
#define WEIR_TP_PART_(part, gap, type, ...) WEIR_TP_JOIN(WEIR_TP_KIND(type), part)(gap, type, __VA_ARGS__)
#define WEIR_TP_OPEN(...) __VA_ARGS__
#define WEIR_TP_JOIN(a, b) WEIR_TP_JOIN_(a, b)
#define WEIR_TP_JOIN_(a, b) a##b

/* The macro below that is for so many fields. */
#define WEIR_TP_EACH(...)                                                                                          \
	WEIR_TP_FIND(__VA_ARGS__, WEIR_TP_AT_MOST_12_FIELDS, WEIR_TP_AT_MOST_12_FIELDS, WEIR_TP_AT_MOST_12_FIELDS, \
		     WEIR_TP_AT_MOST_12_FIELDS, WEIR_TP_EACH_12, WEIR_TP_EACH_11, WEIR_TP_EACH_10, WEIR_TP_EACH_9, \
		     WEIR_TP_EACH_8, WEIR_TP_EACH_7, WEIR_TP_EACH_6, WEIR_TP_EACH_5, WEIR_TP_EACH_4,               \
		     WEIR_TP_EACH_3, WEIR_TP_EACH_2, WEIR_TP_EACH_1, WEIR_TP_EACH_0, ~)
#define WEIR_TP_FIND(level, provider, event, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, each, ...) each

#define WEIR_TP_EACH_0(part, ...)
#define WEIR_TP_EACH_1(part, a, ...) part("", a)
#define WEIR_TP_EACH_2(part, a, b, ...) WEIR_TP_EACH_1(part, a, ~) part(" ", b)
#define WEIR_TP_EACH_3(part, a, b, c, ...) WEIR_TP_EACH_2(part, a, b, ~) part(" ", c)
#define WEIR_TP_EACH_4(part, a, b, c, d, ...) WEIR_TP_EACH_3(part, a, b, c, ~) part(" ", d)
#define WEIR_TP_EACH_5(part, a, b, c, d, e, ...) WEIR_TP_EACH_4(part, a, b, c, d, ~) part(" ", e)
#define WEIR_TP_EACH_6(part, a, b, c, d, e, f, ...) WEIR_TP_EACH_5(part, a, b, c, d, e, ~) part(" ", f)
#define WEIR_TP_EACH_7(part, a, b, c, d, e, f, g, ...) WEIR_TP_EACH_6(part, a, b, c, d, e, f, ~) part(" ", g)
#define WEIR_TP_EACH_8(part, a, b, c, d, e, f, g, h, ...) \
	WEIR_TP_EACH_7(part, a, b, c, d, e, f, g, ~) part(" ", h)
#define WEIR_TP_EACH_9(part, a, b, c, d, e, f, g, h, i, ...) \
	WEIR_TP_EACH_8(part, a, b, c, d, e, f, g, h, ~) part(" ", i)
#define WEIR_TP_EACH_10(part, a, b, c, d, e, f, g, h, i, j, ...) \
	WEIR_TP_EACH_9(part, a, b, c, d, e, f, g, h, i, ~) part(" ", j)
#define WEIR_TP_EACH_11(part, a, b, c, d, e, f, g, h, i, j, k, ...) \
	WEIR_TP_EACH_10(part, a, b, c, d, e, f, g, h, i, j, ~) part(" ", k)
#define WEIR_TP_EACH_12(part, a, b, c, d, e, f, g, h, i, j, k, l, ...) \
	WEIR_TP_EACH_11(part, a, b, c, d, e, f, g, h, i, j, k, ~) part(" ", l)

#endif
