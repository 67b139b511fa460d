/* Helpers of programs that are given packets.
 *
 * - Bytes of a socket filter's packet. In: a context whose slots name the packet and its headers (context.rs of weir-ebpf,
 *   `packet`). Out: the bytes asked for, or zeros and -EFAULT where the packet has them not; in either case every byte of
 *   the buffer is written.
 * - Where XDP programs send packets. Out: the verdict that a program is to answer. In a process nothing is sent, and maps of
 *   devices, CPUs and sockets are empty; the verdicts are those that the kernel gives then. */
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

/* enum xdp_action, and the flags of redirect_map: what to answer where the map has no such element, and, of a map of
 * devices, that all get the packet, perhaps but the one that it came from. */
enum { XDP_ABORTED = 0, XDP_REDIRECT = 4, ACTIONS = 3, TO_ALL = 8, BUT_INGRESS = 16 };

u64 weir_redirect(u64 device, u64 flags)
{
    (void)device;
    return flags ? XDP_ABORTED : XDP_REDIRECT;
}

/* Of classifiers: TC_ACT_SHOT, TC_ACT_REDIRECT, and BPF_F_INGRESS. */
enum { TC_SHOT = 2, TC_REDIRECT = 7, TC_INGRESS = 1 };

u64 weir_redirect_classified(u64 device, u64 flags)
{
    (void)device;
    return flags & ~(u64)TC_INGRESS ? TC_SHOT : TC_REDIRECT;
}

u64 weir_redirect_map(const struct weir_map *map, u64 index, u64 flags)
{
    u64 many = map->kind == KIND_DEVMAP || map->kind == KIND_DEVMAP_HASH ? TO_ALL | BUT_INGRESS : 0;
    (void)index;
    if (flags & ~(ACTIONS | many))
        return XDP_ABORTED;
    return flags & many & TO_ALL ? XDP_REDIRECT : flags & ACTIONS;
}

/* What only a driver, or the kernel's tables, can do. */
s64 weir_not_here(void) { return -EOPNOTSUPP; }
