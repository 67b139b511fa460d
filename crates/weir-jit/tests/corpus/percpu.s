; Per-CPU values read, stored and passed on: each run has a lane to itself. The kernel gives the same answers.

map @lanes percpu_array key 4 value 16 entries 3
map @percpu percpu_hash key 8 value 8 entries 16
map @array array key 4 value 8 entries 1

program "read, change, write" probe
; r0 = 6
*(u32 *)(r10 - 4) = 2
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = *(u64 *)(r0 + 8)
r1 += 6
*(u64 *)(r0 + 8) = r1
r0 = *(u64 *)(r0 + 8)
out:
exit

program "computed key" probe
; r0 = 0x1005
call get_smp_processor_id
r0 &= 0
r0 += 1
*(u32 *)(r10 - 4) = r0
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
*(u16 *)(r0 + 2) = 5
*(u8 *)(r0 + 3) = 0x10
r0 = *(u16 *)(r0 + 2)
out:
exit

program "key beyond the end" probe
; r0 = 7
call get_smp_processor_id
r0 &= 0
r0 += 3
*(u32 *)(r10 - 4) = r0
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 != 0 goto found
r0 = 7
exit
found:
r0 = *(u64 *)(r0 + 0)
exit

program "fetched" probe
; r0 = 12
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r6 = r0
r1 = 5
r1 = atomic_fetch_add((u64 *)(r6 + 0), r1)
r1 = 7
r1 = atomic_fetch_add((u64 *)(r6 + 0), r1)
r0 = *(u64 *)(r6 + 0)
out:
exit

program "compared" probe
; r0 = 9
*(u32 *)(r10 - 4) = 1
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r6 = r0
r0 = 0
r1 = 9
r0 = cmpxchg_64(r6 + 0, r0, r1)
r0 = 0
r0 = cmpxchg_64(r6 + 0, r0, r1)
out:
exit

program "updated hash" probe
; r0 = 30
*(u64 *)(r10 - 8) = 11
*(u64 *)(r10 - 16) = 10
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 0
r1 = map[@percpu] ll
call map_update_elem
*(u64 *)(r10 - 16) = 20
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 2
r1 = map[@percpu] ll
call map_update_elem
r2 = r10
r2 += -8
r1 = map[@percpu] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = *(u64 *)(r0 + 0)
r1 += 10
*(u64 *)(r0 + 0) = r1
r0 = r1
out:
exit

program "updated array" probe
; r0 = 25
*(u32 *)(r10 - 4) = 1
*(u64 *)(r10 - 16) = 25
*(u64 *)(r10 - 24) = 3
r2 = r10
r2 += -4
r3 = r10
r3 += -24
r4 = 0
r1 = map[@lanes] ll
call map_update_elem
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r0 = *(u64 *)(r0 + 8)
out:
exit

program "deleted and new" probe
; r0 = 0
*(u64 *)(r10 - 8) = 1
*(u64 *)(r10 - 16) = 77
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 1
r1 = map[@percpu] ll
call map_update_elem
r2 = r10
r2 += -8
r1 = map[@percpu] ll
call map_delete_elem
*(u64 *)(r10 - 16) = 0
r2 = r10
r2 += -8
r3 = r10
r3 += -16
r4 = 1
r1 = map[@percpu] ll
call map_update_elem
r2 = r10
r2 += -8
r1 = map[@percpu] ll
call map_lookup_elem
if r0 == 0 goto out
r0 = *(u64 *)(r0 + 0)
out:
exit

program "value of this CPU" probe
; r0 = 41
*(u32 *)(r10 - 4) = 2
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
*(u64 *)(r0 + 0) = 41
call get_smp_processor_id
r3 = r0
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_percpu_elem
if r0 == 0 goto out
r0 = *(u64 *)(r0 + 0)
out:
exit

program "value of no CPU" probe
; r0 = 3
*(u32 *)(r10 - 4) = 2
r2 = r10
r2 += -4
r3 = 100000
r1 = map[@lanes] ll
call map_lookup_percpu_elem
if r0 == 0 goto none
r0 = 0
exit
none:
r0 = 3
exit

program "passed to helpers" probe
; r0 = 8
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r6 = r0
*(u64 *)(r6 + 0) = 1
*(u64 *)(r6 + 8) = 8
r2 = r6
r3 = r6
r3 += 8
r4 = 0
r1 = map[@percpu] ll
call map_update_elem
*(u64 *)(r10 - 16) = 1
r2 = r10
r2 += -16
r1 = map[@percpu] ll
call map_lookup_elem
if r0 == 0 goto out
r0 = *(u64 *)(r0 + 0)
out:
exit

program "one map or the other" probe
; r0 = 5
call get_smp_processor_id
r6 = r0
*(u32 *)(r10 - 8) = 0
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -8
r1 = map[@lanes] ll
if r6 < 0x7fffffff goto go
r1 = map[@array] ll
go:
call map_lookup_elem
if r0 == 0 goto out
*(u64 *)(r0 + 0) = 5
r0 = *(u64 *)(r0 + 0)
out:
exit

program "a value or the stack" probe
; r0 = 17
*(u32 *)(r10 - 4) = 0
*(u64 *)(r10 - 16) = 17
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r6 = r0
*(u64 *)(r6 + 0) = 17
call get_smp_processor_id
if r0 & 1 goto here
r6 = r10
r6 += -16
here:
r0 = *(u64 *)(r6 + 0)
out:
exit

program "function" probe
; r0 = 108
r1 = 4
call f
r6 = r0
r1 = 104
call f
exit
f:
r6 = r1
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto back
r1 = *(u64 *)(r0 + 0)
r1 += r6
*(u64 *)(r0 + 0) = r1
r0 = r1
back:
exit

program "rounds" probe
; r0 = 10
*(u64 *)(r10 - 16) = 0
here:
may_goto out
*(u32 *)(r10 - 4) = 0
r2 = r10
r2 += -4
r1 = map[@lanes] ll
call map_lookup_elem
if r0 == 0 goto out
r1 = *(u64 *)(r0 + 0)
r1 += 1
*(u64 *)(r0 + 0) = r1
r1 = *(u64 *)(r10 - 16)
r1 += 1
*(u64 *)(r10 - 16) = r1
if r1 s>= 10 goto out
goto here
out:
r0 = *(u64 *)(r10 - 16)
exit
