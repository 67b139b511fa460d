/*
 * What runs where the process enters prctl() or syscall() of its C library: where the call would install a system call
 * filter (or strict mode), a word says so before it does, so that no helper calls the kernel from then on.
 *
 * The word stands for the whole process and never falls, from strict mode neither: a call that fails after all, or that is
 * for one thread, denies more than it would have to. What cannot succeed (a null filter, by which programs ask what the kernel knows) is let by.
 */
#include "weir.h"

enum { SYS_SECCOMP = 317, PR_SET_SECCOMP = 22 };
enum { MODE_STRICT = 1, MODE_FILTER = 2 };         /* of prctl */
enum { SET_MODE_STRICT = 0, SET_MODE_FILTER = 1 }; /* of seccomp */

/* What `call` with these arguments would make of the word. */
static u32 asks(u64 call, u64 what, u64 how, u64 filter)
{
    if ((u32)call == SYS_PRCTL && (u32)what == PR_SET_SECCOMP)
        return how == MODE_STRICT ? FILTER_STRICT : how == MODE_FILTER && filter ? FILTER_ASKED : FILTER_NONE;
    if ((u32)call == SYS_SECCOMP)
        return (u32)what == SET_MODE_STRICT ? FILTER_STRICT : (u32)what == SET_MODE_FILTER && filter ? FILTER_ASKED : FILTER_NONE;
    return FILTER_NONE;
}

/* `registers` at the first instruction of prctl(), or of syscall() if `is_syscall`. */
void weir_filter(u32 *word, const u64_word *registers, u32 is_syscall)
{
    u64 di = registers[CONTEXT_DI], si = registers[CONTEXT_SI], dx = registers[CONTEXT_DX];
    u32 asked = is_syscall ? asks(di, si, dx, registers[CONTEXT_CX]) : asks(SYS_PRCTL, di, si, dx);
    u32 none = FILTER_NONE;
    if (asked == FILTER_NONE)
        return;
    /* While the kernel may still be called. */
    weir_close_reads((struct weir_reads *)((u64)word - HEADER_FILTER + HEADER_READS));
    if (asked == FILTER_STRICT)
        __atomic_store_n(word, asked, __ATOMIC_SEQ_CST);
    else
        __atomic_compare_exchange_n(word, &none, asked, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
