// What the adversarial programs share. They count the calls of their own functions (and the returns, where those are
// fewer) themselves, and say the counts at
// the end, so that a tracer's can be held against them. With the word "wait" as their last argument they say "ready"
// and wait for a line before their work, and say "done" and wait for another behind it: between the two a tracer may
// come and go.
//
// Nothing here allocates, so that programs can count malloc.

#ifndef ADVERSARIAL_H
#define ADVERSARIAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct counted {
    const char *name;
    unsigned long calls;
};
#ifdef __cplusplus
extern "C" {
#endif
// Weak: a program may count in another way.
extern struct counted __start_counted[] __attribute__((weak)), __stop_counted[] __attribute__((weak));
extern struct counted __start_returned[] __attribute__((weak)), __stop_returned[] __attribute__((weak));
#ifdef __cplusplus
}
#endif

// The first statement of a function that is to be probed.
#define CALLED(function)                                                                                             \
    do {                                                                                                             \
        static struct counted of_function __attribute__((section("counted"), used, aligned(8))) = {#function, 0};    \
        __atomic_add_fetch(&of_function.calls, 1, __ATOMIC_RELAXED);                                                 \
    } while (0)

// Before each return of a function that does not always return: it is left by a jump, an exception or the thread's end.
// Those that never do say so where they would.
#define RETURNED(function)                                                                                           \
    do {                                                                                                             \
        static struct counted of_function __attribute__((section("returned"), used, aligned(8))) = {#function, 0};   \
        __atomic_add_fetch(&of_function.calls, 1, __ATOMIC_RELAXED);                                                 \
    } while (0)

// A function that no compiler folds into another.
#define PROBED __attribute__((noinline, noclone_if_known))
#ifdef __clang__
#define noclone_if_known used
#else
#define noclone_if_known noclone
#endif

#define CHECK(condition)                                                                                             \
    do {                                                                                                             \
        if (!(condition)) {                                                                                          \
            say("line %d: not %s\n", __LINE__, #condition);                                                          \
            _exit(9);                                                                                                \
        }                                                                                                            \
    } while (0)

__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    // Not by `write`, whose calls may be counted.
    if (syscall(SYS_write, 1, text, length) != length) _exit(8);
}

static int told_to_wait;

__attribute__((unused)) static void wait_for_line(void) {
    char byte;
    while (read(0, &byte, 1) == 1 && byte != '\n') {}
}

__attribute__((unused)) static void begin(int argc, char **argv) {
    alarm(600);
    told_to_wait = argc > 1 && !strcmp(argv[argc - 1], "wait");
    if (!told_to_wait) return;
    say("ready\n");
    wait_for_line();
}

// For a program that dies on the way: the counts up to here.
__attribute__((unused)) static void say_counts(void) {
    for (struct counted *of = __start_counted; of < __stop_counted; of++) say("calls %s %lu\n", of->name, of->calls);
    for (struct counted *of = __start_returned; of < __stop_returned; of++) say("returns %s %lu\n", of->name, of->calls);
}

__attribute__((unused)) static void finish(void) {
    say_counts();
    if (!told_to_wait) return;
    say("done\n");
    wait_for_line();
}

// A signal every so often, to whatever thread; 0 ends it.
__attribute__((unused)) static void signal_every(int number, long microseconds) {
    static timer_t timer;
    static int is_made;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = number;
    if (!is_made) CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    is_made = 1;
    struct itimerspec often;
    memset(&often, 0, sizeof often);
    often.it_value.tv_nsec = often.it_interval.tv_nsec = microseconds * 1000;
    CHECK(timer_settime(timer, 0, &often, 0) == 0);
}

#endif
