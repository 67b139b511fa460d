/*
 * BLOOM_FILTER: bits, of which a push sets `hashes`, and a peek asks whether they are all set.
 *
 * Bits are only ever set, one at a time, by an atomic or. So a push that was interrupted or died has set some of its
 * bits, which at worst makes a peek answer "perhaps" for what was not pushed, as such a filter may; and what was pushed
 * is found by every peek after it. No operation is ever disturbed, and all-zero memory is an empty filter.
 */
#include "hash.h"

/* The next of a value's bits: a number between 0 and bucket_mask, and the hash that the one after it comes from. */
INLINE u64 next_bit(const struct weir_map *map, u64 *hash)
{
    u64 bit = *hash & map->bucket_mask;
    *hash = (*hash ^ *hash >> 29) * 0xbf58476d1ce4e5b9ul;
    *hash ^= *hash >> 32;
    return bit;
}
INLINE void *word_with(const struct weir_map *map, u64 bit) { return (void *)(map->data + bit / 64 * 8); }

s64 weir_bloom_push(const struct weir_map *map, const u8 *value, u64 flags)
{
    if (flags != BPF_ANY)
        return -EINVAL;
    u64 hash = hash_bytes(map->seed, value, map->value_bytes);
    for (u64 n = 0; n < map->hashes; n++) {
        u64 bit = next_bit(map, &hash);
        u64 set = 1ul << bit % 64;
        /* Most bits of a filter in use are set already: then its line need not be taken from other CPUs. */
        if (!(load_relaxed(word_with(map, bit)) & set))
            set_bits(word_with(map, bit), set);
    }
    return 0;
}

s64 weir_bloom_peek(const struct weir_map *map, const u8 *value)
{
    u64 hash = hash_bytes(map->seed, value, map->value_bytes);
    for (u64 n = 0; n < map->hashes; n++) {
        u64 bit = next_bit(map, &hash);
        if (!(load(word_with(map, bit)) >> bit % 64 & 1))
            return -ENOENT;
    }
    return 0;
}
