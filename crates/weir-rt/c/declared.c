/*
 * weir_declared_copy: what the traced program declares of its tracepoints' arguments, by loads alone.
 *
 * In: room for `size` bytes, the context, and which of its slots lead to what (kfunc/declared.rs of weir-ebpf). The program vouches
 * for that memory, the verifier for the rest: that the slots are declared, and that the room is there. Out: how many bytes there are,
 * with CUT if there were more. No byte is looked at that is not declared, but those that lie in one word and in one page with a
 * byte of a text.
 *
 * Machine code does what is short in line (declared.rs of weir-jit) and comes here for the rest.
 */
#include "weir.h"

enum { TEXT, BYTES, ELEMENTS, WORD }; /* Kinds of `which`. */
enum { ROW_SLOT = 13, ROW_WORDS = 128 }; /* Slots from the latter on are words at the address that the former has. */
enum { PAGE = 4096 };
#define CUT (1ul << 32)
/* "(null)", and how many bytes that are with its NUL. */
#define NULL_TEXT 0x296c6c756e28ul
enum { NULL_TEXT_BYTES = 7 };
#define ONES 0x0101010101010101ul
#define HIGHS 0x8080808080808080ul

/* Once, and written once: what is copied is what was looked at. */
INLINE u64 word_at(u64 from) { return *(const volatile u64_any *)from; }
INLINE u8 byte_at(u64 from) { return *(const volatile u8 *)from; }
INLINE void put_word(u8 *to, u64 word) { *(volatile u64_any *)to = word; }
INLINE void put_byte(u8 *to, u8 byte) { *(volatile u8 *)to = byte; }

/* Whole words where they lie in the page of their first byte, which is there since no byte before it was a NUL. */
static u64 copy_text(u8 *to, u64 size, u64 from)
{
    for (u64 at = 0; at < size;) {
        u64 here = PAGE - ((from + at) & (PAGE - 1)), end = size - at < here ? size : at + here;
        for (; at + 8 <= end; at += 8) {
            u64 word = word_at(from + at), zeros = (word - ONES) & ~word & HIGHS;
            put_word(to + at, word);
            /* The lowest of these bits is right, those above one may not be. */
            if (zeros)
                return at + ((u64)__builtin_ctzl(zeros) >> 3) + 1;
        }
        for (; at < end; at++) {
            u8 byte = byte_at(from + at);
            put_byte(to + at, byte);
            if (!byte)
                return at + 1;
        }
    }
    put_byte(to + size - 1, 0);
    return size | CUT;
}

static void copy_bytes(u8 *to, u64 bytes, u64 from)
{
    u64 at = 0;
    for (; at + 8 <= bytes; at += 8)
        put_word(to + at, word_at(from + at));
    for (; at < bytes; at++)
        put_byte(to + at, byte_at(from + at));
}

static void put_zeros(u8 *to, u64 bytes)
{
    for (u64 at = 0; at < bytes; at++)
        put_byte(to + at, 0);
}

static u64 held(const u64_word *context, u8 slot)
{
    return slot < ROW_WORDS ? context[slot] : word_at(context[ROW_SLOT] + 8 * (u64)(slot - ROW_WORDS));
}

u64 weir_declared_copy(u8 *to, u64 size, const u64_word *context, u64 which)
{
    u64 from = held(context, (u8)which), kind = (u8)(which >> 8);
    if (kind == WORD) {
        put_word(to, from);
        return 8;
    }
    if (kind == TEXT && from)
        return copy_text(to, size, from);
    if (kind == TEXT) {
        put_word(to, NULL_TEXT);
        return NULL_TEXT_BYTES;
    }
    if (kind == BYTES && from) {
        copy_bytes(to, size, from);
        return size;
    }
    if (kind == BYTES)
        put_zeros(to, size);
    if (kind == BYTES || !from)
        return 0;
    u64 shift = (u8)(which >> 24), count = held(context, (u8)(which >> 16)), most = size >> shift;
    /* What a call has answered that failed is no number of elements. */
    if (count >> 63)
        count = 0;
    u64 bytes = (count < most ? count : most) << shift;
    copy_bytes(to, bytes, from);
    return bytes | (count > most ? CUT : 0);
}
