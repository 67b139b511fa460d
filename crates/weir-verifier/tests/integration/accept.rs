//! What must be accepted, and with which facts; the kernel is asked about the same programs.

use weir_ebpf::{Object, asm};
use weir_verifier::{InsnFacts, Limits, VerifiedProgram, verify};

const MAPS: &str = "
map @hash hash key 8 value 16 entries 64
map @array array key 4 value 16 entries 4
map @percpu percpu_hash key 8 value 8 entries 64
map @lanes percpu_array key 4 value 512 entries 2
map @ring ringbuf key 0 value 0 entries 4096
map @perf perf_event_array key 4 value 4 entries 2
map @stacks stack_trace key 4 value 80 entries 16
map @groups cgroup_array key 4 value 4 entries 1
map @one array key 4 value 16 entries 1
map @outer array_of_maps key 4 value 4 entries 8 inner 0
map @rings hash_of_maps key 8 value 4 entries 8 inner 4
map @arrays array_of_maps key 4 value 4 entries 8 inner 1
map @queue queue key 0 value 16 entries 4
map @stack stack key 0 value 8 entries 4
map @filter bloom_filter key 0 value 12 entries 100 extra 3
map @trie lpm_trie key 8 value 16 entries 100 flags 1
map @jumps prog_array key 4 value 4 entries 3
program \"p\" probe
";

const UNKNOWN: &str = "r6 = *(u64 *)(r1 + 0x70)";
const LOOKUP: &str = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll; call map_lookup_elem";
const FOUND: &str = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll; call map_lookup_elem
    if r0 != 0 goto +1; exit";
const LANE: &str = "r6 = *(u64 *)(r1 + 0x70); *(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@percpu] ll; call map_lookup_elem
    if r0 != 0 goto +1; exit";
const DYNPTR: &str = "r6 = *(u64 *)(r1 + 0x70); *(u64 *)(r10 - 32) = 0; r1 = map[@ring] ll; r2 = r6; r3 = 0; r4 = r10; r4 += -16; call ringbuf_reserve_dynptr";
const RESERVE: &str = "r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve";

/// Programs (what comes before, the rest) that are safe, and that the kernel takes too.
const SAFE: &[(&str, &str)] = &[
    ("", "r0 = 0; exit"),
    ("", "r0 = -1 ll; exit"),
    ("", "r0 = *(u64 *)(r1 + 160); exit"),
    ("", "r0 = *(u32 *)(r1 + 4); w0 += 1; exit"),
    ("", "r0 = *(u16 *)(r1 + 2); exit"),
    ("", "r0 = *(u8 *)(r1 + 167); exit"),
    // Arithmetic of both widths.
    (UNKNOWN, "r0 = r6; r0 s/= 3; r0 s%= -7; r0 *= r6; r0 = -r0; w0 s>>= 3; r0 ^= r6; r0 |= 5; exit"),
    // A copy of a number that another one is the low half of, moved to see whether it is in a range.
    (UNKNOWN, "*(u64 *)(r10 - 8) = r6; w6 += 2; r2 = r6; r2 += -3; if r2 > 17 goto +4; r1 = r10; r1 += -24; r2 = r6; call get_current_comm; r0 = 0; exit"),
    (UNKNOWN, "r7 = r6; r7 &= 3; r7 -= 5; r6 >>= 62; w7 *= w6; r0 = 0; if w7 != 25 goto +1; r0 = *(u64 *)(r10 - 8); exit"),
    (UNKNOWN, "r1 = r10; r1 += -16; r2 = 16; r3 = r6; call probe_read_user_str; w0 = -w0; if w0 s>= -16 goto +1; r0 = *(u64 *)(r10 - 24); r0 = 0; exit"),
    // Dynptrs: of a size that only a run knows, written to, read from, reached by a slice, given back whatever the reservation answered.
    (DYNPTR, "r1 = r10; r1 += -16; r2 = 0; call ringbuf_submit_dynptr; r0 = 0; exit"),
    (DYNPTR, "if r0 == 0 goto +5; r1 = r10; r1 += -16; r2 = 0; call ringbuf_discard_dynptr; goto +4; r1 = r10; r1 += -16; r2 = 0; call ringbuf_submit_dynptr; r0 = 0; exit"),
    (DYNPTR, "*(u64 *)(r10 - 24) = 5; r1 = r10; r1 += -16; r2 = r6; r3 = r10; r3 += -24; r4 = 8; r5 = 0; call dynptr_write;
      r1 = r10; r1 += -32; r2 = 8; r3 = r10; r3 += -16; r4 = 4; r5 = 0; call dynptr_read; r7 = *(u64 *)(r10 - 32);
      r1 = r10; r1 += -16; r2 = 0; call ringbuf_submit_dynptr; r0 = r7; exit"),
    (DYNPTR, "r1 = r10; r1 += -16; r2 = 8; r3 = 16; call dynptr_data; if r0 == 0 goto +2; *(u64 *)(r0 + 8) = 1; r0 = *(u8 *)(r0 + 15); r1 = r10; r1 += -16; r2 = 0; call ringbuf_submit_dynptr; r0 = 0; exit"),
    (DYNPTR, "r1 = r10; r1 += -16; call f; r0 = 0; exit; f: r2 = 0; call ringbuf_discard_dynptr; r0 = 0; exit"),
    (DYNPTR, "r1 = r10; r1 += -16; r2 = 0; call ringbuf_submit_dynptr; *(u64 *)(r10 - 16) = 1; r0 = *(u64 *)(r10 - 16); exit"),
    // A mask of a number whose low half is known.
    (UNKNOWN, "r0 = 0; w3 = w6; r3 = r6; if w3 s> 16 goto +6; if w3 s< 0 goto +5; r6 &= 31; r1 = r10; r1 += -24; r1 += r6; *(u8 *)(r1 + 7) = r0; exit"),
    // A sum that wraps around whatever the number is.
    (UNKNOWN, "r0 = 0; if r6 <= 40 goto +4; r2 = r6; r2 += -1; if r2 > 19 goto +1; r0 = *(u64 *)(r10 - 8); exit"),
    (UNKNOWN, "r0 = 0; w6 = w6; if w6 <= 40 goto +4; w2 = w6; w2 += -1; if w2 > 19 goto +1; r0 = *(u64 *)(r10 - 8); exit"),
    (UNKNOWN, "r0 = (s8)r6; w0 = (s16)w0; r0 = (s32)r0; r0 = be16 r0; r0 = bswap64 r0; r0 = le32 r0; exit"),
    (UNKNOWN, "r7 = 1; r7 /= r6; r7 %= r6; r7 <<= r6; r7 s>>= r6; w7 >>= w6; r0 = r7; exit"),
    // The stack: bytes, halves, spills of numbers and pointers.
    ("", "*(u32 *)(r10 - 8) = 1; *(u32 *)(r10 - 4) = 2; r0 = *(u64 *)(r10 - 8); exit"),
    ("", "*(u64 *)(r10 - 512) = 1; r0 = *(u8 *)(r10 - 505); exit"),
    ("", "*(u64 *)(r10 - 8) = r1; r2 = *(u64 *)(r10 - 8); r0 = *(u64 *)(r2 + 0); exit"),
    ("", "r2 = r10; r2 += -16; *(u64 *)(r2 + 8) = 5; r0 = *(s32 *)(r10 - 8); exit"),
    ("", "r2 = r10; r2 += -24; r3 = 16; r2 += r3; *(u16 *)(r2 + 6) = 5; r0 = *(s16 *)(r10 - 2); exit"),
    ("", "*(u64 *)(r10 - 8) = 1; r0 = 2; r0 = atomic_fetch_add((u64 *)(r10 - 8), r0); exit"),
    ("", "*(u64 *)(r10 - 8) = 1; r0 = 2; w0 = xchg32_32(r10 - 4, w0); r0 = *(u64 *)(r10 - 8); exit"),
    ("", "*(u64 *)(r10 - 8) = 1; r0 = 1; r2 = 2; r0 = cmpxchg_64(r10 - 8, r0, r2); exit"),
    // A call of every helper that needs no map.
    ("", "r6 = r1; call ktime_get_ns; call get_smp_processor_id; call get_current_pid_tgid; r1 = r6; call 174; exit"),
    ("", "r1 = r10; r1 += -16; r2 = 16; call get_current_comm; r0 = *(u8 *)(r10 - 16); exit"),
    (UNKNOWN, "r1 = r10; r1 += -64; r2 = 64; r3 = r6; call probe_read_user_str; r0 = *(u8 *)(r10 - 64); exit"),
    (UNKNOWN, "r1 = r10; r1 += -8; r2 = 8; r3 = r6; call probe_read_user; r0 = *(u64 *)(r10 - 8); exit"),
    ("r6 = r1", "call ktime_get_boot_ns; call ktime_get_tai_ns; call jiffies64; call get_prandom_u32
        call get_current_uid_gid; call get_current_cgroup_id; call get_numa_node_id; r1 = r6; call get_func_ip; exit"),
    (UNKNOWN, "r1 = r10; r1 += -8; r2 = 8; r3 = r6; call probe_read_kernel; r1 = r10; r1 += -8; r2 = 8; r3 = r6; call probe_read
        r0 = *(u64 *)(r10 - 8); exit"),
    (UNKNOWN, "r1 = r10; r1 += -8; r2 = 8; r3 = r6; call probe_read_str; if r0 s> 8 goto +1; r0 = *(u8 *)(r10 - 8); exit"),
    // Its address may be a pointer: what the macros of libbpf read of a context.
    ("r6 = r1", "r1 = r10; r1 += -8; r2 = 8; r3 = r6; call probe_read_kernel; r0 = *(u64 *)(r10 - 8); exit"),
    ("", "*(u64 *)(r10 - 16) = 7; r1 = r10; r1 += -8; r2 = 8; r3 = r10; r3 += -16; call probe_read_kernel_str; exit"),
    ("", "r1 = 0xd6425 ll; *(u64 *)(r10 - 8) = r1; r1 = r10; r1 += -8; r2 = 8; r3 = 1; call trace_printk; exit"),
    ("", "*(u64 *)(r10 - 8) = 0; r1 = r10; r1 += -8; r2 = 8; r3 = r10; r3 += -8; call trace_printk; exit"),
    ("", "*(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 16) = r10; r1 = r10; r1 += -8; r2 = 8; r3 = r10; r3 += -16; r4 = 8
        call trace_vprintk; exit"),
    ("", "*(u64 *)(r10 - 8) = 0; r1 = r10; r1 += -8; r2 = 8; r3 = 0; r4 = 0; call trace_vprintk; exit"),
    ("", "r1 = 3; r2 = 4; r3 = r10; r3 += -8; r4 = 8; call get_ns_current_pid_tgid; r0 = *(u32 *)(r10 - 4); exit"),
    ("", "r1 = map[@ring] ll; r2 = 1; call ringbuf_query; exit"),
    // Maps that other maps hold.
    ("*(u64 *)(r10 - 8) = 0", "r2 = r10; r2 += -8; r1 = map[@outer] ll; call 1; if r0 == 0 goto +8; r6 = r0; r1 = r6; r2 = r10
        r2 += -8; call 1; if r0 == 0 goto +2; r0 = *(u64 *)(r0 + 8); r0 = 0; r0 = 0; exit"),
    ("*(u64 *)(r10 - 8) = 0", "r2 = r10; r2 += -8; r1 = map[@outer] ll; call 1; if r0 == 0 goto +9; r1 = r0; r2 = r10; r2 += -8
        *(u64 *)(r10 - 24) = 1; *(u64 *)(r10 - 16) = 1; r3 = r10; r3 += -24; r4 = 0; call map_update_elem; r0 = 0; exit"),
    ("*(u64 *)(r10 - 8) = 0", "r2 = r10; r2 += -8; r1 = map[@rings] ll; call 1; if r0 == 0 goto +6; r1 = r0; r2 = r10; r2 += -8
        r3 = 8; r4 = 0; call ringbuf_output; r0 = 0; exit"),
    ("*(u64 *)(r10 - 8) = 0", "r2 = r10; r2 += -8; r1 = map[@rings] ll; call 1; if r0 == 0 goto +8; r1 = r0; r2 = 16; r3 = 0
        call ringbuf_reserve; if r0 == 0 goto +3; r1 = r0; r2 = 0; call ringbuf_submit; r0 = 0; exit"),
    // Stacks, perf events, control groups.
    ("r6 = r1", "r2 = map[@stacks] ll; r3 = 256; call get_stackid; r1 = r6; r2 = map[@stacks] ll; r3 = 0; call get_stackid; exit"),
    ("", "r2 = r10; r2 += -80; r3 = 80; r4 = 256; call get_stack; if r0 s> 80 goto +1; r0 = *(u64 *)(r10 - 8); exit"),
    ("*(u64 *)(r10 - 8) = 0", "r2 = map[@perf] ll; r3 = 0xffffffff ll; r4 = r10; r4 += -8; r5 = 8; call perf_event_output; exit"),
    ("", "r1 = map[@groups] ll; r2 = 0; call current_task_under_cgroup; exit"),
    // Lookups.
    (LOOKUP, "if r0 == 0 goto +1; r0 = *(u64 *)(r0 + 8); exit"),
    (LOOKUP, "if r0 != 0 goto +1; exit; r0 = *(u64 *)(r0 + 8); exit"),
    (LOOKUP, "r7 = r0; *(u64 *)(r10 - 16) = r0; if r7 == 0 goto +2; r1 = *(u64 *)(r10 - 16); r0 = *(u64 *)(r1 + 0)
        r0 = 0; exit"),
    (FOUND, "r1 = 1; lock *(u64 *)(r0 + 8) += r1; r1 = atomic_fetch_or((u64 *)(r0 + 0), r1); r0 = r1; exit"),
    (FOUND, "w1 = 1; lock *(u32 *)(r0 + 12) += w1; *(u8 *)(r0 + 15) = 7; r0 = *(u32 *)(r0 + 1); exit"),
    ("", "r1 = map[@one][0] + 0x8 ll; r2 = 1; lock *(u64 *)(r1 + 0) += r2; r0 = *(u64 *)(r1 - 8); exit"),
    // Offsets known by a mask, a comparison with and without sign, and a division.
    (UNKNOWN, "r6 &= 8; r1 = map[@one][0] ll; r1 += r6; r0 = *(u64 *)(r1 + 0); exit"),
    (UNKNOWN, "r1 = map[@one][0] ll; r0 = 0; if r6 > 8 goto +2; r1 += r6; r0 = *(u64 *)(r1 + 0); exit"),
    (UNKNOWN, "r1 = map[@one][0] ll; r0 = 0; if r6 s> 8 goto +3; if r6 s< 0 goto +2; r1 += r6; r0 = *(u64 *)(r1 + 0); exit"),
    (UNKNOWN, "r1 = map[@one][0] ll; w6 = w6; r0 = 0; if w6 > 8 goto +2; r1 += r6; r0 = *(u64 *)(r1 + 0); exit"),
    (UNKNOWN, "r1 = map[@one][0] ll; r6 >>= 61; r1 += 8; r1 += r6; r0 = *(u8 *)(r1 + 0); exit"),
    (UNKNOWN, "r1 = map[@one][0] ll; r6 &= 1; r6 <<= 3; r7 = 1; r1 += r6; lock *(u64 *)(r1 + 0) += r7; r0 = 0; exit"),
    // Updates and deletes.
    ("", "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@array] ll; call map_delete_elem; exit"),
    ("", "*(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 16) = 0; r2 = r10; r2 += -8; r3 = r10; r3 += -16; r4 = 0
        r1 = map[@hash] ll; call map_update_elem; r2 = r10; r2 += -8; r1 = map[@hash] ll; call map_delete_elem; exit"),
    ("", "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = r2; r4 = 1; r1 = map[@percpu] ll; call map_update_elem; exit"),
    (FOUND, "r2 = r0; r3 = r0; r4 = 0; r1 = map[@hash] ll; call map_update_elem; exit"),
    // Per-CPU memory.
    ("", "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@percpu] ll; call 1; if r0 == 0 goto +2; r1 = 1
        lock *(u64 *)(r0 + 0) += r1; r0 = 0; exit"),
    ("r7 = 1", "*(u32 *)(r10 - 4) = 1; r2 = r10; r2 += -4; r1 = map[@lanes] ll; call 1; if r0 == 0 goto +4
        lock *(u64 *)(r0 + 504) |= r7; lock *(u32 *)(r0 + 508) &= w7; lock *(u64 *)(r0 + 8) ^= r7; r0 = 0; r0 = 0; exit"),
    (LANE, "r1 = *(u64 *)(r0 + 0); r1 += 1; *(u64 *)(r0 + 0) = r1; r0 = 0; exit"),
    (LANE, "r1 = 1; r1 = atomic_fetch_add((u64 *)(r0 + 0), r1); r0 = r1; exit"),
    (LANE, "r6 = r0; r0 = 0; r1 = 1; r0 = cmpxchg_64(r6 + 0, r0, r1); exit"),
    (LANE, "r1 = r0; r2 = 8; r3 = 0; call probe_read_user; exit"),
    (LANE, "r2 = r0; r3 = r0; r4 = 0; r1 = map[@percpu] ll; call map_update_elem; exit"),
    (LANE, "r2 = r0; r1 = map[@percpu] ll; r3 = 1; call map_lookup_percpu_elem; if r0 == 0 goto +1; r0 = *(u64 *)(r0 + 0)
        exit"),
    // The same instruction reaches a per-CPU value and others.
    (LANE, "r7 = r0; if r6 == 0 goto +2; r7 = r10; r7 += -8; r0 = *(u64 *)(r7 + 0); exit"),
    // Rings.
    (RESERVE, "if r0 == 0 goto +4; *(u64 *)(r0 + 24) = 5; r1 = r0; r2 = 0; call ringbuf_submit; r0 = 0; exit"),
    (RESERVE, "if r0 == 0 goto +3; r1 = r0; r2 = 0; call ringbuf_discard; r0 = 0; exit"),
    (RESERVE, "r6 = r0; if r6 == 0 goto +7; r1 = r6; r1 += 8; r2 = 16; call get_current_comm; r1 = r6; r2 = 0; call 132
        r0 = 0; exit"),
    ("", "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = 8; r4 = 0; r1 = map[@ring] ll; call ringbuf_output; exit"),
    // Queues and stacks: what is taken needs no memory that was written before, and is written afterwards.
    ("r1 = map[@queue] ll", "r2 = r10; r2 += -16; call map_pop_elem; r0 = *(u64 *)(r10 - 8); r1 = *(u64 *)(r10 - 16); r0 += r1; exit"),
    ("r1 = map[@stack] ll", "r2 = r10; r2 += -12; call map_peek_elem; r0 = *(u32 *)(r10 - 8); exit"),
    ("r1 = map[@stack] ll", "*(u64 *)(r10 - 8) = 1; r2 = r10; r2 += -8; r3 = 2; call map_push_elem; exit"),
    (UNKNOWN, "r1 = map[@queue] ll; r2 = map[@one][0] ll; r3 = r6; call map_push_elem; exit"),
    (FOUND, "r1 = map[@queue] ll; r2 = r0; call map_pop_elem; exit"),
    ("r1 = map[@filter] ll", "*(u64 *)(r10 - 8) = 1; *(u32 *)(r10 - 12) = 1; r2 = r10; r2 += -12; call map_peek_elem; exit"),
    ("r1 = map[@filter] ll", "r2 = map[@one][0] ll; r3 = 0; call map_push_elem; r2 = map[@one][0] + 0x4 ll
        r1 = map[@filter] ll; call map_peek_elem; exit"),
    // LPM tries: keys of a length and bits.
    ("*(u32 *)(r10 - 8) = 32; *(u32 *)(r10 - 4) = 5", "r2 = r10; r2 += -8; r1 = map[@trie] ll; call map_lookup_elem
        if r0 == 0 goto +1; r0 = *(u64 *)(r0 + 8); exit"),
    ("*(u64 *)(r10 - 8) = 0", "r2 = r10; r2 += -8; r3 = map[@one][0] ll; r4 = 0; r1 = map[@trie] ll; call map_update_elem
        r2 = r10; r2 += -8; r1 = map[@trie] ll; call map_delete_elem; exit"),
    // Loops that end.
    ("", "r0 = 0; here: r0 += 1; if r0 != 100 goto here; exit"),
    (UNKNOWN, "r6 &= 63; r0 = 0; here: if r0 >= r6 goto +2; r0 += 1; goto here; exit"),
    (UNKNOWN, "r0 = 0; here: r6 >>= 1; if r6 == 0 goto +2; r0 += 1; goto here; exit"),
    ("r7 = 0", "here: r1 = map[@one][0] ll; r1 += r7; *(u8 *)(r1 + 0) = 1; r7 += 1; if r7 != 16 goto here; r0 = 0; exit"),
    // Local calls: arguments, results, kept registers, the caller's stack, checked pointers.
    ("r6 = 1", "r1 = 2; r2 = 3; call f; r0 += r6; exit; f: r6 = r1; r6 *= r2; r0 = r6; exit"),
    ("r2 = r10; r2 += -16", "*(u64 *)(r10 - 16) = 1; r1 = 5; call f; r0 = *(u64 *)(r10 - 8); exit
        f: r3 = *(u64 *)(r2 + 0); r3 += r1; *(u64 *)(r2 + 8) = r3; *(u64 *)(r10 - 8) = r2; r4 = *(u64 *)(r10 - 8)
        r0 = *(u64 *)(r4 + 0); exit"),
    ("", "call f; r0 = *(u64 *)(r0 + 0); exit; f: r0 = *(u64 *)(r1 + 0); r0 = r1; exit"),
    (LOOKUP, "r6 = r0; r1 = r0; call f; r0 = 0; exit; f: r0 = 0; if r1 == 0 goto +1; r0 = *(u64 *)(r1 + 0); exit"),
    (UNKNOWN, "r1 = r6; call f; r1 = r0; call f; r1 = map[@one][0] ll; r1 += r0; r0 = *(u8 *)(r1 + 0); exit
        f: r0 = r1; r0 &= 7; exit"),
    ("", "call f; r0 = 0; exit; f: call g; call g; r0 = 0; exit; g: call ktime_get_ns; exit"),
    ("*(u64 *)(r10 - 256) = 0", "call f; exit; f: *(u64 *)(r10 - 256) = 0; r0 = 0; exit"),
    ("", "call f; r6 = r0; call f; r0 += r6; exit; f: r0 = 0; here: r0 += 1; if r0 != 50 goto here; exit"),
    // may_goto: rounds without an end of their own, and with one.
    ("r0 = 0", "here: may_goto +2; r0 += 1; goto here; exit"),
    ("r0 = 0", "may_goto +0; may_goto +1; r0 = 1; exit"),
    ("r6 = 0", "r7 = 0; here: may_goto +6; if r6 >= 16 goto +5; r1 = map[@one][0] ll; r1 += r6; r6 += 1; goto here
        r0 = 0; exit"),
    (UNKNOWN, "r0 = 0; here: may_goto +4; if r6 == 0 goto +3; r6 >>= 1; r0 += 1; goto here; exit"),
    ("r6 = 0", "here: may_goto +10; *(u64 *)(r10 - 8) = r6; r2 = r10; r2 += -8; r1 = map[@hash] ll; call 1; r6 += 1
        if r0 == 0 goto here; r6 = *(u64 *)(r0 + 0); goto here; r0 = 0; exit"),
    ("", "call f; exit; f: r0 = 0; here: may_goto +2; r0 += 1; goto here; exit"),
    // Callbacks: none or many rounds, what they find and leave in the caller's stack, nesting, records held outside.
    (UNKNOWN, "r1 = r6; r2 = f ll; r3 = 0; r4 = 0; call loop; exit; f: r0 = 0; exit"),
    (UNKNOWN, "r1 = r6; r2 = f ll; r3 = 0; r4 = r6; call loop; exit; f: r0 = r1; r0 &= 1; exit"),
    (UNKNOWN, "r7 = f ll; *(u64 *)(r10 - 8) = r7; r1 = r6; r2 = *(u64 *)(r10 - 8); r3 = 0; r4 = 0; call loop; r0 = 0; exit
        f: r0 = 1; exit"),
    ("", "r2 = f ll; call g; exit; f: r0 = 0; exit; g: r1 = 9; r3 = 0; r4 = 0; call loop; exit"),
    ("*(u64 *)(r10 - 8) = 0", "r1 = 1000; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = *(u64 *)(r10 - 8); exit
        f: r3 = *(u64 *)(r2 + 0); r3 += r1; *(u64 *)(r2 + 0) = r3; r0 = 0; exit"),
    ("*(u64 *)(r10 - 8) = 0", "r1 = 1000000; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = 0; exit
        f: r3 = *(u64 *)(r2 + 0); r0 = 1; if r3 >= 16 goto +6; r4 = map[@one][0] ll; r4 += r3; r5 = 1; *(u8 *)(r4 + 0) = r5
        r3 += 1; *(u64 *)(r2 + 0) = r3; r0 = 0; exit"),
    ("r6 = r1; *(u64 *)(r10 - 8) = r6", "r1 = 9; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = 0; exit
        f: r3 = *(u64 *)(r2 + 0); r0 = *(u64 *)(r3 + 8); r0 = 0; exit"),
    ("*(u64 *)(r10 - 8) = 0", "r1 = 50; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; exit
        f: r6 = r2; r1 = 50; r2 = g ll; r3 = r6; r4 = 0; call loop; r0 = 0; exit
        g: r1 = 1; lock *(u64 *)(r2 + 0) += r1; r0 = 0; exit"),
    (RESERVE, "r6 = r0; if r6 == 0 goto +11; *(u64 *)(r10 - 8) = r6; r1 = 5; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop
        r1 = r6; r2 = 0; call 132; r0 = 0; exit; f: r1 = *(u64 *)(r2 + 0); *(u64 *)(r1 + 0) = 1; r0 = 0; exit"),
    ("", "r1 = 5; r2 = f ll; r3 = 0; r4 = 0; call loop; exit; f: r1 = map[@ring] ll; r2 = 32; r3 = 0; call 131
        if r0 == 0 goto +3; r1 = r0; r2 = 0; call 132; r0 = 0; exit"),
    ("r6 = 0", "here: r1 = 3; r2 = f ll; r3 = 0; r4 = 0; call loop; r6 += 1; if r6 != 20 goto here; r0 = 0; exit
        f: r0 = 0; exit"),
    ("*(u64 *)(r10 - 256) = 0", "r1 = 9; r2 = f ll; r3 = 0; r4 = 0; call loop; exit; f: *(u64 *)(r10 - 256) = 0; r0 = 0; exit"),
    ("*(u64 *)(r10 - 8) = 0", "r1 = map[@hash] ll; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call for_each_map_elem; exit
        f: r5 = *(u64 *)(r2 + 0); r0 = *(u32 *)(r3 + 12); r5 += r0; *(u64 *)(r3 + 0) = r5; *(u64 *)(r4 + 0) = r5; r0 = 0; exit"),
    ("", "r1 = map[@array] ll; r2 = f ll; r3 = 0; r4 = 0; call for_each_map_elem; exit
        f: r5 = *(u32 *)(r2 + 0); r0 = *(u8 *)(r2 + 3); *(u64 *)(r3 + 8) = r5; r0 = 0; exit"),
    ("", "r1 = map[@hash] ll; r2 = f ll; r3 = 0; r4 = 0; call for_each_map_elem; exit; f: call map_delete_elem; r0 = 0; exit"),
    ("", "r1 = map[@hash] ll; r2 = f ll; r3 = 0; r4 = 0; call for_each_map_elem; exit
        f: r6 = r2; r7 = r3; r1 = map[@hash] ll; r4 = 0; call map_update_elem; r2 = r6; r1 = map[@hash] ll; call 1; r0 = 0; exit"),
    ("", "r1 = map[@lanes] ll; r2 = f ll; r3 = 0; r4 = 0; call for_each_map_elem; exit; f: r1 = 1; lock *(u64 *)(r3 + 8) += r1
        r0 = 0; exit"),
    // Tail calls: whatever the slot, the program goes on where there is no other.
    ("", "r2 = map[@jumps] ll; r3 = 1; call tail_call; r0 = 0; exit"),
    ("r6 = *(u64 *)(r1 + 8)", "r2 = map[@jumps] ll; r3 = r6; call tail_call; r0 = r6; exit"),
    ("r6 = r1; r7 = 0", "here: r1 = r6; r2 = map[@jumps] ll; r3 = r7; call tail_call; r7 += 1; if r7 != 5 goto here; r0 = 0; exit"),
    ("r6 = r1", "call f; r1 = r6; r2 = map[@jumps] ll; r3 = 0; call tail_call; r0 = 0; exit; f: r0 = 0; exit"),
    // A constant number of rounds is followed round by round where that shows more.
    ("*(u64 *)(r10 - 8) = 0", "r1 = 16; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = 0; exit
        f: r3 = *(u64 *)(r2 + 0); r4 = map[@one][0] ll; r4 += r3; r5 = 1; *(u8 *)(r4 + 0) = r5; r3 += 1
        *(u64 *)(r2 + 0) = r3; r0 = 0; exit"),
    // Ordered accesses of every width.
    (FOUND, "w1 = load_acquire((u8 *)(r0 + 1)); w1 = load_acquire((u16 *)(r0 + 2)); w1 = load_acquire((u32 *)(r0 + 4))
        r1 = load_acquire((u64 *)(r0 + 8)); store_release((u8 *)(r0 + 1), w1); store_release((u16 *)(r0 + 2), w1)
        store_release((u32 *)(r0 + 4), w1); store_release((u64 *)(r0 + 8), r1); r0 = 0; exit"),
    ("r2 = 7", "store_release((u64 *)(r10 - 8), r2); w0 = load_acquire((u8 *)(r10 - 8)); exit"),
    ("", "store_release((u64 *)(r10 - 8), r10); r2 = load_acquire((u64 *)(r10 - 8)); *(u64 *)(r2 - 16) = 1; r0 = 0; exit"),
    // Paths that meet with the same, with less and with more known.
    (UNKNOWN, "r7 = 1; if r6 == 0 goto +1; r7 = 2; r0 = r7; exit"),
    (UNKNOWN, "if r6 == 0 goto +1; *(u64 *)(r10 - 8) = 1; *(u64 *)(r10 - 8) = 2; r0 = *(u64 *)(r10 - 8); exit"),
    (UNKNOWN, "if r6 & 1 goto +1; r6 = 0; if r6 s<= 5 goto +0; if w6 s>= 5 goto +0; gotol +0; r0 = r6; exit"),
];

/// Programs that are safe, but that Linux 6.18 refuses: it knows no bounds of a remainder, none below an offset, and
/// none of a round's number.
const SAFE_HERE: &[(&str, &str)] = &[
    // Constant strings in maps that programs may write; helpers of other kinds of program.
    ("*(u64 *)(r10 - 8) = 0", "r1 = r10; r1 += -8; r2 = 8; r3 = map[@one][0] ll; call strncmp; exit"),
    (
        "*(u64 *)(r10 - 8) = 0",
        "r1 = r10; r1 += -32; r2 = 16; r3 = map[@one][0] + 0x8 ll; r4 = r10; r4 += -8; r5 = 8
        call snprintf; r0 = *(u8 *)(r10 - 32); exit",
    ),
    ("", "r1 = 0; r2 = 0; r3 = map[@one][0] ll; r4 = 0; r5 = 0; call snprintf; exit"),
    ("*(u64 *)(r10 - 8) = 0", "r1 = 0; r2 = 0; r3 = r10; r3 += -8; r4 = 8; r5 = 0; call csum_diff; exit"),
    (
        UNKNOWN,
        "r1 = r10; r1 += -8; r2 = 8; r3 = r6; call copy_from_user; call ktime_get_coarse_ns; r0 = *(u64 *)(r10 - 8); exit",
    ),
    (UNKNOWN, "r1 = map[@one][0] ll; r6 %= 9; r1 += r6; r0 = *(u64 *)(r1 + 0); exit"),
    (UNKNOWN, "r1 = map[@one][0] + 0x8 ll; r6 &= 8; r1 -= r6; r0 = *(u64 *)(r1 + 0); exit"),
    // Functions of a session, which the kernel knows by other numbers, and in probes of sessions alone.
    ("r1 = map[@one][0] ll; *(u64 *)(r10 - 8) = r1", "call bpf_session_is_return; r0 <<= 3; r1 = *(u64 *)(r10 - 8); r1 += r0
        r0 = *(u64 *)(r1 + 0); exit"),
    ("", "call bpf_session_cookie; *(u64 *)(r0 + 0) = 5; r1 = 1; lock *(u32 *)(r0 + 4) += r1; r0 = *(u8 *)(r0 + 7); exit"),
    // The number of a round is below their count.
    ("", "r1 = 16; r2 = f ll; r3 = 0; r4 = 0; call loop; exit; f: r4 = map[@one][0] ll; r4 += r1; r5 = 1; *(u8 *)(r4 + 0) = r5
        r0 = 0; exit"),
];

fn object(before: &str, text: &str) -> Object {
    let text = format!("{MAPS}{before}\n{text}").replace(';', "\n");
    asm::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn accepted(text: &str) -> VerifiedProgram {
    accepted_object(&object("", text))
}

fn accepted_object(object: &Object) -> VerifiedProgram {
    verify(&object.programs[0], &object.maps, &Limits::default())
        .unwrap_or_else(|rejection| panic!("{rejection}\n{}", asm::print(object)))
}

fn fact(text: &str, at: usize) -> InsnFacts {
    accepted(text).facts()[at]
}

#[test]
fn safe_programs() {
    SAFE.iter().chain(SAFE_HERE).for_each(|(before, text)| drop(accepted_object(&object(before, text))));
}

#[test]
fn safe_programs_are_safe_for_the_kernel_too() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("verifier::kernel", reason);
    }
    let refused = SAFE.iter().map(|(before, text)| object(before, text)).filter_map(|object| {
        let error = testkit::kernel::load(&object).err()?;
        Some(format!("{error}\n{}", asm::print(&object)))
    });
    let refused: Vec<String> = refused.collect();
    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
}

#[test]
fn stack_and_context_are_measured() {
    let check = |text: &str, stack_bytes: u32, context_reads: u32| {
        let program = accepted(text);
        assert_eq!((program.stack_bytes(), program.context_reads()), (stack_bytes, context_reads), "{text}");
        assert_eq!(program.facts().len(), program.insns().len());
    };
    check("r0 = 0; exit", 0, 0);
    check("r0 = *(u64 *)(r1 + 0x70); exit", 0, 1 << 14);
    check("r0 = *(u64 *)(r1 + 0); r0 = *(u8 *)(r1 + 167); exit", 0, 1 | 1 << 20);
    check("r0 = *(u64 *)(r1 + 168); r0 = *(u32 *)(r1 + 228); exit", 0, 1 << 21 | 1 << 28);
    check("*(u64 *)(r10 - 0x18) = 0; r0 = 0; exit", 24, 0);
    check("*(u8 *)(r10 - 0x17) = 0; r0 = 0; exit", 24, 0);
    check("*(u8 *)(r10 - 512) = 0; r0 = 0; exit", 512, 0);
    let nested = |text: &str, bytes: u32| assert_eq!(accepted(text).nested_stack_bytes(), bytes, "{text}");
    nested("r0 = 0; exit", 0);
    nested("*(u8 *)(r10 - 24) = 0; r0 = 0; exit", 32);
    nested("*(u8 *)(r10 - 24) = 0; call pc+0x1; exit; *(u8 *)(r10 - 80) = 0; r0 = 0; exit", 112);
    check("r1 = r10; r1 += -40; r2 = 16; call get_current_comm; r0 = 0; exit", 40, 0);
    // A path that cannot be gone counts for nothing.
    check("r0 = 0; if r0 == 0 goto +2; r0 = *(u64 *)(r1 + 8); *(u64 *)(r10 - 8) = 0; exit", 0, 0);
}

#[test]
fn functions_are_measured() {
    let program = accepted(
        "*(u64 *)(r10 - 16) = 0; r1 = r10; call f; exit; call h; exit; f: *(u64 *)(r10 - 24) = 0; *(u64 *)(r1 - 40) = 0; call g; exit
         g: r0 = 0; exit; h: *(u64 *)(r10 - 512) = 0; exit",
    );
    // What is never reached uses nothing.
    let functions: Vec<_> = program.functions().iter().map(|it| (it.start, it.stack_bytes)).collect();
    assert_eq!(functions, [(0, 40), (6, 24), (10, 0), (12, 0)]);
    assert!(!program.facts()[12].reachable && program.facts()[10].reachable);
    assert_eq!(accepted("r0 = 0; exit").functions().len(), 1);
}

/// A path is dropped for one with fewer rounds behind it only where both went on through `may_goto`.
#[test]
fn paths_through_calls_meet_again() {
    let diamonds: String =
        (0..30).map(|bit| format!("if r6 & {:#x} goto +1\nr7 = {bit}\n", 1u32 << bit)).collect();
    let calls = "r1 = 1\ncall f\n".repeat(20);
    accepted(&format!(
        "{UNKNOWN}; r7 = 0\n{diamonds}{calls}r0 = 0; exit; f: r0 = r1; r1 = 2; if r0 == 5 goto +0; exit"
    ));
}

#[test]
fn branches_that_always_go_one_way() {
    assert_eq!(fact("r1 = 5; if r1 == 5 goto +1; exit; r0 = 0; exit", 1).branch, Some(true));
    assert_eq!(fact("r1 = 5; if r1 > 5 goto +1; goto +0; r0 = 0; exit", 1).branch, Some(false));
    assert!(!fact("r1 = 5; if r1 == 5 goto +1; exit; r0 = 0; exit", 2).reachable);
    assert!(fact("r1 = 5; if r1 == 5 goto +1; exit; r0 = 0; exit", 3).reachable);
    assert_eq!(fact("r0 = 0; if r10 == 0 goto +0; exit", 1).branch, Some(false));
    // Each round alone knows where it goes; together they do not.
    assert_eq!(fact("r0 = 0; r0 += 1; if r0 != 3 goto -2; exit", 2).branch, None);
    let unknown = "r6 = *(u64 *)(r1 + 0); r0 = 1; if r6 == 0 goto +1; r0 = 2; if r0 == 1 goto +0; exit";
    assert_eq!(fact(unknown, 4).branch, None);
    assert!(!fact("r0 = 0 ll; exit", 1).reachable);
}

#[test]
fn constant_keys_of_arrays() {
    let lookup = |key: &str, map: &str| {
        format!("{key}; r2 = r10; r2 += -8; r1 = map[{map}] ll; call 1; if r0 == 0 goto +1; r0 = 0; exit")
    };
    let at = |text: &str| {
        let program = accepted(text);
        let call = program.insns().iter().position(|insn| insn.opcode == 0x85).expect("has a call");
        (
            program.facts()[call].constant_key,
            program.facts()[call].map_index,
            program.facts()[call + 1].branch,
        )
    };
    assert_eq!(at(&lookup("*(u32 *)(r10 - 8) = 1", "@lanes")), (Some(1), Some(3), Some(false)));
    assert_eq!(at(&lookup("*(u64 *)(r10 - 8) = 0", "@array")), (Some(0), Some(1), Some(false)));
    assert_eq!(at(&lookup("*(u32 *)(r10 - 8) = 3", "@array")), (Some(3), Some(1), Some(false)));
    assert_eq!(at(&lookup("*(u16 *)(r10 - 8) = 3; *(u16 *)(r10 - 6) = 0", "@array")).0, Some(3));
    assert_eq!(at(&lookup("r3 = 2; *(u32 *)(r10 - 8) = r3", "@array")).0, Some(2));
    assert_eq!(at(&lookup("*(u32 *)(r10 - 8) = 4", "@array")), (None, Some(1), None));
    assert_eq!(at(&lookup("*(u32 *)(r10 - 8) = -1", "@array")), (None, Some(1), None));
    assert_eq!(at(&lookup("*(u64 *)(r10 - 8) = 0", "@hash")), (None, Some(0), None));
    assert_eq!(at(&lookup("r3 = *(u32 *)(r1 + 0); *(u32 *)(r10 - 8) = r3", "@array")), (None, Some(1), None));
    // The key differs from path to path: found on both, but not at one place.
    let two = "r6 = *(u64 *)(r1 + 0); *(u32 *)(r10 - 8) = 1; if r6 == 0 goto +1; *(u32 *)(r10 - 8) = 2";
    assert_eq!(at(&lookup(two, "@array")), (None, Some(1), Some(false)));
}

#[test]
fn per_cpu_accesses_name_their_map() {
    let text = "r6 = 1; r1 = map[@lanes][0] ll; lock *(u64 *)(r1 + 8) += r6; r1 = map[@one][0] ll
        lock *(u64 *)(r1 + 8) += r6; *(u64 *)(r10 - 8) = 0; r0 = 0; exit";
    assert_eq!(fact(text, 3).per_cpu_map, Some(3));
    assert_eq!(fact(text, 6).per_cpu_map, None);
    assert_eq!(fact(text, 7).per_cpu_map, None);
}

#[test]
fn a_lane_is_needed_for_more_than_additions() {
    let needs = |needed: bool, text: &str| {
        assert_eq!(accepted(&format!("{LANE}\n{text}")).needs_lane(), needed, "{text}");
    };
    needs(false, "r0 = 0; exit");
    needs(false, "r1 = 1; lock *(u64 *)(r0 + 0) += r1; r0 = 0; exit");
    needs(false, "r1 = 1; lock *(u32 *)(r0 + 4) |= w1; r0 = 0; exit");
    needs(false, "r2 = r10; r2 += -8; r1 = map[@percpu] ll; call map_delete_elem; exit");
    needs(false, "r2 = r10; r2 += -8; r3 = r2; r4 = 1; r1 = map[@percpu] ll; call map_update_elem; exit");
    needs(false, "r1 = map[@one][0] ll; r0 = *(u64 *)(r1 + 0); exit");
    needs(true, "r2 = r10; r2 += -8; r3 = r2; r4 = 0; r1 = map[@percpu] ll; call map_update_elem; exit");
    needs(true, "r2 = r10; r2 += -8; r3 = r2; r4 = r6; r1 = map[@percpu] ll; call map_update_elem; exit");
    needs(true, "r0 = *(u8 *)(r0 + 7); exit");
    needs(true, "*(u16 *)(r0 + 2) = 5; r0 = 0; exit");
    needs(true, "r1 = 1; r1 = atomic_fetch_add((u64 *)(r0 + 0), r1); r0 = 0; exit");
    needs(true, "r1 = 1; r1 = xchg_64(r0 + 0, r1); r0 = 0; exit");
    needs(true, "r0 = load_acquire((u64 *)(r0 + 0)); exit");
    needs(true, "r1 = 0; store_release((u64 *)(r0 + 0), r1); r0 = 0; exit");
    needs(true, "r1 = r0; r2 = 8; r3 = 0; call probe_read_user; exit");
    needs(true, "r2 = r0; r1 = map[@hash] ll; call map_lookup_elem; r0 = 0; exit");
    needs(true, "r3 = r0; r1 = r10; r1 += -8; r2 = 8; call probe_read_kernel; r0 = 0; exit");
    needs(
        true,
        "r2 = r10; r2 += -8; r1 = map[@percpu] ll; r3 = 0; call map_lookup_percpu_elem; r0 = 0; exit",
    );
    needs(
        true,
        "r7 = r0; r1 = 1; if r6 == 0 goto +2; r7 = map[@array][0] ll; lock *(u64 *)(r7 + 0) += r1; r0 = 0; exit",
    );
    // What no path reaches needs nothing.
    needs(false, "r1 = 0; if r1 == 0 goto +1; *(u64 *)(r0 + 0) = 5; r0 = 0; exit");
}

#[test]
fn many_branches_are_followed_within_the_limits() {
    let diamonds = |count: usize, body: &dyn Fn(usize) -> String| {
        (0..count)
            .map(|index| format!("if r6 & {:#x} goto +1\n{}\n", 1 << (index % 31), body(index)))
            .collect::<String>()
    };
    // What is written on one way is not read again.
    let dead = diamonds(1_000, &|index| format!("*(u64 *)(r10 - {}) = {index}", 8 + index % 64 * 8));
    accepted(&format!("{UNKNOWN}\n{dead}r0 = 0; exit"));
    let dead_registers =
        diamonds(1_000, &|index| format!("r{} = {index}", [0, 2, 3, 4, 5, 7, 8, 9][index % 8]));
    accepted(&format!("{UNKNOWN}\n{dead_registers}r0 = 0; exit"));
    // What is written is read at the end: 2 to the 40th paths, unless numbers are joined.
    let before: String = (0..40).map(|index| format!("*(u64 *)(r10 - {}) = -1\n", 8 + index * 8)).collect();
    let live = diamonds(40, &|index| format!("*(u64 *)(r10 - {}) = {index}", 8 + index * 8));
    let after: String = (0..40).map(|index| format!("r0 = *(u64 *)(r10 - {})\n", 8 + index * 8)).collect();
    accepted(&format!("{UNKNOWN}\n{before}{live}{after}exit"));
}

/// Rounds of a loop are not branches that wait.
#[test]
fn long_loops_with_branches_inside_are_followed() {
    accepted(&format!(
        "{UNKNOWN}; r0 = 0; here: r0 += 1; if r0 != 30000 goto here; if r6 == 0 goto +1; r0 = 1; exit"
    ));
    accepted("r0 = 0; here: r1 = r0; r1 &= 1; if r1 == 0 goto +0; r0 += 1; if r0 != 100000 goto here; exit");
}

/// Each would have as many paths as its rounds have outcomes, were all numbers to be told apart.
#[test]
fn sums_and_counts_do_not_make_rounds_differ() {
    let rounds = |round: &str| {
        format!(
            "{UNKNOWN}; r7 = 0; r8 = 0; here: r6 ^= r8; {round}; r8 += 1; if r8 != 300 goto here; r0 = r7; exit"
        )
    };
    accepted(&rounds("if r6 & 1 goto +1; r7 += 1"));
    accepted(&rounds("if r6 & 1 goto +1; r7 += r8"));
    accepted(&rounds("if r6 & 1 goto +2; w7 *= 31; w7 ^= w8"));
    accepted(&rounds(
        "*(u64 *)(r10 - 8) = r7; if r6 & 1 goto +0; r7 = *(u64 *)(r10 - 8); if r6 & 2 goto +1; r7 -= 5",
    ));
    accepted(&format!(
        "{}\nf: r0 = r1; r0 &= 1; exit",
        rounds("r1 = r6; call f; r7 += r0; if r0 == 0 goto +1; r7 += 2")
    ));
}

/// As in an insertion: each of 48 rounds looks for its place among the earlier ones.
#[test]
fn searches_inside_long_loops_are_followed() {
    accepted(&format!(
        "{UNKNOWN}; r1 = map[@lanes][0] ll; r7 = 0; outer: r8 = r7
        inner: if r8 == 0 goto done; r8 += -1; r6 *= 3; if r6 & 4 goto inner
        done: r2 = r1; r8 <<= 3; r2 += r8; r3 = 1; lock *(u64 *)(r2 + 0) += r3; r7 += 1; if r7 != 48 goto outer
        r0 = 0; exit"
    ));
}

#[test]
fn the_largest_program_is_verified() {
    let object = {
        let mut object = object("r0 = 0", "exit");
        let add = object.programs[0].insns[0];
        object.programs[0].insns.splice(0..0, std::iter::repeat_n(add, 65_534));
        object
    };
    accepted_object(&object);
}

/// 80 rounds, each of which goes on by 1 or by 2 to 33: by when it did which, a path has a range of its own. Merged,
/// fewer than 4,000 instructions are followed; with every path apart, more than a million.
const STEPS: &str = "*(u32 *)(r10 - 4) = 0; r2 = r10; r2 += -4; r1 = map[@lanes] ll; call map_lookup_elem; if r0 != 0 goto +1; exit
    r9 = r0; r8 = 80; call get_prandom_u32; w6 = w0; w6 &= 63
    if w6 > 500 goto +12; r1 = r9; r1 += r6; r2 = *(u8 *)(r1 + 0); r3 = *(u8 *)(r1 + 1); w3 &= 31; w3 += 2
    if w2 == 1 goto +1; goto +1; w3 = 1; w6 += w3; w8 += -1; if w8 != 0 goto -13
    r0 = 0; exit";

#[test]
fn rounds_whose_ranges_differ_are_merged() {
    let object = asm::parse(&format!("{MAPS}{}", STEPS.replace(';', "\n"))).expect("is assembly text");
    let limits = Limits { explored_insns_max: 4_000, ..Limits::default() };
    verify(&object.programs[0], &object.maps, &limits).expect("a few paths a round");
}

/// Ranges that meet, each inside the 16 bytes of a value, and merged not: what merging loses, a run without it finds.
#[test]
fn what_merging_loses_is_found_by_a_run_without_it() {
    let meets = |first: &str, second: &str| {
        format!(
            "{MAPS}r6 = *(u64 *)(r1 + 0x70); {FOUND}; r7 = r6; if r6 == 9 goto +3; r7 &= 3; {first}; goto +2
             r7 &= 7; {second}; r0 += r7; r0 = *(u8 *)(r0 + 0); exit"
        )
        .replace("; ", "\n")
    };
    for (first, second) in [("r7 += 0", "r7 += 8"), ("r7 += 8", "r7 += 0"), ("r7 += 4", "r7 += 0")] {
        let object = asm::parse(&meets(first, second)).expect("is assembly text");
        verify(&object.programs[0], &object.maps, &Limits::default()).expect("each path is inside");
    }
}
