/*
 * LPM_TRIE: a hash of prefixes, which a look-up asks for one length after the other, the longest first.
 *
 * A prefix stands in the hash (hash.c) under its length and its bits, those behind its length zero; so inserts, deletes
 * and replacements are the hash's, with all that it promises. Behind the control block stands a word for each 64
 * lengths: a bit is set before the first prefix of that length goes in, and stays, so that a look-up need not ask for
 * lengths that nobody ever used.
 *
 * A look-up is several searches. Adding a prefix is counted after it, deleting one before it; where the count has
 * changed, the look-up begins again, a few times. So who adds a longer prefix and then deletes a shorter one leaves no
 * moment at which neither is found. A look-up that others overtake more often answers what it found last: prefixes that
 * were there, if not all at one moment.
 *
 * Errors are the kernel's: ENOSPC where a HASH says E2BIG, EINVAL for a length that no key has. All-zero memory is empty.
 */
#include "hash.h"

#define KEY_BYTES_MAX 260
#define KEY_WORDS_MAX ((KEY_BYTES_MAX + 7) / 8)
/* Times that a look-up begins again. */
#define RETRIES_MAX 8u

/* What a search and a new node take: the length and its bits, and behind key_stride the key as it was given. */
struct prefix {
    u64 words[2 * KEY_WORDS_MAX];
};

INLINE u32 length_of(const void *key) { return *(const u32_any *)key; }
INLINE u32 length_max(const struct weir_map *map) { return 8 * (map->key_bytes - 4); }
INLINE u64 *lengths_of(const struct weir_map *map) { return (u64 *)(map->control + sizeof(struct weir_control)); }

static void copy_key(const struct weir_map *map, const u8 *key, struct prefix *prefix)
{
    u32 count = words(map->key_bytes);
    for (u32 n = 0; n < count; n++)
        prefix->words[n] = prefix->words[count + n] = word_of(key, map->key_bytes, n);
}

/* Makes a prefix, of which all behind `from` bits is zero, one of `to`. */
static void cut(struct prefix *prefix, u32 from, u32 to)
{
    u8 *bits = (u8 *)prefix->words + 4;
    for (u32 at = (to + 7) / 8; at < (from + 7) / 8; at++)
        *(volatile u8 *)(bits + at) = 0;
    if (to % 8)
        bits[to / 8] &= (u8)(0xff00u >> to % 8);
    *(u32_any *)prefix->words = to;
}

/* The longest length in use of at most `most` bits; -1: none. */
INLINE s64 longest(const struct weir_map *map, s64 most)
{
    if (most < 0)
        return -1;
    u64 below = ~0ul >> (63 - most % 64);
    for (s64 n = most / 64; n >= 0; n--, below = ~0ul) {
        u64 used = load(lengths_of(map) + n) & below;
        if (used)
            return n * 64 + 63 - __builtin_clzl(used);
    }
    return -1;
}

/* One search for each length; 0: no prefix fits. `prefix` is the one found. */
static u64 match(const struct weir_map *map, const u8 *key, struct prefix *prefix)
{
    u32 whole = length_max(map), cut_to = whole;
    copy_key(map, key, prefix);
    for (s64 length = longest(map, length_of(key)); length >= 0; length = longest(map, length - 1)) {
        cut(prefix, cut_to, (u32)length);
        cut_to = (u32)length;
        u64 value = weir_hash_lookup(map, prefix->words);
        if (value)
            return value;
    }
    return 0;
}

static u64 match_steadily(const struct weir_map *map, const u8 *key, struct prefix *prefix)
{
    u64 *changes = &control_of(map)->changes;
    if (length_of(key) > length_max(map))
        return 0;
    for (u32 tries = 0;; tries++) {
        u64 before = load(changes);
        u64 value = match(map, key, prefix);
        if (load(changes) == before || tries == RETRIES_MAX)
            return value;
    }
}

u64 weir_lpm_lookup(const struct weir_map *map, const void *key)
{
    struct prefix prefix;
    return match_steadily(map, key, &prefix);
}

s64 weir_lpm_update(const struct weir_map *map, const void *key, const void *value, u64 flags)
{
    struct prefix prefix;
    u32 length = length_of(key);
    if (flags > BPF_EXIST || length > length_max(map))
        return -EINVAL;
    copy_key(map, key, &prefix);
    cut(&prefix, length_max(map), length);
    u64 *lengths = lengths_of(map) + length / 64;
    u64 used = 1ul << length % 64;
    if (flags != BPF_EXIST && !(load(lengths) & used))
        set_bits(lengths, used);
    s64 status = weir_hash_update(map, prefix.words, value, flags, 0);
    if (status == 0 && flags != BPF_EXIST)
        count_at((u64)&control_of(map)->changes);
    return status == -E2BIG ? -ENOSPC : status;
}

s64 weir_lpm_delete(const struct weir_map *map, const void *key)
{
    struct prefix prefix;
    u32 length = length_of(key);
    if (length > length_max(map))
        return -EINVAL;
    copy_key(map, key, &prefix);
    cut(&prefix, length_max(map), length);
    count_at((u64)&control_of(map)->changes);
    return weir_hash_delete(map, prefix.words);
}

#ifdef WEIR_LINKED /* for the controller, which reads values from buckets */
/* The prefix that a look-up finds, as it stands in the hash, in `out`; 0: none. */
u64 weir_lpm_match(const struct weir_map *map, const void *key, u64 *out)
{
    struct prefix prefix;
    if (!match_steadily(map, key, &prefix))
        return 0;
    for (u32 n = 0; n < words(map->key_bytes); n++)
        out[n] = prefix.words[n];
    return 1;
}
/* The prefix that `key` is, as it stands in the hash. 0: its length is none. */
u64 weir_lpm_prefix(const struct weir_map *map, const void *key, u64 *out)
{
    struct prefix prefix;
    if (length_of(key) > length_max(map))
        return 0;
    copy_key(map, key, &prefix);
    cut(&prefix, length_max(map), length_of(key));
    for (u32 n = 0; n < words(map->key_bytes); n++)
        out[n] = prefix.words[n];
    return 1;
}
#endif
