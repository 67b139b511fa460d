/*
 * What a program asks of the thread and the machine it runs on, or does to it: time, CPU, ids, name, random numbers,
 * signals. What needs a system call is counted, and refused where seccomp may forbid it.
 */
#include "weir.h"

enum { CLOCK_MONOTONIC_COARSE = 6, CLOCK_BOOTTIME = 7, CLOCK_TAI = 11 };
enum { PR_GET_NAME = 16, COMM_BYTES = 16, SIGNALS = 64 };

/* The vDSO knows all of these clocks. In strict mode the time stamp counter may not be read: the time is 0. */
static __attribute__((noinline)) u64 clock(u32 which)
{
    struct timespec now = { 0, 0 };
    u64 vdso = weir_island.clock_gettime;
    if (filter_now() == FILTER_STRICT)
        count(COUNT_OTHER_DENIED);
    else if (vdso)
        ((int (*)(int, struct timespec *))vdso)((int)which, &now);
    else if (may_call_kernel())
        syscall2(SYS_CLOCK_GETTIME, which, (u64)&now);
    return (u64)now.seconds * SECOND + (u64)now.nanoseconds;
}

/* Two readings of which one was interrupted by a refresh are a chance in a million. */
enum { LINE_TRIES = 3 };

/* The time that the segment's clock shows; 0 where it has none. The newer line begins after it is published: until
 * then the ticks are on the older one, which is written over only long after. So no two threads see time run
 * backwards at a refresh. Time stamps may be early by what the CPU runs ahead. */
static u64 line_now(u64 segment)
{
    const struct weir_clock *clock = (const struct weir_clock *)(segment + HEADER_CLOCK);
    for (u32 n = 0; n < LINE_TRIES; n++) {
        u64 version = load(&clock->version);
        if (!version)
            return 0;
        const struct weir_line *line = &clock->lines[version >> 1 & 1];
        u64 ticks = time_stamp(), start = load(&line->ticks);
        if (ticks < start) {
            line = &clock->lines[~version >> 1 & 1];
            start = load(&line->ticks);
        }
        u64 passed = ticks < start ? 0 : ticks - start;
        u64 ns = load(&line->ns) + (u64)((unsigned __int128)passed * load(&line->rate) >> 64);
        if (load(&clock->version) == version)
            return ns;
    }
    return 0;
}

u64 weir_ktime_get_ns(void)
{
    u64 segment = weir_island.segment;
    int reads_ticks = weir_island.flags & ISLAND_READS_TICKS && filter_now() != FILTER_STRICT;
    u64 now = reads_ticks ? line_now(segment) : 0;
    return now ? now : clock(CLOCK_MONOTONIC);
}
u64 weir_ktime_get_boot_ns(void) { return clock(CLOCK_BOOTTIME); }
u64 weir_ktime_get_coarse_ns(void) { return clock(CLOCK_MONOTONIC_COARSE); }
u64 weir_ktime_get_tai_ns(void) { return clock(CLOCK_TAI); }

/* Ticks since boot; the kernel counts from five minutes before the 32-bit counter wraps. */
u64 weir_jiffies64(void)
{
    u32 tick = weir_island.tick_ns;
    if (!tick)
        return 0;
    u32 hertz = ((u32)SECOND + tick / 2) / tick;
    return (u32)(-300 * (int)hertz) + clock(CLOCK_MONOTONIC_COARSE) / tick;
}

/* node << 12 | cpu */
static u32 node_and_cpu(void)
{
    if (weir_island.flags & ISLAND_ASK_CPU) {
        u32 cpu = 0, node = 0;
        syscall3(SYS_GETCPU, (u64)&cpu, (u64)&node, 0);
        return node << 12 | (cpu & 0xfff);
    }
    return node_and_cpu_number();
}

u64 weir_get_smp_processor_id(void) { return node_and_cpu() & 0xfff; }
u64 weir_get_numa_node_id(void) { return node_and_cpu() >> 12; }

/* A counter that all threads share, each value mixed (SplitMix64, public domain): no two callers get the same state. */
u64 weir_get_prandom_u32(void)
{
    const u64 step = 0x9e3779b97f4a7c15ul;
    u64 segment = weir_island.segment;
    u64 x = step + (segment ? __atomic_fetch_add((u64_word *)(segment + HEADER_RANDOM), step, __ATOMIC_RELAXED)
                            : clock(CLOCK_MONOTONIC) * step);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ul;
    x = (x ^ x >> 27) * 0x94d049bb133111ebul;
    return (x ^ x >> 31) >> 32;
}

u64 weir_get_current_pid_tgid(void)
{
    u32 tid = 0;
    if (!may_call_kernel())
        count(COUNT_TID_DENIED);
    else
        tid = (u32)syscall2(SYS_GETTID, 0, 0);
    return (u64)weir_island.pid << 32 | tid;
}

s64 weir_get_current_comm(void *buffer, u64 size)
{
    u64 name[COMM_BYTES / 8];
    u8 *to = buffer;
    name[0] = name[1] = 0;
    int is_denied = !may_call_kernel();
    s64 result = is_denied ? -EPERM : syscall2(SYS_PRCTL, PR_GET_NAME, (u64)name);
    count(COUNT_COMM_CALLS);
    if (result) {
        count(COUNT_COMM_DENIED);
        name[0] = name[1] = 0;
    }
    for (u64 i = 0; i < size; i++) {
        u8 byte = i + 1 < size && i < COMM_BYTES ? (u8)(name[i / 8] >> (8 * (i % 8))) : 0;
        *(volatile u8 *)(to + i) = byte;
    }
    return result ? -EINVAL : 0;
}

/* Whether a system call may be made that has no counter of its own. */
static int may_call(void)
{
    if (!may_call_kernel()) {
        count(COUNT_OTHER_DENIED);
        return 0;
    }
    count(COUNT_OTHER_CALLS);
    return 1;
}

/* As the process sees them itself: in its own user namespace. */
u64 weir_get_current_uid_gid(void)
{
    if (!may_call())
        return (u64)-EINVAL;
    return (u64)syscall2(SYS_GETGID, 0, 0) << 32 | (u32)syscall2(SYS_GETUID, 0, 0);
}

/* The process cannot ask for it without opening files: whoever traces it looks at times, and writes it down. */
u64 weir_get_current_cgroup_id(void)
{
    u64 filter = weir_island.filter;
    return filter ? load_relaxed((void *)(filter - HEADER_FILTER + HEADER_CGROUP)) : 0;
}

s64 weir_get_ns_current_pid_tgid(u64 device, u64 inode, void *ids, u64 size)
{
    u32 answer[2] = { 0, 0 }; /* struct bpf_pidns_info: pid, tgid */
    s64 result = -EINVAL;
    if (size == sizeof answer && weir_island.pid_namespace_inode && device == weir_island.pid_namespace_device &&
        inode == weir_island.pid_namespace_inode && may_call()) {
        answer[0] = (u32)syscall2(SYS_GETTID, 0, 0);
        answer[1] = (u32)syscall2(SYS_GETPID, 0, 0);
        result = 0;
    }
    for (u64 i = 0; i < size; i++)
        *(volatile u8 *)((u8 *)ids + i) = i < sizeof answer ? (u8)(answer[i / 4] >> (8 * (i % 4))) : 0;
    return result;
}

/* The kernel takes the lower half of the number. */
s64 weir_send_signal(u64 signal)
{
    if ((u32)signal > SIGNALS)
        return -EINVAL;
    if (!may_call())
        return -EPERM;
    return syscall2(SYS_KILL, (u64)syscall2(SYS_GETPID, 0, 0), (u32)signal);
}

s64 weir_send_signal_thread(u64 signal)
{
    if ((u32)signal > SIGNALS)
        return -EINVAL;
    if (!may_call())
        return -EPERM;
    return syscall3(SYS_TGKILL, (u64)syscall2(SYS_GETPID, 0, 0), (u64)syscall2(SYS_GETTID, 0, 0), (u32)signal);
}

/* Nobody can put a group into a slot here, so that each is empty. */
s64 weir_current_task_under_cgroup(const struct weir_map *map, u64 index)
{
    return (u32)index >= map->max_entries ? -E2BIG : -EAGAIN;
}

/* Programs run at the first instruction of a function: its address is where the context stands. */
u64 weir_get_func_ip(const void *context) { return ((const u64_word *)context)[CONTEXT_IP]; }
