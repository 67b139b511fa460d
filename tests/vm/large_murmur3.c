/* MurmurHash3 with every word written out: thousands of instructions without a branch. */
#define LOOP _Pragma("unroll")
/* What comes later is not done earlier: clang would load everything first, and find no room for it. */
#define FENCE(x) __asm__ volatile("" : "+r"(x)::"memory")
#include "murmur3.c"
