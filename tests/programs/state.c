// Calls functions with random state of every kind that a program has: general registers, flags (direction and
// alignment check among them), x87, MXCSR, vectors and masks of all widths. Each function compares what came in with
// what was given, loads other random state and returns; the caller compares what came back. So whoever stands between
// the two is seen, on the way in and on the way out.
//
// Arguments: calls of each function, then words: "ac" sets the alignment check in some of them, "signals" adds a
// signal every 300 us whose handler calls a function too, "wait" as in adversarial.h. Says "lacks avx512" and the like
// for state that this machine does not have, and counts of calls at the end.

#include "adversarial.h"

#include <cpuid.h>
#include <stdint.h>
#include <sys/mman.h>

// What the function that is never probed does to the state, to see that it is found.
#ifndef DAMAGE
#define DAMAGE
#endif

// A function that looks at its stack pointer sees what is kept below its return address while it runs; those that do
// not are called by whoever watches their returns.
#ifdef NO_STACK_POINTER
#define STACK_POINTER(side)
#else
#define STACK_POINTER(side) " mov %rsp, " side "+128(%rip)\n"
#endif

#define EXTENDED_BYTES 4096
#define LEGACY_BYTES 416
#define HEADER 512
// x87, SSE, AVX, masks, upper halves of zmm0 to 15, zmm16 to 31.
#define COMPONENTS 0xe7
enum { RBP = 4, RDI = 6, FLAGS = 15, RSP = 16, WORDS };

struct side {
    // rax, rcx, rdx, rbx, rbp, rsi, rdi, r8 to r15, flags, rsp.
    uint64_t words[WORDS];
    unsigned char extended[EXTENDED_BYTES] __attribute__((aligned(64)));
};
// Given by the caller, seen by the function, left by it, got by the caller.
struct side given, seen, left, got;
unsigned char own_extended[EXTENDED_BYTES] __attribute__((aligned(64)));
uint64_t own_stack, own_flags;
uint32_t components;
void (*called)(void);

#define LOAD(side)                                                                                                   \
    " mov " side "(%rip), %rax\n mov " side "+8(%rip), %rcx\n mov " side "+16(%rip), %rdx\n"                         \
    " mov " side "+24(%rip), %rbx\n mov " side "+32(%rip), %rbp\n mov " side "+40(%rip), %rsi\n"                     \
    " mov " side "+48(%rip), %rdi\n mov " side "+56(%rip), %r8\n mov " side "+64(%rip), %r9\n"                       \
    " mov " side "+72(%rip), %r10\n mov " side "+80(%rip), %r11\n mov " side "+88(%rip), %r12\n"                     \
    " mov " side "+96(%rip), %r13\n mov " side "+104(%rip), %r14\n mov " side "+112(%rip), %r15\n"
#define STORE(side)                                                                                                  \
    " mov %rax, " side "(%rip)\n mov %rcx, " side "+8(%rip)\n mov %rdx, " side "+16(%rip)\n"                         \
    " mov %rbx, " side "+24(%rip)\n mov %rbp, " side "+32(%rip)\n mov %rsi, " side "+40(%rip)\n"                     \
    " mov %rdi, " side "+48(%rip)\n mov %r8, " side "+56(%rip)\n mov %r9, " side "+64(%rip)\n"                       \
    " mov %r10, " side "+72(%rip)\n mov %r11, " side "+80(%rip)\n mov %r12, " side "+88(%rip)\n"                     \
    " mov %r13, " side "+96(%rip)\n mov %r14, " side "+104(%rip)\n mov %r15, " side "+112(%rip)\n"                   \
    " pushfq\n popq " side "+120(%rip)\n"
#define MASK " mov components(%rip), %eax\n xor %edx, %edx\n"
#define EXTENDED(instruction, area) MASK " " instruction " " area "(%rip)\n"
#define FUNCTION(name) ".p2align 4\n .globl " #name "\n .type " #name ", @function\n " #name ":\n"
#define END(name) ".size " #name ", . - " #name "\n"

void call_it(void);
// Loads what `from` says and stores it to `to`: some of what memory can say, registers cannot hold.
void normalise(const void *from, void *to);
__asm__(".text\n" FUNCTION(call_it) " push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " pushfq\n popq own_flags(%rip)\n mov %rsp, own_stack(%rip)\n" EXTENDED("xsave64", "own_extended")
    EXTENDED("xrstor64", "given+192") " mov given+128(%rip), %rsp\n pushq given+120(%rip)\n popfq\n" LOAD("given")
    " call *called(%rip)\n mov %rsp, got+128(%rip)\n" STORE("got") " mov own_stack(%rip), %rsp\n pushq own_flags(%rip)\n popfq\n"
    EXTENDED("xsave64", "got+192") EXTENDED("xrstor64", "own_extended")
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n" END(call_it)
    FUNCTION(normalise) EXTENDED("xsave64", "own_extended") " xrstor64 (%rdi)\n xsave64 (%rsi)\n"
    EXTENDED("xrstor64", "own_extended") " ret\n" END(normalise)
    FUNCTION(exchange) STACK_POINTER("seen") STORE("seen") EXTENDED("xsave64", "seen+192") EXTENDED("xrstor64", "left+192")
    " pushq left+120(%rip)\n popfq\n" LOAD("left") " ret\n" END(exchange)
    // No instruction before the jump changes anything. One that is long, several short ones, and one that something
    // jumps to the end of, so that only a short jump fits.
    FUNCTION(state_control) " lea (%rsp), %rsp\n" DAMAGE " jmp exchange\n" END(state_control)
    FUNCTION(state_long) " .byte 0x48, 0x8d, 0xa4, 0x24, 0, 0, 0, 0\n jmp exchange\n" END(state_long)
    FUNCTION(state_several) " push %rbp\n push %rsi\n pop %rsi\n pop %rbp\n lea (%rdi), %rdi\n jmp exchange\n"
    END(state_several)
    FUNCTION(state_short) " lea (%rdi), %rdi\n 1: jmp exchange\n jmp 1b\n" END(state_short)
    FUNCTION(state_signal) " .byte 0x48, 0x8d, 0xa4, 0x24, 0, 0, 0, 0\n ret\n" END(state_signal));

void state_control(void), state_long(void), state_several(void), state_short(void), state_signal(void);

static struct { const char *name; void (*code)(void); unsigned long calls; } functions[] = {
    {"state_control", state_control, 0}, {"state_long", state_long, 0}, {"state_several", state_several, 0},
    {"state_short", state_short, 0},
};
#define COUNT ((int)(sizeof functions / sizeof *functions))

static struct { const char *name; int component; unsigned offset, size; } kinds[] = {
    {"avx", 2, 0, 0}, {"avx512-masks", 5, 0, 0}, {"avx512-upper-halves", 6, 0, 0}, {"avx512-upper-registers", 7, 0, 0},
};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint64_t number(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static uint32_t mxcsr_mask;
static int may_check_alignment;
static unsigned char stack[1 << 16] __attribute__((aligned(4096)));
#define ABOVE 512
static unsigned char above[ABOVE];
// What arg0 may point to: strings at odd places, one that ends a page, memory that is not there.
static char *strings[8];

static void put(unsigned char *at, uint64_t value, int bytes) { memcpy(at, &value, bytes); }

static void make_extended(unsigned char *area) {
    static unsigned char raw[EXTENDED_BYTES] __attribute__((aligned(64)));
    for (int i = 0; i < EXTENDED_BYTES; i += 8) put(raw + i, number(), 8);
    put(raw, 0x7f | (number() % 4 << 8) | (number() % 4 << 10), 2);
    put(raw + 2, number() & 0x7f7f, 2); // Nothing pending: all of it is masked.
    put(raw + 4, number() & 0xff, 2);
    put(raw + 6, number() & 0x7ff, 2);
    put(raw + 8, number() >> 17, 8);
    put(raw + 16, number() >> 17, 8);
    put(raw + 24, number() & mxcsr_mask, 4);
    for (int i = 0; i < 8; i++) put(raw + 32 + 16 * i + 10, 0, 6);
    memset(raw + HEADER, 0, 64);
    put(raw + HEADER, number() % 4 ? components : number() & components, 8);
    memset(area, 0, EXTENDED_BYTES);
    normalise(raw, area);
}

static void make(struct side *side) {
    for (int i = 0; i < FLAGS; i++) {
        uint64_t word = number();
        side->words[i] = word % 5 == 0 ? 0 : word % 3 == 0 ? word % 64 : number();
    }
    if (number() % 4) side->words[RDI] = (uint64_t)strings[number() % 8];
    // Carry, parity, auxiliary, zero, sign, direction, overflow, alignment check, identification; interrupts are on.
    uint64_t flags = number() & (0x200cd5 | (may_check_alignment ? 0x40000 : 0));
    side->words[FLAGS] = flags | 0x202;
    make_extended(side->extended);
}

static int differ(const char *where, const char *function, const char *what, uint64_t is, uint64_t was) {
    say("%s %s: %s is %lx instead of %lx\n", where, function, what, is, was);
    return 1;
}

static int compare(const char *where, const char *function, const struct side *is, const struct side *was) {
    static const char *const names[WORDS] = {"rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
        "r12", "r13", "r14", "r15", "flags", "rsp"};
    int wrong = 0;
    for (int i = 0; i < WORDS; i++)
        if (is->words[i] != was->words[i]) wrong += differ(where, function, names[i], is->words[i], was->words[i]);
    for (int i = 0; i < LEGACY_BYTES; i++)
        if (is->extended[i] != was->extended[i]) {
            char what[40];
            snprintf(what, sizeof what, i < 32 ? "x87 and MXCSR byte %d" : i < 160 ? "x87 byte %d" : "xmm byte %d", i);
            return differ(where, function, what, is->extended[i], was->extended[i]);
        }
    for (int kind = 0; kind < KINDS; kind++)
        for (unsigned i = kinds[kind].offset; i < kinds[kind].offset + kinds[kind].size; i++)
            if (is->extended[i] != was->extended[i])
                return differ(where, function, kinds[kind].name, is->extended[i], was->extended[i]);
    return wrong;
}

static int call(int which) {
    make(&given);
    make(&left);
    uint64_t *top = (uint64_t *)(stack + sizeof stack - ABOVE);
    for (int i = 0; i < ABOVE; i += 8) put(above + i, number(), 8);
    memcpy(top, above, ABOVE);
    // The stack pointer of a call, and any other multiple of 8: nothing says that only compilers' code is called.
    top += number() % 4;
    given.words[RSP] = (uint64_t)top;
    memset(&seen, 0, sizeof seen);
    memset(&got, 0, sizeof got);
    called = functions[which].code;
    functions[which].calls++;
    call_it();
#ifdef NO_STACK_POINTER
    given.words[RSP] = 0;
#else
    given.words[RSP] -= 8;
#endif
    left.words[RSP] = (uint64_t)top;
    int wrong = compare("into", functions[which].name, &seen, &given);
    wrong += compare("out of", functions[which].name, &got, &left);
    size_t bytes = stack + sizeof stack - (unsigned char *)top;
    if (memcmp(top, above + ABOVE - bytes, bytes)) wrong += differ("above", functions[which].name, "memory", 1, 0);
    return wrong;
}

static unsigned long signals;
static void on_signal(int unused) {
    (void)unused;
    __atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
    state_signal();
}

static void learn(void) {
    unsigned low, high, a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
        say("lacks xsave\n");
        _exit(7);
    }
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    components = low & COMPONENTS;
    for (int i = 0; i < KINDS; i++) {
        if (!(components >> kinds[i].component & 1)) {
            say("lacks %s\n", kinds[i].name);
            continue;
        }
        __cpuid_count(0xd, kinds[i].component, kinds[i].size, kinds[i].offset, c, d);
        CHECK(kinds[i].offset + kinds[i].size <= EXTENDED_BYTES);
    }
    static unsigned char area[512] __attribute__((aligned(16)));
    __asm__ volatile("fxsave64 %0" : "=m"(area));
    memcpy(&mxcsr_mask, area + 28, 4);
    if (!mxcsr_mask) mxcsr_mask = 0xffbf;
    // The last page but one is there, the last is not.
    char *pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 8192, 4096, PROT_NONE) == 0);
    char *const places[] = {pages, pages + 101, pages + 4091, pages + 8192 - 6, pages + 8192 - 3, pages + 8192, 0,
        (char *)0x8000000000000000};
    for (int i = 0; i < 8; i++) strings[i] = places[i];
    for (int i = 0; i < 4; i++) strcpy(strings[i], "text.");
    memcpy(strings[4] - 3, "open..", 6);
}

int main(int argc, char **argv) {
    int with_signals = 0, count = argc > 1 ? atoi(argv[1]) : 1000;
    for (int i = 2; i < argc; i++) {
        may_check_alignment |= !strcmp(argv[i], "ac");
        with_signals |= !strcmp(argv[i], "signals");
    }
    learn();
    begin(argc, argv);
    if (with_signals) {
        static char signal_stack[1 << 16];
        stack_t alternate = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
        sigaltstack(&alternate, 0);
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
        sigaction(SIGUSR1, &action, 0);
        signal_every(SIGUSR1, 300);
    }
    int wrong = 0;
    for (int i = 0; i < count && wrong < 10; i++)
        for (int which = 0; which < COUNT; which++) wrong += call(which);
    if (with_signals) signal_every(SIGUSR1, 0);
    say(wrong ? "differs\n" : "same\n");
    for (int i = 1; i < COUNT; i++) say("calls %s %lu\n", functions[i].name, functions[i].calls);
    if (with_signals) say("calls state_signal %lu\n", signals);
    finish();
    return wrong != 0;
}
