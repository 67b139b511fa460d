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
    void *head = (void *)(map->buckets + 8 * (bucket & map->bucket_mask));
restart:;
    void *link = head;
    u64 link_word = load(link);
    u64 entries = 0;
    while (steps) {
        --steps;
        if ((link_word & LINK_INDEX) == 0) {
            read_fence();
            if (load(link) != link_word)
                goto restart;
            return (s64)entries;
        }
        struct node *node = node_at(map, link_word);
        if (!node) {
            count_at((u64)&control_of(map)->corrupt);
            return -EBUSY;
        }
        u64 word = load(&node->next);
        if (load(link) != link_word)
            goto restart;
        if (word & LINK_MARKS) {
            u64 past = link_to(link_word, word);
            if (!cas(link, link_word, past))
                goto restart;
            weir_hash_release(map, node, word);
            link_word = past;
            continue;
        }
        if (entries < capacity) {
            u64 *entry = out + entries * entry_words;
            entry[0] = node_index(map, node);
            for (u32 n = 0; n < key_words; n++)
                entry[1 + n] = load_relaxed(&node->key[n]);
            copy_out(map, node, entry + 1 + key_words, each_lane);
            read_fence();
            if (load(&node->next) != word)
                goto restart;
        }
        entries++;
        link = &node->next;
        link_word = word;
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
