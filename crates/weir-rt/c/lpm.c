/*
 * LPM_TRIE: a hash of prefixes, which a look-up asks for one length after the other, the longest first.
 *
 * A prefix stands in the hash (hash.c) under its length and its bits, those behind its length zero; so inserts, deletes
 * and replacements are the hash's, with all that it promises. Three tables behind the control block spare a look-up most
 * searches. Each may say "perhaps" of what is not there, and never "no" of what is, whoever dies where:
 * - lengths: a bit for each, set before the first prefix of that length goes in, and never taken back;
 * - blocks, a word for two buckets: the same for the prefixes that begin alike, in 8, 16 or 32 bits, of length modulo 64.
 *   It leaves a look-up one or two lengths of the twenty that routes have;
 * - counters, 16 of 4 bits in a word, a word for four buckets: each prefix has two in one word, which are raised before
 *   it goes in and lowered after it went out. One that has reached 15 stays there.
 *
 * A look-up is several searches. Adding a prefix is counted after it, deleting one before it; where the count has
 * changed, the look-up begins again, a few times. So who adds a longer prefix and then deletes a shorter one leaves no
 * moment at which neither is found. A look-up that others overtake more often answers what it found last: prefixes that
 * were there, if not all at one moment. That nothing fits it says only where nobody has overtaken it, or many more times.
 *
 * Errors are the kernel's: ENOSPC where a HASH says E2BIG, EINVAL for a length that no key has. All-zero memory is empty.
 */
#include "hash.h"

#define KEY_BYTES_MAX 260
#define KEY_WORDS_MAX ((KEY_BYTES_MAX + 7) / 8)
/* Times that a look-up begins again, and that an update does whose prefix comes and goes meanwhile. */
#define RETRIES_MAX 8u
/* The same of a look-up that has found nothing. */
#define RETRIES_OF_NONE_MAX 200u
/* Tries to change a word of counters; each that fails means that another change succeeded. */
#define TRIES_MAX 4096u

#define COUNTER_MAX 15u
/* Lengths that a look-up asks the counters for before it searches: few, because a long prefix may be found. */
#define BATCH 8u

/* A key's words. The first 32 bits are its length, then come its bits, as memory has them. */
struct key {
    u64 words[KEY_WORDS_MAX];
    /* What the words before each one make of the hash that chooses counters. */
    u64 before[KEY_WORDS_MAX];
};
/* What a search and a new node take: the length and its bits, and behind key_stride the key as it was given. */
struct prefix {
    u64 words[2 * KEY_WORDS_MAX];
};

INLINE u32 length_of(const void *key) { return *(const u32_any *)key; }
INLINE u32 length_max(const struct weir_map *map) { return 8 * (map->key_bytes - 4); }
INLINE u64 *lengths_of(const struct weir_map *map) { return (u64 *)(map->control + sizeof(struct weir_control)); }
INLINE u64 *counters_of(const struct weir_map *map, u64 hash)
{
    return lengths_of(map) + length_max(map) / 64 + 1 + (hash & map->bucket_mask >> 2);
}
INLINE u64 *blocks_of(const struct weir_map *map) { return counters_of(map, 0) + (map->bucket_mask >> 2) + 1; }

INLINE u64 mixed(u64 hash)
{
    hash *= 0x9e3779b97f4a7c15ul;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93ul;
    return hash ^ hash >> 32;
}

/* The bits of word `n` that a prefix of `length` bits has of it; its length itself is none of them. */
INLINE u64 bits_in(const struct key *key, u32 n, u32 length)
{
    u32 bits = 32 + length - 64 * n;
    u64 mask = bits >= 64 ? ~0ul : bits ? __builtin_bswap64(~0ul << (64 - bits)) : 0;
    return key->words[n] & mask & (n ? ~0ul : ~0xfffffffful);
}
/* The word in which a prefix of `length` bits ends. */
INLINE u32 last_word(u32 length) { return (32 + length) / 64; }

static void read_key(const struct weir_map *map, const u8 *from, struct key *key)
{
    u64 before = map->seed;
    for (u32 n = 0; n < words(map->key_bytes); n++) {
        key->words[n] = word_of(from, map->key_bytes, n);
        key->before[n] = before;
        before = mixed(before ^ (n ? key->words[n] : key->words[n] & ~0xfffffffful));
    }
}

INLINE u64 hash_of_prefix(const struct weir_map *map, const struct key *key, u32 length)
{
    u32 n = last_word(length);
    /* A prefix of all bits may end where the words do. */
    if (n == words(map->key_bytes))
        return mixed(mixed(key->before[n - 1] ^ bits_in(key, n - 1, length)) ^ (u64)length << 40);
    return mixed(key->before[n] ^ bits_in(key, n, length) ^ (u64)length << 40);
}

static void write_prefix(const struct weir_map *map, const struct key *key, u32 length, struct prefix *prefix)
{
    u32 count = words(map->key_bytes), last = last_word(length);
    for (u32 n = 0; n < count; n++) {
        prefix->words[n] = n > last ? 0 : bits_in(key, n, length);
        prefix->words[count + n] = key->words[n];
    }
    prefix->words[0] |= length;
}

/* ---- blocks ---- */
/* The lengths from these on have one block for each way that so many bits are. */
#define BLOCKS 4u
INLINE u32 block_bits(u32 n) { return n ? 4u << n : 0; }
/* Bits of the lengths that have their blocks so. */
INLINE u64 block_lengths(u32 n)
{
    u64 from = n ? ~0ul << block_bits(n) : ~0ul;
    return n + 1 < BLOCKS ? from & ~(~0ul << block_bits(n + 1)) : from;
}
/* The block of keys whose first bits are the key's. */
INLINE u64 *block_of(const struct weir_map *map, const struct key *key, u32 n)
{
    u64 bits = n ? bits_in(key, 0, block_bits(n)) : 0;
    u64 hash = (bits + n + map->seed) * 0x9e3779b97f4a7c15ul;
    return blocks_of(map) + (hash >> 32 & map->bucket_mask >> 1);
}
INLINE u32 block_number(u32 length)
{
    return length < 8 ? 0 : length < 16 ? 1 : length < 32 ? 2 : 3;
}
/* What `lengths` may be those of a prefix that fits the key. */
INLINE u64 in_blocks(const struct weir_map *map, const struct key *key)
{
    u64 found = 0;
    for (u32 n = 0; n < BLOCKS; n++)
        found |= load(block_of(map, key, n)) & block_lengths(n);
    return found;
}
/* Lengths of 64 and more have the bits that theirs less a multiple of 64 would have, and are all in the last block. */
INLINE u64 in_last_block(const struct weir_map *map, const struct key *key)
{
    return load(block_of(map, key, BLOCKS - 1));
}

/* ---- counters ---- */
INLINE u32 first_shift(u64 hash) { return (u32)(hash >> 56 & 60); }
INLINE u32 second_shift(u64 hash)
{
    u32 other = (u32)(hash >> 48 & 60);
    return other == first_shift(hash) ? other ^ 4 : other;
}
INLINE u64 counter_at(u64 word, u32 shift) { return word >> shift & COUNTER_MAX; }
INLINE int may_have(const struct weir_map *map, u64 hash)
{
    u64 word = load(counters_of(map, hash));
    return (counter_at(word, first_shift(hash)) != 0) & (counter_at(word, second_shift(hash)) != 0);
}
INLINE u64 raised(u64 word, u32 shift) { return counter_at(word, shift) < COUNTER_MAX ? word + (1ul << shift) : word; }
INLINE u64 lowered(u64 word, u32 shift)
{
    u64 counter = counter_at(word, shift);
    return counter && counter < COUNTER_MAX ? word - (1ul << shift) : word;
}
static int raise_counters(const struct weir_map *map, u64 hash)
{
    u64 *at = counters_of(map, hash);
    for (u32 tries = 0; tries < TRIES_MAX; tries++) {
        u64 word = load(at);
        if (cas(at, word, raised(raised(word, first_shift(hash)), second_shift(hash))))
            return 1;
    }
    count_at((u64)&control_of(map)->contended);
    return 0;
}
static void lower_counters(const struct weir_map *map, u64 hash)
{
    u64 *at = counters_of(map, hash);
    for (u32 tries = 0; tries < TRIES_MAX; tries++) {
        u64 word = load(at);
        if (cas(at, word, lowered(lowered(word, first_shift(hash)), second_shift(hash))))
            return;
    }
    /* They stay too high, which costs searches and nothing else. */
}

/* Of the longest lengths that are left in `used`, those of word `n`, at most BATCH: which the counters do not rule out.
 * One after the other without a branch, so that their cache misses overlap. */
INLINE u64 candidates(const struct weir_map *map, const struct key *key, u32 n, u64 *used)
{
    u64 found = 0;
    for (u32 asked = 0; asked < BATCH && *used; asked++) {
        u32 bit = 63 - (u32)__builtin_clzl(*used);
        *used ^= 1ul << bit;
        found |= (u64)may_have(map, hash_of_prefix(map, key, n * 64 + bit)) << bit;
    }
    return found;
}

/* A search for each length that may have the prefix; 0: none fits. `prefix` is the one found. */
static u64 match(const struct weir_map *map, const struct key *key, u32 given, struct prefix *prefix)
{
    u64 below = ~0ul >> (63 - given % 64);
    for (u32 n = given / 64 + 1; n-- > 0; below = ~0ul) {
        u64 used = load(lengths_of(map) + n) & below;
        used &= n ? in_last_block(map, key) : in_blocks(map, key);
        while (used) {
            for (u64 found = candidates(map, key, n, &used); found;) {
                u32 bit = 63 - (u32)__builtin_clzl(found);
                found ^= 1ul << bit;
                write_prefix(map, key, n * 64 + bit, prefix);
                u64 value = weir_hash_lookup(map, prefix->words);
                if (value)
                    return value;
            }
        }
    }
    return 0;
}

static u64 match_steadily(const struct weir_map *map, const u8 *from, struct prefix *prefix)
{
    u64 *changes = &control_of(map)->changes;
    struct key key;
    u32 given = length_of(from);
    if (given > length_max(map))
        return 0;
    read_key(map, from, &key);
    for (u32 tries = 0;; tries++) {
        u64 before = load(changes);
        u64 value = match(map, &key, given, prefix);
        if (load(changes) == before || tries >= (value ? RETRIES_MAX : RETRIES_OF_NONE_MAX))
            return value;
    }
}

/* The prefix that `from` is, its hash and its block. 0: its length is none. */
static int take_prefix(const struct weir_map *map, const u8 *from, struct prefix *prefix, u64 *hash, u64 **block)
{
    struct key key;
    u32 length = length_of(from);
    if (length > length_max(map))
        return 0;
    read_key(map, from, &key);
    write_prefix(map, &key, length, prefix);
    *hash = hash_of_prefix(map, &key, length);
    *block = block_of(map, &key, block_number(length));
    return 1;
}

u64 weir_lpm_lookup(const struct weir_map *map, const void *key)
{
    struct prefix prefix;
    return match_steadily(map, key, &prefix);
}

/* Adds a prefix that is not there. */
static s64 add(const struct weir_map *map, const struct prefix *prefix, u64 hash, u64 *block, const u8 *value)
{
    u32 length = (u32)prefix->words[0];
    u64 *lengths = lengths_of(map) + length / 64;
    u64 used = 1ul << length % 64;
    if (!(load(lengths) & used))
        set_bits(lengths, used);
    if (!(load(block) & used))
        set_bits(block, used);
    if (!raise_counters(map, hash))
        return -EBUSY;
    s64 status = weir_hash_update(map, prefix->words, value, BPF_NOEXIST, 0);
    if (status == 0)
        count_at((u64)&control_of(map)->changes);
    else
        lower_counters(map, hash);
    return status == -E2BIG ? -ENOSPC : status;
}

s64 weir_lpm_update(const struct weir_map *map, const void *key, const void *value, u64 flags)
{
    struct prefix prefix;
    u64 hash, *block;
    if (flags > BPF_EXIST || !take_prefix(map, key, &prefix, &hash, &block))
        return -EINVAL;
    for (u32 tries = 0; tries < RETRIES_MAX; tries++) {
        s64 status = flags == BPF_NOEXIST ? -ENOENT : weir_hash_update(map, prefix.words, value, BPF_EXIST, 0);
        if (status != -ENOENT || flags == BPF_EXIST)
            return status;
        status = add(map, &prefix, hash, block, value);
        if (status != -EEXIST || flags == BPF_NOEXIST)
            return status;
    }
    count_at((u64)&control_of(map)->contended);
    return -EBUSY;
}

s64 weir_lpm_delete(const struct weir_map *map, const void *key)
{
    struct prefix prefix;
    u64 hash, *block;
    if (!take_prefix(map, key, &prefix, &hash, &block))
        return -EINVAL;
    count_at((u64)&control_of(map)->changes);
    s64 status = weir_hash_delete(map, prefix.words);
    if (status == 0)
        lower_counters(map, hash);
    return status;
}

#ifdef WEIR_LINKED /* for the controller, which reads values from buckets */
static void copy_prefix(const struct weir_map *map, const struct prefix *prefix, u64 *out)
{
    for (u32 n = 0; n < words(map->key_bytes); n++)
        out[n] = prefix->words[n];
}
/* The prefix that a look-up finds, as it stands in the hash, in `out`; 0: none. */
u64 weir_lpm_match(const struct weir_map *map, const void *key, u64 *out)
{
    struct prefix prefix;
    if (!match_steadily(map, key, &prefix))
        return 0;
    copy_prefix(map, &prefix, out);
    return 1;
}
/* The prefix that `key` is, as it stands in the hash. 0: its length is none. */
u64 weir_lpm_prefix(const struct weir_map *map, const void *key, u64 *out)
{
    struct prefix prefix;
    u64 hash, *block;
    if (!take_prefix(map, key, &prefix, &hash, &block))
        return 0;
    copy_prefix(map, &prefix, out);
    return 1;
}
#endif
