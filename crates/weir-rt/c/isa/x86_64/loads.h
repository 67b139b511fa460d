/*
 * Loads inside a restartable sequence (rseq(2)) that begins by looking whether a word has a value still.
 */
#ifndef WEIR_LOADS_H
#define WEIR_LOADS_H

/* The kernel's struct rseq_cs (include/uapi/linux/rseq.h). It lies on the stack: an image has no place for addresses. */
struct section { u32 version, flags; u64 start, length, abort; } __attribute__((aligned(32)));
/* What stands before where an aborted sequence goes on: RSEQ_SIG. */
#define SIGNATURE ".byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"
#define CS "%%fs:8(%[rseq])"
/* Before the sequence, which begins behind the store: where the thread is interrupted before that, it was none. */
#define BEGIN \
    "lea 1f(%%rip), %[word]\n\tmov %[word], 8(%[section])\n\t" \
    "lea 4f(%%rip), %[word]\n\tmov %[word], 24(%[section])\n\t" \
    "movq $2f-1f, 16(%[section])\n\t" \
    "mov %[section], " CS "\n1:\n\t" \
    "cmp %k[state], (%[reads])\n\tjne 3f\n"
/* `done` is 1 where the bytes are there; the kernel has cleared what it interrupted. */
#define END \
    "2:\n\tmovl $1, %k[done]\n3:\n\tmovq $0, " CS "\n\tjmp 8f\n\t" SIGNATURE "4:\n8:\n"

/* 1, or 0 where the table changed or the thread was interrupted. */
INLINE u32 load_bytes(const void *state_at, u32 state, s64 rseq, u8 *to, u64 from, u64 bytes)
{
    struct section section = { 0, 0, 0, 0, 0 };
    u32 done = 0;
    u64 word;
    __asm__ volatile(
        BEGIN
        "5:\tcmp $8, %[bytes]\n\tjb 6f\n\t"
        "mov (%[from]), %[word]\n\tmov %[word], (%[to])\n\t"
        "add $8, %[from]\n\tadd $8, %[to]\n\tsub $8, %[bytes]\n\tjmp 5b\n"
        "6:\ttest %[bytes], %[bytes]\n\tjz 2f\n\t"
        "movzbl (%[from]), %k[word]\n\tmov %b[word], (%[to])\n\t"
        "inc %[from]\n\tinc %[to]\n\tdec %[bytes]\n\tjmp 6b\n"
        END
        : [word] "=&q"(word), [done] "+&r"(done), [to] "+&r"(to), [from] "+&r"(from), [bytes] "+&r"(bytes)
        : [section] "r"(&section), [rseq] "r"(rseq), [reads] "r"(state_at), [state] "r"(state)
        : "memory", "cc");
    return done;
}

/* The same up to a NUL, which is copied too. `end`: behind the last byte that was written; `found`: it was a NUL. */
INLINE u32 load_text(const void *state_at, u32 state, s64 rseq, u8 *to, u64 from, u64 bytes, u8 **end, u32 *found)
{
    struct section section = { 0, 0, 0, 0, 0 };
    u32 done = 0;
    u64 word, zeros;
    __asm__ volatile(
        BEGIN
        "5:\tcmp $8, %[bytes]\n\tjb 6f\n\t"
        /* (word - 01…01) & ~word & 80…80 is 0 where no byte of it is. */
        "mov (%[from]), %[word]\n\tmov %[word], %[zeros]\n\tnot %[zeros]\n\t"
        "add %[minus], %[word]\n\tand %[zeros], %[word]\n\t"
        "not %[zeros]\n\ttest %[high], %[word]\n\tjnz 6f\n\t"
        "mov %[zeros], (%[to])\n\t"
        "add $8, %[from]\n\tadd $8, %[to]\n\tsub $8, %[bytes]\n\tjmp 5b\n"
        "6:\ttest %[bytes], %[bytes]\n\tjz 7f\n\t"
        "movzbl (%[from]), %k[word]\n\tmov %b[word], (%[to])\n\t"
        "inc %[from]\n\tinc %[to]\n\tdec %[bytes]\n\ttest %b[word], %b[word]\n\tjnz 6b\n\t"
        "mov $1, %k[zeros]\n\tjmp 2f\n"
        "7:\txor %k[zeros], %k[zeros]\n"
        END
        : [word] "=&q"(word), [zeros] "=&r"(zeros), [done] "+&r"(done), [to] "+&r"(to), [from] "+&r"(from),
          [bytes] "+&r"(bytes)
        : [section] "r"(&section), [rseq] "r"(rseq), [reads] "r"(state_at), [state] "r"(state),
          [minus] "r"(-0x0101010101010101l), [high] "r"(0x8080808080808080ul)
        : "memory", "cc");
    *end = to;
    *found = (u32)zeros;
    return done;
}

/* The CPU that a thread with this `struct rseq` was on; negative where it is not registered. */
INLINE int rseq_cpu(s64 rseq)
{
    int cpu;
    __asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(rseq));
    return cpu;
}

#endif
