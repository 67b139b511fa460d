/*
 * The threaded interpreter: each operation ends in the jump to the next one's code, whose address it carries.
 *
 * In: operations that src/threaded/decode.rs made of a verified program: addresses resolved, jumps in operations,
 * immediates widened. Out: r0. It checks nothing: that every access is inside is the verifier's proof, as for machine
 * code. Standard C has no such jumps; gcc's and clang's labels as values do what a tail call per instruction would do in
 * Rust, if stable Rust promised one.
 *
 * An operation's `imm` is its constant, the offset of its memory operand, or the function that it calls; `jump` is the
 * distance of its target in operations, or the constant of a store.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long s64;

struct op {
    const void *go;
    u64 imm;
    s32 jump;
    u8 dst, src;
    u16 zero;
};
_Static_assert(sizeof(struct op) == 24, "Op of src/threaded.rs");

/* Frames of nested local calls, and bytes of each (src/limits.rs). */
enum { CALL_DEPTH_MAX = 8, FRAME_BYTES = 512 };

/* struct weir_cursor of weir-rt. */
struct cursor {
    u64 bucket, hash, index, key, count;
};

struct caller {
    const struct op *back;
    u64 kept[5]; /* r6 to r10 */
    u32 rounds;  /* left to may_goto */
    /* Of a helper that calls back: its own operation, and what each round is given. */
    const struct op *helper;
    u64 context;
    /* Of `loop`: the round, and how many there are. */
    u64 index, count;
    /* Of `for_each_map_elem`. */
    u64 map;
    struct cursor at;
};

/* The helper `loop`: most rounds (BPF_MAX_LOOPS), and errors. */
enum { LOOP_ROUNDS_MAX = 8 * 1024 * 1024, E2BIG = 7, EINVAL = 22 };

/* Memory at any alignment, as any type. */
#define UNALIGNED(type) type##_any
typedef u8 UNALIGNED(u8);
typedef u16 __attribute__((aligned(1), may_alias)) UNALIGNED(u16);
typedef u32 __attribute__((aligned(1), may_alias)) UNALIGNED(u32);
typedef u64 __attribute__((aligned(1), may_alias)) UNALIGNED(u64);
typedef u32 __attribute__((may_alias)) u32_word;
typedef u64 __attribute__((may_alias)) u64_word;

typedef u64 function(u64, u64, u64, u64, u64, u64);
typedef u64 next_function(u64, struct cursor *, u64);

/* Slots of a packet's context (context.rs of weir-ebpf), and where the negative offsets of packet loads begin that count from
 * the network header and from the link header. */
enum { DATA = 0, DATA_END = 1, LINK = 3, NETWORK = 4, NETWORK_FROM = -0x100000, LINK_FROM = -0x200000 };

/* The bytes that a packet load takes, or null: the program ends. A packet has fewer than 2^28. */
static const u8 *in_packet(u64 context, s32 offset, s64 bytes)
{
    const u64_word *slots = (const u64_word *)context;
    s64 distance = offset;
    u64 from = slots[DATA];
    if (offset < 0 && offset >= NETWORK_FROM)
        from = slots[NETWORK], distance -= NETWORK_FROM;
    else if (offset < 0 && offset >= LINK_FROM)
        from = slots[LINK], distance -= LINK_FROM;
    else if (offset < 0)
        return 0;
    return distance + bytes <= (s64)(slots[DATA_END] - from) ? (const u8 *)from + distance : 0;
}

/* What a call of weir_text_begins asks: `Text` of src/threaded/texts.rs. */
struct text {
    u64 words[3];
    /* Of the last word, the bits that count. */
    u64 mask;
    /* Byte offset of the text's address in the context; bytes, and words, to compare. */
    u32 slot, length, count;
    /* Where the branch behind the call goes if they are the same, and if not, in operations from the one that begins the question. */
    s32 same, differs;
    u32 zero;
};
_Static_assert(sizeof(struct text) == 56, "Text of src/threaded/texts.rs");

/* Byte by byte, up to the first that differs. */
__attribute__((noinline)) static int text_by_bytes(const u8 *text, const struct text *asked)
{
    if (!text)
        return 0;
    for (u32 at = 0; at < asked->length; at++)
        if (text[at] != (u8)(asked->words[at / 8] >> at % 8 * 8))
            return 0;
    return 1;
}

/* Whether the text begins so. Whole words are read where they lie in the page of the first byte, which is there; address 0 counts
 * as the end of a page. */
static inline int text_begins(u64 context, const struct text *asked)
{
    u64 text = *(const u64_word *)(context + asked->slot);
    if (((text - 1) & 4095) > 4095 - 8 * asked->count)
        return text_by_bytes((const u8 *)text, asked);
    const UNALIGNED(u64) *words = (const UNALIGNED(u64) *)text;
    u32 last = asked->count - 1;
    for (u32 at = 0; at < last; at++)
        if (words[at] != asked->words[at])
            return 0;
    return ((words[last] ^ asked->words[last]) & asked->mask) == 0;
}

/* Every operation with a register and with a constant as its second operand, on 64 and on 32 bits. */
#define BINARY(X) \
    X(add, a + b) X(sub, a - b) X(mul, a * b) X(or, a | b) X(and, a & b) X(xor, a ^ b) X(mov, ((void)a, b)) \
    X(div, b ? a / b : 0) X(mod, b ? a % b : a)
#define SHIFTS(X) X(lsh, a << b) X(rsh, a >> b)
/* The least number divided by -1 is itself, which C leaves open and x86 traps. */
#define SIGNED(X) \
    X(sdiv, b == 0 ? 0 : b == -1 ? -(u64)a : (u64)(a / b)) X(smod, b == 0 ? (u64)a : b == -1 ? 0 : (u64)(a % b))
#define COMPARE(X) \
    X(eq, a == b) X(ne, a != b) X(gt, a > b) X(ge, a >= b) X(lt, a < b) X(le, a <= b) X(set, (a & b) != 0)
#define COMPARE_SIGNED(X) X(sgt, a > b) X(sge, a >= b) X(slt, a < b) X(sle, a <= b)
#define LOADS(X) X(ldb, u8) X(ldh, u16) X(ldw, u32) X(lddw, u64)
#define LOADS_SIGNED(X) X(ldsb, u8, s8) X(ldsh, u16, s16) X(ldsw, u32, s32)
#define STORES(X) X(b, u8) X(h, u16) X(w, u32) X(dw, u64)
#define ATOMICS(X) X(add, add) X(or, or) X(and, and) X(xor, xor)
#define EXTENSIONS(X) X(8, s8) X(16, s16) X(32, s32)
/* Those with a shape of their own. */
#define OTHERS(X) \
    X(arsh64_reg) X(arsh64_imm) X(arsh32_reg) X(arsh32_imm) X(neg64) X(neg32) X(movsx32_8) X(movsx32_16) X(low16) \
    X(low32) X(swap16) X(swap32) X(swap64) X(ja) X(call) X(call_local) X(loop) X(loop_round) X(for_each) X(for_each_round) X(exit) X(may_goto) X(xchg64) X(xchg32) \
    X(cmpxchg64) X(cmpxchg32) X(packet8) X(packet16) X(packet32) X(text) X(text_if) X(nothing)

#define NAMES_4(name, ...) #name "64_reg", #name "64_imm", #name "32_reg", #name "32_imm",
#define NAMES_J(name, ...) "j" #name "64_reg", "j" #name "64_imm", "j" #name "32_reg", "j" #name "32_imm",
#define NAMES_1(name, ...) #name,
#define NAMES_S(name, ...) "st" #name "_imm", "st" #name "_reg",
#define NAMES_A(name, ...) \
    "atomic_" #name "64", "atomic_" #name "32", "fetch_" #name "64", "fetch_" #name "32",
#define NAMES_X(bits, ...) "movsx64_" #bits,
#define GO_4(name, ...) &&name##64_reg, &&name##64_imm, &&name##32_reg, &&name##32_imm,
#define GO_J(name, ...) &&j##name##64_reg, &&j##name##64_imm, &&j##name##32_reg, &&j##name##32_imm,
#define GO_1(name, ...) &&name,
#define GO_S(name, ...) &&st##name##_imm, &&st##name##_reg,
#define GO_A(name, ...) &&atomic_##name##64, &&atomic_##name##32, &&fetch_##name##64, &&fetch_##name##32,
#define GO_X(bits, ...) &&movsx64_##bits,
#define ALL(FOUR, JUMPS, ONE, STORE, ATOMIC, EXTENSION) \
    BINARY(FOUR) SHIFTS(FOUR) SIGNED(FOUR) COMPARE(JUMPS) COMPARE_SIGNED(JUMPS) LOADS(ONE) LOADS_SIGNED(ONE) \
    STORES(STORE) ATOMICS(ATOMIC) EXTENSIONS(EXTENSION) OTHERS(ONE)

/* Names of the operations, in the order of the addresses that weir_interp_threaded(0, …) gives; the last is 0. */
const char *const weir_interp_names[] = {ALL(NAMES_4, NAMES_J, NAMES_1, NAMES_S, NAMES_A, NAMES_X) 0};

#define NEXT goto *(++op)->go
#define D r[op->dst]
#define S r[op->src]

/* Runs operations from `op` on with r1 and r2; most: how often may_goto may go on in each call of a function. With op 0: *addresses
 * becomes the table of the operations' addresses. */
u64 weir_interp_threaded(const struct op *op, u64 r1, u64 r2, u32 most, const void *const **addresses)
{
    static const void *const go[] = {ALL(GO_4, GO_J, GO_1, GO_S, GO_A, GO_X)};
    if (!op) {
        *addresses = go;
        return sizeof(go) / sizeof(go[0]);
    }
    static const struct op round = {.go = &&loop_round}, element = {.go = &&for_each_round};
    struct caller callers[CALL_DEPTH_MAX];
    struct caller *caller = callers;
    /* Not cleared: what a verified program reads of it, it has written. */
    u64 stack[CALL_DEPTH_MAX * FRAME_BYTES / 8];
    u64 r[11];
    u32 rounds = most;
    const u64 context = r1;
    r[1] = r1;
    r[2] = r2;
    r[10] = (u64)(stack + CALL_DEPTH_MAX * FRAME_BYTES / 8);
    goto *op->go;

#define DO_4(name, result) \
    name##64_reg: { u64 a = D, b = S; D = result; NEXT; } \
    name##64_imm: { u64 a = D, b = op->imm; D = result; NEXT; } \
    name##32_reg: { u32 a = (u32)D, b = (u32)S; D = (u32)(result); NEXT; } \
    name##32_imm: { u32 a = (u32)D, b = (u32)op->imm; D = (u32)(result); NEXT; }
#define DO_SHIFT(name, result) \
    name##64_reg: { u64 a = D, b = S & 63; D = result; NEXT; } \
    name##64_imm: { u64 a = D, b = op->imm & 63; D = result; NEXT; } \
    name##32_reg: { u32 a = (u32)D, b = (u32)S & 31; D = (u32)(result); NEXT; } \
    name##32_imm: { u32 a = (u32)D, b = (u32)op->imm & 31; D = (u32)(result); NEXT; }
#define DO_SIGNED(name, result) \
    name##64_reg: { s64 a = (s64)D, b = (s64)S; D = result; NEXT; } \
    name##64_imm: { s64 a = (s64)D, b = (s64)op->imm; D = result; NEXT; } \
    name##32_reg: { s32 a = (s32)D, b = (s32)S; D = (u32)(result); NEXT; } \
    name##32_imm: { s32 a = (s32)D, b = (s32)op->imm; D = (u32)(result); NEXT; }
#define JUMP_IF(holds) \
    { \
        op += (holds) ? op->jump : 1; \
        goto *op->go; \
    }
#define DO_J(name, holds) \
    j##name##64_reg: { u64 a = D, b = S; JUMP_IF(holds) } \
    j##name##64_imm: { u64 a = D, b = op->imm; JUMP_IF(holds) } \
    j##name##32_reg: { u32 a = (u32)D, b = (u32)S; JUMP_IF(holds) } \
    j##name##32_imm: { u32 a = (u32)D, b = (u32)op->imm; JUMP_IF(holds) }
#define DO_J_SIGNED(name, holds) \
    j##name##64_reg: { s64 a = (s64)D, b = (s64)S; JUMP_IF(holds) } \
    j##name##64_imm: { s64 a = (s64)D, b = (s64)op->imm; JUMP_IF(holds) } \
    j##name##32_reg: { s32 a = (s32)D, b = (s32)S; JUMP_IF(holds) } \
    j##name##32_imm: { s32 a = (s32)D, b = (s32)op->imm; JUMP_IF(holds) }
#define DO_LOAD(name, type) name: { D = *(const UNALIGNED(type) *)(S + op->imm); NEXT; }
#define DO_LOAD_SIGNED(name, type, extended) \
    name: { D = (u64)(extended)*(const UNALIGNED(type) *)(S + op->imm); NEXT; }
#define DO_STORE(name, type) \
    st##name##_imm: { *(UNALIGNED(type) *)(D + op->imm) = (type)op->jump; NEXT; } \
    st##name##_reg: { *(UNALIGNED(type) *)(D + op->imm) = (type)S; NEXT; }
#define WORD(type) ((type##_word *)(D + op->imm))
#define DO_ATOMIC(name, function) \
    atomic_##name##64: { __atomic_fetch_##function(WORD(u64), S, __ATOMIC_SEQ_CST); NEXT; } \
    atomic_##name##32: { __atomic_fetch_##function(WORD(u32), (u32)S, __ATOMIC_SEQ_CST); NEXT; } \
    fetch_##name##64: { S = __atomic_fetch_##function(WORD(u64), S, __ATOMIC_SEQ_CST); NEXT; } \
    fetch_##name##32: { S = __atomic_fetch_##function(WORD(u32), (u32)S, __ATOMIC_SEQ_CST); NEXT; }
#define DO_EXTEND(bits, type) movsx64_##bits: { D = (u64)(type)S; NEXT; }

    BINARY(DO_4)
    SHIFTS(DO_SHIFT)
    SIGNED(DO_SIGNED)
    COMPARE(DO_J)
    COMPARE_SIGNED(DO_J_SIGNED)
    LOADS(DO_LOAD)
    LOADS_SIGNED(DO_LOAD_SIGNED)
    STORES(DO_STORE)
    ATOMICS(DO_ATOMIC)
    EXTENSIONS(DO_EXTEND)

arsh64_reg: { D = (u64)((s64)D >> (S & 63)); NEXT; }
arsh64_imm: { D = (u64)((s64)D >> (op->imm & 63)); NEXT; }
arsh32_reg: { D = (u32)((s32)D >> (S & 31)); NEXT; }
arsh32_imm: { D = (u32)((s32)D >> (op->imm & 31)); NEXT; }
neg64: { D = -D; NEXT; }
neg32: { D = (u32)-D; NEXT; }
movsx32_8: { D = (u32)(s8)S; NEXT; }
movsx32_16: { D = (u32)(s16)S; NEXT; }
low16: { D = (u16)D; NEXT; }
low32: { D = (u32)D; NEXT; }
swap16: { D = __builtin_bswap16((u16)D); NEXT; }
swap32: { D = __builtin_bswap32((u32)D); NEXT; }
swap64: { D = __builtin_bswap64(D); NEXT; }
/* `jump`: whether a register is added to the offset. */
#define DO_PACKET(name, type, order) \
    name: { \
        const u8 *at = in_packet(r[6], (s32)((u32)op->imm + (op->jump ? (u32)S : 0)), sizeof(type)); \
        if (!at) \
            return 0; \
        r[0] = order(*(const UNALIGNED(type) *)at); \
        NEXT; \
    }
DO_PACKET(packet8, u8, )
DO_PACKET(packet16, u16, __builtin_bswap16)
DO_PACKET(packet32, u32, __builtin_bswap32)
nothing: { NEXT; }
ja: { op += op->jump; goto *op->go; }
may_goto: {
    /* On while rounds are left; then away. */
    if (rounds) {
        rounds--;
        NEXT;
    }
    op += op->jump;
    goto *op->go;
}
xchg64: { S = __atomic_exchange_n(WORD(u64), S, __ATOMIC_SEQ_CST); NEXT; }
xchg32: { S = __atomic_exchange_n(WORD(u32), (u32)S, __ATOMIC_SEQ_CST); NEXT; }
cmpxchg64: {
    u64 expected = r[0];
    __atomic_compare_exchange_n(WORD(u64), &expected, S, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    r[0] = expected;
    NEXT;
}
cmpxchg32: {
    u32 expected = (u32)r[0];
    __atomic_compare_exchange_n(WORD(u32), &expected, (u32)S, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    r[0] = expected;
    NEXT;
}
/* `imm`: what is asked. */
text: { r[0] = text_begins(context, (const struct text *)op->imm); NEXT; }
/* With the branch on the answer, and the moves to the registers that the call takes. */
text_if: {
    const struct text *asked = (const struct text *)op->imm;
    r[0] = text_begins(context, asked);
    op += r[0] ? asked->same : asked->differs;
    goto *op->go;
}
call: {
    /* `jump` is what helpers with a constant string take in a sixth register: its bytes. */
    r[0] = ((function *)op->imm)(r[1], r[2], r[3], r[4], r[5], (u64)op->jump);
    NEXT;
}
call_local: {
    caller->back = op + 1;
    for (int n = 0; n < 5; n++)
        caller->kept[n] = r[6 + n];
    caller->rounds = rounds;
    rounds = most;
    caller++;
    r[10] -= FRAME_BYTES;
    op += op->jump;
    goto *op->go;
}
loop: {
    r[0] = r[4] ? -(u64)EINVAL : r[1] > LOOP_ROUNDS_MAX ? -(u64)E2BIG : 0;
    if (r[0] || r[1] == 0)
        NEXT;
    caller->helper = op;
    caller->index = 0;
    caller->count = r[1];
    caller->context = r[3];
    r[1] = 0;
    r[2] = r[3];
    caller->back = &round;
    goto call_back;
}
loop_round: {
    /* The callback has returned, so that its caller is the one beyond the last. */
    op = caller->helper;
    if (++caller->index == caller->count || r[0]) {
        r[0] = caller->index;
        NEXT;
    }
    r[1] = caller->index;
    r[2] = caller->context;
    goto call_back;
}
for_each: {
    r[0] = r[4] ? -(u64)EINVAL : 0;
    if (r[0])
        NEXT;
    caller->helper = op;
    caller->map = r[1];
    caller->context = r[3];
    caller->at = (struct cursor){0};
    caller->back = &element;
    goto next_element;
}
for_each_round: {
    op = caller->helper;
    if (r[0]) {
        r[0] = caller->at.count;
        NEXT;
    }
}
next_element: {
    /* `imm` is weir_map_next; values are in lane 0. */
    u64 value = ((next_function *)op->imm)(caller->map, &caller->at, 0);
    if (!value) {
        r[0] = caller->at.count;
        NEXT;
    }
    r[1] = caller->map;
    r[2] = caller->at.key;
    r[3] = value;
    r[4] = caller->context;
}
call_back: {
    for (int n = 0; n < 5; n++)
        caller->kept[n] = r[6 + n];
    caller->rounds = rounds;
    rounds = most;
    caller++;
    r[10] -= FRAME_BYTES;
    op += op->jump;
    goto *op->go;
}
exit: {
    if (caller == callers)
        return r[0];
    caller--;
    for (int n = 0; n < 5; n++)
        r[6 + n] = caller->kept[n];
    rounds = caller->rounds;
    op = caller->back;
    goto *op->go;
}
}
