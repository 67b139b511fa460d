// A process with a shadow stack (x86 CET), which the kernel gives to who asks: a return to anywhere but behind its call is
// a fault. Calls functions whose first instructions are calls, jumps, and neither; recursion, and a signal's handler.

#include "adversarial.h"

#include <errno.h>
#include <sys/syscall.h>

#define ARCH_SHSTK_ENABLE 0x5001
#define ARCH_SHSTK_SHSTK 1

long shadow_calls(long);
__asm__(".text\n .p2align 4\n .globl shadow_calls\n .type shadow_calls, @function\n shadow_calls: push %rbx\n"
    " call shadow_helper\n pop %rbx\n ret\n .size shadow_calls, . - shadow_calls\n .p2align 4\n"
    " .type shadow_helper, @function\n shadow_helper: lea 1(%rdi,%rdi,2), %rax\n ret\n"
    " .size shadow_helper, . - shadow_helper\n");

PROBED static long shadow_recurses(long n) {
    CALLED(shadow_recurses);
    long result = n ? shadow_recurses(n - 1) + 1 : 1;
    __asm__ volatile("" : "+r"(result));
    return result;
}
PROBED static void shadow_signal(int number) {
    CALLED(shadow_signal);
    (void)number;
}

int main(int argc, char **argv) {
    // No function that was entered before may return behind this.
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"((long)SYS_arch_prctl), "D"((long)ARCH_SHSTK_ENABLE),
                     "S"((long)ARCH_SHSTK_SHSTK) : "rcx", "r11", "memory");
    if (result != 0) {
        begin(argc, argv);
        say("lacks shadow stacks\n");
        finish();
        _exit(7);
    }
    begin(argc, argv);
    struct sigaction action = {.sa_handler = shadow_signal};
    sigaction(SIGUSR1, &action, 0);
    long sum = 0;
    for (long n = 0; n < 10000; n++) {
        CHECK(shadow_calls(n) == n * 3 + 1);
        sum += shadow_recurses(n % 20);
        if (n % 50 == 0) raise(SIGUSR1);
    }
    say("sum %ld\n", sum);
    finish();
    _exit(0);
}
