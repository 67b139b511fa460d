// Functions whose first bytes are hard to patch, beside those of shapes.c, and callers that rely on what compilers know of
// a function: that it changes few registers.

#include "adversarial.h"

#include <stdint.h>

#define BEGIN(name) ".globl " #name "\n .type " #name ", @function\n " #name ": .cfi_startproc\n"
#define END(name) ".cfi_endproc\n .size " #name ", . - " #name "\n .p2align 4\n"

__asm__(".text\n .p2align 4\n"
    // The rare half lies elsewhere, and jumps back to the second instruction.
    BEGIN(edge_cold_jumps_back) "push %rbx\n 1: mov %rdi, %rbx\n lea (%rbx,%rsi), %rax\n test %rdi, %rdi\n"
    " js edge_cold\n pop %rbx\n ret\n" END(edge_cold_jumps_back)
    ".pushsection .text.unlikely\n .type edge_cold, @function\n edge_cold: shr $1, %rdi\n inc %rsi\n jmp 1b\n"
    " .size edge_cold, . - edge_cold\n .popsection\n"
    // Five bytes on two cache lines.
    ".p2align 6\n .skip 61, 0x90\n" BEGIN(edge_cache_lines) "mov $0x1234567, %eax\n add %edi, %eax\n ret\n"
    END(edge_cache_lines)
    // The middle of one function is another, three bytes on; both are called.
    BEGIN(edge_outer) "mov %rdi, %rax\n" ".globl edge_inner\n .type edge_inner, @function\n edge_inner: add %rsi, %rax\n"
    " lea 5(%rax,%rax), %rax\n ret\n .size edge_inner, . - edge_inner\n" END(edge_outer)
    // One function with two names.
    ".globl edge_alias\n .type edge_alias, @function\n edge_alias:\n" BEGIN(edge_named) "lea 9(%rdi,%rsi,4), %rax\n ret\n"
    END(edge_named) ".size edge_alias, . - edge_alias\n"
    BEGIN(edge_vmov) "vmovdqu edge_datum(%rip), %xmm0\n vmovq %xmm0, %rax\n add %rdi, %rax\n ret\n" END(edge_vmov)
    BEGIN(edge_immediate_behind) "movl $77, edge_word(%rip)\n mov edge_word(%rip), %eax\n add %rdi, %rax\n ret\n"
    END(edge_immediate_behind)
    // Carry and direction come in, r10 and r11 are arguments, and rax is one too.
    BEGIN(edge_by_hand) "adc %r10, %rax\n setc %dl\n movzbl %dl, %edx\n lea (%r11,%rdx), %rdx\n ret\n" END(edge_by_hand)
    BEGIN(call_by_hand) "mov %rdi, %r10\n mov %rsi, %r11\n mov %rdx, %rax\n bt $0, %rdi\n call edge_by_hand\n"
    " adc %rdx, %rax\n ret\n" END(call_by_hand)
    ".data\n .p2align 4\n edge_datum: .quad 0x123456789, 3\n edge_word: .long 5\n .text\n");

#define EACH(X) X(edge_cold_jumps_back) X(edge_cache_lines) X(edge_outer) X(edge_inner) X(edge_named) \
    X(edge_immediate_behind) X(edge_vmov)
#define DECLARE(name) long name(long, long);
EACH(DECLARE) DECLARE(edge_alias)
long call_by_hand(long, long, long);

static uint64_t hash = 0xcbf29ce484222325;
static void mix(long value) { hash = (hash ^ (uint64_t)value) * 0x100000001b3; }

// Changes one register, so that GCC's -fipa-ra keeps everything else where it is in the caller.
__attribute__((noinline)) static long edge_leaf(long a) {
    CALLED(edge_leaf);
    return a * 3 + 1;
}
__attribute__((noinline)) static double edge_leaf_double(double a) {
    CALLED(edge_leaf_double);
    return a * 0.5;
}
PROBED static long edge_keeps(const long *in, const double *real) {
    CALLED(edge_keeps);
    long a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5];
    double x = real[0], y = real[1], z = real[2];
    long first = edge_leaf(a ^ b);
    double second = edge_leaf_double(x + y);
    long third = edge_leaf(c - d);
    return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + first + third + (long)(x * 3 + y * 5 + z * 7 + second);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    long times = 3000, of_inner = 0;
    int has_avx = __builtin_cpu_supports("avx");
    if (!has_avx) say("lacks avx\n");
    for (long n = 0; n < times; n++) {
        mix(edge_cold_jumps_back(n % 3 ? n : -n, n));
        mix(edge_cache_lines(n, n));
        mix(edge_outer(n, 3));
        of_inner++;
        long rax = n;
        __asm__ volatile("call edge_inner" : "+a"(rax) : "S"(n * 5) : "cc", "memory", "rcx", "rdx", "rdi", "r8", "r9",
                         "r10", "r11");
        mix(rax);
        of_inner++;
        mix(edge_named(n, 2) + edge_alias(n, 3));
        mix(edge_immediate_behind(n, 0));
        if (has_avx) mix(edge_vmov(n, 0));
        mix(call_by_hand(n, n * n, -n));
        long in[6] = {n, n * 7, n ^ 5, n - 3, 8, n * n};
        double real[3] = {n * 0.5, n * 0.25, 3};
        mix(edge_keeps(in, real));
    }
    say("hash %lx\n", (unsigned long)hash);
    say("calls edge_cold_jumps_back %ld\ncalls edge_cache_lines %ld\ncalls edge_outer %ld\ncalls edge_inner %ld\n", times,
        times, times, of_inner);
    say("calls edge_immediate_behind %ld\ncalls edge_vmov %ld\ncalls edge_by_hand %ld\n", times, has_avx ? times : 0, times);
    finish();
    return 0;
}
