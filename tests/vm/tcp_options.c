/*
 * 48 TCP segments over IPv4 with options: headers parsed byte by byte, options walked, flows folded. Each lies in
 * 128 bytes; every third is something else, and is passed over.
 */
#define MEMORY_BYTES (48 * 128)
#include "vm.h"

#ifndef PACKETS
#define PACKETS 48
#endif
#ifndef LOOP
#define LOOP
#endif
#define PACKET_BYTES 128

INLINE u32 big16(const u8 *bytes)
{
	return (u32)bytes[0] << 8 | bytes[1];
}

INLINE u32 big32(const u8 *bytes)
{
	return (u32)bytes[0] << 24 | (u32)bytes[1] << 16 | (u32)bytes[2] << 8 | bytes[3];
}

/* Maximum segment size, window scale and the time stamp, of at most 40 bytes of options. */
INLINE u64 options(const u8 *packet, u32 at, u32 end)
{
	u64 found = 0;
	for (u32 round = 0; round < 12 && at < end && at < PACKET_BYTES - 12; round++) {
		const u8 *option = packet + at;
		u32 kind = option[0];
		if (kind == 0)
			break;
		if (kind == 1) {
			at++;
			continue;
		}
		u32 length = option[1];
		if (length < 2 || length > 40)
			break;
		if (kind == 2)
			found += big16(option + 2);
		else if (kind == 3)
			found += (u64)option[2] << 16;
		else if (kind == 8)
			found += (u64)big32(option + 2) << 20 ^ big32(option + 6);
		at += length;
	}
	return found;
}

INLINE u64 run(u8 *memory)
{
	u64 answer = 0;
	LOOP for (u32 i = 0; i < PACKETS; i++) {
		const u8 *packet = memory + i * PACKET_BYTES;
		if (big16(packet + 12) != 0x0800)
			continue;
		const u8 *ip = packet + 14;
		if (ip[0] >> 4 != 4 || ip[9] != 6)
			continue;
		u32 header_bytes = (ip[0] & 15) * 4;
		if (header_bytes < 20 || big16(ip + 6) & 0x1fff)
			continue;
		u64 flow = (u64)big32(ip + 12) << 32 | big32(ip + 16);
		u32 at = 14 + header_bytes;
		const u8 *tcp = packet + at;
		u64 ports = big32(tcp);
		u32 tcp_bytes = (tcp[12] >> 4) * 4;
		if (tcp_bytes < 20)
			continue;
		u64 sequence = big32(tcp + 4);
		answer = answer * 31 + (flow ^ ports << 16 ^ sequence) + tcp[13];
		answer += options(packet, at + 20, at + tcp_bytes);
	}
	return folded(answer);
}

#ifdef VM_NATIVE
void prepare(u8 *memory)
{
	static const u8 tcp_options[] = {
		2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 1, 3, 3, 7,
	};
	random_fill(memory, MEMORY_BYTES, 8);
	for (u32 i = 0; i < PACKETS; i++) {
		u8 *packet = memory + i * PACKET_BYTES;
		packet[12] = i % 3 == 2 ? 0x86 : 0x08;
		packet[13] = 0;
		/* Every other one has 4 bytes of IP options. */
		u32 words = 5 + i % 2;
		packet[14] = 0x40 | words;
		packet[20] = packet[21] = 0;
		packet[23] = 6;
		u8 *tcp = packet + 14 + words * 4;
		tcp[12] = 10 << 4;
		for (u32 at = 0; at < sizeof tcp_options; at++)
			tcp[20 + at] = tcp_options[at];
	}
}
#endif
