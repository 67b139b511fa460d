/*
 * What only the controller does with a hash map: consistent copies of values, for reading and dumping.
 */
#include "hash.h"

/* The value as its reader sees it: words summed over lanes, or each lane's one after the other. */
static void copy_out(const struct weir_map *map, const struct node *node, u64 *to, u64 each_lane)
{
    u64 at = value_of(map, node);
    u32 count = words(map->value_bytes);
    for (u32 lane = 0; each_lane && lane < map->lanes; lane++)
        for (u32 n = 0; n < count; n++)
            to[lane * count + n] = load_relaxed((void *)(at + lane * map->lane_stride + 8ul * n));
    if (each_lane)
        return;
    for (u32 n = 0; n < count; n++) {
        u64 sum = 0;
        for (u32 lane = 0; lane < map->lanes; lane++)
            sum += load_relaxed((void *)(at + lane * map->lane_stride + 8ul * n));
        to[n] = sum;
    }
}

/*
 * Copies the entries of one bucket: for each, `entry_words` words in `out`: node index, key words, value words.
 * Returns their number, or -EBUSY; entries beyond `capacity` are counted, not written.
 */
s64 weir_hash_dump(const struct weir_map *map, u64 bucket, u64 *out, u64 capacity, u64 entry_words,
                   u64 each_lane)
{
    u32 steps = STEPS_MAX;
    u32 key_words = words(map->key_bytes);
    void *head = bucket_of(map, bucket);
    struct found at;
    u64 entries;
restart:
    at_head(&at, head);
    entries = 0;
    while (steps) {
        --steps;
        switch (step_to(map, head, &at)) {
        case STEP_NODE:
            break;
        case STEP_GONE:
            continue;
        case STEP_END:
            return (s64)entries;
        case STEP_AGAIN:
            goto restart;
        case STEP_CORRUPT:
            return -EBUSY;
        }
        if (entries < capacity) {
            u64 *entry = out + entries * entry_words;
            entry[0] = at.place;
            for (u32 n = 0; n < key_words; n++)
                entry[1 + n] = load_relaxed(&at.node->key[n]);
            copy_out(map, at.node, entry + 1 + key_words, each_lane);
            if (!is_still_there(&at))
                goto restart;
        }
        entries++;
        step_over(&at);
    }
    count_at((u64)&control_of(map)->contended);
    return -EBUSY;
}

/* Deletes a key; `out` has the value it had then. */
s64 weir_hash_take(const struct weir_map *map, const void *key, u64 *out)
{
    for (u32 tries = 0; tries < STEPS_MAX; tries++) {
        struct found at;
        s64 found = weir_hash_find(map, key, &at);
        if (found != 1)
            return found ? found : -ENOENT;
        copy_out(map, at.node, out, 0);
        if (weir_hash_delete_found(map, key, &at, out))
            return 0;
    }
    count_at((u64)&control_of(map)->contended);
    return -EBUSY;
}

/* The bucket that a key belongs to. */
u64 weir_hash_bucket(const struct weir_map *map, const void *key) { return hash_of(map, key) & map->bucket_mask; }
