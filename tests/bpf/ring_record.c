/* A record reserved in a ring, filled in place, and submitted or discarded. */
#include "bpf_helpers.h"

struct event {
	u64 time;
	u32 pid;
	u32 cpu;
	u64 size;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} events SEC(".maps");

SEC("uprobe/alloc") int alloc(struct pt_regs *ctx)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return -1;
	event->time = bpf_ktime_get_ns();
	event->pid = bpf_get_current_pid_tgid() >> 32;
	event->cpu = bpf_get_smp_processor_id();
	event->size = PARM1(ctx);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	if (PARM1(ctx) < 16) {
		bpf_ringbuf_discard(event, 0);
		return 0;
	}
	bpf_ringbuf_submit(event, 0);
	return sizeof(*event);
}

char LICENSE[] SEC("license") = "GPL";
