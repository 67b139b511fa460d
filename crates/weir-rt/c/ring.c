/*
 * RINGBUF: many producers, one consumer (src/segment/ring.rs), records contiguous, no lock, no wake-up.
 *
 * Positions count bytes ever reserved and consumed. A record is an 8-byte header and its payload, padded to 8; the
 * header is {size:32, zero:29, discard:1, busy:1, used:1}. Free space is filled with the word `tag(lap)`, even and
 * different in each lap: the consumer writes it over what it consumed, before it moves its position. So
 * - a producer claims space by one CAS on the header at the tail, from this lap's tag to a busy header; whoever finds a
 *   used header at the tail moves the tail past it, so a producer that dies or is interrupted holds up nobody;
 * - a producer that slept through a lap finds another word than it expects (a payload equals a tag by chance with
 *   probability 2^-63: tags start at the session's random seed) and starts again.
 * A record that would cross the end is preceded by a discarded one that fills the rest of the lap.
 */
#include "weir.h"

#define USED 1ul
#define BUSY 2ul
#define DISCARD 4ul
/* Each failed try means that another producer succeeded, or that the segment is corrupted. */
#define TRIES_MAX 4096u

INLINE u64 tag(const struct weir_map *map, u64 position)
{
    return map->seed + (position & ~(u64)(map->max_entries - 1));
}
INLINE u64 record_bytes(u64 size) { return (size + 8 + 7) & ~7ul; }

/* Claims a record of `size` bytes: the address of its header, or 0 with the reason counted. */
static u64 claim(const struct weir_map *map, u64 size)
{
    struct weir_control *control = control_of(map);
    u64 bytes = map->max_entries;
    u64 wanted = record_bytes(size);
    if (size > bytes - 8)
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
        u64 offset = position & (bytes - 1) & ~7ul;
        u64 header = map->data + offset;
        u64 word = load((void *)header);
        if (word != tag(map, position)) {
            if (word & USED) {
                u64 taken = record_bytes(word >> 32);
                if (taken <= bytes - offset)
                    cas(&control->free_or_producer, position, position + taken);
            }
            continue;
        }
        u64 left = bytes - offset;
        u64 need = wanted <= left ? wanted : left;
        if (need > bytes - in_use)
            goto dropped;
        u64 claimed = wanted <= left ? size << 32 | BUSY | USED : (left - 8) << 32 | DISCARD | USED;
        if (cas((void *)header, word, claimed)) {
            cas(&control->free_or_producer, position, position + need);
            if (wanted <= left)
                return header;
        }
    }
    count_at((u64)&control->contended);
dropped:
    count_at((u64)&control->dropped);
    return 0;
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
    u64 header = claim(map, size);
    if (!header)
        return 0;
    zero_words(header + 8, (u32)size);
    return header + 8;
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

s64 weir_ringbuf_output(const struct weir_map *map, const void *data, u64 size, u64 flags)
{
    if (flags & ~(u64)(BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP))
        return -EINVAL;
    u64 header = claim(map, size);
    if (!header)
        return -EAGAIN;
    copy_in(header + 8, data, (u32)size);
    finish((void *)(header + 8), 0);
    return 0;
}

/* Any other number of a question is answered with 0. */
u64 weir_ringbuf_query(const struct weir_map *map, u64 what)
{
    struct weir_control *control = control_of(map);
    u64 consumed = load(&control->spare_or_consumer);
    switch (what) {
    case BPF_RB_AVAIL_DATA:
        return load(&control->free_or_producer) - consumed;
    case BPF_RB_RING_SIZE:
        return map->max_entries;
    case BPF_RB_CONS_POS:
        return consumed;
    case BPF_RB_PROD_POS:
        return load(&control->free_or_producer);
    default:
        return 0;
    }
}
