/* A socket filter that reads its packet by packet loads: protocols counted, the port of a query as the answer. */
#include "packet.h"

u64 load_byte(void *ctx, u64 offset) asm("llvm.bpf.load.byte");
u64 load_half(void *ctx, u64 offset) asm("llvm.bpf.load.half");
u64 load_word(void *ctx, u64 offset) asm("llvm.bpf.load.word");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u64);
} protocols SEC(".maps");

#define LINK -0x200000

SEC("socket") int filter(struct __sk_buff *ctx)
{
	if (load_half(ctx, LINK + 12) != ETH_P_IP)
		return load_byte(ctx, LINK + 6) + 1;
	u32 protocol = load_byte(ctx, 9), words = load_byte(ctx, 0) & 15;
	u64 *count = bpf_map_lookup_elem(&protocols, &protocol);
	if (count)
		__sync_fetch_and_add(count, 1);
	if (protocol != IPPROTO_UDP)
		return load_word(ctx, 12) & 0xff;
	return load_half(ctx, words * 4 + 2);
}

char LICENSE[] SEC("license") = "GPL";
