/* A string of the traced program as a key, its length as the answer. */
#include "bpf_helpers.h"

struct name {
	char text[32];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, struct name);
	__type(value, u64);
} opened SEC(".maps");

SEC("uprobe/libc.so.6:open") int open(struct pt_regs *ctx)
{
	struct name name = {};
	u64 one = 1, *seen;
	long length = bpf_probe_read_user_str(name.text, sizeof(name.text), (void *)PARM1(ctx));
	if (length < 0)
		return length;
	seen = bpf_map_lookup_elem(&opened, &name);
	if (seen)
		__sync_fetch_and_add(seen, 1);
	else
		bpf_map_update_elem(&opened, &name, &one, BPF_ANY);
	return length;
}

char LICENSE[] SEC("license") = "GPL";
