/*
 * HASH, PERCPU_HASH, LRU_HASH and LRU_PERCPU_HASH: chains of nodes from a fixed pool, without locks. (And the prefixes of
 * an LPM_TRIE: lpm.c.)
 *
 * Guarantees, with any number of threads, signal handlers that interrupt any of them, and threads that die anywhere:
 * - A key is at most once in its chain. Inserts go to the head by a CAS from the head that the search began with, so
 *   an insert in between makes the search start again.
 * - A delete is one CAS that marks the node's link; a replacement is one CAS that marks the link and puts the new
 *   node behind it. Whoever passes a marked node unlinks it, and the one whose CAS unlinked it frees it.
 * - A search trusts nothing it read from a node until the link that led there was seen unchanged afterwards: nodes
 *   are used again at once (the kernel's preallocated maps do the same to a program that keeps a pointer).
 * - No operation waits. One that is disturbed too often is given up, counted as `contended`, and answers
 *   "absent" (lookup) or EBUSY.
 *
 * Replacements take their nodes from a small list of spares and give the old node to it, so that a full map can
 * still be updated and exactly max_entries keys fit. A thread that dies between taking a node and publishing it
 * loses that node.
 *
 * An LRU whose pool is empty gives up a key that no program used lately: a clock's hand goes round the nodes, takes
 * away the mark that a use has left, and stops at a node without one (evict below).
 *
 * All-zero memory is an empty map.
 */
#include "hash.h"

enum search { FOUND, ABSENT, GAVE_UP };

INLINE int is_lru(const struct weir_map *map)
{
    return map->kind == KIND_LRU_HASH || map->kind == KIND_LRU_PERCPU_HASH;
}

/* Bytes of a key for which no hash is compared. */
#define SHORT_KEY 16u

/* Walks a bucket to the node `wanted`, or, if that is 0, to the node of a key. */
INLINE enum search walk(const struct weir_map *map, const u8 *key, u32 bytes, u64 hash, const struct node *wanted,
                        struct found *at, u32 *steps)
{
    void *bucket = bucket_of(map, hash);
restart:
    if (*steps == 0)
        return GAVE_UP;
    at_head(at, bucket);
    while (*steps) {
        --*steps;
        switch (step_to(map, bucket, at)) {
        case STEP_NODE:
            break;
        case STEP_GONE:
            continue;
        case STEP_END:
            return ABSENT;
        case STEP_AGAIN:
            goto restart;
        case STEP_CORRUPT:
            return GAVE_UP;
        }
        const struct node *node = at->node;
        /* A short key is compared as soon as its hash. */
        int is_found = wanted ? node == wanted
                              : (bytes <= SHORT_KEY || (load_relaxed(&node->hash) & ~NODE_USED) == hash) &&
                                    same_key(node, key, bytes);
        if (is_found) {
            if (!is_still_there(at))
                goto restart;
            return FOUND;
        }
        step_over(at);
    }
    return GAVE_UP;
}

static enum search search(const struct weir_map *map, const u8 *key, u64 hash, struct found *at, u32 *steps)
{
    return walk(map, key, map->key_bytes, hash, 0, at, steps);
}
static enum search search_node(const struct weir_map *map, const struct node *node, u64 hash, struct found *at,
                               u32 *steps)
{
    return walk(map, 0, 0, hash, node, at, steps);
}

struct node *weir_node_take(const struct weir_map *map, u64 *list, u64 *fresh, u64 first, u64 nodes)
{
    for (u32 tries = 0; tries < STEPS_MAX; tries++) {
        u64 head = load(list);
        struct node *node = node_at(map, head);
        if (node) {
            if (cas(list, head, link_to(head, load(&node->next))))
                return node;
            continue;
        }
        if (head & LINK_INDEX) {
            count_at((u64)&control_of(map)->corrupt);
            return 0;
        }
        u64 taken = load(fresh);
        if (taken >= nodes)
            return 0;
        if (cas(fresh, taken, taken + 1))
            return node_at(map, first + taken + 1);
    }
    count_at((u64)&control_of(map)->contended);
    return 0;
}
static struct node *take_free(const struct weir_map *map)
{
    struct weir_control *control = control_of(map);
    u64 withheld = load(&control->withheld), nodes = map->max_entries;
    nodes = withheld < nodes ? nodes - withheld : 0;
    struct node *node = weir_node_take(map, &control->free_or_producer, &control->fresh, 0, nodes);
    if (!node && withheld)
        count_at((u64)&control->outgrown);
    return node;
}
static struct node *take_spare(const struct weir_map *map)
{
    struct weir_control *control = control_of(map);
    u64 spares = map->node_count - map->max_entries;
    return weir_node_take(map, &control->spare_or_consumer, &control->fresh_spare, map->max_entries, spares);
}

/*
 * Takes the node of a key that no program used since the hand last passed it, and its key out of the map. Where that
 * takes STEPS_MAX nodes, as when all were used, the next one goes whether it was used or not: no hit may go round a
 * map of millions. 0: every node is in other hands.
 *
 * The hand is one counter for all threads, so that no two look at the same node. What it finds may change at any time:
 * only the CAS that marks a node that is still in its chain decides, and what a reused node then held was given up
 * instead, which is as good.
 */
static struct node *evict(const struct weir_map *map)
{
    struct weir_control *control = control_of(map);
    u32 steps = 4 * STEPS_MAX;
    for (u32 passed = 0; steps; passed++) {
        --steps;
        u64 hand = __atomic_fetch_add(&control->hand, 1, __ATOMIC_RELAXED);
        struct node *node = node_at(map, 1 + hand % map->node_count);
        u64 hash = load_relaxed(&node->hash);
        if (hash & NODE_USED && passed < STEPS_MAX) {
            __atomic_fetch_and(&node->hash, ~NODE_USED, __ATOMIC_RELAXED);
            continue;
        }
        struct found at;
        hash &= ~NODE_USED;
        if (search_node(map, node, hash, &at, &steps) != FOUND)
            continue;
        u64 marked = link_to(at.node_word, at.node_word) | LINK_DELETED;
        if (!cas(&node->next, at.node_word, marked))
            continue;
        count_at((u64)&control->evicted);
        if (cas(at.link, at.link_word, link_to(at.link_word, marked)))
            return node;
        /* The chain has changed: whoever passes the node, at the latest this search, gives it back to the pool. */
        search_node(map, node, hash, &at, &steps);
        node = take_free(map);
        if (node)
            return node;
    }
    return 0;
}

/* A node for a new key; 0: none to be had. */
static struct node *take_new(const struct weir_map *map)
{
    struct node *node = take_free(map);
    return node || !is_lru(map) ? node : evict(map);
}

/* A program has used the node's key. */
INLINE void mark_used(const struct weir_map *map, struct node *node)
{
    if (is_lru(map) && !(load_relaxed(&node->hash) & NODE_USED))
        __atomic_fetch_or(&node->hash, NODE_USED, __ATOMIC_RELAXED);
}

void weir_hash_release(const struct weir_map *map, struct node *node, u64 word)
{
    struct weir_control *control = control_of(map);
    u64 *list = word & LINK_REPLACED ? &control->spare_or_consumer : &control->free_or_producer;
    u64 index = node_index(map, node) + 1;
    for (u32 tries = 0; tries < STEPS_MAX; tries++) {
        u64 head = load(list);
        store(&node->next, link_to(load(&node->next), head));
        if (cas(list, head, link_to(head, index)))
            return;
    }
    count_at((u64)&control->contended);
}

/* Fills a node that nobody else can see. */
static void fill(const struct weir_map *map, struct node *node, const u8 *key, u64 hash, const u8 *value, u64 lane)
{
    store_relaxed(&node->hash, hash);
    copy_in((u64)node->key, key, stored_key_bytes(map));
    set_value(map, value_of(map, node), value, lane, 1);
}

/* One change of a node's link and small value together, from what `low` and `high` hold; they say what was there. */
static int cas_both(struct node *node, u64 *low, u64 *high, u64 link, u64 value)
{
    return swap_pair(node, low, high, link, value);
}

/* Sets the small value if the node's link is still `word`. */
static int set_small(struct node *node, u64 word, u64 value)
{
    u64 low = word, high = load_relaxed(&node->small_value);
    for (u32 tries = 0; tries < STEPS_MAX; tries++) {
        if (cas_both(node, &low, &high, word, value))
            return 1;
        if (low != word)
            return 0;
    }
    return 0;
}

/* After a mark: takes the node out of its chain, or makes a search do so if the chain has changed. */
static void unlink_marked(const struct weir_map *map, const u8 *key, u64 hash, struct found *at, u64 marked)
{
    if (cas(at->link, at->link_word, link_to(at->link_word, marked))) {
        weir_hash_release(map, at->node, marked);
        return;
    }
    u32 steps = STEPS_MAX;
    search(map, key, hash, at, &steps);
}

INLINE u64 lookup(const struct weir_map *map, const u8 *key, u32 bytes)
{
    struct found at;
    u32 steps = STEPS_MAX;
    switch (walk(map, key, bytes, hash_bytes(map->seed, key, bytes), 0, &at, &steps)) {
    case FOUND:
        mark_used(map, at.node);
        return value_at(map, at.place);
    case ABSENT:
        return 0;
    default:
        count_at((u64)&control_of(map)->contended);
        return 0;
    }
}

u64 weir_hash_lookup(const struct weir_map *map, const void *key) { return lookup(map, key, map->key_bytes); }
u64 weir_hash_lookup_4(const struct weir_map *map, const void *key) { return lookup(map, key, 4); }
u64 weir_hash_lookup_8(const struct weir_map *map, const void *key) { return lookup(map, key, 8); }
u64 weir_hash_lookup_16(const struct weir_map *map, const void *key) { return lookup(map, key, 16); }

/* One try to change the value of a key that is there: 1 done, 0 the chain changed, or -EBUSY. */
static s64 change(const struct weir_map *map, const u8 *key, u64 hash, const u8 *value, u64 lane, struct found *at)
{
    struct node *old = at->node;
    mark_used(map, old);
    if (map->lanes > 1) {
        set_value(map, value_at(map, at->place), value, lane, 0);
        return 1;
    }
    if (has_small_value(map))
        return set_small(old, at->node_word, word_of(value, map->value_bytes, 0));
    struct node *node = take_spare(map);
    if (!node)
        return -EBUSY;
    fill(map, node, key, is_lru(map) ? hash | NODE_USED : hash, value, lane);
    store(&node->next, link_to(load(&node->next), at->node_word));
    u64 marked = link_to(at->node_word, node_index(map, node) + 1) | LINK_REPLACED;
    if (!cas(&old->next, at->node_word, marked)) {
        weir_hash_release(map, node, LINK_REPLACED);
        return 0;
    }
    unlink_marked(map, key, hash, at, marked);
    return 1;
}

/* Sets a key's value in a lane. `bytes`: of the key. */
INLINE s64 update(const struct weir_map *map, const u8 *key, u32 bytes, const u8 *value, u64 flags, u64 lane)
{
    if (flags > BPF_EXIST)
        return -EINVAL;
    u64 hash = hash_bytes(map->seed, key, bytes);
    struct node *node = 0;
    struct found at;
    u32 steps = STEPS_MAX;
    s64 result;
    for (;;) {
        enum search end = walk(map, key, bytes, hash, 0, &at, &steps);
        if (end == GAVE_UP) {
            result = -EBUSY;
            break;
        }
        if (end == FOUND) {
            result = flags == BPF_NOEXIST ? -EEXIST : change(map, key, hash, value, lane, &at);
            if (result == 0)
                continue;
            break;
        }
        if (flags == BPF_EXIST) {
            result = -ENOENT;
            break;
        }
        if (!node) {
            node = take_new(map);
            if (!node) {
                count_at(is_lru(map) ? (u64)&control_of(map)->contended : (u64)&control_of(map)->full);
                return is_lru(map) ? -ENOMEM : -E2BIG;
            }
            fill(map, node, key, hash, value, lane);
        }
        store(&node->next, link_to(load(&node->next), at.head_word));
        if (cas(bucket_of(map, hash), at.head_word, link_to(at.head_word, node_index(map, node) + 1)))
            return 0;
    }
    if (node)
        weir_hash_release(map, node, 0);
    if (result == -EBUSY)
        count_at((u64)&control_of(map)->contended);
    return result > 0 ? 0 : result;
}

s64 weir_hash_update(const struct weir_map *map, const void *key, const void *value, u64 flags, u64 lane)
{
    return update(map, key, map->key_bytes, value, flags, lane);
}
s64 weir_hash_update_4(const struct weir_map *map, const void *key, const void *value, u64 flags, u64 lane)
{
    return update(map, key, 4, value, flags, lane);
}
s64 weir_hash_update_8(const struct weir_map *map, const void *key, const void *value, u64 flags, u64 lane)
{
    return update(map, key, 8, value, flags, lane);
}

s64 weir_hash_delete(const struct weir_map *map, const void *key)
{
    u64 hash = hash_of(map, key);
    struct found at;
    u32 steps = STEPS_MAX;
    for (;;) {
        switch (search(map, key, hash, &at, &steps)) {
        case ABSENT:
            return -ENOENT;
        case FOUND:
            break;
        default:
            count_at((u64)&control_of(map)->contended);
            return -EBUSY;
        }
        u64 marked = link_to(at.node_word, at.node_word) | LINK_DELETED;
        if (cas(&at.node->next, at.node_word, marked)) {
            unlink_marked(map, key, hash, &at, marked);
            return 0;
        }
    }
}

#ifdef WEIR_LINKED /* for inspect.c */
s64 weir_hash_find(const struct weir_map *map, const u8 *key, struct found *at)
{
    u32 steps = STEPS_MAX;
    switch (search(map, key, hash_of(map, key), at, &steps)) {
    case FOUND:
        return 1;
    case ABSENT:
        return 0;
    default:
        count_at((u64)&control_of(map)->contended);
        return -EBUSY;
    }
}

int weir_hash_delete_found(const struct weir_map *map, const u8 *key, struct found *at, const u64 *value)
{
    u64 marked = link_to(at->node_word, at->node_word) | LINK_DELETED;
    u64 low = at->node_word, high = value[0];
    int done = has_small_value(map) ? cas_both(at->node, &low, &high, marked, high) : cas(&at->node->next, low, marked);
    if (done)
        unlink_marked(map, key, hash_of(map, key), at, marked);
    return done;
}
#endif
