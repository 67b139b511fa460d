/* Static probes (USDT) in every shape that weir must leave the program unchanged by. Takes the number of rounds, and
 * prints what it computed, which a probed run must print too. Or `prepare`: then it comes to the guarded probe once a
 * millisecond until the input ends, and prints when it is prepared first, and how often it was. Or `threads`: then three
 * threads compute the same again and again until the input ends, and it prints how often the result was another one. The
 * notes are written here, as <sys/sdt.h> documents them, so that nothing needs to be installed. */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTE(nop, name, semaphore, arguments)                                                                        \
    "990: " nop "\n"                                                                                                 \
    ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                                     \
    ".balign 4\n"                                                                                                    \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                                               \
    "991: .asciz \"stapsdt\"\n"                                                                                      \
    "992: .balign 4\n"                                                                                               \
    "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                                                              \
    ".asciz \"weir\"\n"                                                                                              \
    ".asciz \"" name "\"\n"                                                                                          \
    ".asciz \"" arguments "\"\n"                                                                                     \
    "994: .balign 4\n"                                                                                               \
    ".popsection\n"

#define NOP "nop"
#define NOP5 ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#define NOP10 ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00"

__asm__(".pushsection .stapsdt.base,\"a\",\"progbits\"\n"
        "_.stapsdt.base: .space 1\n"
        ".popsection\n");

/* Counts the tracers of `guarded`. */
__attribute__((section(".probes"), used)) volatile unsigned short weir_guarded_semaphore;

volatile int counter;
static volatile int stop;
static uint64_t expected;
static volatile unsigned long batches, wrong;

/* Arguments of every size and sign, wherever the compiler has them. */
__attribute__((noinline)) static uint64_t values(int round, const char *name) {
    int8_t tiny = (int8_t)-round;
    uint8_t byte = (uint8_t)round;
    int16_t small = (int16_t)(-2 * round);
    uint16_t half = (uint16_t)(round * 3);
    int64_t large = -(int64_t)round << 33;
    uint64_t huge = ~(uint64_t)round;
    __asm__ volatile(NOTE(NOP, "values", "0",
                          "-4@%[round] -1@%[tiny] 1@%[byte] -2@%[small] 2@%[half] -8@%[large] 8@%[huge] 8@%[name] "
                          "-4@%[fixed] -4@%[counter]")
                     :
                     : [round] "r"(round), [tiny] "q"(tiny), [byte] "q"(byte), [small] "r"(small), [half] "r"(half),
                       [large] "r"(large), [huge] "m"(huge), [name] "r"(name), [fixed] "i"(-42), [counter] "m"(counter));
    return (uint64_t)(tiny + byte + small + half) + (uint64_t)large + huge;
}

/* Only prepared where somebody traces it. */
__attribute__((noinline)) static int guarded(int round) {
    if (weir_guarded_semaphore == 0) {
        return 0;
    }
    __asm__ volatile(NOTE(NOP5, "guarded", "weir_guarded_semaphore", "-4@%[round]") : : [round] "r"(round));
    return 1;
}

/* Words in the red zone and flags that are live across the probe; the argument lies in the red zone. */
uint64_t red_zone(uint64_t value);
__asm__(".text\n.globl red_zone\n.type red_zone, @function\n"
        "red_zone: .cfi_startproc\n"
        "mov %rdi, -8(%rsp)\n"
        "lea 1(%rdi), %rax\n"
        "mov %rax, -64(%rsp)\n"
        "lea 2(%rdi), %rax\n"
        "mov %rax, -128(%rsp)\n"
        "xor %eax, %eax\n"
        "mov $-1, %rcx\n"
        "add $1, %rcx\n" /* carry, zero, parity and adjust set; sign and overflow clear */
        NOTE(NOP10, "red_zone", "0", "8@-8(%rsp) 8@-128(%rsp)")
        "adc $0, %rax\n"
        "mov $0x7fffffff, %ecx\n"
        "add $1, %ecx\n" /* sign, overflow and adjust set; carry clear */
        NOTE(NOP, "flags", "0", "4@%ecx")
        "jno 1f\n"
        "jc 1f\n"
        "jns 1f\n"
        "add -8(%rsp), %rax\n"
        "add -64(%rsp), %rax\n"
        "add -128(%rsp), %rax\n"
        "1: ret\n"
        ".cfi_endproc\n.size red_zone, .-red_zone\n");

/* A site whose neighbour is a call. */
__attribute__((noinline)) void callee(void) { counter++; }
void before_call(void);
__asm__(".text\n.globl before_call\n.type before_call, @function\n"
        "before_call: .cfi_startproc\n"
        "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n" NOTE(NOP, "before_call", "0", "") "call callee\n"
        "add $8, %rsp\n.cfi_adjust_cfa_offset -8\n"
        "ret\n.cfi_endproc\n.size before_call, .-before_call\n");

static uint64_t batch(void) {
    uint64_t sum = 0;
    for (int round = 1; round <= 1000; round++) {
        sum += values(round, "batch") + red_zone((uint64_t)round);
        guarded(round);
    }
    return sum;
}

static void *compute(void *unused) {
    (void)unused;
    while (!stop) {
        if (batch() != expected) {
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
        }
        __atomic_add_fetch(&batches, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

static int threads(void) {
    pthread_t running[3];
    expected = batch();
    alarm(600);
    for (int i = 0; i < 3; i++) {
        pthread_create(&running[i], 0, compute, 0);
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    stop = 1;
    for (int i = 0; i < 3; i++) {
        pthread_join(running[i], 0);
    }
    printf("wrong %lu, some batches %d\n", wrong, batches > 0);
    return 0;
}

static int prepare(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    long prepared = 0;
    alarm(600);
    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, 1) == 0) {
        if (guarded(1) && ++prepared == 1) {
            puts("begins");
            fflush(stdout);
        }
    }
    printf("prepared %ld semaphore %d\n", prepared, weir_guarded_semaphore);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "prepare") == 0) {
        return prepare();
    }
    if (argc > 1 && strcmp(argv[1], "threads") == 0) {
        return threads();
    }
    uint64_t sum = 0;
    long rounds = argc > 1 ? atol(argv[1]) : 10;
    for (long round = 1; round <= rounds; round++) {
        sum += values((int)round, "round");
        guarded((int)round);
        sum += red_zone((uint64_t)round);
        before_call();
    }
    printf("sum %llx counter %d\n", (unsigned long long)sum, counter);
    return 0;
}
