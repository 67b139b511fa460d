// Counts on each CPU with restartable sequences (rseq), in threads that are preempted and interrupted all the time. A
// count is lost where the kernel does not know that a thread was in its sequence.

#include "adversarial.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <linux/rseq.h>

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));
static struct { uint64_t count; char rest[120]; } counts[1024];
static __thread struct rseq *area;

// rdi: the thread's area, rsi: the counts. 1 where it was interrupted. The last instruction of the sequence commits.
int increments(struct rseq *, void *);
__asm__(".text\n .globl increments\n .type increments, @function\n increments: .cfi_startproc\n endbr64\n"
    " push %rbx\n .cfi_adjust_cfa_offset 8\n mov %rdi, %rbx\n mov %rbx, %rdi\n"
    " .pushsection __rseq_cs, \"aw\"\n .balign 32\n 3: .long 0, 0\n .quad 1f, 2f - 1f, 4f\n .popsection\n"
    " .globl increments_arm\n increments_arm: lea 3b(%rip), %rax\n .globl increments_store\n"
    " increments_store: mov %rax, 8(%rdi)\n .globl increments_start\n increments_start: 1: mov 4(%rdi), %eax\n"
    " .globl increments_middle\n increments_middle: shl $7, %rax\n incq (%rsi,%rax)\n .globl increments_behind\n"
    " increments_behind: 2: mov %rbx, %rdi\n xor %eax, %eax\n pop %rbx\n .cfi_adjust_cfa_offset -8\n ret\n"
    " .cfi_adjust_cfa_offset 8\n .byte 0x0f, 0xb9, 0x3d\n .long 0x53053053\n .globl increments_abort\n"
    " increments_abort: 4: mov $1, %eax\n pop %rbx\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n"
    " .size increments, . - increments\n");

PROBED static void calls_sequence(void) {
    CALLED(calls_sequence);
    while (increments(area, counts)) {}
}

#define TIMES 300000
static void *run(void *unused) {
    area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    for (int i = 0; i < TIMES; i++) calls_sequence();
    return unused;
}

static void on_signal(int number) { (void)number; }

int main(int argc, char **argv) {
    if (!&__rseq_size || !__rseq_size) {
        say("lacks rseq\n");
        return 7;
    }
    begin(argc, argv);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    signal_every(SIGUSR1, 100);
    pthread_t threads[6];
    for (int i = 0; i < 6; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 6; i++) pthread_join(threads[i], 0);
    signal_every(SIGUSR1, 0);
    uint64_t sum = 0;
    for (int i = 0; i < 1024; i++) sum += counts[i].count;
    say("%lu\n", (unsigned long)sum);
    finish();
    return 0;
}
