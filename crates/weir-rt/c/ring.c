/*
 * RINGBUF, and the rings of PERF_EVENT_ARRAY, one for each CPU: many producers, one consumer (src/segment/ring.rs),
 * records contiguous, no lock, no wake-up.
 *
 * A RINGBUF with a ring for each CPU (its last one is shared) has records with two words in front: the time stamp
 * counter, and the header. The rings of CPUs are written by generated code alone, inside restartable sections
 * (weir-jit's src/records.rs); what comes here writes the shared one. Where they overwrite, it claims one of a few others
 * for as long as it reserves, and does there what generated code does in the ring of a CPU.
 *
 * Positions count bytes ever reserved and consumed. A record is an 8-byte header and its payload, padded to 8; the
 * header is {size:32, zero:29, discard:1, busy:1, used:1}. Free space is filled with the word `tag(lap)`, even and
 * different in each lap: the consumer writes it over what it consumed, before it moves its position. So
 * - a producer claims space by one CAS on the header at the tail, from this lap's tag to a busy header; whoever finds a
 *   used header at the tail moves the tail past it, so a producer that dies or is interrupted holds up nobody;
 * - a producer that slept through a lap finds another word than it expects (a payload equals a tag by chance with
 *   probability 2^-63: tags start at the session's random seed) and starts again.
 * A record that would cross the end is preceded by a discarded one that fills the rest of the lap.
 *
 * Time stamps of one ring never fall: the counter is read after the tail was, so after all earlier claims, and before
 * the CAS; another producer's claim in between makes that fail, and the counter is read again.
 */
#include "weir.h"

#define USED 1ul
#define BUSY 2ul
#define DISCARD 4ul
/* Bytes before a payload: the header; or the time and the header. */
#define HEAD 8ul
#define TIMED_HEAD 16ul
/* Each failed try means that another producer succeeded, or that the segment is corrupted. */
#define TRIES_MAX 4096u

/* One ring: of a map, or of one CPU in a map. `bytes` is a power of two. `head`: bytes before the payload of a record,
 * of which the last 8 are the header; records are multiples of it. */
struct ring { struct weir_control *control; u64 data; u64 bytes; u64 seed; u64 head; };

/* A CPU's ring has its control block before its data. */
INLINE struct ring lane_of(const struct weir_map *map, u32 lane, u64 head)
{
    u64 data = map->data + lane * map->lane_stride;
    struct weir_control *control = (struct weir_control *)(data - sizeof(struct weir_control));
    return (struct ring){ control, data, map->elem_stride, map->seed, head };
}
INLINE int has_lanes(const struct weir_map *map) { return map->lanes > 1; }
/* The ring of a RINGBUF that any code may write to. */
INLINE struct ring ring_of(const struct weir_map *map)
{
    if (has_lanes(map))
        return lane_of(map, map->lanes - 1, TIMED_HEAD);
    return (struct ring){ control_of(map), map->data, map->max_entries, map->seed, HEAD };
}
INLINE u64 tag(const struct ring *ring, u64 position) { return ring->seed + (position & ~(ring->bytes - 1)); }
INLINE u64 record_bytes(const struct ring *ring, u64 size)
{
    return (size + ring->head + ring->head - 1) & ~(ring->head - 1);
}
/* The time stamp counter, read after everything before it; 0 where it may not be read. */
INLINE u64 ticks(void)
{
    if (!(weir_island.flags & ISLAND_READS_TICKS) || filter_now() == FILTER_STRICT)
        return 0;
    return time_stamp_in_order();
}

/* Claims a record of `size` bytes: the address of its payload, or 0 with the reason counted. */
static u64 claim(const struct ring *ring, u64 size)
{
    struct weir_control *control = ring->control;
    u64 bytes = ring->bytes;
    u64 wanted = record_bytes(ring, size);
    u64 before = ring->head - 8;
    if (size > bytes - ring->head)
        goto dropped;
    for (u32 tries = 0; tries < TRIES_MAX; tries++) {
        u64 position = load(&control->free_or_producer);
        /* Before the header is looked at: where the ring is exactly full, the header at the tail is that of the oldest
         * record, a lap behind, and no claim to be helped. And what the consumer freed it has tagged before. */
        u64 in_use = position - load(&control->spare_or_consumer);
        if (in_use == bytes)
            goto dropped;
        if (in_use > bytes)
            continue; /* the position is old, or the segment corrupted */
        u64 offset = position & (bytes - 1) & ~(ring->head - 1);
        u64 header = ring->data + offset + before;
        u64 word = load((void *)header);
        if (word != tag(ring, position)) {
            if (word & USED) {
                u64 taken = record_bytes(ring, word >> 32);
                if (taken <= bytes - offset)
                    cas(&control->free_or_producer, position, position + taken);
            }
            continue;
        }
        if (wanted > bytes - in_use)
            goto dropped;
        u64 left = bytes - offset;
        u64 need = wanted <= left ? wanted : left;
        u64 claimed = wanted <= left ? size << 32 | BUSY | USED : (left - ring->head) << 32 | DISCARD | USED;
        u64 now = before ? ticks() : 0;
        if (cas((void *)header, word, claimed)) {
            cas(&control->free_or_producer, position, position + need);
            if (wanted > left)
                continue;
            if (before)
                store_relaxed((void *)(header - 8), now);
            return header + 8;
        }
    }
    count_at((u64)&control->contended);
dropped:
    count_at((u64)&control->dropped);
    return 0;
}

/* Which of the two counts of overwritten records holds: bit of the position of the oldest record. */
#define COUNT_BIT 1ul

INLINE int overwrites(const struct weir_map *map) { return map->all_cpus != 0; }

/* A discarded record of `bytes` bytes behind the last one. */
INLINE void fill(const struct ring *ring, u64 tail, u64 bytes)
{
    u64 header = ring->data + (tail & (ring->bytes - 1)) + 8;
    store((void *)header, (bytes - TIMED_HEAD) << 32 | DISCARD | USED);
    store(&ring->control->free_or_producer, tail + bytes);
}

/* One step towards room behind `tail`, where `in_use` bytes leave too little: as in generated code, which see. 0: there
 * is nothing but records that are being written; `passed` counts their bytes. */
static int make_room(const struct ring *ring, u64 tail, u64 head, u64 in_use, u64 *passed)
{
    struct weir_control *control = ring->control;
    u64 bytes = ring->bytes, which = head & COUNT_BIT;
    if (in_use > bytes) {
        /* Somebody died behind the step over a record that is being written. */
        store(&control->spare_or_consumer, (tail - bytes) | which);
        return 1;
    }
    u64 word = load((void *)(ring->data + (head & (bytes - TIMED_HEAD)) + 8));
    u64 taken = record_bytes(ring, word >> 32);
    if (word & BUSY) {
        u64 gap = bytes - in_use, left = bytes - (tail & (bytes - 1));
        if (gap) {
            fill(ring, tail, gap < left ? gap : left);
            return 1;
        }
        *passed += taken;
        if (*passed > bytes)
            return 0;
        store(&control->free_or_producer, tail + taken);
        return 1;
    }
    if (taken > in_use) {
        count_at((u64)&control->corrupt);
        store(&control->spare_or_consumer, tail | which);
        return 1;
    }
    u64 count = load_relaxed(&control->overwritten[which]) + !(word & DISCARD);
    store_relaxed(&control->overwritten[which ^ COUNT_BIT], count);
    store(&control->spare_or_consumer, (head & ~15ul) + taken + (which ^ COUNT_BIT));
    return 1;
}

/* Reserves `size` bytes in a ring that nobody else writes to now: the address of its payload, or 0. */
static u64 reserve_alone(const struct ring *ring, u64 size)
{
    struct weir_control *control = ring->control;
    u64 bytes = ring->bytes, wanted = record_bytes(ring, size), passed = 0;
    for (;;) {
        u64 tail = load(&control->free_or_producer) & ~15ul;
        u64 head = load(&control->spare_or_consumer);
        u64 in_use = tail - (head & ~15ul);
        if (in_use > bytes - wanted) {
            if (!make_room(ring, tail, head, in_use, &passed))
                return 0;
            continue;
        }
        u64 offset = tail & (bytes - 1);
        if (wanted > bytes - offset) {
            fill(ring, tail, bytes - offset);
            continue;
        }
        /* What follows must not be seen before the oldest records have given way. */
        __atomic_thread_fence(__ATOMIC_RELEASE);
        u64 record = ring->data + offset;
        store_relaxed((void *)record, ticks());
        store((void *)(record + 8), size << 32 | BUSY | USED);
        store(&control->free_or_producer, tail + wanted);
        return record + TIMED_HEAD;
    }
}

/* The same in one of the rings that are no CPU's. Where each has somebody at it, who may be stopped, nothing is reserved. */
static u64 reserve_spare(const struct weir_map *map, u64 size)
{
    struct ring ring;
    for (u32 lane = map->all_cpus; lane < map->lanes; lane++) {
        ring = lane_of(map, lane, TIMED_HEAD);
        if (size > ring.bytes - TIMED_HEAD)
            break;
        if (!cas(&ring.control->writer, 0, 1))
            continue;
        u64 record = reserve_alone(&ring, size);
        store(&ring.control->writer, 0);
        if (record)
            return record;
        break;
    }
    count_at((u64)&ring.control->dropped);
    return 0;
}

/* In the ring of `map` that any code may write to. */
static u64 claim_of(const struct weir_map *map, u64 size)
{
    if (overwrites(map))
        return reserve_spare(map, size);
    struct ring ring = ring_of(map);
    return claim(&ring, size);
}

INLINE u64 finish(void *record, u64 discard)
{
    u64 *header = (u64 *)record - 1;
    store(header, (load_relaxed(header) & ~BUSY) | discard);
    return 0;
}

u64 weir_ringbuf_reserve(const struct weir_map *map, u64 size, u64 flags)
{
    if (flags)
        return 0;
    u64 record = claim_of(map, size);
    if (record)
        zero_words(record, (u32)size);
    return record;
}

u64 weir_ringbuf_submit(void *record, u64 flags)
{
    (void)flags;
    return finish(record, 0);
}

u64 weir_ringbuf_discard(void *record, u64 flags)
{
    (void)flags;
    return finish(record, DISCARD);
}

/* Fills what was claimed; `full`: nothing was. */
static s64 output(u64 record, const void *data, u64 size, s64 full)
{
    if (!record)
        return full;
    copy_in(record, data, (u32)size);
    finish((void *)record, 0);
    return 0;
}

s64 weir_ringbuf_output(const struct weir_map *map, const void *data, u64 size, u64 flags)
{
    if (flags & ~(u64)(BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP))
        return -EINVAL;
    return output(claim_of(map, size), data, size, -EAGAIN);
}

/* As in the kernel a CPU's ring takes what runs on that CPU alone; but a thread that is moved between the two lines
 * below may write to the one it left, which is as good. */
s64 weir_perf_event_output(const void *context, const struct weir_map *map, u64 flags, const void *data, u64 size)
{
    (void)context;
    u32 cpu = (u32)weir_get_smp_processor_id();
    u32 index = (u32)flags;
    if (flags & ~(u64)BPF_F_INDEX_MASK)
        return -EINVAL;
    if (index == BPF_F_CURRENT_CPU)
        index = cpu;
    if (index >= map->max_entries)
        return -E2BIG;
    if (index >= map->lanes)
        return -ENOENT;
    if (index != cpu)
        return -EOPNOTSUPP;
    struct ring ring = lane_of(map, index, HEAD);
    return output(claim(&ring, size), data, size, -ENOSPC);
}

/* Any other number of a question is answered with 0. Of a ring for each CPU: of all of them together. */
/* ---- waiting for room ---- */

/* Looks before the kernel is asked to wait, some microseconds; how long it waits at a time; and in how many parts a ring is thought of, of which
 * one is left for those that have seen room and were preempted before they took it. */
enum { SPINS = 512, NAP_NS = 200000, PARTS = 4 };
/* Of the stack, what is looked at for a signal handler: in pieces. */
enum { HANDLER_BYTES = 16 << 10, PIECE_BYTES = 256 };

INLINE int is_short(const struct ring *ring)
{
    u64 in_use = load(&ring->control->free_or_producer) - load(&ring->control->spare_or_consumer);
    return in_use > ring->bytes - ring->bytes / PARTS && in_use <= ring->bytes;
}

/* The ring of this CPU, or the one that all share, if it is short of room. */
INLINE int find_short(const struct weir_map *map, struct ring *ring)
{
    if (has_lanes(map)) {
        u32 cpu = (u32)weir_get_smp_processor_id();
        if (cpu < map->lanes - 1) {
            *ring = lane_of(map, cpu, TIMED_HEAD);
            if (is_short(ring))
                return 1;
        }
    }
    *ring = ring_of(map);
    return is_short(ring);
}

/* Somebody has waited in vain for the reader to go on from here. */
INLINE int was_waited_for(const struct ring *ring)
{
    return load_relaxed(&ring->control->waited) == load(&ring->control->spare_or_consumer) + 1;
}

/* Whether this runs in a signal handler, or that cannot be told: somewhere above is what handlers return to. */
static int may_be_in_handler(void)
{
    u64 words[PIECE_BYTES / 8];
    u64 own = weir_island.filter - HEADER_FILTER, at = (u64)words;
    u64 first = load_relaxed((const u8 *)(own + PLACE_RESTORERS)), second = load_relaxed((const u8 *)(own + PLACE_RESTORERS + 8));
    if (!first)
        return 1;
    for (u64 end = at + HANDLER_BYTES; at < end; at += PIECE_BYTES) {
        u64 bytes = weir_read_some(words, PIECE_BYTES, at);
        for (u64 n = 0; n < bytes / 8; n++)
            if (words[n] == first || (second && words[n] == second))
                return 1;
        if (bytes < PIECE_BYTES)
            return 0;
    }
    return 0;
}

INLINE int controller_lives(void) { return (u16)load_relaxed((void *)(weir_island.segment + HEADER_LEASE)) != 0; }

/* Waits until this CPU's ring has room, for `ms` milliseconds at most; where somebody has waited so long in vain, until it is read again, not at
 * all. Never in a signal handler: what it interrupted may be a record that is being written, which holds up the reader. */
static __attribute__((noinline)) void wait_for_room(const struct weir_map *map, u64 ms)
{
    struct ring ring;
    struct timespec now = { 0, 0 }, until = { 0, 0 };
    for (u32 spin = 0; spin < SPINS; spin++) {
        __builtin_ia32_pause();
        if (!find_short(map, &ring) || was_waited_for(&ring))
            return;
    }
    if (!weir_island.segment || !weir_island.filter || !may_call_kernel() || may_be_in_handler())
        return;
    count(COUNT_OTHER_CALLS);
    while (find_short(map, &ring) && controller_lives() && may_call_kernel()) {
        u64 consumed = load(&ring.control->spare_or_consumer);
        if (was_waited_for(&ring))
            return;
        syscall2(SYS_CLOCK_GETTIME, CLOCK_MONOTONIC, (u64)&now);
        s64 ns = now.seconds * SECOND + now.nanoseconds;
        s64 end = until.seconds * SECOND + until.nanoseconds;
        if (!end) {
            end = ns + (s64)ms * 1000000;
            until = (struct timespec){ end / SECOND, end % SECOND };
        }
        if (ns >= end) {
            store_relaxed(&ring.control->waited, consumed + 1);
            return;
        }
        s64 nap = ns + NAP_NS < end ? ns + NAP_NS : end;
        now = (struct timespec){ nap / SECOND, nap % SECOND };
        syscall6(SYS_FUTEX, (u64)&ring.control->spare_or_consumer, FUTEX_WAIT_BITSET, (u32)consumed, (u64)&now, 0, 0xffffffff);
    }
}

u64 weir_ringbuf_query(const struct weir_map *map, u64 what)
{
    struct ring full;
    if (what & RB_WAIT && !(what >> 32)) {
        if (find_short(map, &full) && !was_waited_for(&full))
            wait_for_room(map, what & (RB_WAIT - 1));
        return 0;
    }
    struct ring shared = ring_of(map);
    u64 consumed = 0, produced = 0, bytes = 0;
    for (u32 lane = 0; lane < map->lanes; lane++) {
        struct ring ring = has_lanes(map) ? lane_of(map, lane, TIMED_HEAD) : shared;
        consumed += load(&ring.control->spare_or_consumer) & ~(overwrites(map) ? COUNT_BIT : 0);
        produced += load(&ring.control->free_or_producer);
        bytes += ring.bytes;
    }
    switch (what) {
    case BPF_RB_AVAIL_DATA:
        return produced - consumed;
    case BPF_RB_RING_SIZE:
        return bytes;
    case BPF_RB_CONS_POS:
        return consumed;
    case BPF_RB_PROD_POS:
        return produced;
    default:
        return 0;
    }
}
