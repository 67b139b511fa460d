//! Programs that are lent a packet or memory: what must be accepted, and what refused.

#![allow(dead_code, reason = "each test binary uses its part")]

use weir_ebpf::{Object, asm};

const MAPS: &str = "map @hash hash key 8 value 16 entries 64\nmap @array array key 4 value 16 entries 4
map @ring ringbuf key 0 value 0 entries 4096\nmap @devices devmap key 4 value 4 entries 4
map @cpus cpumap key 4 value 4 entries 2\nmap @sockets xskmap key 4 value 4 entries 4\n";

/// r7 = the packet, r8 = its end.
const ENDS: &str = "r7 = *(u32 *)(r1 + 0); r8 = *(u32 *)(r1 + 4)";
/// And 14 bytes of it are there, else the program ends with 1.
const ETHERNET: &str =
    "r7 = *(u32 *)(r1 + 0); r8 = *(u32 *)(r1 + 4); r0 = 1; r2 = r7; r2 += 14; if r2 <= r8 goto +1; exit";
/// And r6 is a byte of it.
const BYTE: &str =
    "r7 = *(u32 *)(r1 + 0); r8 = *(u32 *)(r1 + 4); r0 = 1; r2 = r7; r2 += 14; if r2 <= r8 goto +1; exit
    r6 = *(u8 *)(r7 + 0)";

pub(crate) fn object(kind: &str, before: &str, text: &str) -> Object {
    let text = format!("{MAPS}program \"p\" {kind}\n{before}\n{text}").replace(';', "\n");
    asm::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// XDP programs (what comes before, the rest) that are safe, and that the kernel takes.
pub(crate) const XDP: &[(&str, &str)] = &[
    // Every field.
    ("", "r0 = *(u32 *)(r1 + 12); r2 = *(u32 *)(r1 + 16); r0 += r2; exit"),
    ("", "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 4); r4 = *(u32 *)(r1 + 8); r0 = 0; exit"),
    // Each comparison, both ways round: what is behind it on the way where the bytes are there.
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r2 > r8 goto +1; r0 = *(u64 *)(r7 + 0); exit"),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r2 >= r8 goto +1; r0 = *(u8 *)(r7 + 8); exit"),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r2 < r8 goto +1; exit; r0 = *(u8 *)(r7 + 8); exit"),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r2 <= r8 goto +1; exit; r0 = *(u64 *)(r7 + 0); exit"),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r8 < r2 goto +1; r0 = *(u64 *)(r7 + 0); exit"),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r8 <= r2 goto +1; r0 = *(u8 *)(r7 + 8); exit"),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r8 > r2 goto +1; exit; r0 = *(u8 *)(r7 + 8); exit"),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r8 >= r2 goto +1; exit; r0 = *(u64 *)(r7 + 0); exit"),
    // Reads, writes and copies of the pointer, wherever it points.
    (ETHERNET, "r0 = *(u16 *)(r7 + 12); r2 = *(u8 *)(r7 + 13); *(u32 *)(r7 + 3) = r0; *(u64 *)(r7 + 6) = 7; exit"),
    (ETHERNET, "r3 = r2; r3 -= 14; r0 = *(u64 *)(r3 + 0); r2 += -4; r0 = *(u32 *)(r2 + 0); exit"),
    (ETHERNET, "*(u64 *)(r10 - 8) = r7; r3 = *(u64 *)(r10 - 8); r0 = *(s16 *)(r3 + 12); exit"),
    // An unknown distance with a known maximum, checked again.
    (BYTE, "r6 &= 60; r7 += r6; r2 = r7; r2 += 20; r0 = 0; if r2 > r8 goto +1; r0 = *(u32 *)(r7 + 16); exit"),
    (BYTE, "r6 &= 60; r7 += 14; r7 += r6; r2 = r7; r2 += 1; r0 = 0; if r2 > r8 goto +1; r0 = *(u8 *)(r7 + 0); exit"),
    (BYTE, "r2 = r6; r2 += r7; r3 = r2; r3 += 2; r0 = 0; if r3 > r8 goto +2; r0 = *(u16 *)(r2 + 0); *(u8 *)(r2 + 1) = 9; exit"),
    // A loop over the options of a header.
    (ENDS, "r0 = 0; r6 = 0; here: r2 = r7; r2 += 2; if r2 > r8 goto +5; r3 = *(u8 *)(r7 + 0); r0 += r3; r7 += 2; r6 += 1
        if r6 != 8 goto here; exit"),
    // The packet's size.
    (ENDS, "r8 -= r7; r0 = r8; exit"),
    (ENDS, "w8 -= w7; w0 = w8; exit"),
    // Metadata.
    (ENDS, "r9 = *(u32 *)(r1 + 8); r2 = r9; r2 += 4; r0 = 0; if r2 > r7 goto +2; r0 = *(u32 *)(r9 + 0); *(u32 *)(r9 + 0) = 5; exit"),
    (ENDS, "r9 = *(u32 *)(r1 + 8); r2 = r9; r2 += 4; r0 = 0; if r7 < r2 goto +1; r0 = *(u32 *)(r9 + 0); exit"),
    // Helpers: keys and values in the packet.
    (ETHERNET, "r2 = r7; r1 = map[@hash] ll; call map_lookup_elem; if r0 == 0 goto +2; r1 = *(u8 *)(r7 + 0)
        *(u64 *)(r0 + 0) = r1; r0 = 2; exit"),
    // Packets are sent elsewhere, and moved: then their addresses are read again.
    ("", "r1 = map[@devices] ll; r2 = 1; r3 = 2; call redirect_map; exit"),
    ("", "r1 = map[@cpus] ll; r2 = 1; r3 = 2; call redirect_map; exit"),
    ("*(u32 *)(r10 - 4) = 0", "r1 = map[@sockets] ll; r2 = r10; r2 += -4; call map_lookup_elem; if r0 == 0 goto +1; r0 = *(u32 *)(r0 + 0); exit"),
    ("*(u32 *)(r10 - 4) = 0", "r1 = map[@devices] ll; r2 = r10; r2 += -4; call map_lookup_elem; if r0 == 0 goto +1; r0 = *(u32 *)(r0 + 0); exit"),
    ("r1 = 1", "r2 = 0; call redirect; exit"),
    ("r6 = r1", "r2 = -4; call xdp_adjust_head; r7 = *(u32 *)(r6 + 0); r8 = *(u32 *)(r6 + 4); r0 = 2; r2 = r7; r2 += 14
        if r2 > r8 goto +1; r0 = *(u8 *)(r7 + 12); exit"),
    ("*(u64 *)(r10 - 8) = 0", "r2 = 4; call xdp_adjust_tail; exit"),
    // Functions of the program.
    (ETHERNET, "r1 = r7; call f; exit; f: r0 = *(u8 *)(r1 + 13); exit"),
    (ENDS, "r1 = r7; r2 = r8; call f; exit; f: r0 = 0; r3 = r1; r3 += 4; if r3 > r2 goto +1; r0 = *(u32 *)(r1 + 0); exit"),
    // Paths that meet knowing different lengths.
    (ETHERNET, "r2 = r7; r2 += 34; if r2 > r8 goto +1; r0 = *(u8 *)(r7 + 33); r0 = *(u8 *)(r7 + 13); exit"),
    ("r9 = r1", "r0 = 0; if r0 == 0 goto +0; r7 = *(u32 *)(r9 + 0); r8 = *(u32 *)(r9 + 4); r7 += 1; if r7 > r8 goto +1; r0 = *(u8 *)(r7 - 1); exit"),
];

/// Safe, but the kernel gives its ring no bytes of a packet.
pub(crate) const XDP_HERE: &[(&str, &str)] =
    &[(ETHERNET, "r2 = r7; r3 = 14; r4 = 0; r1 = map[@ring] ll; call ringbuf_output; r0 = 2; exit")];

/// XDP programs that are refused, with a part of the message; the kernel refuses them too.
pub(crate) const NOT_XDP: &[(&str, &str, &str)] = &[
    // A pointer that a loop moves, into a packet that the loop moves; what routes write to memory.
    ("r9 = r1; r6 = *(u32 *)(r9 + 0); r7 = 0", "here: r8 = *(u32 *)(r9 + 4); r3 = r6; r3 += 8; if r3 > r8 goto out; r0 = *(u32 *)(r6 + 0); r6 += 4
        r1 = r9; r2 = 64; call xdp_adjust_head; r7 += 1; if r7 < 10 goto here; out: r0 = 2; exit", "r6 is read"),
    ("r6 = r1; *(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 16) = 0; *(u64 *)(r10 - 24) = 0; *(u64 *)(r10 - 32) = 0; *(u64 *)(r10 - 40) = 0
        *(u64 *)(r10 - 48) = 0; *(u64 *)(r10 - 56) = 0; *(u64 *)(r10 - 64) = 0; r7 = map[@array][0] ll",
        "r1 = r6; r2 = r10; r2 += -64; r3 = 64; r4 = 0; call fib_lookup; r1 = *(u32 *)(r10 - 56); r7 += r1; r0 = *(u8 *)(r7 + 0); exit", ""),
    // A packet that was moved, of which the stack has an address too; elements that stand for devices; maps of other kinds.
    (
        "r6 = r1; r7 = *(u32 *)(r1 + 0); r8 = *(u32 *)(r1 + 4); r0 = 1; r2 = r7; r2 += 14; if r2 <= r8 goto +1; exit",
        "r1 = r6; r2 = -4; call xdp_adjust_head; r0 = *(u8 *)(r7 + 0); exit",
        "r7 is read",
    ),
    (
        "r6 = r1; r7 = *(u32 *)(r1 + 0); r8 = *(u32 *)(r1 + 4); r0 = 1; r2 = r7; r2 += 14; if r2 <= r8 goto +1; exit; *(u64 *)(r10 - 8) = r7",
        "r1 = r6; r2 = 4; call xdp_adjust_tail; r7 = *(u64 *)(r10 - 8); r0 = *(u8 *)(r7 + 0); exit",
        "",
    ),
    (
        "*(u32 *)(r10 - 4) = 0",
        "r1 = map[@devices] ll; r2 = r10; r2 += -4; call map_lookup_elem; if r0 == 0 goto +1; *(u32 *)(r0 + 0) = 1; r0 = 0; exit",
        "only read",
    ),
    (
        "*(u32 *)(r10 - 4) = 0",
        "r1 = map[@cpus] ll; r2 = r10; r2 += -4; call map_lookup_elem; r0 = 0; exit",
        "does not take",
    ),
    (
        "*(u64 *)(r10 - 8) = 0; *(u32 *)(r10 - 12) = 0",
        "r1 = map[@devices] ll; r2 = r10; r2 += -12; r3 = r10; r3 += -8; r4 = 0; call map_update_elem; r0 = 0; exit",
        "does not take",
    ),
    ("", "r1 = map[@array] ll; r2 = 1; r3 = 2; call redirect_map; exit", "does not take"),
    ("r1 = 1", "r2 = 0; call weir_redirect_classified; exit", "is for engines alone"),
    (
        "",
        "r2 = 0; r3 = r10; r3 += -16; r4 = 8; call skb_load_bytes; exit",
        "is for socket filters and classifiers, not for programs",
    ),
    ("", "r0 = *(u32 *)(r1 + 20); exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 24); exit", "no field"),
    ("", "r0 = *(u32 *)(r1 - 4); exit", "no field"),
    ("", "r0 = *(u16 *)(r1 + 12); exit", "ingress_ifindex is not read so"),
    ("", "r0 = *(u64 *)(r1 + 0); exit", "data is not read so"),
    ("", "r0 = *(s32 *)(r1 + 0); exit", "signed"),
    ("", "r0 = 0; *(u32 *)(r1 + 16) = r0; exit", "not written so"),
    ("", "r0 = 1; lock *(u32 *)(r1 + 16) += r0; exit", "plain loads and stores"),
    ("", "r0 = 0; *(u64 *)(r1 + 0) = r0; exit", "not written so"),
    // Nothing is known of the length.
    (ENDS, "r0 = *(u8 *)(r7 + 0); exit", "was not compared with the end"),
    (ENDS, "r0 = 0; *(u8 *)(r7 + 0) = r0; exit", "was not compared with the end"),
    (ENDS, "r0 = *(u8 *)(r8 + 0); exit", "the end of the packet, not a pointer to memory"),
    // The wrong way out, one byte too many, before the start.
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r2 > r8 goto +1; exit; r0 = *(u64 *)(r7 + 0); exit", "not compared"),
    (
        ENDS,
        "r0 = 0; r2 = r7; r2 += 8; if r2 >= r8 goto +1; exit; r0 = *(u64 *)(r7 + 0); exit",
        "not compared",
    ),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r2 < r8 goto +1; r0 = *(u64 *)(r7 + 0); exit", "not compared"),
    (ENDS, "r0 = 0; r2 = r7; r2 += 8; if r8 >= r2 goto +1; r0 = *(u64 *)(r7 + 0); exit", "not compared"),
    (
        ENDS,
        "r0 = 0; r2 = r7; r2 += 8; if r8 <= r2 goto +1; exit; r0 = *(u64 *)(r7 + 0); exit",
        "not compared",
    ),
    (
        ENDS,
        "r0 = 0; r2 = r7; r2 += 8; if r2 > r8 goto +1; r0 = *(u8 *)(r7 + 8); exit",
        "not known to be inside",
    ),
    (
        ENDS,
        "r0 = 0; r2 = r7; r2 += 8; if r2 >= r8 goto +1; r0 = *(u16 *)(r7 + 8); exit",
        "not known to be inside",
    ),
    (ETHERNET, "r0 = *(u16 *)(r7 + 13); exit", "14 bytes behind"),
    (ETHERNET, "r0 = *(u8 *)(r7 - 1); exit", "not known to be inside"),
    (ETHERNET, "r0 = *(u8 *)(r2 + 0); exit", "not known to be inside"),
    // The metadata is not the packet, and what was learnt of one says nothing of the other.
    (
        ENDS,
        "r9 = *(u32 *)(r1 + 8); r2 = r9; r2 += 4; r0 = 0; if r2 > r8 goto +1; r0 = *(u32 *)(r9 + 0); exit",
        "not compared",
    ),
    (
        ENDS,
        "r9 = *(u32 *)(r1 + 8); r2 = r9; r2 += 4; r0 = 0; if r2 > r7 goto +1; r0 = *(u32 *)(r7 + 0); exit",
        "not compared",
    ),
    // Unknown distances: not checked again, negative, too far, another pointer checked.
    (BYTE, "r7 += r6; r0 = *(u8 *)(r7 + 0); exit", "not compared"),
    (
        BYTE,
        "r6 = -r6; r7 += r6; r2 = r7; r2 += 1; r0 = 0; if r2 > r8 goto +1; r0 = *(u8 *)(r7 + 0); exit",
        "may be negative",
    ),
    (
        BYTE,
        "r2 = r7; r2 += r6; r3 = r7; r3 += r6; r3 += 4; r0 = 0; if r3 > r8 goto +1; r0 = *(u8 *)(r2 + 0); exit",
        "not compared",
    ),
    (
        "r6 = *(u32 *)(r1 + 12); r9 = r1",
        "r7 = *(u32 *)(r9 + 0); r8 = *(u32 *)(r9 + 4); r6 <<= 32; r7 += r6; r0 = 0
        r2 = r7; r2 += 1; if r2 > r8 goto +1; r0 = *(u8 *)(r7 + 0); exit",
        "",
    ),
    // Arithmetic and comparisons that mean nothing, leaks, atomic operations.
    (ENDS, "r8 += 1; r0 = 0; exit", "arithmetic on the end of the packet"),
    (ENDS, "r7 *= 2; r0 = 0; exit", "arithmetic on"),
    (ETHERNET, "r1 = 1; lock *(u64 *)(r7 + 0) += r1; r0 = 0; exit", "plain loads and stores"),
    (
        ETHERNET,
        "r2 = r7; r2 += 7; r1 = map[@hash] ll; call map_lookup_elem; r0 = 2; exit",
        "not known to be inside",
    ),
    // A function's argument was checked elsewhere.
    (ENDS, "r1 = r7; call f; exit; f: r0 = *(u8 *)(r1 + 13); exit", "not compared"),
    ("", "r0 = *(u8 *)skb[0]; exit", "packet loads are for socket filters"),
    ("", "r0 = 0; call get_attach_cookie; exit", ""),
];

/// What only weir refuses: pointers are numbers to nobody, root included.
pub(crate) const NOT_XDP_HERE: &[(&str, &str, &str)] = &[
    (ETHERNET, "*(u64 *)(r7 + 0) = r7; r0 = 0; exit", "leak"),
    (ENDS, "r0 = r7; exit", "leak"),
    (ENDS, "r0 = r8; exit", "leak"),
    (ENDS, "r0 = 0; if r7 == 5 goto +0; exit", "is compared with something"),
];

/// Socket filters, as for [`XDP`].
pub(crate) const SOCKET: &[(&str, &str)] = &[
    // Copies of the packet: to the stack, at an index, to a map.
    ("", "r2 = 0; r3 = r10; r3 += -16; r4 = 16; call skb_load_bytes; r0 = *(u64 *)(r10 - 16); r2 = *(u64 *)(r10 - 8); r0 += r2; exit"),
    (
        "r2 = *(u32 *)(r1 + 0)",
        "*(u64 *)(r10 - 16) = 0; *(u64 *)(r10 - 8) = 0; r4 = r2; r4 &= 7; r4 += 1; r3 = r2; r3 &= 8; r3 += -16; r3 += r10
        r5 = 1; call skb_load_bytes_relative; r0 = *(u8 *)(r10 - 1); exit",
    ),
    ("", "r0 = *(u32 *)(r1 + 0); exit"),
    ("", "r0 = *(u8 *)(r1 + 17); r2 = *(u16 *)(r1 + 34); r0 += r2; exit"),
    (
        "",
        "r0 = *(u32 *)(r1 + 4); r2 = *(u32 *)(r1 + 8); r2 = *(u32 *)(r1 + 12); r2 = *(u32 *)(r1 + 16); r2 = *(u32 *)(r1 + 20); exit",
    ),
    (
        "",
        "r0 = *(u32 *)(r1 + 24); r2 = *(u32 *)(r1 + 28); r2 = *(u32 *)(r1 + 32); r2 = *(u32 *)(r1 + 36); r2 = *(u32 *)(r1 + 40); exit",
    ),
    (
        "",
        "r0 = *(u32 *)(r1 + 44); r2 = *(u32 *)(r1 + 68); r2 = *(u32 *)(r1 + 84); r2 = *(u32 *)(r1 + 164); r2 = *(u32 *)(r1 + 176); exit",
    ),
    (
        "",
        "r0 = 7; *(u32 *)(r1 + 48) = r0; *(u64 *)(r1 + 56) = r0; *(u8 *)(r1 + 67) = 3; r0 = *(u64 *)(r1 + 48); exit",
    ),
    ("r6 = r1", "r0 = *(u8 *)skb[9]; exit"),
    ("r6 = r1", "r0 = *(u8 *)skb[0]; r0 = *(u32 *)skb[r0]; exit"),
    (
        "r6 = r1",
        "r0 = *(u16 *)skb[-0x200000]; r0 = *(u16 *)skb[r0 + 2]; r7 = r0; r0 = *(u32 *)skb[-0x100000]; r0 += r7; exit",
    ),
];

pub(crate) const NOT_SOCKET: &[(&str, &str, &str)] = &[
    ("", "r2 = 0; r3 = r10; r3 += -16; r4 = 17; call skb_load_bytes; exit", "outside the stack"),
    ("", "r2 = 0; r3 = r10; r3 += -16; r4 = 0; call skb_load_bytes; exit", "0 is not allowed"),
    ("r1 = r10", "r2 = 0; r3 = r10; r3 += -16; r4 = 8; call skb_load_bytes; exit", "the context is needed"),
    ("r1 += 8", "r2 = 0; r3 = r10; r3 += -16; r4 = 8; call skb_load_bytes; exit", "the context is needed"),
    ("r2 = *(u32 *)(r1 + 0)", "r3 = r10; r3 += -16; r4 = r2; call skb_load_bytes; exit", "0 is not allowed"),
    // The packet has no addresses here.
    ("", "r0 = *(u32 *)(r1 + 76); r0 = 0; exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 80); r0 = 0; exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 140); r0 = 0; exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 72); exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 88); exit", "no field"),
    ("", "r0 = *(u64 *)(r1 + 152); exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 160); exit", "no field"),
    ("", "r0 = *(u8 *)(r1 + 180); exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 192); exit", "no field"),
    ("", "r0 = *(u64 *)(r1 + 0); exit", "is not read so"),
    ("", "r0 = *(u16 *)(r1 + 1); exit", "is not read so"),
    ("", "r0 = *(u64 *)(r1 + 64); exit", "cb is not read so"),
    ("", "r0 = 0; *(u32 *)(r1 + 8) = r0; exit", "mark is not written so"),
    ("", "r0 = 0; *(u32 *)(r1 + 32) = r0; exit", "not written so"),
    ("", "r0 = 0; *(u32 *)(r1 + 44) = r0; exit", "not written so"),
    ("", "r0 = 0; *(u64 *)(r1 + 64) = r0; exit", "not written so"),
    // Packet loads: the context in r6, a number, nothing held, nothing kept.
    ("", "r0 = *(u8 *)skb[0]; exit", "r6 is read but was never written"),
    ("r6 = 0", "r0 = *(u8 *)skb[0]; exit", "needs the context in r6"),
    ("r6 = r1", "r0 = *(u8 *)skb[0]; r0 = r1; exit", "r1 is read but holds nothing"),
    ("r6 = r1", "r5 = 1; r0 = *(u8 *)skb[0]; r0 = r5; exit", "r5 is read but holds nothing"),
    ("r6 = r1", "r1 = map[@ring] ll; r2 = 8; r3 = 0; call ringbuf_reserve; if r0 == 0 goto +4; r7 = r0; r0 = *(u8 *)skb[0]
        r1 = r7; r2 = 0; call ringbuf_submit; r0 = 0; exit", "ring record"),
];

pub(crate) const NOT_SOCKET_HERE: &[(&str, &str, &str)] = &[
    ("", "*(u64 *)(r1 + 48) = r10; r0 = 0; exit", "leak"),
    ("r6 = r1", "r0 = *(u8 *)skb[r10]; exit", "where a number is needed"),
];

/// Classifiers, as for [`XDP`]; more are made of the others' programs (see [`classifiers`]).
pub(crate) const CLASSIFIER: &[(&str, &str)] = &[
    // What socket filters have not.
    ("", "r0 = *(u32 *)(r1 + 72); r2 = *(u64 *)(r1 + 152); r2 = *(u32 *)(r1 + 160); r2 = *(u8 *)(r1 + 180); r2 = *(u64 *)(r1 + 184); exit"),
    ("", "r0 = *(u16 *)(r1 + 162); r2 = *(u8 *)(r1 + 75); r0 += r2; exit"),
    ("", "r2 = *(u32 *)(r1 + 76); r3 = *(u32 *)(r1 + 80); r4 = *(u32 *)(r1 + 140); r0 = 0; exit"),
    (
        "",
        "r0 = 7; *(u32 *)(r1 + 8) = r0; *(u32 *)(r1 + 12) = r0; *(u32 *)(r1 + 32) = 5; *(u32 *)(r1 + 44) = r0; *(u32 *)(r1 + 72) = r0
        *(u64 *)(r1 + 152) = r0; *(u64 *)(r1 + 56) = 9; *(u8 *)(r1 + 67) = 3; exit",
    ),
    // Behind the IPv4 header, whose length the packet says: by its address, and by packet loads beside it.
    (OF_SK_BUFF, "r4 = r7; r4 += 34; r0 = 0; if r4 > r8 goto no; r5 = *(u8 *)(r7 + 14); r5 &= 15; r5 <<= 2; r7 += r5
        r4 = r7; r4 += 18; if r4 > r8 goto no; r0 = *(u32 *)(r7 + 14); no: exit"),
    (OF_SK_BUFF, "r4 = r7; r4 += 34; r0 = 0; if r4 > r8 goto no; r5 = *(u8 *)(r7 + 14); w5 &= 15; w5 <<= 2; r5 += r7; r4 = r5
        r4 += 18; if r8 >= r4 goto +1; no: exit; r0 = *(u16 *)(r5 + 16); exit"),
    (OF_SK_BUFF, "r4 = r7; r4 += 34; r0 = 0; if r4 > r8 goto no; r5 = *(u8 *)(r7 + 14); r5 &= 15; r5 <<= 2; r5 += 14; r6 = r7; r6 += r5
        r4 = r6; r4 += 4; if r4 > r8 goto no; r0 = *(u16 *)(r6 + 2); no: exit"),
    // And after another that stands there, and back in front of it.
    (OF_SK_BUFF, "r4 = r7; r4 += 34; r0 = 0; if r4 > r8 goto no; r5 = *(u8 *)(r7 + 14); r5 &= 15; r5 <<= 2; r6 = r7; r6 += r5; r4 = r6
        r4 += 34; if r4 > r8 goto no; r5 = *(u8 *)(r6 + 26); r5 >>= 4; r5 <<= 2; r6 += r5; r4 = r6; r4 += 40; if r4 > r8 goto no
        r0 = *(u32 *)(r6 + 36); r2 = *(u8 *)(r7 + 33); r0 += r2; no: exit"),
    // A distance that comparisons bound.
    (OF_SK_BUFF, "r5 = *(u32 *)(r1 + 160); r0 = 0; if r5 > 1500 goto no; r7 += r5; r4 = r7; r4 += 2; if r4 > r8 goto no; r0 = *(u16 *)(r7 + 0); no: exit"),
    ("r6 = r1; r7 = *(u32 *)(r1 + 76); r8 = *(u32 *)(r1 + 80)", "r0 = *(u8 *)skb[14]; r0 &= 15; r0 <<= 2; r9 = r0; r0 = *(u16 *)skb[r9 + 14]; r3 = r7
        r3 += r9; r4 = r3; r4 += 16; if r4 > r8 goto no; r2 = *(u16 *)(r3 + 14); r0 += r2; no: exit"),
];

pub(crate) const NOT_CLASSIFIER: &[(&str, &str, &str)] = &[
    ("", "r0 = *(u32 *)(r1 + 88); exit", "no field"),
    ("", "r0 = *(u64 *)(r1 + 144); exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 192); exit", "no field"),
    ("", "r0 = *(u32 *)(r1 + 152); exit", "tstamp is not read so"),
    ("", "r0 = *(u16 *)(r1 + 180); exit", "tstamp_type is not read so"),
    ("", "r0 = 0; *(u32 *)(r1 + 0) = r0; exit", "len is not written so"),
    ("", "r0 = 0; *(u16 *)(r1 + 8) = r0; exit", "mark is not written so"),
    ("", "r0 = 0; *(u32 *)(r1 + 160) = r0; exit", "wire_len is not written so"),
    ("", "r0 = 0; *(u32 *)(r1 + 76) = r0; exit", "data is not written so"),
    ("", "r0 = 1; lock *(u32 *)(r1 + 8) += r0; exit", "plain loads and stores"),
    // A header's length was not compared; nor was the wire's, which is not that of what was captured.
    (
        OF_SK_BUFF,
        "r4 = r7; r4 += 34; r0 = 0; if r4 > r8 goto +5; r5 = *(u8 *)(r7 + 14); r5 &= 15; r5 <<= 2; r7 += r5
        r0 = *(u32 *)(r7 + 14); exit",
        "not compared",
    ),
    (
        OF_SK_BUFF,
        "r4 = r7; r4 += 34; r0 = 0; if r4 > r8 goto +8; r5 = *(u8 *)(r7 + 14); r5 &= 15; r5 <<= 2; r7 += r5
        r4 = r7; r4 += 18; if r4 > r8 goto +1; r0 = *(u32 *)(r7 + 15); exit",
        "not known to be inside",
    ),
    (
        OF_SK_BUFF,
        "r5 = *(u32 *)(r1 + 0); r0 = 0; if r5 < 14 goto +1; r0 = *(u8 *)(r7 + 13); exit",
        "not compared",
    ),
    // A packet is not copied into itself.
    (
        OF_SK_BUFF,
        "r4 = r7; r4 += 34; r0 = 0; if r4 > r8 goto +4; r2 = 0; r3 = r7; r4 = 8; call skb_load_bytes; exit",
        "",
    ),
];

/// The kernel has the socket too.
pub(crate) const NOT_CLASSIFIER_HERE: &[(&str, &str, &str)] =
    &[("", "r2 = *(u64 *)(r1 + 168); r0 = 0; exit", "no field"), (OF_SK_BUFF, "r0 = r7; exit", "leak")];

/// [`ENDS`] of a `struct __sk_buff`.
const OF_SK_BUFF: &str = "r7 = *(u32 *)(r1 + 76); r8 = *(u32 *)(r1 + 80)";

/// What programs of a control group's packets may do, and the kernel takes of those of packets that come in.
pub(crate) const CGROUP_SKB: &[(&str, &str)] = &[
    (OF_SK_BUFF, "r0 = 0; r2 = r7; r2 += 8; if r2 > r8 goto +2; r0 = *(u8 *)(r7 + 0); r0 &= 1; exit"),
    (
        "",
        "r2 = *(u32 *)(r1 + 0); *(u32 *)(r1 + 8) = r2; *(u32 *)(r1 + 52) = r2; *(u64 *)(r1 + 152) = r2; r0 = 1; exit",
    ),
    ("", "r2 = 0; r3 = r10; r3 += -8; r4 = 8; call skb_load_bytes; r0 = 0; exit"),
    ("", "r0 = *(u32 *)(r1 + 0); if r0 > 1 goto +1; exit; r0 = 1; exit"),
];

/// And what not.
pub(crate) const NOT_CGROUP_SKB: &[(&str, &str, &str)] = &[
    (
        OF_SK_BUFF,
        "r0 = 0; r2 = r7; r2 += 8; if r2 > r8 goto +1; *(u8 *)(r7 + 0) = 1; exit",
        "only read packets",
    ),
    (
        OF_SK_BUFF,
        "r0 = 0; r2 = r7; r2 += 8; if r2 > r8 goto +3; r1 = r7; r2 = 8; call get_current_comm; r0 = 0; exit",
        "only read packets",
    ),
    ("", "r0 = 4; exit", "answer 0 to 3"),
    ("", "r0 = *(u32 *)(r1 + 0); exit", "answer 0 to 3"),
    // The answer on one way, where the other way ended first.
    (
        "",
        "r2 = *(u32 *)(r1 + 0); r0 = 1; if r2 > 9 goto other; out: exit; other: r0 = *(u32 *)(r1 + 8); goto out",
        "answer 0 to 3",
    ),
    ("r6 = r1", "r0 = *(u8 *)skb[0]; r0 = 0; exit", "packet loads"),
    ("", "r2 = *(u32 *)(r1 + 160); r0 = 0; exit", "no field"),
    ("", "r2 = *(u32 *)(r1 + 140); r0 = 0; exit", "no field"),
];

/// Programs of a control group's sockets, and of messages, that the kernel takes.
pub(crate) const CGROUP_SOCK: &[(&str, &str)] = &[
    (
        "",
        "r2 = *(u32 *)(r1 + 4); r0 = 1; if r2 == 2 goto +1; exit; *(u32 *)(r1 + 16) = r2; *(u32 *)(r1 + 0) = 0; exit",
    ),
    ("", "r2 = *(u32 *)(r1 + 52); r3 = *(u16 *)(r1 + 48); r0 = *(u8 *)(r1 + 8); r0 &= 1; exit"),
];
pub(crate) const NOT_CGROUP_SOCK: &[(&str, &str, &str)] = &[
    ("", "r0 = 2; exit", "answer 0 to 1"),
    ("", "*(u32 *)(r1 + 4) = 1; r0 = 1; exit", "not written so"),
    ("", "r2 = *(u32 *)(r1 + 80); r0 = 1; exit", ""),
];
pub(crate) const SK_MSG: &[(&str, &str)] = &[
    (
        "r7 = *(u64 *)(r1 + 0); r8 = *(u64 *)(r1 + 8)",
        "r0 = 1; r2 = r7; r2 += 4; if r2 > r8 goto +2; r0 = *(u8 *)(r7 + 3); *(u8 *)(r7 + 0) = 5; exit",
    ),
    ("", "r0 = *(u32 *)(r1 + 68); r2 = *(u32 *)(r1 + 16); r0 += r2; exit"),
];
pub(crate) const FLOW_DISSECTOR: &[(&str, &str)] = &[
    (
        OF_SK_BUFF,
        "r9 = *(u64 *)(r1 + 144); r0 = 0; r2 = r7; r2 += 24; if r2 > r8 goto +2; r0 = *(u8 *)(r7 + 23); *(u8 *)(r9 + 9) = r0; r0 = 0; exit",
    ),
    ("", "r9 = *(u64 *)(r1 + 144); r2 = *(u16 *)(r9 + 0); *(u32 *)(r9 + 52) = r2; r0 = 0; exit"),
];
pub(crate) const NOT_FLOW_DISSECTOR: &[(&str, &str, &str)] = &[
    (
        OF_SK_BUFF,
        "r0 = 0; r2 = r7; r2 += 24; if r2 > r8 goto +1; *(u8 *)(r7 + 0) = 1; exit",
        "only read packets",
    ),
    ("", "r9 = *(u64 *)(r1 + 144); *(u32 *)(r9 + 56) = 0; r0 = 0; exit", "inside"),
    ("", "r9 = *(u32 *)(r1 + 144); r0 = 0; exit", ""),
    ("", "r2 = *(u32 *)(r1 + 0); r0 = 0; exit", "no field"),
];
pub(crate) const NOT_SK_MSG: &[(&str, &str, &str)] = &[
    (
        "r7 = *(u64 *)(r1 + 0); r8 = *(u64 *)(r1 + 8)",
        "r0 = 1; r2 = r7; r2 += 4; if r2 > r8 goto +1; r0 = *(u8 *)(r7 + 4); exit",
        "",
    ),
    ("", "*(u32 *)(r1 + 68) = 1; r0 = 1; exit", "not written so"),
    ("", "r7 = *(u32 *)(r1 + 0); r0 = 1; exit", ""),
];

/// What classifiers may do: [`CLASSIFIER`], what XDP programs do with packets, and what socket filters may.
pub(crate) fn classifiers() -> Vec<(String, String)> {
    let own =
        CLASSIFIER.iter().chain(SOCKET).map(|(before, text)| ((*before).to_owned(), (*text).to_owned()));
    own.chain(XDP.iter().filter_map(|(before, text)| of_sk_buff(before, text))).collect()
}

/// What they may not: [`NOT_CLASSIFIER`], and what the others may not but for fields.
pub(crate) fn not_classifiers() -> Vec<(String, String, &'static str)> {
    let of_fields = |part: &str| part == "no field" || part.ends_with("not written so");
    let of_sockets = NOT_SOCKET.iter().filter(|(.., part)| !of_fields(part));
    let own = NOT_CLASSIFIER.iter().chain(of_sockets);
    let own = own.map(|(before, text, part)| ((*before).to_owned(), (*text).to_owned(), *part));
    let of_xdp = NOT_XDP.iter().filter_map(|(before, text, part)| {
        let (before, text) = of_sk_buff(before, text)?;
        Some((before, text, *part))
    });
    own.chain(of_xdp).collect()
}

/// An XDP program that begins with a packet's ends, with those of a `struct __sk_buff`.
fn of_sk_buff(before: &str, text: &str) -> Option<(String, String)> {
    let rest = before.strip_prefix(ENDS)?;
    Some((format!("{OF_SK_BUFF}{rest}"), text.replace("r9 = *(u32 *)(r1 + 8)", "r9 = *(u32 *)(r1 + 140)")))
}

/// Programs with 16 bytes of memory.
pub(crate) const MEMORY: &[(&str, &str)] = &[
    ("", "r0 = *(u64 *)(r1 + 8); r0 += r2; exit"),
    ("", "*(u64 *)(r1 + 0) = 5; *(u8 *)(r1 + 15) = r2; r0 = *(u32 *)(r1 + 11); exit"),
    ("r0 = 1", "lock *(u64 *)(r1 + 8) += r0; w0 = atomic_fetch_add((u32 *)(r1 + 4), w0); exit"),
    (
        "",
        "r0 = 0; r3 = 0; here: r4 = r1; r4 += r3; r5 = *(u8 *)(r4 + 0); r0 += r5; r3 += 1; if r3 < r2 goto here; exit",
    ),
    ("", "r0 = 0; if r1 == 0 goto +1; r0 = *(u8 *)(r1 + 0); exit"),
    ("", "r3 = *(u8 *)(r1 + 0); r3 &= 7; r1 += r3; r0 = *(u64 *)(r1 + 1); exit"),
    (
        "",
        "r2 = r1; r1 = map[@hash] ll; call map_lookup_elem; if r0 == 0 goto +1; r0 = *(u64 *)(r0 + 8); exit",
    ),
    ("r6 = r1", "call f; r0 = *(u8 *)(r6 + 3); exit; f: *(u8 *)(r1 + 3) = 4; r0 = 0; exit"),
];

pub(crate) const NOT_MEMORY: &[(&str, &str, &str)] = &[
    ("", "r0 = *(u64 *)(r1 + 9); exit", "not known to be inside its 16 bytes"),
    ("", "r0 = *(u8 *)(r1 - 1); exit", "not known to be inside"),
    ("", "r1 += r2; r0 = *(u8 *)(r1 + 0); exit", "not known to be inside"),
    ("", "r3 = *(u8 *)(r1 + 0); r1 += r3; r0 = *(u8 *)(r1 + 0); exit", "not known to be inside"),
    ("", "*(u64 *)(r1 + 0) = r1; r0 = 0; exit", "leak"),
    ("", "r0 = r1; exit", "leak"),
    ("", "r0 = 1; lock *(u64 *)(r1 + 4) += r0; exit", "may not be aligned"),
    ("", "call get_attach_cookie; exit", "is for probes"),
    ("", "r6 = r1; r0 = *(u8 *)skb[0]; exit", "packet loads are for socket filters"),
];

/// Every accepted program, by kind.
pub(crate) fn accepted() -> Vec<Object> {
    let classifiers = classifiers();
    let classifiers = classifiers.iter().map(|(before, text)| object("classifier", before, text));
    let lists = [("xdp", XDP), ("xdp", XDP_HERE), ("socket", SOCKET), ("memory 16", MEMORY)];
    let of_kind = |(kind, list): (&'static str, &'static [(&str, &str)])| {
        list.iter().map(move |(before, text)| object(kind, before, text))
    };
    lists.into_iter().flat_map(of_kind).chain(classifiers).collect()
}
