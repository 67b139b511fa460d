; Maps: inlined array lookups, addresses of values, and helper calls.

map @array array key 4 value 24 entries 4
map @words array key 4 value 8 entries 16
map @hash hash key 8 value 8 entries 16
map @lanes percpu_array key 4 value 8 entries 3
map @percpu percpu_hash key 8 value 16 entries 16

program "constant key" probe
; context di = 5
; r0 = 5
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = 3
r2 = r10
r2 += -4
r1 = map[@array] ll
call map_lookup_elem
if r0 == 0 goto out
*(u64 *)(r0 + 16) = r6
r1 = map[@array][0] + 0x10 ll
r0 = *(u64 *)(r0 + 16)
out:
exit

program "value address" probe
; context di = 5
; r0 = 10
r6 = *(u64 *)(r1 + 112)
r2 = map[@array][0] + 0x8 ll
*(u64 *)(r2 + 0) = r6
r3 = map[@array][0] ll
r0 = *(u64 *)(r3 + 8)
lock *(u64 *)(r3 + 8) += r0
r0 = *(u64 *)(r3 + 8)
exit

program "computed key" probe
; context di = 2
; r0 = 0x77
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = r6
r2 = r10
r2 += -4
r1 = map[@array] ll
call map_lookup_elem
if r0 == 0 goto out
r2 = 0x77
*(u64 *)(r0 + 0) = r2
*(u32 *)(r10 - 4) = 2
r2 = r10
r2 += -4
r1 = map[@array] ll
call map_lookup_elem
if r0 == 0 goto out
r0 = *(u64 *)(r0 + 0)
out:
exit

program "computed key with a stride of 8" probe
; context di = 15
; r0 = 0x88
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = r6
r2 = r10
r2 += -4
r1 = map[@words] ll
call map_lookup_elem
if r0 == 0 goto out
r2 = 0x88
*(u64 *)(r0 + 0) = r2
r1 = map[@words][0] ll
r0 = 1
*(u32 *)(r10 - 4) = 15
r2 = r10
r2 += -4
r1 = map[@words] ll
call map_lookup_elem
if r0 == 0 goto out
r0 = *(u64 *)(r0 + 0)
out:
exit

program "computed key out of range" probe
; context di = 4
; r0 = 0
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = r6
r2 = r10
r2 += -4
r1 = map[@array] ll
call map_lookup_elem
if r0 == 0 goto out
r0 = 1
out:
exit

program "key that is negative as a number" probe
; context di = 0xffffffff
; r0 = 0
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = r6
r2 = r10
r2 += -4
r1 = map[@array] ll
call map_lookup_elem
if r0 == 0 goto out
r0 = 1
out:
exit

program "per-CPU count, as the compiler writes it" probe
; r0 = 0
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = 1
lock *(u64 *)(r0 + 0) += r1
out:
r0 = 0
exit

program "per-CPU count by a computed key" probe
; context di = 2
; r0 = 2
r6 = *(u64 *)(r1 + 112)
*(u32 *)(r10 - 4) = r6
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r7 = r0
lock *(u64 *)(r7 + 0) += r6
r0 = r6
out:
exit

program "hash: update, look up, delete" probe
; context di = 5 si = 0x1234
; r0 = 0x1235
r6 = *(u64 *)(r1 + 112)
r7 = *(u64 *)(r1 + 104)
*(u64 *)(r10 - 8) = r6
*(u64 *)(r10 - 16) = r7
r1 = map[@hash] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 0
call map_update_elem
r8 = r0
r1 = map[@hash] ll
r2 = r10
r2 += -8
call map_lookup_elem
if r0 == 0 goto none
r9 = *(u64 *)(r0 + 0)
r1 = map[@hash] ll
r2 = r10
r2 += -8
call map_delete_elem
r8 += r0
r1 = map[@hash] ll
r2 = r10
r2 += -8
call map_lookup_elem
if r0 != 0 goto none
r0 = r9
r0 += r8
r0 += 1
exit
none:
r0 = 0
exit

program "per-CPU hash: count twice" probe
; context di = 5
; r0 = 2
r6 = *(u64 *)(r1 + 112)
r7 = 0
*(u64 *)(r10 - 8) = r6
*(u64 *)(r10 - 24) = 0
*(u64 *)(r10 - 16) = 0
r1 = map[@percpu] ll
r2 = r10
r2 += -8
r3 = r10
r3 += -24
r4 = 0
call map_update_elem
r1 = map[@percpu] ll
r2 = r10
r2 += -8
call map_lookup_elem
if r0 == 0 goto out
r1 = 1
lock *(u64 *)(r0 + 8) += r1
r7 = r0
lock *(u64 *)(r7 + 8) += r1
r0 = 2
out:
exit
