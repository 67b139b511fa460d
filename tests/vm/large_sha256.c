/* SHA-256 with every round written out. */
#define LOOP _Pragma("unroll")
/* What comes later is not done earlier: clang would load everything first, and find no room for it. */
#define FENCE(x) __asm__ volatile("" : "+r"(x)::"memory")
#include "sha256.c"
