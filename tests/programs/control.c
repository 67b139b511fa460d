// Ways of leaving a function, or of coming to one, that are not a call and its return. The first argument says which.

#include "adversarial.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#define KEEP(value) __asm__ volatile("" : "+r"(value) : : "memory")

// A frame that nothing optimises away.
#define FRAME(bytes)                                                                                                 \
    volatile char frame[bytes];                                                                                      \
    frame[0] = 1;                                                                                                    \
    __asm__ volatile("" ::"m"(frame))

static jmp_buf back;
static long arrived;

// True; no compiler knows it.
static volatile int does;

PROBED static void jumps(long n) { CALLED(jumps); if (does) longjmp(back, (int)(n | 1)); RETURNED(jumps); }
PROBED static void between(long n) {
    CALLED(between);
    FRAME(40);
    if (n % 7 == 0) between(n + 1);
    else jumps(n);
    KEEP(n);
    RETURNED(between);
}
PROBED static long sets(long n) {
    CALLED(sets);
    int value = setjmp(back);
    if (value == 0) between(n);
    return value;
}
static void longjmp_a_million_times(void) {
    for (long n = 0; n < 1000000; n++) arrived += sets(n);
    say("arrived %ld\n", arrived);
}

// A signal arrives anywhere, in a probe's own code too, and its handler never returns.
static sigjmp_buf out;
static volatile sig_atomic_t armed;
static volatile unsigned long left_signal;
PROBED static void handled_signal(void) { CALLED(handled_signal); }
static void on_signal(int number) {
    (void)number;
    handled_signal();
    if (!armed) return;
    armed = 0;
    left_signal++;
    siglongjmp(out, 1);
}
PROBED static long works_abandoned(long n) {
    CALLED(works_abandoned);
    KEEP(n);
    RETURNED(works_abandoned);
    return n + 1;
}
PROBED static void works_for_ever_abandoned(void) {
    CALLED(works_for_ever_abandoned);
    for (long n = 0; does; n = works_abandoned(n)) {}
    RETURNED(works_for_ever_abandoned);
}
static void siglongjmp_from_a_handler(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, 0);
    signal_every(SIGUSR1, 150);
    for (int n = 0; n < 500; n++)
        if (sigsetjmp(out, 1) == 0) {
            armed = 1;
            works_for_ever_abandoned();
        }
    signal_every(SIGUSR1, 0);
    say("abandoned %lu\n", left_signal);
}

// Fibres: contexts of libc's, and three registers and a stack pointer of our own.
#define FIBRES 4
static ucontext_t main_context, contexts[FIBRES];
static char stacks[FIBRES][65536] __attribute__((aligned(64)));
static long sum;
PROBED static long switches(int fibre, long n) {
    CALLED(switches);
    swapcontext(&contexts[fibre], &main_context);
    RETURNED(switches);
    return n * 3 + fibre;
}
PROBED static long nested(int fibre, long n) {
    CALLED(nested);
    long result = n ? nested(fibre, n - 1) + 1 : switches(fibre, n);
    KEEP(result);
    RETURNED(nested);
    return result;
}
static void fibre_body(int fibre) { for (long n = 0;; n = (n + 1) % 9) sum += nested(fibre, n); }
static void make_fibres(void) {
    for (int fibre = 0; fibre < FIBRES; fibre++) {
        getcontext(&contexts[fibre]);
        contexts[fibre].uc_stack.ss_sp = stacks[fibre];
        contexts[fibre].uc_stack.ss_size = sizeof stacks[fibre];
        makecontext(&contexts[fibre], (void (*)(void))fibre_body, 1, fibre);
    }
}
static void fibres_of_ucontext(void) {
    make_fibres();
    for (long n = 0; n < 40000; n++) swapcontext(&main_context, &contexts[n * n % FIBRES]);
    say("sum %ld\n", sum);
}

// A fibre that goes on in another thread than it was left in.
static int turn;
static pthread_mutex_t turns = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void *run_in_turn(void *which) {
    for (long n = 0; n < 3000; n++) {
        pthread_mutex_lock(&turns);
        while (turn % 3 != (int)(long)which) pthread_cond_wait(&changed, &turns);
        swapcontext(&main_context, &contexts[turn % FIBRES]);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&turns);
    }
    return 0;
}
static void fibres_that_migrate(void) {
    pthread_t threads[3];
    make_fibres();
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, run_in_turn, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    say("sum %ld\n", sum);
}

void *own_stacks[FIBRES + 1];
void switch_stacks(void **from, void **to);
__asm__(".text\n .type switch_stacks, @function\n switch_stacks: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n"
    " push %r15\n mov %rsp, (%rdi)\n mov (%rsi), %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
    " ret\n .size switch_stacks, . - switch_stacks\n");
PROBED static long yields(long fibre, long n) {
    CALLED(yields);
    switch_stacks(&own_stacks[fibre], &own_stacks[FIBRES]);
    RETURNED(yields);
    return n ^ fibre;
}
PROBED static long deeper(long fibre, long n) {
    CALLED(deeper);
    long result = n ? deeper(fibre, n - 1) + 1 : yields(fibre, n);
    KEEP(result);
    RETURNED(deeper);
    return result;
}
static long current;
static void own_fibre(void) {
    long fibre = current;
    for (long n = 0;; n = (n + 1) % 5) sum += deeper(fibre, n);
}
static void fibres_by_hand(void) {
    for (int fibre = 0; fibre < FIBRES; fibre++) {
        uint64_t *top = (uint64_t *)(stacks[fibre] + sizeof stacks[fibre]) - 2;
        *top = (uint64_t)own_fibre;
        own_stacks[fibre] = top - 6;
    }
    for (long n = 0; n < 200000; n++) {
        current = n * 7 % FIBRES;
        switch_stacks(&own_stacks[FIBRES], &own_stacks[current]);
    }
    say("sum %ld\n", sum);
}

// Tail calls: ten million, between two functions and back to the first, in no stack at all.
#ifdef __clang__
#define TAIL __attribute__((musttail)) return
#define TAILS
#else
#define TAIL return
#define TAILS __attribute__((optimize("O2")))
#endif
static long pong_tail(long n, long total);
TAILS PROBED static long ping_tail(long n, long total) {
    CALLED(ping_tail);
    if (n == 0) return total;
    TAIL pong_tail(n - 1, total + n % 3);
}
TAILS PROBED static long pong_tail(long n, long total) {
    CALLED(pong_tail);
    if (n == 0) return total;
    TAIL ping_tail(n - 1, total ^ n);
}
static long (*volatile indirect)(long, long) = ping_tail;
TAILS PROBED static long through_pointer(long n, long total) {
    CALLED(through_pointer);
    TAIL indirect(n, total);
}
static void tail_calls(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &limit);
    long total = ping_tail(5000000, 0) + ping_tail(5000000, 3);
    for (long n = 0; n < 1000; n++) total += through_pointer(n % 90, n);
    say("total %ld\n", total);
}

// A handler on the smallest stack that POSIX promises anything for, and 2 KiB more, with nothing below it.
static volatile long small_sum;
PROBED static long on_small_stack(const char *text, long n) { CALLED(on_small_stack); KEEP(text); return n + 1; }
static void on_small(int number) {
    (void)number;
    small_sum = on_small_stack("text on a small stack", small_sum);
    small_sum = on_small_stack((const char *)8, small_sum);
}
static void alternate_stack(void) {
    size_t bytes = getauxval(AT_MINSIGSTKSZ) + 2048;
    char *pages = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages, 4096, PROT_NONE) == 0);
    stack_t stack = {.ss_sp = pages + 4096, .ss_size = bytes};
    CHECK(sigaltstack(&stack, 0) == 0);
    struct sigaction action = {.sa_handler = on_small, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    for (int n = 0; n < 2000; n++) raise(SIGUSR1);
    for (size_t i = 4096 + bytes; i < 16 * 4096; i++) CHECK(pages[i] == 0);
    say("sum %ld\n", small_sum);
}

// Recursion: to where 2 KiB are left of a stack, and as deep as the whole of a large one.
#define LEFT (2048 + 256)
static char *limit;
PROBED static long recurses(long n) {
    CALLED(recurses);
    FRAME(24);
    if ((char *)__builtin_frame_address(0) - limit < LEFT) return n;
    long result = recurses(n + 1);
    KEEP(result);
    return result;
}
static void *recurse(void *unused) {
    for (int i = 0; i < 200; i++) recurses(0);
    return unused;
}
static void on_small_stack_of_thread(void *(*run)(void *)) {
    size_t bytes = 64 << 10;
    char *pages = mmap(0, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages, 4096, PROT_NONE) == 0);
    limit = pages + 4096;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, limit, bytes) == 0);
    CHECK(pthread_create(&thread, &attributes, run, 0) == 0);
    CHECK(pthread_join(thread, 0) == 0);
}
static void recursion_to_the_end_of_a_stack(void) { on_small_stack_of_thread(recurse); }

// As deep as leads there where each call keeps so much more: 24 bytes for a session at its return, and a return address.
#define KEPT (24 + 8)
// Nothing there may look above what is its own, or it is not called through.
static char *last_frames[2];
PROBED static long recurses_exactly(long n) {
    CALLED(recurses_exactly);
    FRAME(24);
    if (n < 2) last_frames[n] = (char *)frame;
    long result = n ? recurses_exactly(n - 1) + n % 3 : 1;
    KEEP(result);
    return result;
}
// Bytes of one call while nobody probes it.
static long call_bytes;
static void measure_calls(void) {
    recurses_exactly(1);
    call_bytes = last_frames[1] - last_frames[0];
    for (struct counted *of = __start_counted; of < __stop_counted; of++) of->calls = 0;
}
static void *recurse_exactly(void *unused) {
    long depth = ((char *)__builtin_frame_address(0) - limit - LEFT) / (call_bytes + KEPT), total = 0;
    for (int i = 0; i < 200; i++) total += recurses_exactly(depth);
    say("depth %ld total %ld\n", depth, total);
    return unused;
}
static void recursion_at_returns(void) { on_small_stack_of_thread(recurse_exactly); }
PROBED static long counts_down(long n) {
    CALLED(counts_down);
    long result = n ? counts_down(n - 1) + n % 3 : 1;
    KEEP(result);
    return result;
}
static void deep_recursion(void) {
    long total = 0;
    for (int i = 0; i < 10; i++) total += counts_down(60000);
    say("total %ld\n", total);
}

// Threads that end inside of probed functions.
static pthread_key_t key;
static volatile int cleaned, destroyed;
PROBED static void cleans(void *what) { CALLED(cleans); __atomic_add_fetch((int *)what, 1, 5); }
static void clean_up(void *what) { cleans(what); }
PROBED static void blocks(int fd) {
    CALLED(blocks);
    char byte;
    pthread_cleanup_push(clean_up, (void *)&cleaned);
    if (read(fd, &byte, 1) != 1) say("not reached\n");
    pthread_cleanup_pop(1);
    RETURNED(blocks);
}
PROBED static void blocks_deeper(int fd, int n) {
    CALLED(blocks_deeper);
    pthread_cleanup_push(clean_up, (void *)&cleaned);
    if (n) blocks_deeper(fd, n - 1);
    else blocks(fd);
    pthread_cleanup_pop(1);
    RETURNED(blocks_deeper);
}
static void *is_cancelled(void *fd) {
    pthread_setspecific(key, (void *)&destroyed);
    blocks_deeper((int)(long)fd, 6);
    return 0;
}
static void cancelled_threads(void) {
    int channel[2];
    CHECK(pipe(channel) == 0 && pthread_key_create(&key, clean_up) == 0);
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, 0, is_cancelled, (void *)(long)channel[0]) == 0);
        // A moment like any other: the verdict does not depend on it.
        if (i % 3) usleep(i % 50 * 10);
        pthread_cancel(thread);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    // A thread may be cancelled before it sets anything up; what it set up is cleaned.
    say("all ended\n");
    CHECK(cleaned >= destroyed);
}

// Cancelled at any instruction, probes' code among them.
static volatile int spins;
PROBED static long spun_abandoned(long n) {
    CALLED(spun_abandoned);
    KEEP(n);
    RETURNED(spun_abandoned);
    return n + 1;
}
static void *is_cancelled_anywhere(void *unused) {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    pthread_cleanup_push(clean_up, (void *)&cleaned);
    spins = 1;
    for (long n = 0; does; n = spun_abandoned(n)) {}
    pthread_cleanup_pop(0);
    return unused;
}
static void cancelled_anywhere(void) {
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        void *result;
        spins = 0;
        CHECK(pthread_create(&thread, 0, is_cancelled_anywhere, 0) == 0);
        while (!spins) sched_yield();
        // A moment like any other: the verdict does not depend on it.
        if (i % 2) usleep(i % 40);
        pthread_cancel(thread);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    say("cleaned %d\nabandoned 40\n", cleaned);
}

PROBED static void leaves(long n) { CALLED(leaves); if (does) pthread_exit((void *)(n * 5)); RETURNED(leaves); }
PROBED static void leaves_deeper(long n, long depth) {
    CALLED(leaves_deeper);
    pthread_cleanup_push(clean_up, (void *)&cleaned);
    if (depth) leaves_deeper(n, depth - 1);
    else leaves(n);
    pthread_cleanup_pop(0);
    RETURNED(leaves_deeper);
}
static void *exits(void *n) {
    pthread_setspecific(key, (void *)&destroyed);
    leaves_deeper((long)n, (long)n % 5);
    return 0;
}
static void exiting_threads(void) {
    CHECK(pthread_key_create(&key, clean_up) == 0);
    for (long i = 0; i < 500; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, 0, exits, (void *)i) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == (void *)(i * 5));
    }
    say("cleaned %d destroyed %d\n", cleaned, destroyed);
}

// What a stack looks like from inside of probed functions. Addresses are said from the beginning of the program, and
// only its own.
extern const char __executable_start[], etext[];
static uint64_t seen = 0xcbf29ce484222325;
static int frames;
PROBED static void looks(void) {
    CALLED(looks);
    void *addresses[64];
    int count = backtrace(addresses, 64);
    for (int i = 0; i < count; i++) {
        const char *address = addresses[i];
        if (address < __executable_start || etext <= address) continue;
        seen = (seen ^ (uint64_t)(address - __executable_start)) * 0x100000001b3;
        frames++;
    }
}
PROBED static long looks_deeper(long n) {
    CALLED(looks_deeper);
    if (n) looks_deeper(n - 1);
    else looks();
    KEEP(n);
    return n;
}
static int by_value(const void *a, const void *b) {
    looks();
    return *(const int *)a - *(const int *)b;
}
static void backtraces(void) {
    int numbers[] = {5, 2, 9, 1};
    for (int i = 0; i < 200; i++) looks_deeper(i % 17);
    // Through libc and back.
    qsort(numbers, 4, sizeof *numbers, by_value);
    say("frames %d hash %lx\n", frames, (unsigned long)seen);
}

static const struct { const char *name; void (*run)(void); } ways[] = {
    {"longjmp", longjmp_a_million_times}, {"siglongjmp", siglongjmp_from_a_handler}, {"ucontext", fibres_of_ucontext},
    {"migrate", fibres_that_migrate}, {"by-hand", fibres_by_hand}, {"tail-calls", tail_calls},
    {"alternate-stack", alternate_stack}, {"recursion-to-the-end", recursion_to_the_end_of_a_stack},
    {"recursion-at-returns", recursion_at_returns}, {"deep-recursion", deep_recursion}, {"cancel", cancelled_threads}, {"cancel-anywhere", cancelled_anywhere},
    {"exit", exiting_threads}, {"backtrace", backtraces},
};

int main(int argc, char **argv) {
    // libgcc is loaded by the first use of it.
    void *address;
    backtrace(&address, 1);
    does = 1;
    measure_calls();
    begin(argc, argv);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (argc > 1 && !strcmp(argv[1], ways[i].name)) ways[i].run();
    finish();
    return 0;
}
