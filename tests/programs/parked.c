// Functions of the shapes that are patched in different ways, called over and over, each result checked: for a thread
// that is stopped at any instruction of them. A byte on standard input ends it; SIGUSR1 is handled for as long as
// nothing comes on the pipe that SIGUSR2 writes to. It asks what unwinders ask, too (glibc 2.35 and later).

#include "adversarial.h"

#include <poll.h>

#define FUNCTION(name) ".p2align 4\n .globl " #name "\n .type " #name ", @function\n " #name ":\n"
#define END(name) ".size " #name ", . - " #name "\n .p2align 4\n"

__asm__(".text\n" FUNCTION(park_prologue) "push %rbp\n mov %rsp, %rbp\n sub $16, %rsp\n mov %rdi, -8(%rbp)\n"
    " mov -8(%rbp), %rax\n lea 1(%rax,%rax,2), %rax\n leave\n ret\n" END(park_prologue)
    FUNCTION(park_pushes) "push %rbx\n push %r12\n mov %rdi, %rbx\n lea 1(%rbx,%rbx,2), %r12\n mov %r12, %rax\n"
    " pop %r12\n pop %rbx\n ret\n" END(park_pushes)
    FUNCTION(park_flags) "cmp $0, %rdi\n stc\n jl 1f\n lea (%rdi,%rdi,2), %rax\n adc $0, %rax\n ret\n"
    " 1: lea 1(%rdi,%rdi,2), %rax\n ret\n" END(park_flags)
    FUNCTION(park_padding) "lea 1(%rdi,%rdi,2), %eax\n ret\n" END(park_padding)
    FUNCTION(park_short) "push %rbx\n xor %eax, %eax\n 1: inc %eax\n cmp %edi, %eax\n jl 1b\n"
    " lea 1(%rdi,%rdi,2), %eax\n pop %rbx\n ret\n" END(park_short)
    FUNCTION(park_call) "push %rbx\n mov %rdi, %rbx\n call park_helper\n add %rbx, %rax\n pop %rbx\n ret\n" END(park_call)
    FUNCTION(park_helper) "lea 1(%rdi,%rdi), %rax\n ret\n" END(park_helper));

#define EACH(X) X(park_prologue) X(park_pushes) X(park_flags) X(park_padding) X(park_short) X(park_call)
#define DECLARE(name) long name(long);
EACH(DECLARE)
#define ROW(name) name,
static long (*const functions[])(long) = {EACH(ROW)};
#define COUNT (sizeof functions / sizeof *functions)

extern int _dl_find_object(void *, void *) __attribute__((weak));
__attribute__((noinline, noclone)) int park_find(void *address) {
    struct { unsigned long long flags; void *start, *end, *rest[13]; } object = {0};
    return !_dl_find_object || (_dl_find_object(address, &object) == 0 && object.start <= address && address < object.end);
}

static int channel[2];
static void waits(int number) {
    char byte;
    (void)number;
    while (read(channel[0], &byte, 1) != 1) {}
}
static void lets_go(int number) {
    (void)number;
    if (write(channel[1], "x", 1) != 1) _exit(6);
}

int main(void) {
    struct sigaction action = {.sa_handler = waits};
    CHECK(pipe(channel) == 0 && sigaction(SIGUSR1, &action, 0) == 0);
    action.sa_handler = lets_go;
    CHECK(sigaction(SIGUSR2, &action, 0) == 0);
    alarm(600);
    say("ready\n");
    struct pollfd in = {.fd = 0, .events = POLLIN};
    for (long n = 1; poll(&in, 1, 0) <= 0; n++) {
        for (size_t i = 0; i < COUNT; i++) CHECK(functions[i](n % 50) == n % 50 * 3 + 1);
        CHECK(park_find((void *)park_call));
    }
    say("right\n");
    return 0;
}
