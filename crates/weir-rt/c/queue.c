/*
 * QUEUE: a ring of slots, without locks. A slot names the node that holds the element; nodes come from a pool.
 *
 * Positions count what was ever pushed (tail) and popped (head), as {lap:38, zero:1, slot:25}. A slot's word is
 * {lap:38, full:1, node + 1:25}: the element of that lap, or room for it. So each word says alone whether position p
 * was pushed, and whether it was popped, whatever head and tail say:
 * - a push is one CAS on the slot at the tail, from "room for this lap" to the element; BPF_EXIST on a full queue
 *   is one CAS there from the element of the lap before, which is the oldest, to the new one;
 * - a pop is one CAS on the slot at the head, from the element to "room for the next lap";
 * - whoever finds the slot at head or tail done moves that position on, so a thread that dies or is interrupted
 *   between the two steps holds up nobody.
 * A position that was read is at most too old, and then the slot's lap tells. Nodes are read or freed by the one whose
 * CAS took them out; a peek copies, and looks at the slot again.
 *
 * Elements come out in the order of the pushes' CAS, each once. All-zero memory is an empty queue.
 */
#include "slots.h"

#define FULL (1ul << 25)
#define LAP (1ul << 26)

INLINE u64 lap_of(u64 position) { return position & ~(LAP - 1); }
INLINE u64 after(const struct weir_map *map, u64 position)
{
    return (position & LINK_INDEX) + 1 < map->max_entries ? position + 1 : lap_of(position) + LAP;
}

/* What stands at a position, as one look at it found. */
struct place {
    u64 position;
    void *slot;
    u64 word;
};

/* 0: the position is none of a slot. */
INLINE int look(const struct weir_map *map, const u64 *end, struct place *at)
{
    at->position = load(end);
    at->slot = slot_at(map, at->position & (LAP - 1));
    if (!at->slot) {
        count_at((u64)&control_of(map)->corrupt);
        return 0;
    }
    at->word = load(at->slot);
    return 1;
}
/* The slot holds an element of the lap before, of this one, or room for one of this lap. */
INLINE int holds_older(const struct place *at)
{
    return (at->word & ~LINK_INDEX) == ((lap_of(at->position) - LAP) | FULL);
}
INLINE int holds(const struct place *at) { return (at->word & ~LINK_INDEX) == (lap_of(at->position) | FULL); }
INLINE int has_room(const struct place *at) { return at->word == lap_of(at->position); }
INLINE void move_on(const struct weir_map *map, u64 *end, const struct place *at)
{
    cas(end, at->position, after(map, at->position));
}

/* After an element was pushed over the oldest one, the head is at least here. Each try that fails is the head moving
 * on; if it is left behind all the same, pops and later pushes move it. */
INLINE void raise_head(const struct weir_map *map, u64 least)
{
    u64 *head = &control_of(map)->spare_or_consumer;
    for (u32 tries = 0; tries < 16; tries++) {
        u64 now = load(head);
        if ((s64)(least - now) <= 0 || cas(head, now, least))
            return;
    }
}

s64 weir_queue_push(const struct weir_map *map, const u8 *value, u64 flags)
{
    u64 *tail = &control_of(map)->tail;
    struct node *node = 0;
    struct place at;
    if (!is_push_flag(flags))
        return -EINVAL;
    for (u32 tries = 0; tries < TRIES_MAX && look(map, tail, &at); tries++) {
        int is_full = holds_older(&at);
        if (!is_full && !has_room(&at)) {
            move_on(map, tail, &at);
            continue;
        }
        if (is_full && flags != BPF_EXIST)
            return without_push(map, node, -E2BIG);
        if (!node && !(node = node_of(map, value)))
            break;
        if (!cas(at.slot, at.word, lap_of(at.position) | FULL | (node_index(map, node) + 1)))
            continue;
        move_on(map, tail, &at);
        if (is_full) {
            raise_head(map, after(map, at.position - LAP));
            struct node *oldest = node_at(map, at.word);
            if (oldest)
                release(map, oldest);
        }
        return 0;
    }
    return without_push(map, node, -EBUSY);
}

s64 weir_queue_pop(const struct weir_map *map, u8 *value)
{
    u64 *head = &control_of(map)->spare_or_consumer;
    struct place at;
    for (u32 tries = 0; tries < TRIES_MAX && look(map, head, &at); tries++) {
        if (has_room(&at))
            return without_value(map, value, -ENOENT);
        if (!holds(&at)) {
            move_on(map, head, &at);
            continue;
        }
        if (!cas(at.slot, at.word, lap_of(at.position) + LAP))
            continue;
        move_on(map, head, &at);
        return hand_over(map, at.word, value);
    }
    return without_value(map, value, -EBUSY);
}

s64 weir_queue_peek(const struct weir_map *map, u8 *value)
{
    u64 *head = &control_of(map)->spare_or_consumer;
    u32 copies = 0;
    struct place at;
    for (u32 tries = 0; tries < TRIES_MAX && copies < COPIES_MAX && look(map, head, &at); tries++) {
        if (has_room(&at))
            return without_value(map, value, -ENOENT);
        struct node *node = node_at(map, at.word);
        if (!holds(&at) || !node) {
            move_on(map, head, &at);
            continue;
        }
        copy_to(value, value_of(map, node), map->value_bytes);
        read_fence();
        if (load(at.slot) == at.word)
            return 0;
        copies++;
    }
    return without_value(map, value, -EBUSY);
}
