// Many threads in a few functions, all the time, each result checked. Lines on standard input: a number has every thread
// make so many calls of each function, "run" lets them go on for ever, "end" ends it. With "trap" as its first argument
// all threads block SIGTRAP, and a handler of it says that it ran; with "signals" a signal comes every 100 us, whose
// handler calls a function too.

#include "adversarial.h"

#include <pthread.h>
#include <stdint.h>

#define THREADS 64
// Those that never give their processor away: with all of them, everybody waits for a processor most of the time.
#define GREEDY 6
#define FUNCTION(name) ".p2align 4\n .globl " #name "\n .type " #name ", @function\n " #name ":\n"
#define END(name) ".size " #name ", . - " #name "\n .p2align 4\n"

__asm__(".text\n" FUNCTION(hammer_long) "mov $1, %eax\n lea (%rax,%rdi,2), %rax\n add %rdi, %rax\n ret\n" END(hammer_long)
    FUNCTION(hammer_several) "push %rbp\n mov %rsp, %rbp\n sub $16, %rsp\n mov %rdi, -8(%rbp)\n mov -8(%rbp), %rax\n"
    " lea 1(%rax,%rax,2), %rax\n leave\n ret\n" END(hammer_several)
    FUNCTION(hammer_padding) "lea 1(%rdi,%rdi,2), %rax\n ret\n" END(hammer_padding)
    FUNCTION(hammer_short) "push %rbx\n xor %eax, %eax\n 1: inc %eax\n cmp $3, %eax\n jl 1b\n"
    " lea 1(%rdi,%rdi,2), %rax\n pop %rbx\n ret\n" END(hammer_short)
    FUNCTION(hammer_call) "push %rbx\n mov %rdi, %rbx\n call hammer_helper\n add %rbx, %rax\n pop %rbx\n ret\n"
    END(hammer_call)
    FUNCTION(hammer_helper) "lea 1(%rdi,%rdi), %rax\n ret\n" END(hammer_helper)
    FUNCTION(hammer_signal) "push %rbx\n push %r12\n lea 1(%rdi,%rdi,2), %rax\n pop %r12\n pop %rbx\n ret\n"
    END(hammer_signal));
#define EACH(X) X(hammer_long) X(hammer_several) X(hammer_padding) X(hammer_short) X(hammer_call)
#define DECLARE(name) long name(long);
EACH(DECLARE) DECLARE(hammer_signal)
#define ROW(name) name,
static long (*const functions[])(long) = {EACH(ROW)};
#define COUNT ((int)(sizeof functions / sizeof *functions))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static long round_number, working;
static volatile long to_do, stopped;
static unsigned long calls;

static void *work(void *number) {
    long n = 0;
    int is_greedy = (long)number < GREEDY;
    for (long seen = 0;; seen++) {
        pthread_mutex_lock(&mutex);
        while (round_number == seen) pthread_cond_wait(&begun, &mutex);
        pthread_mutex_unlock(&mutex);
        unsigned long done = 0;
        for (long left = to_do; left > 0 && !stopped; left--, done += COUNT) {
            for (int i = 0; i < COUNT; i++, n++) CHECK(functions[i](n) == n * 3 + 1);
            if (!is_greedy && left % 64 == 0) sched_yield();
        }
        __atomic_add_fetch(&calls, done, __ATOMIC_RELAXED);
        pthread_mutex_lock(&mutex);
        if (--working == 0) pthread_cond_broadcast(&ended);
        pthread_mutex_unlock(&mutex);
    }
    return number;
}

static void start(long count) {
    pthread_mutex_lock(&mutex);
    to_do = count;
    stopped = 0;
    calls = 0;
    working = THREADS;
    round_number++;
    pthread_cond_broadcast(&begun);
    pthread_mutex_unlock(&mutex);
}

static void join(void) {
    pthread_mutex_lock(&mutex);
    while (working) pthread_cond_wait(&ended, &mutex);
    pthread_mutex_unlock(&mutex);
    say("done %lu\n", calls);
}

static volatile unsigned long signals;
static void on_signal(int number) {
    CHECK(hammer_signal(number) == number * 3 + 1);
    signals++;
}
static void on_trap(int number) { say("signal %d\n", number); }

int main(int argc, char **argv) {
    alarm(argc > 2 ? atoi(argv[2]) : 600);
    sigset_t set;
    struct sigaction action = {.sa_handler = on_trap};
    CHECK(sigaction(SIGTRAP, &action, 0) == 0);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    if (argc > 1 && !strcmp(argv[1], "trap")) {
        sigemptyset(&set);
        sigaddset(&set, SIGTRAP);
        pthread_sigmask(SIG_BLOCK, &set, 0);
    }
    for (long i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, 0, work, (void *)i) == 0);
    }
    int with_signals = argc > 1 && !strcmp(argv[1], "signals");
    setvbuf(stdout, 0, _IOLBF, 0);
    say("ready\n");
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        if (!strcmp(line, "end\n")) return 0;
        if (!strcmp(line, "run\n")) {
            start(1L << 60);
            if (with_signals) signal_every(SIGUSR1, 100);
            say("running\n");
        } else if (!strcmp(line, "stop\n")) {
            if (with_signals) signal_every(SIGUSR1, 0);
            stopped = 1;
            join();
        } else {
            signals = 0;
            start(atol(line));
            join();
        }
    }
    return 0;
}
