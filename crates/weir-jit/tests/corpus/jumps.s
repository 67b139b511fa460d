; Jumps: RFC 9669, 4.3.

program "loop with a bound" probe
; r0 = 55
r0 = 0
r2 = 10
again:
r0 += r2
r2 += -1
if r2 != 0 goto again
exit

program "comparison is unsigned or signed" probe
; context di = 0xffffffffffffffff si = 1
; r0 = 5
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
r0 = 0
if r2 <= r3 goto a
r0 += 1
a:
if r2 s> r3 goto b
r0 += 4
b:
exit

program "32-bit comparison ignores the upper half" probe
; context di = 0x100000001 si = 1
; r0 = 1
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
r0 = 0
if w2 != w3 goto out
r0 = 1
if r2 != r3 goto out
r0 = 2
out:
exit

program "32-bit signed comparison" probe
; context di = 0x80000000
; r0 = 1
r2 = *(u64 *)(r1 + 112)
r0 = 1
if w2 s< 0 goto out
r0 = 0
out:
exit

program "comparison with a negative immediate" probe
; context di = 0xffffffffffffffff
; r0 = 1
r2 = *(u64 *)(r1 + 112)
r0 = 1
if r2 == -1 goto out
r0 = 0
out:
exit

program "bit test" probe
; context di = 0x8000000000000000 si = 0xc000000000000000
; r0 = 1
r2 = *(u64 *)(r1 + 112)
r3 = *(u64 *)(r1 + 104)
r0 = 1
if r2 & r3 goto out
r0 = 0
out:
exit

program "bit test with an immediate is sign-extended" probe
; context di = 0x8000000000000000
; r0 = 1
r2 = *(u64 *)(r1 + 112)
r0 = 1
if r2 & -0x80000000 goto out
r0 = 0
out:
exit

program "32-bit bit test sees the lower half" probe
; context di = 0x8000000000000000
; r0 = 0
r2 = *(u64 *)(r1 + 112)
r0 = 1
if w2 & -0x80000000 goto out
r0 = 0
out:
exit

program "long jump" probe
; r0 = 3
r0 = 3
gotol +0x1
r0 = 4
exit

program "several exits" probe
; context di = 2
; r0 = 20
r6 = *(u64 *)(r1 + 112)
r0 = 10
if r6 == 1 goto one
r0 = 20
if r6 == 2 goto two
r0 = 30
exit
one:
exit
two:
exit

program "r0 differs by path" probe
; context di = 1
; r0 = 7
r2 = *(u64 *)(r1 + 112)
r3 = 0
if r2 == 0 goto out
r3 = 7
out:
r0 = r3
exit
