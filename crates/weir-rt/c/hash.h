/*
 * Nodes and links: of hash maps (and the prefixes of an LPM trie), with the steps of a walk along a chain (hash.c,
 * inspect.c, next.c), and of the pools that queue.c and stack.c take their nodes from.
 *
 * A link word is {version:37, replaced:1, deleted:1, index + 1:25}. Bucket heads, free lists and each node's `next`
 * are links. Every change of a link raises its version, also across a node's lives, so an unchanged link word means
 * an unchanged link (a reader would have to sleep through 2^37 changes to be fooled).
 */
#ifndef WEIR_HASH_H
#define WEIR_HASH_H
#include "weir.h"

#define LINK_INDEX 0x1fffffful
#define LINK_DELETED (1ul << 25)
#define LINK_REPLACED (1ul << 26)
#define LINK_MARKS (LINK_DELETED | LINK_REPLACED)
#define LINK_VERSION (1ul << 27)

/* In a node's `hash`: a program used an LRU's key since the hand passed it (see evict in hash.c). */
#define NODE_USED (1ul << 63)

/* Steps that one operation may take, restarts included. Buckets are at least twice as many as entries, so a chain of this
 * length means a corrupted segment, and so many restarts a starved thread. */
#define STEPS_MAX 8192u

struct node {
    u64 next;
    u64 small_value; /* a HASH's value of at most 8 bytes: changed together with `next` by cmpxchg16b */
    u64 hash;        /* of the key, and NODE_USED */
    u64 key[];
};

_Static_assert(__builtin_offsetof(struct node, key) == 24, "NODE_HEADER_BYTES of src/abi.rs");

/* Where a search ended. */
struct found {
    void *link;      /* the link that leads to the node, and its word */
    u64 link_word;
    struct node *node;
    u64 place;       /* of the node: its index */
    u64 node_word;   /* the node's own link */
    u64 head_word;   /* the bucket's head, as the search saw it first */
};

/* What one step along a chain came to. */
enum step {
    STEP_NODE,    /* a node that is in the chain */
    STEP_GONE,    /* a marked node, which was unlinked: go on from the same link */
    STEP_END,     /* there are no more, nor were there since the link was read */
    STEP_AGAIN,   /* the chain has changed: go back to its head */
    STEP_CORRUPT, /* this is no chain; counted */
};

INLINE u64 link_to(u64 old, u64 index) { return ((old & ~(LINK_VERSION - 1)) + LINK_VERSION) | (index & LINK_INDEX); }

/* The node that a link word leads to; 0 for none and for an index out of bounds. */
INLINE struct node *node_at(const struct weir_map *map, u64 word)
{
    u64 index = word & LINK_INDEX;
    if (index == 0 || index > map->node_count)
        return 0;
    return (struct node *)(map->nodes + (index - 1) * map->node_stride);
}
INLINE u64 node_index(const struct weir_map *map, const struct node *node)
{
    return ((u64)node - map->nodes) / map->node_stride;
}
INLINE u64 value_of(const struct weir_map *map, const struct node *node)
{
    return map->data + node_index(map, node) * map->elem_stride;
}
/* The value of the node at a place: without the division that a node's address needs. */
INLINE u64 value_at(const struct weir_map *map, u64 place) { return map->data + place * map->elem_stride; }
INLINE void *bucket_of(const struct weir_map *map, u64 hash)
{
    return (void *)(map->buckets + 8 * (hash & map->bucket_mask));
}

/* Gives an unlinked node back to the list it belongs to, as `word`, its last link, says. */
void weir_hash_release(const struct weir_map *map, struct node *node, u64 word);

/* Where a walk along the chain of a bucket begins. */
INLINE void at_head(struct found *at, void *bucket)
{
    at->link = bucket;
    at->head_word = at->link_word = load(bucket);
}
/* To the node behind `at->link`, if it is in the chain; if it is marked, it is unlinked. */
INLINE enum step step_to(const struct weir_map *map, const void *bucket, struct found *at)
{
    if ((at->link_word & LINK_INDEX) == 0) {
        /* The last node may have been replaced while it was looked at. */
        read_fence();
        return load(at->link) == at->link_word ? STEP_END : STEP_AGAIN;
    }
    struct node *node = at->node = node_at(map, at->link_word);
    at->place = (at->link_word & LINK_INDEX) - 1;
    if (!node) {
        count_at((u64)&control_of(map)->corrupt);
        return STEP_CORRUPT;
    }
    u64 word = at->node_word = load(&node->next);
    if (load(at->link) != at->link_word)
        return STEP_AGAIN;
    if (word & LINK_MARKS) {
        u64 past = link_to(at->link_word, word);
        if (!cas(at->link, at->link_word, past))
            return STEP_AGAIN;
        weir_hash_release(map, node, word);
        if (at->link == bucket)
            at->head_word = past;
        at->link_word = past;
        return STEP_GONE;
    }
    return STEP_NODE;
}
/* True if what was read of the node since the step to it was its own: it is in the chain with the same link. */
INLINE int is_still_there(const struct found *at)
{
    read_fence();
    return load(&at->node->next) == at->node_word;
}
INLINE void step_over(struct found *at)
{
    at->link = &at->node->next;
    at->link_word = at->node_word;
}

/* Four words at a time, each on a chain of its own: a multiplication takes four cycles, and a string is 128 words.
 * `key_bytes` is a constant where the map's size of keys is known. */
INLINE u64 hash_bytes(u64 seed, const u8 *key, u32 key_bytes)
{
    const u64 odd = 0x9e3779b97f4a7c15ul;
    u64 hash = seed ^ key_bytes, a = hash + 1, b = hash + 2, c = hash + 3;
    u32 count = words(key_bytes), n = 0;
    for (; n + 4 <= count; n += 4) {
        hash = (hash ^ word_of(key, key_bytes, n)) * odd;
        a = (a ^ word_of(key, key_bytes, n + 1)) * odd;
        b = (b ^ word_of(key, key_bytes, n + 2)) * odd;
        c = (c ^ word_of(key, key_bytes, n + 3)) * odd;
        hash ^= hash >> 32;
        a ^= a >> 32;
        b ^= b >> 32;
        c ^= c >> 32;
    }
    if (n)
        hash ^= (a * 3) ^ (b * 5) ^ (c * 7);
    for (; n < count; n++) {
        hash = (hash ^ word_of(key, key_bytes, n)) * odd;
        hash ^= hash >> 32;
    }
    hash *= 0xd6e8feb86659fd93ul;
    return (hash ^ hash >> 32) & ~NODE_USED;
}
INLINE u64 hash_of(const struct weir_map *map, const u8 *key) { return hash_bytes(map->seed, key, map->key_bytes); }
/* What a node has at `key`: the key; of an LPM trie, behind it the key as it was given. */
INLINE u32 stored_key_bytes(const struct weir_map *map)
{
    return map->kind == KIND_LPM_TRIE ? 2 * map->key_stride : map->key_bytes;
}
/* The value is `small_value`, and changed in place. A prefix is replaced as a whole, with the key as it was given. */
INLINE int has_small_value(const struct weir_map *map)
{
    return map->lanes == 1 && map->value_bytes <= 8 && map->kind != KIND_LPM_TRIE;
}
INLINE int same_key(const struct node *node, const u8 *key, u32 bytes)
{
    for (u32 n = 0; n < words(bytes); n++)
        if (load_relaxed(&node->key[n]) != word_of(key, bytes, n))
            return 0;
    return 1;
}

/* A search with its own budget of steps: 1 and where it ended, 0 if the key is absent, -EBUSY. */
s64 weir_hash_find(const struct weir_map *map, const u8 *key, struct found *at);

/* Deletes the node that a search found, if neither its link nor (of at most 8 bytes) its value has changed since
 * `value` was read from it. */
int weir_hash_delete_found(const struct weir_map *map, const u8 *key, struct found *at, const u64 *value);

/* Takes a node from a free list, or one never used of `fresh`, which are `nodes` beginning with `first`. 0: none left. */
struct node *weir_node_take(const struct weir_map *map, u64 *list, u64 *fresh, u64 first, u64 nodes);

#endif
