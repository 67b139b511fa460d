// Calls of the functions that a tracer itself might stand on: allocation, copying, locks, output, thread-local storage,
// clocks, the loader. The first argument says which; the call is made a known number of times, and nothing else here
// calls the function meanwhile. Functions of other files are counted as FILE:FUNCTION.

#include "adversarial.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#define TIMES 20000
static unsigned long total;
static volatile unsigned long made;

static void mallocs(void) {
    static void *kept[64];
    for (long i = 0; i < TIMES; i++) {
        void **slot = &kept[i * 31 % 64];
        free(*slot);
        *slot = malloc(i * 97 % 5000);
        if (*slot) *(char *)*slot = 1;
        made++;
    }
    say("calls libc:malloc %lu\ncalls libc:free %lu\n", made, made);
}

static void *mallocs_in_thread(void *unused) {
    for (long i = 0; i < 3000; i++) {
        char *volatile at = malloc(i % 3000 + 1);
        *at = 1;
        at = realloc(at, i % 5000 + 100);
        free(at);
        __atomic_add_fetch(&made, 1, 5);
    }
    return unused;
}
static void in_threads(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, mallocs_in_thread, 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    say("calls libc:realloc %lu\n", made);
}

// The copies are checked; sizes take every path of every implementation.
static void copies(void) {
    static char from[9000], to[9000];
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    for (int i = 0; i < 9000; i++) from[i] = (char)(i * 7 + i / 256);
    for (long i = 0; i < TIMES; i++) {
        size_t bytes = (size_t)(i * i % (i % 3 ? 200 : 8000)), shift = i % 63;
        to[bytes + shift] = 77;
        copy(to + shift, from + i % 31, bytes);
        CHECK(!memcmp(to + shift, from + i % 31, bytes) && to[bytes + shift] == 77);
        made++;
    }
    total = to[100];
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int starts[2], ends[2];
static void *locks_in_thread(void *unused) {
    char byte;
    CHECK(read(starts[0], &byte, 1) == 1);
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&mutex);
        made++;
        pthread_mutex_unlock(&mutex);
    }
    CHECK(write(ends[1], "x", 1) == 1);
    pause();
    return unused;
}
// libc locks something of its own when threads begin and end.
static void make_lockers(void) {
    CHECK(pipe(starts) == 0 && pipe(ends) == 0);
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, 0, locks_in_thread, 0) == 0);
    }
}
static void locks(void) {
    char byte;
    for (int i = 0; i < 6; i++) CHECK(write(starts[1], "x", 1) == 1);
    for (int i = 0; i < 6; i++) CHECK(read(ends[0], &byte, 1) == 1);
    say("calls libc:pthread_mutex_lock %lu\ncalls libc:pthread_mutex_unlock %lu\n", made, made);
}

static void writes(void) {
    int channel[2];
    CHECK(pipe(channel) == 0);
    char byte;
    for (int i = 0; i < 5000; i++) {
        byte = (char)i;
        CHECK(write(channel[1], &byte, 1) == 1);
        CHECK(read(channel[0], &byte, 1) == 1 && byte == (char)i);
        made++;
    }
    say("calls libc:write %lu\n", made);
}

extern void *__tls_get_addr(size_t *) __attribute__((weak));
static __thread long local = 5;
static void *finds_local(void *unused) {
    size_t of_main_program[2] = {1, 0};
    if (!__tls_get_addr) return unused;
    char *first = __tls_get_addr(of_main_program);
    for (int i = 0; i < 5000; i++) {
        CHECK(__tls_get_addr(of_main_program) == first);
        __atomic_add_fetch(&made, 1, 5);
    }
    __atomic_add_fetch(&made, 1, 5);
    local++;
    CHECK(local == 6);
    return unused;
}
static void locals(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, finds_local, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    finds_local(0);
    say("calls ld:__tls_get_addr %lu\n", made);
}

static void clocks(void) {
    struct timespec before = {0, 0}, now;
    for (int i = 0; i < TIMES; i++) {
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
        CHECK(now.tv_sec > before.tv_sec || (now.tv_sec == before.tv_sec && now.tv_nsec >= before.tv_nsec));
        before = now;
        made++;
    }
    say("calls libc:clock_gettime %lu\n", made);
}

static void loads(void) {
    for (int i = 0; i < 30; i++) {
        void *library = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
        CHECK(library);
        double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
        CHECK(cosine && cosine(0) == 1);
        CHECK(!dlsym(library, "no_such_function"));
        CHECK(dlclose(library) == 0);
        made++;
    }
    say("calls libc:dlopen %lu\ncalls libc:dlclose %lu\n", made, made);
}

// Bound when it is first called, with vector registers full of arguments.
static void binds(void) {
    static volatile double values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    char text[200];
    int length = snprintf(text, sizeof text, "%g %g %g %g %g %g %g %g", values[0], values[1], values[2], values[3],
        values[4], values[5], values[6], values[7]);
    say("%d %s\n", length, text);
    say("%d\n", (int)strtol("77", 0, 10) + (int)strtod("3.5", 0) + atoi("5") + (int)strspn("aab", "a"));
}

static const struct { const char *name; void (*run)(void); } ways[] = {
    {"malloc", mallocs}, {"threads", in_threads}, {"memcpy", copies}, {"locks", locks}, {"write", writes},
    {"locals", locals}, {"clock", clocks}, {"loader", loads}, {"binding", binds},
};

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "locks")) make_lockers();
    begin(argc, argv);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (argc > 1 && !strcmp(argv[1], ways[i].name)) ways[i].run();
    finish();
    return 0;
}
