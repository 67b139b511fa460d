/*
 * Dynptrs over ring records: 16 bytes of a program's stack that say where a record is whose size only a run knows.
 *
 * In: what a verifier has found to be a dynptr, or is to become one. Out: the kernel's answers. One without a record is all
 * zeros: its record was not to be had, or is given back; whatever is done with it fails.
 */
#include "weir.h"

struct dynptr {
    u64 data;
    u64 size;
};

/* DYNPTR_MAX_SIZE of the kernel. */
enum { SIZE_MAX = (1 << 24) - 1 };

INLINE void set(void *dynptr, u64 data, u64 size)
{
    volatile struct dynptr *to = dynptr;
    to->data = data;
    to->size = size;
}

s64 weir_ringbuf_reserve_dynptr(const struct weir_map *map, u64 size, u64 flags, void *dynptr)
{
    /* The kernel takes a u32. */
    size = (u32)size;
    set(dynptr, 0, 0);
    if (flags)
        return -EINVAL;
    if (size > SIZE_MAX)
        return -E2BIG;
    u64 record = weir_ringbuf_reserve(map, size, 0);
    if (!record)
        return -EINVAL;
    set(dynptr, record, size);
    return 0;
}

u64 weir_ringbuf_submit_dynptr(void *dynptr, u64 flags)
{
    u64 record = ((const struct dynptr *)dynptr)->data;
    if (record)
        weir_ringbuf_submit((void *)record, flags);
    set(dynptr, 0, 0);
    return 0;
}

u64 weir_ringbuf_discard_dynptr(void *dynptr, u64 flags)
{
    u64 record = ((const struct dynptr *)dynptr)->data;
    if (record)
        weir_ringbuf_discard((void *)record, flags);
    set(dynptr, 0, 0);
    return 0;
}

/* 0: where so many bytes at an offset are. */
static s64 part(const void *dynptr, u64 offset, u64 bytes, u64 flags, u64 *at)
{
    const struct dynptr *from = dynptr;
    offset = (u32)offset;
    if (!from->data || flags)
        return -EINVAL;
    if (offset > from->size || bytes > from->size - offset)
        return -E2BIG;
    *at = from->data + offset;
    return 0;
}

/* The two may overlap. */
static void move(u64 to, u64 from, u64 bytes)
{
    for (u64 n = 0; n < bytes; n++) {
        u64 at = to > from ? bytes - 1 - n : n;
        *(volatile u8 *)(to + at) = *(const volatile u8 *)(from + at);
    }
}

/* Zeros where the dynptr has it not: the program may read what it asked for, whatever the answer. (The kernel leaves that
 * as it is.) */
s64 weir_dynptr_read(u8 *to, u64 size, const void *dynptr, u64 offset, u64 flags)
{
    u64 at = 0;
    s64 error = part(dynptr, offset, size, flags, &at);
    if (!error)
        move((u64)to, at, size);
    for (u64 n = 0; error && n < size; n++)
        *(volatile u8 *)(to + n) = 0;
    return error;
}

s64 weir_dynptr_write(const void *dynptr, u64 offset, const u8 *from, u64 size, u64 flags)
{
    u64 at = 0;
    s64 error = part(dynptr, offset, size, flags, &at);
    if (!error)
        move(at, (u64)from, size);
    return error;
}

u64 weir_dynptr_data(const void *dynptr, u64 offset, u64 size)
{
    u64 at = 0;
    return part(dynptr, offset, size, 0, &at) ? 0 : at;
}
