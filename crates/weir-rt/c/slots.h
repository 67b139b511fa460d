/*
 * What queue.c and stack.c share: slots that name nodes, and nodes that hold one value each.
 *
 * There are max_entries slots and so many nodes, and spare ones: each push that is under way holds one, and so does
 * each pop, until it has copied the value. A thread that dies meanwhile loses its node. Only when all spare ones are
 * lost or in use, a push is given up for want of a node.
 */
#ifndef WEIR_SLOTS_H
#define WEIR_SLOTS_H
#include "hash.h"

/* Tries of one operation. Each that fails means that another one succeeded, or that the segment is corrupted. */
#define TRIES_MAX 4096u
/* Copies of one peek, of a value that another thread pops meanwhile: up to 1 MiB each. */
#define COPIES_MAX 64u

INLINE int is_push_flag(u64 flags) { return flags == BPF_ANY || flags == BPF_EXIST; }

/* The word of a slot; 0 out of bounds. */
INLINE void *slot_at(const struct weir_map *map, u64 index)
{
    return index < map->max_entries ? (void *)(map->buckets + 8 * index) : 0;
}

/* A node with the value, that nobody else can see; 0: none left. */
INLINE struct node *node_of(const struct weir_map *map, const u8 *value)
{
    struct weir_control *control = control_of(map);
    struct node *node = weir_node_take(map, &control->free_or_producer, &control->fresh, 0, map->node_count);
    if (node)
        copy_in(value_of(map, node), value, map->value_bytes);
    return node;
}

INLINE void release(const struct weir_map *map, struct node *node) { weir_hash_release(map, node, 0); }

/* After a slot or top that names `word` was taken out: its node is this thread's alone, as the segment is sound. */
INLINE s64 hand_over(const struct weir_map *map, u64 word, u8 *value)
{
    struct node *node = node_at(map, word);
    if (!node) {
        count_at((u64)&control_of(map)->corrupt);
        zero_bytes(value, map->value_bytes);
        return -EBUSY;
    }
    copy_to(value, value_of(map, node), map->value_bytes);
    release(map, node);
    return 0;
}

/* An end without a value: the caller's memory holds zeros, as in the kernel. */
INLINE s64 without_value(const struct weir_map *map, u8 *value, s64 status)
{
    if (status == -EBUSY)
        count_at((u64)&control_of(map)->contended);
    zero_bytes(value, map->value_bytes);
    return status;
}

/* An end of a push that did not happen. */
INLINE s64 without_push(const struct weir_map *map, struct node *node, s64 status)
{
    struct weir_control *control = control_of(map);
    count_at(status == -E2BIG ? (u64)&control->full : (u64)&control->contended);
    if (node)
        release(map, node);
    return status;
}

#endif
