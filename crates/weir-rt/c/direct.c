/*
 * Loads of the process's memory without a system call, and what stands around the system calls that take memory away.
 *
 * A table in the process's own segment (docs/segment.md, "Known memory") says which memory is known to be there. A load runs
 * inside a restartable sequence (rseq(2)) that begins by looking whether the table still holds. Whoever is about to take memory
 * away that is in the table first says that it holds no more, then has the kernel interrupt the sequences of all threads
 * (membarrier(2)), and only then makes its call. So no load that began before runs on, and none begins after.
 *
 * Where anything is not as it should be, there is no direct load, and the caller asks the kernel.
 */
#include "weir.h"
#include "isa/native_loads.h"

enum { SYS_MMAP = 9, SYS_MPROTECT = 10, SYS_MUNMAP = 11, SYS_BRK = 12, SYS_MREMAP = 25, SYS_MADVISE = 28, SYS_SHMAT = 30,
       SYS_CLONE = 56, SYS_VFORK = 58, SYS_REMAP_FILE_PAGES = 216, SYS_USERFAULTFD = 323, SYS_MEMBARRIER = 324,
       SYS_PKEY_MPROTECT = 329, SYS_PKEY_ALLOC = 330, SYS_CLONE3 = 435, SYS_PROCESS_MADVISE = 440 };
enum { PROT_READ = 1, PROT_EXEC = 4, MAP_FIXED = 0x10, MAP_FIXED_NOREPLACE = 0x100000, MREMAP_FIXED = 2,
       SHM_REMAP = 0x4000, SHM_EXEC = 0x8000, CLONE_VM = 0x100, CLONE_VFORK = 0x4000, CLONE_THREAD = 0x10000,
       MADV_HWPOISON = 100, MADV_SOFT_OFFLINE = 101, MADV_GUARD_INSTALL = 102, MEMBARRIER_PRIVATE_EXPEDITED_RSEQ = 128 };

/* ---- the table ---- */

/* Index of the first range that ends above `address`. */
INLINE u64 first_above(const struct weir_ranges *table, u64 count, u64 address)
{
    u64 low = 0;
    while (low < count) {
        u64 middle = (low + count) / 2;
        if (load_relaxed(&table->ranges[middle].end) > address)
            count = middle;
        else
            low = middle + 1;
    }
    return low;
}

INLINE u64 count_of(const struct weir_ranges *table)
{
    u64 count = load_relaxed(&table->count);
    return count < READS_RANGES ? count : READS_RANGES;
}

INLINE struct weir_known *known_of(const struct weir_reads *reads)
{
    return (struct weir_known *)((u64)reads - HEADER_READS + load_relaxed(&reads->area));
}

INLINE const struct weir_ranges *table_of(const struct weir_reads *reads, u64 state)
{
    return &known_of(reads)->tables[state / READS_EPOCH & 1];
}

/* ---- loads ---- */

/* Times that a sequence is begun. */
enum { ATTEMPTS = 3 };
/* Longer ones would be interrupted again and again. */
enum { DIRECT_BYTES_MAX = 4096 };

/* How a load may begin: the state word if it may here, else 0. */
INLINE u32 state_for_loads(const struct weir_reads *reads, s64 rseq)
{
    int cpu;
    u64 state = load(&reads->state);
    if ((state & READS_HOLDS) != READS_VALID)
        return 0;
    /* The controller is gone: another one may take out what watches over the table. */
    if (!(u16)load_relaxed((void *)(weir_island.segment + HEADER_LEASE)))
        return 0;
    cpu = rseq_cpu(rseq);
    return cpu < 0 ? 0 : (u32)state;
}

INLINE struct weir_reads *reads_here(void)
{
    return (struct weir_reads *)(weir_island.filter - HEADER_FILTER + HEADER_READS);
}

/* Bytes from `from` on that are in the `n`-th range. */
INLINE u64 bytes_in(const struct weir_ranges *table, u64 n, u64 from)
{
    u64 end = load_relaxed(&table->ranges[n].end);
    return load_relaxed(&table->ranges[n].start) <= from && from < end ? end - from : 0;
}

/* Where it stands which range an address was found in last: for each MiB one of READS_HINTS. */
INLINE u8 *hint_of(const struct weir_reads *reads, u64 from)
{
    return &known_of(reads)->hints[(from >> 20) * 0x9e3779b97f4a7c15ul >> 59];
}
_Static_assert(READS_HINTS == 1 << (64 - 59), "the hash's bits");

/* Bytes from `from` on that are known to be there in the table of `state`. A hint spares the search, whose branches nobody can
 * predict: an event of redis with a string behind three addresses takes 94 ns, 121 with a search for each. */
INLINE u64 known_bytes(const struct weir_reads *reads, u32 state, u64 from)
{
    const struct weir_ranges *table = table_of(reads, state);
    u64 count = count_of(table);
    u8 *hint = hint_of(reads, from), n = __atomic_load_n(hint, __ATOMIC_RELAXED);
    u64 bytes = n < count ? bytes_in(table, n, from) : 0;
    if (bytes)
        return bytes;
    u64 found = first_above(table, count, from);
    if (found == count)
        return 0;
    bytes = bytes_in(table, found, from);
    if (bytes)
        __atomic_store_n(hint, (u8)found, __ATOMIC_RELAXED);
    return bytes;
}

int weir_read_direct(void *to, u64 size, u64 from)
{
    struct weir_reads *reads = reads_here();
    s64 rseq = weir_island.rseq;
    if (size > DIRECT_BYTES_MAX || !weir_island.filter || !rseq)
        return 0;
    for (u32 attempt = 0; attempt < ATTEMPTS; attempt++) {
        u32 state = state_for_loads(reads, rseq);
        if (!state)
            break;
        if (known_bytes(reads, state, from) < size)
            break;
        if (load_bytes(&reads->state, state, rseq, to, from, size))
            return 1;
    }
    count_at((u64)&known_of(reads)->missed);
    return 0;
}

s64 weir_read_direct_str(u8 *to, u64 size, u64 from)
{
    struct weir_reads *reads = reads_here();
    s64 rseq = weir_island.rseq;
    if (size > DIRECT_BYTES_MAX || !weir_island.filter || !rseq)
        return 0;
    for (u32 attempt = 0; attempt < ATTEMPTS; attempt++) {
        u32 state = state_for_loads(reads, rseq), found;
        u8 *end;
        if (!state)
            break;
        u64 bytes = known_bytes(reads, state, from), whole = size - 1;
        if (!bytes)
            break;
        if (bytes > whole)
            bytes = whole;
        if (!load_text(&reads->state, state, rseq, to, from, bytes, &end, &found))
            continue;
        if (found)
            return end - to;
        if (bytes < whole)
            break;
        *(volatile u8 *)(to + whole) = 0;
        return (s64)size;
    }
    count_at((u64)&known_of(reads)->missed);
    return 0;
}

/* ---- what watches over the table ---- */

/* As the end of memory: all that is above, and the heap's. */
#define ALL (~0ul)
#define HEAP_END (~0ul - 1)

/* From now on the table holds no more if it knew something of `start` to `end`; with `is_last`, for good. No sequence that
 * trusted it runs on when this returns. In any case the controller sees that something happened, and reads the maps anew. */
static void withdraw(struct weir_reads *reads, u64 start, u64 end, u64 is_last)
{
    u64 state, changed;
    do {
        state = load(&reads->state);
        changed = (state + READS_TURN) | is_last;
        if ((state & READS_KIND) == READS_VALID) {
            const struct weir_ranges *table = table_of(reads, state);
            u64 count = count_of(table), n = first_above(table, count, start);
            /* Behind the heap lies what brk() does not end. */
            u64 last = end == HEAP_END ? load_relaxed(&table->heap_end) : end;
            if (is_last || (n < count && load_relaxed(&table->ranges[n].start) < last))
                changed = (changed & ~(u64)READS_KIND) | READS_STALE;
        }
    } while (!__atomic_compare_exchange_n((u64_word *)&reads->state, &state, changed, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    if ((changed & READS_KIND) != READS_STALE)
        return;
    /* Also where another thread said so: it may not have come to this yet. */
    if (!may_call_kernel() || syscall3(SYS_MEMBARRIER, MEMBARRIER_PRIVATE_EXPEDITED_RSEQ, 0, 0) != 0)
        return;
    state = load(&reads->state);
    while ((state & READS_KIND) == READS_STALE && (u32)state / READS_EPOCH == (u32)changed / READS_EPOCH) {
        u64 quiet = state & ~(u64)READS_KIND;
        if (__atomic_compare_exchange_n((u64_word *)&reads->state, &state, quiet, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return;
    }
}

static void close_for(struct weir_reads *reads, u64 why)
{
    store_relaxed(&known_of(reads)->why, why);
    withdraw(reads, 0, ALL, READS_CLOSED);
}

/* Where the first call of `key` would be noted. */
INLINE u64 slot_of(u64 key) { return (key >> 3) * 0x9e3779b97f4a7c15ul >> 56; }

/* Notes that a call is under way. A key names one call: the stack pointer that it is made with. */
static int note(struct weir_known *known, u64 key, u64 start, u64 end)
{
    u64 first = slot_of(key);
    for (u32 n = 0; n < READS_WINDOW; n++) {
        u64 at = (first + n) % READS_CALLS, was = load_relaxed(&known->keys[at]);
        /* The same: that call was left by a jump. */
        if ((was && (was & ~CALL_BITS) != (key & ~CALL_BITS)) || !cas(&known->keys[at], was, key | CALL_BUSY))
            continue;
        store_relaxed(&known->calls[at].start, start);
        store_relaxed(&known->calls[at].end, end);
        __atomic_store_n((u64_word *)&known->keys[at], key, __ATOMIC_SEQ_CST);
        return 1;
    }
    return 0;
}

struct effect { u64 start, end, why; int shares; };

/* What a system call takes away, at most: memory from `start` to `end`; or, with `why`, more than can be followed. */
static struct effect effect_of(u64 number, u64 di, u64 si, u64 dx, u64 r10, u64 r8)
{
    struct effect none = { 0, 0, 0, 0 }, all = { 0, ALL, 0, 0 }, range = { di, di + si, 0, 0 };
    struct effect children = { 0, ALL, 0, 1 }, child = { 0, ALL, WHY_SHARED, 0 };
    u64 flags = di;
    if (range.end < di)
        range.end = ALL;
    switch ((u32)number) {
    case SYS_MUNMAP:
    case SYS_REMAP_FILE_PAGES:
        return range;
    case SYS_MREMAP:
        if (r10 & MREMAP_FIXED) {
            range.start = di < r8 ? di : r8;
            range.end = di + si > r8 + dx ? di + si : r8 + dx;
        }
        return range.end < range.start ? all : range;
    case SYS_PKEY_MPROTECT:
        if ((u32)r10 != 0xffffffff) {
            all.why = WHY_KEYS;
            return all;
        }
        /* Falls through: as mprotect. */
        __attribute__((fallthrough));
    case SYS_MPROTECT:
        return dx & PROT_EXEC ? all : dx & PROT_READ ? none : range;
    case SYS_BRK:
        range.end = HEAP_END;
        return di ? range : none;
    case SYS_MMAP:
        if (dx & PROT_EXEC)
            return all;
        return r10 & MAP_FIXED && !(r10 & MAP_FIXED_NOREPLACE) ? range : none;
    case SYS_SHMAT:
        return dx & (SHM_REMAP | SHM_EXEC) ? all : none;
    case SYS_MADVISE:
        return dx >= MADV_HWPOISON && dx <= MADV_GUARD_INSTALL ? range : none;
    case SYS_PROCESS_MADVISE:
        return r10 >= MADV_HWPOISON && r10 <= MADV_GUARD_INSTALL ? all : none;
    case SYS_CLONE3:
        if (weir_read_some(&flags, sizeof flags, di) != sizeof flags)
            return none;
        __attribute__((fallthrough));
    case SYS_CLONE:
        if (!(flags & CLONE_VM) || flags & CLONE_THREAD)
            return none;
        return flags & CLONE_VFORK ? children : child;
    case SYS_VFORK:
        return children;
    case SYS_USERFAULTFD:
        all.why = WHY_FAULTS;
        return all;
    case SYS_PKEY_ALLOC:
        all.why = WHY_KEYS;
        return all;
    default:
        return none;
    }
}

void weir_unmapping(struct weir_reads *reads, const u64_word *registers, u64 number)
{
    if (number == NUMBER_IN_AX)
        number = registers[CONTEXT_AX];
    struct effect effect = effect_of(number, registers[CONTEXT_DI], registers[CONTEXT_SI], registers[CONTEXT_DX],
                                     registers[CONTEXT_R10], registers[CONTEXT_R8]);
    if (effect.start == effect.end)
        return;
    u64 key = (registers[CONTEXT_SP] & ~CALL_BITS) | (effect.shares ? CALL_SHARES : 0);
    if (effect.why)
        close_for(reads, effect.why);
    else if (!note(known_of(reads), key, effect.start, effect.end))
        close_for(reads, WHY_CALLS);
    else
        withdraw(reads, effect.start, effect.end, 0);
}

void weir_unmapped(struct weir_reads *reads, const u64_word *registers)
{
    struct weir_known *known = known_of(reads);
    u64 key = registers[CONTEXT_SP] & ~CALL_BITS, first = slot_of(key);
    for (u32 n = 0; n < READS_WINDOW; n++) {
        u64 at = (first + n) % READS_CALLS, was = load_relaxed(&known->keys[at]);
        if (!was || (was & ~CALL_BITS) != key)
            continue;
        /* A child that shares the memory comes here too, before its parent does. */
        if (!(was & CALL_SHARES) || registers[CONTEXT_AX])
            __atomic_store_n((u64_word *)&known->keys[at], 0, __ATOMIC_SEQ_CST);
        return;
    }
}

void weir_withdraw_reads(struct weir_reads *reads) { withdraw(reads, 0, ALL, 0); }

void weir_close_reads(struct weir_reads *reads)
{
    if (load_relaxed(&reads->area))
        close_for(reads, WHY_FILTER);
}
