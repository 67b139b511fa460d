; Atomic operations on the stack and in maps: RFC 9669, 5.3.

map @cells array key 4 value 16 entries 4
map @lanes percpu_array key 4 value 16 entries 4

program "add, then fetch it" probe
; context di = 5 si = 7
; r0 = 12
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r2
lock *(u64 *)(r10 - 8) += r3
r0 = *(u64 *)(r10 - 8)
exit

program "32-bit add leaves the upper half" probe
; context di = 0xffffffff si = 1
; r0 = 0
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r2
lock *(u32 *)(r10 - 8) += w3
r0 = *(u64 *)(r10 - 8)
exit

program "or and xor" probe
; context di = 0xff si = 0xf0f
; r0 = 0xfff
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r2
lock *(u64 *)(r10 - 8) |= r3
lock *(u64 *)(r10 - 8) ^= r2
lock *(u64 *)(r10 - 8) |= r2
lock *(u64 *)(r10 - 8) &= r3
lock *(u64 *)(r10 - 8) |= r2
r0 = *(u64 *)(r10 - 8)
exit

program "fetch add" probe
; context di = 5 si = 7
; r0 = 0x50c
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r2
r3 = atomic_fetch_add((u64 *)(r10 - 8), r3)
r0 = *(u64 *)(r10 - 8)
r3 <<= 8
r0 += r3
exit

program "fetch or in r0" probe
; context di = 5 si = 8
; r0 = 0xd05
r2 = *(u64 *)(r1 + 112)
r0 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r2
r0 = atomic_fetch_or((u64 *)(r10 - 8), r0)
r3 = *(u64 *)(r10 - 8)
r3 <<= 8
r0 += r3
exit

program "fetch and leaves r0" probe
; context di = 0xff si = 0x0f
; r0 = 0xff0f07
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
r0 = 7
*(u64 *)(r10 - 8) = r2
r3 = atomic_fetch_and((u64 *)(r10 - 8), r3)
r4 = *(u64 *)(r10 - 8)
r4 <<= 8
r3 <<= 16
r0 += r3
r0 += r4
exit

program "32-bit fetch xor zero-extends" probe
; context di = 0xffffffffffffffff si = 0x1
; r0 = 0xffffffff
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r2
w3 = atomic_fetch_xor((u32 *)(r10 - 8), w3)
r0 = r3
exit

program "exchange" probe
; context di = 5 si = 7
; r0 = 0x507
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r2
r3 = xchg_64(r10 - 8, r3)
r0 = *(u64 *)(r10 - 8)
r3 <<= 8
r0 += r3
exit

program "compare and exchange that succeeds" probe
; context di = 5 si = 7
; r0 = 0x705
r0 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r0
r0 = cmpxchg_64(r10 - 8, r0, r3)
r3 = *(u64 *)(r10 - 8)
r3 <<= 8
r0 += r3
exit

program "compare and exchange that fails" probe
; context di = 5 si = 7
; r0 = 0x505
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
r0 = 6
*(u64 *)(r10 - 8) = r2
r0 = cmpxchg_64(r10 - 8, r0, r3)
r3 = *(u64 *)(r10 - 8)
r3 <<= 8
r0 += r3
exit

program "32-bit compare and exchange clears the upper half of r0" probe
; context di = 0xffffffff00000005 si = 7
; r0 = 5
r0 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r0
w0 = cmpxchg32_32(r10 - 8, w0, w3)
exit

program "fetch through the register that is fetched into" probe
; context di = 0xf0
; r0 = 0xf0
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = 1
r2 = r10
r2 += -4
r1 = map[@cells] ll
call map_lookup_elem
if r0 == 0 goto out
*(u64 *)(r0 + 8) = r6
r7 = 0
r7 = atomic_fetch_or((u64 *)(r0 + 8), r7)
r0 = r7
out:
exit

program "per-CPU add of a register and a constant" probe
; context di = 3
; r0 = 0
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = 2
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r7 = r0
r2 = 1
lock *(u64 *)(r7 + 8) += r6
lock *(u64 *)(r7 + 8) += r2
lock *(u64 *)(r7 + 8) += r6
out:
r0 = 0
exit

program "per-CPU or, and, xor of 32 bits" probe
; context di = 0xf0f0
; r0 = 0
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = 2
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r7 = r0
lock *(u32 *)(r7 + 4) |= w6
r2 = 0xf000
lock *(u32 *)(r7 + 4) &= w2
r2 = 0xf
lock *(u32 *)(r7 + 0) ^= w2
out:
r0 = 0
exit

program "per-CPU add of r4, with r4 needed later" probe
; context di = 3
; r0 = 3
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = 2
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r4 = r6
lock *(u64 *)(r0 + 8) += r4
r3 = r6
lock *(u64 *)(r0 + 0) += r3
r0 = r4
out:
exit

program "per-CPU add of the pointer's own register's neighbour" probe
; context di = 3
; r0 = 0
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = 2
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r4 = r0
r0 = r6
lock *(u64 *)(r4 + 8) += r0
lock *(u32 *)(r4 + 0) += w0
out:
r0 = 0
exit
