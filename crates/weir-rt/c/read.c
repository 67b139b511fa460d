/*
 * Reads of the process's memory: directly where that is known to be there (direct.c), else the slow read, and the slow write:
 * our own memory through process_vm_readv, so that a bad address is an error value and never a signal. About 0.9 us a call;
 * every slow one and every fault is counted.
 *
 * On a fault the destination is all zeros, as the kernel's helpers leave it. A string's bytes behind its NUL are not
 * touched. Where seccomp forbids the call, every read is a fault, counted as denied too. A kernel address is a bad
 * address: the helpers that read the kernel's memory in the kernel read the process's here.
 */
#include "weir.h"

typedef u64 unaligned_u64 __attribute__((aligned(1), may_alias));

struct piece { u64 base; u64 bytes; };
enum { PAGE = 4096, PIECES = 4, CHUNK = 256 };

/* Moves up to `size` bytes between ours and theirs; the kernel moves whole pieces only, so pieces end where pages do.
 * Bytes moved: fewer than PIECES pages' worth, or up to the first bad page. `call`: SYS_PROCESS_VM_READV or _WRITEV. */
static u64 move_some(s64 call, u64 ours, u64 size, u64 theirs)
{
    struct piece local = { ours, 0 };
    struct piece remote[PIECES];
    u32 n = 0;
    while (n < PIECES && local.bytes < size) {
        u64 at = theirs + local.bytes;
        u64 bytes = PAGE - (at & (PAGE - 1));
        if (bytes > size - local.bytes)
            bytes = size - local.bytes;
        remote[n].base = at;
        remote[n].bytes = bytes;
        local.bytes += bytes;
        n++;
    }
    if (!may_call_kernel()) {
        count(COUNT_READS_DENIED);
        return 0;
    }
    u64 who = weir_island.flags & ISLAND_READ_BY_TID ? (u64)syscall2(SYS_GETTID, 0, 0) : weir_island.pid;
    s64 got = syscall6(call, who, (u64)&local, 1, (u64)remote, n, 0);
    if (got == -ENOSYS || got == -EPERM)
        count(COUNT_READS_DENIED);
    return got > 0 ? (u64)got : 0;
}

u64 weir_read_some(void *to, u64 size, u64 from) { return move_some(SYS_PROCESS_VM_READV, (u64)to, size, from); }

static s64 fault(void *destination, u64 size)
{
    count(COUNT_READ_FAULTS);
    /* Volatile, so that no compiler makes a call of memset or a string instruction of it. */
    u64 i = 0;
    for (; i + 8 <= size; i += 8)
        *(volatile unaligned_u64 *)((u8 *)destination + i) = 0;
    for (; i < size; i++)
        *(volatile u8 *)((u8 *)destination + i) = 0;
    return -EFAULT;
}

s64 weir_probe_read_user(void *destination, u64 size, u64 source)
{
    if (size && weir_read_direct(destination, size, source))
        return 0;
    count(COUNT_SLOW_READS);
    for (u64 done = 0; done < size;) {
        u64 got = weir_read_some((u8 *)destination + done, size - done, source + done);
        if (!got)
            return fault(destination, size);
        done += got;
    }
    return 0;
}

s64 weir_probe_read_user_str(void *destination, u64 size, u64 source)
{
    u8 chunk[CHUNK];
    volatile u8 *to = destination;
    if (!size)
        return 0;
    s64 direct = weir_read_direct_str(destination, size, source);
    if (direct)
        return direct;
    count(COUNT_SLOW_READS);
    for (u64 done = 0; done < size - 1;) {
        u64 want = size - 1 - done < CHUNK ? size - 1 - done : CHUNK;
        u64 got = weir_read_some(chunk, want, source + done);
        if (!got)
            return fault(destination, size);
        for (u64 i = 0; i < got; i++) {
            to[done + i] = chunk[i];
            if (!chunk[i])
                return (s64)(done + i + 1);
        }
        done += got;
    }
    to[size - 1] = 0;
    return (s64)size;
}

/* What was written before a bad page stays written, as in the kernel. */
s64 weir_probe_write_user(u64 destination, const void *source, u64 size)
{
    count(COUNT_SLOW_READS);
    for (u64 done = 0; done < size;) {
        u64 put = move_some(SYS_PROCESS_VM_WRITEV, (u64)source + done, size - done, destination + done);
        if (!put) {
            count(COUNT_READ_FAULTS);
            return -EFAULT;
        }
        done += put;
    }
    return 0;
}
