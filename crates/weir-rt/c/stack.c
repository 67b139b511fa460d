/*
 * STACK: slots from the oldest element to the newest, round and round, and a top, without locks. Slots and top name
 * the nodes that hold the elements; nodes come from a pool.
 *
 * The top is two words, changed as one by cmpxchg16b: the link {version:39, node + 1:25} to the newest element, and
 * its place {elements:32, slot:32}. The newest element stands in the top alone at first; who changes the top next
 * writes it into its slot before ("settles" it), so that a slot below the top always names its element. A slot's word
 * is a link, too: settling is one CAS from a word that was read while the top was the same, so one that comes late
 * fails, because the top has not been left without the slot changed.
 *
 * - A push is one CAS of the top to the next slot. BPF_EXIST on a full stack is the same: the next slot is that of the
 *   oldest element, whose node it frees.
 * - A pop is one CAS of the top to the element in the slot below.
 * - Whoever finds the newest element not yet settled does it, so a thread that dies or is interrupted anywhere holds
 *   up nobody.
 *
 * Elements come out newest first, each once. All-zero memory is an empty stack.
 */
#include "slots.h"

struct top {
    u64 link;
    u64 place;
};

INLINE u64 slot_of(const struct top *top) { return top->place & 0xffffffff; }
INLINE u64 elements_of(const struct top *top) { return top->place >> 32; }
INLINE u64 place_of(u64 elements, u64 slot) { return elements << 32 | slot; }
INLINE u64 slot_after(const struct weir_map *map, u64 slot) { return slot + 1 < map->max_entries ? slot + 1 : 0; }
INLINE u64 slot_before(const struct weir_map *map, u64 slot) { return slot ? slot - 1 : map->max_entries - 1; }

enum look { LOOKED, DISTURBED, CORRUPT };

/* Both words of the top, of one moment. */
INLINE enum look look(const struct weir_map *map, struct top *top)
{
    struct weir_control *control = control_of(map);
    top->link = load(&control->spare_or_consumer);
    top->place = load(&control->top_place);
    if (load(&control->spare_or_consumer) != top->link)
        return DISTURBED;
    int is_possible = slot_of(top) < map->max_entries && elements_of(top) <= map->max_entries;
    if (is_possible && (elements_of(top) == 0 || node_at(map, top->link)))
        return LOOKED;
    count_at((u64)&control->corrupt);
    return CORRUPT;
}

/* The newest element into its slot. 0: somebody changed the top or the slot meanwhile. */
INLINE int settle(const struct weir_map *map, const struct top *top)
{
    if (elements_of(top) == 0)
        return 1;
    void *slot = slot_at(map, slot_of(top));
    u64 word = load(slot);
    if (load(&control_of(map)->spare_or_consumer) != top->link)
        return 0;
    return (word & LINK_INDEX) == (top->link & LINK_INDEX) || cas(slot, word, link_to(word, top->link));
}

INLINE int change(const struct weir_map *map, const struct top *from, u64 node, u64 place)
{
    return cas_pair(&control_of(map)->spare_or_consumer, from->link, from->place, link_to(from->link, node), place);
}

s64 weir_stack_push(const struct weir_map *map, const u8 *value, u64 flags)
{
    struct node *node = 0;
    struct top top;
    if (!is_push_flag(flags))
        return -EINVAL;
    for (u32 tries = 0; tries < TRIES_MAX; tries++) {
        enum look looked = look(map, &top);
        if (looked == CORRUPT)
            break;
        if (looked == DISTURBED)
            continue;
        u64 elements = elements_of(&top);
        int is_full = elements == map->max_entries;
        if (is_full && flags != BPF_EXIST)
            return without_push(map, node, -E2BIG);
        if (!settle(map, &top))
            continue;
        if (!node && !(node = node_of(map, value)))
            break;
        u64 slot = slot_after(map, slot_of(&top));
        u64 oldest = load(slot_at(map, slot));
        if (!change(map, &top, node_index(map, node) + 1, place_of(is_full ? elements : elements + 1, slot)))
            continue;
        if (is_full && node_at(map, oldest))
            release(map, node_at(map, oldest));
        return 0;
    }
    return without_push(map, node, -EBUSY);
}

s64 weir_stack_pop(const struct weir_map *map, u8 *value)
{
    struct top top;
    for (u32 tries = 0; tries < TRIES_MAX; tries++) {
        enum look looked = look(map, &top);
        if (looked == CORRUPT)
            break;
        if (looked == DISTURBED)
            continue;
        u64 elements = elements_of(&top);
        if (elements == 0)
            return without_value(map, value, -ENOENT);
        if (!settle(map, &top))
            continue;
        u64 slot = slot_before(map, slot_of(&top));
        u64 below = elements > 1 ? load(slot_at(map, slot)) : 0;
        if (change(map, &top, below, place_of(elements - 1, slot)))
            return hand_over(map, top.link, value);
    }
    return without_value(map, value, -EBUSY);
}

s64 weir_stack_peek(const struct weir_map *map, u8 *value)
{
    struct top top;
    u32 copies = 0;
    for (u32 tries = 0; tries < TRIES_MAX && copies < COPIES_MAX; tries++) {
        enum look looked = look(map, &top);
        if (looked == CORRUPT)
            break;
        if (looked == DISTURBED)
            continue;
        if (elements_of(&top) == 0)
            return without_value(map, value, -ENOENT);
        copy_to(value, value_of(map, node_at(map, top.link)), map->value_bytes);
        read_fence();
        if (load(&control_of(map)->spare_or_consumer) == top.link)
            return 0;
        copies++;
    }
    return without_value(map, value, -EBUSY);
}
