/* The kernel's own probes of user space, each with an eBPF program: what weir is measured beside.
 *
 * kernel_probe uprobe|uretprobe|uprobe.multi|uprobe.session empty|count FILE OFFSET: attaches to the instruction at
 * OFFSET of FILE in every process, says `attached`, waits for the end of standard input, and says `count=N`: how often
 * the program `count` ran (a session's runs twice a call). Needs root. Attach types newer than the headers of most
 * systems are numbers here (linux/bpf.h of 6.13). */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRACE_UPROBE_MULTI = 48, TRACE_UPROBE_SESSION = 57 };
enum { CPUS_MAX = 4096 };

/* The head of union bpf_attr for BPF_LINK_CREATE of these types. */
struct link_create {
	uint32_t program, target, type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, unused;
};

static void fail(const char *what)
{
	fprintf(stderr, "kernel_probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long bpf(int command, void *attr, size_t bytes)
{
	return syscall(SYS_bpf, command, attr, bytes);
}

static int make_map(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_PERCPU_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1 };
	long map = bpf(BPF_MAP_CREATE, &attr, sizeof attr);
	if (map < 0)
		fail("BPF_MAP_CREATE");
	return (int)map;
}

static int load(int map, int counts, uint32_t attach_type)
{
	const struct bpf_insn program[] = {
		{ .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 10, .off = -4, .imm = 0 },
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = 10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem },
		{ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 0, .off = 2, .imm = 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = 1 },
		{ .code = BPF_STX | BPF_ATOMIC | BPF_DW, .dst_reg = 0, .src_reg = 1, .imm = BPF_ADD },
		/* The empty program begins here. */
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	const unsigned all = sizeof program / sizeof program[0], skipped = counts ? 0 : all - 2;
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_KPROBE, .insn_cnt = all - skipped };
	attr.insns = (uint64_t)(uintptr_t)(program + skipped);
	attr.license = (uint64_t)(uintptr_t) "GPL";
	attr.expected_attach_type = attach_type;
	long fd = bpf(BPF_PROG_LOAD, &attr, sizeof attr);
	if (fd < 0)
		fail("BPF_PROG_LOAD");
	return (int)fd;
}

static void attach_link(int program, uint32_t type, const char *file, uint64_t offset)
{
	struct link_create attr = { .program = (uint32_t)program, .type = type, .count = 1 };
	attr.path = (uint64_t)(uintptr_t)file;
	attr.offsets = (uint64_t)(uintptr_t)&offset;
	if (bpf(BPF_LINK_CREATE, &attr, sizeof attr) < 0)
		fail("BPF_LINK_CREATE");
}

static void attach_event(int program, int is_return, const char *file, uint64_t offset)
{
	struct perf_event_attr attr = { .size = sizeof attr, .config = (uint64_t)is_return };
	FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	if (!type || fscanf(type, "%u", &attr.type) != 1)
		fail("the type of uprobes");
	fclose(type);
	attr.config1 = (uint64_t)(uintptr_t)file;
	attr.config2 = offset;
	long event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		fail("perf_event_open");
	if (ioctl((int)event, PERF_EVENT_IOC_SET_BPF, program) || ioctl((int)event, PERF_EVENT_IOC_ENABLE, 0))
		fail("PERF_EVENT_IOC_SET_BPF");
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: kernel_probe uprobe|uretprobe|uprobe.multi|uprobe.session empty|count FILE OFFSET\n");
		return 2;
	}
	const char *kind = argv[1], *file = argv[3];
	uint64_t offset = strtoull(argv[4], NULL, 0);
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	setrlimit(RLIMIT_MEMLOCK, &all);
	uint32_t type = 0;
	if (!strcmp(kind, "uprobe.multi"))
		type = TRACE_UPROBE_MULTI;
	else if (!strcmp(kind, "uprobe.session"))
		type = TRACE_UPROBE_SESSION;
	int map = make_map();
	int program = load(map, !strcmp(argv[2], "count"), type);
	if (type)
		attach_link(program, type, file, offset);
	else
		attach_event(program, !strcmp(kind, "uretprobe"), file, offset);
	puts("attached");
	fflush(stdout);
	while (getchar() != EOF)
		;
	static uint64_t values[CPUS_MAX];
	uint32_t key = 0;
	union bpf_attr attr = { .map_fd = (uint32_t)map };
	attr.key = (uint64_t)(uintptr_t)&key;
	attr.value = (uint64_t)(uintptr_t)values;
	if (bpf(BPF_MAP_LOOKUP_ELEM, &attr, sizeof attr))
		fail("BPF_MAP_LOOKUP_ELEM");
	uint64_t count = 0;
	for (int cpu = 0; cpu < CPUS_MAX; cpu++)
		count += values[cpu];
	printf("count=%llu\n", (unsigned long long)count);
	return 0;
}
