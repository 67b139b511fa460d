/* A record made on the stack and copied into a ring. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} out SEC(".maps");

SEC("kprobe/write") int write(struct pt_regs *ctx)
{
	u64 record[3] = { PARM1(ctx), PARM2(ctx), PARM3(ctx) };
	return bpf_ringbuf_output(&out, record, sizeof(record), 0) ? -1 : 24;
}

char LICENSE[] SEC("license") = "GPL";
