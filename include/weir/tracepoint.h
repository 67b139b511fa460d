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
 *     (network(T), name, value)               the same in network byte order, shown as the number that it is
 *     (pointer, name, address)                an address that nobody follows
 *     (float, name, value), (double, …)       a floating-point number
 *     (string, name, text)                    characters up to a NUL; may be a null pointer
 *     (array(T, count), name, first)          so many numbers; T may be float, double or hex(T) too
 *     (sequence(T), name, first, count)       the same, as many as `count` says each time
 *     (text, name, first, count)              so many characters, without a NUL
 *     (text_array(count), name, first)        so many characters, `count` a constant: up to a NUL, if there is one
 *     (blob, name, first, count)              so many bytes, shown in hexadecimal
 *     (enumeration(T, labels), name, value)   an integer whose values have names, by WEIR_LABELS
 *     (structure(members), name, address)     numbers in a struct, by WEIR_MEMBERS
 *
 * There are at most 32 fields. Up to 12 arguments (a sequence, a text and a blob take two, every other field one) are in registers or
 * constants; those of an event with more are put into a row of words on the stack, while somebody traces it.
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
#define WEIR_TRACEPOINT_LEVEL(...) WEIR_TP_WAY(__VA_ARGS__)(WEIR_TP_EACH(__VA_ARGS__), __VA_ARGS__, ~)

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
 * A name has at most 47 bytes. A member is a number; one of a struct within the struct is `WEIR_MEMBER(struct box, corner.x)`, and those
 * of one such struct follow one another.
 */
#define WEIR_LABELS(name, ...) WEIR_TP_TABLE(name, __VA_ARGS__)
#define WEIR_LABEL(constant) WEIR_RANGE(#constant, constant, constant)
#define WEIR_RANGE(label, first, last) {WEIR_TP_CAST(long long, first), WEIR_TP_CAST(long long, last), label}
#define WEIR_MEMBERS(name, ...) WEIR_TP_TABLE(name, __VA_ARGS__)
#define WEIR_MEMBER(T, member) \
	{__builtin_offsetof(T, member), WEIR_TP_NUMBER(__typeof__(WEIR_TP_CAST(T *, 0)->member), 0), #member}

/* ---- What follows is not for use by itself. ---- */

/* A row of a table: first and last value of a label, or offset and number of a member. An empty name ends it. */
struct weir_tracepoint_row {
	long long first, last;
	char name[48];
};
#define WEIR_TP_TABLE(name, ...) \
	static const struct weir_tracepoint_row name[] __attribute__((__unused__)) = {__VA_ARGS__, {0, 0, ""}}

/*
 * The test, and what it guards. No name of a field is there twice. The comparison is written here, since gcc makes three instructions of a
 * volatile load.
 */
#define WEIR_TP_TEST(level, provider, event, takes, tables, names, ...)							\
	do {														\
		int weir_##provider##_##event##_is_on;									\
		__asm__ __volatile__("cmpw $0, " WEIR_TP_SEMAPHORE(provider, event) "(%%rip)"				\
				     : "=@ccne"(weir_##provider##_##event##_is_on));					\
		if (__builtin_expect(weir_##provider##_##event##_is_on, 0)) {						\
			enum { WEIR_TP_OPEN names weir_fields };							\
			WEIR_TP_ASSERT(WEIR_TP_CAST(unsigned, level) <= WEIR_LEVEL_DEBUG,				\
				       "weir: a level is one of WEIR_LEVEL_EMERG to WEIR_LEVEL_DEBUG");			\
			WEIR_TP_ASSERT((takes) < WEIR_TP_NO_NUMBER,							\
				       "weir: a type is an integer type of 1, 2, 4 or 8 bytes, hex(T), network(T), "	\
				       "pointer, float, double, string, text, text_array(count), blob, "		\
				       "array(T, count), sequence(T), enumeration(T, labels) or structure(members)");	\
			WEIR_TP_ASSERT((tables) <= 16,									\
				       "weir: of more than 12 arguments at most 16 are enumerations, structures, "	\
				       "arrays or text_arrays");							\
			__VA_ARGS__											\
		}													\
	} while (0)

/* The place of an event whose arguments are in registers. */
#define WEIR_TP_IN_REGISTERS(each, level, provider, event, ...)								\
	WEIR_TP_TEST(level, provider, event, 0 each(WEIR_TP_TAKES, __VA_ARGS__), 0, (each(WEIR_TP_NAME, __VA_ARGS__)),	\
		     __asm__ __volatile__ __inline__(									\
			     WEIR_TP_SITE(WEIR_TP_SEMAPHORE(provider, event), #provider, #event,			\
					  each(WEIR_TP_ARGUMENT, __VA_ARGS__), each(WEIR_TP_RECORD, __VA_ARGS__))	\
			     : : [weir] "n"(level) each(WEIR_TP_OPERAND, __VA_ARGS__)					\
			     : "cc" each(WEIR_TP_CLOBBER, __VA_ARGS__));)

/*
 * The place of an event that has more: one register with the address of a row of words. The compilers take 30 operands, and constants of 32
 * bits, so that three numbers of types are packed into one.
 */
#define WEIR_TP_IN_ROW(each, level, provider, event, ...)									\
	WEIR_TP_TEST(level, provider, event, 0 each(WEIR_TP_TAKES, __VA_ARGS__),						\
		     0 each(WEIR_TP_TABLES, __VA_ARGS__), (each(WEIR_TP_NAME, __VA_ARGS__)),					\
		     const unsigned long weir_row[] = {each(WEIR_TP_WORD, __VA_ARGS__) 0};					\
		     __asm__ __volatile__ __inline__(										\
			     WEIR_TP_SITE(WEIR_TP_SEMAPHORE(provider, event), #provider, #event, "8@%[weir_row]",		\
					  each(WEIR_TP_ROW_RECORD, __VA_ARGS__))						\
			     : : [weir] "n"((level) | 256), [weir_row] "S"(weir_row), "m"(weir_row),				\
			     [p1] "n"(0 each(WEIR_TP_PACK_1, __VA_ARGS__)), [p2] "n"(0 each(WEIR_TP_PACK_2, __VA_ARGS__)),	\
			     [p3] "n"(0 each(WEIR_TP_PACK_3, __VA_ARGS__)), [p4] "n"(0 each(WEIR_TP_PACK_4, __VA_ARGS__)),	\
			     [p5] "n"(0 each(WEIR_TP_PACK_5, __VA_ARGS__)), [p6] "n"(0 each(WEIR_TP_PACK_6, __VA_ARGS__)),	\
			     [p7] "n"(0 each(WEIR_TP_PACK_7, __VA_ARGS__)), [p8] "n"(0 each(WEIR_TP_PACK_8, __VA_ARGS__)),	\
			     [p9] "n"(0 each(WEIR_TP_PACK_9, __VA_ARGS__)), [p10] "n"(0 each(WEIR_TP_PACK_10, __VA_ARGS__)),	\
			     [p11] "n"(0 each(WEIR_TP_PACK_11, __VA_ARGS__))							\
			     each(WEIR_TP_MORE, __VA_ARGS__)									\
			     : "cc" each(WEIR_TP_CLOBBER, __VA_ARGS__));)
#define WEIR_TP_PACK(n, number, within) +((n) / 3 == (within) ? ((number) & 1023) << ((n) % 3 * 10) : 0)

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
 * What each type comes to, n being the number of the field:
 *   TAKES      how many arguments
 *   UNITS      a comma for each half of an argument, and of what else takes one of the compilers' 30 operands
 *   TABLES     1 where MORE has an operand
 *   ARGUMENT   text of the stapsdt note
 *   RECORD     text of the weir note; `number` is what stands there for size, sign and form of a number
 *   OPERAND    what the compiler fills in there: v_n is the value, n_n a number's size, sign and form
 *   NUMBER     the latter alone, and MORE what else an operand says, of an event in a row
 *   WORD       values of a row
 *   CLOBBER    memory, where somebody may follow the address: what was written there has to be there
 */
#define WEIR_INTEGER_TAKES(n, T, name, value) +WEIR_TP_IF_INTEGER(T)
#define WEIR_INTEGER_UNITS ~, ~,
#define WEIR_INTEGER_TABLES 0
#define WEIR_INTEGER_ARGUMENT(n, T, name, value) "%c[n_" #n "]@%[v_" #n "]"
#define WEIR_INTEGER_RECORD(number, n, T, name, value) WEIR_TP_FIELD("1", "0", number " & 255", "0", "0", #name)
#define WEIR_INTEGER_NUMBER(T) WEIR_TP_BYTES(T)
#define WEIR_INTEGER_OPERAND(n, T, name, value) \
	, [n_##n] "n"(WEIR_TP_BYTES(T)), [v_##n] "nr"(WEIR_TP_CAST(T, value))
#define WEIR_INTEGER_MORE(n, T, name, value)
#define WEIR_INTEGER_WORD(n, T, name, value) WEIR_TP_CAST(unsigned long, WEIR_TP_CAST(T, value)),
#define WEIR_INTEGER_CLOBBER(n, T, name, value)
#define WEIR_INTEGER_T(T) T
#define WEIR_INTEGER_FORM 0

#define WEIR_HEX_TAKES(n, type, name, value) +WEIR_TP_IF_INTEGER(WEIR_TP_T_##type)
#define WEIR_HEX_UNITS WEIR_INTEGER_UNITS
#define WEIR_HEX_TABLES 0
#define WEIR_HEX_ARGUMENT WEIR_INTEGER_ARGUMENT
#define WEIR_HEX_RECORD(number, n, type, name, value) WEIR_TP_FIELD("1", "1", number " & 255", "0", "0", #name)
#define WEIR_HEX_NUMBER(type) WEIR_TP_BYTES(WEIR_TP_T_##type)
#define WEIR_HEX_OPERAND(n, type, name, value) WEIR_INTEGER_OPERAND(n, WEIR_TP_T_##type, name, value)
#define WEIR_HEX_MORE WEIR_INTEGER_MORE
#define WEIR_HEX_WORD(n, type, name, value) WEIR_INTEGER_WORD(n, WEIR_TP_T_##type, name, value)
#define WEIR_HEX_CLOBBER WEIR_INTEGER_CLOBBER
#define WEIR_HEX_T(type) WEIR_TP_T_##type
#define WEIR_HEX_FORM 256

#define WEIR_NETWORK_TAKES WEIR_HEX_TAKES
#define WEIR_NETWORK_UNITS WEIR_INTEGER_UNITS
#define WEIR_NETWORK_TABLES 0
#define WEIR_NETWORK_ARGUMENT WEIR_INTEGER_ARGUMENT
#define WEIR_NETWORK_RECORD WEIR_INTEGER_RECORD
#define WEIR_NETWORK_NUMBER WEIR_HEX_NUMBER
#define WEIR_NETWORK_OPERAND(n, type, name, value) \
	WEIR_INTEGER_OPERAND(n, WEIR_TP_T_##type, name, WEIR_TP_REVERSED(WEIR_TP_T_##type, value))
#define WEIR_NETWORK_MORE WEIR_INTEGER_MORE
#define WEIR_NETWORK_WORD(n, type, name, value) \
	WEIR_INTEGER_WORD(n, WEIR_TP_T_##type, name, WEIR_TP_REVERSED(WEIR_TP_T_##type, value))
#define WEIR_NETWORK_CLOBBER WEIR_INTEGER_CLOBBER

#define WEIR_ENUMERATION_TAKES WEIR_HEX_TAKES
#define WEIR_ENUMERATION_UNITS ~, ~, ~,
#define WEIR_ENUMERATION_TABLES 1
#define WEIR_ENUMERATION_ARGUMENT WEIR_INTEGER_ARGUMENT
#define WEIR_ENUMERATION_RECORD(number, n, type, name, value) \
	WEIR_TP_FIELD_WITH_TABLE("5", number " & 255", "%c[t_" #n "]", #name)
#define WEIR_ENUMERATION_NUMBER WEIR_HEX_NUMBER
#define WEIR_ENUMERATION_OPERAND(n, type, name, value) \
	WEIR_INTEGER_OPERAND(n, WEIR_TP_T_##type, name, value) WEIR_ENUMERATION_MORE(n, type, name, value)
#define WEIR_ENUMERATION_MORE(n, type, name, value) , [t_##n] "i"(WEIR_TP_TABLE_##type)
#define WEIR_ENUMERATION_WORD WEIR_HEX_WORD
#define WEIR_ENUMERATION_CLOBBER WEIR_INTEGER_CLOBBER

/* Bits of floating-point numbers are passed as integers, which every tracer takes. */
#define WEIR_FLOAT_TAKES(n, type, name, value) +1
#define WEIR_FLOAT_UNITS WEIR_INTEGER_UNITS
#define WEIR_FLOAT_TABLES 0
#define WEIR_FLOAT_ARGUMENT(n, type, name, value) "4@%[v_" #n "]"
#define WEIR_FLOAT_RECORD(number, n, type, name, value) WEIR_TP_FIELD("1", "2", "4", "0", "0", #name)
#define WEIR_FLOAT_NUMBER(type) 0
#define WEIR_FLOAT_OPERAND(n, type, name, value) , [v_##n] "nr"(WEIR_TP_BITS(unsigned, float, value))
#define WEIR_FLOAT_MORE WEIR_INTEGER_MORE
#define WEIR_FLOAT_WORD(n, type, name, value) WEIR_TP_BITS(unsigned, float, value),
#define WEIR_FLOAT_CLOBBER WEIR_INTEGER_CLOBBER
#define WEIR_FLOAT_T(type) float
#define WEIR_FLOAT_FORM 0

#define WEIR_DOUBLE_TAKES WEIR_FLOAT_TAKES
#define WEIR_DOUBLE_UNITS WEIR_INTEGER_UNITS
#define WEIR_DOUBLE_TABLES 0
#define WEIR_DOUBLE_ARGUMENT(n, type, name, value) "8@%[v_" #n "]"
#define WEIR_DOUBLE_RECORD(number, n, type, name, value) WEIR_TP_FIELD("1", "2", "8", "0", "0", #name)
#define WEIR_DOUBLE_NUMBER WEIR_FLOAT_NUMBER
#define WEIR_DOUBLE_OPERAND(n, type, name, value) , [v_##n] "nr"(WEIR_TP_BITS(unsigned long, double, value))
#define WEIR_DOUBLE_MORE WEIR_INTEGER_MORE
#define WEIR_DOUBLE_WORD(n, type, name, value) WEIR_TP_BITS(unsigned long, double, value),
#define WEIR_DOUBLE_CLOBBER WEIR_INTEGER_CLOBBER
#define WEIR_DOUBLE_T(type) double
#define WEIR_DOUBLE_FORM 0

#define WEIR_POINTER_TAKES WEIR_FLOAT_TAKES
#define WEIR_POINTER_UNITS WEIR_INTEGER_UNITS
#define WEIR_POINTER_TABLES 0
#define WEIR_POINTER_ARGUMENT WEIR_DOUBLE_ARGUMENT
#define WEIR_POINTER_RECORD(number, n, type, name, value) WEIR_TP_FIELD("1", "1", "8", "0", "0", #name)
#define WEIR_POINTER_NUMBER WEIR_FLOAT_NUMBER
#define WEIR_POINTER_OPERAND(n, type, name, value) , [v_##n] "nr"(WEIR_TP_POINTER(volatile void, value))
#define WEIR_POINTER_MORE WEIR_INTEGER_MORE
#define WEIR_POINTER_WORD(n, type, name, value) WEIR_TP_ADDRESS(WEIR_TP_POINTER(volatile void, value)),
#define WEIR_POINTER_CLOBBER WEIR_INTEGER_CLOBBER

#define WEIR_STRING_TAKES WEIR_FLOAT_TAKES
#define WEIR_STRING_UNITS WEIR_INTEGER_UNITS
#define WEIR_STRING_TABLES 0
#define WEIR_STRING_ARGUMENT WEIR_DOUBLE_ARGUMENT
#define WEIR_STRING_RECORD(number, n, type, name, value) WEIR_TP_FIELD("2", "0", "1", "0", "0", #name)
#define WEIR_STRING_NUMBER WEIR_FLOAT_NUMBER
#define WEIR_STRING_OPERAND(n, type, name, value) , [v_##n] "nr"(WEIR_TP_POINTER(char, value))
#define WEIR_STRING_MORE WEIR_INTEGER_MORE
#define WEIR_STRING_WORD(n, type, name, value) WEIR_TP_ADDRESS(WEIR_TP_POINTER(char, value)),
#define WEIR_STRING_CLOBBER(...) , "memory"

#define WEIR_ARRAY_TAKES(n, type, name, first) +WEIR_TP_IF_NUMBER(WEIR_TP_ELEMENT(WEIR_TP_T_##type))
#define WEIR_ARRAY_UNITS WEIR_ENUMERATION_UNITS
#define WEIR_ARRAY_TABLES 1
#define WEIR_ARRAY_ARGUMENT WEIR_DOUBLE_ARGUMENT
#define WEIR_ARRAY_RECORD(number, n, type, name, first) \
	WEIR_TP_FIELD("3", "(" number " >> 8) & 255", number " & 255", "%c[c_" #n "]", "0", #name)
#define WEIR_ARRAY_NUMBER(type) WEIR_TP_NUMBER(WEIR_TP_ELEMENT(WEIR_TP_T_##type), WEIR_TP_ELEMENT_FORM(WEIR_TP_T_##type))
#define WEIR_ARRAY_OPERAND(n, type, name, first)                \
	, [n_##n] "n"(WEIR_ARRAY_NUMBER(type)),                 \
		[v_##n] "nr"(WEIR_TP_POINTER(WEIR_TP_ELEMENT(WEIR_TP_T_##type), first)) \
		WEIR_ARRAY_MORE(n, type, name, first)
#define WEIR_ARRAY_MORE(n, type, name, first) , [c_##n] "n"(WEIR_TP_COUNT_##type)
#define WEIR_ARRAY_WORD(n, type, name, first) \
	WEIR_TP_ADDRESS(WEIR_TP_POINTER(WEIR_TP_ELEMENT(WEIR_TP_T_##type), first)),
#define WEIR_ARRAY_CLOBBER WEIR_STRING_CLOBBER

#define WEIR_TEXT_ARRAY_TAKES WEIR_FLOAT_TAKES
#define WEIR_TEXT_ARRAY_UNITS WEIR_ENUMERATION_UNITS
#define WEIR_TEXT_ARRAY_TABLES 1
#define WEIR_TEXT_ARRAY_ARGUMENT WEIR_DOUBLE_ARGUMENT
#define WEIR_TEXT_ARRAY_RECORD(number, n, type, name, first) \
	WEIR_TP_FIELD("3", "3", "1", "%c[c_" #n "]", "0", #name)
#define WEIR_TEXT_ARRAY_NUMBER WEIR_FLOAT_NUMBER
#define WEIR_TEXT_ARRAY_OPERAND(n, type, name, first) \
	WEIR_STRING_OPERAND(n, type, name, first) WEIR_ARRAY_MORE(n, type, name, first)
#define WEIR_TEXT_ARRAY_MORE WEIR_ARRAY_MORE
#define WEIR_TEXT_ARRAY_WORD WEIR_STRING_WORD
#define WEIR_TEXT_ARRAY_CLOBBER WEIR_STRING_CLOBBER

#define WEIR_SEQUENCE_TAKES(n, type, name, first, count) +1 + WEIR_TP_IF_NUMBER(WEIR_TP_ELEMENT(WEIR_TP_T_##type))
#define WEIR_SEQUENCE_UNITS ~, ~, ~, ~,
#define WEIR_SEQUENCE_TABLES 0
#define WEIR_SEQUENCE_ARGUMENT(n, type, name, first, count) "8@%[v_" #n "] 8@%[c_" #n "]"
#define WEIR_SEQUENCE_RECORD(number, n, type, name, first, count) \
	WEIR_TP_FIELD("4", "(" number " >> 8) & 255", number " & 255", "0", "0", #name)
#define WEIR_SEQUENCE_NUMBER WEIR_ARRAY_NUMBER
#define WEIR_SEQUENCE_OPERAND(n, type, name, first, count)                                      \
	, [n_##n] "n"(WEIR_ARRAY_NUMBER(type)),                                                 \
		[v_##n] "nr"(WEIR_TP_POINTER(WEIR_TP_ELEMENT(WEIR_TP_T_##type), first)),        \
		[c_##n] "nr"(WEIR_TP_CAST(unsigned long, count))
#define WEIR_SEQUENCE_MORE(...)
#define WEIR_SEQUENCE_WORD(n, type, name, first, count) \
	WEIR_ARRAY_WORD(n, type, name, first) WEIR_TP_CAST(unsigned long, count),
#define WEIR_SEQUENCE_CLOBBER WEIR_STRING_CLOBBER

#define WEIR_TEXT_TAKES(...) +2
#define WEIR_TEXT_UNITS WEIR_SEQUENCE_UNITS
#define WEIR_TEXT_TABLES 0
#define WEIR_TEXT_ARGUMENT WEIR_SEQUENCE_ARGUMENT
#define WEIR_TEXT_RECORD(number, n, type, name, first, count) WEIR_TP_FIELD("4", "3", "1", "0", "0", #name)
#define WEIR_TEXT_NUMBER WEIR_FLOAT_NUMBER
#define WEIR_TEXT_OPERAND(n, type, name, first, count) \
	, [v_##n] "nr"(WEIR_TP_POINTER(char, first)), [c_##n] "nr"(WEIR_TP_CAST(unsigned long, count))
#define WEIR_TEXT_MORE WEIR_SEQUENCE_MORE
#define WEIR_TEXT_WORD(n, type, name, first, count) \
	WEIR_STRING_WORD(n, type, name, first) WEIR_TP_CAST(unsigned long, count),
#define WEIR_TEXT_CLOBBER WEIR_STRING_CLOBBER

#define WEIR_BLOB_TAKES WEIR_TEXT_TAKES
#define WEIR_BLOB_UNITS WEIR_SEQUENCE_UNITS
#define WEIR_BLOB_TABLES 0
#define WEIR_BLOB_ARGUMENT WEIR_SEQUENCE_ARGUMENT
#define WEIR_BLOB_RECORD(number, n, type, name, first, count) WEIR_TP_FIELD("4", "1", "1", "0", "0", #name)
#define WEIR_BLOB_NUMBER WEIR_FLOAT_NUMBER
#define WEIR_BLOB_OPERAND(n, type, name, first, count) \
	, [v_##n] "nr"(WEIR_TP_POINTER(void, first)), [c_##n] "nr"(WEIR_TP_CAST(unsigned long, count))
#define WEIR_BLOB_MORE WEIR_SEQUENCE_MORE
#define WEIR_BLOB_WORD(n, type, name, first, count) \
	WEIR_TP_ADDRESS(WEIR_TP_POINTER(void, first)), WEIR_TP_CAST(unsigned long, count),
#define WEIR_BLOB_CLOBBER WEIR_STRING_CLOBBER

#define WEIR_STRUCTURE_TAKES WEIR_FLOAT_TAKES
#define WEIR_STRUCTURE_UNITS WEIR_INTEGER_UNITS
#define WEIR_STRUCTURE_TABLES 1
#define WEIR_STRUCTURE_ARGUMENT WEIR_DOUBLE_ARGUMENT
#define WEIR_STRUCTURE_RECORD(number, n, type, name, value) \
	WEIR_TP_FIELD_WITH_TABLE("6", "0", "%c[t_" #n "]", #name)
#define WEIR_STRUCTURE_NUMBER WEIR_FLOAT_NUMBER
#define WEIR_STRUCTURE_OPERAND(n, type, name, value) \
	, [v_##n] "nr"(WEIR_TP_POINTER(void, value)) WEIR_STRUCTURE_MORE(n, type, name, value)
#define WEIR_STRUCTURE_MORE WEIR_ENUMERATION_MORE
#define WEIR_STRUCTURE_WORD(n, type, name, value) WEIR_TP_ADDRESS(WEIR_TP_POINTER(void, value)),
#define WEIR_STRUCTURE_CLOBBER WEIR_STRING_CLOBBER

/* Which of them a type is: what is none of these words is an integer type. */
#define WEIR_TP_IS_hex(T) ~, WEIR_HEX
#define WEIR_TP_IS_network(T) ~, WEIR_NETWORK
#define WEIR_TP_IS_enumeration(T, labels) ~, WEIR_ENUMERATION
#define WEIR_TP_IS_float ~, WEIR_FLOAT
#define WEIR_TP_IS_double ~, WEIR_DOUBLE
#define WEIR_TP_IS_pointer ~, WEIR_POINTER
#define WEIR_TP_IS_string ~, WEIR_STRING
#define WEIR_TP_IS_array(T, count) ~, WEIR_ARRAY
#define WEIR_TP_IS_sequence(T) ~, WEIR_SEQUENCE
#define WEIR_TP_IS_text ~, WEIR_TEXT
#define WEIR_TP_IS_text_array(count) ~, WEIR_TEXT_ARRAY
#define WEIR_TP_IS_blob ~, WEIR_BLOB
#define WEIR_TP_IS_structure(members) ~, WEIR_STRUCTURE
#define WEIR_TP_KIND(type) WEIR_TP_SECOND(WEIR_TP_IS_##type, WEIR_INTEGER, ~)
#define WEIR_TP_ELEMENT(type) WEIR_TP_JOIN(WEIR_TP_KIND(type), _T)(type)
#define WEIR_TP_ELEMENT_FORM(type) WEIR_TP_JOIN(WEIR_TP_KIND(type), _FORM)
#define WEIR_TP_SECOND(...) WEIR_TP_SECOND_(__VA_ARGS__)
#define WEIR_TP_SECOND_(first, second, ...) second

/* What stands in a type's parentheses. */
#define WEIR_TP_T_hex(T) T
#define WEIR_TP_T_network(T) T
#define WEIR_TP_T_enumeration(T, labels) T
#define WEIR_TP_TABLE_enumeration(T, labels) labels
#define WEIR_TP_T_array(T, count) T
#define WEIR_TP_COUNT_array(T, count) (count)
#define WEIR_TP_COUNT_text_array(count) (count)
#define WEIR_TP_T_sequence(T) T
#define WEIR_TP_TABLE_structure(members) members

/* Size of an integer type, negative for signed ones, as the notes have it; and of any number, with its form behind it. */
#define WEIR_TP_BYTES(T) \
	(WEIR_TP_CAST(int, sizeof(T)) * (WEIR_TP_CAST(T, -1) < WEIR_TP_CAST(T, 1) ? -1 : 1))
#define WEIR_TP_NUMBER(T, form) (WEIR_TP_BYTES(T) & 255) + (WEIR_TP_IS_FLOATING(T) ? 512 : (form))
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

/* The value with its bytes the other way round. */
#define WEIR_TP_REVERSED(T, value)                                                                                  \
	__extension__({                                                                                             \
		unsigned long weir_reversed =                                                                       \
			__builtin_bswap64(WEIR_TP_CAST(unsigned long, WEIR_TP_CAST(T, value)));                     \
		WEIR_TP_CAST(T, weir_reversed >> (64 - 8 * sizeof(T)));                                             \
	})

#ifdef __cplusplus
#define WEIR_TP_CAST(T, value) static_cast<T>(value)
#define WEIR_TP_POINTER(T, value) static_cast<const T *>(value)
#define WEIR_TP_ADDRESS(pointer) reinterpret_cast<unsigned long>(pointer)
#define WEIR_TP_ASSERT(condition, message) static_assert(condition, message)
/* A half is 0 as an integer, and 1 as a bool. */
#define WEIR_TP_IS_FLOATING(T) \
	(WEIR_TP_CAST(T, 0.5) != WEIR_TP_CAST(T, 0) && WEIR_TP_CAST(T, 0.5) != WEIR_TP_CAST(T, 1))
#else
#define WEIR_TP_CAST(T, value) ((T)(value))
#define WEIR_TP_POINTER(T, value) ((const T *){value})
#define WEIR_TP_ADDRESS(pointer) ((unsigned long)(pointer))
/* glibc's headers make _Static_assert a macro for C99, which drops the message: not where this follows. */
#define WEIR_TP_ASSERT(condition, message) __extension__ _Static_assert WEIR_TP_OPEN()(condition, message)
/* 8 is real_type_class. */
#define WEIR_TP_IS_FLOATING(T) (__builtin_classify_type((T)0) == 8)
#endif

/* A part of the nth field, by its kind. */
#define WEIR_TP_TAKES(n, field) WEIR_TP_PART(_TAKES, n, WEIR_TP_OPEN field)
#define WEIR_TP_NAME(n, field) WEIR_TP_NAME_(WEIR_TP_OPEN field)
#define WEIR_TP_NAME_(...) WEIR_TP_NAME__(__VA_ARGS__)
#define WEIR_TP_NAME__(type, name, ...) weir_field_##name,
#define WEIR_TP_UNITS(n, field) WEIR_TP_TYPE(_UNITS, WEIR_TP_OPEN field)
#define WEIR_TP_ARGUMENT(n, field) WEIR_TP_GAP(n) WEIR_TP_PART(_ARGUMENT, n, WEIR_TP_OPEN field)
#define WEIR_TP_RECORD(n, field) WEIR_TP_LINE("%c[n_" #n "]", n, WEIR_TP_OPEN field)
#define WEIR_TP_ROW_RECORD(n, field) WEIR_TP_LINE(WEIR_TP_PACKED_##n, n, WEIR_TP_OPEN field)
#define WEIR_TP_OPERAND(n, field) WEIR_TP_PART(_OPERAND, n, WEIR_TP_OPEN field)
#define WEIR_TP_MORE(n, field) WEIR_TP_PART(_MORE, n, WEIR_TP_OPEN field)
#define WEIR_TP_TABLES(n, field) +WEIR_TP_TYPE(_TABLES, WEIR_TP_OPEN field)
#define WEIR_TP_WORD(n, field) WEIR_TP_PART(_WORD, n, WEIR_TP_OPEN field)
#define WEIR_TP_CLOBBER(n, field) WEIR_TP_PART(_CLOBBER, n, WEIR_TP_OPEN field)
#define WEIR_TP_NUMBER_OF(field) WEIR_TP_NUMBER_(WEIR_TP_OPEN field)
#define WEIR_TP_NUMBER_(...) WEIR_TP_NUMBER__(__VA_ARGS__)
#define WEIR_TP_NUMBER__(type, ...) WEIR_TP_JOIN(WEIR_TP_KIND(type), _NUMBER)(type)
#define WEIR_TP_TYPE(...) WEIR_TP_TYPE_(__VA_ARGS__)
#define WEIR_TP_TYPE_(part, type, ...) WEIR_TP_JOIN(WEIR_TP_KIND(type), part)
#define WEIR_TP_PART(...) WEIR_TP_PART_(__VA_ARGS__)
#define WEIR_TP_PART_(part, n, type, ...) WEIR_TP_JOIN(WEIR_TP_KIND(type), part)(n, type, __VA_ARGS__)
#define WEIR_TP_LINE(...) WEIR_TP_LINE_(__VA_ARGS__)
#define WEIR_TP_LINE_(number, n, type, ...) WEIR_TP_JOIN(WEIR_TP_KIND(type), _RECORD)(number, n, type, __VA_ARGS__)
#define WEIR_TP_GAP(n) WEIR_TP_SECOND(WEIR_TP_GAP_##n, " ", ~)
#define WEIR_TP_GAP_1 ~, ""
#define WEIR_TP_PACK_1(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 0)
#define WEIR_TP_PACK_2(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 1)
#define WEIR_TP_PACK_3(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 2)
#define WEIR_TP_PACK_4(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 3)
#define WEIR_TP_PACK_5(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 4)
#define WEIR_TP_PACK_6(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 5)
#define WEIR_TP_PACK_7(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 6)
#define WEIR_TP_PACK_8(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 7)
#define WEIR_TP_PACK_9(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 8)
#define WEIR_TP_PACK_10(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 9)
#define WEIR_TP_PACK_11(n, field) WEIR_TP_PACK((n) - 1, WEIR_TP_NUMBER_OF(field), 10)
#define WEIR_TP_PACKED_1 "((%c[p1] >> 0) & 1023)"
#define WEIR_TP_PACKED_2 "((%c[p1] >> 10) & 1023)"
#define WEIR_TP_PACKED_3 "((%c[p1] >> 20) & 1023)"
#define WEIR_TP_PACKED_4 "((%c[p2] >> 0) & 1023)"
#define WEIR_TP_PACKED_5 "((%c[p2] >> 10) & 1023)"
#define WEIR_TP_PACKED_6 "((%c[p2] >> 20) & 1023)"
#define WEIR_TP_PACKED_7 "((%c[p3] >> 0) & 1023)"
#define WEIR_TP_PACKED_8 "((%c[p3] >> 10) & 1023)"
#define WEIR_TP_PACKED_9 "((%c[p3] >> 20) & 1023)"
#define WEIR_TP_PACKED_10 "((%c[p4] >> 0) & 1023)"
#define WEIR_TP_PACKED_11 "((%c[p4] >> 10) & 1023)"
#define WEIR_TP_PACKED_12 "((%c[p4] >> 20) & 1023)"
#define WEIR_TP_PACKED_13 "((%c[p5] >> 0) & 1023)"
#define WEIR_TP_PACKED_14 "((%c[p5] >> 10) & 1023)"
#define WEIR_TP_PACKED_15 "((%c[p5] >> 20) & 1023)"
#define WEIR_TP_PACKED_16 "((%c[p6] >> 0) & 1023)"
#define WEIR_TP_PACKED_17 "((%c[p6] >> 10) & 1023)"
#define WEIR_TP_PACKED_18 "((%c[p6] >> 20) & 1023)"
#define WEIR_TP_PACKED_19 "((%c[p7] >> 0) & 1023)"
#define WEIR_TP_PACKED_20 "((%c[p7] >> 10) & 1023)"
#define WEIR_TP_PACKED_21 "((%c[p7] >> 20) & 1023)"
#define WEIR_TP_PACKED_22 "((%c[p8] >> 0) & 1023)"
#define WEIR_TP_PACKED_23 "((%c[p8] >> 10) & 1023)"
#define WEIR_TP_PACKED_24 "((%c[p8] >> 20) & 1023)"
#define WEIR_TP_PACKED_25 "((%c[p9] >> 0) & 1023)"
#define WEIR_TP_PACKED_26 "((%c[p9] >> 10) & 1023)"
#define WEIR_TP_PACKED_27 "((%c[p9] >> 20) & 1023)"
#define WEIR_TP_PACKED_28 "((%c[p10] >> 0) & 1023)"
#define WEIR_TP_PACKED_29 "((%c[p10] >> 10) & 1023)"
#define WEIR_TP_PACKED_30 "((%c[p10] >> 20) & 1023)"
#define WEIR_TP_PACKED_31 "((%c[p11] >> 0) & 1023)"
#define WEIR_TP_PACKED_32 "((%c[p11] >> 10) & 1023)"
#define WEIR_TP_OPEN(...) __VA_ARGS__
#define WEIR_TP_JOIN(a, b) WEIR_TP_JOIN_(a, b)
#define WEIR_TP_JOIN_(a, b) a##b

/* The macro below that is for so many fields. */
#define WEIR_TP_EACH(...) WEIR_TP_FIND(__VA_ARGS__, WEIR_TP_AT_MOST_32_FIELDS, WEIR_TP_AT_MOST_32_FIELDS, \
		     WEIR_TP_AT_MOST_32_FIELDS, WEIR_TP_AT_MOST_32_FIELDS, WEIR_TP_EACH_32, WEIR_TP_EACH_31, \
		     WEIR_TP_EACH_30, WEIR_TP_EACH_29, WEIR_TP_EACH_28, WEIR_TP_EACH_27, WEIR_TP_EACH_26, \
		     WEIR_TP_EACH_25, WEIR_TP_EACH_24, WEIR_TP_EACH_23, WEIR_TP_EACH_22, WEIR_TP_EACH_21, \
		     WEIR_TP_EACH_20, WEIR_TP_EACH_19, WEIR_TP_EACH_18, WEIR_TP_EACH_17, WEIR_TP_EACH_16, \
		     WEIR_TP_EACH_15, WEIR_TP_EACH_14, WEIR_TP_EACH_13, WEIR_TP_EACH_12, WEIR_TP_EACH_11, \
		     WEIR_TP_EACH_10, WEIR_TP_EACH_9, WEIR_TP_EACH_8, WEIR_TP_EACH_7, WEIR_TP_EACH_6, WEIR_TP_EACH_5, \
		     WEIR_TP_EACH_4, WEIR_TP_EACH_3, WEIR_TP_EACH_2, WEIR_TP_EACH_1, WEIR_TP_EACH_0, ~)
/* And the way for them: by their number, and up to 12 by what they take. */
#define WEIR_TP_WAY(...) WEIR_TP_FIND(__VA_ARGS__, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, \
		     WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, \
		     WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, \
		     WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_ROW, WEIR_TP_BY_UNITS, \
		     WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, \
		     WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, \
		     WEIR_TP_BY_UNITS, WEIR_TP_BY_UNITS, ~)(WEIR_TP_EACH(__VA_ARGS__), __VA_ARGS__, ~)
#define WEIR_TP_FIND(level, provider, event, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, \
		     f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, \
		     f36, found, ...) found
#define WEIR_TP_ROW(...) WEIR_TP_IN_ROW
#define WEIR_TP_BY_UNITS(each, level, provider, event, ...) WEIR_TP_FIFTIETH(each(WEIR_TP_UNITS, __VA_ARGS__) \
		     WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, \
		     WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, \
		     WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, \
		     WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, WEIR_TP_IN_ROW, \
		     WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, \
		     WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, \
		     WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, \
		     WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, \
		     WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, \
		     WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, WEIR_TP_IN_REGISTERS, \
		     WEIR_TP_IN_REGISTERS, ~)
#define WEIR_TP_FIFTIETH(...) WEIR_TP_FIFTIETH_(__VA_ARGS__)
#define WEIR_TP_FIFTIETH_(u1, u2, u3, u4, u5, u6, u7, u8, u9, u10, u11, u12, u13, u14, u15, u16, u17, u18, u19, u20, \
		     u21, u22, u23, u24, u25, u26, u27, u28, u29, u30, u31, u32, u33, u34, u35, u36, u37, u38, u39, \
		     u40, u41, u42, u43, u44, u45, u46, u47, u48, way, ...) way

#define WEIR_TP_EACH_0(part, ...)
#define WEIR_TP_EACH_1(part, f1, ...) part(1, f1)
#define WEIR_TP_EACH_2(part, f1, f2, ...) WEIR_TP_EACH_1(part, f1, ~) part(2, f2)
#define WEIR_TP_EACH_3(part, f1, f2, f3, ...) WEIR_TP_EACH_2(part, f1, f2, ~) part(3, f3)
#define WEIR_TP_EACH_4(part, f1, f2, f3, f4, ...) WEIR_TP_EACH_3(part, f1, f2, f3, ~) part(4, f4)
#define WEIR_TP_EACH_5(part, f1, f2, f3, f4, f5, ...) WEIR_TP_EACH_4(part, f1, f2, f3, f4, ~) part(5, f5)
#define WEIR_TP_EACH_6(part, f1, f2, f3, f4, f5, f6, ...) WEIR_TP_EACH_5(part, f1, f2, f3, f4, f5, ~) part(6, f6)
#define WEIR_TP_EACH_7(part, f1, f2, f3, f4, f5, f6, f7, ...) WEIR_TP_EACH_6(part, f1, f2, f3, f4, f5, f6, ~) part(7, \
		     f7)
#define WEIR_TP_EACH_8(part, f1, f2, f3, f4, f5, f6, f7, f8, ...) WEIR_TP_EACH_7(part, f1, f2, f3, f4, f5, f6, f7, \
		     ~) part(8, f8)
#define WEIR_TP_EACH_9(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, ...) WEIR_TP_EACH_8(part, f1, f2, f3, f4, f5, f6, \
		     f7, f8, ~) part(9, f9)
#define WEIR_TP_EACH_10(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, ...) WEIR_TP_EACH_9(part, f1, f2, f3, f4, f5, \
		     f6, f7, f8, f9, ~) part(10, f10)
#define WEIR_TP_EACH_11(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, ...) WEIR_TP_EACH_10(part, f1, f2, f3, \
		     f4, f5, f6, f7, f8, f9, f10, ~) part(11, f11)
#define WEIR_TP_EACH_12(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ...) WEIR_TP_EACH_11(part, f1, f2, \
		     f3, f4, f5, f6, f7, f8, f9, f10, f11, ~) part(12, f12)
#define WEIR_TP_EACH_13(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, ...) WEIR_TP_EACH_12(part, f1, \
		     f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, ~) part(13, f13)
#define WEIR_TP_EACH_14(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, ...) WEIR_TP_EACH_13(part, \
		     f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, ~) part(14, f14)
#define WEIR_TP_EACH_15(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, \
		     ...) WEIR_TP_EACH_14(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, \
		     ~) part(15, f15)
#define WEIR_TP_EACH_16(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, \
		     ...) WEIR_TP_EACH_15(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, \
		     ~) part(16, f16)
#define WEIR_TP_EACH_17(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, \
		     ...) WEIR_TP_EACH_16(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, \
		     f16, ~) part(17, f17)
#define WEIR_TP_EACH_18(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, \
		     ...) WEIR_TP_EACH_17(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, \
		     f16, f17, ~) part(18, f18)
#define WEIR_TP_EACH_19(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     ...) WEIR_TP_EACH_18(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, \
		     f16, f17, f18, ~) part(19, f19)
#define WEIR_TP_EACH_20(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, ...) WEIR_TP_EACH_19(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, \
		     f15, f16, f17, f18, f19, ~) part(20, f20)
#define WEIR_TP_EACH_21(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, ...) WEIR_TP_EACH_20(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, \
		     f14, f15, f16, f17, f18, f19, f20, ~) part(21, f21)
#define WEIR_TP_EACH_22(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, ...) WEIR_TP_EACH_21(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, \
		     f13, f14, f15, f16, f17, f18, f19, f20, f21, ~) part(22, f22)
#define WEIR_TP_EACH_23(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, ...) WEIR_TP_EACH_22(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, \
		     f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, ~) part(23, f23)
#define WEIR_TP_EACH_24(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, ...) WEIR_TP_EACH_23(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, \
		     f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, ~) part(24, f24)
#define WEIR_TP_EACH_25(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, f25, ...) WEIR_TP_EACH_24(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, \
		     f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, ~) part(25, f25)
#define WEIR_TP_EACH_26(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, f25, f26, ...) WEIR_TP_EACH_25(part, f1, f2, f3, f4, f5, f6, f7, f8, \
		     f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, ~) part(26, \
		     f26)
#define WEIR_TP_EACH_27(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, f25, f26, f27, ...) WEIR_TP_EACH_26(part, f1, f2, f3, f4, f5, f6, f7, \
		     f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, \
		     ~) part(27, f27)
#define WEIR_TP_EACH_28(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, f25, f26, f27, f28, ...) WEIR_TP_EACH_27(part, f1, f2, f3, f4, f5, f6, \
		     f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, \
		     f27, ~) part(28, f28)
#define WEIR_TP_EACH_29(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, ...) WEIR_TP_EACH_28(part, f1, f2, f3, f4, f5, \
		     f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, \
		     f26, f27, f28, ~) part(29, f29)
#define WEIR_TP_EACH_30(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, ...) WEIR_TP_EACH_29(part, f1, f2, f3, \
		     f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, \
		     f24, f25, f26, f27, f28, f29, ~) part(30, f30)
#define WEIR_TP_EACH_31(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, ...) WEIR_TP_EACH_30(part, f1, f2, \
		     f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, \
		     f23, f24, f25, f26, f27, f28, f29, f30, ~) part(31, f31)
#define WEIR_TP_EACH_32(part, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, \
		     f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, ...) WEIR_TP_EACH_31(part, f1, \
		     f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, \
		     f23, f24, f25, f26, f27, f28, f29, f30, f31, ~) part(32, f32)

#endif
