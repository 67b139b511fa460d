/* A socket filter that copies its packet: from its first byte, from its headers, with sizes and offsets that the packet
   itself names, at an index of a buffer, and past the end. */
#include "packet.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8[64]);
} last SEC(".maps");

SEC("socket") int copies(struct __sk_buff *skb)
{
	u8 bytes[64] = {};
	u32 zero = 0, sum = 0, size, offset;
	u8 *copy = bpf_map_lookup_elem(&last, &zero);

	if (!copy)
		return 0;
	if (bpf_skb_load_bytes(skb, 0, bytes, 8))
		sum += 1;
	size = (bytes[2] & 31) + 1;
	offset = bytes[3];
	sum += bpf_skb_load_bytes(skb, offset, bytes + 8 + (bytes[5] & 15), size);
	sum = sum * 31 + bpf_skb_load_bytes(skb, (bytes[1] << 24) - 4, bytes + 60, 4);
	sum = sum * 31 + bpf_skb_load_bytes_relative(skb, 12, bytes + 56, 2, BPF_HDR_START_MAC);
	sum = sum * 31 + bpf_skb_load_bytes_relative(skb, bytes[6], bytes + 58, 2, bytes[7] & 3);
	sum = sum * 31 + bpf_skb_load_bytes_relative(skb, bytes[4] << 10, copy, size, BPF_HDR_START_NET);
	for (int i = 0; i < 64; i++)
		sum = sum * 7 + bytes[i];
	return sum & 0x7fffffff;
}

char LICENSE[] SEC("license") = "GPL";
