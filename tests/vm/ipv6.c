/* 96 IPv6 packets with chains of extension headers (RFC 8200), to the upper header of each. */
#define MEMORY_BYTES (96 * 128 + 16)
#include "vm.h"

#define PACKETS 96
#define PACKET_BYTES 128

INLINE u64 run(u8 *memory)
{
	u64 answer = 0;
	for (u32 i = 0; i < PACKETS; i++) {
		const u8 *packet = memory + i * PACKET_BYTES;
		if (packet[12] != 0x86 || packet[13] != 0xdd || packet[14] >> 4 != 6)
			continue;
		u32 next = packet[14 + 6], at = 14 + 40;
		for (u32 header = 0; header < 6; header++) {
			/* Hop-by-hop, routing, destination options; a fragment header has no length. */
			u32 is_long = next == 0 || next == 43 || next == 60;
			if (!is_long && next != 44)
				break;
			const u8 *extension = packet + (at & (PACKET_BYTES - 1));
			u32 length = is_long ? ((u32)extension[1] + 1) * 8 : 8;
			next = extension[0];
			at += length;
		}
		const u8 *upper = packet + (at & (PACKET_BYTES - 1));
		u32 ports = (u32)upper[0] << 24 | (u32)upper[1] << 16 | (u32)upper[2] << 8 | upper[3];
		answer = answer * 31 + (ports ^ next << 8) + at;
	}
	return folded(answer);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	static const u8 chain[] = { 0, 43, 60, 44, 6 };
	random_fill(memory, MEMORY_BYTES, 19);
	for (u32 i = 0; i < PACKETS; i++) {
		u8 *packet = memory + i * PACKET_BYTES;
		packet[12] = 0x86, packet[13] = 0xdd, packet[14] = 0x60;
		/* The later packets have shorter chains, the last none. */
		u8 *next = packet + 20;
		u32 at = 54;
		for (u32 header = i % 5; header < 4; header++) {
			*next = chain[header];
			next = packet + at;
			packet[at + 1] = header == 0;
			at += header == 0 ? 16 : 8;
		}
		*next = i & 1 ? 6 : 17;
	}
}
#endif
