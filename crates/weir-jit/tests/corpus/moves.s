; Moves, sign extension, byte order, wide constants: RFC 9669, 4.1, 4.2, 5.4.

program "mov immediate is sign-extended" probe
; r0 = 0xfffffffffffffffe
r0 = -2
exit

program "32-bit mov immediate is zero-extended" probe
; r0 = 0xfffffffe
w0 = -2
exit

program "32-bit mov clears the upper half" probe
; context di = 0x123456789abcdef0
; r0 = 0x9abcdef0
r2 = *(u64 *)(r1 + 112)
w0 = w2
exit

program "wide constant" probe
; r0 = 0x123456789abcdef0
r0 = 0x123456789abcdef0 ll
exit

program "sign extension of 8 bits" probe
; context di = 0x80
; r0 = 0xffffffffffffff80
r2 = *(u64 *)(r1 + 112)
r0 = (s8)r2
exit

program "sign extension of 16 bits" probe
; context di = 0x18000
; r0 = 0xffffffffffff8000
r2 = *(u64 *)(r1 + 112)
r0 = (s16)r2
exit

program "sign extension of 32 bits" probe
; context di = 0x180000000
; r0 = 0xffffffff80000000
r2 = *(u64 *)(r1 + 112)
r0 = (s32)r2
exit

program "sign extension of 8 bits to 32" probe
; context di = 0x80
; r0 = 0xffffff80
r2 = *(u64 *)(r1 + 112)
w0 = (s8)w2
exit

program "sign extension of 16 bits to 32" probe
; context di = 0x7fff
; r0 = 0x7fff
r2 = *(u64 *)(r1 + 112)
w0 = (s16)w2
exit

program "bswap16 cuts" probe
; context di = 0x123456789abcdef0
; r0 = 0xf0de
r0 = *(u64 *)(r1 + 112)
r0 = bswap16 r0
exit

program "bswap32 cuts" probe
; context di = 0x123456789abcdef0
; r0 = 0xf0debc9a
r0 = *(u64 *)(r1 + 112)
r0 = bswap32 r0
exit

program "bswap64" probe
; context di = 0x123456789abcdef0
; r0 = 0xf0debc9a78563412
r0 = *(u64 *)(r1 + 112)
r0 = bswap64 r0
exit

program "be16" probe
; context di = 0x123456789abcdef0
; r0 = 0xf0de
r6 = *(u64 *)(r1 + 112)
r6 = be16 r6
r0 = r6
exit

program "be64 in a high register" probe
; context di = 0x123456789abcdef0
; r0 = 0xf0debc9a78563412
r9 = *(u64 *)(r1 + 112)
r9 = be64 r9
r0 = r9
exit

program "le16 cuts" probe
; context di = 0x123456789abcdef0
; r0 = 0xdef0
r0 = *(u64 *)(r1 + 112)
r0 = le16 r0
exit

program "le32 cuts" probe
; context di = 0x123456789abcdef0
; r0 = 0x9abcdef0
r0 = *(u64 *)(r1 + 112)
r0 = le32 r0
exit

program "le64 does nothing" probe
; context di = 0x123456789abcdef0
; r0 = 0x123456789abcdef0
r0 = *(u64 *)(r1 + 112)
r0 = le64 r0
exit
