/*
 * Claims: one word a lane, 0 or the run that has it. A run has its lane alone from its claim to its return, so that
 * it may read and write per-CPU values as it likes.
 *
 * Generated code tries the lane of its CPU by itself, and gives its lane back by a plain store. This is what it calls
 * where that lane is taken: by a run that was preempted here, or that a signal handler interrupted. A claim that is
 * never given back (a thread that left by siglongjmp, or was cancelled) costs its lane for good; the controller frees
 * those whose thread is gone (src/segment/lanes.rs).
 */
#include "weir.h"

/* Lanes that are tried before a run is given up. */
#define PROBES_MAX 64u

INLINE int try_lane(u64 claims, u32 lane, u64 owner)
{
    void *word = (void *)(claims + (u64)CLAIM_STRIDE * lane);
    return load_relaxed(word) == 0 && cas(word, 0, owner);
}

s64 weir_lane_claim(u64 claims, u32 cpus, u32 lanes, u64 owner)
{
    u32 cpu = (u32)weir_get_smp_processor_id();
    u32 probes = PROBES_MAX, spares = lanes - cpus;
    if (cpu < cpus && try_lane(claims, cpu, owner))
        return cpu;
    /* The spare ones before those of other CPUs, whose own runs would miss theirs. */
    for (u32 n = 0; n < spares && probes; n++, probes--) {
        u32 lane = cpus + (cpu + n) % spares;
        if (try_lane(claims, lane, owner))
            return lane;
    }
    for (u32 n = 1; n < cpus && probes; n++, probes--) {
        u32 lane = (cpu + n) % cpus;
        if (try_lane(claims, lane, owner))
            return lane;
    }
    count(COUNT_LANES_EXHAUSTED);
    return -1;
}
