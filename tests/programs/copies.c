// Copies by the memcpy that an indirect function of libc's has chosen, called from code written by hand with every vector
// and mask register live: said are how often one of them still held what it held before the call, and a hash of what all of
// them held behind it, both of which depend on nothing but the implementation. Both buffers lie at a fixed place, so that
// a tracer can tell these copies from others.

#include "adversarial.h"

#include <stdint.h>
#include <sys/mman.h>

#define PLACE ((char *)0x200000000000)
#define HALF (32 << 10)
#define TIMES 3000

#define VECTOR_BYTES_MAX 64
static struct {
    unsigned char vectors[32][VECTOR_BYTES_MAX];
    uint64_t masks[8];
} before, registers __attribute__((aligned(64)));

// Loads the registers, copies, and stores them: void *NAME(copy, registers, to, from, bytes).
#define EACH16(what) ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n " what "\n.endr\n"
#define EACH32(what) EACH16(what) ".irp r,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n " what "\n.endr\n"
#define MASKS(what) ".irp r,0,1,2,3,4,5,6,7\n " what "\n.endr\n"
#define COPIES_WITH(name, load, store, leave)                                                                        \
    void *name(void *(*)(void *, const void *, size_t), void *, void *, const void *, size_t);                       \
    __asm__(".text\n .type " #name ", @function\n" #name ": push %rbx\n push %r12\n sub $8, %rsp\n"                   \
        " mov %rdi, %r12\n mov %rsi, %rbx\n mov %rdx, %rdi\n mov %rcx, %rsi\n mov %r8, %rdx\n" load                   \
        " call *%r12\n" store leave " add $8, %rsp\n pop %r12\n pop %rbx\n ret\n .size " #name ", . - " #name "\n")

COPIES_WITH(copies_with_xmm, EACH16("movdqa 64*\\r(%rbx), %xmm\\r"), EACH16("movdqa %xmm\\r, 64*\\r(%rbx)"), "");
COPIES_WITH(copies_with_ymm, EACH16("vmovdqa 64*\\r(%rbx), %ymm\\r"), EACH16("vmovdqa %ymm\\r, 64*\\r(%rbx)"),
    " vzeroupper\n");
COPIES_WITH(copies_with_zmm,
    EACH32("vmovdqa64 64*\\r(%rbx), %zmm\\r") MASKS("kmovq 2048+8*\\r(%rbx), %k\\r"),
    EACH32("vmovdqa64 %zmm\\r, 64*\\r(%rbx)") MASKS("kmovq %k\\r, 2048+8*\\r(%rbx)"), " vzeroupper\n");

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint64_t number(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static uint64_t hash = 0xcbf29ce484222325;
static unsigned long kept;

// What is in a register, now and before.
static void look(const void *now, const void *then, size_t bytes) {
    const unsigned char *at = now;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 0x100000001b3;
    kept += !memcmp(now, then, bytes);
}

int main(int argc, char **argv) {
    int is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    int is_avx = __builtin_cpu_supports("avx");
    int vectors = is_wide ? 32 : 16;
    size_t vector_bytes = is_wide ? 64 : is_avx ? 32 : 16;
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    char *from = mmap(PLACE, 2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    char *to = from + HALF;
    CHECK(from == PLACE);
    for (int i = 0; i < HALF; i++) from[i] = (char)(i * 7 + i / 256);
    // Bound by the loader.
    copy(to, from, 100);
    begin(argc, argv);
    for (long i = 0; i < TIMES; i++) {
        // Sizes take every path of every implementation.
        size_t bytes = (size_t)(i * i % (i % 3 ? 300 : 20000)), shift = (size_t)(i % 67);
        for (size_t word = 0; word < sizeof before / 8; word++) ((uint64_t *)&before)[word] = number();
        registers = before;
        to[shift + bytes] = 77;
        void *result = is_wide ? copies_with_zmm(copy, &registers, to + shift, from + i % 31, bytes)
            : is_avx           ? copies_with_ymm(copy, &registers, to + shift, from + i % 31, bytes)
                               : copies_with_xmm(copy, &registers, to + shift, from + i % 31, bytes);
        CHECK(result == to + shift && !memcmp(result, from + i % 31, bytes) && to[shift + bytes] == 77);
        for (int r = 0; r < vectors; r++) look(registers.vectors[r], before.vectors[r], vector_bytes);
        for (int r = 0; r < 8 && is_wide; r++) look(&registers.masks[r], &before.masks[r], 8);
    }
    say("copies %d\nkept %lu\nhash %lx\n", TIMES, kept, (unsigned long)hash);
    finish();
    return 0;
}
