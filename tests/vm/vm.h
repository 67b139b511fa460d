/*
 * One function body, three builds, so that engines are compared on the same work:
 *
 *   -target bpf -DVM_MAP   `program`, a socket filter: memory is the value of an array map (weir, the kernel)
 *   -target bpf            `program`, a function of memory in r1 (virtual machines without maps)
 *   native, -DVM_NATIVE    `program`, a function; `prepare`, which fills the memory that every engine gets a copy of
 *
 * A file says MEMORY_BYTES, includes this header, and has `run`, which must give the same answer however often it is
 * called: what it changes lies in memory that it writes before it reads. What it needs of constant tables, `prepare`
 * puts into memory, since not every machine has data sections. Files that need maps of their own say VM_NEEDS_MAPS;
 * they have `run` only in the first build.
 *
 * Files called large_* are other files with their loops unrolled, to measure what it takes to verify and to compile;
 * those called op_* do a thousand operations on a map, op_loop the loop without one. Numbers and names of kinds and helpers are the kernel's.
 */
#ifndef WEIR_VM_H
#define WEIR_VM_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

#if defined(VM_MAP) || !defined(VM_NEEDS_MAPS)
INLINE u64 run(u8 *memory);
#endif

/* Nobody knows what x is from here on: keeps the compiler from making branches of masks. */
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))

/* All of an answer in the 32 bits that the kernel hands out. */
INLINE u64 folded(u64 x)
{
	return (u32)(x ^ x >> 32);
}

#ifdef VM_NATIVE

const u32 memory_bytes = MEMORY_BYTES;

void prepare(u8 *memory);

/* xorshift64*, for inputs that look like nothing. */
INLINE u64 random_next(u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

INLINE void random_fill(u8 *bytes, u32 count, u64 seed)
{
	for (u32 i = 0; i < count; i++)
		bytes[i] = random_next(&seed) >> 56;
}

#ifndef VM_NEEDS_MAPS
__attribute__((noinline)) u64 program(u8 *memory)
{
	return run(memory);
}
#endif

#elif defined(VM_MAP)

#define __uint(name, value) int (*name)[value]
#define __type(name, value) __typeof__(value) *name
#define MAP __attribute__((section(".maps"), used))

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
};

enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8[MEMORY_BYTES]);
} memory_map MAP;

__attribute__((section("socket"), used)) int program(void *context)
{
	u32 first = 0;
	u8 *memory = bpf_map_lookup_elem(&memory_map, &first);
	return memory ? run(memory) : 0;
}

char LICENSE[] __attribute__((section("license"), used)) = "GPL";

#elif !defined(VM_NEEDS_MAPS)

/* In a section of its own, as the beginning of what `.text` has besides. */
__attribute__((section("vm"), used)) u64 program(u8 *memory)
{
	return run(memory);
}

#endif
#endif
