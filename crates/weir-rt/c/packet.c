/* Bytes of a socket filter's packet, as helpers copy them.
 *
 * In: a context whose slots name the packet and its headers (context.rs of weir-ebpf, `packet`). Out: the bytes asked for,
 * or zeros and -EFAULT where the packet has them not; in either case every byte of the buffer is written. */
#include "weir.h"

/* The largest offsets that the kernel takes: from the packet's first byte, and from a header. */
enum { OFFSET_MAX = 0x7fffffff, RELATIVE_OFFSET_MAX = 0xffff };

static s64 copy(const u64_word *context, u64 from, u64 offset, u8 *to, u64 bytes)
{
    u64 there = context[CONTEXT_DATA_END] - from;
    int is_inside = bytes <= there && offset <= there - bytes;
    const volatile u8 *at = (const volatile u8 *)from + offset;
    for (u64 i = 0; i < bytes; i++)
        *(volatile u8 *)(to + i) = is_inside ? at[i] : 0;
    return is_inside ? 0 : -EFAULT;
}

/* Where a packet has no bytes. */
static const u64 NOWHERE = (u64)1 << 32;

/* The kernel takes the lower half of the offset. */
s64 weir_skb_load_bytes(const void *context, u64 offset, u8 *to, u64 bytes)
{
    const u64_word *slots = context;
    return copy(slots, slots[CONTEXT_DATA], (u32)offset > (u32)OFFSET_MAX ? NOWHERE : (u32)offset, to, bytes);
}

s64 weir_skb_load_bytes_relative(const void *context, u64 offset, u8 *to, u64 bytes, u64 header)
{
    const u64_word *slots = context;
    int is_known = (u32)offset <= (u32)RELATIVE_OFFSET_MAX && (u32)header <= (u32)HEADER_NETWORK;
    u64 from = slots[(u32)header == (u32)HEADER_LINK ? CONTEXT_LINK : CONTEXT_NETWORK];
    return copy(slots, from, is_known ? (u32)offset : NOWHERE, to, bytes);
}
