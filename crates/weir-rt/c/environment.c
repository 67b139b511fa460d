/*
 * What a program asks of the thread and the machine it runs on: time, CPU, ids, name.
 */
#include "weir.h"

struct timespec { s64 seconds; s64 nanoseconds; };
enum { CLOCK_MONOTONIC = 1, PR_GET_NAME = 16, COMM_BYTES = 16 };

u64 weir_ktime_get_ns(void)
{
    struct timespec now = { 0, 0 };
    u64 vdso = weir_island.clock_gettime;
    if (vdso)
        ((int (*)(int, struct timespec *))vdso)(CLOCK_MONOTONIC, &now);
    else if (!(weir_island.flags & ISLAND_NO_SYSTEM_CALLS))
        syscall2(SYS_CLOCK_GETTIME, CLOCK_MONOTONIC, (u64)&now);
    return (u64)now.seconds * 1000000000ul + (u64)now.nanoseconds;
}

u64 weir_get_smp_processor_id(void)
{
    /* The limit of GDT entry 15 is node << 12 | cpu on every x86-64 kernel since 2.6.24: the vDSO's getcpu reads it
     * the same way where RDPID is missing. */
    u32 limit = 0;
    __asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(0x7bu) : "cc");
    return limit & 0xfff;
}

u64 weir_get_current_pid_tgid(void)
{
    u32 tid = 0;
    if (weir_island.flags & ISLAND_NO_SYSTEM_CALLS)
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
    int is_denied = weir_island.flags & ISLAND_NO_SYSTEM_CALLS;
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
