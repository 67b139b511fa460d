/*
 * The words of the in-target runtime: descriptors, control blocks, the island, atomics and raw system calls.
 *
 * The same C runs in two places: as a position-independent image inside a traced process, and linked into the
 * controller, where the segment may be written by a hostile target at the same time. So everything read from
 * shared memory is masked or bounds-checked before it becomes an address, and every loop has a budget. What is
 * trusted: the descriptor (`struct weir_map`) and the island, which live in memory the target cannot write.
 *
 * No libc, no locks, no allocation, no global mutable state, no vector or x87 instruction, no string instruction.
 * Byte layouts are described in docs/segment.md and pinned by tests on the Rust side (src/abi.rs).
 */
#ifndef WEIR_H
#define WEIR_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef long s64;

/* A word at any alignment: keys and values of programs may lie anywhere on the eBPF stack. */
typedef u64 __attribute__((aligned(1), may_alias)) u64_any;
typedef u32 __attribute__((aligned(1), may_alias)) u32_any;
typedef u64 __attribute__((may_alias)) u64_word;

#define INLINE static inline __attribute__((always_inline))

#include "isa/native.h"

/* Map kinds, numbered as in the kernel's enum bpf_map_type. */
enum { KIND_HASH = 1, KIND_ARRAY = 2, KIND_PERF_EVENT_ARRAY = 4, KIND_PERCPU_HASH = 5, KIND_PERCPU_ARRAY = 6,
       KIND_STACK_TRACE = 7, KIND_CGROUP_ARRAY = 8, KIND_LRU_HASH = 9, KIND_LRU_PERCPU_HASH = 10,
       KIND_LPM_TRIE = 11, KIND_ARRAY_OF_MAPS = 12, KIND_HASH_OF_MAPS = 13, KIND_DEVMAP = 14, KIND_QUEUE = 22,
       KIND_STACK = 23, KIND_DEVMAP_HASH = 25, KIND_RINGBUF = 27, KIND_BLOOM_FILTER = 30 };

/* Update flags (linux/bpf.h). */
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2, BPF_F_LOCK = 4 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
#define BPF_F_INDEX_MASK 0xfffffffful
#define BPF_F_CURRENT_CPU 0xffffffffu
enum { BPF_F_SKIP_FIELD_MASK = 0xff, BPF_F_USER_STACK = 1 << 8, BPF_F_FAST_STACK_CMP = 1 << 9,
       BPF_F_REUSE_STACKID = 1 << 10, BPF_F_USER_BUILD_ID = 1 << 11 };
enum { BPF_RB_AVAIL_DATA = 0, BPF_RB_RING_SIZE = 1, BPF_RB_CONS_POS = 2, BPF_RB_PROD_POS = 3 };

/* Errors (asm-generic/errno-base.h, errno.h). */
enum { ENOENT = 2, EPERM = 1, E2BIG = 7, EAGAIN = 11, ENOMEM = 12, EFAULT = 14, EBUSY = 16, EEXIST = 17, EINVAL = 22,
       ENOSPC = 28, ENOSYS = 38, EOPNOTSUPP = 95 };

/* What a helper takes as a map. 128 bytes; addresses are of the process the descriptor is for. */
struct weir_map {
    u32 kind;
    u32 key_bytes;
    u32 value_bytes;
    u32 max_entries;
    u32 elem_stride;  /* bytes from one element's value to the next, in one lane */
    u32 lanes;        /* 1, or for per-CPU kinds CPUs (or claimable lanes) + 1; the last lane is the shared one */
    u64 lane_stride;  /* bytes from a value in one lane to the same value in the next */
    u64 control;      /* address of struct weir_control */
    u64 data;         /* address of the first value (lane 0), or of a ring's data */
    u64 buckets;      /* hash: address of the bucket heads; queue, stack: of the slots */
    u64 nodes;        /* hash, queue, stack: address of the first node */
    u32 bucket_mask;  /* hash: buckets - 1; bloom: bits - 1 */
    u32 node_stride;  /* bytes from one node to the next, a multiple of 16 */
    u32 node_count;   /* max_entries + spare nodes */
    u32 key_stride;   /* hash: key_bytes rounded up to 8 */
    u64 seed;         /* hash: of the hash function; ring: of the words that mark free space (even) */
    u32 cpus;         /* CPUs: with claimed lanes, lanes below this are named after one */
    u32 claim_lanes;  /* lanes that a run claims; 0: lanes are changed by rseq code alone */
    u64 hashes;       /* bloom: hash functions, 1 to 15 */
    u64 descriptors;  /* map that holds maps: address of the first map's descriptor, */
    u32 map_count;    /* how many there are, */
    u32 inner;        /* and which one those that it holds are like */
    u32 all_cpus;     /* rings that overwrite: how many are of CPUs; the others are claimed. 0: they do not overwrite */
    u32 reserved;
};
_Static_assert(sizeof(struct weir_map) == 128, "docs/segment.md");
_Static_assert(__builtin_offsetof(struct weir_map, lane_stride) == 24, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_map, nodes) == 56, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_map, seed) == 80, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_map, cpus) == 88, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_map, descriptors) == 104, "src/abi.rs");

/* The first 256 bytes of a map's area. Written by everybody. */
struct weir_control {
    u64 free_or_producer;  /* 0: hash, queue, stack: list of free nodes; ring: bytes ever reserved */
    u64 pad0[7];
    u64 spare_or_consumer; /* 64: hash: list of spare nodes; ring: bytes ever consumed; queue: position of its head;
                            * stack: link to its top */
    union {
        u64 top_place;      /* 72: stack: where its top is, and how many elements */
        u64 overwritten[2]; /* 72: ring that overwrites: records that gave way, by the lowest bit of the word before */
    };
    u64 pad1[5];
    union {
        u64 fresh;         /* 128: hash, queue, stack: nodes below this were taken at least once */
        u64 writer;        /* 128: ring that overwrites, and is no CPU's: 1 while somebody reserves */
    };
    u64 fresh_spare;       /* 136: the same for spare nodes */
    u64 tail;              /* 144: queue: position of its tail */
    u64 hand;              /* 152: LRU: nodes passed in looking for one to give up */
    u64 changes;           /* 160: LPM trie: prefixes added, and prefixes about to be deleted */
    u64 pad2[3];
    u64 full;              /* 192: updates and pushes refused with E2BIG */
    u64 contended;         /* 200: operations given up after their budget of steps */
    u64 dropped;           /* 208: ring records refused because the ring was full */
    u64 corrupt;           /* 216: impossible values seen in shared memory */
    u64 evicted;           /* 224: LRU: keys given up to make room */
    u64 withheld;          /* 232: hash that grows: nodes, the last of max_entries, that are not allocated yet */
    u64 outgrown;          /* 240: hash that grows: updates among `full` for want of those */
    u64 waited;            /* 248: ring that is waited for: bytes consumed, and 1, when somebody had waited in vain */
};
_Static_assert(sizeof(struct weir_control) == 256, "docs/segment.md");
_Static_assert(__builtin_offsetof(struct weir_control, spare_or_consumer) == 64, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_control, fresh) == 128, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_control, tail) == 144, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_control, changes) == 160, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_control, full) == 192, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_control, evicted) == 224, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_control, withheld) == 232, "src/abi.rs");

/* Words that whoever loads the runtime fills in, once, before anything runs. */
struct weir_island {
    u64 segment;       /* address of the segment's header, whose counters are incremented */
    u64 clock_gettime; /* address of the vDSO's clock_gettime, or 0 for the system call */
    u32 pid;           /* what get_current_pid_tgid answers in its upper half */
    u32 flags;
    u64 pid_namespace_device; /* of the process's pid namespace, as stat(2) says; 0: not known */
    u64 pid_namespace_inode;
    u64 print;         /* address of void (const u8 *text, u64 bytes), which takes what programs print; or 0 */
    u32 tick_ns;       /* nanoseconds of a jiffy; 0: not known */
    int rseq;          /* from fs to a thread's struct rseq, where memory may be loaded directly; or 0 */
    u64 filter;        /* address of the process's word that is not 0 once it has a system call filter, by which its own segment is found; or 0 */
};
_Static_assert(sizeof(struct weir_island) == 64, "island.c and src/runtime.rs");
/* process_vm_readv takes the thread's own id: `pid` is not this process as it sees itself. */
#define ISLAND_READ_BY_TID 1u
/* The target ran under seccomp when weir came, whose filter may kill for a call it does not know: none is made. */
#define ISLAND_NO_SYSTEM_CALLS 2u
/* The CPU is asked of the kernel: what runs the process (valgrind) does not know lsl. */
#define ISLAND_ASK_CPU 8u
/* The time stamp counter may be read, and the segment's clock is this process's. */
#define ISLAND_READS_TICKS 16u
extern const volatile struct weir_island weir_island;

/* Offset of the counters in the segment header, and their order (src/abi.rs). */
#define HEADER_COUNTERS 1024
enum { COUNT_SLOW_READS, COUNT_READ_FAULTS, COUNT_READS_DENIED, COUNT_COMM_CALLS, COUNT_COMM_DENIED,
       COUNT_TID_DENIED, COUNT_OTHER_CALLS, COUNT_OTHER_DENIED, COUNT_PRINTS_DROPPED,
       COUNT_LANES_EXHAUSTED, COUNT_TAIL_DEPTH, COUNT_NO_RECORD };
/* CLOCK_MONOTONIC as lines over the time stamp counter, kept by the controller (src/clock.rs). */
#define HEADER_CLOCK 640
struct weir_clock {
    u64 version; /* 0: there is none; twice the number of the newest line, odd while the next is written */
    struct weir_line {
        u64 ticks; /* from here on */
        u64 ns;    /* the time at `ticks` */
        u64 rate;  /* ns a tick, times 2^64 */
    } lines[2];    /* line n at n modulo 2 */
};
_Static_assert(sizeof(struct weir_clock) == 56, "docs/segment.md");
/* What the dynamic linker of a process announces, in the process's own segment (src/segment/announce.rs). Numbers come
 * round again; the upper halves are for nothing. */
#define HEADER_ANNOUNCE 768
struct weir_counter { u32 value, reserved; };
struct weir_announce {
    struct weir_counter is_open;   /* 1 while there is somebody to answer */
    struct weir_counter announced; /* the number of the last announcement; waited for by the controller */
    struct weir_counter taken;     /* the last one that the controller has begun to work on */
    struct weir_counter answered;  /* the last one that it is done with; waited for by the target */
    struct weir_counter late;      /* announcements that nobody waited for the answer of, or not long enough */
    struct weir_counter gave_up;     /* of forked children: `taken`, and 1, when one had waited in vain */
};
_Static_assert(sizeof(struct weir_announce) == 48, "docs/segment.md");
/* In the maps the same words are for forked children, which announce themselves (src/segment/announce.rs): `taken` grows whenever the controller
 * has done something for one. A child's own words are behind the gates of an island, in pages that the kernel wipes in a child. */
enum { FORKED_FRESH, FORKED_ASKS, FORKED_WAITS_NOW, FORKED_GOES_ON, FORKED_STATE = 7 };
#define FORKED_WAITS (1ul << 32)
struct weir_forked {
    u32 state;
    u32 number;    /* of its announcement */
    u32 worked;    /* the last `taken` that was seen, */
    u32 reserved;
    s64 worked_at; /* and since when: CLOCK_BOOTTIME, ns */
    s64 began;
};
_Static_assert(sizeof(struct weir_forked) == 32, "weir-probe, src/code/forked.rs");
/* Whether the process has come under seccomp since, in its own segment (src/segment/filter.rs). It never falls. */
#define HEADER_FILTER 832
/* In the same: where weir's code is in the process, and the stubs of replaced return addresses: {start, bytes, records, power of two of a
 * record's bytes}, 0 where there are none. */
#define PLACE_ISLAND_COUNT 272
#define PLACE_ISLANDS 280
#define PLACE_ISLANDS_MAX 16
#define PLACE_STUBS 536
/* Addresses of what signal handlers return to, up to two; 0: none is known. */
#define PLACE_RESTORERS 568
/* Beside the kernel's questions to bpf_ringbuf_query, which knows it not and answers 0: wait until there is room, as many milliseconds at most as
 * the bits below say. */
#define RB_WAIT (1ul << 30)
enum { FILTER_NONE, FILTER_ASKED, FILTER_SEEN, FILTER_STRICT };
/* The number of the process's control group, in its own segment, as the controller has seen it; 0: not known. */
#define HEADER_CGROUP 840
/* In the same: not 0 where forked children wait to be probed. */
#define HEADER_FORKED 848
/* Who has the segment lives: not 0 in its lower half (src/segment/lease.rs). */
#define HEADER_LEASE 704
/* What is known of the process's memory, in its own segment (src/segment/reads.rs). */
#define HEADER_READS 960
struct weir_reads {
    u64 always; /* 1: what gates of those that watch over the table lead to */
    u64 never;  /* 0: and those that are shut */
    u64 state;  /* below; of READS_TURN the number of calls that may have changed something */
    u64 area;   /* where struct weir_known is in the segment; or 0 */
};
/* Bits of the state. A table is known by its epoch, which stands above READS_EPOCH. */
#define READS_KIND 3ul
enum { READS_OFF, READS_VALID, READS_STALE }; /* stale: not in use any more, but a sequence may not know yet */
#define READS_CLOSED 4ul
#define READS_HOLDS 7ul
#define READS_EPOCH 8u
#define READS_TURN (1ul << 32)
/* Ranges of a table, calls under way that are noted, and how many places are looked at for one. */
enum { READS_RANGES = 255, READS_CALLS = 256, READS_WINDOW = 32, READS_HINTS = 32 };
/* Bits of a call's key: its memory is being written; a child shares all memory until the parent comes back. */
enum { CALL_BUSY = 1, CALL_SHARES = 2 };
#define CALL_BITS 7ul
/* Why a table was closed for good. */
enum { WHY_SHARED = 1, WHY_KEYS, WHY_FAULTS, WHY_CALLS, WHY_FILTER };
struct weir_range { u64 start, end; };
/* In use is the table whose number is the epoch modulo 2. */
struct weir_known {
    u64 missed; /* reads that found no known memory */
    u64 why;
    u8 hints[READS_HINTS]; /* by a part of the address: the range that it was found in last */
    u64 pad[2];
    u64 keys[READS_CALLS];
    struct weir_range calls[READS_CALLS];
    struct weir_ranges {
        u64 count;
        u64 heap_end;
        struct weir_range ranges[READS_RANGES]; /* by address */
    } tables[2];
};
_Static_assert(sizeof(struct weir_known) == 64 + 2048 + 4096 + 2 * 4096, "src/abi.rs");
/* The word that random numbers are made of. */
#define HEADER_RANDOM 600

/* Words of struct pt_regs. */
enum { CONTEXT_BP = 4, CONTEXT_R10 = 7, CONTEXT_R8 = 9, CONTEXT_AX = 10, CONTEXT_CX = 11, CONTEXT_DX = 12, CONTEXT_SI = 13, CONTEXT_DI = 14, CONTEXT_IP = 16,
       CONTEXT_SP = 19 };
/* The byte behind them, and behind what follows of vector registers, in a frame that says that the run is at a function's first instruction (src/executable.rs). */
enum { FRAME_IS_ENTRY = 250 };
/* Of a packet's context. */
enum { CONTEXT_DATA = 0, CONTEXT_DATA_END = 1, CONTEXT_LINK = 3, CONTEXT_NETWORK = 4 };
/* The header that an offset counts from (enum bpf_hdr_start_off). */
enum { HEADER_LINK = 0, HEADER_NETWORK = 1 };

/* How the map is laid out: what holds maps is a hash, or an array, of their numbers. */
INLINE int is_hash(const struct weir_map *map)
{
    return map->kind == KIND_HASH || map->kind == KIND_PERCPU_HASH || map->kind == KIND_LRU_HASH ||
           map->kind == KIND_LRU_PERCPU_HASH || map->kind == KIND_HASH_OF_MAPS;
}

INLINE int is_array(const struct weir_map *map)
{
    return map->kind == KIND_ARRAY || map->kind == KIND_PERCPU_ARRAY || map->kind == KIND_ARRAY_OF_MAPS;
}

/* ---- helpers, callable from generated code (System V AMD64 ABI) ---- */
u64 weir_map_lookup_elem(const struct weir_map *map, const void *key);
s64 weir_map_update_elem(const struct weir_map *map, const void *key, const void *value, u64 flags);
s64 weir_map_delete_elem(const struct weir_map *map, const void *key);
s64 weir_map_push_elem(const struct weir_map *map, const void *value, u64 flags);
s64 weir_map_pop_elem(const struct weir_map *map, void *value);
s64 weir_map_peek_elem(const struct weir_map *map, void *value);
u64 weir_map_lookup_percpu_elem(const struct weir_map *map, const void *key, u64 cpu);
u64 weir_ktime_get_ns(void);
u64 weir_get_smp_processor_id(void);
u64 weir_get_current_pid_tgid(void);
s64 weir_get_current_comm(void *buffer, u64 size);
s64 weir_probe_read_user(void *destination, u64 size, u64 source);
s64 weir_probe_read_user_str(void *destination, u64 size, u64 source);
s64 weir_ringbuf_output(const struct weir_map *map, const void *data, u64 size, u64 flags);
u64 weir_ringbuf_reserve(const struct weir_map *map, u64 size, u64 flags);
u64 weir_ringbuf_submit(void *record, u64 flags);
u64 weir_ringbuf_discard(void *record, u64 flags);
u64 weir_ringbuf_query(const struct weir_map *map, u64 what);
s64 weir_ringbuf_reserve_dynptr(const struct weir_map *map, u64 size, u64 flags, void *dynptr);
u64 weir_ringbuf_submit_dynptr(void *dynptr, u64 flags);
u64 weir_ringbuf_discard_dynptr(void *dynptr, u64 flags);
s64 weir_dynptr_read(u8 *to, u64 size, const void *dynptr, u64 offset, u64 flags);
s64 weir_dynptr_write(const void *dynptr, u64 offset, const u8 *from, u64 size, u64 flags);
u64 weir_dynptr_data(const void *dynptr, u64 offset, u64 size);
s64 weir_perf_event_output(const void *context, const struct weir_map *map, u64 flags, const void *data, u64 size);
s64 weir_get_stackid(const void *context, const struct weir_map *map, u64 flags);
s64 weir_get_stack(const void *context, void *buffer, u64 size, u64 flags);
s64 weir_current_task_under_cgroup(const struct weir_map *map, u64 index);
u64 weir_ktime_get_boot_ns(void);
u64 weir_ktime_get_coarse_ns(void);
u64 weir_ktime_get_tai_ns(void);
u64 weir_jiffies64(void);
u64 weir_get_prandom_u32(void);
u64 weir_get_current_uid_gid(void);
u64 weir_get_current_cgroup_id(void);
u64 weir_get_numa_node_id(void);
s64 weir_get_ns_current_pid_tgid(u64 device, u64 inode, void *ids, u64 size);
s64 weir_send_signal(u64 signal);
s64 weir_send_signal_thread(u64 signal);
s64 weir_probe_write_user(u64 destination, const void *source, u64 size);
u64 weir_get_func_ip(const void *context);
s64 weir_skb_load_bytes(const void *context, u64 offset, u8 *to, u64 bytes);
s64 weir_skb_load_bytes_relative(const void *context, u64 offset, u8 *to, u64 bytes, u64 header);
u64 weir_redirect(u64 device, u64 flags);
u64 weir_redirect_classified(u64 device, u64 flags);
u64 weir_redirect_map(const struct weir_map *map, u64 index, u64 flags);
s64 weir_not_here(void);
s64 weir_strncmp(const u8 *text, u64 size, const u8 *string, u64, u64, u64 string_bytes);
s64 weir_csum_diff(const u8 *from, u64 from_size, const u8 *to, u64 to_size, u64 seed);
s64 weir_snprintf(u8 *text, u64 size, const u8 *format, const u64 *words, u64 bytes, u64 format_bytes);
s64 weir_trace_printk(const u8 *format, u64 format_bytes, u64 a, u64 b, u64 c);
s64 weir_trace_vprintk(const u8 *format, u64 format_bytes, const u64 *words, u64 bytes);

/* ---- what generated code calls without an instruction of its own that says so ---- */
/* A lane for one run: its number, or -1 (counted). `claims`: a word a lane, CLAIM_STRIDE apart. */
s64 weir_lane_claim(u64 claims, u32 cpus, u32 lanes, u64 owner);
/* The map helpers of a run that has claimed `lane`. */
u64 weir_map_lookup_lane(const struct weir_map *map, const void *key, u64 lane);
s64 weir_map_update_lane(const struct weir_map *map, const void *key, const void *value, u64 flags, u64 lane);

/* Bytes from one claim to the next: a cache line, so that CPUs do not share one. */
#define CLAIM_STRIDE 64u
/* As `lane` of an update: `value` holds one for each lane, each rounded up to words. */
#define EVERY_LANE 0xfffffffful

/* What stands at the dynamic linker's `r_brk`. */
void weir_announce(struct weir_announce *words, const u32 *state);
void weir_filter(u32 *word, const u64_word *registers, u32 is_syscall);
/* What a forked child does at a hit. */
u64 weir_forked(struct weir_forked *child);

/* What stands before a system call that may take memory away, `number` or what ax says; behind it; and at `r_brk`. */
#define NUMBER_IN_AX (~0ul)
void weir_unmapping(struct weir_reads *reads, const u64_word *registers, u64 number);
void weir_unmapped(struct weir_reads *reads, const u64_word *registers);
void weir_withdraw_reads(struct weir_reads *reads);
/* Before a filter comes, after which no thread can be interrupted. */
void weir_close_reads(struct weir_reads *reads);

/* Reads memory without a system call: whether it did. A text's bytes with its NUL, else 0. */
int weir_read_direct(void *to, u64 size, u64 from);
s64 weir_read_direct_str(u8 *to, u64 size, u64 from);

/* Reads up to `size` bytes of the process's memory, for other helpers: bytes read, from the first on. */
u64 weir_read_some(void *to, u64 size, u64 from);

/* A place between two elements of a map; zeros are before the first. */
struct weir_cursor {
    u64 bucket; /* of an array: the next index */
    u64 hash;   /* of a hash: the least that is still to come in the bucket */
    u64 index;  /* of an array: the index of the element that came last */
    u64 key;    /* address of the key that came last */
    u64 count;  /* elements that came */
};
_Static_assert(sizeof(struct weir_cursor) == 40, "src/abi.rs");
_Static_assert(__builtin_offsetof(struct weir_cursor, key) == 24, "src/abi.rs");

/* A helper of weir's own: the key that comes next, and the cursor behind it. */
u64 weir_map_next_key(const struct weir_map *map, u64 at, u8 *key, u64 size);

/* Address of the next element's value, in `lane` where the map has some; 0: there is none. */
u64 weir_map_next(const struct weir_map *map, struct weir_cursor *at, u64 lane);

/* The kernel function of the same name (kfunc.rs of weir-ebpf): what slots of the context lead to, and its bytes. */
u64 weir_declared_copy(u8 *to, u64 size, const u64_word *context, u64 which);

/* ---- one implementation per kind ---- */
u64 weir_hash_lookup(const struct weir_map *map, const void *key);
u64 weir_hash_lookup_4(const struct weir_map *map, const void *key);
u64 weir_hash_lookup_8(const struct weir_map *map, const void *key);
u64 weir_hash_lookup_16(const struct weir_map *map, const void *key);
s64 weir_hash_update(const struct weir_map *map, const void *key, const void *value, u64 flags, u64 lane);
s64 weir_hash_update_4(const struct weir_map *map, const void *key, const void *value, u64 flags, u64 lane);
s64 weir_hash_update_8(const struct weir_map *map, const void *key, const void *value, u64 flags, u64 lane);
s64 weir_hash_delete(const struct weir_map *map, const void *key);
u64 weir_lpm_lookup(const struct weir_map *map, const void *key);
s64 weir_lpm_update(const struct weir_map *map, const void *key, const void *value, u64 flags);
s64 weir_lpm_delete(const struct weir_map *map, const void *key);
s64 weir_queue_push(const struct weir_map *map, const u8 *value, u64 flags);
s64 weir_queue_pop(const struct weir_map *map, u8 *value);
s64 weir_queue_peek(const struct weir_map *map, u8 *value);
s64 weir_stack_push(const struct weir_map *map, const u8 *value, u64 flags);
s64 weir_stack_pop(const struct weir_map *map, u8 *value);
s64 weir_bloom_push(const struct weir_map *map, const u8 *value, u64 flags);
s64 weir_bloom_peek(const struct weir_map *map, const u8 *value);
s64 weir_stack_peek(const struct weir_map *map, u8 *value);

/* ---- atomics ---- */
INLINE u64 load(const void *at) { return __atomic_load_n((const u64_word *)at, __ATOMIC_ACQUIRE); }
INLINE u64 load_relaxed(const void *at) { return __atomic_load_n((const u64_word *)at, __ATOMIC_RELAXED); }
INLINE void store(void *at, u64 value) { __atomic_store_n((u64_word *)at, value, __ATOMIC_RELEASE); }
INLINE void store_relaxed(void *at, u64 value) { __atomic_store_n((u64_word *)at, value, __ATOMIC_RELAXED); }
/* Orders the plain reads before it against the validating read after it. */
INLINE void read_fence(void) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
INLINE int cas(void *at, u64 expected, u64 desired)
{
    return __atomic_compare_exchange_n((u64_word *)at, &expected, desired, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
/* Two words at a multiple of 16, as one. */
INLINE int cas_pair(void *at, u64 low, u64 high, u64 new_low, u64 new_high)
{
    return swap_pair(at, &low, &high, new_low, new_high);
}
INLINE void set_bits(void *at, u64 bits) { __atomic_fetch_or((u64_word *)at, bits, __ATOMIC_RELEASE); }
INLINE void count_at(u64 address) { __atomic_fetch_add((u64_word *)address, 1, __ATOMIC_RELAXED); }
/* How the process has come under seccomp since weir came. */
INLINE u32 filter_now(void)
{
    u64 at = weir_island.filter;
    return at ? __atomic_load_n((const u32 *)at, __ATOMIC_ACQUIRE) : FILTER_NONE;
}

/* Whether a filter that kills could know of no call. Asked before each one, as another call may be what installs it. */
INLINE int may_call_kernel(void)
{
    return !(weir_island.flags & ISLAND_NO_SYSTEM_CALLS) && filter_now() == FILTER_NONE;
}

INLINE void count(u32 which)
{
    u64 segment = weir_island.segment;
    if (segment)
        count_at(segment + HEADER_COUNTERS + 8ul * which);
}
INLINE struct weir_control *control_of(const struct weir_map *map) { return (struct weir_control *)map->control; }

/* ---- bytes ---- */
/* Word n of `bytes` bytes at `from`; a last part of a word is padded with zeros and never read past. */
INLINE u64 word_of(const u8 *from, u32 bytes, u32 n)
{
    u32 at = n * 8;
    if (at + 8 <= bytes)
        return *(const u64_any *)(from + at);
    u64 word = 0;
    for (u32 i = at; i < bytes; i++)
        word |= (u64)from[i] << (8 * (i - at));
    return word;
}
INLINE u32 words(u32 bytes) { return (bytes + 7) / 8; }
/* Copies into words that others may read at the same time. */
INLINE void copy_in(u64 to, const u8 *from, u32 bytes)
{
    for (u32 n = 0; n < words(bytes); n++)
        store_relaxed((void *)(to + 8ul * n), word_of(from, bytes, n));
}
/* The reverse: words that others may write at the same time, to memory of the program's at any alignment. */
INLINE void copy_to(u8 *to, u64 from, u32 bytes)
{
    for (u32 n = 0; n < words(bytes); n++) {
        u64 word = load_relaxed((void *)(from + 8ul * n));
        if (n * 8 + 8 <= bytes) {
            *(u64_any *)(to + n * 8) = word;
            continue;
        }
        for (u32 i = n * 8; i < bytes; i++, word >>= 8)
            *(volatile u8 *)(to + i) = (u8)word;
    }
}
INLINE void zero_bytes(u8 *to, u32 bytes)
{
    for (u32 i = 0; i < bytes; i++)
        *(volatile u8 *)(to + i) = 0;
}
INLINE void zero_words(u64 to, u32 bytes)
{
    for (u32 n = 0; n < words(bytes); n++)
        store_relaxed((void *)(to + 8ul * n), 0);
}

/* Sets the value whose lane 0 is at `at`: of one lane, those of the others being zero where the element is new; or
 * of every lane. Maps without lanes have lane 0 alone. */
INLINE void set_value(const struct weir_map *map, u64 at, const u8 *value, u64 lane, int is_new)
{
    if (lane == EVERY_LANE) {
        for (u32 n = 0; n < map->lanes; n++)
            copy_in(at + n * map->lane_stride, value + 8ul * n * words(map->value_bytes), map->value_bytes);
        return;
    }
    for (u32 n = 0; is_new && n < map->lanes; n++)
        if (n != lane)
            zero_words(at + n * map->lane_stride, map->value_bytes);
    copy_in(at + lane * map->lane_stride, value, map->value_bytes);
}

/* ---- system calls ---- */
struct timespec { s64 seconds; s64 nanoseconds; };
#define SECOND 1000000000l
#define MS (SECOND / 1000)
enum { CLOCK_MONOTONIC = 1, FUTEX_WAKE = 1, FUTEX_WAIT_BITSET = 9, FUTEX_ALL = 0x7fffffff };
enum { SYS_GETPID = 39, SYS_KILL = 62, SYS_GETUID = 102, SYS_GETGID = 104, SYS_PRCTL = 157, SYS_GETTID = 186,
       SYS_FUTEX = 202, SYS_CLOCK_GETTIME = 228, SYS_TGKILL = 234, SYS_GETCPU = 309, SYS_PROCESS_VM_READV = 310,
       SYS_PROCESS_VM_WRITEV = 311 };

#endif
