; Loads and stores: stack, context. RFC 9669, 5.1 and 5.2.

program "stores of every width" probe
; context di = 0x1122334455667788
; r0 = 0x1122338844558877
r2 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 8) = r2
*(u8 *)(r10 - 4) = r2
r3 = 0x8877
*(u16 *)(r10 - 8) = r3
r3 = 0x44558877
*(u32 *)(r10 - 8) = r3
r0 = *(u64 *)(r10 - 8)
exit

program "stores of immediates" probe
; r0 = 0xfffffffffeff02ff
*(u64 *)(r10 - 8) = -1
*(u8 *)(r10 - 7) = 2
*(u16 *)(r10 - 6) = -257
r0 = *(u64 *)(r10 - 8)
exit

program "loads are zero-extended" probe
; context di = 0xffffffffffffffff
; r0 = 0x1000100fd
r2 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 8) = r2
r0 = *(u8 *)(r10 - 3)
r3 = *(u16 *)(r10 - 6)
r0 += r3
r3 = *(u32 *)(r10 - 8)
r0 += r3
exit

program "sign-extending loads" probe
; context di = 0x80
; r0 = 0xffffffffffffff80
r2 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 8) = r2
r0 = *(s8 *)(r10 - 8)
exit

program "sign-extending loads of 16 and 32 bits" probe
; context di = 0x80008000
; r0 = 0xffffffff80010000
r2 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 8) = r2
r0 = *(s32 *)(r10 - 8)
r3 = *(s16 *)(r10 - 8)
r0 -= r3
exit

program "stack through a copy of the frame pointer" probe
; context di = 9
; r0 = 18
r2 = *(u64 *)(r1 + 112)
r3 = r10
r3 += -64
*(u64 *)(r3 + 8) = r2
r4 = r3
r4 += 8
r0 = *(u64 *)(r4 + 0)
r2 = *(u64 *)(r10 - 56)
r0 += r2
exit

program "a spilled frame pointer comes back" probe
; context di = 9
; r0 = 9
r2 = *(u64 *)(r1 + 112)
r3 = r10
r3 += -32
*(u64 *)(r10 - 8) = r3
*(u64 *)(r10 - 32) = r2
r4 = *(u64 *)(r10 - 8)
r0 = *(u64 *)(r4 + 0)
exit

program "a spilled context comes back" probe
; context di = 9 r15 = 5
; r0 = 14
*(u64 *)(r10 - 8) = r1
r4 = *(u64 *)(r10 - 8)
r0 = *(u64 *)(r4 + 112)
r3 = *(u64 *)(r4 + 0)
r0 += r3
exit

program "context in a saved register" probe
; context di = 9 sp = 0x7fff0000
; r0 = 0x7fff0009
r6 = r1
r7 = r6
r0 = *(u64 *)(r7 + 112)
r2 = *(u64 *)(r6 + 152)
r0 += r2
exit

program "deep stack" probe
; context di = 9
; r0 = 9
r2 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 512) = r2
*(u64 *)(r10 - 8) = r1
r0 = *(u64 *)(r10 - 512)
exit

program "one of two stack slots by path" probe
; context di = 1
; r0 = 22
r2 = *(u64 *)(r1 + 112)
*(u64 *)(r10 - 8) = 11
*(u64 *)(r10 - 16) = 22
r3 = r10
r3 += -8
if r2 == 0 goto out
r3 += -8
out:
r0 = *(u64 *)(r3 + 0)
exit
