/*
 * Stacks of the process, by frame pointers: get_stack, get_stackid, and the buckets of STACK_TRACE.
 *
 * A stack is what the kernel makes of the same registers: the instruction pointer, then the return address of each
 * frame on the chain that begins at rbp, up to 127. At the first instruction of a function no frame is there yet, so
 * that the word at rsp comes second (FRAME_IS_ENTRY). All is read like any memory of the process, directly where that is
 * known to be there: a chain that leads to a bad address ends there; under seccomp there is the instruction pointer alone. There is no stack of the kernel
 * here (-EOPNOTSUPP), and no build ids (the same).
 *
 * Calls whose return is probed come back to weir's code. A return address that leads there is not shown, but the one that the caller has left:
 * it lies above what weir keeps on the stack, or in the record of a replaced one (weir-probe, code/through.rs and code/replace.rs).
 *
 * A bucket is {state:64, hash:32, count:32, addresses}. The state is a version and what the bucket is: empty, being
 * written, full. A writer takes an empty bucket (or a full one, with BPF_F_REUSE_STACKID) by one CAS and gives it free
 * by a store; whoever reads looks at the state before and after. Nobody waits: a bucket that is being written, by a
 * thread that was interrupted or is dead, holds another stack (-EEXIST). Each bucket has its memory, so that none is
 * refused for want of it (the kernel's -ENOMEM).
 */
#include "weir.h"

enum { DEPTH_MAX = 127, WINDOW_BYTES = 256, LOWEST = 4096 };
enum { EMPTY = 0, WRITING = 1, FULL = 2, STATE_MASK = 3, VERSION = 4 };

struct bucket { u64 state; u32 hash; u32 count; u64 addresses[]; };
struct frame { u64 next; u64 return_address; };
/* The part of the stack that was read last, where a read is a system call: frames lie near each other. */
struct window { u64 start; u64 bytes; u64 words[WINDOW_BYTES / 8]; };

/* The two words at `at`. False: they cannot be read. Nothing is at the lowest addresses, where chains end as a rule. */
static int read_frame(struct window *window, u64 at, struct frame *frame)
{
    if (at < LOWEST)
        return 0;
    if (at < window->start || at - window->start + sizeof *frame > window->bytes) {
        if (weir_read_direct(frame, sizeof *frame, at))
            return 1;
        window->start = at;
        window->bytes = weir_read_some(window->words, WINDOW_BYTES, at);
        if (window->bytes < sizeof *frame)
            return 0;
    }
    const u64_any *words = (const u64_any *)((u8 *)window->words + (at - window->start));
    frame->next = words[0];
    frame->return_address = words[1];
    return 1;
}

/* What lies between a function that is called through and its caller, from the return address on: words that are kept, of which this byte of the
 * first one says how many there are. */
enum { KEPT_WORDS = 6, KEPT_WORDS_MAX = 32 };
/* A stub has 16 bytes; of its record the first two words are where the return address was, with marks below 8, and what it was. */
enum { STUB_SHIFT = 4, MARKS = 7 };
/* Tail calls put one return address in place of another, as often as TAIL_DEPTH_MAX says. */
enum { NESTED_MAX = 80 };

INLINE int is_of_island(u64 own, u64 address)
{
    u64 count = load((const u8 *)(own + PLACE_ISLAND_COUNT));
    for (u64 n = 0; n < count && n < PLACE_ISLANDS_MAX; n++) {
        const u8 *range = (const u8 *)(own + PLACE_ISLANDS + 16 * n);
        if (address - load_relaxed(range) < load_relaxed(range + 8))
            return 1;
    }
    return 0;
}

/* The return address at `slot`, or what is there for it where that is weir's own. */
static u64 return_address_of(struct window *window, u64 slot, u64 address)
{
    u64 own = weir_island.filter ? weir_island.filter - HEADER_FILTER : 0;
    struct frame frame;
    for (u32 nested = 0; own && nested < NESTED_MAX && is_of_island(own, address); nested++) {
        const u8 *stubs = (const u8 *)(own + PLACE_STUBS);
        u64 stub = address - load_relaxed(stubs), records = load_relaxed(stubs + 16), shift = load_relaxed(stubs + 24);
        if (stub < load_relaxed(stubs + 8)) {
            if (!read_frame(window, records + ((stub >> STUB_SHIFT) << (shift & 31)), &frame))
                break;
            slot = frame.next & ~(u64)MARKS;
            address = frame.return_address;
            continue;
        }
        if (!read_frame(window, slot, &frame))
            break;
        u64 words = frame.return_address >> (8 * KEPT_WORDS) & 0xff;
        if (frame.next != address || words == 0 || words > KEPT_WORDS_MAX)
            break;
        slot += 8 + 8 * words;
        if (!read_frame(window, slot, &frame))
            break;
        address = frame.next;
    }
    return address;
}

/* Up to `most` addresses: their number. */
static __attribute__((noinline)) u32 unwind(const void *context, u64 *addresses, u32 most)
{
    const u64_word *registers = context;
    u64 base = registers[CONTEXT_BP];
    struct window window;
    window.start = window.bytes = 0;
    struct frame frame;
    u32 count = 0;
    if (most)
        addresses[count++] = registers[CONTEXT_IP];
    if (((const u8 *)context)[FRAME_IS_ENTRY] && count < most && read_frame(&window, registers[CONTEXT_SP] - 8, &frame))
        addresses[count++] = return_address_of(&window, registers[CONTEXT_SP], frame.return_address);
    while (count < most && read_frame(&window, base, &frame)) {
        addresses[count++] = return_address_of(&window, base + 8, frame.return_address);
        base = frame.next;
    }
    return count;
}

INLINE u32 depth_of(u64 addresses, u64 skip)
{
    u64 depth = addresses + skip;
    return depth < DEPTH_MAX ? (u32)depth : DEPTH_MAX;
}

s64 weir_get_stack(const void *context, void *buffer, u64 size, u64 flags)
{
    u64 stack[DEPTH_MAX];
    u64 skip = flags & BPF_F_SKIP_FIELD_MASK, room = size / 8, found = 0;
    s64 result = 0;
    if (flags & ~(u64)(BPF_F_SKIP_FIELD_MASK | BPF_F_USER_STACK | BPF_F_USER_BUILD_ID))
        result = -EINVAL;
    else if (flags & BPF_F_USER_BUILD_ID)
        result = flags & BPF_F_USER_STACK ? -EOPNOTSUPP : -EINVAL;
    else if (size % 8)
        result = -EINVAL;
    else if (!(flags & BPF_F_USER_STACK))
        result = -EOPNOTSUPP;
    else {
        u64 count = unwind(context, stack, depth_of(room, skip));
        if (count < skip)
            result = -EFAULT;
        else
            found = count - skip < room ? count - skip : room;
    }
    for (u64 n = 0; n < room; n++)
        *(volatile u64_any *)((u8 *)buffer + 8 * n) = n < found ? stack[skip + n] : 0;
    for (u64 n = room * 8; n < size; n++)
        *(volatile u8 *)((u8 *)buffer + n) = 0;
    return result ? result : (s64)(found * 8);
}

static u32 hash_of_stack(const struct weir_map *map, const u64 *stack, u32 count)
{
    u64 hash = map->seed ^ count;
    for (u32 n = 0; n < count; n++) {
        hash = (hash ^ stack[n]) * 0x9e3779b97f4a7c15ul;
        hash ^= hash >> 32;
    }
    return (u32)hash;
}

INLINE int is_same(const struct bucket *bucket, const u64 *stack, u32 count)
{
    for (u32 n = 0; n < count; n++)
        if (load_relaxed(&bucket->addresses[n]) != stack[n])
            return 0;
    return 1;
}

/* The bucket's number, or a negative errno. */
static s64 put(const struct weir_map *map, const u64 *stack, u32 count, u64 flags)
{
    u32 hash = hash_of_stack(map, stack, count);
    u32 id = hash & map->bucket_mask;
    struct bucket *bucket = (struct bucket *)(map->data + (u64)id * map->elem_stride);
    u64 state = load(&bucket->state);
    u64 head = (u64)count << 32 | hash;
    if ((state & STATE_MASK) == FULL) {
        u64 known = load_relaxed(&bucket->hash);
        int matches = (u32)known == hash;
        if (matches && !(flags & BPF_F_FAST_STACK_CMP))
            matches = known == head && is_same(bucket, stack, count);
        read_fence();
        if (matches && load(&bucket->state) == state)
            return id;
        if (!(flags & BPF_F_REUSE_STACKID))
            return -EEXIST;
    } else if ((state & STATE_MASK) != EMPTY) {
        return -EEXIST;
    }
    u64 writing = (state & ~(u64)STATE_MASK) + VERSION + WRITING;
    if (!cas(&bucket->state, state, writing))
        return -EEXIST;
    store_relaxed(&bucket->hash, head);
    for (u32 n = 0; n < count; n++)
        store_relaxed(&bucket->addresses[n], stack[n]);
    store(&bucket->state, writing - WRITING + FULL);
    return id;
}

s64 weir_get_stackid(const void *context, const struct weir_map *map, u64 flags)
{
    u64 stack[DEPTH_MAX];
    u64 skip = flags & BPF_F_SKIP_FIELD_MASK, room = map->value_bytes / 8;
    if (flags & ~(u64)(BPF_F_SKIP_FIELD_MASK | BPF_F_USER_STACK | BPF_F_FAST_STACK_CMP | BPF_F_REUSE_STACKID))
        return -EINVAL;
    if (!(flags & BPF_F_USER_STACK))
        return -EOPNOTSUPP;
    u32 count = unwind(context, stack, depth_of(room, skip));
    if (count <= skip)
        return -EFAULT;
    u64 found = count - skip < room ? count - skip : room;
    return put(map, stack + skip, (u32)found, flags);
}
