/*
 * What runs where the dynamic linker tells debuggers that its list of libraries has changed (`r_brk`): tells the
 * controller, and waits for it, so that what was loaded is probed before its first instruction runs.
 *
 * Bounded in any case: by a moment where the controller does not stir, by a longer one where it has begun to work on
 * it. Where it has not answered the last time, it is not waited for until it does; under seccomp never. Each time that
 * it goes on unanswered is counted. The words may say anything: at worst it waits as long as it may, or not at all.
 */
#include "weir.h"

enum { ETIMEDOUT = 110, EINTR = 4 };
/* How long it is waited for a controller that does not stir, and for one that has begun (src/limits.rs). */
#define STIRS_NS (50 * MS)
#define WORKS_NS (450 * MS)

static void add(struct timespec *time, s64 nanoseconds)
{
    time->nanoseconds += nanoseconds;
    if (time->nanoseconds >= SECOND) {
        time->nanoseconds -= SECOND;
        time->seconds++;
    }
}

/* Numbers of announcements come round again. */
INLINE int has_come(const struct weir_counter *counter, u32 number)
{
    return (int)(__atomic_load_n(&counter->value, __ATOMIC_ACQUIRE) - number) >= 0;
}

/* Whether it was answered in time. */
static int wait(struct weir_announce *words, u32 number)
{
    struct timespec until = { 0, 0 };
    int works = 0;
    if (!may_call_kernel())
        return 0;
    syscall2(SYS_CLOCK_GETTIME, CLOCK_MONOTONIC, (u64)&until);
    add(&until, STIRS_NS);
    for (;;) {
        u32 answered = __atomic_load_n(&words->answered.value, __ATOMIC_ACQUIRE);
        if ((int)(answered - number) >= 0)
            return 1;
        if (!may_call_kernel())
            return 0;
        s64 result = syscall6(SYS_FUTEX, (u64)&words->answered, FUTEX_WAIT_BITSET, answered, (u64)&until, 0, 0xffffffff);
        if (result == -ETIMEDOUT && !works && has_come(&words->taken, number)) {
            works = 1;
            add(&until, WORKS_NS);
            continue;
        }
        if (result && result != -EAGAIN && result != -EINTR)
            return has_come(&words->answered, number);
    }
}

/* `state`: the linker's `r_state`, or 0: it is 0 when the list is whole, and nothing is to be seen before that. */
void weir_announce(struct weir_announce *words, const u32 *state)
{
    if (state && __atomic_load_n(state, __ATOMIC_RELAXED))
        return;
    if (!__atomic_load_n(&words->is_open.value, __ATOMIC_ACQUIRE))
        return;
    u32 number = __atomic_add_fetch(&words->announced.value, 1, __ATOMIC_ACQ_REL);
    int may_wait = may_call_kernel();
    count(may_wait ? COUNT_OTHER_CALLS : COUNT_OTHER_DENIED);
    if (may_wait) {
        syscall3(SYS_FUTEX, (u64)&words->announced, FUTEX_WAKE, FUTEX_ALL);
        if (has_come(&words->answered, number - 1) && wait(words, number))
            return;
    }
    __atomic_fetch_add(&words->late.value, 1, __ATOMIC_RELAXED);
}
