/*
 * The map helpers: arrays here, the other kinds in files of their own. Flags and errors are the kernel's, as bpf(2) and
 * bpf-helpers(7) say, and as tried on it.
 *
 * A lookup in a per-CPU map answers the address in lane 0; the engine adds its lane. An update of a per-CPU map
 * writes the shared lane: the CPUs' own lanes are changed by rseq code alone, so that a store here could be lost.
 * Where lanes are claimed, a run names the one it has, and both look-up and update are in that.
 */
#include "weir.h"

INLINE int holds_maps(const struct weir_map *map)
{
    return map->kind == KIND_ARRAY_OF_MAPS || map->kind == KIND_HASH_OF_MAPS;
}

INLINE u32 index_of(const void *key) { return *(const u32_any *)key; }

static s64 array_update(const struct weir_map *map, u32 index, const u8 *value, u64 flags, u64 lane)
{
    if ((flags & ~(u64)BPF_F_LOCK) > BPF_EXIST)
        return -EINVAL;
    if (index >= map->max_entries)
        return -E2BIG;
    if (flags & BPF_NOEXIST)
        return -EEXIST;
    if (flags & BPF_F_LOCK)
        return -EINVAL;
    set_value(map, map->data + (u64)index * map->elem_stride, value, lane, 0);
    return 0;
}

static u64 lookup_value(const struct weir_map *map, const void *key)
{
    if (is_hash(map))
        return weir_hash_lookup(map, key);
    if (map->kind == KIND_LPM_TRIE)
        return weir_lpm_lookup(map, key);
    if (!is_array(map))
        return 0;
    u32 index = index_of(key);
    return index < map->max_entries ? map->data + (u64)index * map->elem_stride : 0;
}

/* What a map that holds maps has at `value`: an index and one, or 0. It stands in shared memory, and the program relies
 * on what the map is: so the descriptor that it leads to, which nobody can write, is compared with what was promised. */
static u64 held_map(const struct weir_map *map, u64 value)
{
    u32 held = value ? (u32)load(((const void *)value)) : 0;
    if (!held)
        return 0;
    const struct weir_map *all = (const struct weir_map *)map->descriptors;
    const struct weir_map *like = all + map->inner, *found = all + (held - 1);
    if (held <= map->map_count && found->kind == like->kind && found->key_bytes == like->key_bytes &&
        found->value_bytes == like->value_bytes &&
        (found->kind != KIND_ARRAY || found->max_entries == like->max_entries))
        return (u64)found;
    count_at((u64)&control_of(map)->corrupt);
    return 0;
}

u64 weir_map_lookup_elem(const struct weir_map *map, const void *key)
{
    u64 value = lookup_value(map, key);
    return holds_maps(map) ? held_map(map, value) : value;
}

u64 weir_map_lookup_lane(const struct weir_map *map, const void *key, u64 lane)
{
    u64 at = weir_map_lookup_elem(map, key);
    return at && lane < map->lanes ? at + lane * map->lane_stride : at;
}

u64 weir_map_lookup_percpu_elem(const struct weir_map *map, const void *key, u64 cpu)
{
    /* The kernel takes a u32. */
    cpu &= 0xffffffff;
    return cpu < map->cpus ? weir_map_lookup_lane(map, key, cpu) : 0;
}

s64 weir_map_update_elem(const struct weir_map *map, const void *key, const void *value, u64 flags)
{
    return weir_map_update_lane(map, key, value, flags, map->lanes - 1);
}

s64 weir_map_update_lane(const struct weir_map *map, const void *key, const void *value, u64 flags, u64 lane)
{
    if (map->lanes == 1)
        lane = 0;
    if (is_hash(map))
        return weir_hash_update(map, key, value, flags, lane);
    if (map->kind == KIND_LPM_TRIE)
        return weir_lpm_update(map, key, value, flags);
    if (!is_array(map))
        return -EINVAL;
    return array_update(map, index_of(key), value, flags, lane);
}

s64 weir_map_delete_elem(const struct weir_map *map, const void *key)
{
    if (map->kind == KIND_LPM_TRIE)
        return weir_lpm_delete(map, key);
    return is_hash(map) ? weir_hash_delete(map, key) : -EINVAL;
}

s64 weir_map_push_elem(const struct weir_map *map, const void *value, u64 flags)
{
    switch (map->kind) {
    case KIND_QUEUE:
        return weir_queue_push(map, value, flags);
    case KIND_STACK:
        return weir_stack_push(map, value, flags);
    case KIND_BLOOM_FILTER:
        return weir_bloom_push(map, value, flags);
    default:
        return -EINVAL;
    }
}

s64 weir_map_pop_elem(const struct weir_map *map, void *value)
{
    switch (map->kind) {
    case KIND_QUEUE:
        return weir_queue_pop(map, value);
    case KIND_STACK:
        return weir_stack_pop(map, value);
    default:
        return -EINVAL;
    }
}

s64 weir_map_peek_elem(const struct weir_map *map, void *value)
{
    switch (map->kind) {
    case KIND_QUEUE:
        return weir_queue_peek(map, value);
    case KIND_STACK:
        return weir_stack_peek(map, value);
    case KIND_BLOOM_FILTER:
        return weir_bloom_peek(map, value);
    default:
        return -EINVAL;
    }
}
