/* A library that comes and goes: functions that are called by its constructor, by the resolver of an IFUNC, and by whoever
 * has loaded it; and a static probe with a semaphore. */
#if __has_include(<gnu/libc-version.h>)
#define HAS_RESOLVER 1
static int chosen_one(int x) { return x + 2; }
__attribute__((noinline, noclone, used)) static int resolved(int x) {
    __asm__ volatile("" : "+r"(x));
    return x | 1;
}
static int (*choose(void))(int) { return resolved(2) ? chosen_one : 0; }
int chosen(int x) __attribute__((ifunc("choose")));
#endif

/* Counts the tracers of `guarded`. */
__attribute__((section(".probes"), used)) volatile unsigned short weir_loaded_semaphore;

__asm__(".pushsection .stapsdt.base,\"a\",\"progbits\"\n"
        "_.stapsdt.base: .space 1\n"
        ".popsection\n");

__attribute__((noinline)) int probed(int x) {
    __asm__ volatile("" : "+r"(x));
    return x * 3 + 1;
}

/* Its return is probed too. */
__attribute__((noinline)) int nested(int x) {
    int y = probed(x);
    __asm__ volatile("" : "+r"(y));
    return y + probed(y);
}

/* Only prepared where somebody traces it. */
__attribute__((noinline)) int guarded(int x) {
    if (weir_loaded_semaphore == 0) {
        return 0;
    }
    __asm__ volatile("990: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"
                     ".balign 4\n"
                     ".4byte 992f-991f, 994f-993f, 3\n"
                     "991: .asciz \"stapsdt\"\n"
                     "992: .balign 4\n"
                     "993: .8byte 990b, _.stapsdt.base, weir_loaded_semaphore\n"
                     ".asciz \"weir\"\n"
                     ".asciz \"guarded\"\n"
                     ".asciz \"-4@%[x]\"\n"
                     "994: .balign 4\n"
                     ".popsection\n"
                     :
                     : [x] "r"(x));
    return 1;
}

__attribute__((noinline)) int constructing(int x) {
    __asm__ volatile("" : "+r"(x));
    return x * 7 + 3;
}

volatile int constructed;
__attribute__((constructor)) static void construct(void) {
    constructed = constructing(1);
#if HAS_RESOLVER
    constructed += chosen(1);
#endif
}
