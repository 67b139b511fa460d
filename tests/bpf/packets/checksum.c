/* The checksum of an IPv4 header of any length: a loop over words at a distance that the packet says. */
#include "packet.h"

SEC("xdp") int check(struct xdp_md *ctx)
{
	void *end = END(ctx);
	struct ipv4 *ip = START(ctx) + sizeof(struct ethernet);
	if ((void *)(ip + 1) > end)
		return -1;
	u32 words = (ip->version_words & 15) * 2, sum = 0;
	u16 *at = (void *)ip;
	for (u32 i = 0; i < 30; i++) {
		if (i >= words)
			break;
		/* Else clang compares a number of words, which no verifier connects with the end. */
		asm volatile("" : "+r"(at));
		if ((void *)(at + 1) > end)
			return -2;
		sum += *at++;
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

char LICENSE[] SEC("license") = "GPL";
