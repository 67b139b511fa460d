// Code that runs before and behind main: resolvers of indirect functions (in a static program before there is any
// thread-local storage), functions of .preinit_array, constructors, exit handlers and destructors. Each is counted, and
// the counts are said at the very end.

#include "adversarial.h"

#include <pthread.h>

PROBED static long shared_work(long n) {
    CALLED(shared_work);
    __asm__ volatile("" : "+r"(n));
    return n * 3 + 1;
}

static long from_resolver, from_preinit, from_constructor, from_main;

PROBED static long implementation(long n) {
    CALLED(implementation);
    return n + 7;
}
// Nothing that needs relocations or thread-local storage may be called here.
__attribute__((used)) PROBED static long (*resolves(void))(long) {
    CALLED(resolves);
    from_resolver = shared_work(from_resolver);
    return implementation;
}
long indirect(long) __attribute__((ifunc("resolves")));

PROBED static void preinit(void) { CALLED(preinit); from_preinit = shared_work(1); }
__attribute__((section(".preinit_array"), used)) static void (*const at_preinit)(void) = preinit;

__attribute__((constructor(101))) PROBED static void constructs_early(void) {
    CALLED(constructs_early);
    from_constructor = shared_work(2);
}
__attribute__((constructor)) PROBED static void constructs(void) {
    CALLED(constructs);
    from_constructor = shared_work(from_constructor) + indirect(1);
}

PROBED static void at_exit(void) { CALLED(at_exit); from_main = shared_work(from_main); }

static __thread long local = 3;
PROBED static void *in_thread(void *unused) {
    CALLED(in_thread);
    local = shared_work(local);
    return unused;
}

__attribute__((destructor)) PROBED static void destructs(void) {
    CALLED(destructs);
    say("resolver %d preinit %ld constructor %ld main %ld\n", from_resolver != 0, from_preinit, from_constructor, from_main);
    say_counts();
}

int main(void) {
    pthread_t thread;
    CHECK(atexit(at_exit) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(pthread_create(&thread, 0, in_thread, 0) == 0);
        CHECK(pthread_join(thread, 0) == 0);
    }
    from_main = indirect(5);
    return 0;
}
