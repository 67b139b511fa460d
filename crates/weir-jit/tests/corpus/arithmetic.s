; 64- and 32-bit arithmetic: RFC 9669, 4.1.

program "add wraps" probe
; context di = 0xffffffffffffffff si = 2
; r0 = 1
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 += r2
exit

program "add immediate is sign-extended" probe
; context di = 5
; r0 = 4
r0 = *(u64 *)(r1 + 112)
r0 += -1
exit

program "32-bit add clears the upper half" probe
; context di = 0xffffffffffffffff si = 2
; r0 = 1
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
w0 += w2
exit

program "32-bit add of 0 clears the upper half" probe
; context di = 0xdeadbeef00000007
; r0 = 7
r0 = *(u64 *)(r1 + 112)
w0 += 0
exit

program "sub from itself" probe
; context di = 77
; r0 = 0
r0 = *(u64 *)(r1 + 112)
r0 -= r0
exit

program "mul keeps the low half" probe
; context di = 0x100000001 si = 0x100000001
; r0 = 0x200000001
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 *= r2
exit

program "mul by a negative immediate" probe
; context di = 7
; r0 = 0xffffffffffffffeb
r0 = *(u64 *)(r1 + 112)
r0 *= -3
exit

program "div is unsigned" probe
; context di = 0xfffffffffffffff6 si = 2
; r0 = 0x7ffffffffffffffb
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 /= r2
exit

program "div immediate is sign-extended, then unsigned" probe
; context di = 0xffffffffffffffff
; r0 = 1
r0 = *(u64 *)(r1 + 112)
r0 /= -1
exit

program "div by zero is 0" probe
; context di = 5
; r0 = 0
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 /= r2
exit

program "mod by zero is the dividend" probe
; context di = 0x1234567890
; r0 = 0x1234567890
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 %= r2
exit

program "32-bit mod by zero clears the upper half" probe
; context di = 0x1234567890
; r0 = 0x34567890
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
w0 %= w2
exit

program "signed div truncates" probe
; context di = 0xfffffffffffffff9 si = 2
; r0 = 0xfffffffffffffffd
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 s/= r2
exit

program "signed mod has the sign of the dividend" probe
; context di = 0xfffffffffffffff9 si = 2
; r0 = 0xffffffffffffffff
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 s%= r2
exit

program "signed div of the least number by -1" probe
; context di = 0x8000000000000000 si = 0xffffffffffffffff
; r0 = 0x8000000000000000
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 s/= r2
exit

program "signed mod of the least number by -1" probe
; context di = 0x8000000000000000 si = 0xffffffffffffffff
; r0 = 0
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 s%= r2
exit

program "32-bit signed div of the least number by -1" probe
; context di = 0x80000000 si = 0xffffffff
; r0 = 0x80000000
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
w0 s/= w2
exit

program "div leaves the other registers" probe
; context di = 100 si = 7 dx = 3 cx = 4
; r0 = 0x2a5
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r3 = *(u64 *)(r1 + 96)
r4 = *(u64 *)(r1 + 88)
r5 = r0
r5 /= r2
r4 %= r3
r0 += r5
r0 *= r3
r0 *= 2
r0 += r4
r0 -= 8
exit

program "div with the divisor in r0" probe
; context di = 100 si = 7
; r0 = 14
r2 = *(u64 *)(r1 + 112)
r0 = *(u64 *)(r1 + 104)
r2 /= r0
r0 = r2
exit

program "mod of r3 by r3's neighbour" probe
; context di = 100 si = 7
; r0 = 0x207
r3 = *(u64 *)(r1 + 112)
r0 = *(u64 *)(r1 + 104)
r3 %= r0
r3 <<= 8
r0 += r3
exit

program "and or xor" probe
; context di = 0xff00ff00ff00ff00 si = 0x0ff00ff00ff00ff0
; r0 = 0xf0f0f0f0f0f0f0f0
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r3 = r0
r3 &= r2
r0 |= r2
r0 ^= r3
exit

program "neg" probe
; context di = 1
; r0 = 0xffffffffffffffff
r0 = *(u64 *)(r1 + 112)
r0 = -r0
exit

program "32-bit neg" probe
; context di = 0xffffffff00000001
; r0 = 0xffffffff
r0 = *(u64 *)(r1 + 112)
w0 = -w0
exit

program "shift counts are taken modulo 64" probe
; context di = 1 si = 65
; r0 = 2
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 <<= r2
exit

program "32-bit shift counts are taken modulo 32" probe
; context di = 0xf00000001 si = 33
; r0 = 2
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
w0 <<= w2
exit

program "32-bit shift by 0 clears the upper half" probe
; context di = 0xf00000001 si = 32
; r0 = 1
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
w0 >>= w2
exit

program "arithmetic shift keeps the sign" probe
; context di = 0x8000000000000000 si = 63
; r0 = 0xffffffffffffffff
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
r0 s>>= r2
exit

program "32-bit arithmetic shift keeps the sign of bit 31" probe
; context di = 0x80000000 si = 4
; r0 = 0xf8000000
r0 = *(u64 *)(r1 + 112)
r2 = *(u64 *)(r1 + 104)
w0 s>>= w2
exit

program "shift of r4 by r4" probe
; context di = 3
; r0 = 24
r4 = *(u64 *)(r1 + 112)
r4 <<= r4
r0 = r4
exit

program "shift of r4 by another register" probe
; context di = 3 si = 2
; r0 = 0x20c
r4 = *(u64 *)(r1 + 112)
r0 = *(u64 *)(r1 + 104)
r4 <<= r0
r0 <<= 8
r0 += r4
exit

program "shift by r4 leaves r4" probe
; context di = 3 si = 2
; r0 = 0x302
r4 = *(u64 *)(r1 + 104)
r0 = *(u64 *)(r1 + 112)
r0 <<= r4
r0 <<= 6
r0 += r4
exit
