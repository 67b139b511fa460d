/*
 * Going over the elements of a map, one call an element: what for_each_map_elem stands on.
 *
 * Array elements come by index. Those of a hash come by bucket, and in a bucket by the 63 bits of their hash: an order
 * that does not change when elements come, go and are replaced. So a key that is there all the time comes exactly once,
 * whatever happens in between (of two keys with one hash, a chance of 2^-63, one does not come); one that is deleted
 * or inserted meanwhile comes once, or not at all. Nothing is held
 * between two calls but the place in that order, which the caller keeps.
 *
 * A bucket that is disturbed too often, or is no chain, ends the whole: counted as contended or corrupt. So the steps of
 * all calls together are bounded by the buckets of the map and the elements that come.
 */
#include "hash.h"

/* Elements that may come beyond the map's number of entries, where others come as fast as they go: with a bound, every
 * run ends (LOOP_ROUNDS_MAX of weir-ebpf). */
#define SURPLUS_ROUNDS_MAX (8u * 1024 * 1024)

/* The node of the bucket that comes next behind `at`; 0: none. *ends: nor will there be one in other buckets. */
static struct node *next_in_bucket(const struct weir_map *map, struct weir_cursor *at, int *ends)
{
    void *head = bucket_of(map, at->bucket);
    struct found found;
    u32 steps = STEPS_MAX;
    struct node *best;
    u64 best_hash;
restart:
    at_head(&found, head);
    best = 0;
    best_hash = 0;
    while (steps) {
        --steps;
        switch (step_to(map, head, &found)) {
        case STEP_NODE:
            break;
        case STEP_GONE:
            continue;
        case STEP_END:
            if (best)
                at->hash = best_hash + 1;
            return best;
        case STEP_AGAIN:
            goto restart;
        case STEP_CORRUPT:
            *ends = 1;
            return 0;
        }
        u64 hash = load_relaxed(&found.node->hash) & ~NODE_USED;
        /* The hash was that of the key that stands in this chain. */
        if (!is_still_there(&found))
            goto restart;
        if (hash >= at->hash && (!best || hash < best_hash)) {
            best = found.node;
            best_hash = hash;
        }
        step_over(&found);
    }
    count_at((u64)&control_of(map)->contended);
    *ends = 1;
    return 0;
}

static u64 next_of_hash(const struct weir_map *map, struct weir_cursor *at)
{
    int ends = 0;
    while (at->bucket <= map->bucket_mask && !ends) {
        void *head = (void *)(map->buckets + 8 * at->bucket);
        struct node *node = load(head) & LINK_INDEX ? next_in_bucket(map, at, &ends) : 0;
        if (node) {
            at->key = (u64)node->key;
            return value_of(map, node);
        }
        at->bucket++;
        at->hash = 0;
    }
    at->bucket = (u64)map->bucket_mask + 1;
    return 0;
}

static u64 next_of_array(const struct weir_map *map, struct weir_cursor *at)
{
    if (at->bucket >= map->max_entries)
        return 0;
    at->index = at->bucket++;
    at->key = (u64)&at->index;
    return map->data + at->index * map->elem_stride;
}

u64 weir_map_next(const struct weir_map *map, struct weir_cursor *at, u64 lane)
{
    u64 value = 0;
    if (at->count == (u64)map->max_entries + SURPLUS_ROUNDS_MAX)
        return 0;
    if (is_hash(map))
        value = next_of_hash(map, at);
    else if (is_array(map))
        value = next_of_array(map, at);
    if (!value)
        return 0;
    at->count++;
    return lane < map->lanes ? value + lane * map->lane_stride : value;
}

/* The kernel's helpers have no such one (helper.rs of weir-ebpf). Of a bucket all hashes end in its number, so that one hash says how far
 * it has come: `at` is the least that is still to come in the bucket of that number. */
u64 weir_map_next_key(const struct weir_map *map, u64 at, u8 *key, u64 size)
{
    struct weir_cursor cursor = { 0 };
    cursor.bucket = at & map->bucket_mask;
    cursor.hash = at;
    if (is_hash(map) && size == map->key_bytes) {
        while (next_of_hash(map, &cursor)) {
            copy_to(key, cursor.key, map->key_bytes);
            /* It is not, where the node was given to another meanwhile. */
            if (hash_of(map, key) + 1 != cursor.hash)
                continue;
            u64 next = cursor.hash + map->bucket_mask;
            if (next < NODE_USED)
                return next;
            /* No hash is so large. */
            return cursor.bucket < map->bucket_mask ? cursor.bucket + 1 : NODE_USED | map->bucket_mask;
        }
    }
    zero_bytes(key, (u32)size);
    return 0;
}
