/*
 * weir/bpf.h: verified eBPF programs inside your program.
 *
 * Objects (.bpf.o, as clang makes them) or bare instructions (RFC 9669) are opened, their programs verified, and run
 * by machine code (x86-64) or by an interpreter. Maps belong to the opened object and are shared by its programs; they
 * are memory of this process.
 *
 *     object = weir_bpf_open_file("filter.bpf.o", NULL);
 *     program = weir_bpf_load(object, "filter", WEIR_BPF_JIT, 0);
 *     weir_bpf_run(program, packet, length, &verdict);
 *
 * Results: functions that return a pointer return NULL for an error; those that return int return 0 (or a number that
 * is not negative) or a negative errno. weir_bpf_error() says what was wrong, in words, with the source line of the
 * program where there is one.
 *
 * Threads: every function may be called by several threads at once, on the same object and program as well. An object
 * may be closed while its programs are loaded: what they need stays.
 *
 * Link with `pkg-config --cflags --libs weir-bpf`, or with libweir_bpf.a: `pkg-config --cflags --libs weir-bpf-static`.
 */
#ifndef WEIR_BPF_H
#define WEIR_BPF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_bpf_object;
struct weir_bpf_program;

/* What runs a program: machine code, or an interpreter where memory that is executable is not wanted. The second
 * interpreter is much slower, and checks every access as if nobody had verified the program; it also runs what the
 * first one leaves to it: tail calls, functions of the kernel, objects with per-CPU maps. */
enum weir_bpf_engine {
	WEIR_BPF_INTERPRETER = 0,
	WEIR_BPF_JIT = 1,
	WEIR_BPF_CHECKING_INTERPRETER = 2,
};

/* How to open; all zeros is right for most. */
struct weir_bpf_options {
	size_t size;          /* of this struct: sizeof(struct weir_bpf_options) */
	const void *btf;      /* the types that CO-RE relocations are answered from; NULL: /sys/kernel/btf/vmlinux */
	size_t btf_size;
};

/* A map's definition; kind is the kernel's enum bpf_map_type. */
struct weir_bpf_map_info {
	const char *name;     /* lives as long as the object */
	uint32_t kind;
	uint32_t key_size;
	uint32_t value_size;
	uint32_t max_entries;
	uint32_t flags;
};

/* The library's version, as "0.1.0". */
const char *weir_bpf_version(void);

/* What the last call of this thread that failed was about. Valid until the next one that fails. */
const char *weir_bpf_error(void);

/* ---- objects ---- */

/* Opens the object file in `size` bytes. `options` may be NULL. */
struct weir_bpf_object *weir_bpf_open(const void *bytes, size_t size, const struct weir_bpf_options *options);
struct weir_bpf_object *weir_bpf_open_file(const char *path, const struct weir_bpf_options *options);

/* `count` instructions of 8 bytes as the one program, called "program": r1 is its memory (or 0), r2 the memory's
 * length. */
struct weir_bpf_object *weir_bpf_open_instructions(const void *instructions, size_t count);

void weir_bpf_close(struct weir_bpf_object *object);

/* How many programs there are, and the name of each; NULL past the end. */
size_t weir_bpf_programs(const struct weir_bpf_object *object);
const char *weir_bpf_program_name(const struct weir_bpf_object *object, size_t index);

/* ---- programs ---- */

/* Verifies the program of that name (NULL: the only one): 0 if it is safe, -EACCES if it is not, -EOPNOTSUPP if it uses
 * what weir does not run, -E2BIG if showing that it is safe takes too long, -ENOENT. `memory_size`: of the memory that
 * a program of bare instructions will be given; programs of objects do not depend on it. */
int weir_bpf_verify(const struct weir_bpf_object *object, const char *name, size_t memory_size);

/* Verifies it and makes it ready. */
struct weir_bpf_program *weir_bpf_load(const struct weir_bpf_object *object, const char *name,
				       enum weir_bpf_engine engine, size_t memory_size);
/* The same with a limit of how long a run may take: `rounds` (at most 8388607) of all its loops that only helpers (bpf_loop,
 * bpf_for_each_map_elem) or may_goto bound, those inside others with them. Where there are no more each such loop ends, and
 * the run is -ETIME; what it did until then stays done. -EOPNOTSUPP of a program that makes tail calls. */
struct weir_bpf_program *weir_bpf_load_limited(const struct weir_bpf_object *object, const char *name,
					       enum weir_bpf_engine engine, size_t memory_size, uint32_t rounds);
void weir_bpf_unload(struct weir_bpf_program *program);

/* Runs it on `size` bytes at `data`, and puts r0 into *result (which may be NULL). What `data` is depends on the
 * program's section:
 *   xdp, tc, socket, cgroup_skb
 *                    the packet; programs of the former two may change it. For tc the whole packet was captured
 *   sk_msg           the message, which programs may change
 *   cgroup/sock      the first bytes of a struct bpf_sock, which is read
 *   syscall          the memory, as with instructions
 *   uprobe, kprobe   a struct pt_regs of 168 bytes, or 232 with 8 floating-point arguments behind it, or NULL for
 *                    zeros; it is read
 *   (instructions)   the memory: as many bytes as it was verified for, aligned to 8
 * -EINVAL if the size or alignment is another one. */
int weir_bpf_run(const struct weir_bpf_program *program, void *data, size_t size, uint64_t *result);

/* ---- maps: as bpf(2) has them ----
 *
 * What stands for a descriptor in bpf(2) is a number of the object here: the value of an array of programs is the number
 * of a program (its place in weir_bpf_programs), that of a map that holds maps the number of a map. Tail calls lead
 * anywhere only in objects whose definition fills an array of programs. */

/* The number of the map of that name, or -ENOENT. */
int weir_bpf_map(const struct weir_bpf_object *object, const char *name);
int weir_bpf_map_info(const struct weir_bpf_object *object, int map, struct weir_bpf_map_info *info);

/* Keys and values have the sizes of the definition. The value of a per-CPU map is the sum over CPUs, word by word;
 * setting it sets the first CPU's, and the others' to 0. */
int weir_bpf_map_lookup(const struct weir_bpf_object *object, int map, const void *key, void *value);
int weir_bpf_map_update(const struct weir_bpf_object *object, int map, const void *key, const void *value, uint64_t flags);

/* The values of a per-CPU map one by one. A run has one of them to itself: that of its CPU, or, where another run has it
 * (one that this one interrupted, or preempted), one of 16 more, which stand behind those of the CPUs. How many there are
 * (1 for maps of other kinds), all of them, and setting the first `count` (the others become 0); each value takes its size
 * rounded up to 8 bytes. -EINVAL for maps of other kinds. */
int weir_bpf_map_lanes(const struct weir_bpf_object *object, int map);
int weir_bpf_map_lookup_lanes(const struct weir_bpf_object *object, int map, const void *key, void *values);
int weir_bpf_map_update_lanes(const struct weir_bpf_object *object, int map, const void *key, const void *values,
			      size_t count, uint64_t flags);
/* Runs that did nothing but answer 0, since every value was another run's. */
uint64_t weir_bpf_skipped(const struct weir_bpf_object *object);

int weir_bpf_map_delete(const struct weir_bpf_object *object, int map, const void *key);
/* The key behind `key` (NULL: the first) into `next`; -ENOENT at the end. */
int weir_bpf_map_next_key(const struct weir_bpf_object *object, int map, const void *key, void *next);

/* Takes the oldest record of a ring into `record`; the number of its bytes, 0 if there is none. Of a record of more than
 * `size` bytes the rest is lost, and the number is that of the whole. Records of user_ring and perf_event maps are not
 * read by this library yet; nor are those of a ring that overwrites (-EOPNOTSUPP). */
long weir_bpf_ring_read(const struct weir_bpf_object *object, int map, void *record, size_t size);

/* ---- packet filters ----
 *
 *     filter = weir_pcap_compile("tcp port 80", DLT_EN10MB, NULL);
 *     if (weir_pcap_match(filter, packet, captured, on_the_wire))
 *             ...
 *
 * Expressions are those of pcap-filter(7), compiled to machine code. Names of hosts, ports, protocols and networks are looked
 * up as libpcap does: in the system's databases, and by its resolver. */

struct weir_pcap_filter;

/* Whose meaning expressions have: libpcap's, or that in which vlan and its like bind what they are joined with by `and`, `or`
 * and `not` behave as in logic, and IPv6's extension headers are seen through (docs/pcap.md). */
enum weir_pcap_mode {
	WEIR_PCAP_COMPAT = 0,
	WEIR_PCAP_SCOPED = 1,
};

/* What a filter is compiled for; all zeros is right for most. */
struct weir_pcap_options {
	size_t size;          /* of this struct: sizeof(struct weir_pcap_options) */
	uint32_t snaplen;     /* what a match returns; 0: 262144 */
	uint32_t netmask;     /* of the network that packets come from, 0xffffff00 for 255.255.255.0; 0: not known */
	int mode;             /* enum weir_pcap_mode */
};

/* Compiles `expression` ("" keeps every packet) for packets of a link type, a DLT_ value such as 1 (DLT_EN10MB). `options` may be
 * NULL. NULL if it is refused: weir_bpf_error() says why, and at which byte of the expression. */
struct weir_pcap_filter *weir_pcap_compile(const char *expression, int link_type, const struct weir_pcap_options *options);

/* What is to be kept of a packet, in bytes, and 0 if nothing is: `captured` bytes of it are at `packet`, and it had `length` on
 * the wire. */
uint32_t weir_pcap_match(const struct weir_pcap_filter *filter, const void *packet, size_t captured, uint32_t length);

/* The filter in classic BPF, as SO_ATTACH_FILTER takes it: up to `count` instructions (struct sock_filter, 8 bytes each) go to
 * `instructions`. How many there are in all, or -E2BIG if classic BPF cannot say it. */
long weir_pcap_classic(const struct weir_pcap_filter *filter, void *instructions, size_t count);

void weir_pcap_free(struct weir_pcap_filter *filter);

#ifdef __cplusplus
}
#endif
#endif
