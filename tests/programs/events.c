/* Events for filters: a function with arguments of many types, and a static probe with some of them. Takes the number of
 * rounds, and prints for each condition by its name how many rounds fulfilled it: what a tracer that runs the same
 * condition as a filter has to count. The note is written here, as <sys/sdt.h> documents it, so that nothing needs to be
 * installed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE(name, arguments)                                                                                        \
    "990: nop\n"                                                                                                     \
    ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                                     \
    ".balign 4\n"                                                                                                    \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                                               \
    "991: .asciz \"stapsdt\"\n"                                                                                      \
    "992: .balign 4\n"                                                                                               \
    "993: .8byte 990b, _.stapsdt.base, 0\n"                                                                          \
    ".asciz \"events\"\n"                                                                                            \
    ".asciz \"" name "\"\n"                                                                                          \
    ".asciz \"" arguments "\"\n"                                                                                     \
    "994: .balign 4\n"                                                                                               \
    ".popsection\n"

__asm__(".pushsection .stapsdt.base,\"a\",\"progbits\"\n"
        "_.stapsdt.base: .space 1\n"
        ".popsection\n");

enum color { RED, GREEN = 5, BLUE = 7 };

typedef const char *text;

struct pair {
    long first, second;
};

#define CONDITIONS(X)                                                                                                \
    X(negative, delta < 0)                                                                                           \
    X(large, size > 3000 && (big & 1) == 1)                                                                          \
    X(beta, name && strcmp(name, "beta") == 0)                                                                       \
    X(prefix, name && strncmp(name, "al", 2) == 0)                                                                   \
    X(green, color == GREEN)                                                                                         \
    X(high, big > INT64_MAX)                                                                                         \
    X(bytes, strcmp((const char *)bytes, "beta") == 0)                                                               \
    X(seventh, seventh < -3)                                                                                         \
    X(either, delta > 100 || !(size < 4000))                                                                         \
    X(ends, name && (strncmp(name, "al", 2) == 0 || strcmp(name, "beta") == 0))                                      \
    X(listed, size < 100 || size == 977 || size == 1954)                                                             \
    X(named, name && (strcmp(name, "beta") == 0 || strncmp(name, "alpha", 5) == 0))                                  \
    X(red, color == RED || color == BLUE)                                                                            \
    X(low, ratio < 2.5 || ratio >= 997.5)                                                                            \
    X(over, size > 200)                                                                                              \
    X(back, result < 0)

#define COUNTER(name, condition) static unsigned long name##_count;
CONDITIONS(COUNTER)

static const char *const names[] = {"alpha", "beta", "al", "gamma", "alphabet", NULL, "betas", ""};

__attribute__((noinline)) int work(int8_t delta, uint32_t size, text name, enum color color, uint64_t big,
                                   const void *bytes, short seventh, double ratio) {
    __asm__ volatile(NOTE("sample", "-1@%[delta] 4@%[size] 8@%[name] 4@%[color] 8@%[big]")
                     :
                     : [delta] "q"(delta), [size] "r"(size), [name] "r"(name), [color] "r"(color), [big] "r"(big)
                     : "memory");
    int result = (int)size % 7 - 3 + (int)(ratio - ratio);
#define COUNT(name, condition) name##_count += (condition) ? 1 : 0;
    CONDITIONS(COUNT)
    return result;
}

static unsigned long resized_count;

/* Has a parameter of the same name elsewhere, and of another type. */
__attribute__((noinline)) long resize(long factor, uint8_t size) {
    resized_count += size > 200;
    return factor * size;
}

/* By value: where the arguments behind it are is not told. */
__attribute__((noinline)) long spread(int before, struct pair pair, int after) {
    __asm__ volatile("" ::: "memory");
    return before + pair.first + pair.second + after;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 100, sum = 0;
    static const enum color colors[] = {RED, GREEN, BLUE};
    for (long round = 0; round < rounds; round++) {
        const char *bytes = names[(round + 3) % 8];
        sum += work((int8_t)(round * 5), (uint32_t)(round * 977 % 5000), names[round % 8], colors[round % 3],
                    (uint64_t)round * 0x9e3779b97f4a7c15u, bytes ? bytes : "none", (short)(round % 11 - 6),
                    (double)round);
        sum += resize(round, (uint8_t)(round * 3));
    }
    sum += spread((int)rounds, (struct pair){1, sum}, 2);
#define PRINT(name, condition) printf("%s %lu\n", #name, name##_count);
    CONDITIONS(PRINT)
    printf("resized %lu\n", resized_count);
    return sum == 42 ? 1 : 0;
}
