/* A histogram of powers of two, as the libbpf tools keep it: an array of slots in one value. */
#include "bpf_helpers.h"

#define SLOTS 27

struct hist {
	u32 slots[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hist);
} hists SEC(".maps");

static __always_inline u32 log2(u32 v)
{
	u32 shift, r;
	r = (v > 0xffff) << 4;
	v >>= r;
	shift = (v > 0xff) << 3;
	v >>= shift;
	r |= shift;
	shift = (v > 0xf) << 2;
	v >>= shift;
	r |= shift;
	shift = (v > 0x3) << 1;
	v >>= shift;
	r |= shift;
	return r | (v >> 1);
}

SEC("uprobe/latency") int latency(struct pt_regs *ctx)
{
	u32 zero = 0;
	struct hist *hist = bpf_map_lookup_elem(&hists, &zero);
	if (!hist)
		return -1;
	u32 slot = log2(PARM1(ctx));
	if (slot >= SLOTS)
		slot = SLOTS - 1;
	__sync_fetch_and_add(&hist->slots[slot], 1);
	return slot;
}

char LICENSE[] SEC("license") = "GPL";
