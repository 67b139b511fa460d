/*
 * What no C says: system calls, two words as one, time stamps and the number of the CPU.
 */
#ifndef WEIR_MACHINE_H
#define WEIR_MACHINE_H

/* ---- raw system calls: rcx and r11 are lost, errors come back as -errno ---- */
INLINE s64 syscall6(s64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
    register u64 r10 __asm__("r10") = d;
    register u64 r8 __asm__("r8") = e;
    register u64 r9 __asm__("r9") = f;
    s64 result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
INLINE s64 syscall2(s64 number, u64 a, u64 b)
{
    s64 result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
}
INLINE s64 syscall3(s64 number, u64 a, u64 b, u64 c)
{
    s64 result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

/* Two words at a multiple of 16 as one: they become these where they are what `low` and `high` hold, which say what was there. */
INLINE int swap_pair(void *at, u64 *low, u64 *high, u64 new_low, u64 new_high)
{
    u8 done;
    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(*(u8(*)[16])at), "+a"(*low), "+d"(*high)
                     : "b"(new_low), "c"(new_high)
                     : "memory");
    return done;
}

/* The time stamp counter. It waits for no load, and none waits for it. */
INLINE u64 time_stamp(void)
{
    u32 low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (u64)high << 32 | low;
}

/* The same, read after everything before it. */
INLINE u64 time_stamp_in_order(void)
{
    u32 low, high;
    __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (u64)high << 32 | low;
}

/* node << 12 | cpu: the limit of GDT entry 15 on every x86-64 kernel since 2.6.24; the vDSO's getcpu reads it the same way where RDPID is
 * missing. */
INLINE u32 node_and_cpu_number(void)
{
    u32 limit = 0;
    __asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(0x7bu) : "cc");
    return limit;
}

#endif
