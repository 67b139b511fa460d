/*
 * What runs at the first hit of a forked child, whose gates the kernel has wiped: tells the controller that there is a child, and says
 * whether to wait for it, so that the child is probed before the hit goes on.
 *
 * The waiting itself is the caller's (`forked.rs` of weir-probe), which lays the thread's registers out so that the controller can have it begin
 * the hit again. Here it is bounded: by a moment where the controller does nothing, and by a longer one in all. A child that goes on without
 * does not ask again. Under seccomp nothing is asked. The words may say anything: at worst it waits as long as it may, or not at all; so the time
 * is the kernel's, and not that of the segment's clock.
 */
#include "weir.h"

/* How long a controller is waited for that does nothing, and at all. */
#define IDLE_NS (5000 * MS)
#define WAIT_NS (30000 * MS)

/* In the own segment of the process that was forked: whether a filter that a child installs would be noticed before. */
static u32 may_wait(void)
{
    u64 filter = weir_island.filter;
    return filter ? __atomic_load_n((u32 *)(filter - HEADER_FILTER + HEADER_FORKED), __ATOMIC_ACQUIRE) : 0;
}

static u64 go_on(struct weir_forked *child)
{
    __atomic_store_n(&child->state, FORKED_GOES_ON, __ATOMIC_RELEASE);
    return 0;
}

/* The same of one that may have something to count. */
static u64 go_on_late(struct weir_announce *words, struct weir_forked *child)
{
    __atomic_fetch_add(&words->late.value, 1, __ATOMIC_RELAXED);
    return go_on(child);
}

/* 0: the child runs on unprobed; else FORKED_WAITS, and below it what `answered` is while there is no answer. */
u64 weir_forked(struct weir_forked *child)
{
    struct weir_announce *words = (struct weir_announce *)(weir_island.segment + HEADER_ANNOUNCE);
    /* Closing gates may set a bit above. */
    u32 state = __atomic_load_n(&child->state, __ATOMIC_ACQUIRE) & FORKED_STATE, fresh = FORKED_FRESH;
    u32 lives = __atomic_load_n((u32 *)(weir_island.segment + HEADER_LEASE), __ATOMIC_ACQUIRE) & 0xffff;
    if (state == FORKED_GOES_ON)
        return 0;
    if (!lives || !__atomic_load_n(&words->is_open.value, __ATOMIC_ACQUIRE))
        return go_on(child);
    u32 answered = __atomic_load_n(&words->answered.value, __ATOMIC_ACQUIRE);
    u32 worked = __atomic_load_n(&words->taken.value, __ATOMIC_RELAXED);
    /* One that has waited in vain is enough, until the controller does something. */
    u32 has_given_up = state == FORKED_FRESH && __atomic_load_n(&words->gave_up.value, __ATOMIC_RELAXED) == worked + 1;
    if (has_given_up || !may_wait() || !may_call_kernel())
        return go_on_late(words, child);
    if (state == FORKED_FRESH && __atomic_compare_exchange_n(&child->state, &fresh, FORKED_ASKS, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        s64 start = (s64)weir_ktime_get_boot_ns();
        child->began = start;
        child->worked_at = start;
        child->worked = worked;
        child->number = __atomic_add_fetch(&words->announced.value, 1, __ATOMIC_ACQ_REL);
        __atomic_store_n(&child->state, FORKED_WAITS_NOW, __ATOMIC_RELEASE);
        syscall3(SYS_FUTEX, (u64)&words->announced, FUTEX_WAKE, FUTEX_ALL);
        return FORKED_WAITS | answered;
    }
    /* Another thread is about to ask, or this one, of which this is a signal handler: that would wait for ever. */
    if (state != FORKED_WAITS_NOW) {
        __atomic_fetch_add(&words->late.value, 1, __ATOMIC_RELAXED);
        return 0;
    }
    /* It is not selected, or was refused, which is reported. */
    if ((int)(answered - child->number) >= 0)
        return go_on(child);
    s64 time = (s64)weir_ktime_get_boot_ns();
    if (worked != child->worked) {
        child->worked = worked;
        child->worked_at = time;
    }
    if (time - child->worked_at < IDLE_NS && time - child->began < WAIT_NS)
        return FORKED_WAITS | answered;
    __atomic_store_n(&words->gave_up.value, worked + 1, __ATOMIC_RELAXED);
    return go_on_late(words, child);
}
