/* Two programs that share a map: the time between a call and its return. */
#include "bpf_helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__uint(map_flags, 1 /* BPF_F_NO_PREALLOC */);
	__type(key, u32);
	__type(value, u64);
} starts SEC(".maps");

SEC("uprobe/call") int call(struct pt_regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();
	return bpf_map_update_elem(&starts, &tid, &now, BPF_ANY);
}

SEC("uretprobe/call") int ret(struct pt_regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 *start = bpf_map_lookup_elem(&starts, &tid);
	if (!start)
		return 1;
	u64 taken = bpf_ktime_get_ns() - *start;
	bpf_map_delete_elem(&starts, &tid);
	return taken > 1000000000ULL * 60 ? 2 : 3;
}

char LICENSE[] SEC("license") = "GPL";
